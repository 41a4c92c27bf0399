"""Effects of an owner that died or was fenced in its call: what the next one makes of them, and who may tell it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from cut_offs import cut_off
from effect_owners import call_of, die_in_call, reopened
from open_processes import durable_side
from outside_ledger import Died, Ledger
from seekpoint.producers import Node, Process
from seekpoint.producers.durable.effects.connectors import Connector, Connectors, Reconciled
from seekpoint.producers.durable.effects.effect_resolution import Answer, Effect
from seekpoint.producers.node import runtime_of
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.bodies import EffectSettled
from seekpoint.schemas.errors import EffectDuplicate, EffectFailed, EffectUnknown, Fenced

ONCE = Effect.AT_MOST_ONCE


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    async with Node.in_memory(MemoryLog(partitions=2)) as node:
        yield node


def settled_by(node: Node, process_id: str = "p") -> str:
    """Who knew the outcome, as the newest one in the journal says."""
    reader = runtime_of(node).reader
    found = [
        reader.codec.decode(record.value).body
        for partition in range(reader.partitions)
        for batch in reader.read(partition, 0, reader.watermarks(partition).high, {process_id.encode()})
        for record in batch.records
        if record.value is not None
    ]
    return [body for body in found if isinstance(body, EffectSettled)][-1].settled_by


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
    durable_side(process).effects.connectors = known
    await cut_off(process.effect("pay", None, 5, connector="bank", semantics=ONCE))
    durable_side(process).abandon()
    ledger.answers = [Answer.ABSENT]
    async with reopened(node) as process:
        durable_side(process).effects.connectors = known
        assert await process.effect("pay", None, 5, connector="bank", semantics=ONCE) == "paid 5"
        assert ledger.calls == {"p/pay:1": 2}
        assert len(ledger.done) == 1


async def test_an_effect_that_is_in_doubt_too_often_is_stuck(node: Node, ledger: Ledger) -> None:
    """Bounded: a call that kills whoever makes it does not kill the fleet, one node after the other."""
    known = Connectors()
    known.register(Connector("bank", ledger.pay, max_attempts=2))

    for is_last in (False, False, True):
        ledger.fails = [Died()]
        async with reopened(node, known) as process:
            paying = process.effect("pay", None, 5, connector="bank")
            if not is_last:
                await cut_off(paying)
                continue
            with pytest.raises(EffectUnknown):
                await paying
    assert call_of(process).status == "stuck"
    assert ledger.calls == {"p/pay:1": 2}


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


async def in_its_call(node: Node, ledger: Ledger) -> tuple[Process, asyncio.Task[Any]]:
    """An owner whose call is under way."""
    owner = await node.open("p")
    paying = asyncio.create_task(owner.effect("pay", ledger.pay, 5, semantics=ONCE))
    await ledger.entered.wait()
    return owner, paying


async def test_the_late_outcome_of_a_fenced_owner_settles_as_evidence(node: Node, ledger: Ledger) -> None:
    """Its own entry is stale, and becomes evidence; nobody has to ask or to call again."""
    ledger.gate = asyncio.Event()
    async with Node.in_memory(runtime_of(node).reader, node_id="second") as second:  # type: ignore[arg-type]
        first, paying = await in_its_call(node, ledger)
        heir = await second.open("p", take_over=True)
        with pytest.raises(EffectUnknown):
            await heir.effect("pay", ledger.pay, 5, semantics=ONCE)
        durable_side(heir).abandon()
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
    async with Node.in_memory(runtime_of(node).reader, node_id="second") as second:  # type: ignore[arg-type]
        first, paying = await in_its_call(node, ledger)
        heir = await second.open("p", take_over=True)
        await durable_side(first).effects.read_log()
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
    async with Node.in_memory(runtime_of(node).reader, node_id="second") as second:  # type: ignore[arg-type]
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
        durable_side(heir).abandon()
        wake.set()
        await asyncio.gather(paying, return_exceptions=True)
        heir = await second.open("p", take_over=True)
        assert await heir.effect("pay", ledger.pay, 5, semantics=ONCE, reconcile=ledger.find) == "paid 5"
    assert ledger.calls == {"p/pay:1": 1}


async def test_an_owner_that_was_fenced_before_the_call_does_not_call(node: Node, ledger: Ledger) -> None:
    """The look immediately before: a claim that came between intent and call ends it there."""
    async with Node.in_memory(runtime_of(node).reader, node_id="second") as second:  # type: ignore[arg-type]
        process = await node.open("p")
        durable = durable_side(process)
        confirm = durable.confirm

        async def slow_confirm() -> None:
            await confirm()
            await second.open("p", take_over=True)
            await durable.effects.read_log()

        durable.confirm = slow_confirm  # type: ignore[method-assign]
        with pytest.raises(Fenced):
            await process.effect("pay", ledger.pay, 5)
    assert not ledger.calls
