"""External entries only fill the mailbox: once, within its bounds, until the owner takes them out."""

from __future__ import annotations

import pytest

from entry_examples import an_id, claim, external, own
from folding import FINISHED, GAPPED, OWNED, RELEASED, SIGNAL, counted, folded, verdict
from seekpoint.schemas import bodies as b
from seekpoint.schemas.fold import MAILBOX_BYTES_MAX, MAILBOX_ITEMS_MAX, REMEMBERED_IDS_MAX, Verdict
from seekpoint.schemas.state import State, new_state


@pytest.mark.parametrize("body", [SIGNAL, b.CancelRequested("enough")], ids=["signal", "cancel"])
@pytest.mark.parametrize("state", [new_state(), OWNED, GAPPED, RELEASED], ids=["new", "owned", "degraded", "released"])
def test_an_external_entry_fills_the_mailbox_and_nothing_else(state: State, body: b.Body) -> None:
    """Also of a degraded process, and before anybody owned it; seq, epoch and content stay."""
    assert verdict(state, external(body, 7, "ann")) is Verdict.DELIVERED
    after = folded(external(body, 7, "ann"), start=state)
    (item,) = after.mailbox.values()
    assert (item.id, item.kind, item.actor) == (an_id(7), body.KIND, "ann")
    assert (after.seq, after.epoch, after.owner) == (state.seq, state.epoch, state.owner)
    assert after.content_hash == state.content_hash
    assert after.last_kind == body.KIND


def test_a_signal_carries_its_name_and_payload() -> None:
    """What was sent, decoded anew each time."""
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


def test_the_owner_takes_an_external_out_by_an_entry_of_its_own() -> None:
    """So a replay sees what the agent saw, when it saw it; one that is not there is taken without effect."""
    state = folded(external(SIGNAL, 7), external(SIGNAL, 8), own(3, b.Received(an_id(7))), start=OWNED)
    assert list(state.mailbox) == [an_id(8)]
    assert folded(own(4, b.Received(an_id(99))), start=state).mailbox == state.mailbox


def test_the_last_ids_are_remembered_and_no_more() -> None:
    """1,024 of them; the oldest is forgotten first."""
    entries = [claim(1)]
    for number in range(REMEMBERED_IDS_MAX + 1):
        entries += [external(SIGNAL, 10_000 + number), own(number + 1, b.Received(an_id(10_000 + number)))]
    state = folded(*entries)
    assert len(state.remembered) == REMEMBERED_IDS_MAX
    assert verdict(state, external(SIGNAL, 10_000)) is Verdict.DELIVERED
    assert verdict(state, external(SIGNAL, 10_001)) is Verdict.DUPLICATE


def test_an_external_that_waits_longer_than_its_id_is_remembered_is_still_there_once() -> None:
    """Forgetting an id must not let its entry in twice while the first still waits."""
    entries = [claim(1), external(SIGNAL, 7)]
    for number in range(REMEMBERED_IDS_MAX):
        entries += [external(SIGNAL, 10_000 + number), own(number + 1, b.Received(an_id(10_000 + number)))]
    state = folded(*entries)
    assert an_id(7) not in state.remembered
    after = folded(external(SIGNAL, 7), start=state)
    assert verdict(state, external(SIGNAL, 7)) is Verdict.DUPLICATE
    assert (list(after.mailbox), after.mailbox_bytes) == ([an_id(7)], state.mailbox_bytes)


def test_a_full_mailbox_refuses_and_counts() -> None:
    """By number of entries; the refused id is not remembered, so it can be sent again when there is room."""
    state = folded(claim(1), *(external(SIGNAL, 10_000 + number) for number in range(MAILBOX_ITEMS_MAX)))
    assert len(state.mailbox) == MAILBOX_ITEMS_MAX
    assert verdict(state, external(SIGNAL, 7)) is Verdict.REFUSED
    after = folded(external(SIGNAL, 7), start=state)
    assert (after.hash, counted(state, after)) == (state.hash, {"refused_externals": 1})
    room = folded(own(1, b.Received(an_id(10_000))), start=after)
    assert verdict(room, external(SIGNAL, 7)) is Verdict.DELIVERED


def test_a_heavy_mailbox_refuses_and_counts() -> None:
    """By bytes too: one million, however few the entries."""
    heavy = b.Signal("big", '"' + "x" * 600_000 + '"')
    state = folded(external(heavy, 7))
    assert verdict(state, external(heavy, 8)) is Verdict.REFUSED
    assert verdict(state, external(SIGNAL, 8)) is Verdict.DELIVERED
    assert state.mailbox_bytes <= MAILBOX_BYTES_MAX


def test_an_external_of_a_finished_process_is_counted_only() -> None:
    """The gravestone stays as it is."""
    assert verdict(FINISHED, external(SIGNAL, 7)) is Verdict.REFUSED
    after = folded(external(SIGNAL, 7), start=FINISHED)
    assert (after.hash, counted(FINISHED, after)) == (FINISHED.hash, {"refused_externals": 1})
