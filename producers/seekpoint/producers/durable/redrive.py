"""Failed calls that are made again: which of them a run may set aside, and what to do about one that failed.

A failure answers the code as a result does, so a run that is repeated ends where it ended. An entry that sets failed
calls aside makes of each what an attempt that is tried again leaves. What succeeded stays, and is never run again.

The entry that records the exception which ended a run has the keys of the calls whose failure it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from seekpoint.producers.durable.effect_knowledge import UNDO
from seekpoint.producers.durable.failed_calls import failed_calls
from seekpoint.producers.durable.scopes import parent_scope
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import Refused
from seekpoint.schemas.values import dump, load

if TYPE_CHECKING:
    from seekpoint.producers.process import Process
    from seekpoint.schemas.calls import Call

__all__ = ["set_aside", "way_on"]

_MADE_AGAIN = frozenset({"step", "decision", "child"})


async def set_aside(process: Process, asked: bool | Collection[str]) -> None:
    """Set aside the failed calls that ended the last run, or those of the keys in ``asked``. Raises ``Refused``."""
    if isinstance(asked, bool):
        keys = [key for key in await _last_failed(process) if _may(key, process.written.calls)]
    else:
        keys = [asked] if isinstance(asked, str) else list(dict.fromkeys(asked))
        for key in keys:
            _check(process, key)
    if keys:
        await process.append(b.CallsSetAside(keys=dump(keys, process.limits)))


async def _last_failed(process: Process) -> list[str]:
    kinds = [b.ErrorRecorded.KIND]
    found = [one.entry.body async for one in process.node.entries(process.process_id, kinds=kinds)]
    last = found[-1] if found else None
    return load(last.failed) if isinstance(last, b.ErrorRecorded) and last.failed else []


def _may(key: str, calls: Mapping[str, Call]) -> bool:
    """Whether ``key`` may be set aside unasked: not where the code caught its failure and wrote content, then raised
    it. The history has that write, and code in which the call succeeds does not ask for it."""
    failed = calls.get(key)
    if not _has_failed(failed):
        return False
    assert failed is not None
    scope = parent_scope(key)
    return not any(
        call.kind == "write" and call.seq > failed.seq and call.position > failed.position
        for other, call in calls.items()
        if parent_scope(other) == scope
    )


def _has_failed(call: Call | None) -> bool:
    return call is not None and call.status == "failed" and call.kind in _MADE_AGAIN


def _check(process: Process, key: str) -> None:
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
    again = [key for key in keys if _may(key, calls)]
    if any(key.startswith(UNDO) and call.status == "succeeded" for key, call in calls.items()):
        return "what its effects did was taken back: start it anew as another process"
    if again:
        return f"{', '.join(again[:3])} stays failed until you run it with --retry-failed"
    if keys:
        return (
            f"{keys[0]} stays failed, also with --retry-failed: change what the code does behind it, or go back to "
            "before it with process.rewind(to_seq)"
        )
    return "that is recorded, run it again to resume"
