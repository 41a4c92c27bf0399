"""External entries only fill the mailbox: once, within its limits, until the owner takes them out."""

from __future__ import annotations

import pytest

from entry_examples import an_id, claim, external, own
from folding import FINISHED, GAPPED, OWNED, RELEASED, SIGNAL, counted, folded, verdict
from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.folding.fold import Verdict
from seekpoint.schemas.folding.mailbox import (
    CONTROL_BYTES_MAX,
    CONTROL_ITEMS_MAX,
    MAILBOX_BYTES_MAX,
    MAILBOX_ITEMS_MAX,
    REMEMBERED_IDS_MAX,
    has_room,
    mail_of,
)
from seekpoint.schemas.state.process_state import State, new_state


@pytest.mark.parametrize("body", [SIGNAL, b.CancelRequested("enough")], ids=["signal", "cancel"])
@pytest.mark.parametrize("state", [new_state(), OWNED, GAPPED, RELEASED], ids=["new", "owned", "degraded", "released"])
def test_an_external_entry_fills_the_mailbox_and_nothing_else(state: State, body: b.Body) -> None:
    """This holds for degraded and unowned processes too; seq, epoch and content stay."""
    assert verdict(state, external(body, 7, "ann")) is Verdict.DELIVERED
    after = folded(external(body, 7, "ann"), start=state)
    (item,) = after.mailbox.values()
    assert (item.id, item.kind, item.actor) == (an_id(7), body.KIND, "ann")
    assert (after.seq, after.epoch, after.owner) == (state.seq, state.epoch, state.owner)
    assert after.content_hash == state.content_hash
    assert after.last_kind == body.KIND


def test_a_signal_carries_its_name_and_payload() -> None:
    """The payload is decoded anew each time."""
    (item,) = folded(external(SIGNAL, 7)).mailbox.values()
    assert (item.name, item.payload) == ("wake", {"n": 1})
    assert item.payload is not item.payload


def test_an_external_id_counts_once() -> None:
    """A sender that retries delivers once, even after the owner took the first."""
    state = folded(external(SIGNAL, 7), start=OWNED)
    assert verdict(state, external(SIGNAL, 7)) is Verdict.DUPLICATE
    taken = folded(own(3, b.Received(an_id(7))), start=state)
    assert not taken.mailbox
    assert verdict(taken, external(SIGNAL, 7)) is Verdict.DUPLICATE
    assert taken.mailbox_bytes == 0


def test_the_owner_removes_mail_with_an_entry_of_its_own() -> None:
    """So a replay sees the mail when the agent saw it; the entry has no effect on missing mail."""
    state = folded(external(SIGNAL, 7), external(SIGNAL, 8), own(3, b.Received(an_id(7))), start=OWNED)
    assert list(state.mailbox) == [an_id(8)]
    assert folded(own(4, b.Received(an_id(99))), start=state).mailbox == state.mailbox


def test_the_last_1024_ids_are_remembered() -> None:
    """The oldest id is forgotten first."""
    entries = [claim(1)]
    for number in range(REMEMBERED_IDS_MAX + 1):
        entries += [external(SIGNAL, 10_000 + number), own(number + 1, b.Received(an_id(10_000 + number)))]
    state = folded(*entries)
    assert len(state.remembered) == REMEMBERED_IDS_MAX
    assert verdict(state, external(SIGNAL, 10_000)) is Verdict.DELIVERED
    assert verdict(state, external(SIGNAL, 10_001)) is Verdict.DUPLICATE


def test_mail_that_outlives_its_remembered_id_stays_unique() -> None:
    """A forgotten id does not let the same entry in again while the first still waits."""
    entries = [claim(1), external(SIGNAL, 7)]
    for number in range(REMEMBERED_IDS_MAX):
        entries += [external(SIGNAL, 10_000 + number), own(number + 1, b.Received(an_id(10_000 + number)))]
    state = folded(*entries)
    assert an_id(7) not in state.remembered
    after = folded(external(SIGNAL, 7), start=state)
    assert verdict(state, external(SIGNAL, 7)) is Verdict.DUPLICATE
    assert (list(after.mailbox), after.mailbox_bytes) == ([an_id(7)], state.mailbox_bytes)


def test_a_full_mailbox_refuses_and_counts() -> None:
    """The limit is a number of entries; a refused id is not remembered, so it can be sent again."""
    state = folded(claim(1), *(external(SIGNAL, 10_000 + number) for number in range(MAILBOX_ITEMS_MAX)))
    assert len(state.mailbox) == MAILBOX_ITEMS_MAX
    assert verdict(state, external(SIGNAL, 7)) is Verdict.REFUSED
    after = folded(external(SIGNAL, 7), start=state)
    assert (after.hash, counted(state, after)) == (state.hash, {"refused_externals": 1})
    room = folded(own(1, b.Received(an_id(10_000))), start=after)
    assert verdict(room, external(SIGNAL, 7)) is Verdict.DELIVERED


def test_a_mailbox_beyond_its_bytes_refuses_and_counts() -> None:
    """The other limit is a million bytes."""
    heavy = b.Signal("big", '"' + "x" * 600_000 + '"')
    state = folded(external(heavy, 7))
    assert verdict(state, external(heavy, 8)) is Verdict.REFUSED
    assert verdict(state, external(SIGNAL, 8)) is Verdict.DELIVERED
    assert state.mailbox_bytes <= MAILBOX_BYTES_MAX


RUNNING = folded(
    claim(1),
    own(1, b.GateOpened("g:1", 1, "refund", "0" * 32)),
    own(2, b.EffectIntended("e:1", 2, "pay", "0" * 32, "at_most_once")),
)
"""A gate is open, an effect is in doubt."""
FLOODED = folded(*(external(SIGNAL, 10_000 + number) for number in range(MAILBOX_ITEMS_MAX)), start=RUNNING)
HEAVY = folded(external(b.Signal("big", '"' + "x" * (MAILBOX_BYTES_MAX - 100) + '"'), 9), start=RUNNING)
CONTROL = {
    "answer": b.Signal("g:1", "true"),
    "cancel": b.CancelRequested("enough"),
    "verdict": b.EffectVerdict("e:1", "succeeded", '"done"'),
}


@pytest.mark.parametrize("state", [FLOODED, HEAVY], ids=["items", "bytes"])
@pytest.mark.parametrize("body", CONTROL.values(), ids=CONTROL.keys())
def test_unread_signals_do_not_displace_control_entries(body: b.Body, state: State) -> None:
    """A gate's answer, a request to cancel and an effect's outcome are delivered to a full mailbox."""
    assert verdict(state, external(b.Signal("more", '"' + "x" * 200 + '"'), 7)) is Verdict.REFUSED
    item = mail_of(external(body, 7))
    assert item is not None
    assert has_room(state, item)
    assert verdict(state, external(body, 7)) is Verdict.DELIVERED
    after = folded(external(body, 7), start=state)
    assert State.from_bytes(after.to_bytes()) == after


@pytest.mark.parametrize("state", [FLOODED, HEAVY], ids=["items", "bytes"])
def test_a_full_mailbox_takes_the_evidence_of_a_former_owner(state: State) -> None:
    """It may be the only record of an effect that happened."""
    stale = own(3, b.EffectSettled("e:1", 1, "succeeded"))
    after = folded(claim(2, 1), stale, start=state)
    assert [*after.mailbox.values()][-1].kind == "evidence"


@pytest.mark.parametrize(
    "body",
    [
        b.Signal("refund", "true"), b.Signal("g:2", "true"), b.Signal("e:1", "true"),
        b.EffectVerdict("e:2", "succeeded"), b.EffectVerdict("g:1", "succeeded"),
    ],
    ids=str,
)  # fmt: skip
def test_the_room_for_control_entries_is_for_them_only(body: b.Body) -> None:
    """Without an open gate or an effect in doubt, the entry waits for room like a signal."""
    assert verdict(FLOODED, external(body, 7)) is Verdict.REFUSED


def test_mail_for_settled_calls_is_no_control_entry() -> None:
    """An answered gate, a settled effect and a cancelled process have ordinary mail only."""
    state = folded(
        own(3, b.GateResolved("g:1", "approved")), own(4, b.EffectSettled("e:1", 1, "succeeded")),
        own(5, b.CancelAccepted(None, "enough")), start=FLOODED,
    )  # fmt: skip
    assert [verdict(state, external(body, 7)) for body in CONTROL.values()] == [Verdict.REFUSED] * 3


@pytest.mark.parametrize("body", CONTROL.values(), ids=CONTROL.keys())
def test_the_room_for_control_entries_is_limited(body: b.Body) -> None:
    """By items and by bytes; a state with a full mailbox fits a checkpoint."""
    state = folded(*(external(body, 20_000 + number) for number in range(CONTROL_ITEMS_MAX + 10)), start=FLOODED)
    assert len(state.mailbox) == MAILBOX_ITEMS_MAX + CONTROL_ITEMS_MAX
    assert state.refused_externals == 10
    long = b.EffectVerdict("e:1", "succeeded", reason="x" * 50_000)
    state = folded(*(external(long, 20_000 + number) for number in range(10)), start=HEAVY)
    assert MAILBOX_BYTES_MAX < state.mailbox_bytes <= MAILBOX_BYTES_MAX + CONTROL_BYTES_MAX
    limits = Limits()
    assert len(state.to_bytes()) <= limits.checkpoint_bytes - limits.state_bytes


def test_mail_to_a_finished_process_is_only_counted() -> None:
    """The gravestone does not change."""
    assert verdict(FINISHED, external(SIGNAL, 7)) is Verdict.REFUSED
    after = folded(external(SIGNAL, 7), start=FINISHED)
    assert (after.hash, counted(FINISHED, after)) == (FINISHED.hash, {"refused_externals": 1})
