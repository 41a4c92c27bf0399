"""What view and checkpoints have of a deleted process. In memory."""

from __future__ import annotations

from projection_bench import Bench
from seekpoint.consumers.checkpoints.checkpoint import Checkpoint
from seekpoint.schemas import bodies as b
from seekpoint.schemas.state.process_state import State

KEY = b"case-17"


def _kept(bench: Bench) -> tuple[State, State]:
    """The state in the view, and that in the newest checkpoint."""
    seen = bench.view.look_up(0, KEY).state
    assert seen is not None
    values = [value for _, found, value in bench.kept.records(0, 0, bench.kept.end(0)) if found == KEY and value]
    return seen, State.from_bytes(Checkpoint.from_bytes(values[-1]).state)


def test_a_deletion_takes_the_content_out_of_view_and_checkpoint_at_once() -> None:
    """No checkpoint is late: the projector saves it as soon as it has read the deletion."""
    bench = Bench()
    bench.owner.claim()
    bench.owner.own(b.ContextUpdated("email", '"ann@example.org"'))
    bench.owner.own(b.MessageSaid("user", "I am Ann"))
    projection = bench.projection()
    bench.project(projection)
    bench.save(projection)
    assert all("Ann" in state.to_bytes().decode() for state in _kept(bench))
    bench.owner.own(b.Deleted())
    bench.project(projection)
    assert bench.save(projection, force=False) == 1
    for state in _kept(bench):
        assert "nn" not in state.to_bytes().decode()
        assert (state.seq, state.is_deleted) == (3, True)
    assert bench.view.page(0, b"", b"", 10, open_only=True).summaries == ()
    (listed,) = bench.view.page(0, b"", b"", 10, open_only=False).summaries
    assert listed.status == "deleted"
    bench.owner.own(b.ContextUpdated("a", "1"))
    bench.project(projection)
    assert [one.seq for one in bench.view.page(0, b"", b"", 10, open_only=True).summaries] == [4]


def test_a_deleted_process_with_a_gap_behind_it_is_listed() -> None:
    """Something was written that is lost: a person has to see that."""
    bench = Bench()
    bench.owner.claim()
    bench.owner.own(b.Deleted())
    bench.owner.seq += 1
    bench.owner.own(b.ContextUpdated("a", "1"))
    projection = bench.projection()
    bench.project(projection)
    state = bench.view.look_up(0, KEY).state
    assert state is not None
    assert (state.is_deleted, state.degraded is None) == (False, False)
    for open_only in (True, False):
        (listed,) = bench.view.page(0, b"", b"", 10, open_only=open_only).summaries
        assert listed.status == "degraded"
        assert not listed.is_deleted
