"""Gates: where code waits for a signal, or a person's yes or no. In memory."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta
from typing import Any

import pytest

from cuts import bodies, cut_after, cuts, of_kind, on_node, until
from seekpoint.producers import Agent, GateAnswer, Node, Process, VirtualClock, agent
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry, new_id
from seekpoint.schemas.errors import LimitExceeded, ReplayDivergence
from seekpoint.schemas.log.memory_log import MemoryTail
from seekpoint.schemas.log.tail import TailBatch
from seekpoint.schemas.wire.codec import encode

START_US = 1_700_000_000_000_000
HOUR_US = 3_600_000_000


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(skips=False)


async def opened(log: MemoryLog, gates: int = 1) -> None:
    """Once so many gates were opened."""
    await until(lambda: len(of_kind(log, b.GateOpened)) >= gates)


def asker(**how: Any) -> Agent:
    @agent("asker")
    async def run(process: Process, input: Any) -> Any:
        answer = await process.gate("refund", **how)
        return [bool(answer), *answer]

    return run


async def test_a_person_says_yes_with_name_and_reason(node: Node, log: MemoryLog) -> None:
    """While it waits the process is awaiting; the entry that closes the gate names the signal."""
    run = asyncio.create_task(node.run(asker(prompt={"amount": 12}), "p"))
    await until(lambda: any(isinstance(body, b.LifecycleChanged) and body.to == "awaiting" for body in bodies(log)))
    state = (await node.recover("p")).state
    assert state.lifecycle == "awaiting"
    facts = state.calls["refund:1"].facts
    assert facts == {"name": "refund", "prompt": '{"amount":12}', "since_us": facts["since_us"]}
    signal = await node.approve("p", "refund", reason="he is right", actor="ann")
    assert await asyncio.wait_for(run, 60) == [
        True, "approved", {"approved": True, "reason": "he is right"}, "ann", "he is right"
    ]  # fmt: skip
    (closed,) = of_kind(log, b.GateResolved)
    assert (closed.external_id, closed.outcome, closed.actor) == (signal, "approved", "ann")
    lives = [body.to for body in of_kind(log, b.LifecycleChanged)]
    assert lives == ["awaiting", "running"]


@pytest.mark.parametrize(
    ("payload", "wanted"),
    [
        (True, [True, "approved", None]),
        (False, [False, "denied", None]),
        ({"approved": False, "reason": "no"}, [False, "denied", "no"]),
        ({"approved": True, "reason": 7}, [True, "approved", None]),
        ({"approved": 1, "reason": "why"}, [False, "signalled", None]),
        (None, [False, "signalled", None]),
        (["approved"], [False, "signalled", None]),
    ],
)
async def test_only_a_yes_is_true(node: Node, payload: Any, wanted: list[Any]) -> None:
    """A signal may say it, or carry anything else: then nobody approved."""
    await node.signal("p", "refund", payload)
    passed, outcome, told, actor, reason = await node.run(asker(), "p")
    assert [passed, outcome, reason] == wanted
    assert (told, actor) == (payload, None)


async def test_a_signal_may_come_first(node: Node, log: MemoryLog) -> None:
    """Before the process exists; the gate is opened and closed at once, nobody waits."""
    await node.signal("p", "other", 1)
    await node.approve("p", "refund", actor="ann", in_advance=True)
    assert (await node.run(asker(), "p"))[:2] == [True, "approved"]
    assert "awaiting" not in [body.to for body in of_kind(log, b.LifecycleChanged)]
    assert len(of_kind(log, b.GateOpened)) == 1


async def test_one_name_is_a_gate_many_times(node: Node, log: MemoryLog) -> None:
    """A bug of Tape's: single-use names. Answers are taken in the order of the log; a replay takes none."""

    async def work(process: Process) -> list[Any]:
        return [(await process.gate("next")).payload for _ in range(3)]

    for number in range(3):
        await node.signal("p", "next", number)
    async with node.open("p") as process:
        assert await work(process) == [0, 1, 2]
    await node.signal("p", "next", 3)
    async with node.open("p") as process:
        assert await work(process) == [0, 1, 2]
        assert [item.payload for item in process.state.mailbox.values()] == [3]


async def test_gates_of_one_name_that_are_open_at_once_are_answered_in_their_order(node: Node, log: MemoryLog) -> None:
    """By name the first that was opened; by its key any."""
    async with node.open("p") as process:
        gates = asyncio.gather(*(process.gate("ok") for _ in range(3)))
        await opened(log, 3)
        await node.signal("p", "ok:2", "two")
        await node.signal("p", "ok", "one")
        await node.signal("p", "ok", "three")
        answers: list[GateAnswer] = await asyncio.wait_for(gates, 60)
    assert [answer.payload for answer in answers] == ["one", "two", "three"]


async def test_a_gate_that_could_not_be_opened_keeps_no_other_waiting(node: Node) -> None:
    """Its place in the line is free again."""
    async with node.open("p") as process:
        with pytest.raises(LimitExceeded):
            await process.gate("ok", prompt="x" * 1_048_500)
        await node.signal("p", "ok", 1)
        assert (await asyncio.wait_for(process.gate("ok"), 60)).payload == 1


@pytest.mark.parametrize(("payload", "outcome"), [("", "signalled"), ({"approved": True}, "approved")])
async def test_a_payload_that_no_entry_has_room_for_is_left_out(payload: Any, outcome: str, node: Node) -> None:
    """It fitted a signal, and is anybody's to send: what it says counts, and the process gets beyond it."""
    key = "k" * 300
    wide = {**payload, "reason": "x" * 1_048_250} if payload else "x" * 1_048_300
    async with node.open("p") as process:
        assert await node.is_delivered("p", await node.signal("p", "ok", wide))
        answer = await asyncio.wait_for(process.gate("ok", key=key), 60)
        assert (answer.outcome, answer.payload, answer.reason) == (outcome, {"left_out": type(wide).__name__}, None)
    async with node.open("p") as process:
        assert await process.gate("ok", key=key) == answer
        assert not process.state.mailbox


async def test_one_signal_answers_one_gate(node: Node, log: MemoryLog) -> None:
    """The gate that took it is closed by it; the other goes on waiting."""
    async with node.open("p") as process:
        gates = [asyncio.ensure_future(process.gate("ok")) for _ in range(2)]
        await opened(log, 2)
        await node.signal("p", "ok")
        await asyncio.wait_for(gates[0], 60)
        await asyncio.sleep(0.05)
        assert not gates[1].done()
        await node.signal("p", "ok")
        await asyncio.wait_for(gates[1], 60)
    assert len({one.external_id for one in of_kind(log, b.GateResolved)}) == 2


async def test_a_gate_times_out(node: Node, log: MemoryLog, clock: VirtualClock) -> None:
    """Not a microsecond early; what comes later answers the next one."""
    async with node.open("p") as process:
        gate = asyncio.ensure_future(process.gate("ok", timeout=timedelta(hours=8)))
        await opened(log)
        clock.advance(8 * 3_600 - 0.001)
        await asyncio.sleep(0.05)
        assert not gate.done()
        clock.advance(0.001)
        answer = await asyncio.wait_for(gate, 60)
        assert (answer.timed_out, bool(answer), answer.outcome) == (True, False, "timed_out")
        await node.signal("p", "ok", "late")
        assert (await asyncio.wait_for(process.gate("ok", timeout=60), 60)).payload == "late"


async def test_an_answer_in_the_log_counts_though_it_was_not_read_when_the_time_was_over(
    node: Node, log: MemoryLog, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tail is behind when the deadline comes: the log decides, not how quickly this node reads it."""
    stalled, poll = threading.Event(), MemoryTail.poll

    def poll_or_stall(self: MemoryTail, timeout_s: float) -> list[TailBatch]:
        if stalled.is_set():
            time.sleep(0.005)
            return []
        return poll(self, timeout_s)

    monkeypatch.setattr(MemoryTail, "poll", poll_or_stall)
    async with node.open("p") as process:
        waits = asyncio.ensure_future(process.gate("ok", timeout=60))
        await opened(log)
        stalled.set()
        await node.signal("p", "ok", "in time")
        clock.advance(60)
        assert (await asyncio.wait_for(waits, 60)).payload == "in time"
        stalled.clear()


@pytest.mark.parametrize("away_hours", [0, 5, 9])
async def test_a_deadline_is_not_shifted_by_a_crash(away_hours: int) -> None:
    """It counts from when the gate was first opened, whoever waits at it in the end."""
    log, clock = MemoryLog(partitions=1), VirtualClock(patience_s=0)
    await on_node(log, lambda node: node.run(asker(timeout=8 * 3_600), "p"), clock)
    at = next(number for number, body in enumerate(bodies(log), start=1) if isinstance(body, b.GateOpened))
    cut = cut_after(log, at)
    clock = VirtualClock(START_US + away_hours * HOUR_US, patience_s=0)
    result = await on_node(cut, lambda node: node.run(asker(timeout=8 * 3_600), "p", take_over=True), clock)
    assert result[:2] == [False, "timed_out"]
    assert clock.now_us() == START_US + max(8, away_hours) * HOUR_US
    assert [one.deadline_us for one in of_kind(cut, b.GateOpened)] == [START_US + 8 * HOUR_US]


async def test_an_answer_in_the_log_counts_though_nobody_was_there_when_the_time_came() -> None:
    """The person was told that it was sent: whoever looks at last takes it."""
    log, clock = MemoryLog(partitions=1), VirtualClock(patience_s=0)
    await on_node(log, lambda node: node.run(asker(timeout=3_600), "p"), clock)
    at = next(number for number, body in enumerate(bodies(log), start=1) if isinstance(body, b.GateOpened))
    cut = cut_after(log, at)
    await on_node(cut, lambda node: node.approve("p", "refund"))
    clock = VirtualClock(START_US + 9 * HOUR_US, patience_s=0)
    result = await on_node(cut, lambda node: node.run(asker(timeout=3_600), "p", take_over=True), clock)
    assert result[:2] == [True, "approved"]


async def test_an_answer_that_nobody_has_read_yet_comes_before_the_time(
    node: Node, log: MemoryLog, clock: VirtualClock
) -> None:
    """In the log when the moment comes: it is read to its end before anybody says that nobody answered."""
    async with node.open("p") as process:
        gate = asyncio.ensure_future(process.gate("ok", timeout=60))
        await opened(log)
        await asyncio.sleep(0.05)
        signal = Entry(new_id(), "p", None, 0, None, None, 0, None, None, None, b.Signal("ok", "1"))
        log.append(0, b"p", encode(signal))
        clock.advance(60)
        assert (await asyncio.wait_for(gate, 60)).payload == 1


async def test_code_that_asks_something_else_does_not_get_the_answer(node: Node) -> None:
    """What was approved is what was shown; how long somebody waits for it is not."""
    await node.approve("p", "pay", in_advance=True)
    async with node.open("p") as process:
        assert await process.gate("pay", prompt={"amount": 12}, timeout=60)
    async with node.open("p") as process:
        assert await process.gate("pay", prompt={"amount": 12})
    async with node.open("p") as process:
        with pytest.raises(ReplayDivergence) as caught:
            await process.gate("pay", prompt={"amount": 12_000})
    assert caught.value.kind == "input"


def careful(done: list[str]) -> Agent:
    """Does something, asks, does something else."""

    async def do(what: str) -> str:
        done.append(what)
        return what

    @agent("careful")
    async def run(process: Process, input: Any) -> Any:
        await process.step("reserve", do, "reserve")
        await process.update("asked", True)
        answers = [[*await process.gate("pay", prompt="12 EUR?")], [*await process.gate("pay", prompt="13 EUR?")]]
        await process.step("pay", do, "pay")
        return answers

    return run


async def test_what_came_before_a_pause_is_not_repeated_after_it() -> None:
    """A bug of LangGraph's (#6792): the node that paused runs again from its top, side effects and all."""
    log = MemoryLog(partitions=1)
    done: list[str] = []
    async with Node.in_memory(log, clock=VirtualClock(skips=False)) as node:
        for _ in range(3):
            run = asyncio.create_task(node.run(careful(done), "p"))
            await opened(log)
            await asyncio.sleep(0.02)
            run.cancel()
            await asyncio.wait([run])
        assert done == ["reserve"]
        await node.approve("p", "pay")
        await node.deny("p", "pay", reason="enough", in_advance=True)
        answers = await asyncio.wait_for(node.run(careful(done), "p"), 60)
    assert [answer[0] for answer in answers] == ["approved", "denied"]
    assert done == ["reserve", "pay"]
    assert len(of_kind(log, b.GateOpened)) == 2
    assert len([body for body in of_kind(log, b.ContextUpdated) if body.key == "asked"]) == 1


async def test_gates_survive_a_crash_anywhere() -> None:
    """Cut after each entry, the signals with it; who sent them and lost them sends them again. Same answers."""
    whole, ids = MemoryLog(partitions=1), [bytes(15) + b"1", bytes(15) + b"2"]

    async def answered(node: Node) -> Any:
        await node.signal("p", "pay", {"approved": True}, actor="ann", signal_id=ids[0])
        await node.signal("p", "pay", {"approved": False, "reason": "dear"}, actor="bob", signal_id=ids[1])
        return await node.run(careful([]), "p", take_over=True)

    wanted = await on_node(whole, answered)
    assert [answer[0] for answer in wanted] == ["approved", "denied"]
    for log in cuts(whole):
        assert await on_node(log, answered) == wanted
        closed = of_kind(log, b.GateResolved)
        assert [one.external_id for one in closed] == ids
        assert len(of_kind(log, b.GateOpened)) == 2


async def test_a_gate_waits_on_while_the_log_cannot_be_read_or_written(node: Node, log: MemoryLog) -> None:
    """An outage is no answer."""
    run = asyncio.create_task(node.run(asker(), "p"))
    await opened(log)
    log.refuse_appends()
    await asyncio.sleep(0.05)
    assert not run.done()
    log.heal()
    await node.approve("p", "refund")
    assert (await asyncio.wait_for(run, 60))[1] == "approved"


async def test_in_plain_mode_the_lifecycle_stays_whose_it_is(node: Node, log: MemoryLog) -> None:
    """Only what is running is awaiting: a process that nobody started has no such state."""
    async with node.open("p") as process:
        gate = asyncio.ensure_future(process.gate("ok"))
        await opened(log)
        await node.signal("p", "ok")
        await asyncio.wait_for(gate, 60)
    assert not of_kind(log, b.LifecycleChanged)
