"""The projection of one partition: when processes are saved, and where the floor comes to lie."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from owners import Owner
from projection_bench import Bench, dirty_keys
from seekpoint.consumers.checkpoints.cadence import CHECKPOINT_REQUEST, Cadence
from seekpoint.consumers.checkpoints.checkpoint import Checkpoint
from seekpoint.consumers.checkpoints.checkpoint_writer import CommitFailed, Positions, Save
from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.settings import Settings


def test_forced_checkpoints_raise_the_floor_to_the_end(bench: Bench) -> None:
    """When everything is saved, the floor is one above the applied offset."""
    projection = bench.projection()
    bench.project(projection)
    assert bench.save(projection) == 1
    assert bench.floor == 4
    assert dirty_keys(projection) == set()
    assert bench.save(projection) == 0, "nothing newer: nothing is written"
    pointer = bench.view.look_up(0, b"case-17").pointer
    assert pointer is not None
    assert pointer.floor == 4
    data = bench.kept.at(0, pointer.position, b"case-17")
    assert data is not None
    assert Checkpoint.from_bytes(data).offset == 3


def test_the_floor_stays_below_what_is_left_out(bench: Bench) -> None:
    """P5: a process that is not due holds the floor at its first unsaved entry."""
    projection = bench.projection()
    bench.project(projection)
    bench.save(projection)
    waiting = Owner(bench.log.append, 1, "waiting")
    waiting.claim()
    bench.owner.own(b.Released())
    bench.project(projection)
    assert bench.save(projection, force=False) == 1
    assert bench.floor == 4
    bench.now_s = 31.0
    assert bench.save(projection, force=False) == 1
    assert bench.floor == 6


@pytest.mark.parametrize(
    ("body", "is_due"),
    [
        (b.Released(), True),
        (b.Finished("1"), True),
        (b.Custom(CHECKPOINT_REQUEST), True),
        (b.Custom("another"), False),
        (b.ContextUpdated("n", "1"), False),
        (b.ContextUpdated("n", f'"{"x" * 20_000}"'), False),
    ],
)
def test_release_finish_and_request_are_saved_at_once(bench: Bench, body: b.Body, is_due: bool) -> None:
    """Other processes wait for their age, or until their entries outweigh the snapshot."""
    projection = bench.projection()
    bench.owner.own(body)
    bench.project(projection)
    assert bench.save(projection, force=False) == int(is_due)


def test_a_process_that_is_wanted_is_saved_once_what_was_in_the_log_is_projected(bench: Bench) -> None:
    """It is saved once: the next entry waits for its cadence. A process that is saved already needs no save."""
    projection = bench.projection()
    projection.request({b"case-17": 4, b"nobody": 9})
    assert bench.save(projection, force=False) == 0
    assert bench.project(projection)
    bench.owner.update("n", "4")
    projection.request({b"case-17": 5})
    assert bench.save(projection, force=False) == 0
    assert bench.project(projection)
    assert bench.save(projection, force=False) == 1
    bench.owner.update("n", "5")
    assert bench.project(projection)
    assert bench.save(projection, force=False) == 0


def test_the_end_of_an_invocation_is_saved_if_the_settings_say_so(bench: Bench) -> None:
    """``checkpoint_after_invocation`` does that; the default does not."""
    for wanted in (False, True):
        cadence = Cadence.of(Settings(checkpoint_after_invocation=wanted, checkpoint_bytes_min=10**9))
        projection = bench.projection(cadence=cadence)
        for body in (b.InvocationTriggered("message"), b.InvocationStarted(), b.InvocationEnded("succeeded", 1)):
            bench.owner.own(body)
        assert bench.project(projection)
        assert bench.save(projection, force=False) == wanted


def test_entries_that_outweigh_the_snapshot_are_saved(bench: Bench) -> None:
    """Three updates of a large value weigh more than a snapshot with one value."""
    projection = bench.projection()
    for _ in range(3):
        bench.owner.update("n", f'"{"x" * 10_000}"')
    bench.project(projection)
    assert bench.save(projection, force=False) == 1


def test_an_aborted_save_is_proposed_again_and_after_an_unknown_outcome_all_is_reloaded(
    bench: Bench,
) -> None:
    """After a time-out only the checkpoint partition shows what is saved."""
    projection = bench.projection()
    bench.project(projection)
    bench.writer.failure = CommitFailed("refused", decided=True)
    with pytest.raises(CommitFailed):
        bench.save(projection)
    assert projection.is_ready
    bench.writer.failure = CommitFailed("a time-out")
    with pytest.raises(CommitFailed):
        bench.save(projection)
    assert not projection.is_ready
    bench.writer.failure = None
    assert projection.prepare()
    assert bench.save(projection) == 1


def test_the_floor_never_falls(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """P5: an entry that is folded during the save of its process is unsaved, above a checkpoint far below the floor."""
    projection = bench.projection()
    done = Owner(bench.log.append, 1, "done")
    done.claim()
    bench.project(projection)
    commit = bench.writer.commit

    def committing(saves: Sequence[Save], membership: object) -> Positions:
        monkeypatch.undo()
        bench.owner.update("n", "1")
        bench.project(projection)
        return commit(saves, membership)

    monkeypatch.setattr(bench.writer, "commit", committing)
    bench.save(projection)
    assert bench.floor == 5
    done.own(b.Released())
    bench.project(projection)
    assert bench.save(projection, force=False) == 1
    assert bench.floor == 5
