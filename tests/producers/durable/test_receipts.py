"""Mail that an agent's code receives: remembered as its other calls are, taken once through any crash. In memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from cuts import bodies, cut_after, cuts, of_kind, on_node, until
from seekpoint.producers import Agent, Node, Process, VirtualClock, agent, check_replay
from seekpoint.producers.durable.asked import asked
from seekpoint.producers.handle import Status
from seekpoint.producers.importing import import_process
from seekpoint.producers.testing import When, assert_replays, crash_at, history_of
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import Cancelled, Fenced, InvalidName, LimitExceeded, Refused, ReplayDivergence
from seekpoint.schemas.limits import Limits

START_US = 1_700_000_000_000_000


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(skips=False)


def reader(*names: str | None, then: Callable[[], Any] | None = None, **how: Any) -> Agent:
    """An agent that receives mail by these names, one after the other; ``then`` is called behind it."""

    @agent("reader")
    async def run(process: Process, input: Any) -> Any:
        found = [await process.receive(name, **how) for name in names]
        if then is not None:
            then()
        return [[item.kind, item.name, item.payload, item.actor, item.id.hex()] for item in found]

    return run


class Crash(Exception):
    """The code dies here."""


def crashing(times: int = 1) -> Callable[[], Any]:
    """Dies so often, then no more."""
    left = [None] * times

    def then() -> None:
        if left:
            left.pop()
            raise Crash

    return then


def ids(count: int) -> list[bytes]:
    return [bytes(15) + bytes([number]) for number in range(1, count + 1)]


# --- remembered
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


async def test_it_waits_awaiting_and_is_answered_as_it_comes(node: Node, log: MemoryLog) -> None:
    """By the log alone: no clock, no poll."""
    run = asyncio.create_task(node.run(reader("go"), "p"))
    await until(lambda: any(isinstance(body, b.LifecycleChanged) and body.to == "awaiting" for body in bodies(log)))
    await node.signal("p", "no", 0)
    await node.signal("p", "go", 1)
    assert (await asyncio.wait_for(run, 60))[0][1:3] == ["go", 1]
    assert [body.to for body in of_kind(log, b.LifecycleChanged)] == ["awaiting", "running"]


async def test_a_time_out_is_remembered_too(node: Node, log: MemoryLog, clock: VirtualClock) -> None:
    """What comes afterwards is not what the code saw: it goes on as it did."""
    then, told = crashing(), []

    @agent("patient")
    async def patient(process: Process, input: Any) -> Any:
        try:
            await process.receive("go", timeout_s=5)
        except TimeoutError as exc:
            told.append(str(exc))
            then()
            return await process.step("alone", str, "alone")
        return "with it"

    run = asyncio.create_task(node.run(patient, "p"))
    await until(lambda: of_kind(log, b.LifecycleChanged))
    clock.advance(5)
    with pytest.raises(Crash):
        await asyncio.wait_for(run, 60)
    await node.signal("p", "go", 1)
    assert await node.run(patient, "p") == "alone"
    assert told == ["no signal 'go' came within 5 s"] * 2
    assert [one.external_id for one in of_kind(log, b.Received)] == [b.NIL_ID]


async def test_what_is_in_the_log_by_the_moment_counts(node: Node, log: MemoryLog) -> None:
    """No time at all is time enough for what is there."""
    await node.signal("p", "go", 1)
    assert (await node.run(reader("go", timeout_s=0), "p"))[0][2] == 1
    with pytest.raises(TimeoutError, match=r"no mail came within 0 s"):
        await node.run(reader(None, timeout_s=0), "q")


async def test_two_that_wait_are_served_in_the_order_of_the_program(node: Node, log: MemoryLog) -> None:
    """In branches too; and a run that follows gives each its own."""
    then = crashing()

    @agent("both")
    async def both(process: Process, input: Any) -> Any:
        found = await asyncio.gather(process.receive("go"), process.receive("go"), process.receive())
        then()
        return [item.payload for item in found]

    run = asyncio.create_task(node.run(both, "p"))
    await until(lambda: of_kind(log, b.LifecycleChanged))
    for number, name in enumerate(("go", "any", "go")):
        await node.signal("p", name, number)
    with pytest.raises(Crash):
        await asyncio.wait_for(run, 60)
    assert await node.run(both, "p") == [0, 2, 1]
    assert len({one.external_id for one in of_kind(log, b.Received)}) == 3


async def test_what_a_gate_waits_for_is_the_gates(node: Node, log: MemoryLog) -> None:
    """A person's yes is not swallowed by a branch that takes whatever comes; by name, whoever asked first is served."""

    @agent("mixed")
    async def mixed(process: Process, input: Any) -> Any:
        answer, one, two = await asyncio.gather(process.gate("ok"), process.receive(), process.receive("ok"))
        return [bool(answer), one.payload, two.payload]

    run = asyncio.create_task(node.run(mixed, "p"))
    await until(lambda: of_kind(log, b.GateOpened))
    await node.approve("p", "ok:1", actor="ann")
    await until(lambda: of_kind(log, b.GateResolved))
    await node.signal("p", "ok", "named")
    await until(lambda: of_kind(log, b.Received))
    await node.signal("p", "ok", "any")
    assert await asyncio.wait_for(run, 60) == [True, "any", "named"]


async def test_outside_of_an_agent_each_takes_anew(node: Node, log: MemoryLog) -> None:
    """No call, no key: a program that opens a process receives as it likes, requests to cancel too."""
    await node.signal("p", "go", 1)
    await node.signal("p", "go", 2)
    await node.cancel("q", "yours")
    for number in (1, 2):
        async with node.open("p") as process:
            assert (await process.receive("go", timeout_s=60)).payload == number
            assert not process.state.calls
    async with node.open("q") as process:
        assert (await process.receive(timeout_s=60)).kind == "cancel_requested"
    assert [one.key for one in of_kind(log, b.Received)] == [None, None]


async def test_outside_of_an_agent_a_time_out_is_seconds_or_a_timedelta(node: Node) -> None:
    """As inside; what is neither is refused at once."""
    async with node.open("p") as process:
        for timeout_s in (0, 0.01, timedelta(milliseconds=10)):
            with pytest.raises(TimeoutError):
                await process.receive("go", timeout_s=timeout_s)
        with pytest.raises(Refused, match="span of time"):
            await process.receive("go", timeout_s="soon")  # type: ignore[arg-type]


async def test_who_waits_for_mail_is_cancelled(node: Node, log: MemoryLog) -> None:
    """A request to stop is nobody's mail, in an agent's code: nobody takes it for a message and goes on."""
    run = asyncio.create_task(node.run(reader(None), "p"))
    await until(lambda: of_kind(log, b.LifecycleChanged))
    await node.cancel("p", "enough")
    with pytest.raises(Cancelled):
        await asyncio.wait_for(run, 60)
    assert not of_kind(log, b.Received)


async def test_a_request_that_came_before_the_wait_is_no_mail_either(node: Node, log: MemoryLog) -> None:
    """A call takes its place when it is made, and looks into the mailbox when it is awaited."""

    @agent("late")
    async def late(process: Process, input: Any) -> Any:
        wait = process.receive()
        await node.cancel("p", "enough")
        await process._confirmer.to_end(process._handle)
        assert [item.kind for item in process.waiting.mail] == ["cancel_requested"]
        return await wait

    with pytest.raises(Cancelled):
        await asyncio.wait_for(node.run(late, "p"), 60)
    assert not of_kind(log, b.Received)


# --- crashes
@pytest.mark.parametrize("when", list(When))
@pytest.mark.parametrize("call", ["receive:1", "receive:2"])
async def test_a_crash_at_its_entry_neither_loses_nor_doubles_mail(call: str, when: When) -> None:
    """Before the entry it waits on in the mailbox, behind it it is in the record."""
    sent = ids(3)
    crash = crash_at(call=call, when=when)
    async with Node.in_memory(crash.log) as node:
        for number, one in enumerate(sent):
            await node.signal("p", "go", number, signal_id=one)
    found = await crash.run(reader("go", None), "p", None)
    assert [item[2] for item in found] == [0, 1]
    taken = [one.external_id for one in of_kind(crash.log, b.Received)]
    assert taken == sent[:2]
    await assert_replays(reader("go", None), crash.history())


async def test_mail_survives_a_crash_anywhere() -> None:
    """Cut after each entry, the signals with it; who sent them and lost them sends them again. Each is taken once."""
    whole, sent = MemoryLog(partitions=1), ids(3)

    @agent("worker")
    async def worker(process: Process, input: Any) -> Any:
        seen: list[Any] = []
        async for turn in process.turns():
            seen.append((await process.receive("go")).payload)
            seen.append(await process.step("work", str, seen[-1]))
            if turn.number == 3:
                break
        return seen[-2:]

    async def ran(node: Node) -> Any:
        for number, one in enumerate(sent):
            await node.signal("p", "go", number, signal_id=one)
        return await node.run(worker, "p", take_over=True)

    wanted = await on_node(whole, ran)
    assert wanted == [2, "2"]
    for log in cuts(whole):
        assert await on_node(log, ran) == wanted
        assert [one.external_id for one in of_kind(log, b.Received)] == sent
        await assert_replays(worker, history_of(log, "p"))


async def test_branches_and_bodies_that_receive_survive_a_crash_anywhere() -> None:
    """Each gets what it got, whichever was quicker before; what was open goes on waiting; a time-out stays one."""
    whole, sent = MemoryLog(partitions=1), ids(4)

    @agent("worker")
    async def worker(process: Process, input: Any) -> Any:
        async def branch(name: str) -> Any:
            first = (await process.receive(name)).payload

            async def body() -> Any:
                return (await process.receive(name)).payload

            return [first, await process.step(f"second {name}", body)]

        both = await asyncio.gather(branch("left"), branch("right"))
        with pytest.raises(TimeoutError):
            await process.receive("never", timeout_s=3600)
        return [*both, bool(await process.gate("ok"))]

    async def ran(node: Node) -> Any:
        for number, name in enumerate(("left", "right", "left", "right")):
            await node.signal("p", name, number, signal_id=sent[number])
        await node.signal("p", "ok", True, signal_id=bytes(16)[1:] + b"9")
        return await node.run(worker, "p", take_over=True)

    assert await on_node(whole, ran) == [[0, 2], [1, 3], True]
    for log in cuts(whole):
        assert await on_node(log, ran) == [[0, 2], [1, 3], True]
        taken = [one.external_id for one in of_kind(log, b.Received)]
        assert sorted(taken) == sorted([*sent, b.NIL_ID])
        await assert_replays(worker, history_of(log, "p"))


async def test_an_uncertain_append_takes_it_once(log: MemoryLog, clock: VirtualClock) -> None:
    """The log is away when the entry is on its way: it is sent again under the new claim, and still answers."""
    owner: list[Process] = []

    @agent("reader")
    async def run(process: Process, input: Any) -> Any:
        owner.append(process)
        log.refuse_appends()
        return (await process.receive("go")).payload

    async with Node.in_memory(log, clock=clock, append_timeout_s=0.1, producer_drain_s=0.01) as node:
        await node.signal("p", "go", 1)
        running = asyncio.create_task(node.run(run, "p"))
        await until(lambda: owner and owner[0]._handle.status is Status.HEALING)
        log.heal()
        assert await asyncio.wait_for(running, 60) == 1
    assert len(of_kind(log, b.Received)) == 1
    assert len(of_kind(log, b.Claim)) == 2


# --- the rules
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


async def test_it_leaves_the_state_with_its_turn(node: Node, log: MemoryLog) -> None:
    """A loop without end that lives on mail costs what one turn has."""

    @agent("endless")
    async def endless(process: Process, input: Any) -> Any:
        async for turn in process.turns():
            await process.receive()
            if turn.number == 3:
                break
        return [*process.written.calls]

    for number in range(3):
        await node.signal("p", "go", number)
    assert await node.run(endless, "p") == ["3/receive:1"]


async def test_a_wait_that_a_turn_left_behind_takes_nothing(node: Node, log: MemoryLog) -> None:
    """Nobody would have it: the mail is for the turns that follow."""
    left: list[asyncio.Task[Any]] = []

    @agent("hasty")
    async def hasty(process: Process, input: Any) -> Any:
        async for turn in process.turns():
            if turn.number == 2:
                break
            left.append(asyncio.create_task(process.receive("go")))
            await process.step("meanwhile", asyncio.sleep, 0)
        await node.signal("p", "go", 1)
        return (await process.receive("go", timeout_s=30)).payload

    assert await asyncio.wait_for(node.run(hasty, "p"), 60) == 1
    with pytest.raises(Refused, match="has ended"):
        await left[0]
    assert [one.key for one in of_kind(log, b.Received)] == ["2/receive:1"]


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


async def test_mail_the_state_has_no_room_for_stays_in_the_mailbox() -> None:
    """Told before anything is sent."""
    log = MemoryLog(partitions=1, limits=Limits(state_bytes=2_000))
    async with Node.in_memory(log) as node:
        await node.signal("p", "go", "x" * 3_000)
        with pytest.raises(LimitExceeded):
            await node.run(reader("go"), "p")
        assert len((await node.recover("p")).state.mailbox) == 1


# --- held against code, shown, moved
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


async def test_what_was_received_is_told_of_as_a_call(node: Node, log: MemoryLog, clock: VirtualClock) -> None:
    """``seekpoint steps``: what was asked for, what came and from whom; a time-out is one."""
    await node.signal("p", "go", {"n": 1}, actor="ann")

    @agent("reader")
    async def run(process: Process, input: Any) -> Any:
        await process.receive()
        with pytest.raises(TimeoutError):
            await process.receive("more", timeout_s=0)

    await node.run(run, "p")
    first, second = (one.to_dict() for one in asked(history_of(log, "p")))
    assert (first["key"], first["kind"], first["status"], first["input"]) == ("receive:1", "receive", "succeeded", None)
    assert (first["output"], first["signal"], first["actor"]) == ({"n": 1}, "go", "ann")
    assert [first["name"], second["name"]] == ["mail", "more"]
    assert (second["key"], second["status"], second["input"], second["output"]) == (
        "receive:2", "timed_out", "more", None,
    )  # fmt: skip


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


async def test_an_owner_that_lost_the_process_takes_nothing(log: MemoryLog) -> None:
    """What it wrote is fenced: the mail is the new owner's, once."""
    async with Node.in_memory(log) as old, Node.in_memory(log) as new:
        run = asyncio.create_task(old.run(reader("go"), "p"))
        await until(lambda: of_kind(log, b.LifecycleChanged))
        again = asyncio.create_task(new.run(reader("go"), "p", take_over=True))
        await until(lambda: len(of_kind(log, b.Claim)) == 2)
        await new.signal("p", "go", 1)
        assert (await asyncio.wait_for(again, 60))[0][2] == 1
        with pytest.raises(Fenced):
            await asyncio.wait_for(run, 60)
    assert (await on_node(cut_after(log, log.watermarks(0).high), lambda node: node.recover("p"))).state.finished


@pytest.mark.parametrize("name", [5, True, b"go", ["go"]])
async def test_a_name_that_is_no_text_is_refused_at_once(node: Node, name: Any) -> None:
    """No signal is called so: it would wait for ever. In an agent's code and outside of one."""
    async with asyncio.timeout(60):
        with pytest.raises(InvalidName):
            await node.run(reader(name), "p", None)
        async with node.open("q") as process:
            with pytest.raises(InvalidName):
                await process.receive(name)


async def test_names_that_are_always_new_leave_nothing_behind(node: Node, log: MemoryLog) -> None:
    """An agent without end may wait for an answer by an id of its own, each time another one."""
    left: list[int] = []

    @agent("asker")
    async def run(process: Process, input: Any) -> None:
        for number in range(3):
            await process.receive(f"answer-{number}")
            await process.gate(f"yes-{number}")
        left.append(len(process.waiting.queues))

    for number in range(3):
        await node.signal("p", f"answer-{number}")
        await node.signal("p", f"yes-{number}", True)
    await node.run(run, "p", None)
    assert left == [0]
