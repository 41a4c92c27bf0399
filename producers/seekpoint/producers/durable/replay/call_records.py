"""The calls of an agent's code, read from the entries of its process, also of turns that are over. Pure.

``seekpoint steps``, ``trace`` and ``export --dataset`` use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import orjson

from seekpoint.producers.durable.decisions.prompts import whole_request
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies import Json
from seekpoint.schemas.bodies.entry import Entry, id_text
from seekpoint.schemas.state.budget_sums import amount_of
from seekpoint.schemas.state.calls import turn_of
from seekpoint.schemas.values.decimal_arithmetic import exact_sum


@dataclass(slots=True)
class Attempt:
    """One attempt of a call."""

    number: int
    entry_id: bytes
    """The id of the entry that began the attempt."""
    started_at_us: int
    ended_at_us: int | None = None
    duration_us: int | None = None
    outcome: str | None = None
    """``succeeded``, ``failed``, ``retry``, of an effect ``unknown`` or ``stuck``; None if unknown or under way."""
    error: Json | None = None
    usage: Json | None = None
    cost_usd: str | None = None


@dataclass(slots=True)
class CallRecord:
    """One call: its request, its attempts and its outcome."""

    key: str
    kind: str
    name: str
    seq: int
    input: Any = None
    """A JSON value."""
    output: Any = None
    status: str = "started"
    attempts: list[Attempt] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    """The requests before the present one (``asked_before``), the seq of the rewind that forgot the call
    (``rewound_at_seq``); by kind: model, policy and tool calls of a decision,
    semantics and keys of an effect, deadline of a gate, the signal that was received and who sent it, …"""

    @property
    def last(self) -> Attempt:
        """Return the newest attempt."""
        return self.attempts[-1]

    @property
    def cost_usd(self) -> Decimal | None:
        """Return the cost of all attempts; None if no cost is known."""
        costs = [cost for one in self.attempts if (cost := _cost(one.cost_usd)) is not None]
        return exact_sum(costs) if costs else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values: an object of ``seekpoint steps --json``."""
        error, usage, cost = self.last.error, self.last.usage, self.cost_usd
        return {
            "key": self.key,
            "kind": self.kind,
            "name": self.name,
            "seq": self.seq,
            "turn": turn_of(self.key) or None,
            "status": self.status,
            "input": self.input,
            "output": self.output,
            "error": None if error is None else orjson.loads(error),
            "attempts": [_attempt_facts(one) for one in self.attempts],
            "started_at_us": self.attempts[0].started_at_us,
            "ended_at_us": self.last.ended_at_us,
            "duration_us": self.last.duration_us,
            "usage": None if usage is None else orjson.loads(usage),
            "cost_usd": None if cost is None else format(cost, "f"),
            **self.facts,
        }


def _cost(text: str | None) -> Decimal | None:
    """Return the amount; None for a text that is none. Without a budget the text was never checked."""
    try:
        return None if text is None else amount_of(text)
    except ValueError:
        return None


def _attempt_facts(one: Attempt) -> dict[str, Any]:
    return {
        "number": one.number,
        "entry_id": id_text(one.entry_id),
        "started_at_us": one.started_at_us,
        "ended_at_us": one.ended_at_us,
        "outcome": one.outcome,
        "error": None if one.error is None else orjson.loads(one.error),
        "cost_usd": one.cost_usd,
    }


def asked(entries: Iterable[Entry]) -> list[CallRecord]:
    """Return every call in the order in which they began. ``entries`` are the valid ones of one process, in log order.

    A key that a rewind forgot and the code used again is two calls.
    """
    table = CallTable()
    for entry in entries:
        table.take(entry)
    return table.found


def total_cost(calls: Iterable[CallRecord]) -> str | None:
    """Return the cost of calls in USD, as a decimal text; None if no cost is known."""
    costs = [cost for one in calls if (cost := one.cost_usd) is not None]
    return format(exact_sum(costs), "f") if costs else None


class CallTable:
    """Collects the calls of one process from its entries."""

    def __init__(self) -> None:
        self.found: list[CallRecord] = []
        """The calls, in the order in which they began."""
        self._open: dict[str, CallRecord] = {}
        self._requests: dict[str, Any] = {}
        self._mail: dict[bytes, Entry] = {}

    def take_masked(self, entry: Entry, masked: Entry) -> None:
        """Read the next entry as ``masked`` tells it. The keys of ``entry`` say which entries are about one call."""
        known = {name: value for name in _PAIRING if (value := getattr(entry.body, name, None)) is not None}
        one = self.take(masked._replace(body=replace(masked.body, **known)))
        if one is not None:
            one.key = getattr(masked.body, "key", one.key)

    def take(self, entry: Entry) -> CallRecord | None:
        """Return the call that ``entry`` is about; None if it is about none."""
        body = entry.body
        if isinstance(body, b.DecisionStarted):
            request = whole_request(body, self._requests, orjson.loads)
            return self._begin(entry, "decision", request, policy=body.policy, model=None, tool_calls=None)
        if isinstance(body, b.Signal):
            self._mail[entry.id] = entry
            return None
        if isinstance(body, b.EffectRevoked):
            return self._revoke(entry, body)
        if isinstance(body, b.CallsSetAside):
            for key in orjson.loads(body.keys):
                if (aside := self._open.get(key)) is not None:  # else a fork's, that its parent began
                    aside.status = "started"
            return None
        if isinstance(body, b.Rewound):
            if body.mode in ("both", "code_only"):
                for call in self.found:
                    if call.seq > body.to_seq and call.kind != "effect":  # an effect that happened stays a fact
                        call.facts.setdefault("rewound_at_seq", entry.seq)
            return None
        mail = self._mail.pop(getattr(body, "external_id", None) or b"", None)
        if isinstance(body, b.Received):
            return None if body.key is None else self._receive(entry, body.key, mail)
        begin = _BEGIN.get(type(body))
        if begin is not None:
            kind, given, facts = begin
            text = getattr(body, given) if given else "null"
            return self._begin(entry, kind, orjson.loads(text), **{name: getattr(body, name) for name in facts})
        if isinstance(body, b.StepEnded) and (began := body.implied_start) is not None:
            self._begin(entry._replace(body=began), "step", orjson.loads(began.arguments))
        end = _END.get(type(body))
        return None if end is None else self._end(entry, end)

    def _begin(self, entry: Entry, kind: str, given: Any, **facts: Any) -> CallRecord:
        body: Any = entry.body
        number = getattr(body, "attempt", 1)
        one = self._open.get(body.key)
        if isinstance(body, b.Sampled) and one is not None and one.status == "started":  # it failed and was set aside
            number = len(one.attempts) + 1
        if one is None or number <= one.last.number:
            one = self._open[body.key] = CallRecord(body.key, kind, body.name, entry.seq or 0, given, facts=facts)
            self.found.append(one)
        elif kind in ("step", "decision") and given != one.input:  # a redrive let it be asked something else
            one.facts["asked_before"] = [*one.facts.get("asked_before", ()), one.input]
            one.input = given
        one.facts |= facts
        one.attempts.append(Attempt(number, entry.id, getattr(body, "started_at_us", entry.ts)))
        if isinstance(body, b.Sampled):
            one.status = "succeeded" if body.error is None else "failed"
            one.input, one.output, one.last.error = None, orjson.loads(body.value), body.error
            one.last.ended_at_us, one.last.duration_us, one.last.outcome = entry.ts, 0, one.status
        elif isinstance(body, b.EffectIntended):
            one.status = "pending"
        return one

    def _receive(self, entry: Entry, key: str, mail: Entry | None) -> CallRecord:
        """Return the call of a ``receive``: with the mail that the code took, or timed out."""
        body, told = entry.body, None if mail is None else mail.body
        assert isinstance(body, b.Received)
        came = body.external_id != b.NIL_ID
        last = Attempt(1, entry.id, entry.ts, entry.ts, 0, "succeeded" if came else "timed_out")
        name = "mail" if body.name is None else body.name
        one = CallRecord(key, "receive", name, entry.seq or 0, body.name, status=str(last.outcome), attempts=[last])
        one.facts = {"signal": None, "actor": None if mail is None else mail.actor}
        if isinstance(told, b.Signal):
            one.output, one.facts["signal"] = orjson.loads(told.payload), told.name
        self.found.append(one)
        return one

    def _revoke(self, entry: Entry, body: b.EffectRevoked) -> CallRecord | None:
        one = self._open.get(body.key)
        if one is None or one.kind != "effect" or one.status != "succeeded":
            return None
        one.status = "revoked"
        one.facts |= {"revoked_by": entry.actor, "revoke_reason": body.reason}
        return one

    def _end(self, entry: Entry, output: Callable[[Any], Any]) -> CallRecord | None:
        body: Any = entry.body
        one = self._open.get(body.key)
        if one is None:  # a fork's, that its parent began
            return None
        outcome, last = getattr(body, "outcome", "succeeded"), one.last
        last.outcome, last.error = outcome, getattr(body, "error", None)
        last.ended_at_us = getattr(body, "ended_at_us", 0) or entry.ts
        last.duration_us = getattr(body, "duration_us", None)
        if last.duration_us is None:
            last.duration_us = max(0, last.ended_at_us - last.started_at_us)
        last.usage, last.cost_usd = getattr(body, "usage", None), getattr(body, "cost_usd", None)
        if outcome != "retry":
            one.status, one.output = outcome, output(body)
        one.facts |= {name: _fact(body, name) for name in _FACTS_AT_END.get(type(body), ())}
        return one


_PAIRING = ("key", "keys", "shared_with")
"""The fields that name calls."""


def _fact(body: Any, name: str) -> Any:
    value = getattr(body, name)
    return orjson.loads(value) if name == "tool_calls" and value is not None else value


_BEGIN: Mapping[type[b.Body], tuple[str, str, tuple[str, ...]]] = {
    b.StepStarted: ("step", "arguments", ()),
    b.EffectIntended: ("effect", "arguments", ("semantics", "connector", "business_key", "idempotency_key")),
    b.Sampled: ("sample", "", ()),
    b.TimerSet: ("timer", "", ("fires_at_us",)),
    b.GateOpened: ("gate", "prompt", ("deadline_us",)),
    b.ChildSpawned: ("child", "input", ("child_id", "agent")),
}
"""By the entry that begins a call: its kind, the field with the request, and the fields that become facts."""

CALL_KINDS = (*(kind for kind, _, _ in _BEGIN.values()), "decision", "receive")
"""Every kind of call."""

_END: Mapping[type[b.Body], Callable[[Any], Any]] = {
    b.StepEnded: lambda body: orjson.loads(body.output),
    b.DecisionMade: lambda body: orjson.loads(body.response),
    b.EffectSettled: lambda body: orjson.loads(body.output),
    b.TimerFired: lambda body: None,
    b.GateResolved: lambda body: orjson.loads(body.payload),
    b.ChildEnded: lambda body: orjson.loads(body.result),
}
"""By the entry that ends a call: the field with the outcome."""

_FACTS_AT_END: Mapping[type[b.Body], tuple[str, ...]] = {
    b.DecisionMade: ("model", "tool_calls"),
    b.EffectSettled: ("settled_by",),
    b.GateResolved: ("actor", "reason"),
}
