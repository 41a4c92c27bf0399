"""The events of one run of ActiveGraph in a journal: writers, readers, truncations, archives, sizes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from activegraph import Event, Graph, NonSerializableEventError, Runtime
from activegraph.store.errors import ConcurrentWriterError, DuplicateEventError, EventNotFoundError
from activegraph.store.retention import SnapshotIntegrityError, compact, verify_snapshot

from seekpoint import MemoryLog, SyncNode
from seekpoint.adapters.activegraph import SeekpointEventStore, SeekpointRuns
from seekpoint.adapters.activegraph.run_content import Archive, RunContent, payloads_of
from seekpoint.errors import HandleClosed, UnknownProcess


def event(number: int, payload: dict[str, Any] | None = None) -> Event:
    """Return an event."""
    return Event(id=f"evt_{number}", type="noted", payload=payload or {"n": number}, timestamp="2026-01-01T00:00:00Z")


@pytest.fixture
def runs() -> Iterator[list[SeekpointRuns]]:
    """The same runs by two nodes."""
    log = MemoryLog()
    with ExitStack() as stack:
        nodes = [stack.enter_context(SyncNode.in_memory(log, node_id=f"n{number}")) for number in range(2)]
        yield [SeekpointRuns(node) for node in nodes]


def ids(store: SeekpointEventStore) -> list[str]:
    """The ids of the store's events."""
    return [one.id for one in store.iter_events()]


# --- writers
def test_every_node_reads_what_one_has_written(runs: list[SeekpointRuns]) -> None:
    """A store that was made before, and one that is made after."""
    writer, reader = runs[0].store("r"), runs[1].store("r")
    for number in range(3):
        writer.append(event(number))
    for store in (reader, runs[1].store("r"), writer):
        assert ids(store) == ["evt_0", "evt_1", "evt_2"]
        assert store.count() == 3
        found = store.get_event("evt_1")
        assert found is not None
        assert found.payload == {"n": 1}


def test_a_writer_that_does_not_know_the_newest_event_is_refused(runs: list[SeekpointRuns]) -> None:
    """Also after it has read it. Nothing is written, and the other one goes on."""
    one, other = runs[0].store("r"), runs[1].store("r")
    one.append(event(0))
    assert ids(other) == ["evt_0"]
    for _ in range(2):
        with pytest.raises(ConcurrentWriterError) as refused:
            other.append(event(1))
        assert refused.value.context["expected_head"] is None
        assert refused.value.context["actual_count"] == 1
    one.append(event(1))
    with pytest.raises(ConcurrentWriterError):
        other.truncate_after("evt_0")
    assert ids(one) == ["evt_0", "evt_1"]


def test_a_change_of_the_runs_record_refuses_no_writer(runs: list[SeekpointRuns]) -> None:
    """It is no event. A value that is None changes nothing, and a run is created once."""
    one, other = runs[0].store("r"), runs[1].store("r")
    one.append(event(0))
    other.upsert_run(created_at="2026-01-01", label="first", goal="offers")
    one.append(event(1))
    one.upsert_run(created_at="2026-02-02", label="second")
    one.append(event(2))
    record = other.get_run()
    assert record is not None
    assert (record.created_at, record.label, record.goal) == ("2026-01-01", "second", "offers")
    assert runs[0].store("other").get_run() is None
    assert ids(other) == ["evt_0", "evt_1", "evt_2"]


def test_an_id_is_used_once(runs: list[SeekpointRuns]) -> None:
    """Two runs may have the same ids."""
    store = runs[0].store("r")
    store.append(event(0))
    with pytest.raises(DuplicateEventError):
        store.append(event(0))
    runs[0].store("other").append(event(0))
    store.append(event(1))
    assert ids(store) == ["evt_0", "evt_1"]


def test_a_writer_of_a_deleted_run_is_refused(runs: list[SeekpointRuns]) -> None:
    """A store that is made after the deletion begins a new run."""
    store = runs[0].store("r")
    store.append(event(0))
    runs[1].node.delete(runs[1].process_id("r"))
    with pytest.raises(ConcurrentWriterError):
        store.append(event(1))
    assert ids(store) == []
    runs[1].store("r").append(event(5))
    assert ids(store) == ["evt_5"]


def test_a_closed_store_is_refused(runs: list[SeekpointRuns]) -> None:
    """Closing it twice is no error."""
    store = runs[0].store("r")
    store.close()
    store.close()
    with pytest.raises(HandleClosed):
        store.append(event(0))
    with pytest.raises(HandleClosed):
        store.count()


# --- places
def test_places_that_are_not_in_the_run_are_refused(runs: list[SeekpointRuns]) -> None:
    """``after`` is left out, ``until`` is not."""
    store = runs[0].store("r")
    for number in range(4):
        store.append(event(number))
    assert [one.id for one in store.iter_events(after="evt_0", until="evt_2")] == ["evt_1", "evt_2"]
    for place in ({"after": "evt_9"}, {"until": "evt_9"}):
        with pytest.raises(EventNotFoundError):
            store.iter_events(**place)
    with pytest.raises(EventNotFoundError):
        store.truncate_after("evt_9")
    assert store.get_event("evt_9") is None


def test_a_truncation_drops_the_end_for_every_node(runs: list[SeekpointRuns]) -> None:
    """What was dropped is still told. A writer that knows it is refused, though the run is as long as before."""
    one, stale = runs[0].store("r"), None
    for number in range(4):
        one.append(event(number))
    stale = runs[1].store("r")
    one.truncate_after("evt_1")
    one.truncate_after("evt_1")
    one.append(event(7))
    one.append(event(8))
    with pytest.raises(ConcurrentWriterError):
        stale.append(event(9))
    for store in (one, stale, runs[1].store("r")):
        assert ids(store) == ["evt_0", "evt_1", "evt_7", "evt_8"]
        assert [[one.id for one in tail] for tail in store.dropped_events()] == [["evt_2", "evt_3"]]


# --- values
def test_payloads_come_back_as_they_were_written(runs: list[SeekpointRuns]) -> None:
    """With the order of their keys, on which prompts may depend, and numbers that JSON does not know."""
    payload = {"b": [1, 1.0, {"z": None, "a": "é🚀\x00"}], "a": math.inf, "": ""}
    runs[0].store("r").append(event(0, payload))
    found = runs[1].store("r").get_event("evt_0")
    assert found is not None
    assert repr(found.payload) == repr(payload)


@pytest.mark.parametrize("text", ['"\\', "€"])
def test_an_event_may_be_larger_than_an_entry(runs: list[SeekpointRuns], text: str) -> None:
    """Whatever its characters cost in JSON."""
    store, payload = runs[0].store("r"), {"text": text * 500_000}
    store.append(event(0))
    store.append(event(1, payload))
    store.append(event(2))
    found = runs[1].store("r").get_event("evt_1")
    assert found is not None
    assert found.payload == payload
    assert ids(store) == ids(runs[1].store("r")) == ["evt_0", "evt_1", "evt_2"]


def test_parts_whose_last_one_was_never_written_are_no_event() -> None:
    """The writer was killed, and the event is written anew."""
    row: Any = {"id": "evt_0", "type": "noted", "payload": "x" * 500_000, "actor": None, "frame_id": None,
                "caused_by": None, "timestamp": ""}  # fmt: skip
    content = RunContent()
    records = [*list(payloads_of([row]))[:-1], *payloads_of([row])]
    for offset, (kind, payload, _) in enumerate(records):
        content.apply(kind, payload, offset)
    (stored,) = content.events
    assert stored.row == row
    assert stored.offset == 2


def test_a_text_that_is_not_unicode_is_refused(runs: list[SeekpointRuns]) -> None:
    """Nothing is written, and the store goes on."""
    store = runs[0].store("r")
    with pytest.raises(NonSerializableEventError, match="not Unicode"):
        store.append(event(0, {"text": "\ud800"}))
    with pytest.raises(NonSerializableEventError):
        store.append(event(0, {"object": object()}))
    store.append(event(0))
    assert ids(store) == ["evt_0"]


# --- archives
def test_an_archive_begins_the_run_later(runs: list[SeekpointRuns]) -> None:
    """For stores that were made before, too. Archiving is no reason to refuse a writer."""
    writer, other = runs[0].store("r"), runs[1].store("r")
    for number in range(4):
        writer.append(event(number))
    assert other.archive_prefix(writer._seq_of("evt_2"), archived_at="now") == 2
    assert other.archive_prefix(writer._seq_of("evt_2"), archived_at="now") == 0
    writer.append(event(4))
    for store in (writer, other, runs[1].store("r")):
        assert ids(store) == ["evt_2", "evt_3", "evt_4"]
        assert [one.id for one in store.iter_archived()] == ["evt_0", "evt_1"]
        assert store.has_archived()
        assert store.get_event("evt_1") is None
    assert writer.archive_run(archived_at="now") == 3
    assert ids(runs[1].store("r")) == []
    writer.append(event(5))
    last = runs[1].store("r")
    assert (ids(last), last._seq_of("evt_5")) == (["evt_5"], 6)
    assert [one.id for one in last.iter_archived()] == [f"evt_{number}" for number in range(5)]


def test_an_archive_may_end_within_a_record() -> None:
    """The events of a record that it leaves keep their numbers."""
    rows: Any = [{"id": f"evt_{number}", "type": "", "payload": "{}", "actor": None, "frame_id": None,
                  "caused_by": None, "timestamp": ""} for number in range(6)]  # fmt: skip
    whole = RunContent()
    whole.add(rows[:2], 10)
    whole.add(rows[2:5], 11)
    archive = whole.archived(4, 20)
    assert archive == Archive(before=4, size=3, head=3, after_offset=10, first_number=3)
    later = RunContent(archive)
    later.add(rows[2:5], 11)
    later.add(rows[5:], 12)
    assert [(one.number, one.row["id"]) for one in later.events] == [(4, "evt_3"), (5, "evt_4"), (6, "evt_5")]
    assert Archive.of({**archive._asdict(), "archived_at": "now"}) == archive


def test_a_compacted_run_is_loaded_from_its_snapshot(runs: list[SeekpointRuns]) -> None:
    """By another node. A snapshot whose text is not the one of its hash is refused."""
    runtime = Runtime(Graph(run_id="r"), persist_to=runs[0].path)
    for number in range(3):
        runtime.graph.add_object("note", {"n": number})
    compact(runs[0].path, "r")
    assert verify_snapshot(runs[1].path, "r")
    loaded = Runtime.load(runs[1].path, "r", behaviors=[])
    assert [one.data for one in loaded.graph.all_objects()] == [{"n": 0}, {"n": 1}, {"n": 2}]
    (snapshot,) = runs[1].store("r").iter_events()
    runs[0].put_snapshot(snapshot.payload["state_hash"], '{"objects": []}', "now")
    with pytest.raises(SnapshotIntegrityError):
        Runtime.load(runs[1].path, "r", behaviors=[])
    assert runs[0].store("r").get_snapshot("sha256:0") is None


def test_a_store_needs_the_path_of_a_journal(tmp_path: Path) -> None:
    """It is made by ``SeekpointRuns``."""
    with pytest.raises(TypeError, match=r"SeekpointRuns\(node\).store"):
        SeekpointEventStore(str(tmp_path / "file.db"), "r")
    with pytest.raises(TypeError):
        SeekpointEventStore.list_runs(str(tmp_path / "file.db"))


def test_a_run_that_was_only_read_is_no_process(runs: list[SeekpointRuns]) -> None:
    """A store writes nothing before the first event."""
    store = runs[0].store("r")
    assert (store.count(), store.get_run(), store.has_archived()) == (0, None, False)
    with pytest.raises(UnknownProcess):
        runs[0].node.recover(runs[0].process_id("r"))
