"""The entries of one Promptise process, read from the journal."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

import orjson
from promptise.runtime.journal import JournalEntry

from seekpoint import Node, ProcessRecord, Ref
from seekpoint.adapters.promptise.process_log import ProcessLog
from seekpoint.adapters.promptise.stored_entries import (
    CHECKPOINT,
    ENTRIES,
    RecoveredFacts,
    StoredEntry,
    data_of,
    is_checkpoint_call,
)
from seekpoint.errors import JournalGap
from seekpoint.schemas.bodies import Deleted, Detached, PartAttached

_KINDS = ("content_batch", "part_attached", "detached")


class JournalReading:
    """One read of the entries of a process, as ``JournalProvider.read`` selects them."""

    def __init__(
        self, node: Node, log: ProcessLog, name: str, since: datetime | None, entry_type: str | None, limit: int | None
    ) -> None:
        self._node = node
        self._log = log
        self._name = name
        self._since = since
        self._type = entry_type
        self._limit = limit
        self._attached: dict[str, bytearray] = {}
        """The bytes of what is attached at the place of the read, by digest."""
        self._found: list[JournalEntry] = []

    async def entries(self) -> list[JournalEntry]:
        """Return the selected entries, oldest first.

        Where the log was trimmed, they begin with the oldest checkpoint that is left. If none is left, they are the
        fewest that replay to the state as it is.
        """
        if self._limit == 0:
            return []
        try:
            return await self._read(self._node.records(self._log.process_id, kinds=_KINDS))
        except JournalGap:
            self._found.clear()
            self._attached.clear()
            return await self._read_what_is_left()

    async def _read(self, records: AsyncIterator[ProcessRecord]) -> list[JournalEntry]:
        async with aclosing(records) as read:  # type: ignore[type-var]  # it is an async generator
            async for record in read:
                if self._note_attachments(record):
                    continue
                for one in record.value(ENTRIES, ()):
                    await self._take(record, one)
                    if self._is_over:
                        return self._found
        return self._found

    @property
    def _is_over(self) -> bool:
        return self._limit is not None and len(self._found) >= self._limit

    def _note_attachments(self, record: ProcessRecord) -> bool:
        """Take the bytes that a record attaches, and forget what it detaches. False: it does neither."""
        body = record.body
        if isinstance(body, PartAttached):
            held = self._attached.setdefault(body.digest, bytearray())
            if body.start == len(held):
                held += body.data
        elif isinstance(body, Detached):
            for digest in orjson.loads(body.digests):
                self._attached.pop(digest, None)
        return isinstance(body, PartAttached | Detached)

    async def _take(self, record: ProcessRecord, one: StoredEntry) -> None:
        if self._type is not None and one["type"] != self._type:
            return
        time = datetime.fromisoformat(one["time"])
        if self._since is not None and time < self._since:
            return
        data = await self._whole(data_of(one, record.value))
        self._add(JournalEntry(one["id"], self._name, time, one["type"], data))

    async def _whole(self, data: Any) -> Any:
        if isinstance(data, Ref):
            held = self._attached.get(data.digest, b"")
            return json.loads(held) if len(held) == data.size else await self._log.value_of(data)
        if isinstance(data, dict):
            for key in ("state", "value"):
                if isinstance(data.get(key), Ref):
                    data[key] = await self._whole(data[key])
        return data

    def _add(self, entry: JournalEntry) -> None:
        self._found.append(entry)

    # --- a trimmed log
    async def _read_what_is_left(self) -> list[JournalEntry]:
        state = await self._log.state()
        records = await self._left(state.seq)
        for index, record in enumerate(records):
            if self._note_attachments(record):
                continue
            stored = record.value(ENTRIES, ())
            begins = next((at for at, one in enumerate(stored) if is_checkpoint_call(one)), None)
            if begins is not None and CHECKPOINT in state.values_json:
                for one in stored[begins:]:
                    await self._take(record, one)
                return await self._read(_each(records[index + 1 :])) if not self._is_over else self._cut()
        for entry in shortest_replay(self._name, await self._log.recovered(), datetime.now(UTC)):
            if self._type in (None, entry.entry_type) and (self._since is None or entry.timestamp >= self._since):
                self._add(entry)
        return self._cut()

    def _cut(self) -> list[JournalEntry]:
        return self._found[: self._limit]

    async def _left(self, seq: int) -> list[ProcessRecord]:
        """Return the records that a trimmed log still has, up to a seq."""
        newest: dict[int, ProcessRecord] = {}
        async for offset, timestamp_ms, entry in self._node.entries(self._log.process_id):
            if entry.seq is None or entry.seq > seq:
                continue
            if isinstance(entry.body, Deleted):
                newest.clear()
            elif entry.seq not in newest or entry.epoch > newest[entry.seq].entry.epoch:
                newest[entry.seq] = ProcessRecord(self._log.process_id, offset, timestamp_ms, True, entry)
        return [newest[one] for one in sorted(newest) if newest[one].entry.kind in _KINDS]


async def _each(records: list[ProcessRecord]) -> AsyncIterator[ProcessRecord]:
    for record in records:
        yield record


def shortest_replay(name: str, found: RecoveredFacts, time: datetime) -> list[JournalEntry]:
    """Return entries that a ``ReplayEngine`` replays to the same result as the whole journal.

    One has the checkpoint, one the lifecycle, and each value of the context has one. Others, without data, make up the
    number of entries that were replayed.
    """
    effects: list[tuple[str, dict[str, Any]]] = []
    if found.lifecycle is not None:
        effects.append(("state_transition", {"to_state": found.lifecycle}))
    effects += [("context_update", {"key": key, "value": value}) for key, value in found.updates.items()]
    last = next((one for one in effects if one[0] == found.newest_type), (found.newest_type, {}))
    if last in effects:
        effects.remove(last)
    rest = found.replayed - len(effects) - 1
    plain = JournalEntry(f"{name}/replayed", name, time, "replayed")
    made = [JournalEntry(f"{name}/{number}", name, time, kind, data) for number, (kind, data) in enumerate(effects)]
    entries = [*([plain] * rest), *made, JournalEntry(f"{name}/newest", name, time, *last)] if found.replayed else []
    if found.checkpoint is not None:
        entries.insert(0, JournalEntry(f"{name}/checkpoint", name, time, "checkpoint", {"state": found.checkpoint}))
    return entries
