"""Show entries: plain data for ``--json``, one row for people. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson

from seekpoint.console.render.tables import Column
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import id_text

if TYPE_CHECKING:
    from seekpoint.consumers.recovery.process_history import Logged
    from seekpoint.schemas.folding.fold import Verdict

__all__ = ["ENTRY_COLUMNS", "entry_facts", "entry_row"]

ENTRY_COLUMNS = (
    Column("offset", right=True, wide=True, width_min=8),
    Column("time", width_min=24),
    Column("seq", right=True, width_min=4),
    Column("epoch", right=True, wide=True),
    Column("kind", width_min=18),
    Column("what", cut=True),
)

_USUAL = frozenset({"APPLIED", "DELIVERED", "CLAIM_WON"})


def entry_facts(logged: Logged, partition: int, verdict: Verdict | None) -> dict[str, Any]:
    """Return an entry with the fold's verdict (None: unknown) as plain data: a line of ``seekpoint log --json``."""
    entry = logged.entry
    return {
        "offset": logged.offset,
        "partition": partition,
        "time": _time(logged.timestamp_ms),
        "id": id_text(entry.id),
        "process_id": entry.process_id,
        "kind": entry.kind,
        "seq": entry.seq,
        "epoch": entry.epoch,
        "claim_id": id_text(entry.claim_id),
        "prev_offset": entry.prev_offset,
        "actor": entry.actor,
        "caused_by": id_text(entry.caused_by),
        "correlation_id": entry.correlation_id,
        "verdict": None if verdict is None else verdict.name.lower(),
        "body": body_facts(entry.body),
    }


def body_facts(body: b.Body) -> dict[str, Any]:
    """Return a body's fields by name, with JSON texts parsed and ids as text. Only an agent's writes have ``call``."""
    facts = {field.name: _plain(str(field.type), getattr(body, field.name)) for field in fields(body)}
    if body.call is None:
        facts.pop("call", None)
    return facts


def entry_row(facts: Mapping[str, Any]) -> list[object]:
    """Make the row of ``ENTRY_COLUMNS`` from the facts of an entry."""
    verdict = (facts["verdict"] or "").upper()
    unusual = "" if not verdict or verdict in _USUAL else f"[{verdict.lower().replace('_', ' ')}]  "
    return [
        facts["offset"],
        facts["time"],
        "-" if facts["seq"] is None else facts["seq"],
        "-" if facts["seq"] is None else facts["epoch"],
        facts["kind"],
        unusual + _summary(facts["kind"], facts["body"]) + _decided(facts),
    ]


def _summary(kind: str, body: Mapping[str, Any]) -> str:
    write = _SUMMARIES.get(kind)
    if write is not None:
        return write(body)
    told = {name: value for name, value in body.items() if name not in _LEFT_OUT and value not in (None, "", {}, [])}
    if isinstance(key := told.pop("key", None), str):
        told.pop("name", None)
        told = {name: value for name, value in told.items() if (name, value) != ("attempt", 1)}
        key += ": " if told else ""
    return (key or "") + ", ".join(f"{name} {_text(value)}" for name, value in told.items())


_LEFT_OUT = frozenset(
    {"definition", "digest", "duration_us", "ended_at_us", "estimate", "idempotency_key", "irreversible", "policy"}
    | {"position", "shared_messages", "started_at_us"}
)
"""Fields of calls and agents that a line leaves out: JSON has them."""


def _decided(facts: Mapping[str, Any]) -> str:
    """Return who changed the content of the process, and why."""
    if facts["kind"] not in _DECISIONS:
        return ""
    actor, reason = facts["actor"], facts["body"]["reason"]
    return (f", by {actor}" if actor else "") + (f": {reason}" if reason else "")


_DECISIONS = (b.Rewound.KIND, b.Forked.KIND, b.Promoted.KIND)


def _claim(body: Mapping[str, Any]) -> str:
    accepted = ", accepts the loss" if body["accept_degraded"] else ""
    healing = f", abandons seq {body['abandon_from_seq']} and on" if body["abandon_from_seq"] is not None else ""
    return f"by {body['node_id']}, expects epoch {body['expected_epoch']}{accepted}{healing}"


def _message(body: Mapping[str, Any]) -> str:
    content = body["content"] if body["parts"] is None else _text(body["parts"])
    calls = f"calls {_text(body['tool_calls'])}" if body["tool_calls"] else None
    return f"{body['role']}: {' '.join(filter(None, (content, calls)))}"


def _changed(body: Mapping[str, Any]) -> str:
    changes = ["cleared"] if body["cleared"] else []
    changes += [f"{key} = {_text(value)}" for key, value in sorted(body["values"].items())]
    changes += [f"{name} {_text(body[name])}" for name in ("deleted", "messages") if body[name] != []]
    return ", ".join(changes)


def _part(body: Mapping[str, Any]) -> str:
    if body["store"]:
        return f"{body['digest'][:12]}, {body['size']:,} bytes in {body['store']}"
    end = body["start"] + body["data"]["bytes"]
    return f"{body['digest'][:12]}, bytes {body['start']:,} to {end:,} of {body['size']:,}"


_SUMMARIES: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    b.Claim.KIND: _claim,
    b.MessageSaid.KIND: _message,
    b.ContextUpdated.KIND: lambda body: f"{body['key']} = {_text(body['value'])}",
    b.ContextUpdatedMany.KIND: lambda body: ", ".join(f"{k} = {_text(v)}" for k, v in sorted(body["values"].items())),
    b.ContentBatch.KIND: _changed,
    b.ContextDeleted.KIND: lambda body: str(body["key"]),
    b.ContextPatched.KIND: lambda body: _text(body["patch"]),
    b.LifecycleChanged.KIND: lambda body: f"to {body['to']}" + (f": {body['reason']}" if body["reason"] else ""),
    b.Signal.KIND: lambda body: f"{body['name']}: {_text(body['payload'])}",
    b.Custom.KIND: lambda body: f"{body['kind']}: {_text(body['payload'])}",
    b.ErrorRecorded.KIND: lambda body: f"{body['type']}: {body['message']}",
    b.Finished.KIND: lambda body: _text(body["result"]),
    b.Rewound.KIND: lambda body: f"to seq {body['to_seq']}",
    b.Forked.KIND: lambda body: f"from {body['parent_id']} at seq {body['parent_seq']}",
    b.ParentAnswered.KIND: lambda body: _text(body["keys"]),
    b.PartAttached.KIND: _part,
    b.Detached.KIND: lambda body: ", ".join(str(digest)[:12] for digest in body["digests"]),
    b.Promoted.KIND: lambda body: f"what {body['fork_id']} did until seq {body['fork_seq']}",
    b.Seeded.KIND: lambda body: f"a state of {len(body['state']):,} characters, carried by a replay",
}


def _plain(kind: str, value: Any) -> Any:
    if kind == "Data":  # up to a record's size: a reference reads it
        return {"bytes": len(value)}
    if isinstance(value, bytes):
        return id_text(value) if len(value) == 16 else value.hex()
    if isinstance(value, str) and kind.startswith("Json"):
        return orjson.loads(value)
    if isinstance(value, Mapping):
        return {key: _plain("Json", text) for key, text in value.items()}
    return value


def _time(timestamp_ms: int) -> str:
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):  # written with a broken clock
        return f"{timestamp_ms} ms"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _text(value: Any) -> str:
    return orjson.dumps(value).decode()
