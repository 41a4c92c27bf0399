"""The projection of one partition, step by step: batches, and what they write into the view."""

from __future__ import annotations

from typing import Any

import pytest

from projection_bench import TOPIC, Bench
from seekpoint.consumers.checkpoints.cadence import Cadence
from seekpoint.consumers.checkpoints.checkpoint import Checkpoint
from seekpoint.consumers.view.view_store import Change
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import FoldUnavailable
from seekpoint.schemas.folds import UserFold, only


def test_a_batch_brings_the_view_to_the_end(bench: Bench) -> None:
    """The view has the state as of the newest entry, and the offset of that entry."""
    assert bench.project(bench.projection())
    seen = bench.view.look_up(0, b"case-17")
    assert seen.state is not None
    assert seen.state.context == {"n": 2}
    assert seen.meta is not None
    assert seen.meta.applied == 3


def test_a_write_that_is_refused_counts_for_nothing(bench: Bench) -> None:
    """P3: another projector applied the batch first. The projection reloads; the refused write marks nothing dirty."""
    projection = bench.projection()
    meta = bench.view.meta(0)
    assert meta is not None
    bench.project(projection)
    bench.owner.update("n", "9")
    other = bench.projection()
    bench.project(other)
    assert not bench.project(projection)
    assert not projection.is_ready
    assert projection.prepare()
    assert projection.position == 5


def test_no_batch_is_folded_on_a_view_that_went_back(bench: Bench) -> None:
    """P2: on an older state the next entry looks like a gap, which must not be reported."""
    projection = bench.projection()
    bench.project(projection)
    bench.owner.claim()
    bench.view.lose_last_writes(1)
    bench.owner.update("n", "4")
    projection.cache.begin("", 0)
    assert not bench.project(projection)
    assert bench.poison == []
    assert projection.prepare()
    assert projection.position == 0


def test_poison_is_reported_once_per_batch_in_order(bench: Bench) -> None:
    """Undecodable records and forged entries are reported, each with its offset."""
    bench.owner.raw(b"junk")
    bench.owner.put(bench.owner.entry(b.ContextUpdated("x", "1"), 99)._replace(claim_id=b"0" * 16))
    bench.owner.raw(b"more junk")
    bench.project(bench.projection())
    assert [record.offset for record, _ in bench.poison] == [4, 5, 6]


def test_every_body_writes_what_it_changed(bench: Bench) -> None:
    """The view changes field by field, and then has the same state as the fold."""
    bodies: list[b.Body] = [
        b.ContextUpdated("a", "1"),
        b.ContextUpdatedMany({"b": "2", "c": "3"}),
        b.ContextPatched('{"a": 5, "b": null, "d": {"e": 1}}'),
        b.MessageSaid("user", "hello"),
        b.ContextDeleted("c"),
        b.ContextCleared(),
        b.ContextUpdated("after", "1"),
        b.MessageSaid("user", "again"),
        b.InvocationTriggered("t", "1"),
        b.InvocationStarted(),
        b.InvocationEnded("done"),
        b.LifecycleChanged("starting"),
        b.LifecycleChanged("created"),
        b.ErrorRecorded("E", "m"),
        b.PartAttached("a" * 64, 4, 0, b"ab"),
        b.PartAttached("b" * 64, 9, store="s3://bucket"),
        b.PartAttached("a" * 64, 4, 2, b"cd"),
        b.ContextUpdated("beside", "1"),
        b.Detached(f'["{"b" * 64}", "{"c" * 64}"]'),
        b.Rewound(2, bench_content()),
        b.MessageSaid("user", "after"),
        b.Deleted(),
        b.ContextUpdated("anew", "1"),
        b.MessageSaid("user", "anew"),
        b.Finished("1"),
    ]
    projection = bench.projection()
    truth = bench.projection(cadence=Cadence())
    for body in bodies:
        bench.owner.own(body)
        assert bench.project(projection)
        seen = bench.view.look_up(0, b"case-17").state
        cached = projection.cache.get(b"case-17")
        assert seen == cached, body
    assert truth.position == 0


def test_mail_that_a_call_receives_goes_into_the_view_with_it(bench: Bench) -> None:
    """The mailbox loses the item and the call gets it. A time-out is a call, too."""
    projection = bench.projection()
    bench.owner.external(b.Signal("go", "1"))
    assert bench.project(projection)
    waiting = bench.view.look_up(0, b"case-17").state
    assert waiting is not None
    (sent,) = waiting.mailbox
    for position, external_id in enumerate((sent, b.NIL_ID), 1):
        bench.owner.own(b.Received(external_id, f"receive:{position}", position))
        assert bench.project(projection)
        seen = bench.view.look_up(0, b"case-17").state
        assert seen == projection.cache.get(b"case-17")
        assert seen is not None
        assert (len(seen.calls), len(seen.mailbox)) == (position, 0)


def bench_content() -> str:
    """The view has the content that a rewind restored."""
    bench = Bench()
    bench.owner.claim()
    bench.owner.update("restored", "1")
    bench.owner.own(b.MessageSaid("user", "restored"))
    projection = bench.projection()
    bench.project(projection)
    state = projection.cache.get(b"case-17")
    assert state is not None
    return state.content_json()


def test_an_append_to_a_long_conversation_writes_one_message(bench: Bench) -> None:
    """The cost of a batch does not depend on the size of the state."""
    for _ in range(50):
        bench.owner.own(b.MessageSaid("user", "hello"))
    projection = bench.projection()
    bench.project(projection)
    written: list[Change] = []
    original = bench.view.write
    bench.view.write = lambda *args: written.extend(args[-1]) or original(*args)  # type: ignore[method-assign,func-returns-value]
    bench.owner.own(b.MessageSaid("user", "one more"))
    bench.project(projection)
    [change] = written
    assert [said.content for said in change.messages] == ["one more"]
    assert (change.whole, change.mail, change.context_keys) == (False, False, frozenset())


# --- folds of users ---------------------------------------------------------------------------------------------------
def _count(value: int, kind: str, payload: Any) -> int:
    return value + 1


COUNT = UserFold("count", 1, "0", _count)


def test_a_fold_goes_into_the_view_and_the_checkpoint() -> None:
    """Each custom entry updates the results, and a reader finds what was written."""
    bench = Bench()
    with only(COUNT):
        bench.owner.claim()
        projection = bench.projection()
        for _ in range(3):
            bench.owner.own(b.Custom("note", "1"))
            assert bench.project(projection)
        seen = bench.view.look_up(0, b"case-17").state
        assert seen is not None
        assert seen.folded("count") == 3
        bench.save(projection)
        end = bench.kept.end(0)
        values = [value for _, key, value in bench.kept.records(0, 0, end) if key == b"case-17" and value]
        assert Checkpoint.from_bytes(values[-1]).verified("case-17", TOPIC).folded("count") == 3


@pytest.mark.parametrize("is_saved", [False, True])
def test_a_new_folds_past_is_read_from_the_log_once_the_process_goes_on(is_saved: bool) -> None:
    """A projector with a fold that former ones did not have writes its results into the view.

    ``is_saved``: the state of the view is that of a checkpoint, and not made anew.
    """
    bench = Bench()
    bench.owner.claim()
    bench.owner.own(b.Custom("note", "1"))
    former = bench.projection()
    assert bench.project(former)
    if is_saved:
        bench.save(former)
    with only(COUNT):
        projection = bench.projection()
        bench.owner.update("a", "1")
        assert bench.project(projection)
        seen = bench.view.look_up(0, b"case-17").state
        assert seen is not None
        assert seen.folded("count") == 1
        bench.owner.own(b.Custom("note", "1"))
        assert bench.project(projection)
        seen = bench.view.look_up(0, b"case-17").state
        assert seen is not None
        assert seen.folded("count") == 2


def test_a_new_folds_past_that_was_trimmed_is_never_made_up() -> None:
    """The projection goes on. The fold has no value, and the rest of the state is unchanged."""
    bench = Bench()
    bench.owner.claim()
    bench.owner.own(b.Custom("note", "1"))
    projection = bench.projection()
    assert bench.project(projection)
    bench.save(projection)
    bench.log.trim(0, 2)
    with only(COUNT):
        projection = bench.projection()
        bench.owner.own(b.Custom("note", "1"))
        assert bench.project(projection)
        seen = bench.view.look_up(0, b"case-17").state
        assert seen is not None
        assert seen.seq == 2
        with pytest.raises(FoldUnavailable):
            seen.folded("count")
