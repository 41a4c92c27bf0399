"""The replay check: code held against a whole history, with nothing run and nothing written. In memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from replay_checks import Code, World, checked, everything, history, made, ran, until
from seekpoint.producers import Node, Process, check_replay
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import JournalGap, Refused


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog(partitions=2)


async def test_a_finished_process_is_checked_to_its_result(node: Node) -> None:
    """Every kind of call, of turns that are over too, is answered; nothing runs, and nothing is written."""
    world = World()
    entries = await ran(node, everything(world))
    runs = world.runs
    assert isinstance(entries[-1].entry.body, b.Finished)
    found = await checked(everything(world), entries)
    assert found.divergence is None
    assert (found.ok, found.ended_by, found.turns, found.unreached) == (True, "result", 2, 0)
    assert found.calls > 25
    assert (found.version, found.recorded_version) == ("2", "1")
    assert world.runs == runs
    assert len(await history(node)) == len(entries)


async def test_whatever_of_a_history_is_there_the_same_code_agrees_with(node: Node) -> None:
    """Cut after each entry: what a process that is under way, or was killed there, has recorded. Nothing runs."""
    world = World()
    entries = await ran(node, everything(world))
    runs, begun = world.runs, next(at for at, one in enumerate(entries) if isinstance(one.entry.body, b.AgentStarted))
    calls = []
    for end in range(begun + 1, len(entries)):
        found = await check_replay(made(everything(world)), entries[:end], patience_s=0.001)
        assert found.ok, (end, str(found))
        calls.append(found.calls)
    assert calls[0] == 0
    assert world.runs == runs
    assert calls == sorted(calls), "more history, more calls compared"


async def test_a_call_beyond_the_history_ends_the_check(node: Node) -> None:
    """And says where."""
    world = World()

    async def code(process: Process, input: Any) -> Any:
        await process.step("find", world.do, 1)
        await process.gate("approve")
        await process.step("pay", world.do, 2)

    running = asyncio.create_task(node.run(made(code), "p"))
    await until(node, lambda state: state.lifecycle == "awaiting")
    found = await checked(code, await history(node))
    assert (found.ok, found.calls, found.ended_at, found.ended_by) == (True, 1, "approve:1", "call")
    assert str(found) == "1 call replayed, history ends at approve:1"
    running.cancel()
    await asyncio.wait({running})


async def test_each_branch_is_compared_as_far_as_it_came(node: Node) -> None:
    """One that waits for a person does not hide what another one does otherwise."""
    world = World()

    def code(last: str) -> Code:
        async def waits(process: Process) -> None:
            await process.gate("approve")

        async def works(process: Process) -> None:
            await process.step("one", world.do, 1)
            await process.step(last, world.do, 2)
            await process.gate("second")

        async def run(process: Process, input: Any) -> Any:
            await asyncio.gather(waits(process), works(process))

        return run

    running = asyncio.create_task(node.run(made(code("two")), "p"))
    await until(node, lambda state: len(state.calls) == 4)
    entries = await history(node)
    assert (await checked(code("two"), entries)).ok
    found = (await checked(code("other"), entries)).divergence
    assert found is not None
    assert (found.kind, found.key, found.expected) == ("order", "~2/other:1", "~2/two:1")
    running.cancel()
    await asyncio.wait({running})


async def test_what_lies_behind_a_call_in_doubt_is_counted(node: Node) -> None:
    """Code that asks one after the other what was asked at once: nothing differs so far, and not all was compared."""
    world = World()

    async def at_once(process: Process, input: Any) -> Any:
        await asyncio.gather(process.gate("approve"), process.step("a", world.do))

    async def in_turn(process: Process, input: Any) -> Any:
        await process.gate("approve")
        await process.step("a", world.do)

    running = asyncio.create_task(node.run(made(at_once), "p"))
    await until(node, lambda state: any(call.status == "succeeded" for call in state.calls.values()))
    entries = await history(node)
    assert (await checked(at_once, entries)).unreached == 0
    found = await checked(in_turn, entries)
    assert (found.ok, found.calls, found.unreached, found.ended_at) == (True, 0, 1, "approve:1")
    assert str(found) == "0 calls replayed, history ends at approve:1; 1 behind it not reached"
    running.cancel()
    await asyncio.wait({running})


@pytest.mark.parametrize("detail", ["checkpoint", "none"])
async def test_content_that_was_not_journaled_is_made_again(node: Node, detail: str) -> None:
    """As in a resume: the check is told what the process ran with."""
    world = World()

    async def code(process: Process, input: Any) -> Any:
        async for turn in process.turns():
            await process.say("user", f"turn {turn.number}")
            await process.update("seen", len(process.state.conversation))
            await process.step("use", world.do, process.state.context["seen"])
            if turn.number == 3:
                break
        return process.state.context

    await node.run(made(code), "p", detail=detail)
    found = await checked(code, await history(node), detail=detail)
    assert (found.ok, found.ended_by, found.turns) == (True, "result", 2)


def test_whatever_a_process_offers_a_check_has_decided_about() -> None:
    """A call that is added to a process answers from the record, is refused, or comes down to one that does."""
    offered = {name for name in dir(Process) if not name.startswith("_")}
    decided = {
        # take a place in the order of the calls: answered from the record, or never
        *("step", "tool", "wrap_tool", "decide", "wrap_model", "effect", "set_budget", "sample", "now", "uuid"),
        *("decide_stream", "random", "sleep", "sleep_until", "gate", "receive", "spawn", "shared", "turns", "patched"),
        # branches, whose calls take places
        *("gather", "race", "branch"),
        # content, which takes a place too
        *("update", "update_many", "change", "delete", "patch", "clear", "say", "transition", "suspend", "record"),
        *("record_error", "invocation"),
        # take no place: never returns, or answered by the session of the check
        *("compensate", "confirm", "checkpoint", "flush", "attach", "read_attachment", "detach"),
        # refused to an agent
        *("rewind", "finish", "release"),
        # looks at what is known
        *("process_id", "state", "written", "limits", "is_open", "policy_is"),
    }
    assert offered == decided


# --- what cannot be checked
async def test_a_trimmed_history_is_refused(node: Node, log: MemoryLog) -> None:
    """What the code asked there is not known."""
    world = World()

    async def code(process: Process, input: Any) -> Any:
        for _ in range(3):
            await process.step("a", world.do)

    entries = await ran(node, code)
    for begin in range(1, len(entries)):
        with pytest.raises(JournalGap, match="the beginning of the history is gone"):
            await checked(code, entries[begin:])
    with pytest.raises(JournalGap, match="no entries"):
        await checked(code, [])


async def test_another_agents_process_and_one_without_are_refused(node: Node) -> None:
    """There is nothing to hold this code against."""

    async def code(process: Process, input: Any) -> Any:
        return None

    entries = await ran(node, code)
    with pytest.raises(Refused, match="another agent's"):
        await check_replay(made(code, name="other"), entries)
    async with node.open("plain") as process:
        await process.update("a", 1)
    with pytest.raises(Refused, match="no agent ran"):
        await checked(code, await history(node, "plain"))


async def test_a_pinned_agent_is_held_to_its_definition(node: Node) -> None:
    """As a resume is."""

    async def first(process: Process, input: Any) -> Any:
        return 1

    async def second(process: Process, input: Any) -> Any:
        return 1 + 0

    entries = await ran(node, first)
    assert (await checked(second, entries)).ok
    found = (await check_replay(made(second, pinned=True), entries)).divergence
    assert found is not None
    assert found.kind == "definition"


async def test_rewound_and_forked_processes_are_checked(node: Node) -> None:
    """What a rewind forgot is not asked for; a fork's turns begin where its parent was."""
    world = World()

    def code(turns: int) -> Code:
        async def run(process: Process, input: Any) -> Any:
            async for turn in process.turns():
                await process.say("user", str(turn.number))
                await process.step("a", world.do, turn.number)
                if turn.number == turns:
                    raise ValueError("stop")

        return run

    entries = await ran(node, code(3))
    second = [one.entry.seq or 0 for one in entries if getattr(one.entry.body, "key", "") == "2/a:1"][-1]
    async with node.open("p") as process:
        await process.rewind(second)
    with pytest.raises(ValueError, match="stop"):
        await node.run(made(code(4)), "p")
    found = await checked(code(4), await history(node))
    assert (found.ok, found.ended_by, found.turns) == (True, "error", 3)
    async with node.fork("p", "q"):
        pass
    with pytest.raises(ValueError, match="stop"):
        await node.run(made(code(5)), "q")
    assert (await checked(code(5), (await history(node, "q"))[:2])).ok, "a fork that never ran has its agent too"
    forked = await checked(code(5), await history(node, "q"))
    assert forked.ok, str(forked)
    assert forked.calls < found.calls


async def test_turns_that_were_rewound_away_are_not_asked_for(node: Node) -> None:
    """They were over, and are not any more."""
    world = World()

    def code(turns: int) -> Code:
        async def run(process: Process, input: Any) -> Any:
            async for turn in process.turns():
                await process.step("a", world.do, turn.number)
                if turn.number == turns:
                    raise ValueError("stop")

        return run

    entries = await ran(node, code(4))
    first = next(one.entry.seq or 0 for one in entries if getattr(one.entry.body, "key", "") == "1/a:1")
    async with node.open("p") as process:
        await process.rewind(first)
    with pytest.raises(ValueError, match="stop"):
        await node.run(made(code(1)), "p")
    found = await checked(code(1), await history(node))
    assert (found.ok, found.calls, found.turns) == (True, 1, 0), str(found)


async def test_an_agent_that_reaches_for_its_node_is_told(node: Node) -> None:
    """A check has none: whatever it did there would be a side effect."""

    async def code(process: Process, input: Any) -> Any:
        if input == "reach":
            await process.node.signal("other", "x")
        await process.step("a", lambda: 1)

    entries = await ran(node, code, "reach")
    found = (await checked(code, entries)).divergence
    assert found is not None
    assert "a replay check has no node" in found.actual
