"""Compensations: owed once an effect has succeeded, made last one first, each an effect of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from cut_offs import cut_off
from cuts import cuts, of_kind, on_node
from open_processes import durable_side
from outside_ledger import Died, Ledger
from seekpoint.producers import Node, Process, VirtualClock, agent, effect
from seekpoint.producers.durable.effects import compensation_runs
from seekpoint.producers.durable.effects.connectors import Connector, Connectors, NotDone
from seekpoint.producers.durable.effects.effect_resolution import Answer, Effect
from seekpoint.producers.durable.steps.retries import Retry
from seekpoint.producers.testing import assert_replays, crash_at, history_of
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import EffectFailed, EffectUnknown, ObligationStuck
from seekpoint.schemas.values.json_values import dump

MADE: list[str] = []


async def unbook(room: str, *, output: str, idempotency_key: str) -> None:
    """A compensation at the top of a module: found again by its name."""
    MADE.append(f"{room} {output} {idempotency_key}")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compensations are tried again at once."""
    monkeypatch.setattr(compensation_runs, "COMPENSATION_RETRY", Retry(attempts=3, backoff_s=0.0, jitter=0.0))
    MADE.clear()


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    async with Node.in_memory(MemoryLog(partitions=2)) as node:
        yield node


async def pay_twice(process: Any, ledger: Ledger) -> None:
    for amount in (5, 7):
        await process.effect("pay", ledger.pay, amount, compensate=ledger.pay_back)


async def test_what_was_done_is_taken_back_last_one_first(node: Node, ledger: Ledger) -> None:
    """Each with the arguments and the output of its effect, and a key of its own; afterwards nothing is owed."""
    async with node.open("p") as process:
        await pay_twice(process, ledger)
        assert [one.key for one in process.state.obligations] == ["pay:1", "pay:2"]
        await process.compensate()
        assert ledger.taken_back == ["7 of 'paid 7'", "5 of 'paid 5'"]
        assert not process.state.obligations
        await process.compensate()
    assert ledger.calls == {"p/pay:1": 1, "p/pay:2": 1, "p/undo/pay:1": 1, "p/undo/pay:2": 1}


async def test_nothing_is_owed_for_what_was_not_done(node: Node, ledger: Ledger) -> None:
    """A failed effect has no compensation."""
    ledger.fails = [NotDone("declined")]
    async with node.open("p") as process:
        with pytest.raises(NotDone):
            await process.effect("pay", ledger.pay, 5, compensate=ledger.pay_back)
        assert not process.state.obligations
        await process.compensate()
    assert not ledger.taken_back


async def test_compensating_goes_on_where_a_crash_ended_it(node: Node, ledger: Ledger) -> None:
    """What was taken back is not taken back twice; what is in doubt is called again with its key."""
    process = await node.open("p")
    await pay_twice(process, ledger)
    ledger.fails = [None, Died()]
    await cut_off(process.compensate())
    durable_side(process).abandon()
    async with node.open("p", take_over=True) as process:
        await pay_twice(process, ledger)
        await process.compensate()
    assert ledger.taken_back == ["7 of 'paid 7'", "5 of 'paid 5'"]
    assert ledger.calls == {"p/pay:1": 1, "p/pay:2": 1, "p/undo/pay:2": 1, "p/undo/pay:1": 2}


async def test_a_compensation_that_cannot_be_made_is_stuck_and_the_others_are_made(node: Node, ledger: Ledger) -> None:
    """After a bounded number of attempts; it stays visible, and a person's word ends it."""
    async with node.open("p") as process:
        await pay_twice(process, ledger)
        ledger.fails = [ConnectionError("down")] * 3
        with pytest.raises(ObligationStuck) as caught:
            await process.compensate()
        assert caught.value.keys == ["pay:2"]
        assert ledger.taken_back == ["5 of 'paid 5'"]
        assert [(one.key, one.status) for one in process.state.obligations] == [("pay:2", "stuck")]
        assert process.state.calls["undo/pay:2"].status == "stuck"
        assert ledger.calls["p/undo/pay:2"] == 3
        with pytest.raises(ObligationStuck):
            await process.compensate()
        assert ledger.calls["p/undo/pay:2"] == 3
        await node.verdict("p", "undo/pay:2", "succeeded", reason="paid back in cash", actor="ann")
        await process.compensate()
        assert not process.state.obligations


async def test_a_compensation_that_refuses_is_stuck_too(node: Node, ledger: Ledger) -> None:
    """There is no failing at what is owed."""
    async with node.open("p") as process:
        await process.effect("pay", ledger.pay, 5, compensate=ledger.pay_back)
        ledger.fails = [NotDone("the account is closed")]
        with pytest.raises(ObligationStuck):
            await process.compensate()
        assert process.state.calls["undo/pay:1"].status == "stuck"


async def test_a_compensation_is_found_by_name_where_its_code_does_not_run_again(node: Node, ledger: Ledger) -> None:
    """A function that code here has named as a compensation; a connector; else an error that says what to do."""
    known = Connectors()
    known.register(Connector("bank", ledger.pay_back))
    async with node.open("p") as process:
        await process.effect("book", lambda room: f"no. {room}", "12", compensate=unbook)
        await process.effect("pay", ledger.pay, 5, compensate="bank")
        await process.effect("pay", ledger.pay, 7, compensate=lambda amount: None)
        names = [one.name for one in process.state.obligations]
        assert names[0].endswith("test_compensation_runs:unbook")
        assert names[1] == "connector/bank"
    async with node.open("p") as process:
        durable_side(process).effects.connectors = known
        with pytest.raises(ObligationStuck) as caught:
            await process.compensate()
        assert caught.value.keys == ["pay:2"]
        assert "import the module that declares it" in str(caught.value.__cause__)
        assert [one.status for one in process.state.obligations] == ["open"]
    assert MADE == ["12 no. 12 p/undo/book:1"]
    assert ledger.taken_back == ["5 of 'paid 5'"]


class Desk:
    """As a user's: what it does needs the desk itself, which no journal has."""

    def __init__(self, room: str = "") -> None:
        self.room = room

    def unbook(self, room: str = "") -> None:
        """Would run without a desk, on nothing."""
        MADE.append(f"{self}: {room}")

    __call__ = unbook


async def test_a_debt_in_the_journal_never_calls_a_function_that_no_code_named(node: Node) -> None:
    """Anybody who can write to the topic can name any function that is loaded, and its arguments."""
    async with node.open("p") as process:
        await process.effect("pay", str, 5)
        await process.effect("pay", str, 7)
        owed = {"asked": dump(["echo called"]), "output": "null"}
        await durable_side(process).append(
            b.ObligationRegistered(key="pay:1", name=f"{__name__}:unnamed", arguments=dump(owed))
        )
        await durable_side(process).append(b.ObligationRegistered(key="pay:2", name="os:getpid", arguments=dump(owed)))
        with pytest.raises(ObligationStuck) as caught:
            await process.compensate()
        assert caught.value.keys == ["pay:2", "pay:1"]
    assert not MADE


def unnamed(text: str) -> None:
    """Is loaded, and no effect names it as its compensation."""
    MADE.append(text)


async def test_a_decorated_effect_makes_its_compensation_known_where_it_is_imported(ledger: Ledger) -> None:
    """Its code need not run again for that."""
    log = MemoryLog()
    async with Node.in_memory(log) as node, node.open("p") as process:
        await process.effect("book", str, "12")
        name = f"{__name__}:give_back"
        arguments = dump({"asked": dump(["12"]), "output": "null"})
        await durable_side(process).append(b.ObligationRegistered(key="book:1", name=name, arguments=arguments))
        with pytest.raises(ObligationStuck):
            await process.compensate()
        effect("book", compensate=give_back)(str)
        await process.compensate()
    assert MADE == ["12 is free"]


def give_back(room: str) -> None:
    """Only the test above names it."""
    MADE.append(f"{room} is free")


@pytest.mark.parametrize("compensate", [Desk("hall").unbook, Desk("hall"), partial(Desk.unbook, Desk("hall"))])
async def test_a_compensation_that_is_an_objects_is_not_found_by_name(node: Node, compensate: Any) -> None:
    """Its class would be called in its place, and the debt be gone: it stays open until the code names the object."""
    async with node.open("p") as process:
        await process.effect("book", str, "12", compensate=compensate)
    async with node.open("p") as process:
        with pytest.raises(ObligationStuck) as caught:
            await process.compensate()
        assert "import the module that declares it" in str(caught.value.__cause__)
        assert [one.status for one in process.state.obligations] == ["open"]
        assert not MADE
        await process.effect("book", str, "12", compensate=compensate)
        await process.compensate()
        assert not process.state.obligations


async def test_an_effect_that_is_settled_later_is_owed_from_then_on(node: Node, ledger: Ledger) -> None:
    """By a reconciler, evidence or a person: what was done has to be taken back, whoever knows of it."""
    process = await node.open("p")
    ledger.fails = [Died()]
    paying = process.effect("pay", ledger.pay, 5, semantics=Effect.AT_MOST_ONCE, compensate=ledger.pay_back)
    await cut_off(paying)
    durable_side(process).abandon()
    async with node.open("p", take_over=True) as process:
        await process.effect(
            "pay", ledger.pay, 5, semantics=Effect.AT_MOST_ONCE, compensate=ledger.pay_back, reconcile=ledger.find
        )
        await process.compensate()
    assert ledger.taken_back == ["5 of 'paid 5'"]


async def test_a_run_whose_code_fails_takes_back_what_it_did(node: Node, ledger: Ledger) -> None:
    """The newest effect first, then the run is failed with the code's own error; run again it is told so."""

    @agent("payer")
    async def run(process: Process, input: Any) -> None:
        await pay_twice(process, ledger)
        raise ValueError("no room left")

    with pytest.raises(ValueError, match="no room left"):
        await node.run(run, "p")
    assert ledger.taken_back == ["7 of 'paid 7'", "5 of 'paid 5'"]
    state = (await node.recover("p")).state
    assert (state.lifecycle, list(state.obligations)) == ("failed", [])
    with pytest.raises(EffectFailed, match="compensated"):
        await node.run(run, "p")
    assert ledger.calls["p/pay:1"] == 1


async def test_code_that_takes_back_itself_goes_on_where_a_crash_ended_it(ledger: Ledger) -> None:
    """Cut after any entry: it is not told that it has failed, for it has not, and nothing is taken back twice."""

    @agent("payer")
    async def run(process: Process, input: Any) -> str:
        await pay_twice(process, ledger)
        if not await process.gate("go"):
            await process.compensate()
            await process.step("tell", str, "refused")
        return "refused"

    async def refused(node: Node) -> None:
        assert await node.run(run, "p", take_over=True) == "refused"

    whole = MemoryLog(partitions=1)
    await on_node(whole, lambda node: node.deny("p", "go", in_advance=True))
    await on_node(whole, refused)
    for log in cuts(whole):
        await on_node(log, refused)
        undone = [body.key for body in of_kind(log, b.EffectSettled) if body.key.startswith("undo/")]
        assert undone == ["undo/pay:2", "undo/pay:1"]
    await assert_replays(run, history_of(whole, "p"))


async def test_code_that_took_back_itself_and_failed_is_told_so(node: Node, ledger: Ledger) -> None:
    """Mended meanwhile, it would go on as if what it did were still done."""

    @agent("payer")
    async def run(process: Process, input: Any) -> str:
        try:
            await pay_twice(process, ledger)
            if not mended:
                raise ValueError("no room left")
        except ValueError:
            await process.compensate()
            raise
        return "a room"

    mended = False
    with pytest.raises(ValueError, match="no room left"):
        await node.run(run, "p")
    mended = True
    for _ in range(2):
        with pytest.raises(EffectFailed, match="compensated"):
            await node.run(run, "p")
    assert ledger.taken_back == ["7 of 'paid 7'", "5 of 'paid 5'"]


async def test_a_run_that_can_go_on_takes_nothing_back(node: Node, ledger: Ledger) -> None:
    """Nobody can tell of an effect: it waits for a person."""

    @agent("payer")
    async def run(process: Process, input: Any) -> None:
        await pay_twice(process, ledger)
        ledger.fails = [ConnectionError("reset")]
        await process.effect("pay", ledger.pay, 9, semantics=Effect.AT_MOST_ONCE)

    with pytest.raises(EffectUnknown):
        await node.run(run, "p")
    assert not ledger.taken_back
    state = (await node.recover("p")).state
    assert (state.lifecycle, len(state.obligations)) == ("awaiting", 2)


async def test_a_debt_that_was_noted_just_before_a_crash_is_paid_only_if_it_is_one(ledger: Ledger) -> None:
    """The debt is in the log before the outcome: found not to have happened, the effect leaves nothing to take back."""

    @agent("payer")
    async def run(process: Process, input: Any) -> None:
        with pytest.raises(EffectFailed):
            await process.effect(
                "pay", ledger.pay, 5, semantics=Effect.AT_MOST_ONCE, compensate=unbook, reconcile=ledger.find
            )
        raise ValueError("no room left")

    ledger.answers = [Answer.FAILED]
    crash = crash_at(call="pay:1", ended=True, when="unsent")
    with pytest.raises(ValueError, match="no room left"):
        await crash.run(run, "p")
    assert b.ObligationSettled("pay:1", "dropped") in [entry.body for entry in crash.history()]
    assert ledger.calls == {"p/pay:1": 1}
    assert not MADE


async def test_what_nobody_can_tell_of_is_not_taken_back(ledger: Ledger) -> None:
    """It may never have happened: a debt that stays, visibly, until a person has told."""

    @agent("payer")
    async def run(process: Process, input: Any) -> None:
        try:
            await process.effect("pay", ledger.pay, 5, semantics=Effect.AT_MOST_ONCE, compensate=unbook)
        except EffectUnknown:
            await process.compensate()

    crash = crash_at(call="pay:1", ended=True, when="unsent")
    with pytest.raises(ObligationStuck):
        await crash.run(run, "p")
    assert not MADE
    async with Node.in_memory(crash.log) as node:
        assert [one.status for one in (await node.recover("p")).state.obligations] == ["stuck"]


async def test_a_compensation_is_not_tried_for_ever(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is by default: ten attempts at most, in minutes."""
    monkeypatch.undo()
    clock = VirtualClock()
    async with Node.in_memory(clock=clock) as node, node.open("p") as process:
        await process.effect("pay", ledger.pay, 5, compensate=ledger.pay_back)
        began_us = clock.now_us()
        ledger.fails = [ConnectionError("down")] * 1_000
        with pytest.raises(ObligationStuck):
            await process.compensate()
        assert 2 <= ledger.calls["p/undo/pay:1"] <= 10
        assert clock.now_us() - began_us < 600_000_000
