"""Masking of records, closed by default: a record that no rule covers stops the replay or is dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from seekpoint.consumers.staging.masks.mask_entries import EntryMasks
from seekpoint.consumers.staging.masks.mask_rules import MaskRules, Policy
from seekpoint.consumers.staging.masks.mask_values import DROPPED, Mask
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.errors import ReplayRefused
from seekpoint.schemas.wire.codec import encode

_UNMASKABLE = (ValueError, LookupError, TypeError, RecursionError)


class Masking:
    """Applies mask rules to records. It counts the records that a policy drops in ``counts``."""

    def __init__(self, rules: MaskRules, counts: Counter[str]) -> None:
        self._rules = rules
        self._entries = EntryMasks(rules)
        self._json = Mask(rules.rules, rules.key)
        self._counts = counts
        self._is_for_entries = bool(rules.passed) or any(rule.kinds for rule in rules.rules)

    def record(
        self, message: Any, entry: Callable[[], Entry | None], rename: Callable[[Entry], Entry], prefix: str
    ) -> tuple[bytes | None, bytes | None] | None:
        """Mask the key and the value, then rename the process; None if the record is dropped.

        Raises ``ReplayRefused`` if the record would pass unmasked.
        """
        try:
            if self._is_for_entries:
                return self._entry(message, entry(), rename)
            return self._plain(message, prefix)
        except _UNMASKABLE as exc:
            self._drop_or_refuse(message, "cannot be masked", type(exc).__name__)
        return None

    def entry(self, entry: Entry) -> Entry | None:
        """Mask an entry that is not from a record, a seed; None if it is dropped.

        Raises ``ReplayRefused`` for an entry that cannot be masked, as the policy may not drop a seed.
        """
        if not self._is_covered(entry.kind, None):
            return None
        try:
            return self._entries.entry(entry)
        except _UNMASKABLE as exc:
            reason = type(exc).__name__  # without the message, which may contain data
            raise ReplayRefused("an entry cannot be masked", kind=entry.kind, reason=reason) from None

    def _entry(
        self, message: Any, entry: Entry | None, rename: Callable[[Entry], Entry]
    ) -> tuple[bytes | None, bytes | None] | None:
        if entry is None:
            self._drop_or_refuse(message, "is no entry", None)
            return None
        if not self._is_covered(entry.kind, message):
            return None
        masked = rename(self._entries.entry(entry))
        return masked.process_id.encode(), encode(masked)

    def _plain(self, message: Any, prefix: str) -> tuple[bytes | None, bytes | None]:
        """Mask a record of a topic that is no journal: its key is text, its value JSON."""
        key, value = message.key(), message.value()
        if key is not None:
            key = (prefix + self._entries.process_id(key.decode())).encode()
        if value is not None:
            masked = self._json.json(value.decode(), ("value",))
            value = b"null" if masked is DROPPED else str(masked).encode()
        return key, value

    def _is_covered(self, kind: str, message: Any) -> bool:
        """Return whether a rule covers ``kind``. If none does, count the record as dropped, or raise by the policy."""
        if self._rules.covers(kind):
            return True
        if self._rules.unknown is Policy.DROP:
            self._counts["dropped: unknown kind"] += 1
            return False
        where = {} if message is None else {"partition": message.partition(), "offset": message.offset()}
        raise ReplayRefused(
            "no mask rule covers entries of this kind",
            kind=kind,
            **where,
            hint='name the kind in a rule or in pass, or set unknown = "drop"',
        )

    def _drop_or_refuse(self, message: Any, what: str, reason: str | None) -> None:
        """Drop a record that cannot be decoded or masked, or raise an error without its content."""
        if self._rules.undecodable is Policy.DROP:
            self._counts[f"dropped: {what}"] += 1
            return
        raise ReplayRefused(
            f"a record {what}: it would pass unmasked",
            partition=message.partition(),
            offset=message.offset(),
            reason=reason,
            hint='drop such records with undecodable = "drop" in the mask rules, or leave them out',
        )
