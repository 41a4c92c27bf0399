"""What no entry can carry is refused, typed, before anything leaves the node: one refused record ends its producer."""

from __future__ import annotations

from typing import Any

import pytest

from seekpoint.producers import Node
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import LimitExceeded, Refused, UnserializableValue

LONE = "\ud800"
"""Half of a character: no UTF-8 carries it."""


@pytest.mark.parametrize("cause", [{"actor": "x" * 2_000_000}, {"correlation_id": "x" * 2_000_000}])
async def test_a_claim_larger_than_a_record_is_not_sent(cause: dict[str, Any]) -> None:
    """Who opens a process gives texts of his own; the process can be opened all the same."""
    log = MemoryLog(partitions=1)
    async with Node.in_memory(log) as node:
        with pytest.raises(LimitExceeded, match="record limit"):
            await node.open("p", **cause)
        assert log.watermarks(0).high == 0
        async with node.open("p") as process:
            await process.update("status", "open")


@pytest.mark.parametrize(
    "call",
    [
        lambda node, process: node.signal("other", 5),
        lambda node, process: node.signal("other", LONE),
        lambda node, process: node.signal("other", "go", actor=7),
        lambda node, process: node.cancel("other", {"why": "not"}),
        lambda node, process: node.verdict("other", None, "succeeded"),
        lambda node, process: node.open("other", correlation_id=5),
        lambda node, process: process.say(None, "hello"),
        lambda node, process: process.say("user", "hello", name=LONE),
        lambda node, process: process.say("user", "hello", tool_call_id=5),
        lambda node, process: process.transition("running", 5),
        lambda node, process: process.release(5),
    ],
)
async def test_a_value_of_another_type_than_its_fields_is_refused(call: Any) -> None:
    """Nothing of it is in the log, and the process goes on."""
    log = MemoryLog(partitions=1)
    async with Node.in_memory(log) as node, node.open("p") as process:
        await process.transition("starting")
        before = log.watermarks(0).high
        with pytest.raises(Refused, match=r"cannot be (encoded|journaled)") as refused:
            await call(node, process)
        assert isinstance(refused.value, UnserializableValue)
        assert log.watermarks(0).high == before
        await process.update("status", "open")
        assert process.state.context == {"status": "open"}


CUT = "cut \ud83d"
TEXTS: dict[str, tuple[str, Any]] = {
    "$.content": ("say", lambda node, process: process.say("user", CUT)),
    "$.found": ("say a value", lambda node, process: process.say("tool", {"found": CUT}, tool_call_id="1")),
    "$.key": ("update", lambda node, process: process.update(CUT, 1)),
    "$": ("update a value", lambda node, process: process.update("k", CUT)),
    "$.values": ("change", lambda node, process: process.change(set={CUT: 1})),
    "$.kind": ("record", lambda node, process: process.record(CUT, 1)),
    "$.actor": ("signal", lambda node, process: node.signal("p", "s", actor=CUT)),
    "$.name": ("signal name", lambda node, process: node.signal("p", CUT)),
    "$.reason": ("cancel", lambda node, process: node.cancel("p2", CUT)),
    "$.name of a step": ("step", lambda node, process: process.step(CUT, str, 1)),
    "$.name of an effect": ("effect", lambda node, process: process.effect(CUT, str, 1)),
    "$.name of a key": ("key", lambda node, process: process.step("s", str, 1, key=CUT)),
    "$ of receive": ("receive", lambda node, process: process.receive(CUT)),
    "$[0].model": ("request", lambda node, process: process.decide("d", str, {"model": CUT})),
    "$.text": ("response", lambda node, process: process.decide("d", lambda _: {"text": CUT}, {})),
    "$[0]": ("argument", lambda node, process: process.effect("e", str, CUT)),
    "$.policy": ("policy", lambda node, process: process.decide("d", str, {}, policy=CUT)),
}


@pytest.mark.parametrize("path", TEXTS)
async def test_a_text_that_is_cut_through_a_character_is_refused_alike_everywhere(path: str) -> None:
    """One class of errors, which names the place; the process goes on."""
    _, call = TEXTS[path]
    async with Node.in_memory() as node, node.open("p") as process:
        with pytest.raises(UnserializableValue, match="lone surrogate") as refused:
            await call(node, process)
        assert str(refused.value.path).startswith(path.partition(" ")[0])
        assert refused.value.path
        await process.update("status", "open")
