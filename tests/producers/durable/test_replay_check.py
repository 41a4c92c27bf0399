"""The replay check: code held against a whole history, with nothing run and nothing written. In memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from seekpoint.consumers.history import Logged
from seekpoint.producers import Agent, Effect, Node, Process, ReplayCheck, Retry, VirtualClock, agent, check_replay
from seekpoint.producers.durable.rehearsing import Rehearsal
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import JournalGap, Refused
from seekpoint.schemas.state import State

Code = Callable[[Process, Any], Any]


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog(partitions=2)


@pytest.fixture
async def node(log: MemoryLog) -> AsyncIterator[Node]:
    async with Node.in_memory(log, clock=VirtualClock()) as running:
        yield running


async def history(node: Node, process_id: str = "p") -> list[Logged]:
    return [one async for one in node.entries(process_id)]


async def until(node: Node, is_so: Callable[[State], bool]) -> None:
    """Return once the process's state is so."""
    async with asyncio.timeout(20):
        while not is_so((await node.recover("p", missing_ok=True)).state):  # noqa: ASYNC110  # a log gives no event
            await asyncio.sleep(0)


class World:
    """What bodies do: counted, because a check does none of it."""

    def __init__(self) -> None:
        self.runs = 0

    async def do(self, what: Any = None, **more: Any) -> Any:
        self.runs += 1
        return {"did": what}

    def ask(self, request: Any) -> Any:
        self.runs += 1
        return {"model": "m", "content": f"answer {self.runs}", "usage": {"prompt_tokens": 3, "completion_tokens": 1}}

    async def flaky(self) -> str:
        self.runs += 1
        if self.runs % 2:
            raise ValueError("at first")
        return "then"

    async def fails(self) -> None:
        self.runs += 1
        raise LookupError("nothing there")


def made(code: Code, version: int = 1, name: str = "worker", *, pinned: bool = False) -> Agent:
    return agent(name, version, pinned=pinned)(code)


async def ran(node: Node, code: Code, input: Any = None) -> list[Logged]:
    """The history of a run of ``code``, to whatever end it comes."""
    with suppress(Exception):  # what a test's agent fails with is its own
        await node.run(made(code), "p", input)
    return await history(node)


async def checked(code: Code, entries: list[Logged], **how: Any) -> ReplayCheck:
    return await check_replay(made(code, 2), entries, patience_s=0.05, **how)


def everything(world: World) -> Code:
    """An agent that makes every kind of call, in branches and turns too."""

    async def branch(process: Process, name: str) -> Any:
        first = await process.step(name, world.do, name)
        return [first, await process.step("second", world.do, 2)]

    @agent("child")
    async def child(process: Process, input: Any) -> Any:
        return await process.step("grow", world.do, input)

    async def code(process: Process, input: Any) -> Any:
        await process.set_budget({"tool_calls": 100})
        await process.update("at", 1)
        seen: list[Any] = [str(await process.now()), str(await process.uuid()), await process.random()]
        seen.append(await process.sample("file", lambda: world.runs))

        async def nested() -> Any:
            return await process.step("inner", world.do, "inner")

        seen.append(await process.step("outer", nested))
        seen += await asyncio.gather(branch(process, "left"), branch(process, "right"))
        with pytest.raises(LookupError):
            await process.step("fails", world.fails)
        seen.append(await process.step("flaky", world.flaky, retry=Retry(attempts=3, backoff_s=0.1)))
        seen.append(await process.decide("plan", world.ask, {"model": "m", "messages": [{"content": "go"}]}))
        seen.append(await process.effect("pay", world.do, 12, semantics=Effect.AT_MOST_ONCE))
        await process.sleep(timedelta(hours=1))
        seen.append(bool(await process.gate("ok", timeout=1)))
        seen.append(await process.spawn(child, "p-child", {"n": 1}).result())
        shared = process.shared("rate")
        seen.append([await shared.set(5), (await shared.get()).value])
        async for turn in process.turns():
            await process.say("user", f"turn {turn.number}")
            await process.update("at", [process.state.context["at"], len(process.state.conversation)])
            seen.append(await process.tool("use", world.do, turn.number))
            if turn.number == 3:
                break
        return [seen, process.state.context, [message.text for message in process.state.conversation]]

    return code


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
    comes_down_to_others = {
        # content: to write()
        *("update", "update_many", "delete", "patch", "clear", "say", "transition", "suspend", "record"),
        *("record_error", "invocation"),
        # refused to an agent
        *("rewind", "finish", "finish_with"),
        # memory of the run, which is the rehearsal's own
        *("begin_turn", "end_replay", "flush", "patched", "desk", "clock", "idempotency_key", "acknowledged"),
        *("cancelling", "children", "outside", "waiting", "caused_by", "hold", "take_back"),
        *("check_read", "let_tasks_ask"),
    }
    assert offered - vars(Rehearsal).keys() <= comes_down_to_others


# --- what differs
async def test_a_prompt_that_changed_is_named(node: Node) -> None:
    """By its first difference."""
    world = World()

    def code(text: str) -> Code:
        async def run(process: Process, input: Any) -> Any:
            await process.step("find", world.do, 1)
            return await process.decide("plan", world.ask, {"messages": [{"content": "a"}, {"content": text}]})

        return run

    entries = await ran(node, code("old"))
    runs = world.runs
    found = await checked(code("new"), entries)
    assert (found.ok, found.calls, world.runs) == (False, 1, runs)
    assert found.divergence is not None
    assert (found.divergence.kind, found.divergence.key) == ("prompt", "plan:1")
    assert found.divergence.difference == '$.messages[1].content: "old" is now "new"'
    assert found.divergence.seq is not None


async def test_payloads_alone_make_a_difference(node: Node) -> None:
    """The same calls in the same order with another argument are not the same (what ActiveGraph lets pass)."""
    world = World()

    def code(amount: Any) -> Code:
        async def run(process: Process, input: Any) -> Any:
            return await process.step("pay", world.do, amount)

        return run

    entries = await ran(node, code(1))
    for amount in (2, 1.0, True, "1"):
        found = (await checked(code(amount), entries)).divergence
        assert found is not None
        assert (found.kind, found.key) == ("input", "pay:1")


async def test_real_tools_are_never_run(node: Node) -> None:
    """Not even where the code asks something that has no answer (what ActiveGraph's strict replay runs)."""
    world = World()

    def code(*names: str) -> Code:
        async def run(process: Process, input: Any) -> Any:
            for name in names:
                await process.step(name, world.do, 1)
                await process.effect(name, world.do, 1)
                await process.sample(name, lambda: world.do())
            await asyncio.sleep(0)

        return run

    entries = await ran(node, code("a", "b"))
    runs = world.runs
    for names in ((), ("a",), ("a", "b"), ("a", "b", "c"), ("b", "a"), ("c",)):
        found = await checked(code(*names), entries)
        assert found.ok is (names == ("a", "b"))
    assert world.runs == runs


async def test_a_result_that_changed_is_a_divergence(node: Node) -> None:
    """The gravestone has it, and the history before tells how it came about."""
    world = World()

    def code(more: int) -> Code:
        async def run(process: Process, input: Any) -> Any:
            return {"n": input["n"] + more, "did": await process.step("a", world.do)}

        return run

    entries = await ran(node, code(1), {"n": 1})
    assert (await checked(code(1), entries)).ok
    found = (await checked(code(2), entries)).divergence
    assert found is not None
    assert (found.kind, found.difference) == ("result", "$.n: 2 is now 3")


async def test_what_is_over_has_no_further_call(node: Node) -> None:
    """A call more at the end of a finished process, or of a turn that is over: the history does not have it."""
    world = World()

    def code(extra: str | None) -> Code:
        async def run(process: Process, input: Any) -> Any:
            async for turn in process.turns():
                await process.step("a", world.do)
                if extra == "in turn":
                    await process.step("b", world.do)
                if turn.number == 2:
                    break
            if extra == "at the end":
                await process.step("b", world.do)

        return run

    entries = await ran(node, code(None))
    for extra, key, expected in (("in turn", "1/b:1", "the result"), ("at the end", "2/b:1", "the result")):
        found = (await checked(code(extra), entries)).divergence
        assert found is not None
        assert (found.kind, found.key, found.expected) == ("length", key, expected)
    unfinished = entries[: next(at for at, one in enumerate(entries) if isinstance(one.entry.body, b.TurnEnded)) + 1]
    found = (await checked(code("in turn"), unfinished)).divergence
    assert found is not None
    assert (found.kind, found.key, found.expected) == ("length", "1/b:1", "the end of turn 1")


async def test_a_call_that_is_gone_is_a_divergence(node: Node) -> None:
    """In a turn that is over too: the state has forgotten it, the history has not."""
    world = World()

    def code(turns: int, *, less_in: int = 0) -> Code:
        async def run(process: Process, input: Any) -> Any:
            async for turn in process.turns():
                await process.step("a", world.do)
                if turn.number != less_in:
                    await process.step("b", world.do)
                if turn.number == turns:
                    break

        return run

    entries = await ran(node, code(3))
    for other, key in ((code(3, less_in=1), "1/b:1"), (code(3, less_in=3), "3/b:1"), (code(2), "3/a:1")):
        found = (await checked(other, entries)).divergence
        assert found is not None
        assert (found.kind, found.key) == ("length", key)


async def test_changes_behind_patched_pass(node: Node) -> None:
    """What is over ran without them; what is under way may go on with them."""
    world = World()

    def code(*, is_new: bool) -> Code:
        async def run(process: Process, input: Any) -> Any:
            async for turn in process.turns():
                await process.step("a", world.do)
                if is_new and process.patched("more"):
                    await process.step("b", world.do)
                if turn.number == input:
                    break

        return run

    entries = await ran(node, code(is_new=False), 3)
    assert (await checked(code(is_new=True), entries)).ok
    unfinished = [one for one in entries if not isinstance(one.entry.body, b.Finished)]
    found = await checked(code(is_new=True), unfinished)
    assert (found.ok, found.ended_at) == (True, "3/b:1")


async def test_a_failure_is_the_end_only_if_it_was_recorded(node: Node) -> None:
    """A process that failed so is replayed to its failure; code that fails where it went on differs."""
    world = World()

    def code(error: Exception | None, *, early: bool = False) -> Code:
        async def run(process: Process, input: Any) -> Any:
            if early and error:
                raise error
            await process.step("a", world.do)
            if error:
                raise error

        return run

    entries = await ran(node, code(ValueError("boom")))
    found = await checked(code(ValueError("boom, but otherwise")), entries)
    assert (found.ok, found.ended_by) == (True, "error")
    assert str(found) == "1 call replayed, to the recorded failure"
    for other in (code(KeyError("x")), code(ValueError("boom"), early=True)):
        differs = (await checked(other, entries)).divergence
        assert differs is not None
        assert differs.kind == "error"
    fixed = await checked(code(None), entries)
    assert fixed.ok, "a process that failed is run again by code that does not fail there"


async def test_a_cancelled_process_is_checked_to_where_it_was_told(node: Node) -> None:
    """Its code is told to stop at the same call."""
    world, told = World(), []

    async def code(process: Process, input: Any) -> Any:
        await process.step("a", world.do)
        try:
            await process.gate("never")
        finally:
            told.append(process.cancelling.is_accepted)

    running = asyncio.create_task(node.run(made(code), "p"))
    await until(node, lambda state: state.lifecycle == "awaiting")
    await node.cancel("p", "enough")
    await asyncio.wait({running})
    running.exception()
    found = await checked(code, await history(node))
    assert (found.ok, found.ended_by, found.calls) == (True, "cancelled", 1)
    assert told == [True, True]


async def test_what_was_taken_back_later_was_done_when_the_code_came_by(node: Node) -> None:
    """An effect that its failing process compensated is answered as it was then."""
    world = World()

    async def code(process: Process, input: Any) -> Any:
        await process.effect("book", world.do, 1, compensate=undo)
        try:
            await process.step("fails", world.fails)
        except LookupError:
            await process.compensate()
            raise

    entries = await ran(node, code)
    assert any(isinstance(one.entry.body, b.ObligationSettled) for one in entries)
    runs = world.runs
    found = await checked(code, entries)
    assert (found.ok, found.ended_by, found.calls) == (True, "error", 2), str(found)
    owed = next(at for at, one in enumerate(entries) if isinstance(one.entry.body, b.ObligationSettled))
    found = await checked(code, entries[: owed - 1])
    assert (found.ok, found.ended_at) == (True, "compensate")
    assert (world.runs, undone) == (runs, [1])


undone: list[int] = []


async def undo(what: int) -> None:
    undone.append(what)


async def test_mail_is_remembered(node: Node) -> None:
    """Whoever received is answered from the history, in its turn; where none came, the history ends."""

    def code(*names: str) -> Code:
        async def run(process: Process, input: Any) -> Any:
            async for _ in process.turns():
                break
            return [(await process.receive(name)).payload for name in names]

        return run

    await node.signal("p", "go", 1)
    entries = await ran(node, code("go"))
    found = await checked(code("go"), entries)
    assert (found.ok, found.calls, found.ended_by) == (True, 1, "result")
    found = await checked(code("go", "more"), entries)
    assert found.divergence is not None
    assert (found.divergence.kind, found.ended_at) == ("length", "1/receive:2")


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
