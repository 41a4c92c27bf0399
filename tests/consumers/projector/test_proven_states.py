"""P8: what a projection folds on and saves rests on checkpoints and the log, whatever somebody puts into the view."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from owners import Owner
from projection_bench import TOPIC, Bench
from seekpoint.consumers.checkpoints.cadence import Cadence
from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY, Checkpoint
from seekpoint.consumers.projector.state_cache import StateCache
from seekpoint.schemas import bodies as b
from seekpoint.schemas.folds import UserFold, only
from seekpoint.schemas.state.process_state import State

KEY = b"case-17"


def forged(state: State | None, **values: str) -> State:
    """Return ``state`` with other values."""
    assert state is not None
    draft = state.thaw()
    draft.values_json = {**draft.values_json, **values}
    return draft.freeze()


def saved(bench: Bench, key: bytes = KEY) -> State:
    """Return the state of the newest checkpoint."""
    records = bench.kept.records(0, 0, bench.kept.end(0))
    values = [value for _, name, value in records if name == key and value is not None]
    return Checkpoint.from_bytes(values[-1]).verified(key.decode(), TOPIC)


def viewed(bench: Bench, key: bytes = KEY) -> State:
    """Return the state that the view has."""
    seen = bench.view.look_up(0, key)
    assert seen.state is not None
    return seen.state


@pytest.fixture
def kept(bench: Bench) -> Bench:
    """Return a bench whose former projector saved two processes."""
    other = Owner(bench.log.append, 1, "case-18")
    other.claim()
    other.update("n", "8")
    projection = bench.projection()
    assert bench.project(projection)
    assert bench.save(projection) == 2
    return bench


def test_a_forged_value_is_neither_folded_on_nor_saved(kept: Bench) -> None:
    """HSET of one value, with a valid hash: the next projector recomputes the state and reports the damage."""
    kept.view.forge(0, KEY, forged(viewed(kept), n="1000000"))
    kept.owner.update("m", "1")
    projection = kept.projection()
    assert kept.project(projection)
    assert viewed(kept).context == {"n": 2, "m": 1}
    kept.save(projection)
    assert saved(kept).context == {"n": 2, "m": 1}
    assert kept.damages == [KEY]


def test_an_unsaved_state_is_folded_from_the_log(bench: Bench) -> None:
    """A projector dies with unsaved entries, and the view is changed before the next one begins."""
    assert bench.project(bench.projection())
    bench.view.forge(0, KEY, forged(viewed(bench), n="1000000"))
    projection = bench.projection()
    assert bench.save(projection) == 1
    assert saved(bench).context == {"n": 2}
    assert viewed(bench).context == {"n": 2}
    assert bench.damages == [KEY]


def test_a_checkpoint_that_is_compacted_during_the_read_is_found_further_on(
    kept: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another projector saves a process behind the end of the read, and the cleaner removes its former checkpoint."""
    kept.owner.update("m", "1")
    former = kept.projection()
    assert kept.project(former)
    records, starts = kept.kept.records, list[int]()

    def read(partition: int, start: int, stop: int) -> Iterator[tuple[int, bytes, bytes | None]]:
        starts.append(start)
        if len(starts) == 2:  # the first read is the preparation's own
            assert kept.save(former) == 1
            kept.kept.compact(0, kept.kept.end(0) - 1)
        return records(partition, start, stop)

    monkeypatch.setattr(kept.kept, "records", read)
    projection = kept.projection()
    kept.owner.update("m", "2")
    assert kept.project(projection)
    assert len(starts) > 2
    assert kept.damages == []
    assert viewed(kept).context == {"n": 2, "m": 2}


def test_a_lowered_offset_in_the_view_does_not_hide_unsaved_entries(bench: Bench) -> None:
    """The floor never passes an entry that is in no checkpoint, whatever the view says."""
    assert bench.project(bench.projection())
    bench.view.forge(0, KEY, None)
    projection = bench.projection()
    assert bench.save(projection) == 1
    assert bench.floor == projection.position
    assert saved(bench) == viewed(bench)


def test_a_damaged_row_is_recomputed_and_its_neighbour_is_left_alone(kept: Bench) -> None:
    """The view is not rebuilt, and the partition does not stop."""
    token = kept.view.meta(0)
    kept.view.damage(0, KEY)
    kept.owner.update("m", "1")
    assert kept.project(kept.projection())
    assert viewed(kept).context == {"n": 2, "m": 1}
    assert kept.damages == [KEY]
    meta = kept.view.meta(0)
    assert token is not None
    assert meta is not None
    assert meta.token == token.token


def test_a_process_that_was_removed_from_the_view_does_not_start_over(kept: Bench) -> None:
    """Its next entry is not forged, and a claim that expects no owner is lost, as in the log."""
    kept.view.forge(0, KEY, None)
    kept.owner.update("m", "1")
    kept.owner.external(b.Claim(0, "node-b", "boot"))
    projection = kept.projection()
    assert kept.project(projection)
    assert kept.poison == []
    kept.save(projection)
    assert (saved(kept).context, saved(kept).epoch) == ({"n": 2, "m": 1}, 1)


def test_an_invented_process_in_the_view_does_not_count(kept: Bench) -> None:
    """The log has no such process, so its first entry is folded on an empty state."""
    kept.view.forge(0, b"case-19", forged(viewed(kept), n="9"))
    third = Owner(kept.log.append, 1, "case-19")
    third.claim()
    third.update("mine", "1")
    assert kept.project(kept.projection())
    assert viewed(kept, b"case-19").context == {"mine": 1}


def test_a_state_that_left_the_cache_is_compared_when_it_comes_back(bench: Bench) -> None:
    """The state is in no checkpoint, so its digest stays in memory."""
    projection = bench.projection()
    projection.cache = StateCache(states_max=1)
    assert projection._states is not None
    projection._states._cache = projection.cache
    projection.cache.begin(projection._token, projection.position)
    other = Owner(bench.log.append, 1, "case-18")
    other.claim()
    assert bench.project(projection)
    other.update("n", "1")
    assert bench.project(projection)
    assert KEY not in projection.cache
    bench.view.forge(0, KEY, forged(viewed(bench), n="1000000"))
    bench.owner.update("m", "1")
    assert bench.project(projection)
    assert viewed(bench).context == {"n": 2, "m": 1}
    assert bench.damages == [KEY]


def test_a_damaged_checkpoint_is_rewritten_from_the_log(kept: Bench) -> None:
    """The log is complete, so the view is not needed."""
    position = next(at for at, key, _ in kept.kept.records(0, 0, kept.kept.end(0)) if key == KEY)
    kept.kept.corrupt(0, position, b"junk")
    kept.view.forge(0, KEY, forged(viewed(kept), n="1000000"))
    projection = kept.projection()
    kept.save(projection, force=False)
    assert saved(kept).context == {"n": 2}


def test_a_state_that_nothing_proves_is_never_saved(kept: Bench) -> None:
    """Checkpoint damaged, log trimmed: the view goes on, the floor stays, the neighbour is saved."""
    floor = kept.floor
    assert floor is not None
    kept.log.trim(0, floor)
    position = next(at for at, key, _ in kept.kept.records(0, 0, kept.kept.end(0)) if key == KEY)
    kept.kept.corrupt(0, position, b"junk")
    kept.owner.update("m", "1")
    Owner(kept.log.append, 1, "case-20").claim()
    projection = kept.projection(cadence=Cadence(bytes_min=1, age_max_s=0.0))
    assert kept.project(projection)
    assert viewed(kept).context == {"n": 2, "m": 1}
    for force in (False, True):
        kept.save(projection, force=force)
    assert kept.floor == floor
    records = kept.kept.records(0, position + 1, kept.kept.end(0))
    assert {key for _, key, _ in records} - {b"case-18", FLOOR_KEY} == {b"case-20"}


@pytest.mark.parametrize("has_more", [False, True])
def test_a_state_that_nothing_proves_is_not_saved_by_the_next_assignment_either(kept: Bench, has_more: bool) -> None:
    """A projection that is prepared again keeps its cache, in which every state is proven."""
    assert kept.floor is not None
    kept.log.trim(0, kept.floor)
    position = next(at for at, key, _ in kept.kept.records(0, 0, kept.kept.end(0)) if key == KEY)
    kept.kept.corrupt(0, position, b"junk")
    kept.view.forge(0, KEY, forged(viewed(kept), n="1000000"))
    kept.owner.update("m", "1")
    first = kept.projection()
    assert kept.project(first)
    second = kept.projection(cache=first.cache)
    if has_more:
        kept.owner.update("m", "2")
        assert kept.project(second)
    kept.save(second)
    assert KEY not in {key for _, key, _ in kept.kept.records(0, position + 1, kept.kept.end(0))}


def test_a_process_of_which_nothing_whole_is_left_is_passed_over(kept: Bench) -> None:
    """Checkpoint and row are damaged and the log is trimmed: the others go on, and its row stays damaged."""
    assert kept.floor is not None
    kept.log.trim(0, kept.floor)
    position = next(at for at, key, _ in kept.kept.records(0, 0, kept.kept.end(0)) if key == KEY)
    kept.kept.corrupt(0, position, b"junk")
    kept.view.damage(0, KEY)
    kept.owner.update("m", "1")
    other = Owner(kept.log.append, 1, "other")
    other.claim()
    projection = kept.projection()
    assert kept.project(projection)
    kept.save(projection)
    assert KEY in kept.view.load(0, (kept.view.meta(0) or pytest.fail("no view")).token, [KEY]).damaged  # type: ignore[union-attr]
    assert kept.view.look_up(0, b"other").state is not None
    assert kept.floor == kept.log.watermarks(0).high


def _count(value: int, kind: str, payload: Any) -> int:
    return value + 1


def test_a_forged_result_of_a_fold_is_not_saved(bench: Bench) -> None:
    """The result is not in the state's hash, but in the checkpoint's digest. It is no damage of the process."""
    with only(UserFold("count", 1, "0", _count)):
        bench.owner.own(b.Custom("note", "1"))
        projection = bench.projection()
        assert bench.project(projection)
        bench.save(projection)
        draft = viewed(bench).thaw()
        draft.folds = {name: replace(one, value_json="999") for name, one in draft.folds.items()}
        bench.view.forge(0, KEY, draft.freeze())
        bench.owner.own(b.Custom("note", "1"))
        projection = bench.projection()
        assert bench.project(projection)
        bench.save(projection)
        assert saved(bench).folded("count") == 2
        assert bench.damages == []
