"""The calls of an agent's code that a state remembers: a replay of the code is answered from this table.

A call's key is unique in its process: ``[turn/][scope/]name:ordinal``, or ``[turn/][scope/]#position`` of a content
write. In a state's JSON a call is a list of its fields in their order: a hundred thousand remembered steps have to fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Annotated, Any

import msgspec
import orjson

from seekpoint.schemas.bodies.body import Body, Json
from seekpoint.schemas.errors import UnserializableValue
from seekpoint.schemas.frozen_struct import built
from seekpoint.schemas.state.mask_shapes import CONTEXT, FACTS, PLAIN, case, embedded, json, optional_text, text
from seekpoint.schemas.state.state_parts import InvocationState, MailItem
from seekpoint.schemas.state.state_values import Count, StateValue, shape_of
from seekpoint.schemas.values.json_values import load

IN_DOUBT = frozenset({"pending", "unknown"})
"""Statuses of an effect of which nobody knows yet whether it happened."""

UNSETTLED = frozenset({"pending", "unknown", "stuck"})
"""Statuses of an effect that something is still owed for: a look, or a person."""

STANDING = UNSETTLED | {"started"}
"""Those, and that of a failed effect that was set aside: what a fork or a rewind makes of it is never called."""

UNDO = "undo/"
"""The prefix of a compensation's key, before the key of its effect."""

_KINDS = ("step", "decision", "sample", "timer", "gate", "child", "effect", "write", "receive")
_STATUSES = ("started", "succeeded", "failed", "pending", "unknown", "stuck", "inherited")
_KIND_AT = {kind: at for at, kind in enumerate(_KINDS)}
_STATUS_AT = {status: at for at, status in enumerate(_STATUSES)}

_OUTPUTS = {
    _KIND_AT["decision"]: json("response"),
    _KIND_AT["sample"]: json("value"),
    _KIND_AT["gate"]: embedded(FACTS, json("payload")),
    _KIND_AT["child"]: json("result"),
    _KIND_AT["receive"]: embedded(shape_of(MailItem)),
}
"""By the number of a kind: the shape of the output where a mask does not find it under ``output``."""


class Call(StateValue, frozen=True, order=True, array_like=True):
    """One call.

    ``kind``: step, decision, sample, timer, gate, child, effect, write or receive. ``status``: started,
    succeeded, failed; of an effect pending, succeeded, failed, unknown, stuck or inherited. ``position`` counts the
    calls of its scope, 0 where a rewind left an effect standing without a place. ``digest`` is of what was asked;
    ``seq`` of the newest entry about it. ``error`` is an object (type, message, data, retryable); ``detail`` are facts
    by kind.
    """

    kind: Annotated[str, PLAIN]
    position: int
    digest: Annotated[str, text("digest")]
    status: Annotated[str, PLAIN]
    attempt: int
    seq: int
    output: Annotated[Json | None, case("kind", _OUTPUTS, json("output"))] = None
    error: Annotated[Json | None, json("error")] = None
    detail: Annotated[Json | None, embedded(FACTS)] = None

    @property
    def facts(self) -> dict[str, Any]:
        """``detail`` decoded; empty where there is none."""
        return {} if self.detail is None else load(self.detail)


class Frame(StateValue, frozen=True):
    """The content that a resume starts from: that at the agent's start, or when the newest turn ended."""

    values_json: Annotated[Mapping[str, Json], CONTEXT]
    messages: Count
    invocations: Count
    invocation: InvocationState | None = None


class AgentRun(StateValue, frozen=True):
    """The agent whose code runs as the process, as it was when it began."""

    name: Annotated[str, text("agent")]
    version: Annotated[str, text("version")]
    definition: Annotated[str, text("definition")]
    input_json: Annotated[Json, json("input")]
    kept_digest: Annotated[str, text("digest")] = ""
    """The digest of an input that is no longer kept itself; empty while it is."""
    correlation_id: Annotated[str | None, optional_text("correlation_id")] = None
    """That of its submission; the entries of every run carry it."""
    trace_parent: Annotated[str | None, optional_text("trace_parent")] = None
    """The span of its first run, as a W3C traceparent."""

    @property
    def input(self) -> Any:
        """Return a fresh copy of the input; None where only its digest is kept."""
        return load(self.input_json)

    @property
    def input_digest(self) -> str:
        """Return the BLAKE2b-128 of the input's canonical text, in hex."""
        return self.kept_digest or input_digest(self.input_json)

    def without_input(self) -> AgentRun:
        """Return the same run with the digest of its input only: what a gravestone keeps."""
        return AgentRun(self.name, self.version, self.definition, "null", self.input_digest)


def is_compensated(key: str, calls: Mapping[str, Call]) -> bool:
    """Return whether the effect ``key`` was compensated or revoked: nothing of it is left outside."""
    undo, call = calls.get(UNDO + key), calls.get(key)
    if undo is not None and undo.kind == "effect" and undo.status == "succeeded":
        return True
    return call is not None and is_revoked(call)


def is_revoked(call: Call) -> bool:
    """Return whether what the effect did was undone outside. Its record answers the code all the same."""
    return call.kind == "effect" and call.detail is not None and _REVOKED in call.detail and _REVOKED in call.facts


def revoked(call: Call, at_us: int) -> Call:
    """Return the record of the effect as revoked at that time, in microseconds since 1970."""
    return msgspec.structs.replace(call, detail=orjson.dumps({**call.facts, _REVOKED: at_us}).decode())


_REVOKED = "revoked_at_us"


def may_be_redriven(call: Call) -> bool:
    """Return whether a person may let a failed effect be made again, with the same idempotency key.

    The failure of an at-most-once effect has to prove that nothing was sent: its only call said so itself. For an
    idempotent one it is enough that it is known, from anybody, that nothing was done.
    """
    if call.kind != "effect" or call.status != "failed" or not call.position or call.error is None:
        return False
    marks = orjson.loads(call.error)
    if type(marks) is not dict or call.facts.get("compensates") is not None:
        return False
    is_repeatable = call.facts.get("semantics") in ("idempotent", "observe_only")
    return marks.get("unsent") is True or (is_repeatable and marks.get("undone") is True)


def is_open_to_requests(call: Call, kind: str) -> bool:
    """Return whether a call of ``kind`` was set aside and not begun since: it may be asked something else then."""
    if call.kind != kind or kind not in ("step", "decision") or call.status != "started" or call.detail is None:
        return False
    return "attempts_before" in call.detail and "attempts_before" in call.facts


def input_digest(text: Json) -> str:
    """Return the BLAKE2b-128 of an input's canonical text, in hex."""
    return blake2b(text.encode(), digest_size=16).hexdigest()


class Obligation(StateValue, frozen=True):
    """An effect that has to be undone should the process be cancelled or fail. ``status``: open, stuck or revoked."""

    key: Annotated[str, text("key")]
    name: Annotated[str, text("name")]
    arguments_json: Annotated[Json, json("arguments")]
    status: Annotated[str, PLAIN]


def call_row(call: Call) -> list[Any]:
    """Return ``call`` as a list of its fields: kind and status by number, no nulls at its end."""
    row = [*msgspec.structs.astuple(call)]
    row[0], row[3] = _KIND_AT[row[0]], _STATUS_AT[row[3]]
    while row[-1] is None:
        row.pop()
    return row


built(Call)


def call_of(row: Any) -> Call:
    """Return the call of a row. ``TypeError``, ``ValueError`` or ``LookupError`` if it is none."""
    named = [*row]
    if named[0] < 0 or named[3] < 0:
        raise ValueError("no call has this kind or this status")
    named[0], named[3] = _KINDS[named[0]], _STATUSES[named[3]]
    return msgspec.convert(named, Call)


def calls_width(calls: Mapping[str, Call]) -> int:
    """Return the sum of ``call_width`` in a fifth of the time."""
    if not calls:
        return 0
    whole = len(orjson.dumps({key: call_row(call) for key, call in calls.items()})) - 1
    return whole + sum(call_width(key, call) // 2 for key, call in calls.items() if call.kind == "effect")


def call_width(key: str, call: Call) -> int:
    """Return the bytes of one call; twice those of an effect, which is kept a second time while it is not settled."""
    try:
        width = len(orjson.dumps((key, call_row(call)))) - 1  # key and row, a colon and a comma
    except TypeError as exc:
        raise UnserializableValue("a text with a lone surrogate cannot be journaled") from exc
    return 2 * width if call.kind == "effect" else width


def write_digest(body: Body) -> str:
    """Return the digest of a content write: of all fields but its key and those that differ from run to run."""
    names = _NAMES.get(body.KIND)
    if names is None:
        names = _NAMES[body.KIND] = tuple(name for name in body.__struct_fields__ if name not in NOT_ASKED)
    parts = [getattr(body, name) for name in names]
    return blake2b(orjson.dumps([body.KIND, *parts]), digest_size=16).hexdigest()


NOT_ASKED = frozenset({"call", "duration_us", "error", "failed", "traceback", "where", "message", "reason"})
"""What a content write's digest does not cover. Prose is among it: secrets are masked in it, so its text depends on the
settings of whoever writes."""
_NAMES: dict[str, tuple[str, ...]] = {}


@lru_cache(maxsize=64)  # an entry asks for its key some six times; a hostile key is a megabyte
def turn_of(key: str) -> int:
    """Return the number of the turn that the call ``key`` belongs to; 0 if it belongs to none."""
    head, slash, _ = key.partition("/")
    return int(head) if slash and head.isascii() and head.isdigit() and len(head) <= 18 else 0


def times_forgotten(forgotten: Mapping[str, int], key: str) -> int:
    """Return how often rewinds forgot ``key``, by itself or with its turn. ``N/`` means turn N and all after it."""
    if not forgotten:
        return 0
    times = forgotten.get(key, 0)
    turn = turn_of(key)
    if turn:
        times += sum(n for mark, n in forgotten.items() if mark.endswith("/") and 0 < turn_of(mark) <= turn)
    return times


def write_position(key: str) -> int | None:
    """Return the position in a content write's key; None for any other key."""
    position = key.rpartition("#")[2]
    return int(position) if position.isascii() and position.isdigit() and len(position) < 10 else None
