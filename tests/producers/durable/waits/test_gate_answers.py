"""Who answers a gate hears whether there is one, and whether somebody was quicker. On a log in memory."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator
from typing import Any

import pytest

from cuts import until
from seekpoint.consumers.recovery.process_history import newest_entry
from seekpoint.producers import Node, Process, agent, opening
from seekpoint.producers.durable.waits.gate_answers import gate_to_answer, open_gates, opened_us
from seekpoint.producers.node import runtime_of
from seekpoint.producers.process import durable_side
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import Cancelled, GateNotOpen, ProcessFinished, Refused, UnknownProcess


@pytest.fixture
async def node(log: MemoryLog) -> AsyncIterator[Node]:
    async with Node.in_memory(log) as one:
        yield one


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog(partitions=2)


@agent("asker")
async def asker(process: Process, input: Any) -> Any:
    """Asks for two things at once, by one name, and then for another."""
    both = await asyncio.gather(process.gate("pay", prompt=1), process.gate("pay", prompt=2))
    last = await process.gate("ship", timeout=3_600)
    return [answer.outcome for answer in (*both, last)]


async def left_at(node: Node, gates: int) -> None:
    """Run it until so many gates were opened, and leave it so: nobody takes answers now."""
    run = asyncio.create_task(node.run(asker, "p"))
    await until(lambda: len(node_log(node)) >= gates)
    run.cancel()
    await asyncio.wait([run])


def node_log(node: Node) -> list[Any]:
    log = runtime_of(node).reader
    entries = [
        log.codec.decode(record.value)
        for partition in range(log.partitions)
        for batch in log.read(partition, 0, log.watermarks(partition).high)
        for record in batch.records
    ]
    return [entry.body for entry in entries if isinstance(entry.body, b.GateOpened)]


def written(log: MemoryLog) -> list[int]:
    return [log.watermarks(partition).high for partition in range(2)]


async def test_an_unknown_process_is_told_of_and_nothing_is_written(node: Node, log: MemoryLog) -> None:
    """Also one that only has mail; in advance it is sent as before."""
    for answer in (node.approve, node.deny):
        with pytest.raises(UnknownProcess, match="in_advance=True"):
            await answer("p", "pay")
    assert written(log) == [0, 0]
    await node.approve("p", "pay", in_advance=True)
    ends = written(log)
    with pytest.raises(UnknownProcess):
        await node.approve("p", "pay")
    assert written(log) == ends


async def test_a_gate_that_is_not_open_is_told_of_with_those_that_are(node: Node, log: MemoryLog) -> None:
    """By name or by key; nothing is written."""
    await left_at(node, 2)
    ends = written(log)
    for gate in ("pya", "pay:3", "ship"):
        with pytest.raises(GateNotOpen) as caught:
            await node.approve("p", gate)
        assert (caught.value.gate, caught.value.open) == (gate, "pay:1, pay:2")
        assert "one that is open" in caught.value.hint
    assert written(log) == ends


async def test_where_no_gate_is_open_none_is_advised(node: Node) -> None:
    """What can be done instead depends on whether its code runs on."""
    async with node.open("p") as process:
        await process.update("a", 1)
    with pytest.raises(GateNotOpen, match="open=none") as caught:
        await node.approve("p", "pay")
    assert "one that is open" not in caught.value.hint
    assert "in_advance=True" in caught.value.hint
    await node.cancel("p")
    with pytest.raises(Cancelled):
        await node.run(asker, "p")
    with pytest.raises(GateNotOpen) as caught:
        await node.approve("p", "pay")
    assert ("was cancelled" in caught.value.hint, "in_advance" in caught.value.hint) == (True, False)


async def test_an_answer_in_advance_goes_by_the_name_it_was_given(node: Node) -> None:
    """The next gate of the name takes it, whichever that is, and no second one; by a key only that gate does."""
    await node.approve("p", "pay:2", actor="bob", in_advance=True)
    await node.deny("p", "ship", actor="cy", in_advance=True)
    await node.deny("p", "pay", actor="ann", in_advance=True)
    assert await asyncio.wait_for(node.run(asker, "p"), 60) == ["denied", "approved", "denied"]
    await node.deny("q", "pay:1", in_advance=True)
    await node.deny("q", "pay:1", in_advance=True)  # there is one gate of this key: no other takes it
    for gate in ("pay", "ship"):
        await node.approve("q", gate, in_advance=True)
    assert await asyncio.wait_for(node.run(asker, "q"), 60) == ["denied", "approved", "approved"]


@pytest.mark.parametrize(
    ("parameters", "needs"),
    [
        ("p, input", True),
        ("p, input=None", False),
        ("p, _", False),
        ("p, _order", False),
        ("*given", False),
        ("p, /, x", True),
    ],
)
def test_an_agent_needs_an_input_where_its_function_says_so(parameters: str, needs: bool) -> None:
    """By a parameter without a default; ``_`` says that it is not used. Of async and plain functions alike."""
    for kind in ("async def", "def"):
        made: dict[str, Any] = {}
        exec(f"{kind} run({parameters}): pass", made)
        assert agent("any")(made["run"]).needs_input is needs
    assert not agent("any")(functools.partial(made["run"], input=1) if "input" in parameters else print).needs_input


async def test_answers_by_name_go_to_the_gates_in_their_order_each_once(node: Node, log: MemoryLog) -> None:
    """Though nobody has taken the first answer yet: a third one is told who was quicker, and when."""
    await left_at(node, 2)
    await node.deny("p", "pay", actor="ann", reason="dear")
    await node.approve("p", "pay", actor="bob")
    mail = (await node.recover("p")).state.mailbox.values()
    assert [item.name for item in mail] == ["pay:1", "pay:2"]  # no later gate of that name can take them
    ends = written(log)
    for gate, actor, outcome, reason in (("pay:1", "ann", "denied", "dear"), ("pay:2", "bob", "approved", None)):
        with pytest.raises(GateNotOpen, match="answered already") as caught:
            await node.approve("p", gate, actor="eve")
        facts = caught.value.facts
        assert (facts["actor"], facts["outcome"], facts.get("reason")) == (actor, outcome, reason)
        assert facts["at"].endswith("+00:00")
    with pytest.raises(GateNotOpen, match="answered already"):
        await node.approve("p", "pay", actor="eve")
    assert written(log) == ends
    run = asyncio.create_task(node.run(asker, "p"))
    await until(lambda: len(node_log(node)) == 3)
    with pytest.raises(GateNotOpen, match="answered already") as closed:
        await node.deny("p", "pay:1", actor="eve")
    assert (closed.value.actor, closed.value.outcome, closed.value.reason) == ("ann", "denied", "dear")
    await node.approve("p", "ship")
    assert await asyncio.wait_for(run, 60) == ["denied", "approved", "approved"]


async def test_a_signal_by_name_or_key_counts_as_an_answer(node: Node) -> None:
    """Whoever sent it, and however it is called: by its name the first gate takes it."""
    await left_at(node, 2)
    await node.signal("p", "pay", {"approved": False}, actor="shop")
    await node.signal("p", "other", {"approved": True}, actor="shop")
    with pytest.raises(GateNotOpen) as caught:
        await node.approve("p", "pay:1")
    assert (caught.value.outcome, caught.value.actor) == ("denied", "shop")
    await node.approve("p", "pay:2")


async def test_a_finished_process_tells_how_its_gate_was_answered(node: Node, log: MemoryLog) -> None:
    """While its calls are kept; of any other gate, that it is finished."""
    for gate, actor in (("pay:1", "ann"), ("pay:2", "ann"), ("ship:1", "bob")):
        await node.signal("p", gate, True, actor=actor)
    await node.run(asker, "p")
    ends = written(log)
    with pytest.raises(GateNotOpen) as caught:
        await node.approve("p", "ship")
    assert (caught.value.actor, caught.value.outcome) == ("bob", "approved")
    assert "in_advance" not in caught.value.hint  # nothing reaches it any more
    with pytest.raises(ProcessFinished):
        await node.approve("p", "other")
    assert written(log) == ends


async def test_a_cancelled_process_has_only_the_gates_of_its_compensations(node: Node) -> None:
    """The code's own wait for nothing any more; what takes something back may ask."""

    booking: Any = None

    async def unbook(room: int) -> None:
        if not await booking.gate("sure", timeout=60):
            raise ValueError("no")

    @agent("booker")
    async def run(process: Process, input: Any) -> None:
        nonlocal booking
        booking = process
        await process.effect("book", str, 1, compensate=unbook)
        await process.gate("go")

    task = asyncio.create_task(node.run(run, "p"))
    await until(lambda: len(node_log(node)) == 1)
    await node.cancel("p")
    await until(lambda: len(node_log(node)) == 2)
    (gate,) = open_gates((await node.recover("p")).state)
    assert (gate.name, gate.key.startswith("undo/")) == ("sure", True)
    with pytest.raises(GateNotOpen):
        await node.approve("p", "go")
    await node.approve("p", "sure")
    with pytest.raises(Cancelled):
        await asyncio.wait_for(task, 60)


async def test_when_a_gate_was_opened_is_in_the_journal(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found from the log's end, in windows that grow, however far away it is."""
    monkeypatch.setattr("seekpoint.consumers.recovery.process_history._WINDOW", 2)
    await left_at(node, 2)
    for number in range(40):
        await node.signal("p", "mail", number)
    recoverer, in_thread = runtime_of(node).recovery.blocking, runtime_of(node).in_thread
    found = await in_thread(lambda: gate_to_answer(recoverer, "p", "pay"))
    opened = [one.entry async for one in node.entries("p", kinds=["gate_opened"])]
    (first,) = (entry for entry in opened if entry.body.key == "pay:1")  # type: ignore[attr-defined]
    assert await in_thread(lambda: opened_us(recoverer, "p", found)) == first.ts
    last = await runtime_of(node).in_thread(
        lambda: newest_entry(recoverer, "p", lambda entry: entry.body.KIND == "signal")
    )
    assert last.entry.body.payload == "39"
    assert await in_thread(lambda: newest_entry(recoverer, "p", lambda entry: False)) is None


# --- begin or resume -------------------------------------------------------------------------------------------------
@agent("greeter")
async def greeter(process: Process, input: Any) -> Any:
    """Greets."""
    return f"hello {input}"


async def test_a_process_that_is_to_be_resumed_must_exist(node: Node, log: MemoryLog) -> None:
    """Nothing is claimed; it is proved again for an id that this node saw to be absent before."""
    for _ in range(2):
        with pytest.raises(UnknownProcess, match="nothing was started"):
            await node.run(greeter, "p", new=False)
        assert written(log) == [0, 0]
    async with node.open("q"):
        async with Node.in_memory(log) as other:
            await other.run(greeter, "p", "Ada", new=True)
        assert await node.run(greeter, "p", new=False) == "hello Ada"
    await node.signal("mail", "go")
    with pytest.raises(UnknownProcess):
        await node.run(greeter, "mail", new=False)


async def test_a_process_that_is_to_begin_must_not_exist(node: Node, log: MemoryLog) -> None:
    """Finished, failed or a program's: none is run. A claim alone is no beginning: its owner died too early."""
    assert await node.run(greeter, "p", "Ada", new=True) == "hello Ada"
    async with node.open("own") as process:
        await process.update("a", 1)
    ends = written(log)
    for process_id in ("p", "own"):
        with pytest.raises(Refused, match="the process exists, nothing was run"):
            await node.run(greeter, process_id, "Ada", new=True)
    with pytest.raises(Refused, match="no agent has begun"):
        await node.run(greeter, "own", new=False)
    assert written(log) == ends
    durable_side(await node.open("early")).abandon()
    with pytest.raises(Refused, match="needs an input"):
        await node.run(greeter, "early", new=True)
    assert await node.run(greeter, "early", "Ada", new=True) == "hello Ada"


async def test_an_id_that_is_presumed_to_be_absent_is_looked_for_before_it_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A node that listens to the partition presumes absence up to where it has read; the process may lie behind."""
    log = MemoryLog(partitions=1)
    async with Node.in_memory(log) as node, node.open("q"):
        async with Node.in_memory(log) as other:
            await other.run(greeter, "p", "Ada")
        absent = await node.recover("nobody", missing_ok=True)
        monkeypatch.setattr(opening, "_presumed", lambda *_: absent)
        assert await node.run(greeter, "p", new=False) == "hello Ada"
