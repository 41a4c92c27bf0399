"""Redrive a failed process: choose the calls that its next run makes again.

A recorded failure answers the code as a result does, so a repeated run fails at the same call. An entry that sets
failed calls aside lets the next run make them again. Recorded results stay.

The entry that records the exception of a run has the keys of the calls that the exception comes from.

A step in doubt is made again by any run that resumes, but with the attempts that it has left. A request to redrive may
ask to set those aside too: then they have all their attempts again, at once. Effects are never set aside.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from seekpoint.producers.durable.effects.compensation_names import UNDO
from seekpoint.producers.durable.failures.failed_calls import failed_calls, unfollowed_calls
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import Refused
from seekpoint.schemas.values.json_values import dump, load
from seekpoint.schemas.values.process_ids import pasted

if TYPE_CHECKING:
    from seekpoint.producers.durable.durable_process import DurableProcess
    from seekpoint.schemas.state.calls import Call

__all__ = ["next_action", "set_aside"]

_MADE_AGAIN = frozenset({"step", "decision", "sample", "child"})


async def set_aside(process: DurableProcess, keys_or_all: bool | Collection[str]) -> None:
    """Set aside the failed calls that ended the last run, or those of the given keys. Raises ``Refused``.

    Without keys, also set aside the steps and decisions in doubt if the request to redrive asks for it. Once a
    compensation has begun, no call is set aside: the calls would go on as if the effects were still in place.
    """
    calls = process.written.calls
    if isinstance(keys_or_all, bool):
        keys = [] if _is_compensated(calls) else [*await _last_failed(process), *_in_doubt(process)]
    else:
        if _is_compensated(calls):
            raise Refused(
                "the effects of the process were compensated: none of its calls is made again",
                process_id=process.process_id, hint="start it anew as another process",
            )  # fmt: skip
        keys = [keys_or_all] if isinstance(keys_or_all, str) else list(dict.fromkeys(keys_or_all))
        for key in keys:
            _check(process, key)
    if keys:
        await process.append(b.CallsSetAside(keys=dump(keys, process.limits)))


async def _last_failed(process: DurableProcess) -> list[str]:
    """Return the calls whose failure ended the last run; none if a later run has gone on and was cut off."""
    found = process.session.entries(process.process_id, kinds=[b.ErrorRecorded.KIND])
    written, ended = process.written, None
    async for one in found:
        body = one.entry.body
        if isinstance(body, b.ErrorRecorded) and body.call is None:
            ended = one.entry.seq or 0, body.failed
    if ended is None or ended[1] is None:
        return []
    ended_at = ended[0] + written.lineage.seq_base
    if any(call.seq > ended_at for call in written.calls.values()):
        return []
    return [key for key in load(ended[1]) if _has_failed(written.calls.get(key))]


def _in_doubt(process: DurableProcess) -> list[str]:
    """Return the steps and decisions in doubt if the request to redrive names them, in the order they began."""
    request, calls = process.written.redrive, process.written.calls
    if request is None or not request.in_doubt:
        return []
    found = [key for key, call in calls.items() if call.status == "started" and call.kind in ("step", "decision")]
    return sorted(found, key=lambda key: calls[key].seq)


def _is_compensated(calls: Mapping[str, Call]) -> bool:
    """Whether a compensation was made, is under way, or is in doubt."""
    return any(key.startswith(UNDO) and call.status != "failed" for key, call in calls.items())


def _has_failed(call: Call | None) -> bool:
    return call is not None and call.status == "failed" and call.kind in _MADE_AGAIN


def _check(process: DurableProcess, key: str) -> None:
    call = process.written.calls.get(key)
    if not _has_failed(call):
        raise Refused(
            "no step, decision, sample or child of this key has failed", process_id=process.process_id, key=key,
            found="nothing" if call is None else f"{call.kind}, {call.status}",
            hint=f"seekpoint steps {pasted(process.process_id)} shows what has failed; an effect that failed stays so",
        )  # fmt: skip


def next_action(process_id: str, error: BaseException, calls: Mapping[str, Call]) -> str:
    """Return what to do about a run that ``error`` ended, as a phrase for the command line."""
    keys = failed_calls(error)
    again = [key for key in unfollowed_calls(error, calls) if _has_failed(calls.get(key))]
    if _is_compensated(calls):
        return "its effects were or are being compensated: start it anew as another process"
    if again:
        return f"{', '.join(again[:3])} stays failed until you run it with --retry-failed"
    if keys:
        return (
            f"{keys[0]} stays failed, also with --retry-failed: change the code after it, or go back to before it with "
            "process.rewind(to_seq)"
        )
    return "that is recorded, run it again to resume"
