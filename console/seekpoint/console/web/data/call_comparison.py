"""The first difference between the calls of two processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.values.process_ids import pasted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from seekpoint.console.services.arguments.target import CommandTarget
    from seekpoint.console.web.data.histories import Histories
    from seekpoint.producers.history.comparing import ComparedCall, ProcessDiff


class FirstDifference(FrozenStruct, frozen=True, kw_only=True):
    """The first call that differs, or that only one process has."""

    key: str
    kind: str
    number: int | None
    """Its place among the calls of the process, from 0; None: the process does not have it."""
    other_number: int | None
    """Its place among the calls of the other process; None: that one does not have it."""
    status: str | None
    other_status: str | None
    difference: str | None
    """Where requests or answers first differ, from the process to the other one."""


class CallComparison(FrozenStruct, frozen=True, kw_only=True):
    """The differences between the calls of two processes, as of now."""

    process_id: str
    other_id: str
    same: int
    """How many calls are the same in both."""
    changed: int
    only_here: int
    only_there: int
    first: FirstDifference | None
    """None: all calls are the same."""
    command: str
    """It compares both with all that they have."""


def compare_calls(target: CommandTarget, histories: Histories, process_id: str, other_id: str) -> CallComparison:
    """Compare the calls of two processes. Blocks; reads both histories. Raises ``JournalGap``."""
    from seekpoint.consumers.recovery.process_history import whole_history
    from seekpoint.producers.history.comparing import compare

    one, other = whole_history(target.recoverer, process_id), whole_history(target.recoverer, other_id)
    found = compare(one, other, None, None, target.log.limits)
    numbers = _numbers(histories, process_id), _numbers(histories, other_id)
    return CallComparison(
        process_id=process_id, other_id=other_id, same=found.same_calls, changed=len(found.changed),
        only_here=len(found.only_left), only_there=len(found.only_right), first=first_of(found, *numbers),
        command=f"seekpoint diff {pasted(process_id, other_id)}",
    )  # fmt: skip


def _numbers(histories: Histories, process_id: str) -> dict[str, int]:
    """Return the numbers of the calls by key; of two calls with one key that of the later one."""
    history = histories.of(process_id)
    history.read()
    with history.lock:
        return {call.key: number for number, call in enumerate(history.calls())}


def first_of(found: ProcessDiff, here: dict[str, int], there: dict[str, int]) -> FirstDifference | None:
    """Return the call that differs and began first, in either process; of two the one of the left process. Pure."""
    left = _earliest((*found.changed, *found.only_left), here)
    right = _earliest(found.only_right, there)
    chosen = left or right
    if left is not None and right is not None and there.get(right.key, -1) < here.get(left.key, -1):
        chosen = right
    if chosen is None:
        return None
    return FirstDifference(
        key=chosen.key, kind=chosen.kind, number=here.get(chosen.key) if chosen.left else None,
        other_number=there.get(chosen.key) if chosen.right else None, status=chosen.left, other_status=chosen.right,
        difference=chosen.difference,
    )  # fmt: skip


def _earliest(calls: Iterable[ComparedCall], numbers: dict[str, int]) -> ComparedCall | None:
    return min(calls, key=lambda call: numbers.get(call.key, -1), default=None)
