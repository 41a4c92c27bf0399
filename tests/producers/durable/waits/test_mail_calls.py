"""Mail that an agent's code receives: who waits for what, for how long, and who gets it. In memory."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from cuts import bodies, of_kind, until
from mail_agents import Crash, crashing, reader
from open_processes import durable_side, session_of
from seekpoint.producers import Node, Process, VirtualClock, agent
from seekpoint.producers.durable.replay.call_records import asked
from seekpoint.producers.testing import history_of
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.errors import Cancelled, InvalidName, LimitExceeded, Refused


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(skips=False)


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
            await process.receive("go", timeout_s="soon")  # type: ignore[call-overload]


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
        await session_of(process).read_log()
        assert [item.kind for item in durable_side(process).waiting.mail] == ["cancel_requested"]
        return await wait

    with pytest.raises(Cancelled):
        await asyncio.wait_for(node.run(late, "p"), 60)
    assert not of_kind(log, b.Received)


async def test_a_verdict_about_an_effect_is_no_message(node: Node, log: MemoryLog) -> None:
    """A call that takes any message leaves it in the mailbox: it answers an effect, whenever that asks for it."""
    run = asyncio.create_task(node.run(reader(None), "p"))
    await until(lambda: of_kind(log, b.LifecycleChanged))
    await node.verdict("p", "pay:1", "failed", reason="no such payment", idempotency_key="any")
    await node.signal("p", "go", 1)
    assert (await asyncio.wait_for(run, 60))[0][1:3] == ["go", 1]
    assert len(of_kind(log, b.EffectVerdict)) == 1


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


async def test_mail_the_state_has_no_room_for_stays_in_the_mailbox() -> None:
    """Told before anything is sent."""
    log = MemoryLog(partitions=1, limits=Limits(state_bytes=2_000))
    async with Node.in_memory(log) as node:
        await node.signal("p", "go", "x" * 3_000)
        with pytest.raises(LimitExceeded):
            await node.run(reader("go"), "p")
        assert len((await node.recover("p")).state.mailbox) == 1


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
        left.append(len(durable_side(process).waiting.queues))

    for number in range(3):
        await node.signal("p", f"answer-{number}")
        await node.signal("p", f"yes-{number}", True)
    await node.run(run, "p", None)
    assert left == [0]
