"""The view in memory keeps the promises of a view."""

from __future__ import annotations

import pytest

from seekpoint.consumers.view.memory_view import MemoryView
from seekpoint.consumers.view.view_store import Change, ViewLookup
from seekpoint.schemas.errors import ViewUnavailable
from view_contract import FieldwiseViewContract
from view_journal import KEY, Journal, full_state


@pytest.fixture
def store() -> MemoryView:
    return MemoryView()


class TestMemoryView(FieldwiseViewContract):
    """Inherited."""


def test_a_flushed_view_is_none(store: MemoryView) -> None:
    """No meta, no process, and the token is of nothing."""
    journal = Journal(store)
    store.flush()
    assert store.look_up(journal.partition, KEY) == ViewLookup(None, None, None)
    assert not journal.write([])


def test_a_view_that_lost_its_last_writes_is_an_older_one(store: MemoryView) -> None:
    """State and applied offset go back together."""
    journal = Journal(store)
    for offset in range(3):
        journal.write([Change(key=KEY, state=full_state(offset), whole=True)])
    store.lose_last_writes(2)
    meta, state, *_ = store.look_up(journal.partition, KEY)
    assert meta is not None
    assert (meta.applied, state) == (0, full_state(0))


def test_a_view_that_is_down_raises_until_it_is_up(store: MemoryView) -> None:
    """Every call; then it has what it had."""
    journal = Journal(store)
    store.down()
    with pytest.raises(ViewUnavailable):
        journal.write([])
    with pytest.raises(ViewUnavailable):
        store.look_up(journal.partition, KEY)
    store.up()
    assert journal.write([])


def test_a_call_whose_answer_is_lost_was_carried_out(store: MemoryView) -> None:
    """The applied offset tells."""
    journal = Journal(store)
    store.lose_next_answer()
    with pytest.raises(ViewUnavailable):
        journal.write([])
    meta = store.meta(journal.partition)
    assert meta is not None
    assert meta.applied == 0
