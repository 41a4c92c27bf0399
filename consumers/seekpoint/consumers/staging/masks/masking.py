"""Masking of records, closed by default: what no rule covers stops the replay, or is dropped; it never passes."""

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

__all__ = ["Masking"]

_UNMASKABLE = (ValueError, LookupError, TypeError, RecursionError)


class Masking:
    """The rules, applied to records. Counts what a policy drops into ``counts``."""

    def __init__(self, rules: MaskRules, counts: Counter[str]) -> None:
        self._rules = rules
        self._entries = EntryMasks(rules)
        self._json = Mask(rules.rules, rules.key)
        self._counts = counts
        self._is_for_entries = bool(rules.passed) or any(rule.kinds for rule in rules.rules)

    def of(
        self, message: Any, entry: Callable[[], Entry | None], rename: Callable[[Entry], Entry], prefix: str
    ) -> tuple[bytes | None, bytes | None] | None:
        """Key and value, masked, then renamed; None if the record is dropped. ``ReplayRefused`` if it would pass."""
        try:
            if self._is_for_entries:
                return self._entry(message, entry(), rename)
            return self._plain(message, prefix)
        except _UNMASKABLE as exc:
            self._refuse_or_drop(self._rules.undecodable, message, "cannot be masked", type(exc).__name__)
        return None

    def entry(self, entry: Entry) -> Entry | None:
        """The same for an entry that no record carries."""
        if self._rules.covers(entry.kind):
            return self._made(entry)
        self._unknown(entry.kind, None)
        return None

    def _made(self, entry: Entry) -> Entry:
        """Masked; never dropped if it cannot be: who asked for a seed would miss it."""
        try:
            return self._entries.entry(entry)
        except _UNMASKABLE as exc:
            reason = type(exc).__name__  # never with its text
            raise ReplayRefused("an entry cannot be masked", kind=entry.kind, reason=reason) from None

    def _entry(
        self, message: Any, entry: Entry | None, rename: Callable[[Entry], Entry]
    ) -> tuple[bytes | None, bytes | None] | None:
        if entry is None:
            self._refuse_or_drop(self._rules.undecodable, message, "is no entry", None)
            return None
        if not self._rules.covers(entry.kind):
            self._unknown(entry.kind, message)
            return None
        masked = rename(self._entries.entry(entry))
        return masked.process_id.encode(), encode(masked)

    def _plain(self, message: Any, prefix: str) -> tuple[bytes | None, bytes | None]:
        """A record of a topic that is no journal: its key is text, its value JSON."""
        key, value = message.key(), message.value()
        if key is not None:
            key = (prefix + self._entries.process_id(key.decode())).encode()
        if value is not None:
            masked = self._json.json(value.decode(), ("value",))
            value = b"null" if masked is DROPPED else str(masked).encode()
        return key, value

    def _unknown(self, kind: str, message: Any) -> None:
        if self._rules.unknown is Policy.DROP:
            self._counts["dropped: unknown kind"] += 1
            return
        where = {} if message is None else {"partition": message.partition(), "offset": message.offset()}
        raise ReplayRefused(
            "entries of this kind are covered by no mask rule",
            kind=kind,
            **where,
            hint='name the kind in a rule or in pass, or say unknown = "drop"',
        )

    def _refuse_or_drop(self, policy: Policy, message: Any, what: str, reason: str | None) -> None:
        """Never with a word of what is in the record."""
        if policy is Policy.DROP:
            self._counts[f"dropped: {what}"] += 1
            return
        raise ReplayRefused(
            f"a record {what}: it would pass unmasked",
            partition=message.partition(),
            offset=message.offset(),
            reason=reason,
            hint='drop such records with undecodable = "drop" in the mask rules, or leave them out',
        )
