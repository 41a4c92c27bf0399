"""The transformation of one record: select, mask and rename. Pure; a plain copy does not use it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from seekpoint.consumers.staging.copy.headers import HeaderRules
from seekpoint.consumers.staging.copy.predicate import Predicate
from seekpoint.consumers.staging.copy.selection import Selection
from seekpoint.consumers.staging.masks.mask_rules import MaskRules
from seekpoint.consumers.staging.masks.masking import Masking
from seekpoint.consumers.staging.replay_ports import ReplayMessage
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry, process_key
from seekpoint.schemas.errors import InvalidName, ReplayRefused, UndecodableRecord
from seekpoint.schemas.folding.fold import SHARED_PREFIX
from seekpoint.schemas.wire.codec import Codec, encode


class Transformed(NamedTuple):
    """The record to send."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


@dataclass(slots=True)
class _LazyEntry:
    """The entry of a record, decoded once, on first use."""

    message: ReplayMessage
    codec: Codec
    done: bool = False
    found: Entry | None = None

    def get(self) -> Entry | None:
        """Return the entry; None if the record is not one. Raises ``NewerFormat``."""
        if not self.done:
            self.done = True
            try:
                entry = self.codec.decode(self.message.value())
            except UndecodableRecord:
                return None
            if entry.process_id.encode() == self.message.key():
                self.found = entry
        return self.found


class Transform:
    """A selection, mask rules and a prefix. Counts the records that it leaves out, by reason."""

    def __init__(
        self,
        selection: Selection,
        headers: HeaderRules,
        codec: Codec,
        *,
        masks: MaskRules | None = None,
        prefix: str = "",
        on_masked: Callable[[ReplayMessage, Transformed], None] | None = None,
    ) -> None:
        self._selection = selection
        self._headers = headers if masks is None else HeaderRules(keep_only=masks.keep_headers)
        self._codec = codec
        self.counts: Counter[str] = Counter()
        self._masking = None if masks is None else Masking(masks, self.counts)
        self._prefix = prefix
        self._on_masked = on_masked
        self._predicate = None if selection.where is None else Predicate(selection.where)
        self._keys = None if selection.processes is None else {one.encode() for one in selection.processes}
        self._needs_entry = bool(selection.kinds or selection.actors)

    @property
    def predicate(self) -> Predicate | None:
        """The predicate, with the records for which it failed."""
        return self._predicate

    def apply(self, message: ReplayMessage) -> Transformed | None:
        """Return the record to send; None to send none. Raises ``ReplayRefused`` if a mask's policy is to stop."""
        entry = _LazyEntry(message, self._codec)
        if not self._is_selected(message, entry):
            return None
        changed = self._changed(message, entry)
        if changed is None:
            return None
        transformed = Transformed(*changed, self._headers.filtered(message.headers() or ()))
        if self._on_masked is not None:
            self._on_masked(message, transformed)
        return transformed

    def apply_to_entry(self, entry: Entry) -> Entry | None:
        """Mask and rename an entry that no record contains; return None if a policy drops it."""
        masked = entry if self._masking is None else self._masking.entry(entry)
        return None if masked is None else self._with_prefix(masked)

    # --- selecting
    def _is_selected(self, message: ReplayMessage, lazy: _LazyEntry) -> bool:
        selection = self._selection
        if self._keys is not None and message.key() not in self._keys:
            return False
        if selection.headers and not self._has_headers(message.headers() or ()):
            return False
        if self._needs_entry:
            entry = lazy.get()
            if entry is None or not self._matches(entry):
                return False
        if self._predicate is None:
            return True
        return self._predicate.matches(message, lazy.get() if self._predicate.needs_entry else None)

    def _has_headers(self, headers: Any) -> bool:
        found = {name: (text or b"").decode(errors="replace") for name, text in headers}
        wanted = self._selection.headers.items()
        return all(name in found and text in (None, found[name]) for name, text in wanted)

    def _matches(self, entry: Entry) -> bool:
        kinds, actors = self._selection.kinds, self._selection.actors
        own = entry.body.kind if isinstance(entry.body, b.Custom) else entry.kind
        if kinds and entry.kind not in kinds and own not in kinds:
            return False
        return not actors or entry.actor in actors

    # --- masking and renaming
    def _changed(self, message: ReplayMessage, lazy: _LazyEntry) -> tuple[bytes | None, bytes | None] | None:
        if self._masking is not None:
            return self._masking.record(message, lazy.get, self._with_prefix, self._prefix)
        if not self._prefix:
            return message.key(), message.value()
        entry = lazy.get()
        if entry is None:
            self.counts["not renamed: no entry"] += 1
            return message.key(), message.value()
        entry = self._with_prefix(entry)
        return entry.process_id.encode(), encode(entry)

    def _with_prefix(self, entry: Entry) -> Entry:
        return with_prefix(entry, self._prefix) if self._prefix else entry


def with_prefix(entry: Entry, prefix: str) -> Entry:
    """Return the entry with ``prefix`` before the ids of its process, parent and child."""
    body = entry.body
    if isinstance(body, b.Forked):
        body = replace(body, parent_id=prefix + body.parent_id)
    elif isinstance(body, b.ChildSpawned):
        body = replace(body, child_id=prefix + body.child_id)
    elif isinstance(body, b.AgentStarted | b.Submitted) and body.spawned_by is not None:
        body = replace(body, spawned_by=prefix + body.spawned_by)
    return entry._replace(process_id=_prefixed(entry.process_id, prefix), body=body)


def _prefixed(process_id: str, prefix: str) -> str:
    """Put the prefix after ``shared:``, so that a shared value remains one."""
    shared = SHARED_PREFIX if process_id.startswith(SHARED_PREFIX) else ""
    return shared + prefix + process_id[len(shared) :]


def check_prefix(prefix: str) -> None:
    """Raise ``ReplayRefused`` for a prefix that process ids cannot have."""
    try:
        process_key(prefix + "x")
    except InvalidName as exc:
        raise ReplayRefused(f"not a valid prefix of process ids: {exc.message}", prefix=prefix[:100]) from exc
