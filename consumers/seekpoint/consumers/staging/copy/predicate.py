"""A predicate on records in CEL (https://cel.dev), a language without loops, files, network or side effects.

    kind == "message_said" && body.role == "user" && size > 1000
    process_id.startsWith("case-") && timestamp >= timestamp("2026-01-31T08:00:00Z")
    has(value.customer) && value.customer.tier == "gold"

The expression is checked against ``VARIABLES`` before the replay starts. A record for which it fails (``body.role`` of
an entry without a role) is not selected, and counted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

from seekpoint.consumers.staging.replay_ports import ReplayMessage
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.errors import InvalidSetting
from seekpoint.schemas.log.log_ports import Record

VARIABLES: Mapping[str, str] = {
    "key": "string",
    "partition": "int",
    "offset": "int",
    "timestamp_ms": "int",
    "timestamp": "google.protobuf.Timestamp",
    "size": "int",
    "headers": "map<string, string>",
    "value": "dyn",
    "is_entry": "bool",
    "process_id": "string",
    "kind": "string",
    "actor": "string",
    "seq": "dyn",
    "epoch": "int",
    "body": "map<string, dyn>",
}
"""The variables of an expression and their types. ``value`` is the record's JSON; those after it describe an entry."""

_ENTRY_VARIABLES = re.compile(r"\b(?:is_entry|process_id|kind|actor|seq|epoch|body)\b")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Predicate:
    """A compiled expression. Raises ``InvalidSetting`` if it is invalid, or if the library is missing."""

    def __init__(self, expression: str) -> None:
        self.needs_entry = _ENTRY_VARIABLES.search(expression) is not None
        self._needs_value = re.search(r"\bvalue\b", expression) is not None
        self._program = _compiled(expression)
        self.not_evaluated = 0
        """Records for which the expression failed."""
        self.first_error: str | None = None

    def matches(self, message: ReplayMessage, entry: Entry | None) -> bool:
        """Return whether the expression is true for the message."""
        headers = {name: (text or b"").decode(errors="replace") for name, text in message.headers() or ()}
        record = Record(message.partition(), message.offset(), message.timestamp()[1], message.key(), message.value())
        return self.matches_record(record, entry, headers)

    def matches_record(self, record: Record, entry: Entry | None, headers: Mapping[str, str] = {}) -> bool:
        """Return whether the expression is true for the record."""
        try:
            answer = self._program.eval(data=self._facts(record, entry, headers))
        except (RuntimeError, TypeError, ValueError, OverflowError) as exc:
            return self._failed(str(exc))
        value = answer.value()
        return value if type(value) is bool else self._failed(str(value))

    def _failed(self, error: str) -> bool:
        self.not_evaluated += 1
        self.first_error = self.first_error or error[:200]
        return False

    def _facts(self, record: Record, entry: Entry | None, headers: Mapping[str, str]) -> dict[str, Any]:
        partition, offset, stamp, key, value = record
        return {
            "key": (key or b"").decode(errors="replace"),
            "partition": partition,
            "offset": offset,
            "timestamp_ms": stamp,
            "timestamp": _EPOCH + timedelta(milliseconds=max(0, min(stamp, 253_402_300_799_000))),
            "size": len(value or b""),
            "headers": headers,
            "value": _json(value) if self._needs_value else None,
            **_entry_facts(entry),
        }


def _entry_facts(entry: Entry | None) -> dict[str, Any]:
    if entry is None:
        empty: dict[str, Any] = {"process_id": "", "kind": "", "actor": "", "seq": None, "epoch": 0, "body": {}}
        return {"is_entry": False, **empty}
    return {
        "is_entry": True,
        "process_id": entry.process_id,
        "kind": entry.kind,
        "actor": entry.actor or "",
        "seq": entry.seq,
        "epoch": entry.epoch,
        "body": {each.name: _plain(getattr(entry.body, each.name), str(each.type)) for each in fields(entry.body)},
    }


def _plain(value: Any, declared: str) -> Any:
    """Return a field for CEL; parse JSON texts."""
    if isinstance(value, Mapping):
        return {name: _plain(text, declared) for name, text in value.items()}
    if isinstance(value, str) and "Json" in declared:
        return _json(value)
    return value.hex() if isinstance(value, bytes) else value


def _json(text: str | bytes | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return None


def _compiled(expression: str) -> Any:
    try:
        from cel_expr_python import cel  # late: only predicates need it
    except ImportError as exc:
        raise InvalidSetting(
            "a predicate needs the package cel-expr-python", setting="where", hint="pip install 'seekpoint[replay]'"
        ) from exc
    kinds = {
        "string": cel.Type.STRING,
        "int": cel.Type.INT,
        "bool": cel.Type.BOOL,
        "dyn": cel.Type.DYN,
        "google.protobuf.Timestamp": cel.Type.TIMESTAMP,
        "map<string, string>": cel.Type.Map(cel.Type.STRING, cel.Type.STRING),
        "map<string, dyn>": cel.Type.Map(cel.Type.STRING, cel.Type.DYN),
    }
    try:
        program = cel.NewEnv(variables={name: kinds[kind] for name, kind in VARIABLES.items()}).compile(expression)
    except RuntimeError as exc:
        reason = " ".join(str(exc).removeprefix("INVALID_ARGUMENT: ").split())[:300]
        hint = f"its variables are {', '.join(VARIABLES)}; see docs/replay.md"
        raise InvalidSetting(f"the predicate is not valid CEL: {reason}", setting="where", hint=hint) from exc
    if program.return_type() not in (cel.Type.BOOL, cel.Type.DYN):
        raise InvalidSetting("the predicate must return true or false", setting="where", found=expression[:200])
    return program
