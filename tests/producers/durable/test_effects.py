"""Effects on a process in memory: what is called how often, and what the journal says. An outside ledger counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from outside_ledger import Died, Ledger
from seekpoint.producers import Node, Process, agent
from seekpoint.producers.durable.connectors import Connector, Connectors, NotDone, Reconciled
from seekpoint.producers.durable.effects import effect
from seekpoint.producers.durable.resolution import Answer, Effect
from seekpoint.producers.durable.retries import Retry
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.bodies import EffectSettled
from seekpoint.schemas.errors import (
    EffectDuplicate,
    EffectFailed,
    EffectUnknown,
    Fenced,
    Refused,
    UnknownConnector,
    UnserializableValue,
)

ONCE = Effect.AT_MOST_ONCE
QUICK = Retry(attempts=3, backoff_s=0.0, jitter=0.0)


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    async with Node.in_memory(MemoryLog(partitions=2)) as node:
        yield node


def call_of(process: Process, key: str = "pay:1") -> Any:
    return process.state.calls[key]


def settled_by(node: Node, process_id: str = "p") -> str:
    """Who knew the outcome, as the newest one in the journal says."""
    reader = node._reader
    found = [
        reader.codec.decode(record.value).body
        for partition in range(reader.partitions)
        for batch in reader.read(partition, 0, reader.watermarks(partition).high, {process_id.encode()})
        for record in batch.records
        if record.value is not None
    ]
    return [body for body in found if isinstance(body, EffectSettled)][-1].settled_by


@asynccontextmanager
async def reopened(node: Node, connectors: Connectors | None = None) -> AsyncIterator[Process]:
    """The process as its next owner has it."""
    process = await node.open("p", take_over=True)
    process.outside.connectors = connectors or process.outside.connectors
    try:
        yield process
    finally:
        process.let_go()


async def die_in_call(node: Node, ledger: Ledger, **how: Any) -> None:
    """An owner calls, and dies before it can write down what came of it."""
    process = await node.open("p", take_over=True)
    ledger.fails.append(Died())
    with pytest.raises(Died):
        await process.effect("pay", ledger.pay, 5, **how)
    process.let_go()


# --- the plain way ----------------------------------------------------------------------------------------------------
async def test_an_effect_is_called_once_and_remembered(node: Node, ledger: Ledger) -> None:
    """Intent, call with the key, outcome; a second run of the code is answered from the journal."""
    async with node.open("p") as process:
        assert await process.effect("pay", ledger.pay, 5, semantics=ONCE) == "paid 5"
        call = call_of(process)
        assert (call.status, call.attempt, call.output) == ("succeeded", 1, '"paid 5"')
    async with node.open("p") as process:
        assert await process.effect("pay", ledger.pay, 5, semantics=ONCE) == "paid 5"
    assert ledger.calls == {"p/pay:1": 1}


async def test_the_intent_is_confirmed_before_the_call(node: Node) -> None:
    """O4: when the call begins, the intent is applied by whoever folds the log."""
    seen: list[str] = []

    async def look(idempotency_key: str) -> None:
        state = (await node.recover("p")).state
        seen.append(f"{state.calls['pay:1'].status} {idempotency_key}")

    async with node.open("p") as process:
        await process.effect("pay", look)
    assert seen == ["pending p/pay:1"]


async def test_a_plain_function_is_called_too_and_needs_no_key(node: Node) -> None:
    """In a thread; a callable is handed the key only if it takes it."""
    async with node.open("p") as process:
        assert await process.effect("add", lambda a, b: a + b, 2, b=3) == 5
        with pytest.raises(Refused, match="something to call"):
            await process.effect("nothing")


async def test_a_function_can_be_an_effect_wherever_it_is_called(node: Node) -> None:
    """``@effect`` says how, the call says on what."""
    keys: list[str] = []

    @effect(semantics=ONCE, retry=QUICK)
    async def refund(amount: int, *, idempotency_key: str) -> int:
        keys.append(idempotency_key)
        return amount

    async with node.open("p") as process:
        assert await refund(process, 5) == 5
        assert await refund(process, 7, key="second", business_key="order-1") == 7
        assert call_of(process, "second").facts["semantics"] == "at_most_once"
    assert keys == ["p/refund:1", "p/second"]


async def test_a_failure_comes_back_as_it_was(node: Node, ledger: Ledger) -> None:
    """An idempotent call that raises to its last attempt fails, with the same class on replay."""
    ledger.fails = [KeyError("no such order")]
    for _ in range(2):
        async with node.open("p") as process:
            with pytest.raises(KeyError, match="no such order"):
                await process.effect("pay", ledger.pay, 5)
    assert ledger.calls == {"p/pay:1": 1}


async def test_an_idempotent_call_is_tried_again_with_the_same_key(node: Node, ledger: Ledger) -> None:
    """Each attempt is an intent of its own."""
    ledger.fails = [ConnectionError("gone"), TimeoutError()]
    async with node.open("p") as process:
        assert await process.effect("pay", ledger.pay, 5, retry=QUICK) == "paid 5"
        assert call_of(process).attempt == 3
    assert ledger.calls == {"p/pay:1": 3}


async def test_an_output_that_cannot_be_journaled_makes_no_failure_of_what_was_done(node: Node) -> None:
    """It succeeded; the caller is told, this time and on replay, that its output is not to be had."""
    called = 0

    def odd() -> object:
        nonlocal called
        called += 1
        return object()

    for _ in range(2):
        async with node.open("p") as process:
            with pytest.raises(UnserializableValue):
                await process.effect("pay", odd, semantics=ONCE)
            assert call_of(process).status == "succeeded"
    assert called == 1


# --- in doubt ---------------------------------------------------------------------------------------------------------
async def test_an_idempotent_effect_in_doubt_is_called_again_with_the_same_key(node: Node, ledger: Ledger) -> None:
    """I8: once more a takeover."""
    await die_in_call(node, ledger)
    await die_in_call(node, ledger)
    async with reopened(node) as process:
        assert await process.effect("pay", ledger.pay, 5) == "paid 5"
        assert ledger.calls == {"p/pay:1": 3}
        assert call_of(process).attempt == 3


async def test_an_at_most_once_effect_in_doubt_is_not_called_again(node: Node, ledger: Ledger) -> None:
    """Nobody can tell: a typed error that says what to do, every time, and a status for people to see."""
    await die_in_call(node, ledger, semantics=ONCE)
    for _ in range(2):
        async with reopened(node) as process:
            with pytest.raises(EffectUnknown) as caught:
                await process.effect("pay", ledger.pay, 5, semantics=ONCE)
            assert (caught.value.key, caught.value.status) == ("pay:1", "unknown")
            assert "effects resolve" in str(caught.value)
            assert call_of(process).status == "unknown"
    assert ledger.calls == {"p/pay:1": 1}


async def test_a_reconciler_settles_what_it_finds(node: Node, ledger: Ledger) -> None:
    """SUCCEEDED: with its output, as if the call had returned."""
    await die_in_call(node, ledger, semantics=ONCE)
    async with reopened(node) as process:
        assert await process.effect("pay", ledger.pay, 5, semantics=ONCE, reconcile=ledger.find) == "paid 5"
        assert settled_by(node) == "reconciler"
        assert ledger.calls == {"p/pay:1": 1}


@pytest.mark.parametrize(
    ("answer", "error", "status"),
    [
        (Reconciled(Answer.FAILED, reason="refused"), EffectFailed, "failed"),
        (Reconciled(Answer.DUPLICATE, "ref-9"), EffectDuplicate, "failed"),
        (Answer.STUCK, EffectUnknown, "stuck"),
        (Answer.ABSENT, EffectUnknown, "unknown"),
        (RuntimeError("the reconciler is down"), EffectUnknown, "unknown"),
    ],
)
async def test_what_else_a_reconciler_may_say(
    node: Node, ledger: Ledger, answer: Any, error: type[Exception], status: str
) -> None:
    """FAILED and DUPLICATE settle it, ABSENT and silence do not; none of them makes an at-most-once call twice."""
    await die_in_call(node, ledger, semantics=ONCE)
    for _ in range(2):
        ledger.answers = [answer]
        async with reopened(node) as process:
            with pytest.raises(error):
                await process.effect("pay", ledger.pay, 5, semantics=ONCE, reconcile=ledger.find)
            assert call_of(process).status == status
    assert ledger.calls == {"p/pay:1": 1}


async def test_a_connector_that_enforces_the_key_is_called_again(node: Node, ledger: Ledger) -> None:
    """Even at most once: the system itself takes the key once."""
    known = Connectors()
    known.register(Connector("bank", ledger.pay, reconcile=ledger.find, enforces_key=True))
    ledger.fails = [Died()]
    process = await node.open("p")
    process.outside.connectors = known
    with pytest.raises(Died):
        await process.effect("pay", None, 5, connector="bank", semantics=ONCE)
    process.let_go()
    ledger.answers = [Answer.ABSENT]
    async with reopened(node) as process:
        process.outside.connectors = known
        assert await process.effect("pay", None, 5, connector="bank", semantics=ONCE) == "paid 5"
        assert ledger.calls == {"p/pay:1": 2}
        assert len(ledger.done) == 1


async def test_an_unknown_connector_says_what_to_register_and_calls_nothing(node: Node, ledger: Ledger) -> None:
    """On the first run and on a resume; a settled effect does not need it."""
    async with node.open("p") as process:
        process.outside.connectors = Connectors()
        with pytest.raises(UnknownConnector, match="bank"):
            await process.effect("pay", None, 5, connector="bank")
        assert "pay:1" not in process.state.calls
    known = Connectors()
    known.register(Connector("bank", ledger.pay))
    async with node.open("p") as process:
        process.outside.connectors = known
        assert await process.effect("pay", None, 5, connector="bank") == "paid 5"
    async with node.open("p") as process:
        process.outside.connectors = Connectors()
        assert await process.effect("pay", None, 5, connector="bank") == "paid 5"


async def test_an_effect_that_is_in_doubt_too_often_is_stuck(node: Node, ledger: Ledger) -> None:
    """Bounded: a call that kills whoever makes it does not kill the fleet, one node after the other."""
    known = Connectors()
    known.register(Connector("bank", ledger.pay, max_attempts=2))

    for error in (Died, Died, EffectUnknown):
        ledger.fails = [Died()]
        async with reopened(node, known) as process:
            with pytest.raises(error):
                await process.effect("pay", None, 5, connector="bank")
    assert call_of(process).status == "stuck"
    assert ledger.calls == {"p/pay:1": 2}


# --- what our own call says -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("failure", [ConnectionError("reset"), TimeoutError("slow"), ValueError("odd")])
async def test_an_at_most_once_call_that_raises_is_in_doubt(node: Node, ledger: Ledger, failure: Exception) -> None:
    """What raised may have been done all the same; the cause is kept."""
    ledger.fails = [failure]
    async with node.open("p") as process:
        with pytest.raises(EffectUnknown) as caught:
            await process.effect("pay", ledger.pay, 5, semantics=ONCE, retry=QUICK)
        assert caught.value.__cause__ is failure
        assert call_of(process).status == "unknown"
    assert ledger.calls == {"p/pay:1": 1}


@pytest.mark.parametrize("failure", [NotDone("declined"), ValueError("declined")])
async def test_an_at_most_once_call_that_says_it_did_nothing_has_failed(
    node: Node, ledger: Ledger, failure: Exception
) -> None:
    """NotDone, and what the retry policy calls final."""
    ledger.fails = [failure]
    for _ in range(2):
        async with node.open("p") as process:
            with pytest.raises(type(failure), match="declined"):
                await process.effect("pay", ledger.pay, 5, semantics=ONCE, retry=Retry(non_retryable=(ValueError,)))
            assert call_of(process).status == "failed"
    assert ledger.calls == {"p/pay:1": 1}


async def test_after_our_own_call_raised_absent_means_failed(node: Node, ledger: Ledger) -> None:
    """That call has ended, so what is not there will not come: the agent gets what it raised."""
    ledger.fails, ledger.answers = [ConnectionError("reset")], [Answer.ABSENT]
    async with node.open("p") as process:
        with pytest.raises(ConnectionError, match="reset"):
            await process.effect("pay", ledger.pay, 5, semantics=ONCE, reconcile=ledger.find)
        assert call_of(process).status == "failed"


async def test_a_call_that_times_out_may_land_yet(node: Node, ledger: Ledger) -> None:
    """Not even ABSENT says that it will not."""
    ledger.gate = asyncio.Event()
    ledger.answers = [Answer.ABSENT]
    async with node.open("p") as process:
        with pytest.raises(EffectUnknown):
            await process.effect("pay", ledger.pay, 5, semantics=ONCE, timeout=0.01, reconcile=ledger.find)
        assert call_of(process).status == "unknown"


async def test_an_observation_is_repeated_at_will(node: Node, ledger: Ledger) -> None:
    """OBSERVE_ONLY changes nothing, so nothing of it is ever unknown."""
    await die_in_call(node, ledger, semantics=Effect.OBSERVE_ONLY)
    async with reopened(node) as process:
        assert await process.effect("pay", ledger.pay, 5, semantics="observe_only") == "paid 5"
        assert ledger.calls == {"p/pay:1": 2}


# --- words from outside -----------------------------------------------------------------------------------------------
async def test_a_persons_verdict_settles_what_nobody_could_tell(node: Node, ledger: Ledger) -> None:
    """With an output of their own; who and why stay in the log."""
    await die_in_call(node, ledger, semantics=ONCE)
    async with reopened(node) as process:
        with pytest.raises(EffectUnknown):
            await process.effect("pay", ledger.pay, 5, semantics=ONCE)
    await node.verdict("p", "pay:1", "succeeded", output="seen at the bank", reason="I looked", actor="ann")
    async with reopened(node) as process:
        assert await process.effect("pay", ledger.pay, 5, semantics=ONCE) == "seen at the bank"
        assert settled_by(node) == "person"
        assert not process.state.mailbox
        assert ledger.calls == {"p/pay:1": 1}


async def test_a_verdict_of_failure_is_a_typed_error_with_the_reason(node: Node, ledger: Ledger) -> None:
    """Also after an effect was given up."""
    await die_in_call(node, ledger, semantics=ONCE)
    ledger.answers = [Answer.STUCK]
    async with reopened(node) as process:
        with pytest.raises(EffectUnknown):
            await process.effect("pay", ledger.pay, 5, semantics=ONCE, reconcile=ledger.find)
    await node.verdict("p", "pay:1", "failed", reason="the bank has nothing", actor="ann")
    for _ in range(2):
        async with reopened(node) as process:
            with pytest.raises(EffectFailed, match="the bank has nothing"):
                await process.effect("pay", ledger.pay, 5, semantics=ONCE, reconcile=ledger.find)


async def test_a_word_on_an_effect_is_not_received_by_anybody_else(node: Node, ledger: Ledger) -> None:
    """``receive()`` takes whatever comes, but that."""
    await die_in_call(node, ledger, semantics=ONCE)
    await node.verdict("p", "pay:1", "succeeded", output="seen", actor="ann")
    await node.signal("p", "hello")
    async with reopened(node) as process:
        assert (await process.receive(timeout_s=60)).name == "hello"
        assert await process.effect("pay", ledger.pay, 5, semantics=ONCE) == "seen"


async def test_a_verdict_on_another_key_settles_nothing(node: Node, ledger: Ledger) -> None:
    """It names the idempotency key it means."""
    await die_in_call(node, ledger, semantics=ONCE)
    await node.verdict("p", "pay:1", "succeeded", idempotency_key="p/pay:1~1")
    await node.verdict("p", "pay:2", "succeeded")
    await node.verdict("p", "pay:1", "perhaps")
    async with reopened(node) as process:
        with pytest.raises(EffectUnknown):
            await process.effect("pay", ledger.pay, 5, semantics=ONCE)


async def test_the_late_outcome_of_a_fenced_owner_settles_as_evidence(node: Node, ledger: Ledger) -> None:
    """Its own entry is stale, and becomes evidence; nobody has to ask or to call again."""
    ledger.gate = asyncio.Event()
    async with Node.in_memory(node._reader, node_id="second") as second:  # type: ignore[arg-type]
        first = await node.open("p")
        paying = asyncio.create_task(first.effect("pay", ledger.pay, 5, semantics=ONCE))
        await ledger.entered.wait()
        heir = await second.open("p", take_over=True)
        with pytest.raises(EffectUnknown):
            await heir.effect("pay", ledger.pay, 5, semantics=ONCE)
        heir.let_go()
        ledger.gate.set()
        with pytest.raises(Fenced):
            await paying
            await first.confirm()
        heir = await second.open("p", take_over=True)
        assert await heir.effect("pay", ledger.pay, 5, semantics=ONCE) == "paid 5"
        assert settled_by(node) == "evidence"
    assert ledger.calls == {"p/pay:1": 1}


async def test_an_owner_that_knows_it_is_fenced_tells_the_next_one(node: Node, ledger: Ledger) -> None:
    """Its handle is closed, so it sends what came of its call as an external word."""
    ledger.gate = asyncio.Event()
    async with Node.in_memory(node._reader, node_id="second") as second:  # type: ignore[arg-type]
        first = await node.open("p")
        paying = asyncio.create_task(first.effect("pay", ledger.pay, 5, semantics=ONCE))
        await ledger.entered.wait()
        heir = await second.open("p", take_over=True)
        await first.outside.look()
        assert not first.is_open
        ledger.gate.set()
        with pytest.raises(Fenced):
            await paying
        assert await heir.effect("pay", ledger.pay, 5, semantics=ONCE) == "paid 5"
        assert settled_by(node) == "evidence"
    assert ledger.calls == {"p/pay:1": 1}


async def test_a_zombie_that_sleeps_before_its_call_is_the_only_one_to_call(node: Node, ledger: Ledger) -> None:
    """The reconciler says ABSENT while the owner sleeps between confirmation and call: no second call, ever."""
    asleep, wake = asyncio.Event(), asyncio.Event()
    async with Node.in_memory(node._reader, node_id="second") as second:  # type: ignore[arg-type]
        zombie = await node.open("p")

        async def sleepy(amount: int, *, idempotency_key: str) -> str:
            asleep.set()
            await wake.wait()
            return await ledger.pay(amount, idempotency_key=idempotency_key)

        paying = asyncio.create_task(zombie.effect("pay", sleepy, 5, semantics=ONCE))
        await asleep.wait()
        heir = await second.open("p", take_over=True)
        with pytest.raises(EffectUnknown):
            await heir.effect("pay", ledger.pay, 5, semantics=ONCE, reconcile=ledger.find)
        assert ledger.asked == {"p/pay:1": 1}
        heir.let_go()
        wake.set()
        await asyncio.gather(paying, return_exceptions=True)
        heir = await second.open("p", take_over=True)
        assert await heir.effect("pay", ledger.pay, 5, semantics=ONCE, reconcile=ledger.find) == "paid 5"
    assert ledger.calls == {"p/pay:1": 1}


async def test_an_owner_that_was_fenced_before_the_call_does_not_call(node: Node, ledger: Ledger) -> None:
    """The look immediately before: a claim that came between intent and call ends it there."""
    async with Node.in_memory(node._reader, node_id="second") as second:  # type: ignore[arg-type]
        process = await node.open("p")
        confirm = process.confirm

        async def slow_confirm() -> None:
            await confirm()
            await second.open("p", take_over=True)
            await process.outside.look()

        process.confirm = slow_confirm  # type: ignore[method-assign]
        with pytest.raises(Fenced):
            await process.effect("pay", ledger.pay, 5)
    assert not ledger.calls


# --- business keys ----------------------------------------------------------------------------------------------------
async def test_a_business_key_is_one_effects_across_the_journal(node: Node, ledger: Ledger) -> None:
    """The second is refused, typed, and names who has it; that is remembered too."""
    async with node.open("p") as process:
        await process.effect("pay", ledger.pay, 5, business_key="order-1")
    for _ in range(2):
        async with node.open("q") as other:
            with pytest.raises(EffectDuplicate) as caught:
                await other.effect("pay", ledger.pay, 5, business_key="order-1")
            assert (caught.value.holder, caught.value.holder_key) == ("p", "pay:1")
            assert await other.effect("pay", ledger.pay, 5, business_key="order-2") == "paid 5"
    assert sorted(ledger.calls) == ["p/pay:1", "q/pay:2"]


async def test_two_that_take_a_business_key_at_once_have_one_winner(node: Node, ledger: Ledger) -> None:
    """Log order decides."""

    async def pay(process_id: str) -> Any:
        async with node.open(process_id) as process:
            return await process.effect("pay", ledger.pay, 5, business_key="order-1")

    found = await asyncio.gather(*(pay(f"p{n}") for n in range(6)), return_exceptions=True)
    assert sum(one == "paid 5" for one in found) == 1
    assert sum(isinstance(one, EffectDuplicate) for one in found) == 5
    assert sum(ledger.calls.values()) == 1


async def test_a_business_key_comes_free_only_when_nothing_was_done(node: Node, ledger: Ledger) -> None:
    """NotDone gives it back; what merely raised keeps it."""
    ledger.fails = [NotDone("declined"), ConnectionError("reset")]
    async with node.open("p") as process, node.open("q") as other:
        with pytest.raises(NotDone):
            await process.effect("pay", ledger.pay, 5, business_key="order-1")
        with pytest.raises(ConnectionError):
            await other.effect("pay", ledger.pay, 5, business_key="order-1")
        with pytest.raises(EffectDuplicate):
            await process.effect("pay", ledger.pay, 5, business_key="order-1")


async def test_a_takeover_keeps_the_business_key(node: Node, ledger: Ledger) -> None:
    """It is the effect's, not the owner's."""
    await die_in_call(node, ledger, business_key="order-1")
    async with reopened(node) as process:
        assert await process.effect("pay", ledger.pay, 5, business_key="order-1") == "paid 5"


# --- rewind and fork --------------------------------------------------------------------------------------------------
async def test_a_rewind_fires_no_effect_again(node: Node, ledger: Ledger) -> None:
    """I11: re-executed, it answers from the record."""
    async with node.open("p") as process:
        await process.update("before", 1)
        await process.effect("pay", ledger.pay, 5)
        await process.rewind(1)
    async with node.open("p") as process:
        assert await process.effect("pay", ledger.pay, 5) == "paid 5"
    assert ledger.calls == {"p/pay:1": 1}


async def test_a_rewind_across_turns_fires_no_effect_again(node: Node, ledger: Ledger) -> None:
    """I11: the effects of turns that are over have left the state; the rewind brings them back from the history."""
    ends = [4]

    @agent("payer")
    async def run(process: Process, input: Any) -> None:
        async for turn in process.turns():
            await process.step("look", lambda: None)
            await process.effect("pay", ledger.pay, turn.number)
            if turn.number == ends[0]:
                raise ValueError("stop here")

    with pytest.raises(ValueError, match="stop here"):
        await node.run(run, "p")
    before = (await node.recover("p")).state
    assert (before.turn, list(before.calls)) == (3, ["4/look:1", "4/pay:1"])
    async with node.open("p") as process:
        entries = [one.entry async for one in node._recovery.entries("p", kinds={"turn_ended"})]
        await process.rewind(entries[0].seq or 0)
        assert process.state.turn == 1
    ends[0] = 5
    with pytest.raises(ValueError, match="stop here"):
        await node.run(run, "p")
    assert ledger.calls == {f"p/{number}/pay:1": 1 for number in range(1, 5)} | {"p/5/pay:1~1": 1}


async def test_a_fork_only_looks_at_what_its_parent_left_in_doubt(node: Node, ledger: Ledger) -> None:
    """Never called; a reconciler settles it under the parent's key."""
    await die_in_call(node, ledger)
    async with node.fork("p", "child") as child:
        assert call_of(child).status == "inherited"
        with pytest.raises(EffectUnknown):
            await child.effect("pay", ledger.pay, 5)
        assert call_of(child).status == "inherited"
    async with node.open("child") as child:
        assert await child.effect("pay", ledger.pay, 5, reconcile=ledger.find) == "paid 5"
    assert ledger.calls == {"p/pay:1": 1}
    assert ledger.asked == {"p/pay:1": 1}
