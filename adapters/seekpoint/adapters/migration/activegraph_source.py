"""The runs in a file of ActiveGraph's ``SQLiteEventStore`` as a source: each as ``SeekpointRuns`` would keep it."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from seekpoint import Node, Ref
from seekpoint.adapters.activegraph.run_content import Row
from seekpoint.adapters.activegraph.run_process import ARCHIVE_KEY, RUN_KEY, RunProcess
from seekpoint.adapters.migration.existing_processes import existing_state, other_content, remaining
from seekpoint.adapters.migration.import_runner import Migrated, Order
from seekpoint.adapters.migration.read_only_sqlite import ReadOnlySqlite
from seekpoint.errors import Refused

_EVENT = ("id", "type", "payload", "actor", "frame_id", "caused_by", "timestamp")
_TEXTS = ("id", "type", "payload", "timestamp")
_RUN = ("parent_run_id", "forked_at_event_id", "label", "created_at", "goal", "frame_id")
_COLUMNS = {
    "events": {"seq", "run_id", *_EVENT}, "runs": {"run_id", *_RUN}, "meta": {"key", "value"},
}  # fmt: skip
_SCHEMA = "1"
_AT_ONCE = 2_000
_SNAPSHOT_KEY = "snapshot"


class _Snapshot(NamedTuple):
    blob: str
    created_at: str


class _StoredRun(NamedTuple):
    """One run in a file of ActiveGraph."""

    rows: list[Row]
    """All events, those in the archive first."""
    archived: int
    archived_at: str
    record: dict[str, str | None] | None
    snapshots: dict[str, _Snapshot]
    """By the hash of the state: those that the run's events name."""

    @property
    def size(self) -> int:
        """About how many bytes it has."""
        return sum(len(row["payload"]) for row in self.rows) + sum(len(one.blob) for one in self.snapshots.values())


class ActiveGraphSource:
    """The runs in a file of ActiveGraph."""

    unit = "events"
    default_prefix = "activegraph"

    def __init__(self, path: str) -> None:
        self._file = ReadOnlySqlite(path, "ActiveGraph's SQLiteEventStore", _COLUMNS)
        with self._file.reading() as file:
            tables = {row[0] for row in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            version = file.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone()
        self._has_archive = {"events_archive", "snapshots"} <= tables
        if version is None or version[0] != _SCHEMA:
            raise Refused(
                "the file has another format of ActiveGraph than the one that can be imported", file=path,
                found=None if version is None else version[0], hint="activegraph migrate SOURCE_URL NEW_URL",
            )  # fmt: skip

    def ids(self) -> list[str]:
        """Return the ids of all runs, the oldest first."""
        archive = " UNION SELECT run_id FROM events_archive" if self._has_archive else ""
        sql = (
            f"SELECT one.run_id FROM (SELECT run_id FROM runs UNION SELECT run_id FROM events{archive}) AS one"
            " LEFT JOIN runs ON runs.run_id = one.run_id ORDER BY runs.created_at, one.run_id"
        )
        with self._file.reading() as file:
            return [row[0] for row in file.execute(sql)]

    def size(self, one_id: str) -> int:
        """Return how many events a run has."""
        tables = ("events", "events_archive") if self._has_archive else ("events",)
        with self._file.reading() as file:
            counts = [file.execute(f"SELECT count(*) FROM {name} WHERE run_id = ?", (one_id,)) for name in tables]
            return sum(int(one.fetchone()[0]) for one in counts)

    def process_id(self, one_id: str, prefix: str) -> str:
        """Return the process of a run, as ``SeekpointRuns(prefix=...)`` names it."""
        return f"{prefix}/runs/{one_id}"

    async def migrate(self, node: Node | None, one_id: str, order: Order) -> Migrated:
        """Import one run. Raises ``SeekpointError``."""
        process_id = self.process_id(one_id, order.prefix)
        run = await asyncio.to_thread(self._read, one_id)
        state = await existing_state(
            node, process_id, one_id, lambda values: not values.keys() - {RUN_KEY, ARCHIVE_KEY}
        )
        log = None if node is None or (state is None and order.dry_run) else RunProcess(node, process_id, one_id)
        known = [] if log is None or state is None else await _rows_of(log)
        record = None if state is None else cast("dict[str, str | None] | None", state.context.get(RUN_KEY))
        rest, has_gone_on = remaining(known, run.rows, process_id, one_id)
        if record is not None and run.record is not None and record["created_at"] != run.record["created_at"]:
            raise other_content("it was created at another time", process_id, one_id)
        has_record = record is not None or run.record is None
        counts = {"events": len(run.rows), "archived": run.archived, "snapshots": len(run.snapshots), "bytes": run.size}
        new = {"events": len(rest), "runs": int(not has_record)}
        if not order.dry_run and node is not None and log is not None and not has_gone_on:
            await _write(node, log, run, rest, order.prefix)
        order.advance(len(run.rows))
        differences: list[str] = []
        if order.compare and not order.dry_run and node is not None:
            reader = RunProcess(node, process_id, one_id)
            differences = await _differences(node, reader, run, order.prefix, has_gone_on=has_gone_on)
            order.advance(len(run.rows))
        return Migrated.of(
            one_id, process_id, counts, new, differences, has_gone_on=has_gone_on, is_planned=order.dry_run
        )

    def _read(self, run_id: str) -> _StoredRun:
        with self._file.reading(is_snapshot=True) as file:
            file.row_factory = sqlite3.Row
            archived: list[sqlite3.Row] = []
            if self._has_archive:
                sql = "SELECT * FROM events_archive WHERE run_id = ? ORDER BY seq"
                archived = file.execute(sql, (run_id,)).fetchall()
            hot = file.execute("SELECT * FROM events WHERE run_id = ? ORDER BY seq", (run_id,)).fetchall()
            if archived and hot and archived[-1]["seq"] >= hot[0]["seq"]:
                raise Refused(
                    "the archive of the run is not its beginning", name=run_id, file=str(self._file.path),
                    hint="restore what was archived, or archive all that is older",
                )  # fmt: skip
            known = file.execute("SELECT * FROM runs WHERE run_id = ?", (run_id,)).fetchone()
            rows = [self._row(one) for one in (*archived, *hot)]
            return _StoredRun(
                rows, len(archived), max((str(one["archived_at"]) for one in archived), default=""),
                None if known is None else {name: known[name] for name in _RUN}, self._snapshots(file, rows),
            )  # fmt: skip

    def _row(self, one: sqlite3.Row) -> Row:
        for name in _EVENT:
            if not isinstance(one[name], str) and (name in _TEXTS or one[name] is not None):
                raise Refused(
                    f"the {name} of event {one['seq']} is no text", name=one["run_id"], file=str(self._file.path),
                    hint="the file is damaged: restore it, or leave the run out",
                )  # fmt: skip
        return cast(Row, {name: one[name] for name in _EVENT})

    def _snapshots(self, file: sqlite3.Connection, rows: Sequence[Row]) -> dict[str, _Snapshot]:
        if not self._has_archive:
            return {}
        named = {_state_hash(row["payload"]) for row in rows if row["type"] == "runtime.snapshot"}
        found: dict[str, _Snapshot] = {}
        for digest in sorted(named - {None}):  # type: ignore[type-var]
            row = file.execute("SELECT blob, created_at FROM snapshots WHERE state_hash = ?", (digest,)).fetchone()
            if row is not None:
                found[str(digest)] = _Snapshot(row["blob"], row["created_at"])
        return found


def activegraph(place: str) -> ActiveGraphSource:
    """Return the runs in a file of ActiveGraph's ``SQLiteEventStore``."""
    return ActiveGraphSource(place)


def _is_run(values: Mapping[str, str]) -> bool:
    return not values.keys() - {RUN_KEY, ARCHIVE_KEY}


def _state_hash(payload: str) -> str | None:
    """Return the hash that the event of a snapshot names; None for a damaged one, which is imported as it is."""
    try:
        document = json.loads(payload)
    except ValueError:
        return None
    found = document.get("state_hash") if isinstance(document, dict) else None
    return found if isinstance(found, str) else None


async def _write(node: Node, log: RunProcess, run: _StoredRun, rest: Sequence[Row], prefix: str) -> None:
    """Write what is missing: snapshots, events, the archive, and last the record by which the run is listed."""
    for digest, snapshot in run.snapshots.items():
        process = await node.open(_snapshot_id(prefix, digest), shared=True)
        ref = await process.attach(snapshot.blob.encode(), media_type="application/json")
        value: Mapping[str, Any] = {"blob": ref, "created_at": snapshot.created_at}
        if (process.state.context.get(_SNAPSHOT_KEY) or {}).get("blob") != ref:
            await process.update(_SNAPSHOT_KEY, value)
    await log.open()
    for start in range(0, len(rest), _AT_ONCE):
        await log.append(rest[start : start + _AT_ONCE])
    if run.archived:
        await log.put_in_archive(run.archived + 1, run.archived_at)
    if run.record is not None:
        await log.describe(run.record)


async def _differences(node: Node, log: RunProcess, run: _StoredRun, prefix: str, *, has_gone_on: bool) -> list[str]:
    mine = await _rows_of(log)
    found = [
        f"event {place + 1:,} ({theirs['id']}): another {name}"
        for place, (theirs, other) in enumerate(zip(run.rows, mine, strict=False))
        for name in _EVENT if cast(Any, theirs)[name] != cast(Any, other)[name]
    ]  # fmt: skip
    if len(mine) < len(run.rows):
        found.append(f"event {len(mine) + 1:,} ({run.rows[len(mine)]['id']}) is not there")
    for digest, snapshot in run.snapshots.items():
        if await _blob(node, _snapshot_id(prefix, digest)) != snapshot.blob:
            found.append(f"another snapshot {digest}")
    if has_gone_on:
        return found
    if (await log.archive()).size != run.archived:
        found.append("another archive")
    record = (await log.state()).context.get(RUN_KEY)
    if run.record is not None and record != run.record:
        found.append("another record of the run")
    return found


async def _rows_of(log: RunProcess) -> list[Row]:
    """Return all events of a run, those in the archive first."""
    hot = [one.row for one in await log.events()]
    if not (await log.archive()).size:
        return hot
    return [one.row for one in await log.archived()] + hot


async def _blob(node: Node, process_id: str) -> str | None:
    found = await node.recover(process_id, missing_ok=True)
    snapshot: Mapping[str, Any] | None = found.state.context.get(_SNAPSHOT_KEY)
    if snapshot is None:
        return None
    ref: Ref = snapshot["blob"]
    return (await node.read_attachment(ref)).decode()


def _snapshot_id(prefix: str, digest: str) -> str:
    return f"{prefix}/snapshots/{digest}"
