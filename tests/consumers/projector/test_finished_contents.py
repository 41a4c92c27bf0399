"""How long finished processes keep their content: in the view, and in their checkpoints. In memory."""

from __future__ import annotations

import pytest

from owners import Owner
from projection_bench import Bench
from seekpoint.consumers.checkpoints.checkpoint import Checkpoint
from seekpoint.consumers.projector.projection import PartitionProjection
from seekpoint.schemas import bodies as b
from seekpoint.schemas.state.process_state import State

WEEK_S = 604_800.0
KEY = b"case-17"


@pytest.fixture
def bench() -> Bench:
    """Finish a process with a message; project and save its state."""
    made = Bench()
    made.owner.claim()
    made.owner.own(b.ContextUpdated("status", '"paid"'))
    made.owner.own(b.MessageSaid("user", "hi"))
    made.owner.own(b.Finished('"receipt"'))
    return made


def begun(bench: Bench) -> PartitionProjection:
    projection = bench.projection()
    bench.project(projection)
    bench.save(projection)
    return projection


def rounds(bench: Bench, projection: PartitionProjection, count: int = 2) -> int:
    """Drop contents and save, as the projector does; return the number of checkpoints."""
    written = 0
    for _ in range(count):
        bench.now_s += 61.0
        projection.drop_contents()
        assert projection.flush()
        written += bench.save(projection, force=False)
    return written


def kept_in_view(bench: Bench, key: bytes = KEY) -> State:
    state = bench.view.look_up(0, key).state
    assert state is not None
    return state


def newest_checkpoint(bench: Bench, key: bytes = KEY) -> State:
    values = [value for _, found, value in bench.kept.records(0, 0, bench.kept.end(0)) if found == key and value]
    return State.from_bytes(Checkpoint.from_bytes(values[-1]).state)


def test_finished_content_stays_for_as_long_as_the_setting_says(bench: Bench) -> None:
    """Then view and checkpoint have the gravestone, with the same hash, and it is written once."""
    projection = begun(bench)
    bench.later_s = WEEK_S - 3_600
    assert rounds(bench, projection) == 0
    for state in (kept_in_view(bench), newest_checkpoint(bench)):
        assert (state.context, len(state.conversation), state.result) == ({"status": "paid"}, 1, "receipt")
    before = kept_in_view(bench).hash
    bench.later_s = WEEK_S + 3_600
    assert rounds(bench, projection) == 1
    for state in (kept_in_view(bench), newest_checkpoint(bench)):
        assert (state.content_dropped, state.context, len(state.conversation)) == (True, {}, 0)
        assert (state.result, state.hash) == ("receipt", before)
    pointer = bench.view.look_up(0, KEY).pointer
    assert pointer is not None
    data = bench.kept.at(0, pointer.position, KEY)
    assert data is not None
    assert State.from_bytes(Checkpoint.from_bytes(data).state).content_dropped
    assert rounds(bench, projection, 5) == 0


def test_a_trim_does_not_make_contents_old(bench: Bench) -> None:
    """The entries that would tell their age are gone: the content stays until a later entry is old enough."""
    projection = begun(bench)
    bench.log.trim(0, bench.log.watermarks(0).high)
    Owner(bench.log.append, 1, "case-18").claim()
    bench.project(projection)
    rounds(bench, projection)
    assert not kept_in_view(bench).content_dropped
    bench.later_s = WEEK_S + 3_600
    rounds(bench, projection)
    assert kept_in_view(bench).content_dropped


def test_zero_keeps_no_content_at_all(bench: Bench) -> None:
    """View and checkpoint have the gravestone from the start."""
    bench.finished_content_s = 0.0
    begun(bench)
    assert kept_in_view(bench).content_dropped
    assert newest_checkpoint(bench).content_dropped


def test_zero_also_drops_the_content_of_earlier_processes(bench: Bench) -> None:
    """The next projector finds the content."""
    begun(bench)
    bench.finished_content_s = 0.0
    projection = bench.projection()
    rounds(bench, projection)
    assert (kept_in_view(bench).content_dropped, newest_checkpoint(bench).content_dropped) == (True, True)


def test_a_projector_that_dies_in_between_leaves_it_to_the_next(bench: Bench) -> None:
    """The checkpoint is written first. The next projector finds a view that still has the content."""
    projection = begun(bench)
    bench.later_s, bench.now_s = WEEK_S + 3_600, 61.0
    projection.drop_contents()
    assert bench.save(projection, force=False) == 1
    assert newest_checkpoint(bench).content_dropped
    assert not kept_in_view(bench).content_dropped
    heir = bench.projection()
    rounds(bench, heir)
    assert kept_in_view(bench).content_dropped


def test_what_is_not_finished_is_never_dropped(bench: Bench) -> None:
    """Its age does not matter, and the floor does not wait for a gravestone."""
    other = Owner(bench.log.append, 1, "case-18")
    other.claim()
    other.own(b.ContextUpdated("status", '"waiting"'))
    projection = begun(bench)
    bench.later_s = 10 * WEEK_S
    rounds(bench, projection)
    assert kept_in_view(bench, b"case-18").context == {"status": "waiting"}
    assert kept_in_view(bench).content_dropped
    other.own(b.ContextUpdated("status", '"paid"'))
    bench.project(projection)
    bench.save(projection)
    assert bench.floor == bench.log.watermarks(0).high


def test_entries_that_come_behind_the_end_change_nothing_of_it(bench: Bench) -> None:
    """A signal is refused and counted, also between the search and the drop."""
    projection = begun(bench)
    bench.later_s, bench.now_s = WEEK_S + 3_600, 61.0
    projection.drop_contents()
    bench.owner.external(b.Signal("late"))
    bench.project(projection)
    bench.save(projection)
    rounds(bench, projection)
    state = kept_in_view(bench)
    assert (state.content_dropped, state.refused_externals, state.offset) == (True, 1, bench.log.watermarks(0).high - 1)


def test_what_another_projector_dropped_does_not_come_back(bench: Bench) -> None:
    """The partition returns to a projector whose cache has the content, at an unchanged position."""
    first = begun(bench)
    bench.later_s = WEEK_S + 3_600
    assert rounds(bench, bench.projection()) == 1
    again = bench.projection(cache=first.cache)
    bench.owner.external(b.Signal("late", "1"))
    assert bench.project(again)
    bench.save(again)
    for state in (kept_in_view(bench), newest_checkpoint(bench)):
        assert (state.content_dropped, state.context) == (True, {})
    assert bench.damages == []
