"""Steps and decisions that ask for no retry are tried again after a transient error; effects are not. In memory."""

from __future__ import annotations

import asyncio
import threading
from decimal import Decimal
from typing import Any

import pytest

from counted_steps import Counted, failing
from cuts import of_kind, until
from outside_ledger import Ledger
from seekpoint.producers import Effect, Node, Process, Retry, VirtualClock, agent
from seekpoint.producers.testing import crash_at
from seekpoint.producers.writer.clocks import SystemClock
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import BudgetExceeded, InvalidSetting, ReplayDivergence


class Busy(Exception):
    """What a client makes of a 429 with Retry-After."""

    status_code = 429

    def __init__(self, seconds: str) -> None:
        super().__init__("too many requests")
        self.headers = {"retry-after": seconds}


def outcomes(log: MemoryLog) -> list[tuple[int, str]]:
    return [(one.attempt, one.outcome) for kind in (b.StepEnded, b.DecisionMade) for one in of_kind(log, kind)]


async def test_a_transient_failure_of_a_step_is_tried_again(node: Node, log: MemoryLog) -> None:
    """Each attempt is recorded, with the same idempotency key."""
    body = Counted(ConnectionError("1"), TimeoutError("2"), "done")
    async with node.open("p") as process:
        assert await process.step("pay", body) == "done"
    assert outcomes(log) == [(1, "retry"), (2, "retry"), (3, "succeeded")]
    assert {one.idempotency_key for one in of_kind(log, b.StepStarted)} == {"p/pay:1"}


async def test_a_transient_failure_of_a_decision_and_of_a_tool_is_tried_again(node: Node, log: MemoryLog) -> None:
    """A model that is overloaded, a tool that looks something up."""
    model, look = Counted(ConnectionError("overloaded"), "yes"), Counted(ConnectionError("reset"), "found")
    async with node.open("p") as process:
        assert await process.decide("plan", model, {"messages": []}) == "yes"
        assert await process.tool("look", look) == "found"
    assert outcomes(log) == [(1, "retry"), (2, "succeeded")] * 2


async def test_an_effect_inside_is_not_made_for_another_sum_in_the_next_attempt(node: Node) -> None:
    """The body asked outside what it has to pay, and hears another sum: paid under another key, it would be twice."""
    sums, paid = iter([100, 101]), Counted("paid")

    @agent("shop", version="1")
    async def shop(process: Process, _: Any) -> Any:
        async def check_out() -> None:
            await process.effect("pay", paid, next(sums), semantics=Effect.AT_MOST_ONCE)
            raise ConnectionError("reset")

        return await process.step("check out", check_out)

    with pytest.raises(ReplayDivergence) as caught:
        await node.run(shop, "p")
    assert paid.runs == [(100,)]
    assert caught.value.facts["difference"] == "$.arguments[0]: 100 is now 101"


async def test_after_three_attempts_the_last_error_is_the_failure(node: Node) -> None:
    """The retry is bounded, the waits are short."""
    body = Counted(ConnectionError("1"), ConnectionError("2"), ConnectionError("3"), "never")
    before = node.clock.monotonic()
    async with node.open("p") as process:
        assert await failing(process, body) == "ConnectionError: 3"
        assert await failing(process, Counted(ValueError("other"))) == "ValueError: other"
    assert len(body.runs) == 3
    assert 0.299 <= node.clock.monotonic() - before <= 0.901


async def test_a_programming_error_is_not_tried_again(node: Node) -> None:
    """Nor an answer that says no."""
    body = Counted(KeyError("typo"), "never")
    async with node.open("p") as process:
        assert await failing(process, body) == "KeyError: 'typo'"
    assert len(body.runs) == 1


async def test_a_retry_of_its_own_wins(node: Node) -> None:
    """One attempt, also for a transient error; and None is as if it were not given."""
    once, thrice = Counted(ConnectionError("1"), "never"), Counted(ConnectionError("1"), "done")
    async with node.open("p") as process:
        assert await failing(process, once, retry=Retry(attempts=1)) == "ConnectionError: 1"
        assert await process.step("look", thrice, retry=None) == "done"
    assert (len(once.runs), len(thrice.runs)) == (1, 2)


async def test_an_agent_says_it_for_all_its_steps_and_decisions(node: Node) -> None:
    """Those that have no retry of their own."""
    step, decision, own = (Counted(ConnectionError(name), "done") for name in ("step", "decision", "own"))

    @agent("careful", retry_steps=Retry(attempts=1))
    async def careful(process: Process, input: Any) -> list[str]:
        ended = await asyncio.gather(
            process.step("look", step),
            process.decide("plan", decision, {}),
            process.step("own", own, retry=Retry(attempts=2, backoff_s=0)),
            return_exceptions=True,
        )
        return [str(one) for one in ended]

    assert await node.run(careful, "p") == ["step", "decision", "done"]
    assert [len(body.runs) for body in (step, decision, own)] == [1, 1, 2]
    with pytest.raises(InvalidSetting):
        agent("wrong", retry_steps=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("semantics", [Effect.IDEMPOTENT, Effect.AT_MOST_ONCE])
async def test_an_effect_is_called_once(semantics: Effect, node: Node, ledger: Ledger) -> None:
    """It changes the world: whoever wants more attempts says so."""
    ledger.fails = [ConnectionError("reset")]
    async with node.open("p") as process:
        with pytest.raises(Exception, match=r"reset|unknown|pay:1"):
            await process.effect("pay", ledger.pay, 5, semantics=semantics)
    assert len(ledger.calls) == 1


async def test_the_failure_of_a_call_inside_is_not_tried_again_around_it(node: Node) -> None:
    """It had its attempts: three, not nine."""
    inner, outer = Counted(ConnectionError("down")), list[int]()
    async with node.open("p") as process:

        async def order() -> Any:
            outer.append(1)
            return await process.step("ship", inner)

        assert await failing(process, order) == "ConnectionError: down"
    assert (len(inner.runs), len(outer)) == (3, 1)


async def test_a_fallback_is_tried_again_too(node: Node) -> None:
    """It is asked while the failure of another call is handled, and fails on its own."""
    other = Counted(ConnectionError("down as well"), "found")
    async with node.open("p") as process:
        try:
            await process.step("look", Counted(ConnectionError("down")))
        except ConnectionError:
            assert await process.step("look elsewhere", other) == "found"
    assert len(other.runs) == 2


async def test_a_time_out_is_tried_again_but_not_beside_a_thread(node: Node, clock: VirtualClock) -> None:
    """A coroutine is stopped by its time-out, a thread goes on."""
    runs, threads, leave = list[int](), list[int](), threading.Event()

    async def slow() -> str:
        runs.append(1)
        await clock.sleep(10 if len(runs) == 1 else 0)
        return "done"

    def stuck() -> None:
        threads.append(1)
        leave.wait(30)

    async with node.open("p") as process:
        assert await process.step("slow", slow, timeout=5) == "done"
        with pytest.raises(TimeoutError, match="stuck:1 took longer"):
            await process.step("stuck", stuck, timeout=5)
        leave.set()
    assert (len(runs), len(threads)) == (2, 1)


class TimeoutWithoutCause(asyncio.Timeout):  # type: ignore[misc]  # final for type checkers only
    """The limit of Python 3.11.2 and older: its error does not name the cancellation as its cause."""

    async def __aexit__(self, *error: Any) -> None:
        try:
            await super().__aexit__(*error)
        except TimeoutError:
            raise TimeoutError from None


class OldClock(SystemClock):
    def timeout(self, seconds: float | None) -> asyncio.Timeout:
        """Limit an ``async with`` block."""
        return TimeoutWithoutCause(None if seconds is None else asyncio.get_running_loop().time() + seconds)


async def test_a_time_out_is_known_on_every_python() -> None:
    """Else a step whose thread goes on would run once more beside it."""
    threads, leave = list[int](), threading.Event()

    def stuck() -> None:
        threads.append(1)
        leave.wait(30)

    async with Node.in_memory(MemoryLog(), clock=OldClock()) as node, node.open("p") as process:
        with pytest.raises(TimeoutError, match="slow:1 took longer"):
            await process.step("slow", asyncio.sleep, 30, timeout=0.01, retry=Retry(attempts=1))
        with pytest.raises(TimeoutError, match="stuck:1 took longer"):
            await process.step("stuck", stuck, timeout=0.01)
        leave.set()
    assert threads == [1]


async def test_the_wait_is_as_long_as_the_server_asks(node: Node, clock: VirtualClock) -> None:
    """By the process's clock, which skips it; at most half a minute."""
    for seconds, most in (("10", 15.0), ("86400", 30.0)):
        before = clock.monotonic()
        async with node.open(f"p{seconds}") as process:
            assert await process.step("pay", Counted(Busy(seconds), "done")) == "done"
        assert min(float(seconds), most) - 0.001 <= clock.monotonic() - before <= most + 0.001


@pytest.mark.parametrize("kind", ["step", "decision"])
async def test_it_goes_on_after_a_crash_between_attempts(kind: str) -> None:
    """The next owner makes the second attempt; a third one is left to it."""
    body = Counted(ConnectionError("1"), ConnectionError("2"), "done")

    @agent("caller")
    async def caller(process: Process, input: Any) -> Any:
        if kind == "step":
            return await process.step("call", body, {})
        return await process.decide("call", body, {})

    crash = crash_at(call="call:1", ended=True, when="acknowledged")
    assert await crash.run(caller, "p", None) == "done"
    assert crash.happened
    assert outcomes(crash.log) == [(1, "retry"), (2, "retry"), (3, "succeeded")]


async def test_a_cancelled_wait_makes_no_further_attempt(log: MemoryLog) -> None:
    """The cancellation ends the call at once; whoever resumes waits what is left and goes on counting."""
    body = Counted(Busy("20"), "done")
    clock = VirtualClock(skips=False)
    async with Node.in_memory(log, clock=clock) as node:
        process = await node.open("p")
        task = asyncio.create_task(process.step("pay", body))
        await until(lambda: of_kind(log, b.StepEnded))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(body.runs) == 1
        await process.release()
    heirs = VirtualClock(clock.now_us())
    async with Node.in_memory(log, clock=heirs) as node, node.open("p") as process:
        assert await process.step("pay", body) == "done"
    assert 19.999 <= heirs.monotonic() <= 30.001
    assert outcomes(log) == [(1, "retry"), (2, "succeeded")]


async def test_a_budget_is_charged_for_each_attempt_of_a_decision(node: Node) -> None:
    """And refuses the attempt that does not fit."""
    model = Counted(ConnectionError("down"))
    async with node.open("p") as process:
        await process.set_budget({"model_calls": 2})
        with pytest.raises(BudgetExceeded):
            await process.decide("plan", model, {})
        assert process.state.budget is not None
        assert process.state.budget.spent["model_calls"] == Decimal(2)
    assert len(model.runs) == 2
