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
        with pytest.raises(Refused, match="cannot be encoded") as refused:
            await call(node, process)
        assert isinstance(refused.value, UnserializableValue)
        assert log.watermarks(0).high == before
        await process.update("status", "open")
        assert process.state.context == {"status": "open"}
