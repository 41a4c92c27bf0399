"""Failed calls that are made again: which of them a run may set aside, and what to do about one that failed.

A failure answers the code as a result does, so a run that is repeated ends where it ended. An entry that sets failed
calls aside makes of each what an attempt that is tried again leaves. What succeeded stays, and is never run again.

The entry that records the exception which ended a run has the keys of the calls whose failure it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from seekpoint.producers.durable.effects.compensations import UNDO
from seekpoint.producers.durable.failures.failed_calls import failed_calls, unfollowed_calls
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import Refused
from seekpoint.schemas.values.json_values import dump, load

if TYPE_CHECKING:
    from seekpoint.producers.durable.durable_process import DurableProcess
    from seekpoint.schemas.state.calls import Call

__all__ = ["set_aside", "way_on"]

_MADE_AGAIN = frozenset({"step", "decision", "child"})


async def set_aside(process: DurableProcess, asked: bool | Collection[str]) -> None:
    """Set aside the failed calls that ended the last run, or those of the keys in ``asked``. Raises ``Refused``.

    Not those of a process whose effects were taken back, or are being: made again, its calls would end it as if those
    effects stood.
    """
    calls = process.written.calls
    if isinstance(asked, bool):
        keys = [] if _is_taken_back(calls) else await _last_failed(process)
    else:
        if _is_taken_back(calls):
            raise Refused(
                "what the effects of the process did was taken back: no call of it is made again",
                process_id=process.process_id, hint="start it anew as another process",
            )  # fmt: skip
        keys = [asked] if isinstance(asked, str) else list(dict.fromkeys(asked))
        for key in keys:
            _check(process, key)
    if keys:
        await process.append(b.CallsSetAside(keys=dump(keys, process.limits)))


async def _last_failed(process: DurableProcess) -> list[str]:
    """The calls that the last run ended with; none if a run that was cut off has gone on since."""
    found = process.session.entries(process.process_id, kinds=[b.ErrorRecorded.KIND])
    written, ended = process.written, None
    async for one in found:
        body = one.entry.body
        if isinstance(body, b.ErrorRecorded) and body.call is None:
            ended = one.entry.seq or 0, body.failed
    if ended is None or ended[1] is None:
        return []
    counts = written.lineage.parent_id is None  # what a fork inherits has the seqs of its parent
    if counts and any(call.seq > ended[0] for call in written.calls.values()):
        return []
    return [key for key in load(ended[1]) if _has_failed(written.calls.get(key))]


def _is_taken_back(calls: Mapping[str, Call]) -> bool:
    """Whether a compensation was made, is under way, or is in doubt."""
    return any(key.startswith(UNDO) and call.status != "failed" for key, call in calls.items())


def _has_failed(call: Call | None) -> bool:
    return call is not None and call.status == "failed" and call.kind in _MADE_AGAIN


def _check(process: DurableProcess, key: str) -> None:
    call = process.written.calls.get(key)
    if not _has_failed(call):
        raise Refused(
            "no step, decision or child of this key has failed", process_id=process.process_id, key=key,
            found="nothing" if call is None else f"{call.kind}, {call.status}",
            hint=f"seekpoint steps {process.process_id} shows what has failed; an effect that failed stays so",
        )  # fmt: skip


def way_on(process_id: str, error: BaseException, calls: Mapping[str, Call]) -> str:
    """What to do about a run that ``error`` ended, in words that are true of what its process remembers."""
    keys = failed_calls(error)
    again = [key for key in unfollowed_calls(error, calls) if _has_failed(calls.get(key))]
    if _is_taken_back(calls):
        return "what its effects did was taken back, or was to be: start it anew as another process"
    if again:
        return f"{', '.join(again[:3])} stays failed until you run it with --retry-failed"
    if keys:
        return (
            f"{keys[0]} stays failed, also with --retry-failed: change what the code does behind it, or go back to "
            "before it with process.rewind(to_seq)"
        )
    return "that is recorded, run it again to resume"
