"""All runs of ActiveGraph in a journal: lists, forks, paths, pipelined writes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import pytest
from activegraph import Event, Graph, Runtime, SQLiteEventStore
from activegraph.store.errors import ConcurrentWriterError, DuplicateEventError, EventNotFoundError
from activegraph.store.retention import compact, retire

from seekpoint import MemoryLog, Node, SyncNode
from seekpoint.adapters.activegraph import SeekpointEventStore, SeekpointRuns
from seekpoint.adapters.activegraph.pipelined_events import PipelinedEvents
from seekpoint.adapters.activegraph.run_content import Row
from seekpoint.adapters.activegraph.run_process import RunProcess
from seekpoint.errors import HandleClosed, Refused


def event(number: int) -> Event:
    """Return an event."""
    return Event(id=f"evt_{number}", type="noted", payload={"n": number}, timestamp="2026-01-01T00:00:00Z")


@pytest.fixture
def nodes() -> Iterator[list[SyncNode]]:
    """Two nodes of one log."""
    log = MemoryLog()
    with ExitStack() as stack:
        yield [stack.enter_context(SyncNode.in_memory(log, node_id=f"n{number}")) for number in range(2)]


@pytest.fixture
def runs(nodes: list[SyncNode]) -> SeekpointRuns:
    """The runs by the first node."""
    return SeekpointRuns(nodes[0])


def run_of(runs: SeekpointRuns, run_id: str, objects: int = 2) -> Runtime:
    """Begin a run."""
    runtime = Runtime(Graph(run_id=run_id), persist_to=runs.path, behaviors=[])
    for number in range(objects):
        runtime.graph.add_object("note", {"n": number})
    return runtime


# --- lists
def test_runs_are_listed_by_every_node(nodes: list[SyncNode], runs: SeekpointRuns) -> None:
    """The oldest first; the most recent one is the one that was written to last. Other prefixes have other runs."""
    first, _ = run_of(runs, "b"), run_of(runs, "a")
    there = SeekpointRuns(nodes[1])
    assert [one.run_id for one in there.list_runs()] == ["b", "a"]
    assert there.most_recent_run_id() == "a"
    first.graph.add_object("note", {})
    assert there.most_recent_run_id() == "b"
    retire(runs.path, "b")
    assert there.most_recent_run_id() == "a"
    other = SeekpointRuns(nodes[0], prefix="other")
    assert (other.list_runs(), other.most_recent_run_id()) == ([], None)


def test_a_run_without_events_is_not_the_most_recent_one(runs: SeekpointRuns) -> None:
    """But one if there is no other."""
    runs.store("empty").upsert_run(created_at="2030")
    assert runs.most_recent_run_id() == "empty"
    run_of(runs, "a")
    runs.store("empty too").upsert_run(created_at="2031")
    assert runs.most_recent_run_id() == "a"


# --- forks
def test_a_fork_is_a_copy_up_to_an_event(nodes: list[SyncNode], runs: SeekpointRuns) -> None:
    """With the parent's goal; the parent may be deleted."""
    with SeekpointRuns(nodes[0], unacknowledged_max=1_000) as pipelined:
        store = pipelined.store("parent")
        for number in range(1_200):
            store.append(event(number))
        store.upsert_run(created_at="2026", goal="offers")
    there = SeekpointRuns(nodes[1])
    how = {"parent_run_id": "parent", "label": "l", "created_at": "2027"}
    assert there.fork_run(new_run_id="child", at_event_id="evt_1100", **how) == 1_101
    runs.node.delete(runs.process_id("parent"))
    child = runs.store("child")
    assert [one.id for one in child.iter_events()] == [f"evt_{number}" for number in range(1_101)]
    record = child.get_run()
    assert record is not None
    assert (record.parent_run_id, record.forked_at_event_id, record.goal) == ("parent", "evt_1100", "offers")
    assert runs.node.recover(runs.process_id("child")).state.seq == 4  # three records of up to 500 events, and its own
    with pytest.raises(Refused, match="there is a run child"):
        there.fork_run(new_run_id="child", at_event_id="evt_1", **{**how, "parent_run_id": "child"})
    with pytest.raises(EventNotFoundError, match="not found"):
        there.fork_run(new_run_id="new", at_event_id="evt_x", **{**how, "parent_run_id": "child"})
    assert [one.run_id for one in there.list_runs()] == ["child"]


def test_an_archived_event_is_no_place_for_a_fork(runs: SeekpointRuns) -> None:
    """The error says that it is archived."""
    runtime = run_of(runs, "r")
    place = runtime.graph.events[0].id
    compact(runs.path, "r")
    with pytest.raises(EventNotFoundError, match="compaction horizon"):
        Runtime.load(runs.path, "r", behaviors=[]).fork(at_event=place)


def test_a_fork_is_promoted_into_its_parent(nodes: list[SyncNode], runs: SeekpointRuns) -> None:
    """The runtimes may have the runs from two objects of one node; other journals are other stores."""
    parent = run_of(runs, "parent")
    fork = parent.fork(at_event=parent.graph.events[-1].id)
    fork.graph.add_object("note", {"n": "adopted"})
    again = Runtime.load(SeekpointRuns(nodes[0]).path, fork.run_id, behaviors=[])
    parent.promote(again)
    assert [one.data["n"] for one in parent.graph.all_objects()] == [0, 1, "adopted"]
    with SyncNode.in_memory() as elsewhere:
        paths = [SeekpointRuns(nodes[0]).path, SeekpointRuns(elsewhere).path, SeekpointRuns(nodes[0], prefix="x").path]
        assert [path == runs.path for path in paths] == [True, False, False]
        assert [path != runs.path for path in paths] == [False, True, True]
        assert runs.path != str(runs.path)


# --- ActiveGraph's own code
def test_other_paths_are_files_as_before(runs: SeekpointRuns, tmp_path: Path) -> None:
    """In a program that uses journals too."""
    path = str(tmp_path / "file.db")
    runtime = Runtime(Graph(run_id="in-a-file"), persist_to=path, behaviors=[])
    runtime.graph.add_object("note", {})
    fork = runtime.fork(at_event=runtime.graph.events[-1].id)
    assert type(fork.graph.store) is type(runtime.graph.store) is SQLiteEventStore
    assert {one.run_id for one in SQLiteEventStore.list_runs(path)} == {"in-a-file", fork.run_id}
    assert SQLiteEventStore.most_recent_run_id(path) == fork.run_id
    assert type(SQLiteEventStore(runs.path, run_id="r")) is SeekpointEventStore
    assert runs.list_runs() == []
    with pytest.raises(TypeError, match="run_id"):
        SQLiteEventStore(path)


def test_the_runs_need_a_synchronous_node(nodes: list[SyncNode]) -> None:
    """ActiveGraph's runtime is not async."""
    with pytest.raises(Refused, match="needs a SyncNode"):
        SeekpointRuns(cast(Any, Node.in_memory()))
    with pytest.raises(Refused, match="not negative"):
        SeekpointRuns(nodes[0], unacknowledged_max=-1)


# --- pipelined writes
def test_pipelined_events_share_entries_and_keep_their_order(nodes: list[SyncNode]) -> None:
    """Another store of the same object knows all of them; ``with`` waits for the rest."""
    with SeekpointRuns(nodes[0], unacknowledged_max=100) as runs:
        store = runs.store("r")
        for number in range(2_000):
            store.append(event(number))
        store.append(event(2_000))
        runs.store("r").append(event(2_001))  # knows the newest event
        store = runs.store("r")
        assert store.count() == 2_002
        store.append(event(2_002))
        with pytest.raises(DuplicateEventError):
            store.append(event(7))
        store.append(event(2_003))
    there = SeekpointRuns(nodes[1]).store("r")
    assert [one.id for one in there.iter_events()] == [f"evt_{number}" for number in range(2_004)]
    assert nodes[0].recover(runs.process_id("r")).state.seq < 1_000


def test_a_new_store_knows_the_events_on_their_way(nodes: list[SyncNode], monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for them, so it extends the run."""
    append = RunProcess.append

    async def late(log: RunProcess, rows: list[Row]) -> None:
        await asyncio.sleep(0.5)
        await append(log, rows)

    monkeypatch.setattr(RunProcess, "append", late)
    with SeekpointRuns(nodes[0], unacknowledged_max=100) as runs:
        for number in range(2):
            runs.store("r").append(event(number))
    assert SeekpointRuns(nodes[1]).store("r").count() == 2


def row(event_id: str) -> Row:
    """Return an event as it is stored."""
    return Row(
        id=event_id, type="noted", payload="{}", actor=None, frame_id=None, caused_by=None, timestamp=""
    )  # fmt: skip


class _Held:
    """A run's log whose writes wait until they are released."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.batches: list[int] = []
        self.error: Exception | None = None

    async def append(self, rows: list[Any]) -> None:
        """Write."""
        await asyncio.to_thread(self.released.wait, 30)
        if self.error is not None:
            raise self.error
        self.batches.append(len(rows))


async def _loop(_: Node) -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def test_no_more_events_are_on_their_way_than_allowed(nodes: list[SyncNode]) -> None:
    """The next append waits, for events of any width; what waited shares one record."""
    held, busy = _Held(), list[bool]()
    events = PipelinedEvents(cast(Any, held), nodes[0].call(_loop), 5, lambda _, is_busy: busy.append(is_busy))
    for number in range(5):
        events.append(row(str(number)))
    late = threading.Thread(target=events.append, args=(row("late"),))
    late.start()
    late.join(0.2)
    assert late.is_alive()
    assert not events.has("late")
    held.released.set()
    late.join(30)
    events.flush()
    assert not late.is_alive()
    assert sum(held.batches) == 6
    assert len(held.batches) <= 3
    assert busy[0] is True
    assert busy[-1] is False


def test_after_a_failure_each_call_raises_it(nodes: list[SyncNode]) -> None:
    """Those that wait, and later ones. Nothing behind it is written."""
    held = _Held()
    held.error = Refused("no")
    events = PipelinedEvents(cast(Any, held), nodes[0].call(_loop), 5, lambda *_: None)
    for number in range(3):
        events.append(row(str(number)))
    held.released.set()
    for call in (events.flush, events.flush, lambda: events.append(row("4"))):
        with pytest.raises(Refused):
            call()
    assert held.batches == []


def test_a_stale_pipelined_writer_learns_of_it_later(nodes: list[SyncNode]) -> None:
    """At the next call, or when the runs are closed. The error is raised once there."""
    runs = SeekpointRuns(nodes[0], unacknowledged_max=10)
    stale = runs.store("r")
    SeekpointRuns(nodes[1]).store("r").append(event(0))
    stale.append(event(1))
    with pytest.raises(ConcurrentWriterError):
        stale.flush()
    with pytest.raises(ConcurrentWriterError):
        runs.close()
    runs.close()
    with pytest.raises(ConcurrentWriterError):
        stale.append(event(2))
    assert [one.id for one in SeekpointRuns(nodes[1]).store("r").iter_events()] == ["evt_0"]


def test_a_node_that_is_closed_before_its_events_are_written_says_so() -> None:
    """Close the runs first."""
    with SyncNode.in_memory() as node:
        runs = SeekpointRuns(node, unacknowledged_max=10)
        store = runs.store("r")
    with pytest.raises(HandleClosed):
        store.append(event(0))
    with pytest.raises(HandleClosed):
        SeekpointRuns(node).store("r")


def test_saving_a_runtime_flushes_its_store(nodes: list[SyncNode]) -> None:
    """``save_state`` names the journal."""
    runs = SeekpointRuns(nodes[0], unacknowledged_max=1_000)
    runtime = Runtime(Graph(run_id="r"), persist_to=runs.path, behaviors=[])
    for number in range(100):
        runtime.graph.add_object("note", {"n": number})
    assert runtime.save_state() is runs.path
    assert SeekpointRuns(nodes[1]).store("r").count() == 100
