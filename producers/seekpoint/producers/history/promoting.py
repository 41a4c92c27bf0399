"""Merge what a fork did into the process that it was forked from: three-way, as one entry.

    base   the parent when it was forked        each part (a context value, the conversation, the calls):
    fork   the fork now                         changed on one side only -> that side's
    parent the parent now                       changed on both sides    -> a conflict, which ``prefer`` resolves

The calls go together with what they stand for: turns, lifecycle, invocations, patches. No effect is made again: those
of the parent stay, and the fork's records answer the code as in the fork. What a fork that acts for real (``live``) has
to undo, it goes on to owe itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from seekpoint.producers.history.content_parts import CALLS, changed_parts, part_of, take_part
from seekpoint.producers.history.history_reads import entries_after
from seekpoint.producers.opening import OpenRequest, end_restored_wait
from seekpoint.producers.process import durable_side
from seekpoint.producers.runs.run_outcomes import is_over
from seekpoint.producers.writer.pending import Cause
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import (
    ChildrenStand,
    EffectsStand,
    InvalidSetting,
    MergeConflict,
    ProcessFinished,
    Refused,
)
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.state.calls import UNDO
from seekpoint.schemas.values.process_ids import pasted

if TYPE_CHECKING:
    from seekpoint.producers.node_runtime import NodeRuntime
    from seekpoint.producers.opening import Opener
    from seekpoint.schemas.state.calls import Call
    from seekpoint.schemas.state.process_state import State

_SIDES = ("fork", "parent")


class PromoteRequest(FrozenStruct, frozen=True, kw_only=True):
    """A request to promote a fork. Raises ``InvalidSetting`` for an unknown side."""

    fork_id: str
    prefer: str | Mapping[str, str] | None = None
    """The side that wins a conflict, ``fork`` or ``parent``: for all parts, or by part (``calls``, ``conversation``,
    ``context.KEY``)."""
    reason: str | None = None
    actor: str | None = None
    take_over: bool = False
    """Whether to claim the parent though its owner looks alive."""

    def __post_init__(self) -> None:
        given = [self.prefer] if isinstance(self.prefer, str) else [*(self.prefer or {}).values()]
        if any(one not in _SIDES for one in given):
            raise InvalidSetting("no such side of a merge", found=repr(self.prefer)[:80], known=[*_SIDES])

    def side_of(self, part: str) -> str | None:
        """Return the side that wins a conflict of this part; None if nobody said."""
        return self.prefer if isinstance(self.prefer, str) or self.prefer is None else self.prefer.get(part)


class PromotePlan(FrozenStruct, frozen=True, kw_only=True):
    """The plan of a promotion. A dry run returns it and writes nothing."""

    fork_id: str
    parent_id: str
    fork_seq: int
    base_seq: int
    """The seq of the parent at which it was forked."""
    parent_entries: int
    """How many entries the parent's owners have written since."""
    taken: tuple[str, ...]
    """The parts that become the fork's."""
    kept: tuple[str, ...]
    """The parts that the parent has changed and that stay."""
    conflicts: tuple[str, ...]
    """The parts that both have changed, and that ``prefer`` does not resolve."""
    resolved: dict[str, str]
    """The parts that both have changed, with the side that wins."""


class _Merge(FrozenStruct, frozen=True):
    plan: PromotePlan
    content: str


async def plan_promotion(runtime: NodeRuntime, request: PromoteRequest) -> PromotePlan:
    """Return what the promotion would do. Nothing is written. Raises ``Refused`` for a process that is no fork."""
    parent_id = await _parent_of(runtime, request)
    parent = (await runtime.recovery.recover(parent_id, must_be_current=True)).state
    _refuse_ended(parent_id, parent)
    return (await _merged(runtime, request, parent_id, parent)).plan


async def promote(runtime: NodeRuntime, opener: Opener, request: PromoteRequest) -> PromotePlan:
    """Write the merged content to the parent and release it; return what was done. The fork stays as it is.

    Raises ``MergeConflict``, ``EffectsStand`` for effects that do not go together, ``ChildrenStand`` for running
    children that would have no record, ``Refused`` for a process that is no fork, ``ProcessFinished``, and what
    ``Node.open`` raises: nobody may own the parent.
    """
    _check_resolved(await plan_promotion(runtime, request))
    parent_id = await _parent_of(runtime, request)
    opening = OpenRequest(
        process_id=parent_id, take_over=request.take_over, cause=Cause(actor=request.actor), must_exist=True,
        refuse=lambda state: _refuse_ended(parent_id, state),
    )  # fmt: skip
    async with opener.opening(opening) as process:
        durable = durable_side(process)
        merge = await _merged(runtime, request, parent_id, durable.written)  # it may have gone on meanwhile
        _check_resolved(merge.plan)
        reason = None if request.reason is None else durable.settings.scrub(request.reason)
        await durable.append(b.Promoted(request.fork_id, merge.plan.fork_seq, merge.content, reason))
        durable.reset_after_rewind()
        await end_restored_wait(durable.session)
    return merge.plan


async def _parent_of(runtime: NodeRuntime, request: PromoteRequest) -> str:
    lineage = (await runtime.recovery.recover(request.fork_id, must_be_current=True)).state.lineage
    if lineage.parent_id is None:
        raise Refused(
            "the process is no fork: there is nothing to merge it into", process_id=request.fork_id,
            hint=f"seekpoint lineage {pasted(request.fork_id)} shows where a process comes from",
        )  # fmt: skip
    return lineage.parent_id


def _refuse_ended(parent_id: str, state: State) -> None:
    if state.finished:
        raise ProcessFinished("the parent is finished, nothing is merged into it", process_id=parent_id, seq=state.seq)
    if state.cancelled is not None:
        raise Refused(
            "the parent was cancelled, nothing is merged into it", process_id=parent_id, seq=state.seq,
            hint="go on with the fork itself",
        )  # fmt: skip


def _check_resolved(plan: PromotePlan) -> None:
    if plan.conflicts:
        raise MergeConflict(
            "the fork and its parent have changed the same", process_id=plan.parent_id, fork_id=plan.fork_id,
            parts=list(plan.conflicts),
        )  # fmt: skip


# --- the merge
async def _merged(runtime: NodeRuntime, request: PromoteRequest, parent_id: str, parent: State) -> _Merge:
    recover = runtime.recovery.recover
    fork = (await recover(request.fork_id, must_be_current=True)).state
    if fork.finished:  # its end is no part of its content, which may be dropped: the parent ends by itself
        fork = (await recover(request.fork_id, at_seq=fork.seq - 1)).state
    base_seq = fork.lineage.parent_seq or 0
    if base_seq < parent.deleted_seq:
        raise Refused(
            "the parent was deleted after it was forked: nothing brings its content back", process_id=parent_id,
            seq=base_seq, found=parent.deleted_seq, hint="go on with the fork itself",
        )  # fmt: skip
    base = (await recover(parent_id, at_seq=base_seq)).state
    since = await runtime.in_thread(lambda: entries_after(runtime.reader, parent_id, base))
    changed = {side: changed_parts(base, state) for side, state in (("fork", fork), ("parent", parent))}
    both = changed["fork"] & changed["parent"]
    both = {part for part in both if part_of(fork, part) != part_of(parent, part)}
    resolved = {part: side for part in sorted(both) if (side := request.side_of(part)) is not None}
    taken = (changed["fork"] - changed["parent"]) | {part for part, side in resolved.items() if side == "fork"}
    open_ = both - resolved.keys()
    plan = PromotePlan(
        fork_id=request.fork_id, parent_id=parent_id, fork_seq=fork.seq, base_seq=base_seq,
        parent_entries=sum(entry.seq is not None for entry in since), taken=tuple(sorted(taken)),
        kept=tuple(sorted(changed["parent"] - taken - open_)), conflicts=tuple(sorted(open_)),
        resolved=resolved,
    )  # fmt: skip
    if CALLS in taken:
        _check_effects(parent_id, base, fork, parent)
        await _check_children(runtime, parent_id, fork, parent)
    draft = parent.thaw()
    for part in taken:
        take_part(draft, fork, part)
    return _Merge(plan, draft.freeze().content_json())


def _check_effects(parent_id: str, base: State, fork: State, parent: State) -> None:
    """Raise ``EffectsStand`` for effects of the fork that its parent has otherwise: the parent's own ones stay."""
    keys = [key for key, call in fork.calls.items() if call.kind == "effect" and _differs(key, base, fork, parent)]
    if keys:
        raise EffectsStand(
            "the parent has made or undone effects that the fork has otherwise", process_id=parent_id, keys=keys,
            hint="fork the parent again; or undo what only the parent made: "
            f"seekpoint rewind {pasted(parent_id)} --before KEY --effects compensate",
        )  # fmt: skip


async def _check_children(runtime: NodeRuntime, parent_id: str, fork: State, parent: State) -> None:
    """Raise ``ChildrenStand`` for children of the parent that run, and of which its calls would have no record."""
    children = {key: call for key, call in parent.calls.items() if call.kind == "child" and call.status == "started"}
    lost = [call.facts["child_id"] for key, call in children.items() if not _is_same_child(call, fork.calls.get(key))]
    recovered = [(one, await runtime.recovery.recover(one, missing_ok=True, must_be_current=True)) for one in lost]
    if running := [one for one, found in recovered if found.known and not is_over(found.state)]:
        raise ChildrenStand(
            "the parent has spawned children that the fork does not have", process_id=parent_id, children=running,
            hint=f"let them end, or cancel them: seekpoint cancel {pasted(running[0])}; or fork the parent again",
        )  # fmt: skip


def _is_same_child(own: Call, other: Call | None) -> bool:
    return other is not None and other.kind == "child" and other.facts["child_id"] == own.facts["child_id"]


def _differs(key: str, base: State, fork: State, parent: State) -> bool:
    """Return whether an effect of the fork has another request or was undone in one of them, or is forgotten since."""
    own = parent.calls.get(key)
    if own is None or own.kind != "effect":
        return key in base.calls and parent.forgotten.get(key, 0) > base.forgotten.get(key, 0)
    is_undone = UNDO + key in parent.calls
    return own.digest != fork.calls[key].digest or is_undone is not (UNDO + key in fork.calls)
