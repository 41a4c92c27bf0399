"""Run many processes again, some at a time, within a budget, and give each rerun a score.

Each rerun has an id that follows from its process and the label. So the same call, made again after a crash, goes on
with the reruns that were interrupted, and compares those that have ended without running them again.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from decimal import Decimal
from numbers import Real
from typing import Any

from seekpoint.producers.history.rerunning import Rerun
from seekpoint.schemas.errors import HandleLost, InvalidSetting, Retryable, SeekpointError
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.state.budget_sums import amount_of
from seekpoint.schemas.values.decimal_arithmetic import exact_sum, parse_decimal


class RerunLimits(FrozenStruct, frozen=True, kw_only=True):
    """The limits of many reruns: the number that run at once, and the cost of all."""

    concurrency: int = 8
    budget_usd: Decimal | None = None
    """No rerun begins once the reruns so far have cost this; those that run then end. None: no limit."""

    @classmethod
    def of(cls, concurrency: int, budget_usd: Decimal | str | None) -> RerunLimits:
        """Return the limits. Raises ``InvalidSetting``."""
        if concurrency < 1:
            raise InvalidSetting("at least one rerun runs at a time", found=concurrency)
        try:
            budget = None if budget_usd is None else amount_of(str(budget_usd))
        except ValueError:
            budget = Decimal(0)
        if budget is not None and not budget:
            raise InvalidSetting("a budget is a positive amount of USD, as text", found=repr(budget_usd)[:80])
        return cls(concurrency=concurrency, budget_usd=budget)


class ScoredRerun(FrozenStruct, frozen=True, kw_only=True):
    """One process of many: its rerun and its score, or why there is none."""

    process_id: str
    rerun: Rerun | None = None
    score: float | None = None
    """What the score function returned; None without one, and where it failed."""
    score_error: str | None = None
    skipped: str | None = None
    """Why the process was not run again."""


async def rerun_many(
    again: Callable[[str], Awaitable[Rerun]],
    process_ids: Iterable[str],
    limits: RerunLimits,
    score: Callable[[Rerun], Any] | None = None,
) -> AsyncIterator[ScoredRerun]:
    """Yield each process once its rerun has ended, in no order. ``again`` runs one process again.

    A process that cannot be run again is yielded with the reason. Raises ``Retryable`` and ``HandleLost``, as they
    concern the journal or the node: the reruns that are under way are released, and the same call goes on with them.
    """
    left, spent = iter(process_ids), Decimal(0)
    running = set[asyncio.Task[ScoredRerun]]()
    try:
        while True:
            running |= _begun(again, left, limits, len(running), spent, score)
            if not running:
                break
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                one = task.result()
                spent = exact_sum((spent, _cost(one)))
                yield one
        for process_id in left:
            yield ScoredRerun(process_id=process_id, skipped=f"the budget of {limits.budget_usd} USD is spent")
    finally:
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)


def _begun(
    again: Callable[[str], Awaitable[Rerun]],
    left: Iterator[str],
    limits: RerunLimits,
    running: int,
    spent: Decimal,
    score: Callable[[Rerun], Any] | None,
) -> set[asyncio.Task[ScoredRerun]]:
    """Begin as many more reruns as the limits allow."""
    begun = set[asyncio.Task[ScoredRerun]]()
    for _ in range(running, limits.concurrency):
        if limits.budget_usd is not None and limits.budget_usd <= spent:
            break
        process_id = next(left, None)
        if process_id is None:
            break
        begun.add(asyncio.create_task(_one(again, process_id, score)))
    return begun


async def _one(
    again: Callable[[str], Awaitable[Rerun]], process_id: str, score: Callable[[Rerun], Any] | None
) -> ScoredRerun:
    try:
        rerun = await again(process_id)
    except (HandleLost, Retryable):
        raise
    except SeekpointError as exc:
        return ScoredRerun(process_id=process_id, skipped=str(exc))
    if score is None:
        return ScoredRerun(process_id=process_id, rerun=rerun)
    try:
        found = score(rerun)
        number = _number(await found if inspect.isawaitable(found) else found)
    except Exception as exc:  # of the user's function: the rerun is paid for, and is not lost
        return ScoredRerun(process_id=process_id, rerun=rerun, score_error=f"{type(exc).__name__}: {exc}")
    return ScoredRerun(process_id=process_id, rerun=rerun, score=number)


def _number(found: Any) -> float:
    if not isinstance(found, Real | Decimal):
        raise InvalidSetting("a score is a number or a bool", found=repr(found)[:80])
    return float(found)


def _cost(one: ScoredRerun) -> Decimal:
    cost = None if one.rerun is None else one.rerun.difference.right.cost_usd
    return parse_decimal(cost or "0")
