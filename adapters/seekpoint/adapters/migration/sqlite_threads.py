"""Read the threads of LangGraph's ``SqliteSaver`` from its file, which is never written to."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from seekpoint.adapters.migration.opaque_values import OpaqueSerializer
from seekpoint.adapters.migration.read_only_sqlite import ReadOnlySqlite
from seekpoint.adapters.migration.source_checkpoints import SourceCheckpoint, SourceWrite, split_checkpoint
from seekpoint.errors import Refused, SeekpointError

__all__ = ["SqliteThreads"]

_COLUMNS = {
    "checkpoints": {
        "thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id", "type", "checkpoint", "metadata",
    },
    "writes": {"thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx", "channel", "type", "value"},
}  # fmt: skip


class SqliteThreads:
    """The threads in a file of ``SqliteSaver`` or ``AsyncSqliteSaver``."""

    def __init__(self, path: str, serde: OpaqueSerializer) -> None:
        self._file = ReadOnlySqlite(path, "LangGraph's SqliteSaver", _COLUMNS)
        self._serde = serde

    def ids(self) -> list[str]:
        """Return the ids of all threads."""
        with self._file.reading() as file:
            return [row[0] for row in file.execute("SELECT DISTINCT thread_id FROM checkpoints ORDER BY 1")]

    def checkpoint_count(self, thread_id: str) -> int:
        """Return how many checkpoints a thread has."""
        sql = "SELECT count(*) FROM checkpoints WHERE thread_id = ?"
        with self._file.reading() as file:
            count: int = file.execute(sql, (thread_id,)).fetchone()[0]
            return count

    @contextmanager
    def reading(self, thread_id: str) -> Iterator[SqliteThread]:
        """Read a thread as of one moment, whatever is written meanwhile."""
        has_task_path = "task_path" in self._file.found["writes"]
        with self._file.reading(is_snapshot=True) as file:
            yield SqliteThread(file, thread_id, self._serde, has_task_path=has_task_path)


class SqliteThread:
    """One thread as of one moment."""

    def __init__(
        self, file: sqlite3.Connection, thread_id: str, serde: OpaqueSerializer, *, has_task_path: bool
    ) -> None:
        self._file = file
        self._thread_id = thread_id
        self._serde = serde
        path = "task_path" if has_task_path else "''"
        self._writes_sql = (
            f"SELECT task_id, {path}, idx, channel, type, value FROM writes"
            " WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ? ORDER BY task_id, idx"
        )

    def pickles(self) -> list[str]:
        """Return where pickles are: namespace, checkpoint and channel."""
        rows = self._file.execute(
            "SELECT checkpoint_ns, checkpoint_id, 'the checkpoint' FROM checkpoints"
            " WHERE thread_id = :id AND type LIKE 'pickle%' UNION ALL"
            " SELECT checkpoint_ns, checkpoint_id, 'a write to ' || channel FROM writes"
            " WHERE thread_id = :id AND type LIKE 'pickle%'",
            {"id": self._thread_id},
        )
        return [f"{what} at {ns}{':' if ns else ''}{one}" for ns, one, what in rows]

    def places(self) -> set[tuple[str, str]]:
        """Return namespace and id of each checkpoint."""
        sql = "SELECT checkpoint_ns, checkpoint_id FROM checkpoints WHERE thread_id = ?"
        return {(ns, one) for ns, one in self._file.execute(sql, (self._thread_id,))}

    def orphaned_writes(self) -> int:
        """Return how many writes belong to no checkpoint. No graph ever reads them."""
        sql = (
            "SELECT count(*) FROM writes w WHERE thread_id = ? AND NOT EXISTS (SELECT 1 FROM checkpoints c WHERE"
            " c.thread_id = w.thread_id AND c.checkpoint_ns = w.checkpoint_ns AND c.checkpoint_id = w.checkpoint_id)"
        )
        count: int = self._file.execute(sql, (self._thread_id,)).fetchone()[0]
        return count

    def checkpoints(self) -> Iterator[SourceCheckpoint]:
        """Yield the checkpoints: those of a namespace together, the oldest first."""
        rows = self._file.execute(
            "SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata FROM checkpoints"
            " WHERE thread_id = ? ORDER BY checkpoint_ns, checkpoint_id",
            (self._thread_id,),
        )
        for ns, checkpoint_id, parent_id, kind, data, metadata in rows:
            try:
                if not isinstance(data or b"", bytes):
                    raise ValueError("its content is no bytes")
                split = split_checkpoint((kind or "", data or b""), self._serde)
                known = {} if metadata is None else json.loads(metadata)
            except (SeekpointError, ValueError) as exc:
                raise Refused(
                    f"the checkpoint {checkpoint_id} cannot be imported: {getattr(exc, 'message', exc)}",
                    name=self._thread_id, hint=getattr(exc, "hint", "the source is damaged: restore it"),
                ) from exc  # fmt: skip
            yield SourceCheckpoint(
                ns=ns, id=checkpoint_id, parent_id=parent_id or "", bare=split.bare, metadata=known,
                versions=split.versions, values=split.values, whole=split.whole,
                writes=self._writes(ns, checkpoint_id),
            )  # fmt: skip

    def _writes(self, ns: str, checkpoint_id: str) -> Sequence[SourceWrite]:
        rows = self._file.execute(self._writes_sql, (self._thread_id, ns, checkpoint_id)).fetchall()
        if any(not isinstance(row[-1] or b"", bytes) for row in rows):
            raise Refused(
                f"a write of the checkpoint {checkpoint_id} is no bytes", name=self._thread_id,
                hint="the source is damaged: restore it",
            )  # fmt: skip
        return [
            SourceWrite(task_id, path, idx, channel, self._serde.checked((kind or "", value or b"")))
            for task_id, path, idx, channel, kind, value in rows
        ]
