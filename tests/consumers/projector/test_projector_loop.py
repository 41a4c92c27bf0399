"""The projector's loop over a group played by hand: what it does when the group goes on behind its back."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import wait
from threading import Event, Timer
from typing import Any

import pytest

from executors import Inline
from owners import Owner
from projection_bench import dirty_keys, write_saves
from seekpoint.consumers.checkpoints.checkpoint_writer import CommitFailed, Positions, Save
from seekpoint.consumers.checkpoints.memory_checkpoints import MemoryCheckpoints
from seekpoint.consumers.log_reading.group_port import Fetched
from seekpoint.consumers.projector.projection_source import ProjectionSource
from seekpoint.consumers.projector.projector_loop import ProjectorLoop
from seekpoint.consumers.view.memory_view import MemoryView
from seekpoint.schemas.errors import JournalGap, LogDamaged
from seekpoint.schemas.log.memory_log import MemoryLog


class Group:
    """A group of one partition, whose generation may rise before its member is notified."""

    is_lost = False

    def __init__(
        self,
        on_assigned: Callable[[Sequence[int], object], None],
        on_revoked: Callable[[bool], None],
    ) -> None:
        self.log: MemoryLog
        self.generation = 0
        self.position: int | None = None
        self.on_assigned, self.on_revoked = on_assigned, on_revoked

    def assign(self) -> None:
        """Give the partition to the member, under a new generation."""
        self.generation += 1
        self.on_assigned([0], self.membership())

    def membership(self) -> object:
        return ("member", self.generation)

    def poll(self, count: int, timeout_s: float) -> list[Fetched]:
        high = self.log.watermarks(0).high
        if self.position is None or self.position >= high:
            return []
        records = [record for batch in self.log.read(0, self.position, high) for record in batch.records]
        self.position = high
        return [Fetched(0, records, high, 0)]

    def read(self, positions: Mapping[int, int]) -> None:
        self.position = positions[0]

    def hints(self, partitions: Sequence[int]) -> dict[int, int]:
        return dict.fromkeys(partitions, 0)

    def end(self, partition: int) -> int:
        return self.log.watermarks(partition).high

    def close(self) -> None:
        self.position = None


class Broker:
    """Accepts a transaction of a member of the newest generation, as a broker does, and ignores partitions."""

    def __init__(self) -> None:
        self.group: Group
        self.kept = MemoryCheckpoints(1)
        self.refused = 0
        self.begun, self.may_end = Event(), Event()
        self.may_end.set()

    def commit(self, saves: Sequence[Save], membership: object) -> Positions:
        self.begun.set()
        assert self.may_end.wait(60)
        if membership != self.group.membership():
            self.refused += 1
            raise CommitFailed("an old generation", decided=True)
        return write_saves(self.kept, saves)

    def settle(self) -> None:
        """Do nothing: no transaction is ever open."""


class Bench:
    """A loop with its group, its broker and a log with one process."""

    def __init__(self) -> None:
        self.log, self.broker, self.view = MemoryLog(partitions=1), Broker(), MemoryView(1)
        self.owner = Owner(self.log.append, 1, "case-17")
        self.owner.claim()
        self.loop = ProjectorLoop(Group, lambda pool: self.source)
        self.group: Group = self.loop._group  # type: ignore[assignment]
        self.group.log, self.broker.group = self.log, self.group
        self.loop.is_forcing = True

    @property
    def source(self) -> ProjectionSource:
        return ProjectionSource(
            log=self.log,
            topic_id=self.log.topic_id,
            view=self.view,
            checkpoints=self.broker.kept,
            writer=self.broker,
            writes=Inline(),
            on_poison=lambda record, error: None,
        )

    def idle(self) -> None:
        """Execute a turn after a second without records."""
        for progress in self.loop._progress.values():
            progress.view_checked_at_s = progress.applied_at_s = 0.0
        self.loop.turn()

    def turns(self) -> None:
        """Execute enough turns to prepare, project and save; each transaction ends within its turn."""
        for _ in range(8):
            self.turns_beside(1)
            if self.loop.assignment is not None:
                wait([self.loop._transactions.submit(int)])  # the one before it has ended

    def turns_beside(self, count: int = 8) -> None:
        """Execute turns that wait for no transaction."""
        for _ in range(count):
            self.loop._save_at_s = self.loop._retry_at_s = 0.0
            if self.loop.assignment is not None:
                self.loop.assignment._retry_at_s.clear()
            self.loop.turn()


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench()


def test_what_was_read_under_an_older_membership_is_not_saved_under_a_newer(bench: Bench) -> None:
    """P5: the broker compares member and generation only, and not the owner of the partition."""
    bench.group.assign()
    bench.turns()
    assert (bench.broker.kept.end(0), bench.broker.refused) == (2, 0)
    bench.owner.update("n", "1")
    bench.group.generation += 1
    bench.turns()
    assert bench.broker.kept.end(0) == 2
    assert bench.broker.refused > 0
    bench.group.on_revoked(False)
    bench.group.assign()
    bench.turns()
    assert bench.broker.kept.end(0) == 4
    bench.loop.close()


def test_a_view_that_is_flushed_while_nothing_arrives_is_rebuilt(bench: Bench) -> None:
    """No write is refused, because there is none, so the loop asks the view. A view that is down is not rebuilt."""
    bench.group.assign()
    bench.turns()
    projection = bench.loop.projections[0]
    bench.view.down()
    bench.idle()
    assert projection.is_ready
    bench.view.up()
    bench.view.flush()
    bench.idle()
    bench.turns()
    assert bench.view.look_up(0, b"case-17").state is not None
    bench.loop.close()


def test_nothing_is_under_way_once_partitions_are_revoked(bench: Bench) -> None:
    """Before a revocation the loop saves what is due. If the partitions are lost already, it saves nothing."""
    bench.group.assign()
    bench.turns()
    for is_lost in (False, True):
        before = bench.broker.kept.end(0)
        bench.owner.update("n", "1")
        bench.loop.is_forcing = False
        bench.turns()
        bench.loop.is_forcing = True
        bench.group.on_revoked(is_lost)
        assert bench.broker.kept.end(0) == (before if is_lost else before + 2)
        assert bench.loop.projections == {}
        bench.group.assign()
        bench.turns()
    bench.loop.close()


def a_slow_transaction(bench: Bench) -> None:
    """The transaction starts, and does not end before the broker gets it."""
    bench.group.assign()
    bench.turns()
    bench.owner.update("n", "1")
    bench.broker.begun.clear()
    bench.broker.may_end.clear()
    bench.loop.turn()
    assert bench.broker.begun.wait(60)


def test_projecting_goes_on_beside_a_transaction(bench: Bench) -> None:
    """Entries that are folded meanwhile are in the view at once, and stay dirty after the transaction."""
    a_slow_transaction(bench)
    bench.loop.is_forcing = False
    before = bench.broker.kept.end(0)
    bench.owner.update("n", "2")
    bench.turns_beside()
    state = bench.view.look_up(0, b"case-17").state
    assert state is not None
    assert state.context == {"n": 2}
    assert bench.broker.kept.end(0) == before
    bench.broker.may_end.set()
    bench.turns()
    assert bench.broker.kept.end(0) == before + 2
    assert dirty_keys(bench.loop.projections[0]) == {b"case-17"}
    bench.loop.close()


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_transaction_ends_before_the_partitions_are_given_up(bench: Bench, is_lost: bool) -> None:
    """The callback waits for the transaction, which never outlives its assignment."""
    a_slow_transaction(bench)
    before = bench.broker.kept.end(0)
    Timer(0.05, bench.broker.may_end.set).start()
    bench.group.on_revoked(is_lost)
    assert bench.broker.kept.end(0) == before + 2
    assert bench.loop.projections == {}
    bench.loop.close()


def test_nothing_is_prepared_beside_a_transaction(bench: Bench) -> None:
    """P1: otherwise the preparation would not read the checkpoints that are being written."""
    a_slow_transaction(bench)
    projection = bench.loop.projections[0]
    projection.reload(checkpoints=True)
    bench.turns_beside()
    assert not projection.is_ready
    bench.broker.may_end.set()
    bench.turns()
    assert projection.is_ready
    assert projection.floor == bench.log.watermarks(0).high
    bench.loop.close()


@pytest.mark.parametrize(
    ("processes", "size", "entries", "stops"),
    [
        (1, 1, 4_500, [4_000, 4_501]),
        (1_000, 1, 2_500, [2_501]),
        (1_001, 1, 2_500, [1_000, 2_000, 2_501]),
        (1, 4_000, 1_500, [1_000, 1_501]),
    ],
    ids=["one process", "a thousand processes", "more processes", "large entries"],
)
def test_a_call_of_the_view_has_a_limited_number_of_entries_processes_and_bytes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, processes: int, size: int, entries: int, stops: list[int]
) -> None:
    """A call of the view blocks all other calls, so it takes fewer records of many processes, and of large ones."""
    found: list[int] = []
    write = bench.view.write

    def watched(partition: int, token: str, position: int, applied: int, *rest: Any) -> bool:
        found.append(applied + 1)
        return write(partition, token, position, applied, *rest)

    monkeypatch.setattr(bench.view, "write", watched)
    others = [Owner(bench.log.append, 1, f"case-{number}") for number in range(18, 17 + processes)]
    for owner in others:
        owner.claim()
    for _ in range(entries - len(others)):
        bench.owner.update("n", f'"{"x" * size}"')
    bench.group.assign()
    bench.turns()
    assert found == stops
    bench.loop.close()


def test_what_is_trimmed_while_it_is_read_stops_no_partition(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest floor shows whether entries are missing: it may contain what was trimmed."""
    bench.group.assign()
    bench.turns()

    def project(*_: object) -> bool:
        monkeypatch.undo()
        raise JournalGap("trimmed", low=1, high=2)

    monkeypatch.setattr(bench.loop.projections[0], "project", project)
    bench.owner.update("n", "1")
    bench.turns()
    assert bench.loop.stopped == {}
    meta = bench.view.meta(0)
    assert meta is not None
    assert meta.applied == 1
    bench.loop.close()


def test_a_few_records_wait_for_more_and_nothing_else_does(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Single records cost twenty times as much. The loop does not wait if there are many, or if somebody waits."""
    waited: list[float] = []
    monkeypatch.setattr("seekpoint.consumers.projector.projector_loop.time.sleep", waited.append)
    bench.group.assign()
    bench.turns()
    bench.loop.is_forcing = False
    bench.loop.turn()
    waited.clear()
    bench.owner.update("n", "1")
    bench.loop.turn()  # it comes at once
    assert waited == []
    bench.owner.update("n", "2")
    bench.loop.turn()
    assert waited == [0.01]
    bench.loop.turn()
    bench.loop.turn()  # nothing came before this one
    assert len(waited) == 2
    for number in range(60):
        bench.owner.update("n", str(number))
    bench.loop.turn()
    bench.loop.turn()
    assert len(waited) == 2, "there were many"
    bench.owner.update("n", "3")
    bench.loop.turn()
    bench.loop.is_forcing = True
    bench.loop.turn()
    assert len(waited) == 2, "somebody waits"
    bench.loop.close()


def test_a_partition_stops_at_damage_before_it_projects_what_follows(bench: Bench) -> None:
    """Damage in a fetch is final, also where the records behind it are whole and complete."""
    bench.group.assign()
    bench.turns()
    applied = bench.loop.projections[0].position
    bench.owner.update("n", "1")
    records = [record for batch in bench.log.read(0, applied, applied + 1) for record in batch.records]
    damage = LogDamaged("a batch fails its checksum", partition=0, offset=applied)
    fetched = Fetched(0, records, applied + 1, 0)
    fetched.damage = damage
    bench.group.poll = lambda count, timeout_s: [fetched]  # type: ignore[method-assign]
    bench.turns()
    assert bench.loop.stopped.get(0) is damage
    bench.loop.close()


def test_a_save_that_is_refused_is_tried_again_after_a_pause(bench: Bench) -> None:
    """Also while everything is to be saved at once, as ``catch_up`` wants it; a close does not wait for the pause."""
    commits: list[float] = []

    def refused(saves: Sequence[Save], membership: object) -> Positions:
        commits.append(time.monotonic())
        raise CommitFailed("too large", decided=True, hint="raise the limit")

    bench.broker.commit = refused  # type: ignore[method-assign]
    bench.group.assign()
    until_s = time.monotonic() + 1.3
    while time.monotonic() < until_s:
        bench.loop.turn()
    assert 1 <= len(commits) <= 4
    assert bench.loop.save_failure is not None
    assert bench.loop.save_failure.hint == "raise the limit"
    before = len(commits)
    bench.loop.close()
    assert len(commits) > before
