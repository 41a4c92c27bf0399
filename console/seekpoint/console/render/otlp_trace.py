"""Turn a history into an OTLP/JSON trace. Ids derive from the entries, so the same history gives the same trace.

    process -> turn or invocation -> call -> the calls in its body

Attempts are events of their call. An unfinished span ends at the newest entry and has the attribute ``seekpoint.open``;
a call that a rewind forgot has ``seekpoint.rewound_at_seq``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from seekpoint.console.render.output import clean
from seekpoint.producers.durable.replay.call_records import CallRecord, asked
from seekpoint.producers.durable.replay.scopes import BRANCH, parent_scope
from seekpoint.producers.tracing.span_attributes import call_attributes, usage_attributes
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry, id_text
from seekpoint.schemas.state.calls import turn_of

__all__ = ["spans_lines", "trace_of"]

_INTERNAL, _CLIENT = 1, 3
_OK, _ERROR = 1, 2
_REWOUND = "seekpoint.rewound_at_seq"

Span = dict[str, Any]


def trace_of(entries: Sequence[Entry], journal: str) -> dict[str, Any]:
    """Return the trace of a process as OTLP/JSON, for the ``/v1/traces`` of a collector."""
    spans = _Trace(entries).spans()
    resource = {"service.name": f"seekpoint/{journal}", "seekpoint.journal": journal}
    scope = {"scope": {"name": "seekpoint"}, "spans": spans}
    return {"resourceSpans": [{"resource": {"attributes": _attributes(resource)}, "scopeSpans": [scope]}]}


def spans_lines(spans: Sequence[Span]) -> list[str]:
    """Return the trace as lines for people, one per span, indented by depth."""
    depth: dict[str, int] = {}
    lines = []
    for span in _in_order(spans):
        level = depth[span["spanId"]] = depth.get(span["parentSpanId"], -1) + 1
        took_ms = (int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"])) / 1_000_000
        failed = "  failed" if span["status"].get("code") == _ERROR else ""
        rewound = "  rewound" if any(one["key"] == _REWOUND for one in span["attributes"]) else ""
        lines.append(clean(f"{'  ' * level}{span['name']}  {took_ms:,.1f} ms{failed}{rewound}"))
    return lines


def _in_order(spans: Sequence[Span]) -> Iterable[Span]:
    """Yield each span, followed by its children."""
    inside: dict[str, list[Span]] = {}
    for span in spans:
        inside.setdefault(span["parentSpanId"], []).append(span)
    left = inside.get("", [])[::-1]
    while left:
        span = left.pop()
        yield span
        left += inside.get(span["spanId"], [])[::-1]


class _Trace:
    """The spans of one process."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries
        self._trace_id = entries[0].id.hex()
        self._process_id = entries[0].process_id
        self._begin_us, self._end_us = entries[0].ts, max(entry.ts for entry in entries)
        self._calls = asked(entries)
        self._turns: dict[int, Span] = {}
        self._work: list[tuple[int, int, Span]] = []

    def spans(self) -> list[Span]:
        """Return all spans, that of the process first."""
        whole = self._process()
        self._add_turns(whole["spanId"])
        self._add_invocations(whole["spanId"])
        outer = [*self._turns.values(), *(span for _, _, span in self._work)]
        return [whole, *outer, *self._call_spans(whole["spanId"])]

    def _process(self) -> Span:
        last, agent = self._entries[-1].body, _agent_in(self._entries)
        facts = {
            "seekpoint.process_id": self._process_id,
            "seekpoint.agent": None if agent is None else agent.agent,
            "seekpoint.agent_version": None if agent is None else agent.version,
            "seekpoint.open": not isinstance(last, b.Finished | b.Released),
        }
        name = self._process_id if agent is None else f"{agent.agent} {self._process_id}"
        error = last.message if isinstance(last, b.ErrorRecorded) else None
        return self._span(self._entries[0].id, "", name, self._begin_us, self._end_us, facts, error=error)

    def _add_turns(self, parent: str) -> None:
        """Add the spans of turns. A turn begins with its first call, or at the end of the previous turn."""
        ended = {entry.body.number: entry for entry in self._entries if isinstance(entry.body, b.TurnEnded)}
        began: dict[int, int] = {}
        for call in self._calls:
            began.setdefault(turn_of(call.key), call.attempts[0].started_at_us)
        for number in sorted((ended.keys() | began.keys()) - {0}):
            entry, before = ended.get(number), ended.get(number - 1)
            end_us = self._end_us if entry is None else entry.ts
            start_us = began.get(number, end_us if before is None else before.ts)
            facts = {"seekpoint.turn": number, "seekpoint.open": entry is None}
            seed = self._entries[0].id + number.to_bytes(8, "big")
            self._turns[number] = self._span(seed, parent, f"turn {number}", start_us, end_us, facts)

    def _add_invocations(self, parent: str) -> None:
        open_: tuple[Entry, str] | None = None
        for entry in self._entries:
            if isinstance(entry.body, b.InvocationTriggered):
                open_ = entry, entry.body.trigger
            elif isinstance(entry.body, b.InvocationEnded) and open_ is not None:
                self._work.append(self._invocation(parent, *open_, entry.ts, entry.body))
                open_ = None
        if open_ is not None:
            self._work.append(self._invocation(parent, *open_, self._end_us, None))

    def _invocation(
        self, parent: str, begun: Entry, trigger: str, end_us: int, ended: b.InvocationEnded | None
    ) -> tuple[int, int, Span]:
        facts = {"seekpoint.outcome": None if ended is None else ended.outcome, "seekpoint.open": ended is None}
        error = None if ended is None else ended.error
        span = self._span(begun.id, parent, f"invocation {trigger}", begun.ts, end_us, facts, error=error)
        return begun.ts, end_us, span

    def _call_spans(self, whole: str) -> list[Span]:
        """Return the spans of calls. If a key occurs again after a rewind, nested calls belong to the later call."""
        made: dict[str, Span] = {}
        spans = []
        for call in self._calls:
            span = made[call.key] = self._call(call, self._parent_of(call, made, whole))
            spans.append(span)
        return spans

    def _parent_of(self, call: CallRecord, made: Mapping[str, Span], whole: str) -> str:
        scope = call.key
        while scope := parent_scope(scope)[:-1]:
            if scope in made:
                return str(made[scope]["spanId"])
            if scope.isdigit() and int(scope) in self._turns:
                return str(self._turns[int(scope)]["spanId"])
        start_us = call.attempts[0].started_at_us
        around = (span for begin_us, end_us, span in self._work if begin_us <= start_us <= end_us)
        return str(next(around, {"spanId": whole})["spanId"])

    def _call(self, call: CallRecord, parent: str) -> Span:
        facts = call.to_dict()
        attributes = {f"seekpoint.{name}": facts.get(name) for name in ("key", "kind", "status", "cost_usd", "policy")}
        attributes |= call_attributes(call.kind, call.name, call.key, self._process_id, facts.get("model"))
        if call.kind == "decision":
            attributes |= usage_attributes(facts.get("model"), facts["usage"] or {}, facts.get("cost_usd"))
        attributes |= {
            "seekpoint.branch": next((part for part in call.key.split("/") if part.startswith(BRANCH)), None),
            "seekpoint.open": True if facts["ended_at_us"] is None else None,
            _REWOUND: facts.get("rewound_at_seq"),
        }
        error = facts["error"] if call.status == "failed" else None
        span = self._span(
            call.attempts[0].entry_id, parent, f"{call.kind} {call.name}", facts["started_at_us"],
            facts["ended_at_us"] or self._end_us, attributes, error=error and str(error.get("message")),
            kind=_CLIENT if call.kind in ("decision", "effect") else _INTERNAL,
        )  # fmt: skip
        span["events"] = [_event(one) for one in facts["attempts"]]
        return span

    def _span(
        self,
        seed: bytes,
        parent: str,
        name: str,
        start_us: int,
        end_us: int,
        facts: Mapping[str, Any],
        *,
        error: str | None = None,
        kind: int = _INTERNAL,
    ) -> Span:
        status: dict[str, Any] = {"code": _OK} if error is None else {"code": _ERROR, "message": error}
        return {
            "traceId": self._trace_id,
            "spanId": blake2b(seed, digest_size=8).hexdigest(),
            "parentSpanId": parent,
            "name": name,
            "kind": kind,
            "startTimeUnixNano": str(start_us * 1_000),
            "endTimeUnixNano": str(max(start_us, end_us) * 1_000),
            "attributes": _attributes(facts),
            "events": [],
            "status": status,
        }


def _agent_in(entries: Sequence[Entry]) -> b.AgentStarted | b.Forked | None:
    """Return the body that names the agent: its start, or the fork of a started process."""
    bodies = (entry.body for entry in entries)
    return next((one for one in bodies if isinstance(one, b.AgentStarted | b.Forked) and one.agent is not None), None)


def _event(attempt: Mapping[str, Any]) -> dict[str, Any]:
    facts = {"outcome": attempt["outcome"], "entry": attempt["entry_id"], "cost_usd": attempt["cost_usd"]}
    error = attempt["error"]
    if error:
        facts |= {"exception.type": error.get("type"), "exception.message": error.get("message")}
    at_us = attempt["ended_at_us"] or attempt["started_at_us"]
    return {
        "timeUnixNano": str(at_us * 1_000),
        "name": f"attempt {attempt['number']}",
        "attributes": _attributes(facts),
    }


def _attributes(facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return attributes in the form of OTLP/JSON, without unknown values."""
    return [{"key": key, "value": _value(value)} for key, value in facts.items() if value is not None]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {
        "stringValue": value if isinstance(value, str) else id_text(value) if isinstance(value, bytes) else str(value)
    }
