"""The calls of an agent's code that a state remembers: a replay of the code is answered from this table.

A call's key is unique in its process: ``[turn/][scope/]name:ordinal``, or ``[turn/][scope/]#position`` of a content
write. In a state's JSON a call is one short list: a hundred thousand remembered steps have to fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

import orjson

from seekpoint.schemas.bodies.body import Body, Json
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.state.state_parts import InvocationState
from seekpoint.schemas.values.json_values import load

__all__ = [
    "IN_DOUBT",
    "NOT_ASKED",
    "UNSETTLED",
    "AgentRun",
    "Call",
    "Frame",
    "Obligation",
    "agent_row",
    "call_of",
    "call_row",
    "input_digest",
    "kind_number",
    "times_forgotten",
    "turn_of",
    "write_digest",
    "write_position",
]

IN_DOUBT = frozenset({"pending", "unknown"})
"""Statuses of an effect of which nobody knows yet whether it happened."""

UNSETTLED = frozenset({"pending", "unknown", "stuck"})
"""Statuses of an effect that something is still owed for: a look, or a person."""

_KINDS = ("step", "decision", "sample", "timer", "gate", "child", "effect", "write", "receive")
_STATUSES = ("started", "succeeded", "failed", "pending", "unknown", "stuck", "inherited")
_KIND_AT = {kind: at for at, kind in enumerate(_KINDS)}
_STATUS_AT = {status: at for at, status in enumerate(_STATUSES)}


class Call(NamedTuple):
    """One call. A tuple, not a dataclass: a recovery may make a hundred thousand.

    ``kind``: step, decision, sample, timer, gate, child, effect, write or receive. ``status``: started,
    succeeded, failed; of an effect pending, succeeded, failed, unknown, stuck or inherited. ``position`` counts the
    calls of its scope, 0 where a rewind left an effect standing without a place. ``digest`` is of what was asked;
    ``seq`` of the newest entry about it. ``error`` is an object (type, message, data, retryable); ``detail`` are facts
    by kind.
    """

    kind: str
    position: int
    digest: str
    status: str
    attempt: int
    seq: int
    output: Json | None = None
    error: Json | None = None
    detail: Json | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """``detail`` decoded; empty where there is none."""
        return {} if self.detail is None else load(self.detail)


class Frame(FrozenStruct, frozen=True):
    """The content that a resume starts from: that at the agent's start, or when the newest turn ended."""

    values_json: Mapping[str, Json]
    messages: int
    invocations: int
    invocation: InvocationState | None


class AgentRun(FrozenStruct, frozen=True):
    """The agent whose code runs as the process, as it was when it began."""

    name: str
    version: str
    definition: str
    input_json: Json
    kept_digest: str = ""
    """The digest of an input that is no longer kept itself; empty while it is."""

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


def input_digest(text: Json) -> str:
    """Return the BLAKE2b-128 of an input's canonical text, in hex."""
    return blake2b(text.encode(), digest_size=16).hexdigest()


def agent_row(run: AgentRun) -> list[str]:
    """Return an agent's run as a short list; ``AgentRun(*row)`` gives it back."""
    row = [run.name, run.version, run.definition, run.input_json]
    return [*row, run.kept_digest] if run.kept_digest else row


class Obligation(FrozenStruct, frozen=True):
    """An effect that has to be undone should the process be cancelled or fail."""

    key: str
    name: str
    arguments_json: Json
    status: str = "open"


def kind_number(kind: str) -> int:
    """Return the number that stands for ``kind`` in a row."""
    return _KIND_AT[kind]


def call_row(call: Call) -> list[Any]:
    """``call`` as a short list: kind and status by number, no nulls at its end."""
    kind, position, digest, status, attempt, seq, output, error, detail = call
    row = [_KIND_AT[kind], position, digest, _STATUS_AT[status], attempt, seq, output]
    if error is None is detail:
        if output is None:
            row.pop()
        return row
    row += (error,) if detail is None else (error, detail)
    return row


def call_of(row: Any) -> Call:
    """Return the call of a row. ``TypeError``, ``ValueError`` or ``LookupError`` if it is none."""
    if type(row) is not list or not 6 <= len(row) <= 9:
        raise ValueError("a call has six to nine parts")
    kind, position, digest, status, attempt, seq, *rest = row
    if not (type(kind) is type(position) is type(status) is type(attempt) is type(seq) is int and type(digest) is str):
        raise TypeError("a call has numbers and a digest")
    if kind < 0 or status < 0:
        raise ValueError("no call has this kind")
    for text in rest:
        if text is not None and type(text) is not str:
            raise TypeError("what a call gave is JSON text")
    parts = (_KINDS[kind], position, digest, _STATUSES[status], attempt, seq, *rest)
    return _new_call(Call, parts + _NOTHING[: 9 - len(parts)])


_new_call = tuple.__new__  # half the time of the named tuple's own
_NOTHING = (None, None, None)


def write_digest(body: Body) -> str:
    """The digest of a content write: of all it says but its key, and what differs from run to run of the same code."""
    names = _NAMES.get(body.KIND)
    if names is None:
        names = _NAMES[body.KIND] = tuple(one.name for one in fields(body) if one.name not in NOT_ASKED)
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
