"""Compare two processes, or two moments of one: context, conversation, calls, lifecycle, cost, duration. Pure.

Both sides are read from their histories, so that the calls of turns that are over, and of finished processes, count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from seekpoint.producers.durable.replay.call_records import CallRecord, asked, total_cost
from seekpoint.producers.durable.replay.recorded_run import RecordedRun
from seekpoint.producers.durable.replay.scopes import PARENTS
from seekpoint.producers.durable.replay.value_differences import first_difference
from seekpoint.schemas.bodies import MessageSaid, ParentAnswered
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.values.json_values import load

if TYPE_CHECKING:
    from seekpoint.consumers.recovery.process_history import Logged
    from seekpoint.schemas.config.limits import Limits
    from seekpoint.schemas.state.calls import Call
    from seekpoint.schemas.state.process_state import State


class ProcessSide(FrozenStruct, frozen=True, kw_only=True):
    """One process at one moment."""

    process_id: str
    seq: int
    lifecycle: str
    cost_usd: str | None
    """What its calls had cost by then, without those that it inherited; None if no cost is known."""
    duration_s: float
    """From its first entry to the newest one."""


class ComparedCall(FrozenStruct, frozen=True, kw_only=True):
    """A call that one side has and the other has not, or that differs."""

    key: str
    kind: str
    left: str | None
    """Its status; None: the side does not have it."""
    right: str | None
    difference: str | None = None
    """Where requests or answers first differ."""


class ProcessDiff(FrozenStruct, frozen=True, kw_only=True):
    """The differences of two sides. Without a difference all collections but ``same_calls`` are empty."""

    left: ProcessSide
    right: ProcessSide
    context: dict[str, tuple[Any, Any]]
    """The values that differ, by key: (left, right). A side without the key has None; ``missing`` names it."""
    missing: dict[str, str]
    """By key of the context: ``left`` or ``right``, the side that does not have it."""
    same_messages: int
    """How many messages the conversations begin with in common."""
    left_messages: tuple[dict[str, Any], ...]
    """The messages behind those, on the left."""
    right_messages: tuple[dict[str, Any], ...]
    same_calls: int
    changed: tuple[ComparedCall, ...]
    only_left: tuple[ComparedCall, ...]
    only_right: tuple[ComparedCall, ...]
    is_same_content: bool
    """Whether the content hashes are equal: the same context, conversation, lifecycle and remembered calls."""

    @property
    def is_empty(self) -> bool:
        """Whether context, conversation, calls and lifecycle are the same."""
        calls = (*self.changed, *self.only_left, *self.only_right)
        messages = (*self.left_messages, *self.right_messages)
        return not (self.context or messages or calls) and self.left.lifecycle == self.right.lifecycle


def compare(
    left: Iterable[Logged], right: Iterable[Logged], left_seq: int | None, right_seq: int | None, limits: Limits
) -> ProcessDiff:
    """Return what differs between two histories, up to a seq of each; None: to its end.

    Raises ``JournalGap`` where the beginning of a history was trimmed.
    """
    sides = ((left, left_seq), (right, right_seq))
    return compare_runs(
        *[RecordedRun.of(history, limits, needs_agent=False, until_seq=seq) for history, seq in sides]
    )  # fmt: skip


def compare_runs(left: RecordedRun, right: RecordedRun) -> ProcessDiff:
    """Return what differs between two runs."""
    one, other = _Side(left), _Side(right)
    context, missing = _contexts(one.state, other.state)
    said = [*one.state.conversation.bodies()], [*other.state.conversation.bodies()]
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*said, strict=False)))
    calls = [*_calls(one, other)]
    return ProcessDiff(
        left=one.side, right=other.side, context=context, missing=missing, same_messages=same,
        left_messages=tuple(map(_message, said[0][same:])), right_messages=tuple(map(_message, said[1][same:])),
        same_calls=len(one.calls.keys() | other.calls.keys()) - len(calls),
        changed=tuple(call for call in calls if call.left and call.right),
        only_left=tuple(call for call in calls if not call.right),
        only_right=tuple(call for call in calls if not call.left),
        is_same_content=_is_same_content(one.state, other.state),
    )  # fmt: skip


class _Side:
    """One side: its state, its calls and what was asked in them."""

    def __init__(self, run: RecordedRun) -> None:
        self.state: State = run.state
        self.calls: Mapping[str, Call] = calls_made(run)
        self._entries = run.entries
        lifecycle = "finished" if run.result_json is not None else str(run.state.lifecycle)
        self.side = ProcessSide(
            process_id=run.process_id, seq=max((entry.seq or 0 for entry in run.entries), default=0),
            lifecycle=lifecycle, cost_usd=self._cost_usd(),
            duration_s=max(0, run.entries[-1].ts - run.entries[0].ts) / 1_000_000,
        )  # fmt: skip

    def _cost_usd(self) -> str | None:
        has_cost = any(getattr(one.body, "cost_usd", None) is not None for one in self._entries)
        return total_cost(self._records) if has_cost else None

    @cached_property
    def _records(self) -> list[CallRecord]:
        """The calls with what was asked in them. Most comparisons never need them."""
        return asked(self._entries)

    @cached_property
    def asked(self) -> Mapping[str, CallRecord]:
        """Return the calls with what was asked in them, by key; of two calls with one key the later one."""
        return {record.key: record for record in self._records}


def _is_same_content(left: State, right: State) -> bool:
    """Return whether the content hashes are equal. Where parts of the content differ, nothing is hashed."""
    is_alike = left.lifecycle == right.lifecycle and left.calls.keys() == right.calls.keys()
    return is_alike and left.content_hash == right.content_hash


def calls_made(run: RecordedRun) -> dict[str, Call]:
    """Return the calls by key, with those that records of a parent answered: these under their key in the parent."""
    answered = {key for one in run.entries if isinstance(one.body, ParentAnswered) for key in load(one.body.keys)}
    found = {key: call for key, call in run.records.items() if call.kind != "write" and not key.startswith(PARENTS)}
    for key in answered:
        call = run.records.get(PARENTS + key)
        if call is not None:
            found[PARENTS + key if key in found else key] = call
    return found


def _contexts(left: State, right: State) -> tuple[dict[str, tuple[Any, Any]], dict[str, str]]:
    one, other = left.values_json, right.values_json
    keys = sorted(key for key in {*one, *other} if one.get(key) != other.get(key))
    values = {key: (_loaded(one.get(key)), _loaded(other.get(key))) for key in keys}
    return values, {key: "left" if key not in one else "right" for key in keys if key not in one or key not in other}


def _loaded(text: str | None) -> Any:
    return None if text is None else load(text)


def _message(body: MessageSaid) -> dict[str, Any]:
    content = body.content if body.parts is None else load(body.parts)
    calls = {} if body.tool_calls is None else {"tool_calls": load(body.tool_calls)}
    return {"role": body.role, "content": content, **calls}


def _calls(left: _Side, right: _Side) -> Iterator[ComparedCall]:
    """Yield the calls that differ, in the order of the left side, then those that only the right side has."""
    for key in [*left.calls, *(key for key in right.calls if key not in left.calls)]:
        one, other = left.calls.get(key), right.calls.get(key)
        kept = one or other
        assert kept is not None
        statuses = None if one is None else one.status, None if other is None else other.status
        difference = None
        if one is not None and other is not None:
            if _facts(one) == _facts(other):
                continue
            difference = _difference(key, one, other, left, right)
        yield ComparedCall(key=key, kind=kept.kind, left=statuses[0], right=statuses[1], difference=difference)


def _facts(call: Call) -> tuple[object, ...]:
    """Return what has to be equal. An effect that was open at a fork is ``inherited`` there."""
    return call.kind, call.digest, call.status, call.output, call.error


def _difference(key: str, one: Call, other: Call, left: _Side, right: _Side) -> str | None:
    if one.kind != other.kind:
        return f"a {one.kind} is now a {other.kind}"
    if one.digest != other.digest:
        was, now = left.asked.get(key), right.asked.get(key)
        found = None if was is None or now is None else first_difference(was.input, now.input)
        return f"request {found}" if found else "another request"
    for what, old, new in (("answer", one.output, other.output), ("error", one.error, other.error)):
        found = first_difference(_loaded(old), _loaded(new)) if old != new else None
        if found is not None:
            return f"{what} {found}"
    return None if one.status == other.status else f"{one.status} is now {other.status}"
