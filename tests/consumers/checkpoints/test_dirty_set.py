"""The dirty set returns the due processes that a search through all of them finds."""

from __future__ import annotations

from random import Random

import pytest

from seekpoint.consumers.checkpoints.cadence import Cadence, Dirty
from seekpoint.consumers.checkpoints.dirty_set import DirtySet

CADENCE = Cadence(bytes_min=1_000, age_max_s=30.0, batch_max=4)
KEYS = [f"case-{number}".encode() for number in range(12)]


def plainly_due(unsaved: DirtySet, now_s: float, wanted: set[bytes]) -> list[bytes]:
    """Find the due processes by looking at all of them."""
    dirty = unsaved.by_key
    found = [
        key
        for key, one in dirty.items()
        if key in wanted
        or one.is_urgent
        or one.bytes > max(1_000, one.state_bytes + 1_000)
        or now_s - one.since_s >= 30
    ]
    return sorted(found, key=lambda key: dirty[key].first)


@pytest.mark.parametrize("seed", range(60))
def test_what_is_due_is_what_a_search_through_all_finds(seed: int) -> None:
    """This holds after any marks, saves and removals: the oldest first, no more than go into one transaction."""
    random, now_s, position = Random(seed), 0.0, 0
    unsaved = DirtySet(CADENCE, {KEYS[0]: Dirty(0, 3, 0.0), KEYS[1]: Dirty(1, 4, 0.0, is_urgent=True)})
    for _ in range(300):
        now_s += random.choice([0.0, 0.0, 1.0, 7.0])
        position += 10
        key = random.choice(KEYS)
        chance = random.random()
        if chance < 0.6:
            is_urgent = random.random() < 0.1
            unsaved.mark(key, position, position + 5, random.randrange(400), random.randrange(2_000), is_urgent, now_s)
        elif chance < 0.9:
            for due in unsaved.due(now_s, ())[:3]:
                unsaved.mark_saved(due, random.choice([position, unsaved.by_key[due].last]), now_s)
        elif key in unsaved:
            unsaved.remove(key)
        wanted = set(random.sample(KEYS, 2))
        expected = plainly_due(unsaved, now_s, wanted & unsaved.by_key.keys())
        found = unsaved.due(now_s, wanted)
        assert len(found) == min(4, len(expected))
        assert set(found) <= set(expected)
        assert [unsaved.by_key[key].first for key in found] == sorted(unsaved.by_key[key].first for key in found)
        firsts = {key: one.first for key, one in unsaved.by_key.items()}
        assert [firsts[key] for key in unsaved.oldest()] == sorted(firsts.values())[:4]
        left = {key: first for key, first in firsts.items() if key not in found}
        assert unsaved.first_except(found) == min(left.values(), default=None)


def test_a_saving_takes_no_more_bytes_than_a_transaction_should_have() -> None:
    """The process that exceeds the limit is the last one."""
    unsaved = DirtySet(Cadence(batch_bytes_max=100))
    for number, key in enumerate(KEYS):
        unsaved.mark(key, number, number, 10, 60, True, 0.0)
    assert unsaved.due(0.0, ()) == unsaved.oldest() == KEYS[:2]


def test_a_hundred_thousand_that_are_dirty_are_not_looked_at() -> None:
    """A proposal reads only what goes into it. Reading all would make saving them quadratic."""
    looked = 0

    class Counted(dict[bytes, Dirty]):
        def get(self, key: bytes, otherwise: Dirty | None = None) -> Dirty | None:  # type: ignore[override]
            nonlocal looked
            looked += 1
            return super().get(key, otherwise)

    cadence = Cadence(batch_max=100)
    unsaved = DirtySet(cadence)
    for number in range(20_000):
        unsaved.mark(b"%d" % number, number, number, 10, 10, False, 0.0)
    unsaved._dirty = Counted(unsaved._dirty)
    taken = unsaved.oldest()
    assert unsaved.first_except(taken) == 100
    assert len(unsaved.due(60.0, ())) == 100
    assert looked < 1_000
