"""Rules P1 to P8 against random histories, projectors, crashes and faults. A failure names its seed."""

from __future__ import annotations

import pytest

from projection_world import World
from seekpoint.consumers.view.process_summary import summary_of

SEEDS = 1_000
SHARDS = 10


def run(seed: int, *, forging: bool = False) -> World:
    """Run the world of one seed."""
    world = World(seed, forging=forging)
    try:
        world.run(world.random.randint(20, 250))
    except Exception as exc:
        exc.add_note(f"seed {seed}")
        raise
    return world


@pytest.mark.parametrize("shard", range(SHARDS))
def test_every_tier_gives_the_truth_whatever_happens_to_the_projectors(shard: int) -> None:
    """View, checkpoints and pointers equal a plain fold; no floor and no checkpoint goes back; no report is false."""
    for seed in range(shard, SEEDS, SHARDS):
        run(seed)


@pytest.mark.parametrize("shard", range(4))
def test_no_forged_row_of_the_view_is_ever_saved(shard: int) -> None:
    """P8: rows are damaged, forged whole and removed; all checkpoints are the log's, no neighbour is called damaged.

    A process that goes on is right in the view again, too.
    """
    worlds = [run(seed, forging=True) for seed in range(5_000 + shard, 5_240, 4)]
    assert sum(world.truth.damages for world in worlds) > 20


def test_the_worlds_are_not_empty() -> None:
    """The worlds contain rebuilt views, undecided transactions, checkpoints and poison."""
    worlds = [run(seed) for seed in range(40)]
    assert sum(len(world.truth.reported) for world in worlds) > 50
    assert sum(world.checkpoints.end(0) for world in worlds) > 400
    assert sum(not one.sent for world in worlds for one in world.transactions) > 10
    assert sum(world.log.watermarks(0).low > 0 for world in worlds) > 5
    assert sum(world.truth.indexed for world in worlds) > 300
    states = [draft.snapshot() for world in worlds for draft in world.truth.drafts.values()]
    summaries = [summary_of(0, b"p", state) for state in states]
    assert sum(bool(one.waits_for) for one in summaries) > 5
    assert sum(one.in_doubt for one in summaries) > 20
    assert sum(state.finished for state in states) > 5
