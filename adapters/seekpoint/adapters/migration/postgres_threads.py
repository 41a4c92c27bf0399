"""Read the threads of LangGraph's ``PostgresSaver`` from its database, in transactions that only read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.serde.types import TASKS

from seekpoint.adapters.langgraph.stored_parts import Version
from seekpoint.adapters.migration.msgpack_spans import array_of
from seekpoint.adapters.migration.opaque_values import OpaqueSerializer, Typed
from seekpoint.adapters.migration.source_checkpoints import SourceCheckpoint, SourceWrite
from seekpoint.errors import InvalidSetting, Refused

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["PostgresThreads"]

_COLUMNS = {
    "checkpoints": {"thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id", "checkpoint", "metadata"},
    "checkpoint_blobs": {"thread_id", "checkpoint_ns", "channel", "version", "type", "blob"},
    "checkpoint_writes": {"thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx", "channel", "type", "blob"},
}  # fmt: skip
_SENDS_IN_VALUES = 4
"""Since this version of checkpoints, what a superstep sends stands in the values of the checkpoint behind it."""
_FETCHED_AT_ONCE = 50


class PostgresThreads:
    """The threads in a database of ``PostgresSaver`` or ``AsyncPostgresSaver``.

    ``address`` is a connection string of libpq; an empty one leaves everything to the variables ``PGHOST``,
    ``PGPASSWORD`` and so on.
    """

    def __init__(self, address: str, serde: OpaqueSerializer) -> None:
        try:
            import psycopg
        except ImportError as exc:
            raise InvalidSetting(
                "a Postgres of LangGraph is read with psycopg, which is not installed", found="psycopg",
                hint='pip install "seekpoint[langgraph-postgres]"',
            ) from exc  # fmt: skip
        self._psycopg = psycopg
        self._address = address
        self._serde = serde
        self._has_task_path = self._checked()

    def ids(self) -> list[str]:
        """Return the ids of all threads."""
        with self._reading() as base:
            return [row[0] for row in base.execute("SELECT DISTINCT thread_id FROM checkpoints ORDER BY 1")]

    def checkpoint_count(self, thread_id: str) -> int:
        """Return how many checkpoints a thread has."""
        with self._reading() as base:
            row = base.execute("SELECT count(*) FROM checkpoints WHERE thread_id = %s", (thread_id,)).fetchone()
            return 0 if row is None else int(row[0])

    @contextmanager
    def reading(self, thread_id: str) -> Iterator[PostgresThread]:
        """Read a thread as of one moment, whatever is written meanwhile."""
        with self._reading() as base:
            yield PostgresThread(base, thread_id, self._serde, has_task_path=self._has_task_path)

    @contextmanager
    def _reading(self) -> Iterator[Connection[Any]]:
        try:
            with self._psycopg.connect(self._address) as base:
                base.isolation_level = self._psycopg.IsolationLevel.REPEATABLE_READ
                base.read_only = True
                yield base
        except self._psycopg.Error as exc:
            why = str(exc).strip().partition("\n")[0]
            raise Refused(
                f"Postgres cannot be read: {self._without_secrets(why)}",
                hint="give a connection string such as postgresql://user@host/database; PGPASSWORD has the password",
            ) from None  # whose text may have the password

    def _without_secrets(self, text: str) -> str:
        """Return an error's text without the connection string and its password."""
        try:
            password = str(self._psycopg.conninfo.conninfo_to_dict(self._address).get("password") or "")
        except self._psycopg.Error:
            return "the connection string cannot be read"
        text = re.sub(r"\w+://\S+", "***", text)
        return text.replace(password, "***") if password else text

    def _checked(self) -> bool:
        """Return whether writes have the paths of their tasks. Raises ``Refused`` for a database of somebody else."""
        with self._reading() as base:
            for table, wanted in _COLUMNS.items():
                rows = base.execute(
                    "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0", (table,)
                )
                found = {row[0] for row in rows}
                if missing := sorted(wanted - found):
                    shallow = " (a ShallowPostgresSaver keeps no versions)" if missing == ["version"] else ""
                    raise Refused(
                        f"the database has no checkpoints of PostgresSaver: its table {table} lacks"
                        f" {', '.join(missing)}{shallow}",
                        hint="give the database, and the search path, that PostgresSaver uses",
                    )
            return "task_path" in found


class PostgresThread:
    """One thread as of one moment."""

    def __init__(self, base: Connection[Any], thread_id: str, serde: OpaqueSerializer, *, has_task_path: bool) -> None:
        self._base = base
        self._thread_id = thread_id
        self._serde = serde
        self._path = "task_path" if has_task_path else "''"

    def pickles(self) -> list[str]:
        """Return where pickles are: namespace, checkpoint or version, and channel."""
        rows = self._base.execute(
            "SELECT checkpoint_ns, version, 'the value of ' || channel FROM checkpoint_blobs"
            " WHERE thread_id = %(id)s AND type LIKE 'pickle%%' UNION ALL"
            " SELECT checkpoint_ns, checkpoint_id, 'a write to ' || channel FROM checkpoint_writes"
            " WHERE thread_id = %(id)s AND type LIKE 'pickle%%'",
            {"id": self._thread_id},
        )
        return [f"{what} at {ns}{':' if ns else ''}{one}" for ns, one, what in rows]

    def places(self) -> set[tuple[str, str]]:
        """Return namespace and id of each checkpoint."""
        sql = "SELECT checkpoint_ns, checkpoint_id FROM checkpoints WHERE thread_id = %s"
        return {(ns, one) for ns, one in self._base.execute(sql, (self._thread_id,))}

    def orphaned_writes(self) -> int:
        """Return how many writes belong to no checkpoint. No graph ever reads them."""
        row = self._base.execute(
            "SELECT count(*) FROM checkpoint_writes w WHERE thread_id = %s AND NOT EXISTS (SELECT 1 FROM checkpoints c"
            " WHERE c.thread_id = w.thread_id AND c.checkpoint_ns = w.checkpoint_ns"
            " AND c.checkpoint_id = w.checkpoint_id)",
            (self._thread_id,),
        ).fetchone()
        return 0 if row is None else int(row[0])

    def checkpoints(self) -> Iterator[SourceCheckpoint]:
        """Yield the checkpoints: those of a namespace together, the oldest first. Ids are compared by their bytes."""
        sql = (
            "SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint, metadata FROM checkpoints"
            ' WHERE thread_id = %s ORDER BY checkpoint_ns COLLATE "C", checkpoint_id COLLATE "C"'
        )
        with self._base.cursor(name="seekpoint_checkpoints") as rows:
            rows.itersize = _FETCHED_AT_ONCE
            rows.execute(sql, (self._thread_id,))
            for ns, checkpoint_id, parent_id, document, metadata in rows:
                yield self._checkpoint(ns, checkpoint_id, parent_id or "", document, metadata)

    def _checkpoint(
        self, ns: str, checkpoint_id: str, parent_id: str, document: dict[str, Any], metadata: Any
    ) -> SourceCheckpoint:
        inline = document.pop("channel_values", None) or {}
        versions: dict[str, Version] = document.setdefault("channel_versions", {})
        values = {channel: self._serde.dumps_typed(value) for channel, value in inline.items()}
        values |= self._blobs(ns, checkpoint_id)
        if document.get("v", 1) < _SENDS_IN_VALUES and parent_id and (sends := self._sends(parent_id)):
            values[TASKS] = _joined(sends, self._serde, self._thread_id)
            versions[TASKS] = max(versions.values(), default=f"{1:032}.0")
        if nameless := sorted(values.keys() - versions.keys()):
            raise Refused(
                f"channels of the checkpoint {checkpoint_id} have a value and no version:"
                f" {', '.join(nameless)[:200]}", name=self._thread_id,
                hint="no graph of LangGraph writes such a checkpoint: leave the thread out",
            )  # fmt: skip
        return SourceCheckpoint(
            ns=ns, id=checkpoint_id, parent_id=parent_id, bare=self._serde.dumps_typed(document), metadata=metadata,
            versions=versions, values=values, writes=self._writes(ns, checkpoint_id),
            whole={
                **document,
                "channel_values": inline | {name: self._serde.loads_typed(values[name]) for name in values},
            },
        )  # fmt: skip

    def _blobs(self, ns: str, checkpoint_id: str) -> Mapping[str, Typed]:
        """Return the values that stand in the table of values, as ``PostgresSaver`` finds them."""
        rows = self._base.execute(
            "SELECT b.channel, b.type, b.blob FROM checkpoints c"
            " CROSS JOIN LATERAL jsonb_each_text(c.checkpoint -> 'channel_versions') AS v"
            " JOIN checkpoint_blobs b ON b.thread_id = c.thread_id AND b.checkpoint_ns = c.checkpoint_ns"
            " AND b.channel = v.key AND b.version = v.value"
            " WHERE c.thread_id = %s AND c.checkpoint_ns = %s AND c.checkpoint_id = %s",
            (self._thread_id, ns, checkpoint_id),
        )
        return {
            channel: self._serde.checked((kind, bytes(blob or b""))) for channel, kind, blob in rows if kind != "empty"
        }

    def _sends(self, parent_id: str) -> list[Typed]:
        rows = self._base.execute(
            f"SELECT type, blob FROM checkpoint_writes WHERE thread_id = %s AND checkpoint_id = %s AND channel = %s"
            f" ORDER BY {self._path}, task_id, idx",
            (self._thread_id, parent_id, TASKS),
        )
        return [(kind, bytes(blob)) for kind, blob in rows]

    def _writes(self, ns: str, checkpoint_id: str) -> Sequence[SourceWrite]:
        rows = self._base.execute(
            f"SELECT task_id, {self._path}, idx, channel, type, blob FROM checkpoint_writes"
            " WHERE thread_id = %s AND checkpoint_ns = %s AND checkpoint_id = %s ORDER BY task_id, idx",
            (self._thread_id, ns, checkpoint_id),
        )
        return [
            SourceWrite(task_id, path, idx, channel, self._serde.checked((kind or "", bytes(blob))))
            for task_id, path, idx, channel, kind, blob in rows
        ]


def _joined(sends: Sequence[Typed], serde: OpaqueSerializer, thread_id: str) -> Typed:
    """Return the list of what was sent, as a value of the channel that older checkpoints do not have."""
    opened = [serde.opened(one) for one in sends]
    kinds = {kind for kind, _ in opened}
    if kinds == {"msgpack"}:
        return serde.sealed(("msgpack", array_of(data for _, data in opened)))
    if kinds == {"json"}:
        return serde.sealed(("json", b"[" + b",".join(data for _, data in opened) + b"]"))
    raise Refused(
        f"what a superstep sent has the types {', '.join(sorted(kinds))}", name=thread_id,
        hint="set LANGGRAPH_AES_KEY if they are encrypted; else leave the thread out",
    )  # fmt: skip
