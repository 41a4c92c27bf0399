"""Revoked effects: what was undone outside is not undone again, and its record answers the code. In memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from cuts import entries_of, of_kind
from entry_examples import external
from open_processes import durable_side
from outside_ledger import Ledger
from owner_histories import after, folded
from seekpoint.producers import Node, Process, agent
from seekpoint.producers.durable.effects.connectors import NotDone
from seekpoint.producers.durable.effects.effect_history import effects_in
from seekpoint.producers.durable.replay.call_records import asked
from seekpoint.producers.durable.replay.recorded_run import applied
from seekpoint.producers.testing import history_of
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.errors import Refused, UnknownProcess
from seekpoint.schemas.folding.effect_rules import revoke
from seekpoint.schemas.state.calls import is_revoked
from seekpoint.schemas.state.process_state import content_width


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog(partitions=1)


@pytest.fixture
async def node(log: MemoryLog) -> AsyncIterator[Node]:
    async with Node.in_memory(log) as node:
        yield node


async def pay_twice(process: Any, ledger: Ledger) -> None:
    """Pay 5 and 7, with a compensation each."""
    for amount in (5, 7):
        await process.effect("pay", ledger.pay, amount, compensate=ledger.pay_back)


async def test_a_revoked_effect_is_not_compensated(node: Node, log: MemoryLog, ledger: Ledger) -> None:
    """The other one is; afterwards nothing is owed, and the state says who is what."""
    async with node.open("p") as process:
        await pay_twice(process, ledger)
        assert await node.revoke("p", "pay:1", "reversed by the bank", actor="ann") is not None
        await durable_side(process).effects.read_log()
        assert [(one.key, one.status) for one in process.state.obligations] == [("pay:1", "revoked"), ("pay:2", "open")]
        assert [one.key for one in process.state.owed] == ["pay:2"]
        assert is_revoked(process.state.calls["pay:1"])
        assert process.state.calls["pay:1"].status == "succeeded"
        await process.compensate()
        assert ledger.taken_back == ["7 of 'paid 7'"]
        assert not process.state.obligations
    [told] = [entry for entry in entries_of(log, "p") if isinstance(entry.body, b.EffectRevoked)]
    assert (told.actor, told.body) == ("ann", b.EffectRevoked("pay:1", "p/pay:1", "reversed by the bank"))
    records = {one.key: one for one in asked(applied(history_of(log, "p")))}
    assert [records[key].status for key in ("pay:1", "pay:2")] == ["revoked", "succeeded"]
    assert records["pay:1"].facts["revoke_reason"] == "reversed by the bank"


async def test_a_revocation_counts_for_the_compensation_after_it(
    node: Node, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner reads the log before it compensates, and sees what came just before."""
    async with node.open("p") as process:
        await pay_twice(process, ledger)
        context = durable_side(process).effects
        read = context.read_log

        async def revoked_and_read() -> bool:
            monkeypatch.setattr(context, "read_log", read)
            await node.revoke("p", "pay:1")
            return await read()

        monkeypatch.setattr(context, "read_log", revoked_and_read)
        await process.compensate()
    assert ledger.taken_back == ["7 of 'paid 7'"]


async def test_a_compensation_under_way_ends(node: Node, ledger: Ledger) -> None:
    """The owner's entry about it fits behind the revocation: the order of the log decides, and nobody is degraded."""
    paid_back = ledger.pay_back

    async def meanwhile(amount: int, *, output: str, idempotency_key: str) -> None:
        if amount == 7:
            await node.revoke("p", "pay:2")
        await paid_back(amount, output=output, idempotency_key=idempotency_key)

    async with node.open("p") as process:
        for amount in (5, 7):
            await process.effect("pay", ledger.pay, amount, compensate=meanwhile)
        await process.compensate()
        assert ledger.taken_back == ["7 of 'paid 7'", "5 of 'paid 5'"]
        assert not process.state.obligations
        assert process.state.degraded is None


async def test_a_run_that_fails_does_not_pay_back_what_was_revoked(node: Node, ledger: Ledger) -> None:
    """Its code runs again and gets the recorded answer; then its failure compensates the rest."""

    @agent("shop")
    async def shop(process: Process, given: Any) -> None:
        await pay_twice(process, ledger)
        await process.receive("word")
        raise ValueError("no")

    running = asyncio.create_task(node.run(shop, "p", 0))
    await until(lambda: len(ledger.done) == 2)
    await node.signal("p", "other", 1)
    running.cancel()
    await asyncio.wait([running])
    await node.revoke("p", "pay:2", actor="ann")
    await node.signal("p", "word", 1)
    with pytest.raises(ValueError, match="no"):
        await node.run(shop, "p")
    assert ledger.taken_back == ["5 of 'paid 5'"]
    assert (ledger.calls["p/pay:1"], ledger.calls["p/pay:2"]) == (1, 1)
    assert not (await node.recover("p")).state.obligations


async def test_a_rewind_makes_room_for_a_revoked_effect(node: Node, ledger: Ledger) -> None:
    """It may be made anew, under a new key; one that stands answers. Also where turns have ended since."""
    async with node.open("p") as process:
        await process.update("a", 1)
        seq = process.state.seq
        await pay_twice(process, ledger)
        await node.revoke("p", "pay:1")
    plan = await node.rewind("p", seq)
    assert (plan.effects, plan.compensated) == (("pay:2",), ("pay:1",))
    async with node.open("p") as process:
        await pay_twice(process, ledger)
    assert ledger.calls == {"p/pay:1": 1, "p/pay:2": 1, "p/pay:1~1": 1}


@pytest.mark.parametrize("is_finished", [False, True])
async def test_effects_of_turns_that_are_over_and_of_finished_processes_are_revoked(
    node: Node, ledger: Ledger, is_finished: bool
) -> None:
    """The state no longer has them; what is owed for them is gone, and the history says it."""

    @agent("turns")
    async def turns(process: Process, given: Any) -> None:
        async for turn in process.turns():
            if turn.number == 2:
                break
            await process.effect("pay", ledger.pay, 5, compensate=ledger.pay_back)
        if not is_finished:
            await process.receive("word")

    running = asyncio.create_task(node.run(turns, "p", 0))
    if is_finished:
        await running
    else:
        await until(lambda: len(ledger.done) == 1)
        await node.signal("p", "other", 1)
        running.cancel()
        await asyncio.wait([running])
    await node.revoke("p", "1/pay:1", "reversed")
    history = [one async for one in node.entries("p")]
    assert is_revoked(effects_in(history)["1/pay:1"])
    assert [one.status for one in asked(applied(history)) if one.kind == "effect"] == ["revoked"]
    state = (await node.recover("p")).state
    assert (state.finished, state.owed) == (is_finished, ())
    with pytest.raises(Refused, match="nothing of the effect is left"):
        await node.revoke("p", "1/pay:1")
    if not is_finished:
        await node.rewind("p", 1)
        assert "1/pay:1" not in (await node.recover("p")).state.calls


async def test_what_cannot_be_revoked_is_refused(node: Node, log: MemoryLog, ledger: Ledger) -> None:
    """No process, no effect, no success, nothing left; and a dry run writes nothing."""
    with pytest.raises(UnknownProcess):
        await node.revoke("nobody", "pay:1")
    ledger.fails = [NotDone("declined")]
    async with node.open("p") as process:
        with pytest.raises(NotDone):
            await process.effect("pay", ledger.pay, 1)
        await process.effect("pay", ledger.pay, 2, compensate=ledger.pay_back)
        await process.step("look", str, 3)
        for key, message in (("pay:9", "no such effect"), ("look:1", "no such effect"), ("pay:1", "is failed")):
            with pytest.raises(Refused, match=message):
                await node.revoke("p", key)
        assert await node.revoke("p", "pay:2", dry_run=True) is None
        await process.compensate()
        with pytest.raises(Refused, match="nothing of the effect is left"):
            await node.revoke("p", "pay:2")
    assert not of_kind(log, b.EffectRevoked)


PAY = b.EffectIntended("pay:1", 1, "pay", "d" * 32, "at_most_once", idempotency_key="key")
DONE = b.EffectSettled("pay:1", 1, "succeeded", "1")


def test_a_revocation_that_does_not_fit_changes_nothing() -> None:
    """Of an effect in doubt, of a step, of an earlier effect under the key, a second one, and one without room."""
    undo = b.ObligationRegistered("pay:1", "undo")
    state = after(PAY, undo, DONE)
    fits = b.EffectRevoked("pay:1", "key")
    fitting = external(fits, 70)
    for start, body in (
        (after(PAY), fits),
        (after(b.StepStarted("pay:1", 1, "pay", "d" * 32)), fits),
        (state, b.EffectRevoked("pay:1", "another")),
        (folded(fitting, start=state), fits),
    ):
        found = folded(external(body, 71), start=start)
        assert found.refused_externals == start.refused_externals + 1
        assert (found.calls, found.obligations) == (start.calls, start.obligations)
    once = folded(fitting, start=state)
    again = folded(fitting, start=once)
    assert (again.duplicate_entries, again.hash) == (once.duplicate_entries + 1, once.hash)
    assert [one.status for one in once.obligations] == ["revoked"]
    assert after(b.ObligationSettled("pay:1", "done"), start=once).obligations == ()
    draft = state.thaw()
    assert not revoke(draft, fits, 1, Limits(state_bytes=draft.content_bytes + 10))
    assert draft.freeze().hash == state.hash
    assert content_width(once.thaw()) == once.thaw().content_bytes


async def until(is_so: Callable[[], bool]) -> None:
    """Wait until it is so."""
    async with asyncio.timeout(30):
        while not is_so():  # noqa: ASYNC110  # the ledger tells nobody
            await asyncio.sleep(0.01)
