"""Go back in a process: compute the content of an earlier moment, and write it as one entry.

    a moment of the history  + other answers  + what a mode keeps of today  ->  ``Rewound``

The fold restores what the entry carries (rule O7), so a crash comes before the whole operation or after it. The history
stays. Effects stay too: none is called again, whatever answers the code gets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import field

from seekpoint.producers.durable.effects.compensation_runs import settle_obligation
from seekpoint.producers.durable.effects.rewind_content import content_to_rewind_to
from seekpoint.producers.durable.replay.call_records import asked, total_cost
from seekpoint.producers.durable.replay.recorded_run import applied
from seekpoint.producers.history.history_points import HistoryPoint
from seekpoint.producers.history.history_reads import entries_after
from seekpoint.producers.history.other_answers import other_shapes, put_answers
from seekpoint.producers.opening import OpenRequest, end_restored_wait
from seekpoint.producers.process import durable_side
from seekpoint.producers.writer.pending import Cause
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import EffectsStand, InvalidSetting, ProcessFinished, Refused, UnknownProcess
from seekpoint.schemas.folding.content_rules import REWIND_MODES
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.state.calls import UNDO, is_compensated
from seekpoint.schemas.values.json_values import dump
from seekpoint.schemas.values.process_ids import pasted

if TYPE_CHECKING:
    from seekpoint.producers.durable.durable_process import DurableProcess
    from seekpoint.producers.node_runtime import NodeRuntime
    from seekpoint.producers.opening import Opener
    from seekpoint.schemas.bodies.entry import Entry
    from seekpoint.schemas.state.process_state import State

__all__ = ["RewindPlan", "RewindRequest", "plan_rewind", "rewind"]

EFFECT_WAYS = ("keep", "compensate")
"""What may become of the effects that another answer led to: they stay as facts, or they are compensated first."""


class RewindRequest(FrozenStruct, frozen=True, kw_only=True):
    """A request to rewind. Raises ``InvalidSetting`` for an unknown mode, and for options that exclude each other."""

    process_id: str
    to: HistoryPoint | None = None
    """None: the end of the call that gets another answer; in the mode ``summarize`` nothing is restored."""
    mode: str = "both"
    answers: Mapping[str, Any] = field(default_factory=dict)
    """Other answers, by the keys of calls that have ended at the point."""
    effects: str | None = None
    note: str | None = None
    """The system message that the mode ``summarize`` adds."""
    reason: str | None = None
    actor: str | None = None
    take_over: bool = False
    expected_seq: int | None = None
    """The newest seq that the process must have; None: any."""

    def __post_init__(self) -> None:
        if self.mode not in REWIND_MODES:
            raise InvalidSetting("no such mode of a rewind", found=repr(self.mode)[:80], known=[*REWIND_MODES])
        if self.effects is not None and self.effects not in EFFECT_WAYS:
            raise InvalidSetting("no such way for effects", found=repr(self.effects)[:80], known=[*EFFECT_WAYS])
        is_note = self.mode == "summarize"
        if (self.note is not None) != is_note:
            raise InvalidSetting(
                "a note is what the mode summarize adds", found=self.mode, hint="give both, or neither"
            )
        if self.answers and self.mode != "both":
            raise InvalidSetting("other answers need the mode both", found=self.mode)
        if self.to is None and not is_note and len(self.answers) != 1:
            raise InvalidSetting("a rewind needs a moment to go back to", hint="a seq, a time, a call or a turn")

    @property
    def point(self) -> HistoryPoint | None:
        """The moment to go back to; None if nothing is restored."""
        if self.to is None and self.answers:
            return HistoryPoint.after(next(iter(self.answers)))
        return self.to


class ForgottenCall(FrozenStruct, frozen=True, kw_only=True):
    """A call after the moment: the code makes it again, or something else."""

    key: str
    kind: str
    status: str
    cost_usd: str | None


class RewindPlan(FrozenStruct, frozen=True, kw_only=True):
    """The plan of a rewind. A dry run returns it and writes nothing."""

    process_id: str
    mode: str
    to_seq: int
    seq: int
    """The newest seq before the rewind."""
    turn: int
    """How many turns are over at the moment."""
    entries: int
    """How many entries of owners were written since."""
    messages: int
    """How many messages the conversation loses; negative if it gains some."""
    values: tuple[str, ...]
    """The keys of the context values that change."""
    calls: tuple[ForgottenCall, ...]
    """The calls that are forgotten, in the order in which they began."""
    effects: tuple[str, ...]
    """The keys of effects from after the moment that stay: they answer an equal request, and are not called again."""
    compensated: tuple[str, ...]
    """The keys of effects from after the moment that are undone outside: their keys may be used again."""
    cost_usd: str | None
    """What the forgotten calls had cost; None if no cost is known."""
    answers: tuple[str, ...]
    """The keys of the calls that get another answer."""
    other_shapes: tuple[str, ...] = ()
    """What these answers have another shape in than the recorded ones."""


async def plan_rewind(runtime: NodeRuntime, request: RewindRequest) -> RewindPlan:
    """Return what the rewind would do to the process as it is now. Nothing is written.

    Raises ``UnknownProcess``, ``ProcessFinished``, ``JournalGap`` where its history was trimmed, and ``Refused``, also
    for a process that was cancelled.
    """
    recovered = await runtime.recovery.recover(request.process_id, missing_ok=True, must_be_current=True)
    if not recovered.known:
        raise UnknownProcess("no such process, nothing was rewound", process_id=request.process_id)
    now = recovered.state
    _refuse_ended(request.process_id, now)
    past, later = await _past(runtime, request, now)
    if request.answers:
        put_answers(past.thaw(), request.answers, request.process_id, runtime.reader.limits)
    plan = _plan(request, past, now, later)
    _check_compensations(request, plan, now)
    return plan


async def rewind(runtime: NodeRuntime, opener: Opener, request: RewindRequest) -> RewindPlan:
    """Rewind the process and release it; return what was done. The next run, or a worker, goes on from there.

    Raises what ``plan_rewind`` and ``Node.open`` raise; ``EffectsStand`` where another answer leaves effects standing
    and ``effects`` does not say what becomes of them; ``EffectUnknown`` and ``EffectFailed`` if one cannot be
    compensated; ``LimitExceeded``.
    """
    _check_effects(request, await plan_rewind(runtime, request))
    cause = Cause(actor=request.actor)
    opening = OpenRequest(
        process_id=request.process_id, take_over=request.take_over, cause=cause, must_exist=True,
        refuse=lambda state: _refuse_ended(request.process_id, state),
    )  # fmt: skip
    async with opener.opening(opening) as process:
        durable = durable_side(process)
        _refuse_moved(request, durable.written)
        past, later = await _past(runtime, request, durable.written)  # another owner may have gone on meanwhile
        plan = _plan(request, past, durable.written, later)
        _check_effects(request, plan)
        _check_compensations(request, plan, durable.written)
        if request.effects == "compensate" and plan.effects:
            await _compensate(durable, plan.effects)
            plan = _plan(request, past, durable.written, later)
        await durable.confirm()
        content = await runtime.in_thread(lambda: _content(runtime, request, past, durable.written))
        await durable.append(
            b.Rewound(
                plan.to_seq, content, mode=request.mode,
                answers=dump([*request.answers], durable.limits) if request.answers else None,
                reason=None if request.reason is None else durable.settings.scrub(request.reason),
            )
        )  # fmt: skip
        durable.reset_after_rewind()
        await end_restored_wait(durable.session)
    return plan


def _refuse_ended(process_id: str, state: State) -> None:
    """Raise why the process does not go back: no code would go on with it."""
    hint = f"fork it: seekpoint fork {pasted(process_id)} NEW_ID --at-seq SEQ"
    if state.finished:
        raise ProcessFinished("a finished process does not go back", process_id=process_id, seq=state.seq, hint=hint)
    if state.cancelled is not None:
        raise Refused("a cancelled process does not go back", process_id=process_id, seq=state.seq, hint=hint)


def _refuse_moved(request: RewindRequest, state: State) -> None:
    """Raise if the process, which nobody else owns any more, went on since somebody looked at it."""
    if request.expected_seq is not None and state.seq != request.expected_seq:
        raise Refused(
            "the process went on, nothing was rewound", process_id=request.process_id, found=state.seq,
            seq=request.expected_seq, hint="look at it again, and decide again",
        )  # fmt: skip


# --- the past
async def _past(runtime: NodeRuntime, request: RewindRequest, now: State) -> tuple[State, list[Entry]]:
    """Return the state at the moment, and the entries that were applied since."""
    entries, process_id = runtime.recovery.entries, request.process_id
    point = request.point
    if point is None:
        return now, []
    if point.kind == "seq":
        to_seq = point.at
    else:
        to_seq = point.seq_in(applied([one async for one in entries(process_id)], runtime.reader.limits), process_id)
    if type(to_seq) is not int or not now.deleted_seq < to_seq <= now.seq:
        raise Refused(
            "there is no such seq to rewind to", process_id=process_id, found=to_seq, seq=now.seq,
            hint=f"look with seekpoint log {pasted(process_id)}",
        )  # fmt: skip
    past = (await runtime.recovery.recover(process_id, at_seq=to_seq)).state
    return past, await runtime.in_thread(lambda: entries_after(runtime.reader, process_id, past))


def _plan(request: RewindRequest, past: State, now: State, later: list[Entry]) -> RewindPlan:
    is_whole = request.mode in ("both", "code_only")
    calls = asked(later) if is_whole else []
    effects = [one.key for one in calls if one.kind == "effect" and not one.key.startswith(UNDO)]
    made = {one.key for one in calls if one.status == "succeeded"}
    undone = {key for key in effects if UNDO + key in made or is_compensated(key, now.calls)}
    messages = len(now.conversation) - len(past.conversation)
    values = {key for key in {*past.values_json, *now.values_json} if _differs(past, now, key)} if is_whole else ()
    return RewindPlan(
        process_id=request.process_id, mode=request.mode, to_seq=past.seq, seq=now.seq, turn=past.turn,
        entries=now.seq - past.seq,
        messages={"code_only": 0, "summarize": -1}.get(request.mode, messages),
        values=tuple(sorted(values)),
        calls=tuple(
            ForgottenCall(
                key=one.key, kind=one.kind, status=one.status,
                cost_usd=None if one.cost_usd is None else format(one.cost_usd, "f"),
            )
            for one in calls if one.kind != "effect"
        ),
        effects=tuple(key for key in effects if key not in undone),
        compensated=tuple(key for key in effects if key in undone),
        cost_usd=total_cost(calls),
        answers=tuple(request.answers),
        other_shapes=tuple(other_shapes(past.calls, request.answers)),
    )  # fmt: skip


def _differs(past: State, now: State, key: str) -> bool:
    return past.values_json.get(key) != now.values_json.get(key)


# --- effects
def _check_effects(request: RewindRequest, plan: RewindPlan) -> None:
    if request.answers and plan.effects and request.effects is None:
        raise EffectsStand(
            "effects were made because of the answer that is replaced", process_id=plan.process_id,
            keys=list(plan.effects),
            hint="compensate them first (effects=compensate), or let them stay as facts that the code may read (keep)",
        )  # fmt: skip


def _check_compensations(request: RewindRequest, plan: RewindPlan, now: State) -> None:
    """Raise ``EffectsStand`` before anything is done if an effect to compensate has no compensation."""
    owed = {one.key for one in now.owed}
    left = [key for key in plan.effects if key not in owed] if request.effects == "compensate" else []
    if left:
        raise EffectsStand(
            "effects have no compensation that is owed", process_id=plan.process_id, keys=left,
            hint="undo them by hand and let them stay (keep); or go back to a moment after them",
        )  # fmt: skip


async def _compensate(process: DurableProcess, keys: tuple[str, ...]) -> None:
    """Compensate effects, the newest first. Raises ``EffectUnknown`` and ``EffectFailed`` where that does not work."""
    owed = {one.key: one for one in process.written.obligations}
    for key in reversed(keys):
        await settle_obligation(process, owed[key])


# --- the content
def _content(runtime: NodeRuntime, request: RewindRequest, past: State, now: State) -> b.Json:
    """Return the content that the fold is to restore. Blocks."""
    if request.mode in ("conversation_only", "summarize"):
        draft = now.thaw()
        if request.note is None:
            draft.conversation = past.conversation
        else:
            draft.conversation = now.conversation.append(b.MessageSaid("system", runtime.settings.scrub(request.note)))
        return draft.freeze().content_json()
    draft = past.thaw()
    put_answers(draft, request.answers, request.process_id, runtime.reader.limits, request.actor)
    if request.mode == "code_only":
        draft.conversation = now.conversation
    return content_to_rewind_to(runtime.reader, request.process_id, draft.freeze(), now)
