"""Fork a process: compute the content that another one begins with, from a point of the first one's past.

    the state at the point  + other answers  + the records of later calls that may answer the fork  -> ``Forked``

The fold only restores what the entry carries, so all of this is in the one entry with which the fork begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import field
from msgspec.structs import replace

from seekpoint.consumers.log_reading.scan import entries_of
from seekpoint.producers.history.fork_origins import Origin, ReadHistory, origin_of
from seekpoint.producers.history.history_points import HistoryPoint
from seekpoint.producers.history.later_calls import (
    answered_calls,
    calls_of,
    ended_after,
    inherited_ends,
    join_calls,
    put_later_calls,
)
from seekpoint.producers.history.other_answers import put_answers
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import process_key
from seekpoint.schemas.errors import InvalidSetting, LimitExceeded
from seekpoint.schemas.folding.content_rules import EFFECT_POLICIES
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.state.calls import UNSETTLED
from seekpoint.schemas.state.process_state import content_width
from seekpoint.schemas.values.json_values import dump

if TYPE_CHECKING:
    from seekpoint.producers.durable.replay.recorded_run import EndedCall
    from seekpoint.producers.node_runtime import NodeRuntime
    from seekpoint.schemas.bodies.entry import Entry
    from seekpoint.schemas.log.log_ports import LogReader
    from seekpoint.schemas.state.calls import Call
    from seekpoint.schemas.state.process_state import State

_EVERY_KIND = frozenset({"step", "decision", "sample", "timer", "gate", "child", "effect", "receive"})


class RunAgain(FrozenStruct, frozen=True, kw_only=True):
    """That the fork runs a process again from its start, and what is different."""

    process_id: str
    agent: str
    version: str
    definition: str
    input_json: b.Json
    model: str | None = None


class ForkRequest(FrozenStruct, frozen=True, kw_only=True):
    """The source of a fork, and the way in which the fork goes on. Raises ``InvalidSetting`` for an unknown policy."""

    parent_id: str
    at: HistoryPoint | int | None = None
    """The moment of the parent's past; None: as it is now, or right after the call that gets another answer."""
    answers: Mapping[str, Any] = field(default_factory=dict)
    """Other answers to calls of the parent, by key."""
    effects: str = "refused"
    permissive: bool = False
    again: RunAgain | None = None
    """Set for a rerun: it begins where the first run began."""
    reason: str | None = None
    actor: str | None = None

    def __post_init__(self) -> None:
        if self.effects not in EFFECT_POLICIES:
            raise InvalidSetting(
                "no such policy for the effects of a fork", found=repr(self.effects)[:80], known=[*EFFECT_POLICIES]
            )


class ForkPlan(FrozenStruct, frozen=True, kw_only=True):
    """The content that a fork begins with."""

    parent_id: str
    parent_seq: int
    agent: str | None
    """The agent whose run it goes on with; None: no agent had begun."""
    lifecycle: str
    messages: int
    values: int
    calls: int
    """The calls that it inherits: their results are not made again."""
    in_doubt: tuple[str, ...]
    """The keys of inherited effects of which nobody knows whether they happened. The fork never calls them."""
    answers: tuple[str, ...]
    """The keys of the calls that have another answer than in the parent."""
    later: tuple[str, ...]
    """The keys of the parent's later calls whose results answer equal requests of the fork."""
    later_effects: tuple[str, ...]
    """The keys of the effects that the parent made after the point."""
    effects: str
    """What becomes of an effect that no record answers: ``refused``, ``recorded`` (refused too), ``live``."""


class Fork(FrozenStruct, frozen=True):
    """The entry that begins a fork, and what it says in short."""

    body: b.Forked
    plan: ForkPlan


async def forked_by(runtime: NodeRuntime, request: ForkRequest, history: ReadHistory | None = None) -> b.Forked:
    """Return the entry that begins the fork."""
    return (await fork_of(runtime, request, history)).body


async def fork_of(
    runtime: NodeRuntime, request: ForkRequest, history: ReadHistory | None = None, *, looks_ahead: bool = False
) -> Fork:
    """Return the fork that ``request`` asks for; nothing is written. ``looks_ahead``: read what the parent did later.

    ``history`` is the parent's, if it was read.

    Raises what a recovery raises, ``Refused`` for an answer that cannot be given, and ``LimitExceeded`` for content
    that does not fit into a state.
    """
    origin = await origin_of(runtime, request.parent_id, _point(request), history)
    past = origin.state
    kinds = _answering_kinds(request)
    later: dict[str, Call] = {}
    if kinds or looks_ahead:
        read = all(way.history is not None for way in (origin, *origin.forks))
        later = (
            _later(runtime.reader, origin, request)
            if read
            else await runtime.in_thread(lambda: _later(runtime.reader, origin, request))
        )
    draft = past.thaw()
    put_answers(draft, request.answers, origin.process_id, runtime.reader.limits, request.actor)
    calls = len(draft.calls)
    answering = put_later_calls(draft, later, kinds)
    if (size := content_width(draft)) > (limit := runtime.reader.limits.state_bytes):
        raise LimitExceeded(
            "the fork would not fit into a state", process_id=request.parent_id, bytes=size, limit=limit,
            hint="without permissive and recorded effects it carries no later calls; or fork at another point",
        )  # fmt: skip
    content = draft.freeze()
    plan = ForkPlan(
        parent_id=origin.process_id, parent_seq=past.seq, agent=None if past.agent is None else past.agent.name,
        lifecycle=str(past.lifecycle), messages=len(past.conversation), values=len(past.values_json), calls=calls,
        in_doubt=tuple(_effects_in(content, ("inherited", *UNSETTLED))), answers=tuple(request.answers),
        later=tuple(answering), later_effects=tuple(key for key, call in later.items() if call.kind == "effect"),
        effects=request.effects,
    )  # fmt: skip
    return Fork(_body(request, origin, content, runtime), plan)


def _answering_kinds(request: ForkRequest) -> frozenset[str]:
    """Return the kinds of the parent's later calls that may answer the fork. A rerun may leave the effects out."""
    effects = frozenset({"effect"})
    if not request.permissive:
        return effects if request.effects == "recorded" else frozenset()
    return _EVERY_KIND - effects if request.again is not None and request.effects == "refused" else _EVERY_KIND


def _body(request: ForkRequest, origin: Origin, content: State, runtime: NodeRuntime) -> b.Forked:
    past = origin.state
    forked = b.Forked(
        origin.process_id, past.seq, content.content_json(), effects=request.effects, permissive=request.permissive,
        answers=dump([*request.answers], runtime.reader.limits) if request.answers else None,
        reason=None if request.reason is None else runtime.settings.scrub(request.reason),
    )  # fmt: skip
    if (again := request.again) is not None:
        return replace(
            forked, agent=again.agent, version=again.version, definition=again.definition, input=again.input_json,
            rerun_of=again.process_id, model=again.model,
        )  # fmt: skip
    if (ran := past.agent) is None:
        return forked
    return replace(forked, agent=ran.name, version=ran.version, definition=ran.definition, input=ran.input_json)


def _point(request: ForkRequest) -> HistoryPoint | None:
    """Return the moment to fork at; None: now. Without one, it is the end of the call that gets another answer."""
    if request.again is not None:
        return HistoryPoint.start()
    if request.at is not None:
        return HistoryPoint.of(request.at)
    if len(request.answers) > 1:
        raise InvalidSetting("several other answers need a moment to fork at", hint="a seq, a time, a call or a turn")
    return HistoryPoint.after(next(iter(request.answers))) if request.answers else None


def _later(reader: LogReader, origin: Origin, request: ForkRequest) -> dict[str, Call]:
    """Return the calls that ended after the moment, in the parent and in the forks that lead to it. Blocks.

    For a fork that acts for real, an effect that was compensated is none: nothing of it is left outside.
    """
    found, is_live = [], request.effects == "live"
    for way in (origin, *origin.forks):
        inherited = {} if way is origin else calls_of(inherited_ends(way.state))
        found += [inherited, answered_calls(way.state), calls_of(_ended_after(reader, way), without_undone=is_live)]
    return join_calls(*found)


def _ended_after(reader: LogReader, way: Origin) -> Iterable[EndedCall]:
    """Return the ends of calls after the moment, up to the seq at which the next fork left."""
    known = None if way.history is None else way.history.ended
    if known is None:
        return ended_after(way.state, _entries_after(reader, way), reader.limits)
    return (one for one in known if one.seq > way.state.seq)  # of the process that was named: no fork left it


def _entries_after(reader: LogReader, way: Origin) -> Iterator[tuple[int, Entry]]:
    """Yield the entries after the moment, up to the seq at which the next fork left, with their offsets."""
    for offset, entry in _read(reader, way):
        if way.stop_seq is None or entry.seq is None or entry.seq <= way.stop_seq:
            yield offset, entry


def _read(reader: LogReader, way: Origin) -> Iterator[tuple[int, Entry]]:
    past = way.state.offset
    if way.history is not None:
        yield from ((one.offset, one.entry) for one in way.history.entries if one.offset > past)
        return
    key = process_key(way.process_id)
    partition = partition_of(key, reader.partitions)
    for batch in reader.read(partition, past + 1, reader.watermarks(partition).high, {key}):
        for record, entry in entries_of(batch.records, reader):
            yield record.offset, entry


def _effects_in(state: State, statuses: tuple[str, ...]) -> list[str]:
    return [key for key, call in state.calls.items() if call.kind == "effect" and call.status in statuses]
