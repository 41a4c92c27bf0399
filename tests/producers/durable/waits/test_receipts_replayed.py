"""Mail that was received, when the code runs again: the same, in its order; other code is told. In memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from cuts import of_kind, until
from mail_agents import Crash, crashing, reader
from seekpoint.producers import Agent, Node, Process, agent, check_replay
from seekpoint.producers.importing import import_process
from seekpoint.producers.testing import assert_replays, history_of
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import ReplayDivergence


async def test_code_that_runs_again_gets_the_same_mail_in_its_order(node: Node, log: MemoryLog) -> None:
    """Whatever waits by then: nothing of it is taken, and what was taken is whole."""
    first = await node.signal("p", "go", {"n": 1}, actor="ann")
    second = await node.signal("p", "other", None, actor=None)
    then = crashing()
    with pytest.raises(Crash):
        await node.run(reader("go", None, then=then), "p")
    await node.signal("p", "go", {"n": 2})
    await node.signal("p", "go", {"n": 3})
    assert await node.run(reader("go", None, then=then), "p") == [
        ["signal", "go", {"n": 1}, "ann", first.hex()], ["signal", "other", None, None, second.hex()],
    ]  # fmt: skip
    assert [(one.key, one.position, one.name, one.external_id) for one in of_kind(log, b.Received)] == [
        ("receive:1", 1, "go", first), ("receive:2", 2, None, second),
    ]  # fmt: skip


async def test_mail_that_waits_is_left_to_the_next_call(node: Node, log: MemoryLog) -> None:
    """A run that was answered from the record goes on with what is new."""
    then = crashing()
    await node.signal("p", "go", 1)

    @agent("two")
    async def two(process: Process, input: Any) -> Any:
        first = await process.receive("go")
        then()
        return [first.payload, (await process.receive("go")).payload]

    with pytest.raises(Crash):
        await node.run(two, "p")
    await node.signal("p", "go", 2)
    assert await node.run(two, "p") == [1, 2]


async def test_a_step_that_received_is_remembered_by_its_result(node: Node, log: MemoryLog) -> None:
    """What was asked inside is not asked again once it ended; if it did not, it is answered from the record."""
    stuck, behind = asyncio.Event(), crashing()

    @agent("nested")
    async def nested(process: Process, input: Any) -> Any:
        async def body() -> Any:
            found = (await process.receive("go")).payload
            if not stuck.is_set():
                stuck.set()
                await asyncio.Event().wait()
            return found

        found = await process.step("take", body)
        behind()
        return found

    await node.signal("p", "go", 1)
    assert [one.key for one in of_kind(log, b.Received)] == []
    run = asyncio.create_task(node.run(nested, "p"))
    await asyncio.wait_for(stuck.wait(), 60)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    await node.signal("p", "go", 2)
    with pytest.raises(Crash):
        await node.run(nested, "p")
    assert (await node.recover("p")).state.calls["take:1"].attempt == 2
    assert await node.run(nested, "p") == 1
    assert [one.key for one in of_kind(log, b.Received)] == ["take:1/receive:1"]
    await node.signal("q", "go", 1)
    assert await asyncio.wait_for(node.run(nested, "q"), 60) == 1
    assert [one.key for one in of_kind(log, b.Received, "q")] == ["take:1/receive:1"]


@pytest.mark.parametrize("detail", ["full", "checkpoint", "none"])
async def test_it_is_journaled_whatever_the_detail(node: Node, log: MemoryLog, detail: str) -> None:
    """It is a call, not content."""
    then = crashing()
    await node.signal("p", "go", 1)
    with pytest.raises(Crash):
        await node.run(reader("go", then=then), "p", detail=detail)
    await node.signal("p", "go", 2)
    assert (await node.run(reader("go", then=then), "p", detail=detail))[0][2] == 1
    await assert_replays(reader("go"), history_of(log, "p"), detail=detail)


async def test_another_name_is_another_question(node: Node, log: MemoryLog) -> None:
    """Told with both names; nothing is taken for it."""
    await node.signal("p", "go", 1)
    with pytest.raises(Crash):
        await node.run(reader("go", then=crashing()), "p")
    await node.signal("p", "stay", 2)
    with pytest.raises(ReplayDivergence) as caught:
        await node.run(reader("stay"), "p")
    assert (caught.value.kind, caught.value.key) == ("input", "receive:1")
    assert caught.value.difference == '$.name: "go" is now "stay"'
    assert len(of_kind(log, b.Received)) == 1


async def test_another_call_in_its_place_diverges(node: Node) -> None:
    """Order and kind are told, as of all calls."""
    await node.signal("p", "go", 1)
    with pytest.raises(Crash):
        await node.run(reader("go", then=crashing()), "p")

    def other(ask: Callable[[Process], Any]) -> Agent:
        @agent("reader")
        async def run(process: Process, input: Any) -> Any:
            return await ask(process)

        return run

    with pytest.raises(ReplayDivergence) as caught:
        await node.run(other(lambda process: process.gate("go")), "p")
    assert caught.value.kind == "order"
    with pytest.raises(ReplayDivergence) as caught:
        await node.run(other(lambda process: process.step("receive", str, 1)), "p")
    assert caught.value.kind == "type"
    with pytest.raises(ReplayDivergence) as caught:
        await node.run(reader(), "p")
    assert (caught.value.kind, caught.value.key) == ("length", "receive:1")


async def test_permissive_gives_what_was_received_for_the_same_question(node: Node, log: MemoryLog) -> None:
    """Wherever it stood; what has no answer takes new mail, and is noted."""
    for number, name in enumerate(("a", "b")):
        await node.signal("p", name, number)
    with pytest.raises(Crash):
        await node.run(reader("a", "b", then=crashing()), "p")
    await node.signal("p", "c", 2)
    found = await node.run(reader("b", "c", "a"), "p", replay="permissive")
    assert [item[2] for item in found] == [1, 2, 0]
    assert len(of_kind(log, b.Received)) == 3
    assert len(of_kind(log, b.Diverged)) == 1


async def test_a_check_follows_what_was_received(node: Node, log: MemoryLog) -> None:
    """To the result; where no mail came yet, the history ends there."""
    await node.signal("p", "go", {"n": 1})
    run = asyncio.create_task(node.run(reader("go", "go"), "p"))
    await until(lambda: of_kind(log, b.LifecycleChanged))
    found = await assert_replays(reader("go", "go"), history_of(log, "p"))
    assert (found.calls, found.ended_at) == (1, "receive:2")
    await node.signal("p", "go", {"n": 2})
    await asyncio.wait_for(run, 60)
    found = await assert_replays(reader("go", "go"), history_of(log, "p"))
    assert (found.calls, found.ended_by) == (2, "result")
    other = (await check_replay(reader("go", None), history_of(log, "p"))).divergence
    assert other is not None
    assert (other.kind, other.key, other.difference) == ("input", "receive:2", '$.name: "go" is now null')


async def test_an_imported_process_goes_on_with_what_it_received(node: Node, log: MemoryLog) -> None:
    """Its entries are all there is of it."""
    sent = await node.signal("p", "go", 1, actor="ann")
    with pytest.raises(Crash):
        await node.run(reader("go", then=crashing()), "p")
    logged = [one async for one in node.entries("p")]
    async with Node.in_memory(MemoryLog()) as other:
        await import_process(other, logged, "copy")
        await other.signal("copy", "go", 2)
        found = await other.run(reader("go"), "copy", take_over=True)
    assert found == [["signal", "go", 1, "ann", sent.hex()]]


async def test_a_fork_has_what_its_parent_received(node: Node, log: MemoryLog) -> None:
    """It stands in the content it begins with; a rewind forgets it with the calls behind its point."""
    await node.signal("p", "go", 1)
    with pytest.raises(Crash):
        await node.run(reader("go", then=crashing()), "p")
    taken = next(entry.seq for entry in history_of(log, "p") if isinstance(entry.body, b.Received)) or 0
    async with node.fork("p", "child"):
        pass
    assert (await node.run(reader("go"), "child"))[0][2] == 1
    async with node.open("p") as process:
        await process.rewind(taken - 1)
    await node.signal("p", "go", 2)
    assert (await node.run(reader("go"), "p"))[0][2] == 2
