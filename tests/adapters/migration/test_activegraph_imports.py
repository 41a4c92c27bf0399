"""Runs of ActiveGraph's ``SQLiteEventStore`` become runs of ``SeekpointRuns``, event by event."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from activegraph import Event, Graph, Runtime, SQLiteEventStore
from activegraph.store.retention import compact, retire
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from import_kills import import_with_kills
from seekpoint import MemoryLog, Node, SyncNode
from seekpoint.adapters.activegraph import SeekpointRuns
from seekpoint.adapters.migration import Migrated, Order, chosen_ids, migrate, open_source
from seekpoint.errors import Refused


@pytest.fixture
def log() -> MemoryLog:
    """A journal of the test's own."""
    return MemoryLog()


@pytest.fixture
def node(log: MemoryLog) -> Iterator[SyncNode]:
    """A node of the journal."""
    with SyncNode.in_memory(log) as started:
        yield started


@pytest.fixture
def path(tmp_path: Path) -> str:
    """The path of a new file."""
    return str(tmp_path / "trace.sqlite")


def worked(path: str, run_id: str, objects: int = 3) -> Runtime:
    """Begin a run in a file, or go on with it."""
    known = Path(path).exists() and run_id in [one.run_id for one in SQLiteEventStore.list_runs(path)]
    if known:
        runtime = Runtime.load(path, run_id, behaviors=[])
    else:
        runtime = Runtime(Graph(run_id=run_id), persist_to=path, behaviors=[])
    for number in range(objects):
        runtime.graph.add_object("note", {"n": number, "text": "é\u2028"})
    return runtime


def imported(node: SyncNode | None, path: str, *ids: str, **how: Any) -> dict[str, Migrated]:
    """Import runs of a file; return the reports by id."""

    async def work(inner: Node | None) -> dict[str, Migrated]:
        source = open_source("activegraph", path)
        order = Order(prefix="activegraph", **how)
        return {one.id: one async for one in migrate(inner, source, chosen_ids(source, ids), order)}

    if node is not None:
        return node.call(work)
    with SyncNode.in_memory() as other:
        return other.call(lambda _: work(None))


def read_alike(path: str, runs: SeekpointRuns, run_id: str) -> None:
    """Compare all that both stores read of a run."""
    with closing(SQLiteEventStore(path, run_id)) as theirs, closing(runs.store(run_id)) as mine:
        assert list(mine.iter_events()) == list(theirs.iter_events())
        assert list(mine.iter_archived()) == list(theirs.iter_archived())
        assert (mine.get_run(), mine.count()) == (theirs.get_run(), theirs.count())
        for one in theirs.iter_events():
            if one.type == "runtime.snapshot":
                digest = one.payload["state_hash"]
                assert mine.get_snapshot(digest) == theirs.get_snapshot(digest) is not None


def objects_of(runtime: Runtime) -> list[Any]:
    """Return the objects of a run's graph."""
    return sorted((one.id, one.type, one.data) for one in runtime.graph.all_objects())


@pytest.mark.parametrize(
    ("change", "status"), [
        ("payload = x'ff00'", "refused"), ("actor = x'07'", "refused"),
        ("type = 'runtime.snapshot', payload = '{x'", "imported"),
        ("type = 'runtime.snapshot', payload = '[]'", "imported"),
    ],
)  # fmt: skip
def test_a_damaged_run_does_not_keep_the_others_from_their_import(
    path: str, node: SyncNode, change: str, status: str
) -> None:
    """What is no text is refused. A text that is no JSON is imported as it is: a load of the run says so."""
    for run_id in ("good", "damaged"):
        worked(path, run_id)
    with closing(sqlite3.connect(path)) as file:
        file.execute(f"UPDATE events SET {change} WHERE run_id = 'damaged' AND id = 'evt_002'")
        file.commit()
    reports = imported(node, path)
    assert {name: one.status for name, one in reports.items()} == {"good": "imported", "damaged": status}


def test_runs_forks_and_compacted_runs_are_the_same_and_go_on(path: str, node: SyncNode) -> None:
    """Events, records, archives and snapshots; a runtime loads each of them, and forks and emits there."""
    parent = worked(path, "parent")
    fork = parent.fork(at_event=parent.graph.events[1].id, label="try")
    fork.graph.add_object("note", {"n": 9})
    worked(path, "compacted")
    compact(path, "compacted")
    worked(path, "compacted", objects=1)
    worked(path, "retired")
    retire(path, "retired")
    reports = imported(node, path)
    assert {one.status for one in reports.values()} == {"imported"}, reports
    runs = SeekpointRuns(node)
    assert sorted(one.run_id for one in runs.list_runs()) == sorted(reports)
    assert reports["compacted"].counts["archived"] > 0 < reports["compacted"].counts["snapshots"]
    for run_id in reports:
        read_alike(path, runs, run_id)
    for run_id in ("parent", fork.run_id, "compacted"):
        there, here = Runtime.load(path, run_id, behaviors=[]), Runtime.load(runs.path, run_id, behaviors=[])
        assert objects_of(here) == objects_of(there)
    here.graph.add_object("note", {"n": 10})
    child = Runtime.load(runs.path, "parent", behaviors=[]).fork(at_event=parent.graph.events[0].id, label="here")
    assert child.run_id in [one.run_id for one in runs.list_runs()]
    again = imported(node, path)
    assert {one.status for one in again.values()} == {"there"}
    assert [name for name, one in again.items() if one.has_gone_on] == ["compacted"]


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["noted", "tool.responded"]), st.dictionaries(st.text(max_size=3), st.integers(), max_size=2)
    ),
    max_size=8,
)


@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(EVENTS, EVENTS, st.integers(0, 9), st.integers(0, 9))
def test_random_runs_are_imported_as_they_are(
    tmp_path: Path, first: Any, second: Any, truncated: int, archived: int
) -> None:
    """An import, then events and an archive in the source, then another import."""
    path = str(tmp_path / f"{id(first)}-{len(list(tmp_path.iterdir()))}.sqlite")
    with SyncNode.in_memory() as node, closing(SQLiteEventStore(path, "r")) as store:
        store.upsert_run(created_at="2026", goal="offers")
        for number, (kind, payload) in enumerate(first):
            store.append(Event(id=f"e{number}", type=kind, payload=payload, timestamp="2026"))
        if truncated < len(first):
            store.truncate_after(f"e{truncated}")
        assert imported(node, path)["r"].status == "imported"
        for number, (kind, payload) in enumerate(second, 100):
            store.append(Event(id=f"e{number}", type=kind, payload=payload, timestamp="2026"))
        store.archive_prefix(archived, archived_at="2027")
        store.upsert_run(created_at="2028", label="later")
        report = imported(node, path)["r"]
        assert (report.difference_count, report.error) == (0, None)
        read_alike(path, SeekpointRuns(node), "r")


def test_a_large_event_is_imported_in_parts(path: str, node: SyncNode) -> None:
    """A payload of 1 MiB."""
    worked(path, "r").graph.add_object("note", {"text": "é" * 524_288})
    assert imported(node, path)["r"].status == "imported"
    read_alike(path, SeekpointRuns(node), "r")


def test_what_cannot_be_imported_is_refused(path: str, node: SyncNode, tmp_path: Path) -> None:
    """Another history, a process of somebody else, another format, another file."""
    for run_id in ("changed", "taken", "good"):
        worked(path, run_id)
    imported(node, path, "changed")
    with closing(sqlite3.connect(path)) as file:
        file.execute("UPDATE events SET payload = '{}' WHERE run_id = 'changed'")
        file.commit()
    with node.open("activegraph/runs/taken") as process:
        process.update("mine", 1)
    reports = imported(node, path)
    assert {name: one.status for name, one in reports.items()} == {
        "changed": "refused", "taken": "refused", "good": "imported",
    }  # fmt: skip
    assert "from number 1 on" in str(reports["changed"].error)
    assert "not made by this adapter" in str(reports["taken"].error)
    with closing(sqlite3.connect(path)) as file:
        file.execute("UPDATE meta SET value = '2'")
        file.commit()
    with pytest.raises(Refused, match="another format"):
        open_source("activegraph", path)
    with closing(sqlite3.connect(tmp_path / "other.db")) as file:
        file.execute("CREATE TABLE events (id)")
        file.commit()
    with pytest.raises(Refused, match="not written by ActiveGraph"):
        open_source("activegraph", str(tmp_path / "other.db"))


def test_a_killed_import_of_runs_is_repeated(path: str, tmp_path: Path) -> None:
    """No event is lost, and none is there twice."""
    for run_id in ("one", "two"):
        with closing(SQLiteEventStore(path, run_id)) as store:
            store.upsert_run(created_at="2026")
            for number in range(800):
                store.append(Event(id=f"e{number}", type="noted", payload={"text": "x" * 500}, timestamp="2026"))
    run = import_with_kills(["--from", "activegraph", path], tmp_path / "journal.db", kills=1, seed=1)
    assert {one["status"] for one in run.report["imported"]} <= {"imported", "there"}
    with SyncNode.local(tmp_path / "journal.db") as node:
        for run_id in ("one", "two"):
            read_alike(path, SeekpointRuns(node), run_id)
    assert run.kills == 1


def test_a_dry_run_of_runs_writes_nothing(path: str, node: SyncNode, log: MemoryLog) -> None:
    """It counts what is new, with a journal and without one; neither it nor an import changes the file."""
    with closing(SQLiteEventStore(path, "r")) as store:
        store.upsert_run(created_at="2026")
        for number in range(3):
            store.append(Event(id=f"e{number}", type="noted", payload={}, timestamp="2026"))
    before = Path(path).read_bytes()
    planned = imported(node, path, dry_run=True)["r"]
    assert (planned.status, planned.new["events"]) == ("planned", 3)
    assert sum(log.watermarks(partition).high for partition in range(log.partitions)) == 0
    assert planned == imported(None, path, dry_run=True)["r"]
    assert imported(node, path)["r"].status == "imported"
    assert Path(path).read_bytes() == before
    assert imported(node, path, dry_run=True)["r"].status == "there"


def test_the_comparison_of_runs_finds_differences(path: str, node: SyncNode) -> None:
    """Another record and another snapshot in the journal: each is named."""
    worked(path, "r")
    compact(path, "r")
    imported(node, path)
    with closing(sqlite3.connect(path)) as file:
        file.execute("UPDATE runs SET goal = NULL, label = NULL")
        file.commit()
    runs = SeekpointRuns(node)
    runs.store("r").upsert_run(created_at="2026", label="only here")
    report = imported(node, path)["r"]
    assert (report.status, list(report.differences)) == ("differs", ["another record of the run"])
