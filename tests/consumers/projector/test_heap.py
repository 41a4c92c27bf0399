"""The garbage collector of a program that lives long."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from seekpoint.consumers.projector import heap


@pytest.fixture(autouse=True)
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A collector as it is at the start of a program; its settings are restored after the test."""
    before = gc.get_threshold()
    gc.unfreeze()  # what another test's node froze
    gc.set_threshold(700, 10, 10)
    monkeypatch.setattr(heap, "_spared", False)
    yield
    gc.freeze()  # as the tests were when they had been imported
    gc.set_threshold(*before)


def test_what_is_there_is_frozen_once() -> None:
    """A second node in the same interpreter freezes no more objects."""
    heap.spare_collections()
    assert gc.get_freeze_count() > 10_000
    assert gc.get_threshold() == (50_000, 20, 20)
    gc.unfreeze()
    heap.spare_collections()
    assert gc.get_freeze_count() < 10_000


def test_who_set_the_collector_keeps_it() -> None:
    """A collector that is off, or has a higher threshold, is not changed."""
    gc.set_threshold(90_000, 5, 5)
    heap.spare_collections()
    assert gc.get_threshold() == (90_000, 5, 5)


def test_a_collector_that_is_off_stays_off() -> None:
    """No object is frozen either."""
    gc.disable()
    try:
        heap.spare_collections()
        assert gc.get_freeze_count() < 10_000
    finally:
        gc.enable()
