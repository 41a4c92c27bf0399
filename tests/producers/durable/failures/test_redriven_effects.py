"""A failed effect that a person lets be made again: only one that did nothing, with the same key. In memory."""

from __future__ import annotations

from typing import Any

import pytest

from counted_steps import Declined, fails
from cuts import of_kind
from open_processes import durable_side
from seekpoint.producers import Client, Connector, Effect, Node, NotDone, Process, Retry, agent, connectors
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import EffectDuplicate, IllegalCall, Refused

IDEMPOTENT, ONCE = Effect.IDEMPOTENT, Effect.AT_MOST_ONCE


class Bank:
    """Takes what it is asked, fails by the outcomes first, and keeps the idempotency keys."""

    def __init__(self, *outcomes: Exception) -> None:
        self.outcomes = [*outcomes]
        self.keys: list[str] = []

    async def pay(self, amount: int, *, idempotency_key: str) -> str:
        """Pay, or fail."""
        self.keys.append(idempotency_key)
        if self.outcomes:
            raise self.outcomes.pop(0)
        return f"paid {amount}"


def paying(bank: Bank, **how: Any) -> Any:
    """An agent that looks, pays, and ends."""

    @agent("payer", version="1")
    async def payer(process: Process, _: Any) -> Any:
        await process.step("look", lambda: 1)
        return await process.effect("pay", bank.pay, 5, **how)

    return payer


FINAL = Retry(attempts=1, non_retryable=(Declined,))
QUALIFIES: dict[str, tuple[Exception, dict[str, Any]]] = {
    "NotDone, at most once": (NotDone("closed"), {"semantics": ONCE}),
    "NotDone, idempotent": (NotDone("closed"), {"semantics": IDEMPOTENT}),
    "final, at most once": (Declined("no money"), {"semantics": ONCE, "retry": FINAL}),
    "final, idempotent": (Declined("no money"), {"retry": FINAL}),
}
STAYS: dict[str, tuple[Exception, dict[str, Any]]] = {
    "an error that may have been sent, idempotent": (Declined("who knows"), {}),
    "an error that a list of transient errors leaves out, at most once": (
        Declined("who knows"),
        {"semantics": ONCE, "retry": Retry(attempts=1, only_transient=True)},
    ),
}


@pytest.mark.parametrize(("error", "how"), QUALIFIES.values(), ids=QUALIFIES.keys())
async def test_a_failed_effect_that_did_nothing_is_made_again_with_its_key(
    node: Node, log: MemoryLog, error: Exception, how: dict[str, Any]
) -> None:
    """Named, it is called once more; without its name it stays failed. The failure stays in the history."""
    bank = Bank(error)
    run = paying(bank, **how)
    await fails(node, run, kind=type(error))
    await fails(node, run, kind=type(error), retry_failed=True)
    assert len(bank.keys) == 1
    assert await node.run(run, "p", retry_failed=["pay:1"]) == "paid 5"
    assert bank.keys == [bank.keys[0]] * 2
    assert [one.outcome for one in of_kind(log, b.EffectSettled)] == ["failed", "succeeded"]


@pytest.mark.parametrize(("error", "how"), STAYS.values(), ids=STAYS.keys())
async def test_a_failure_that_proves_nothing_stays(
    node: Node, log: MemoryLog, error: Exception, how: dict[str, Any]
) -> None:
    """It is refused before anything is written."""
    bank = Bank(error)
    run = paying(bank, **how)
    await fails(node, run, kind=type(error))
    with pytest.raises(Refused, match="does not prove that nothing was"):
        await node.run(run, "p", retry_failed=["pay:1"])
    assert (of_kind(log, b.CallsSetAside), len(bank.keys)) == ([], 1)


@pytest.mark.parametrize("semantics", [IDEMPOTENT, ONCE])
async def test_a_person_s_verdict_is_enough_for_an_idempotent_effect_only(node: Node, semantics: Effect) -> None:
    """An at-most-once effect that a person calls undone may have been sent all the same: it is never fired again."""
    bank = Bank(TimeoutError("?"), TimeoutError("?"))
    how: dict[str, Any] = {"semantics": semantics}
    if semantics is IDEMPOTENT:
        how["reconcile"] = lambda *_, **__: "stuck"
    run = paying(bank, **how)
    await fails(node, run, kind=Exception)
    await node.verdict("p", "pay:1", "failed", reason="the bank has nothing")
    await fails(node, run, kind=Exception)
    made = len(bank.keys)
    bank.outcomes.clear()
    if semantics is IDEMPOTENT:
        assert await node.run(run, "p", retry_failed=["pay:1"]) == "paid 5"
        assert {*bank.keys} == {bank.keys[0]}
    else:
        with pytest.raises(Refused, match="that nothing was sent"):
            await node.run(run, "p", retry_failed=["pay:1"])
        assert len(bank.keys) == made


async def test_only_the_only_call_proves_that_nothing_was_sent(node: Node) -> None:
    """Where a first attempt may have been sent, the ``NotDone`` of a second one says nothing of the first."""
    bank = Bank(ConnectionError("?"), NotDone("closed"))
    connectors.register(Connector("bank", dispatch=bank.pay, enforces_key=True))

    @agent("payer", version="1")
    async def payer(process: Process, _: Any) -> Any:
        how: dict[str, Any] = {"connector": "bank", "retry": Retry(attempts=3, backoff_s=0)}
        return await process.effect("pay", None, 5, semantics=ONCE, **how)

    await fails(node, payer, kind=NotDone)
    with pytest.raises(Refused, match="that nothing was sent"):
        await node.run(payer, "p", retry_failed=["pay:1"])
    assert len(bank.keys) == 2


async def test_code_that_went_on_after_the_failure_does_not_get_a_second_payment(node: Node) -> None:
    """It paid elsewhere: the effect that failed is not made again, although it did nothing."""
    bank, other = Bank(NotDone("closed")), Bank()

    @agent("payer", version="1")
    async def payer(process: Process, _: Any) -> Any:
        try:
            return await process.effect("pay", bank.pay, 5)
        except NotDone as exc:
            await process.effect("pay elsewhere", other.pay, 5)
            raise Declined("told") from exc

    await fails(node, payer, kind=Declined)
    with pytest.raises(Refused, match="went on after"):
        await node.run(payer, "p", retry_failed=["pay:1"])
    assert (len(bank.keys), len(other.keys)) == (1, 1)


async def test_a_redriven_effect_takes_its_business_key_again(log: MemoryLog) -> None:
    """It was free after the failure: where another process has done the same thing meanwhile, nothing is called."""
    bank = Bank(NotDone("closed"))
    run = paying(bank, business_key="order-7")
    async with Node.in_memory(log) as node:
        await fails(node, run, kind=NotDone)
        assert await node.run(run, "q") == "paid 5"
        await fails(node, run, kind=EffectDuplicate, retry_failed=["pay:1"])
    assert len(bank.keys) == 2


async def test_a_redriven_effect_whose_owner_dies_in_its_call_is_in_doubt(node: Node) -> None:
    """As any other: the next owner does not call an at-most-once effect again."""
    bank = Bank(NotDone("closed"), TimeoutError("?"))
    run = paying(bank, semantics=ONCE)
    await fails(node, run, kind=NotDone)
    await fails(node, run, kind=Exception, retry_failed=["pay:1"])
    assert (await node.recover("p")).state.calls["pay:1"].status == "unknown"
    await fails(node, run, kind=Exception)
    assert len(bank.keys) == 2


async def test_a_redrive_from_outside_names_the_effect(node: Node, log: MemoryLog) -> None:
    """The client refuses at once what the owner would leave alone; the request of one that fits is carried out."""
    bank = Bank(NotDone("closed"))
    run = paying(bank, semantics=ONCE)
    await fails(node, run, kind=NotDone)
    async with Client.in_memory(log) as client:
        for key, message in (("look:1", "no effect of this key"), ("none:1", "no effect of this key")):
            with pytest.raises(Refused, match=message):
                await client.redrive("p", effects=[key])
        assert await client.redrive("p", effects=["pay:1"], dry_run=True) is None
        assert await client.redrive("p", "the bank is open", effects=["pay:1"]) is not None
    assert await node.run(run, "p", retry_failed=True) == "paid 5"
    assert bank.keys == [bank.keys[0]] * 2


async def test_a_request_that_nobody_checked_fires_nothing(node: Node, log: MemoryLog) -> None:
    """An entry may ask for anything: the owner sets aside what qualifies, and the fold refuses the rest."""
    bank = Bank(Declined("who knows"))
    run = paying(bank)
    await fails(node, run, kind=Declined)
    async with Client.in_memory(log) as client:
        await client._runtime.append_external("p", b.RedriveRequested("now", effects='["pay:1","look:1","no:1"]'))
    await fails(node, run, kind=Declined, retry_failed=True)
    assert len(bank.keys) == 1


async def test_the_fold_refuses_to_set_aside_what_may_have_been_sent(node: Node) -> None:
    """Whatever an owner's program asks for: the rule is the fold's, too."""
    await fails(node, paying(Bank(Declined("who knows"))))
    async with node.open("p") as process:
        with pytest.raises(IllegalCall):
            await durable_side(process).append(b.CallsSetAside('["pay:1"]'))


async def test_a_fork_never_calls_an_effect_that_was_set_aside(node: Node) -> None:
    """It is inherited there, as one in doubt."""
    await fails(node, paying(Bank(NotDone("closed"))), kind=NotDone)
    async with node.open("p") as process:
        await durable_side(process).append(b.CallsSetAside('["pay:1"]'))
    await node.fork("p", "p-2")
    assert (await node.recover("p-2")).state.calls["pay:1"].status == "inherited"
