"""The entries of a Promptise journal as entries of a process, and their changes of its context. Pure.

The context has what a recovery needs, so that a recovery reads no history:

    checkpoint         the newest checkpoint
    lifecycle          the newest state of the lifecycle, if it has changed since the checkpoint
    context/KEY        the newest value of a context update, if there was one since the checkpoint
    counts             how many entries there are, and how many of them a recovery replays
    entries            the newest entries themselves: those that were written together
    id/00 ... id/99    hashes of the ids of the newest 100 entries

A checkpoint removes what is older. An entry whose checkpoint or value is in the context beside it names the place
(``in``) instead of having it twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

import orjson

from seekpoint import Ref, State
from seekpoint.errors import UnserializableValue

__all__ = [
    "CHECKPOINT", "ENTRIES", "ContextChange", "JournalContent", "NewEntry", "RecoveredFacts", "StoredEntry",
    "checked_key", "data_of", "is_checkpoint_call",
]  # fmt: skip

CHECKPOINT, LIFECYCLE, CONTEXT = "checkpoint", "lifecycle", "context/"
ENTRIES, COUNTS, _ID = "entries", "counts", "id/"
_IDS_MAX = 100

StoredEntry = dict[str, Any]
"""An entry in the journal: ``id``, ``type``, ``time``, ``data``; ``in``, and ``made`` for a call of ``checkpoint``."""


class NewEntry(NamedTuple):
    """An entry to be written. ``data`` is JSON; a ``Ref`` stands for what is attached."""

    id: str
    type: str
    time: str
    data: Any
    width: int
    """About how many characters it has."""
    is_checkpoint_call: bool = False
    """Whether it is of a call of ``checkpoint``: an entry of the type ``checkpoint`` may also be appended."""

    @property
    def large_field(self) -> str | None:
        """The field of the data that may be large; None: all of the data."""
        return {"checkpoint": "state", "context_update": "value"}.get(self.type)


class ContextChange(NamedTuple):
    """The changes of the context by some entries."""

    values: dict[str, Any]
    deleted: list[str]


def is_checkpoint_call(one: StoredEntry) -> bool:
    """Return whether an entry is of a call of ``checkpoint``."""
    return bool(one.get("made"))


@dataclass
class JournalContent:
    """The facts on which the next entries depend."""

    seq: int = 0
    written: int = 0
    replayed: int = 0
    has_checkpoint: bool = False
    since: set[str] = field(default_factory=set)
    """The keys of the context that the next checkpoint removes."""
    ids: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, state: State) -> JournalContent:
        """Return what a state has of the journal."""
        texts = state.values_json
        written, replayed = state.value(COUNTS, (0, 0))
        return cls(
            seq=state.seq, written=written, replayed=replayed, has_checkpoint=CHECKPOINT in texts,
            since={key for key in texts if key == LIFECYCLE or key.startswith(CONTEXT)},
            ids={key: orjson.loads(text) for key, text in texts.items() if key.startswith(_ID)},
        )  # fmt: skip

    def with_entries(self, new: Iterable[NewEntry]) -> tuple[JournalContent, ContextChange | None]:
        """Return the content after new entries, and the change they make; None: all are written already."""
        writing = _Writing(self)
        for one in new:
            writing.add(one)
        return writing.after, writing.change(self.since)


class _Writing:
    """Entries that are written together, one after the other."""

    def __init__(self, before: JournalContent) -> None:
        self.after = JournalContent(
            before.seq, before.written, before.replayed, before.has_checkpoint, set(before.since), dict(before.ids)
        )
        self._known = set(before.ids.values())
        self._values: dict[str, Any] = {}
        self._stored: list[StoredEntry] = []
        self._places: dict[str, StoredEntry] = {}
        """By key of the context: the entry whose data stands there."""

    def add(self, one: NewEntry) -> None:
        """Add an entry, unless it is known."""
        digest = blake2b(one.id.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        if digest in self._known:
            return
        after, slot = self.after, f"{_ID}{self.after.written % _IDS_MAX:02}"
        self._known.add(digest)
        after.ids[slot] = self._values[slot] = digest
        after.written += 1
        after.replayed += 1
        stored: StoredEntry = {"id": one.id, "type": one.type, "time": one.time, "data": one.data}
        self._stored.append(stored)
        if one.type == "checkpoint":
            self._checkpoint(stored, one.is_checkpoint_call)
        elif isinstance(one.data, dict):
            self._fold(stored, one.type, one.data)

    def _checkpoint(self, stored: StoredEntry, is_call: bool) -> None:
        if is_call:
            stored["made"] = True
            self.after.has_checkpoint = True
            self._put(CHECKPOINT, stored["data"]["state"], stored)
        if self.after.has_checkpoint:  # else all entries are replayed, whatever their types
            self.after.replayed = 0
            for key in self.after.since:
                self._values.pop(key, None)
                self._places.pop(key, None)
            self.after.since.clear()

    def _fold(self, stored: StoredEntry, kind: str, data: Mapping[str, Any]) -> None:
        if kind == "state_transition" and data.get("to_state"):
            self._put(LIFECYCLE, data["to_state"], None)
        elif kind == "context_update" and (key := data.get("key")) is not None:
            self._put(CONTEXT + key, data.get("value"), stored if "value" in data else None)

    def _put(self, key: str, value: Any, stored: StoredEntry | None) -> None:
        self._values[key] = value
        if key != CHECKPOINT:
            self.after.since.add(key)
        if stored is None:
            self._places.pop(key, None)
        else:
            self._places[key] = stored

    def change(self, since: set[str]) -> ContextChange | None:
        """Return what the entries change; ``since`` has the keys that a checkpoint among them removes."""
        if not self._stored:
            return None
        for key, stored in self._places.items():
            name = "state" if key == CHECKPOINT else "value"
            stored["data"] = {one: value for one, value in stored["data"].items() if one != name}
            stored["in"] = key
        self._values |= {ENTRIES: self._stored, COUNTS: [self.after.written, self.after.replayed]}
        return ContextChange(self._values, sorted(since - self.after.since))


def checked_key(data: Any) -> None:
    """Raise ``UnserializableValue`` for the key of a context update that is no text."""
    key = data.get("key") if isinstance(data, dict) else None
    if key is not None and not isinstance(key, str):
        raise UnserializableValue(f"the key of a context update is a text, not {type(key).__name__}", path="$.key")


def data_of(one: StoredEntry, value_at: Callable[[str], Any]) -> Any:
    """Return the data of an entry; ``value_at`` gives what its own change sets a key of the context to."""
    place = one.get("in")
    if place is None:
        return one["data"]
    return {**one["data"], "state" if place == CHECKPOINT else "value": value_at(place)}


class RecoveredFacts(NamedTuple):
    """The facts that a recovery finds in the state of a process. A ``Ref`` stands for what is attached."""

    checkpoint: Any
    """The newest checkpoint; None: there is none."""
    updates: dict[str, Any]
    """The context updates since."""
    lifecycle: Any
    """The state of the lifecycle, if it has changed since; else None."""
    replayed: int
    newest_type: str
    """The type of the newest entry; empty: none is replayed."""

    @classmethod
    def of(cls, state: State) -> RecoveredFacts:
        """Return what a state has. Only these values are decoded."""
        texts = state.values_json
        replayed = state.value(COUNTS, (0, 0))[1]
        newest: Sequence[StoredEntry] = state.value(ENTRIES, ())
        return cls(
            checkpoint=state.value(CHECKPOINT),
            updates={key[len(CONTEXT) :]: state.value(key) for key in texts if key.startswith(CONTEXT)},
            lifecycle=state.value(LIFECYCLE), replayed=replayed,
            newest_type=newest[-1]["type"] if replayed else "",
        )  # fmt: skip

    def refs(self) -> list[Ref]:
        """Return the references that stand for values."""
        return [one for one in (self.checkpoint, *self.updates.values()) if isinstance(one, Ref)]

    def as_replayed(self) -> dict[str, Any]:
        """Return what Promptise's ``ReplayEngine.recover`` returns for the same journal."""
        saved = self.checkpoint or {}
        lifecycle = saved.get("lifecycle_state", "running") if saved else "created"
        return {
            "context_state": {**(saved.get("context_state") or {}), **self.updates},
            "lifecycle_state": self.lifecycle or lifecycle,
            "last_entry_type": self.newest_type,
            "entries_replayed": self.replayed,
            "mission": saved.get("mission"),
            "checkpoint": dict(saved),
        }
