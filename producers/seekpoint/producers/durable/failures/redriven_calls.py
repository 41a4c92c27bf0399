"""Redrive a failed process: choose the calls that its next run makes again.

A recorded failure answers the code as a result does, so a repeated run fails at the same call. An entry that sets
failed calls aside lets the next run make them again. Recorded results stay.

The entry that records the exception of a run has the keys of the calls that the exception comes from.

A step in doubt is made again by any run that resumes, but with the attempts that it has left. A request to redrive may
ask to set those aside too: then they have all their attempts again, at once. A step or a decision that was set aside
may be asked something else, such as a mended prompt: its new start entry records that.

A failed effect is set aside only if somebody names it, if its failure shows that nothing was done (of an at-most-once
effect: that nothing was sent), and if it ended the last run: code that went on after it may have done the same
otherwise. The next call has the same idempotency key.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from typing import TYPE_CHECKING

from seekpoint.producers.durable.effects.compensation_names import UNDO
from seekpoint.producers.durable.failures.failed_calls import failed_calls, unfollowed_calls
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import Refused
from seekpoint.schemas.state.calls import may_be_redriven
from seekpoint.schemas.values.json_values import dump, load
from seekpoint.schemas.values.near_names import did_you_mean
from seekpoint.schemas.values.process_ids import pasted

if TYPE_CHECKING:
    from seekpoint.consumers.recovery.process_history import Logged
    from seekpoint.producers.durable.durable_process import DurableProcess
    from seekpoint.schemas.state.calls import Call
    from seekpoint.schemas.state.process_state import State

_MADE_AGAIN = frozenset({"step", "decision", "sample", "child"})


async def set_aside(process: DurableProcess, keys_or_all: bool | Collection[str]) -> None:
    """Set aside the failed calls that ended the last run, or those of the given keys. Raises ``Refused``.

    Without keys, also set aside what the request to redrive names: the steps and decisions in doubt, and effects. Once
    a compensation has begun, no call is set aside: the calls would go on as if the effects were still in place.
    """
    calls, process_id = process.written.calls, process.process_id
    ended = await _ended_by(process.session.entries(process_id, kinds=[b.ErrorRecorded.KIND]), process.written)
    if isinstance(keys_or_all, bool):
        keys = [] if _is_compensated(calls) else [*_last_failed(ended, calls), *_requested(ended, process.written)]
    else:
        keys = [keys_or_all] if isinstance(keys_or_all, str) else list(dict.fromkeys(keys_or_all))
        for key in keys:
            _check(process_id, process.written, key, ended)
    if keys:
        await process.append(b.CallsSetAside(keys=dump(keys, process.limits)))


async def check_effects(entries: AsyncIterator[Logged], process_id: str, state: State, keys: Collection[str]) -> None:
    """Raise ``Refused`` unless each of the keys is a failed effect that a redrive may make again. Read the history."""
    ended = await _ended_by(entries, state)
    for key in keys:
        call = state.calls.get(key)
        if call is None or call.kind != "effect":
            effects = [name for name, one in state.calls.items() if one.kind == "effect"]
            hint = did_you_mean(key, effects, f"seekpoint effects ls {pasted(process_id)}")
            raise _refused("there is no effect of this key", process_id, key, call, hint)
        _check(process_id, state, key, ended)


async def _ended_by(entries: AsyncIterator[Logged], state: State) -> list[str]:
    """Return the calls whose failure ended the last run; none if a later run has gone on and was cut off."""
    ended = None
    async for one in entries:
        body = one.entry.body
        if isinstance(body, b.ErrorRecorded) and body.call is None:
            ended = one.entry.seq or 0, body.failed
    if ended is None or ended[1] is None:
        return []
    ended_at = ended[0] + state.lineage.seq_base
    return [] if any(call.seq > ended_at for call in state.calls.values()) else load(ended[1])


def _last_failed(ended: list[str], calls: Mapping[str, Call]) -> list[str]:
    return [key for key in ended if _has_failed(calls.get(key))]


def _requested(ended: list[str], state: State) -> list[str]:
    """Return what the request to redrive names: steps and decisions in doubt, in the order they began, and effects."""
    request, calls = state.redrive, state.calls
    if request is None:
        return []
    found = [key for key, call in calls.items() if call.status == "started" and call.kind in ("step", "decision")]
    effects = [] if request.effects is None else load(request.effects)
    again = [key for key in dict.fromkeys(effects) if key in ended and may_be_redriven(calls[key])]
    return [*(sorted(found, key=lambda key: calls[key].seq) if request.in_doubt else ()), *again]


def _is_compensated(calls: Mapping[str, Call]) -> bool:
    """Whether a compensation was made, is under way, or is in doubt."""
    return any(key.startswith(UNDO) and call.status != "failed" for key, call in calls.items())


def _has_failed(call: Call | None) -> bool:
    return call is not None and call.status == "failed" and call.kind in _MADE_AGAIN


def _check(process_id: str, state: State, key: str, ended: list[str]) -> None:
    call = state.calls.get(key)
    if _is_compensated(state.calls):
        raise _refused(
            "the effects of the process were compensated: none of its calls is made again", process_id, key, call,
            "start it anew as another process",
        )  # fmt: skip
    if call is not None and call.kind == "effect" and call.status == "failed":
        _check_effect(process_id, key, call, ended)
    elif not _has_failed(call) and not _is_in_doubt(call):
        raise _refused(
            "no call of this key has failed, nor is it a step or a decision in doubt", process_id, key, call,
            did_you_mean(
                key, [name for name, one in state.calls.items() if _has_failed(one)] if call is None else (),
                f"seekpoint steps {pasted(process_id)} shows what has failed",
            ),
        )  # fmt: skip


def _check_effect(process_id: str, key: str, call: Call, ended: list[str]) -> None:
    anew = "go back to before it, or fork from there: seekpoint rewind, seekpoint fork"
    if not may_be_redriven(call):
        is_once = call.facts.get("semantics") == "at_most_once"
        what = "that nothing was sent" if is_once else "that nothing was done"
        raise _refused(f"the failure of the effect does not prove {what}: it stays failed", process_id, key, call, anew)
    if key not in ended:
        raise _refused("the code went on after the effect had failed: it stays failed", process_id, key, call, anew)


def _is_in_doubt(call: Call | None) -> bool:
    return call is not None and call.status == "started" and call.kind in ("step", "decision")


def _refused(message: str, process_id: str, key: str, call: Call | None, hint: str) -> Refused:
    found = "nothing" if call is None else f"{call.kind}, {call.status}"
    return Refused(message, process_id=process_id, key=key, found=found, hint=hint)


def next_action(process_id: str, error: BaseException, calls: Mapping[str, Call]) -> str:
    """Return what to do about a run that ``error`` ended, as a phrase for the command line."""
    keys, unfollowed = failed_calls(error), unfollowed_calls(error, calls)
    again = [key for key in unfollowed if _has_failed(calls.get(key))]
    if _is_compensated(calls):
        return "its effects were or are being compensated: start it anew as another process"
    if again:
        return f"{', '.join(again[:3])} stays failed until you run it with --retry-failed"
    if effects := [key for key in unfollowed if key in calls and may_be_redriven(calls[key])]:
        return f"{effects[0]} did nothing: once the cause is gone, redrive it with --effect {pasted(effects[0])}"
    if keys:
        return (
            f"{keys[0]} stays failed, also with --retry-failed: change the code after it, or go back to before it with "
            "process.rewind(to_seq)"
        )
    return "that is recorded, run it again to resume"
