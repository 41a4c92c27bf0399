"""The event store of one run of ActiveGraph, in a journal."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, cast

from activegraph.core.event import Event
from activegraph.store.base import RunRecord
from activegraph.store.serde import NonSerializableEventError, decode_event, encode_event
from activegraph.store.sqlite import SQLiteEventStore

from seekpoint.adapters.activegraph.journal_runs import JournalPath, SeekpointRuns, record_of
from seekpoint.adapters.activegraph.run_content import Row, StoredEvent
from seekpoint.adapters.activegraph.run_process import RUN_KEY, RunProcess
from seekpoint.adapters.activegraph.store_errors import event_not_found
from seekpoint.errors import HandleClosed

if TYPE_CHECKING:
    from seekpoint import Node

T = TypeVar("T")


class SeekpointEventStore(SQLiteEventStore):
    """Store the events of one run: ``SeekpointRuns(node).store(run_id)``.

    ActiveGraph's runtime forks, promotes and compacts runs of a ``SQLiteEventStore``. So this is one by its type; it
    has no file. Calls block until their event is acknowledged and read back, unless the runs are pipelined. Every
    thread may make them.
    """

    def __init__(self, path: str | None = None, run_id: str | None = None) -> None:
        if not isinstance(path, JournalPath) or run_id is None:
            raise TypeError("a SeekpointEventStore is made by SeekpointRuns(node).store(run_id)")
        self.path: JournalPath = path
        self.run_id = run_id
        self._runs: SeekpointRuns = path.runs
        self._is_closed = False
        self._lock = threading.RLock()
        self._runs.flush_run(run_id)
        self._log = RunProcess(self._runs.node.call(_node_of), self._runs.process_id(run_id), run_id)
        self._call(self._log.open)
        self._pipelined = self._runs.pipelined(self._log, run_id)
        self._conn = cast(Any, _Commits(self.flush))  # Runtime.save_state commits an attached store

    # --- EventStore
    def append(self, event: Event) -> None:
        """Append an event. Raises ``ConcurrentWriterError``, ``DuplicateEventError``, ``NonSerializableEventError``.

        What ``Node.append`` raises comes through. After ``AppendTimeout`` and ``ConfirmTimeout`` the event may have
        been written: load the run again.
        """
        row = _row_of(event)
        with self._lock:
            if self._pipelined is not None and not self._is_known(row["id"]):
                self._refuse_closed()
                self._pipelined.append(row)
                return
            self.flush()
            self._call(self._log.append, [row])

    def iter_events(self, after: str | None = None, until: str | None = None) -> Iterator[Event]:
        """Yield the run's events behind ``after`` up to and with ``until``. Raises ``EventNotFoundError``."""
        events = self._events()
        begin = 0 if after is None else self._index(events, after) + 1
        end = len(events) if until is None else self._index(events, until) + 1
        return (_event_of(one) for one in events[begin:end])

    def get_event(self, event_id: str) -> Event | None:
        """Return an event of the run; None if it has none with this id."""
        found = self._found(event_id)
        return None if found is None else _event_of(found)

    def count(self) -> int:
        """Return how many events the run has, without those in its archive."""
        return len(self._events())

    def truncate_after(self, event_id: str) -> None:
        """Drop the events after one. They stay in the log of the journal."""
        self._flushed_call(self._log.truncate, event_id)

    def close(self) -> None:
        """Wait until all events are acknowledged. Raises the failure of a pipelined write, the first time."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                if self._pipelined is not None:
                    self._pipelined.flush()

    def flush(self) -> None:
        """Return once all events are acknowledged. Raises the failure of a pipelined write."""
        self._refuse_closed()
        if self._pipelined is not None:
            self._pipelined.flush()

    def dropped_events(self) -> list[list[Event]]:
        """Return the events that each truncation of the run has dropped: the journal still has them."""
        self._events()
        return [[_event_of(one) for one in tail] for tail in self._log.content.dropped]

    # --- what ActiveGraph's runtime asks of a SQLiteEventStore
    def get_run(self) -> RunRecord | None:
        """Return the run's record; None if it has none."""
        state = self._flushed_call(self._log.state)
        return record_of(self.run_id, state.context.get(RUN_KEY))

    def upsert_run(
        self,
        *,
        parent_run_id: str | None = None,
        forked_at_event_id: str | None = None,
        label: str | None = None,
        created_at: str,
        goal: str | None = None,
        frame_id: str | None = None,
    ) -> None:
        """Make the run's record, or set what is not None in it; ``created_at`` only if it is new."""
        values = {
            "parent_run_id": parent_run_id, "forked_at_event_id": forked_at_event_id, "label": label,
            "created_at": created_at, "goal": goal, "frame_id": frame_id,
        }  # fmt: skip
        self._flushed_call(self._log.describe, values)

    def put_snapshot(self, state_hash: str, blob: str, *, created_at: str) -> None:
        """Store the snapshot of a state under its hash. All runs share it."""
        self._refuse_closed()
        self._runs.put_snapshot(state_hash, blob, created_at)

    def get_snapshot(self, state_hash: str) -> str | None:
        """Return the snapshot with a hash; None if there is none."""
        self._refuse_closed()
        return self._runs.get_snapshot(state_hash)

    def archive_prefix(self, before_seq: int, *, archived_at: str) -> int:
        """Move the events before a number into the archive; return how many were moved."""
        return self._flushed_call(self._log.put_in_archive, before_seq, archived_at)

    def iter_archived(self) -> Iterator[Event]:
        """Yield the events in the archive. Reads the run's process from its first entry on."""
        return map(_event_of, self._flushed_call(self._log.archived))

    def has_archived(self) -> bool:
        """Return whether the run has an archive."""
        return self._flushed_call(self._log.archive).size > 0

    def _seq_of(self, event_id: str) -> int:
        found = self._found(event_id)
        if found is None:
            raise event_not_found(event_id, self.run_id)
        return found.number

    # --- what it asks of the class
    @classmethod
    def list_runs(cls, path: str) -> list[RunRecord]:
        """Return the records of all runs, the oldest first."""
        return _runs_of(path).list_runs()

    @classmethod
    def most_recent_run_id(cls, path: str) -> str | None:
        """Return the id of the run that was written to last; None if there is no run."""
        return _runs_of(path).most_recent_run_id()

    @classmethod
    def fork_run(
        cls, path: str, *, parent_run_id: str, new_run_id: str, at_event_id: str, label: str | None, created_at: str
    ) -> int:
        """Copy a run's events up to and with one into a new run; return how many."""
        return _runs_of(path).fork_run(
            parent_run_id=parent_run_id, new_run_id=new_run_id, at_event_id=at_event_id, label=label,
            created_at=created_at,
        )  # fmt: skip

    # --- calls
    def _call(self, call: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> T:
        return self._runs.node.call(lambda _: call(*arguments))

    def _flushed_call(self, call: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> T:
        with self._lock:
            self.flush()
            self._runs.flush_run(self.run_id)
            return self._call(call, *arguments)

    def _events(self) -> list[StoredEvent]:
        return self._flushed_call(self._log.events)

    def _found(self, event_id: str) -> StoredEvent | None:
        return self._flushed_call(self._log.find, event_id)

    def _index(self, events: list[StoredEvent], event_id: str) -> int:
        for index, one in enumerate(events):
            if one.row["id"] == event_id:
                return index
        raise event_not_found(event_id, self.run_id)

    def _is_known(self, event_id: str) -> bool:
        assert self._pipelined is not None
        return event_id in self._log.content.by_id or self._pipelined.has(event_id)

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise HandleClosed("the event store was closed", hint="SeekpointRuns(node).store(run_id) gives another one")


class _Commits:
    """Stands for the connection of a SQLiteEventStore, of which ActiveGraph only calls ``commit``."""

    def __init__(self, commit: Callable[[], None]) -> None:
        self.commit = commit


async def _node_of(node: Node) -> Node:
    return node


def _runs_of(path: str) -> SeekpointRuns:
    if isinstance(path, JournalPath):
        return path.runs
    raise TypeError("SeekpointEventStore asks for the path of a SeekpointRuns")


def _row_of(event: Event) -> Row:
    """Return the event as it is stored. Raises ``NonSerializableEventError``."""
    row = cast(Row, encode_event(event))
    try:
        for text in cast(dict[str, Any], row).values():
            if type(text) is str:
                text.encode()
    except UnicodeEncodeError as exc:
        raise NonSerializableEventError(
            f"event {event.id!r} has a text that is not Unicode",
            what_failed=f"A text of the event has a surrogate without its partner: {exc}.",
            why="Journals are UTF-8, which has no such characters.",
            how_to_fix="Decode the text with the right encoding, or replace what is broken before it is emitted.",
            context={"event_id": event.id, "driver": "seekpoint"},
        ) from exc
    return row


def _event_of(stored: StoredEvent) -> Event:
    return decode_event(cast(dict[str, Any], stored.row))
