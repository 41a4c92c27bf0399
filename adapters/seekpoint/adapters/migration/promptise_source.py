"""The journals in a folder of Promptise's ``FileJournal`` as a source: each as ``SeekpointJournal`` would keep it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from promptise.runtime.journal import FileJournal, JournalEntry, ReplayEngine

from seekpoint import Node
from seekpoint.adapters.migration.existing_processes import existing_state, remaining
from seekpoint.adapters.migration.import_runner import Migrated, Order
from seekpoint.adapters.promptise.journal import SeekpointJournal, journal_process_id
from seekpoint.adapters.promptise.json_data import as_json
from seekpoint.adapters.promptise.stored_entries import COUNTS, NewEntry, checked_key
from seekpoint.errors import Refused, UnserializableValue

_JOURNAL, _CHECKPOINT = ".jsonl", ".checkpoint.json"
_COMPLETED = "completed-"
_STEM_MAX, _AT_ONCE = 200, 200
_NO_JSON = object()


class _Entry(NamedTuple):
    """An entry as both sides read it."""

    id: str
    type: str
    time: str
    data: Any


_Stamp = tuple[tuple[int, int, int], ...]
"""Inode, size and time of each file that there is."""


class _Read(NamedTuple):
    """The content of the files of one process."""

    entries: list[_Entry]
    checkpoint: dict[str, Any] | None
    malformed: int
    """How many lines are no JSON: ``FileJournal`` leaves them out, too."""
    is_completed: bool
    """Whether the last entry is the one that a killed program had not written any more."""
    size: int
    stamp: _Stamp | None
    """Of the files; None: they have changed while they were read."""


class PromptiseSource:
    """The processes in a folder of ``FileJournal``."""

    unit = "entries"
    default_prefix = "promptise"

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        if not self._folder.is_dir():
            raise Refused("there is no such folder", file=folder, hint="give the folder of Promptise's FileJournal")
        self._stems = {self._id_of(stem): stem for stem in self._found_stems()}
        if not self._stems:
            raise Refused(
                "the folder has no journals of Promptise: no file of it ends with .jsonl", file=folder,
                hint="give the folder of Promptise's FileJournal, by default .promptise/journal",
            )  # fmt: skip

    def ids(self) -> list[str]:
        """Return the ids of all processes."""
        return sorted(self._stems)

    def size(self, one_id: str) -> int:
        """Return how many lines the journal of a process has."""
        path = self._path(one_id, _JOURNAL)
        if not path.exists():
            return 0
        with path.open("rb") as file:
            return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1_048_576), b""))

    def process_id(self, one_id: str, prefix: str) -> str:
        """Return the process of Seekpoint that has the journal, as ``SeekpointJournal(prefix=...)`` names it."""
        return journal_process_id(one_id, prefix)

    async def migrate(self, node: Node | None, one_id: str, order: Order) -> Migrated:
        """Import the journal of one process. Raises ``SeekpointError``."""
        process_id = self.process_id(one_id, order.prefix)
        read = await asyncio.to_thread(self._read, one_id)
        state = await existing_state(node, process_id, one_id, lambda values: COUNTS in values)
        known: list[_Entry] = []
        if state is not None and node is not None:
            known = await _entries_of(SeekpointJournal(node, prefix=order.prefix), one_id, read)
        rest, has_gone_on = remaining(known, read.entries, process_id, one_id)
        counts = {
            "entries": len(read.entries), "checkpoints": sum(one.type == "checkpoint" for one in read.entries),
            "bytes": read.size, "malformed_lines": read.malformed,
        }  # fmt: skip
        if not order.dry_run and node is not None:
            await self._write(SeekpointJournal(node, prefix=order.prefix), one_id, rest, read)
        order.advance(len(read.entries))
        differences: list[str] = []
        if order.compare and not order.dry_run and node is not None:
            journal = SeekpointJournal(node, prefix=order.prefix)
            differences = await self._differences(journal, one_id, read, has_gone_on=has_gone_on)
            order.advance(len(read.entries))
        new = {"entries": len(rest), "checkpoints": sum(one.type == "checkpoint" for one in rest)}
        return Migrated.of(
            one_id, process_id, counts, new, differences, has_gone_on=has_gone_on, is_planned=order.dry_run
        )

    async def _write(self, journal: SeekpointJournal, one_id: str, rest: Sequence[_Entry], read: _Read) -> None:
        for start in range(0, len(rest), _AT_ONCE):
            new = [_new_entry(one, read) for one in rest[start : start + _AT_ONCE]]
            done = await asyncio.gather(*(journal._append(one_id, one) for one in new), return_exceptions=True)
            for one in done:
                if isinstance(one, BaseException):
                    raise one

    async def _differences(
        self, journal: SeekpointJournal, one_id: str, read: _Read, *, has_gone_on: bool
    ) -> list[str]:
        mine = await _entries_of(journal, one_id, read)
        found = [
            f"entry {place + 1:,} ({theirs.id}): another {name}"
            for place, (theirs, other) in enumerate(zip(read.entries, mine, strict=False))
            for name in _Entry._fields if getattr(theirs, name) != getattr(other, name)
        ]  # fmt: skip
        if len(mine) < len(read.entries):
            found.append(f"entry {len(mine) + 1:,} ({read.entries[len(mine)].id}) is not there")
        if has_gone_on:
            return found
        if as_json(await journal.last_checkpoint(one_id))[0] != read.checkpoint:
            found.append("another newest checkpoint")
        theirs_state = await self._recovered(one_id)
        if read.stamp is None or self._stamp(one_id) != read.stamp:
            return found  # a process writes: Promptise has recovered what it wrote since
        mine_state = as_json(await journal.recover(one_id))[0]
        left_out = ("entries_replayed", "last_entry_type") if read.is_completed else ()
        found += [
            f"the recovered process has another {name}"
            for name in theirs_state if name not in left_out and theirs_state[name] != mine_state.get(name)
        ]  # fmt: skip
        return found

    async def _recovered(self, one_id: str) -> dict[str, Any]:
        """Return what Promptise itself recovers from the files."""
        logging.getLogger("promptise.runtime.journal").setLevel(logging.ERROR)  # it warns of each malformed line
        recovered: dict[str, Any] = await ReplayEngine(FileJournal(str(self._folder))).recover(one_id)
        plain: dict[str, Any] = as_json(recovered)[0]
        return plain

    # --- the files
    def _found_stems(self) -> list[str]:
        names = [path.name for path in self._folder.iterdir() if not path.name.startswith(".")]
        endings = (_CHECKPOINT, _JOURNAL)
        return sorted({name.removesuffix(end) for name in names for end in endings if name.endswith(end)})

    def _id_of(self, stem: str) -> str:
        """Return the id of the process whose files have this name: that of its first entry, if it fits the name."""
        path = self._folder / f"{stem}{_JOURNAL}"
        if path.exists():
            with path.open(encoding="utf-8", errors="replace") as file:
                for line in file:
                    name = _name_in(line)
                    if name is not None and _stem_of(name) == stem:
                        return name
        return stem

    def _path(self, one_id: str, end: str) -> Path:
        return self._folder / f"{self._stems[one_id]}{end}"

    def _read(self, one_id: str) -> _Read:
        before = self._stamp(one_id)
        checkpoint = self._checkpoint(one_id)
        path = self._path(one_id, _JOURNAL)
        data = path.read_bytes() if path.exists() else b""
        stamp = before if self._stamp(one_id) == before else None
        entries: list[_Entry] = []
        malformed = 0
        for number, line in enumerate(data.splitlines(), 1):
            if not line.strip():
                continue
            document = _document_of(line, path, number)
            entry = None if document is _NO_JSON else self._entry(document, path, number)
            if entry is None:
                malformed += 1
            else:
                self._refuse_other_process(document, one_id, path, number)
                entries.append(entry)
        self._refuse_repeated(entries, path)
        newest = next((one.data.get("state") for one in reversed(entries) if one.type == "checkpoint"), None)
        if stamp is None:  # a process writes: the lines are as of one moment, and the checkpoint is of another one
            checkpoint = newest if isinstance(newest, dict) else None
        is_completed = checkpoint is not None and newest != checkpoint
        if is_completed:
            entries.append(_completing(checkpoint, entries))
        return _Read(entries, checkpoint, malformed, is_completed, len(data), stamp)

    def _stamp(self, one_id: str) -> _Stamp:
        """Return what changes when one of the files does."""
        paths = [path for end in (_JOURNAL, _CHECKPOINT) if (path := self._path(one_id, end)).exists()]
        return tuple((one.st_ino, one.st_size, one.st_mtime_ns) for one in (path.stat() for path in paths))

    def _checkpoint(self, one_id: str) -> dict[str, Any] | None:
        path = self._path(one_id, _CHECKPOINT)
        if not path.exists():
            return None
        try:
            found = json.loads(path.read_bytes())
        except ValueError as exc:
            raise Refused("the checkpoint is no JSON", file=str(path), hint="restore the file, or remove it") from exc
        if not isinstance(found, dict):
            raise Refused("the checkpoint is no object", file=str(path), hint="restore the file, or remove it")
        state: dict[str, Any] = as_json(found)[0]
        return state

    def _entry(self, document: Any, path: Path, number: int) -> _Entry | None:
        """Return an entry; None for one that ``FileJournal`` leaves out, because it has no time."""
        try:
            one = JournalEntry.from_dict(document)
            if not isinstance(one.data, dict):
                raise TypeError("its data is no object")
            if not (isinstance(one.process_id, str) and isinstance(one.entry_type, str)):
                raise TypeError("its process_id or its entry_type is no text")
            if one.entry_type == "context_update":
                checked_key(one.data)
            return _Entry(str(one.entry_id), str(one.entry_type), one.timestamp.isoformat(), as_json(one.data)[0])
        except KeyError:
            return None
        except (ValueError, TypeError, AttributeError, UnserializableValue) as exc:
            raise Refused(
                f"line {number:,} is no entry of Promptise: {exc}",
                file=str(path),
                hint="correct the line, or remove it",
            ) from exc

    def _refuse_other_process(self, document: dict[str, Any], one_id: str, path: Path, number: int) -> None:
        name = document.get("process_id") or one_id
        if name != one_id and _stem_of(name) == self._stems[one_id]:
            raise Refused(
                f"two processes share the file, {one_id} and {name} (line {number:,})", file=str(path),
                hint="Promptise reads the entries of both as one: split the file by process_id",
            )  # fmt: skip

    def _refuse_repeated(self, entries: Sequence[_Entry], path: Path) -> None:
        ids: set[str] = set()
        for one in entries:
            if one.id in ids:
                raise Refused(
                    f"two entries have the id {one.id}", file=str(path),
                    hint="a rewind could not tell them apart: give one of them another id",
                )  # fmt: skip
            ids.add(one.id)


def promptise(place: str) -> PromptiseSource:
    """Return the processes in a folder of Promptise's ``FileJournal``."""
    return PromptiseSource(place)


def _document_of(line: bytes, path: Path, number: int) -> Any:
    """Return what a line says; ``_NO_JSON`` if it is none. Raises ``Refused`` for what Promptise cannot read either."""
    try:
        return json.loads(line.decode())
    except (UnicodeDecodeError, RecursionError) as exc:
        raise Refused(
            f"line {number:,} cannot be read: {exc}", file=str(path),
            hint="Promptise cannot read the file either: correct the line, or remove it",
        ) from exc  # fmt: skip
    except ValueError:
        return _NO_JSON


def _name_in(line: str) -> str | None:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return None
    name = document.get("process_id") if isinstance(document, dict) else None
    return name if isinstance(name, str) and name else None


def _stem_of(process_id: str) -> str:
    """Return the name that ``FileJournal`` gives the files of a process."""
    return process_id.replace("/", "_").replace("\\", "_")[:_STEM_MAX]


def _completing(checkpoint: dict[str, Any] | None, entries: Sequence[_Entry]) -> _Entry:
    """Return the entry of a checkpoint whose file a program had written before it was killed, and its entry not."""
    text = json.dumps(checkpoint, sort_keys=True)
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    time = entries[-1].time if entries else "1970-01-01T00:00:00+00:00"
    return _Entry(f"{_COMPLETED}{digest}", "checkpoint", time, {"state": checkpoint})


def _new_entry(one: _Entry, read: _Read) -> NewEntry:
    is_state = one.data.keys() == {"state"} and isinstance(one.data["state"], dict)
    is_call = one.type == "checkpoint" and read.checkpoint is not None and is_state
    width = len(json.dumps(one.data, ensure_ascii=False))
    return NewEntry(one.id, one.type, one.time, one.data, width, is_checkpoint_call=is_call)


async def _entries_of(journal: SeekpointJournal, one_id: str, read: _Read) -> list[_Entry]:
    """Return the entries that the journal has, without those that completed an older import of a killed program."""
    wanted = {one.id for one in read.entries}
    return [
        _Entry(one.entry_id, one.entry_type, one.timestamp.isoformat(), one.data)
        for one in await journal.read(one_id)
        if one.entry_id in wanted or not one.entry_id.startswith(_COMPLETED)
    ]
