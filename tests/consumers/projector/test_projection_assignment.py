"""The projection of one partition as it is assigned: where it begins, and when the view is made anew."""

from __future__ import annotations

from typing import Any

import pytest

from owners import Owner
from projection_bench import TOPIC, Bench, dirty_keys
from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY, Floor
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import LogTruncated
from seekpoint.schemas.log.log_ports import Watermarks


def test_an_assignment_waits_for_the_transaction_before_it(bench: Bench) -> None:
    """P1: a transaction that a former owner left open may still be committed."""
    former = bench.kept.begin()
    former.put(0, FLOOR_KEY, Floor(offset=2, leader_epoch=-1, topic_id=TOPIC, since=0).to_bytes())
    projection = bench.projection(ready=False)
    assert not projection.prepare()
    former.commit()
    assert projection.prepare()
    assert projection.floor == 2


def test_a_hint_is_believed_only_as_far_as_a_floor_bears_it_out(bench: Bench) -> None:
    """With any hint, every checkpoint at or above the floor is known."""
    projection = bench.projection()
    bench.project(projection)
    bench.save(projection)
    bench.owner.update("n", "7")
    bench.project(projection)
    bench.save(projection)
    for hint in (0, 1, 2, 3, 99):
        assert dirty_keys(bench.projection(hint=hint)) == set()


def test_since_says_where_the_oldest_checkpoint_above_the_floor_is(bench: Bench) -> None:
    """A process saved ahead of a floor that another holds back is still found by the next assignment."""
    projection = bench.projection()
    bench.project(projection)
    bench.save(projection)
    waiting = Owner(bench.log.append, 1, "waiting")
    waiting.claim()
    done = Owner(bench.log.append, 1, "done")
    done.claim()
    done.own(b.Released())
    bench.project(projection)
    assert bench.save(projection, force=False) == 1
    bench.owner.own(b.Released())
    bench.project(projection)
    bench.save(projection, force=False)
    for hint in range(bench.kept.end(0) + 1):
        assert dirty_keys(bench.projection(hint=hint)) == {b"waiting"}


def test_a_view_is_rebuilt_from_checkpoints_and_reads_on_at_the_floor(bench: Bench) -> None:
    """After FLUSHALL nothing below the floor is read again."""
    projection = bench.projection()
    bench.project(projection)
    bench.save(projection)
    bench.view.flush()
    bench.log.trim(0, 4)
    bench.owner.update("n", "5")
    assert not bench.project(projection)
    while not projection.prepare():
        pass
    assert projection.position == 4
    assert bench.project(projection)
    seen = bench.view.look_up(0, b"case-17")
    assert seen.state is not None
    assert seen.state.context == {"n": 5}


def test_a_damaged_checkpoint_is_recomputed_from_a_complete_log_and_rewritten(bench: Bench) -> None:
    """I9: while the log is complete, the state is recomputed from it."""
    projection = bench.projection()
    bench.project(projection)
    bench.save(projection)
    bench.kept.corrupt(0, 0)
    bench.view.flush()
    again = bench.projection(ready=False)
    while not again.prepare():
        pass
    seen = bench.view.look_up(0, b"case-17")
    assert seen.state is not None
    assert seen.state.context == {"n": 2}
    assert bench.save(again, force=False) == 1
    assert dirty_keys(bench.projection()) == set()


def test_a_damaged_checkpoint_of_a_trimmed_log_leaves_its_process_out(bench: Bench) -> None:
    """The others are projected. No reader takes a view of a trimmed log for proof that a process does not exist."""
    projection = bench.projection()
    bench.project(projection)
    bench.save(projection)
    bench.kept.corrupt(0, 0)
    bench.log.trim(0, 2)
    bench.view.flush()
    assert bench.projection().is_ready
    assert bench.view.look_up(0, b"case-17").state is None


def test_a_newly_published_floor_is_read_before_a_gap_is_reported(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member of an older generation reads a floor; the owner publishes the next one, and the log is trimmed to it."""
    owner = bench.projection()
    bench.project(owner)
    bench.save(owner)
    late, marks_of = bench.projection(ready=False), bench.log.watermarks

    def watermarks(partition: int) -> Watermarks:
        monkeypatch.undo()
        bench.owner.update("n", "9")
        bench.project(owner)
        bench.save(owner)
        bench.log.trim(0, owner.floor)
        return marks_of(partition)

    monkeypatch.setattr(bench.log, "watermarks", watermarks)
    assert not late.prepare()
    assert late.prepare()
    assert (late.position, late.floor) == (5, 5)


def test_a_floor_beyond_the_log_is_a_truncated_log(bench: Bench) -> None:
    """The entries in the checkpoints were acknowledged."""
    floor = Floor(offset=40, leader_epoch=-1, topic_id=TOPIC, since=0)
    bench.kept.write(0, [(FLOOR_KEY, floor.to_bytes())])
    with pytest.raises(LogTruncated):
        bench.projection()


def test_a_view_ahead_of_the_log_is_not_rebuilt(bench: Bench) -> None:
    """The view contains entries that the log lost: an operator decides."""
    token = bench.view.install(0, TOPIC)
    assert bench.view.ready(0, token, 40, -1)
    with pytest.raises(LogTruncated):
        bench.projection()


def test_a_view_of_another_topic_is_rebuilt(bench: Bench) -> None:
    """Offsets are only valid together with their topic."""
    token = bench.view.install(0, "another")
    assert bench.view.ready(0, token, 2, -1)
    assert bench.projection().position == 0


def test_a_rebuild_whose_last_puts_were_lost_is_not_ready(bench: Bench) -> None:
    """A failover during a rebuild: a view without a process would mean that there is no such process."""
    token = bench.view.install(0, TOPIC)
    assert not bench.view.ready(0, token, 3, -1, 1)
    assert bench.view.ready(0, token, 3, -1, 0)
    assert bench.view.offsets_from(0, token, 0, 2) is None
    assert bench.view.offsets_from(0, token, 0, 3) == {}


def test_a_failover_within_a_rebuild_begins_it_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """P1b: the number of processes is compared; otherwise a lost one would be unknown."""
    projection = bench.projection()
    bench.project(projection)
    bench.save(projection)
    bench.view.flush()
    original, failovers = bench.view.ready, [1]

    def ready(*arguments: Any) -> bool:
        if failovers:
            bench.view.lose_last_writes(failovers.pop())
        return original(*arguments)

    monkeypatch.setattr(bench.view, "ready", ready)
    heir = bench.projection(ready=False)
    while not heir.prepare():
        pass
    assert failovers == []
    assert bench.view.look_up(0, b"case-17").state is not None
