"""A predicate on records, in CEL: https://cel.dev. A language without loops, files, network or side effects.

    kind == "message_said" && body.role == "user" && size > 1000
    process_id.startsWith("case-") && timestamp >= timestamp("2026-01-31T08:00:00Z")
    has(value.customer) && value.customer.tier == "gold"

It is checked against the names below when the replay is planned. A record it cannot be asked about (``body.role`` of an
entry without a role) is not selected, and counted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.errors import InvalidSetting

__all__ = ["NAMES", "Predicate"]

NAMES: Mapping[str, str] = {
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
"""What an expression can name, and its type. ``value`` is the record's JSON; the names after it are an entry's."""

_OF_ENTRIES = re.compile(r"\b(?:is_entry|process_id|kind|actor|seq|epoch|body)\b")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Predicate:
    """Asks records. Raises ``InvalidSetting`` for an expression that is none, or where the library is missing."""

    def __init__(self, expression: str) -> None:
        self.expression = expression
        self.needs_entry = _OF_ENTRIES.search(expression) is not None
        self._needs_value = re.search(r"\bvalue\b", expression) is not None
        self._program = _compiled(expression)
        self.unanswered = 0
        """Records it could not be asked about."""
        self.first_problem: str | None = None

    def holds(self, message: Any, entry: Entry | None) -> bool:
        """Whether the expression is true of the record."""
        try:
            answer = self._program.eval(data=self._facts(message, entry))
        except (RuntimeError, TypeError, ValueError, OverflowError) as exc:
            return self._unanswered(str(exc))
        value = answer.value()
        return value if type(value) is bool else self._unanswered(str(value))

    def _unanswered(self, problem: str) -> bool:
        self.unanswered += 1
        self.first_problem = self.first_problem or problem[:200]
        return False

    def _facts(self, message: Any, entry: Entry | None) -> dict[str, Any]:
        key, value, stamp = message.key(), message.value(), message.timestamp()[1]
        return {
            "key": (key or b"").decode(errors="replace"),
            "partition": message.partition(),
            "offset": message.offset(),
            "timestamp_ms": stamp,
            "timestamp": _EPOCH + timedelta(milliseconds=max(0, min(stamp, 253_402_300_799_000))),
            "size": len(value or b""),
            "headers": {name: (text or b"").decode(errors="replace") for name, text in message.headers() or ()},
            "value": _json(value) if self._needs_value else None,
            **_entry_facts(entry),
        }


def _entry_facts(entry: Entry | None) -> dict[str, Any]:
    if entry is None:
        none: dict[str, Any] = {"process_id": "", "kind": "", "actor": "", "seq": None, "epoch": 0, "body": {}}
        return {"is_entry": False, **none}
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
    """A field as CEL sees it: JSON texts as what they say."""
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
        from cel_expr_python import cel  # late: nobody else needs it
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
        program = cel.NewEnv(variables={name: kinds[kind] for name, kind in NAMES.items()}).compile(expression)
    except RuntimeError as exc:
        reason = " ".join(str(exc).removeprefix("INVALID_ARGUMENT: ").split())[:300]
        hint = f"it can name {', '.join(NAMES)}; see docs/replay.md"
        raise InvalidSetting(f"the predicate is no CEL: {reason}", setting="where", hint=hint) from exc
    if program.return_type() not in (cel.Type.BOOL, cel.Type.DYN):
        raise InvalidSetting("the predicate must be true or false of a record", setting="where", found=expression[:200])
    return program
