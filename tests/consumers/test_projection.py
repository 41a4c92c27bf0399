"""The projection of one partition, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from owners import Owner
from projection_world import Inline
from seekpoint.consumers.assignment import Assignment
from seekpoint.consumers.cadence import CHECKPOINT_REQUEST, Cadence
from seekpoint.consumers.checkpoint_writer import CommitFailed, Positions, Save
from seekpoint.consumers.checkpoints import FLOOR_KEY, Checkpoint, Floor
from seekpoint.consumers.memory_checkpoints import MemoryCheckpoints
from seekpoint.consumers.memory_view import MemoryView
from seekpoint.consumers.projection import PartitionProjection
from seekpoint.consumers.source import Source
from seekpoint.consumers.view_store import Change
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import FoldUnavailable, JournalGap, LogTruncated, UndecodableRecord
from seekpoint.schemas.folds import UserFold, only
from seekpoint.schemas.log import MemoryLog, Record, Watermarks
from seekpoint.schemas.settings import Settings

TOPIC = "the-topic"


class Writer:
    """Commits everything at once, unless it is told to fail."""

    def __init__(self, kept: MemoryCheckpoints) -> None:
        self.kept = kept
        self.failure: CommitFailed | None = None
        self.memberships: list[object] = []

    def commit(self, saves: Sequence[Save], membership: object) -> Positions:
        self.memberships.append(membership)
        if self.failure is not None:
            raise self.failure
        positions: dict[int, dict[bytes, int]] = {}
        for save in saves:
            records = [(key, one.to_bytes()) for key, one in save.checkpoints.items()]
            where = self.kept.write(save.partition, [*records, (FLOOR_KEY, save.floor.to_bytes())])
            positions[save.partition] = dict(zip(save.checkpoints, where, strict=False))
        return positions

    def settle(self) -> None:
        """Nothing is ever open."""


class Bench:
    """A log of one partition with all that is kept of it."""

    def __init__(self) -> None:
        self.log = MemoryLog(partitions=1)
        self.view = MemoryView(1)
        self.kept = MemoryCheckpoints(1)
        self.writer = Writer(self.kept)
        self.now_s = 0.0
        self.poison: list[tuple[Record, UndecodableRecord]] = []
        self.owner = Owner(self.log.append, 1, "case-17")

    def projection(self, *, ready: bool = True, hint: int = 0, cadence: Cadence | None = None) -> PartitionProjection:
        source = Source(
            log=self.log,
            topic_id=TOPIC,
            view=self.view,
            checkpoints=self.kept,
            writer=self.writer,
            writes=Inline(),
            on_poison=lambda record, error: self.poison.append((record, error)),
            cadence=cadence or Cadence(),
            clock=lambda: self.now_s,
        )
        made = PartitionProjection(0, source, hint=hint)
        if ready:
            assert made.prepare() or made.prepare()
        return made

    def project(self, projection: PartitionProjection) -> bool:
        start, stop = projection.position, self.log.watermarks(0).high
        records = [record for batch in self.log.read(0, start, stop) for record in batch.records]
        return projection.project(records, stop) and projection.flush()

    def save(self, projection: PartitionProjection, *, force: bool = True) -> int:
        return Assignment("member", [projection], self.writer).save(force=force)

    @property
    def floor(self) -> int | None:
        values = [value for _, key, value in self.kept.records(0, 0, self.kept.end(0)) if key == FLOOR_KEY]
        return Floor.from_bytes(values[-1] or b"").offset if values else None


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.owner.claim()
    for number in range(3):
        made.owner.update("n", str(number))
    return made


def test_a_batch_brings_the_view_to_the_end(bench: Bench) -> None:
    """The view has the state as of the newest entry, and the offset it is as of."""
    assert bench.project(bench.projection())
    seen = bench.view.see(0, b"case-17")
    assert seen.state is not None
    assert seen.state.context == {"n": 2}
    assert seen.meta is not None
    assert seen.meta.applied == 3


def test_a_write_that_is_refused_counts_for_nothing(bench: Bench) -> None:
    """P3: what another projector applied first is read again; nothing is dirty by a write that did not happen."""
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
    """P2: on older states the next entry looks like a gap; nobody may be told."""
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


def test_forced_checkpoints_raise_the_floor_to_the_end(bench: Bench) -> None:
    """With everything saved the floor is one above what is applied."""
    projection = bench.projection()
    bench.project(projection)
    assert bench.save(projection) == 1
    assert bench.floor == 4
    assert projection.dirty == {}
    assert bench.save(projection) == 0, "nothing newer: nothing is written"
    pointer = bench.view.see(0, b"case-17").pointer
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
    """Others wait for their age, or until their entries outweigh the snapshot."""
    projection = bench.projection()
    bench.owner.own(body)
    bench.project(projection)
    assert bench.save(projection, force=False) == int(is_due)


def test_a_process_that_is_wanted_is_saved_once_what_was_in_the_log_is_projected(bench: Bench) -> None:
    """Not before, and once: the next entry waits for its cadence again. One that is saved already is not wanted."""
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
    """``checkpoint_after_invocation``; not by default."""
    for wanted in (False, True):
        cadence = Cadence.of(Settings(checkpoint_after_invocation=wanted, checkpoint_bytes_min=10**9))
        projection = bench.projection(cadence=cadence)
        for body in (b.InvocationTriggered("message"), b.InvocationStarted(), b.InvocationEnded("succeeded", 1)):
            bench.owner.own(body)
        assert bench.project(projection)
        assert bench.save(projection, force=False) == wanted


def test_entries_that_outweigh_the_snapshot_are_saved(bench: Bench) -> None:
    """Bytes since: twenty thousand of one value written over and over, against a snapshot of one."""
    projection = bench.projection()
    for _ in range(3):
        bench.owner.update("n", f'"{"x" * 10_000}"')
    bench.project(projection)
    assert bench.save(projection, force=False) == 1


def test_a_decided_failure_is_proposed_again_and_an_undecided_one_reads_everything_anew(bench: Bench) -> None:
    """After a time-out nobody knows what is saved: the checkpoint partition does."""
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


def test_an_assignment_waits_for_the_transaction_before_it(bench: Bench) -> None:
    """P1: what a former owner has open may still be committed."""
    former = bench.kept.begin()
    former.put(0, FLOOR_KEY, Floor(offset=2, leader_epoch=-1, topic_id=TOPIC, since=0).to_bytes())
    projection = bench.projection(ready=False)
    assert not projection.prepare()
    former.commit()
    assert projection.prepare()
    assert projection.floor == 2


def test_a_hint_is_believed_only_as_far_as_a_floor_bears_it_out(bench: Bench) -> None:
    """Whatever the group's offset says, every checkpoint at or above the floor is known."""
    projection = bench.projection()
    bench.project(projection)
    bench.save(projection)
    bench.owner.update("n", "7")
    bench.project(projection)
    bench.save(projection)
    for hint in (0, 1, 2, 3, 99):
        assert bench.projection(hint=hint).dirty == {}


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
        assert set(bench.projection(hint=hint).dirty) == {b"waiting"}


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
    seen = bench.view.see(0, b"case-17")
    assert seen.state is not None
    assert seen.state.context == {"n": 5}


def test_a_damaged_checkpoint_is_refolded_from_a_whole_log_and_written_anew(bench: Bench) -> None:
    """I9: never a guess; while the log is whole, it tells."""
    projection = bench.projection()
    bench.project(projection)
    bench.save(projection)
    bench.kept.corrupt(0, 0)
    bench.view.flush()
    again = bench.projection(ready=False)
    while not again.prepare():
        pass
    seen = bench.view.see(0, b"case-17")
    assert seen.state is not None
    assert seen.state.context == {"n": 2}
    assert bench.save(again, force=False) == 1
    assert bench.projection().dirty == {}


def test_a_damaged_checkpoint_of_a_trimmed_log_stops_the_partition(bench: Bench) -> None:
    """A view without the process would say that there is none."""
    projection = bench.projection()
    bench.project(projection)
    bench.save(projection)
    bench.kept.corrupt(0, 0)
    bench.log.trim(0, 2)
    bench.view.flush()
    with pytest.raises(JournalGap):
        bench.projection()


def test_a_floor_that_was_published_meanwhile_is_read_before_a_gap_is_told(
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
    """Entries that checkpoints stand for were acknowledged once."""
    floor = Floor(offset=40, leader_epoch=-1, topic_id=TOPIC, since=0)
    bench.kept.write(0, [(FLOOR_KEY, floor.to_bytes())])
    with pytest.raises(LogTruncated):
        bench.projection()


def test_a_view_ahead_of_the_log_is_rebuilt(bench: Bench) -> None:
    """It tells of entries that are no more."""
    token = bench.view.install(0, TOPIC)
    assert bench.view.ready(0, token, 40, -1)
    assert bench.projection().position == 0


def test_a_view_of_another_topic_is_rebuilt(bench: Bench) -> None:
    """Offsets mean nothing without their topic."""
    token = bench.view.install(0, "another")
    assert bench.view.ready(0, token, 2, -1)
    assert bench.projection().position == 0


def test_a_rebuild_whose_last_puts_were_lost_is_not_ready(bench: Bench) -> None:
    """A failover in the middle of a rebuild: a view without a process would say that there is none."""
    token = bench.view.install(0, TOPIC)
    assert not bench.view.ready(0, token, 3, -1, 1)
    assert bench.view.ready(0, token, 3, -1, 0)
    assert bench.view.offsets_from(0, token, 0, 2) is None
    assert bench.view.offsets_from(0, token, 0, 3) == {}


def test_a_failover_within_a_rebuild_begins_it_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """P1b: how many processes were put is compared; else one that was lost on the way would be unknown."""
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
    assert bench.view.see(0, b"case-17").state is not None


def test_poison_is_told_once_a_batch_in_order(bench: Bench) -> None:
    """Undecodable records and forged entries, each with its place."""
    bench.owner.raw(b"junk")
    bench.owner.put(bench.owner.entry(b.ContextUpdated("x", "1"), 99)._replace(claim_id=b"0" * 16))
    bench.owner.raw(b"more junk")
    bench.project(bench.projection())
    assert [record.offset for record, _ in bench.poison] == [4, 5, 6]


def test_every_body_writes_what_it_changed(bench: Bench) -> None:
    """The view is changed field by field; what it has then is what the fold says."""
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
        b.Rewound(2, bench_content()),
        b.MessageSaid("user", "after"),
        b.Finished("1"),
    ]
    projection = bench.projection()
    truth = bench.projection(cadence=Cadence())
    for body in bodies:
        bench.owner.own(body)
        assert bench.project(projection)
        seen = bench.view.see(0, b"case-17").state
        cached = projection.cache.get(b"case-17")
        assert seen == cached, body
    assert truth.position == 0


def test_mail_that_a_call_receives_goes_into_the_view_with_it(bench: Bench) -> None:
    """The mailbox without it, the call with it; a time-out is a call too."""
    projection = bench.projection()
    bench.owner.external(b.Signal("go", "1"))
    assert bench.project(projection)
    waiting = bench.view.see(0, b"case-17").state
    assert waiting is not None
    (sent,) = waiting.mailbox
    for position, external_id in enumerate((sent, b.NIL_ID), 1):
        bench.owner.own(b.Received(external_id, f"receive:{position}", position))
        assert bench.project(projection)
        seen = bench.view.see(0, b"case-17").state
        assert seen == projection.cache.get(b"case-17")
        assert seen is not None
        assert (len(seen.calls), len(seen.mailbox)) == (position, 0)


def bench_content() -> str:
    """Content that a rewind restores."""
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
    """What a batch costs does not depend on what was there before."""
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
    """With each custom entry, and what is written is what a reader finds."""
    bench = Bench()
    with only(COUNT):
        bench.owner.claim()
        projection = bench.projection()
        for _ in range(3):
            bench.owner.own(b.Custom("note", "1"))
            assert bench.project(projection)
        seen = bench.view.see(0, b"case-17").state
        assert seen is not None
        assert seen.folded("count") == 3
        bench.save(projection)
        end = bench.kept.end(0)
        values = [value for _, key, value in bench.kept.records(0, 0, end) if key == b"case-17" and value]
        assert Checkpoint.from_bytes(values[-1]).verified("case-17", TOPIC).folded("count") == 3


def test_a_new_folds_past_is_read_from_the_log_once_the_process_goes_on() -> None:
    """A projector that starts with a fold, or a version, that it did not have: the view is told, too."""
    bench = Bench()
    bench.owner.claim()
    bench.owner.own(b.Custom("note", "1"))
    assert bench.project(bench.projection())
    with only(COUNT):
        projection = bench.projection()
        bench.owner.update("a", "1")
        assert bench.project(projection)
        seen = bench.view.see(0, b"case-17").state
        assert seen is not None
        assert seen.folded("count") == 1
        bench.owner.own(b.Custom("note", "1"))
        assert bench.project(projection)
        seen = bench.view.see(0, b"case-17").state
        assert seen is not None
        assert seen.folded("count") == 2


def test_a_new_folds_past_that_was_trimmed_is_never_made_up() -> None:
    """The projection goes on; the value is not to be had, and the rest is as it was."""
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
        seen = bench.view.see(0, b"case-17").state
        assert seen is not None
        assert seen.seq == 2
        with pytest.raises(FoldUnavailable):
            seen.folded("count")
