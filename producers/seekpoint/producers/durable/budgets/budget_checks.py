"""Enforce budgets: admit a call by its estimate before it begins, and charge its usage when it ends.

The fold keeps the sums (``process_budget``): the start of a call reserves, its end charges, each once. This module
decides, before anything is sent, whether one more call fits the limits on ``tokens``, ``usd``, ``tool_calls``,
``model_calls``, ``irreversible_effects`` and ``wall_s`` (time spent in calls), for the run and for each UTC day.

    fits                    the call begins; the first that passes the share ``warn_at`` logs and journals a warning
    too much, "fail"        ``BudgetExceeded``: nothing was begun; the run fails, and resumes once the limit is raised
    too much, "pause"       as "fail", but the process is suspended, not failed
    too much, "escalate"    a gate ``budget:DIMENSION`` asks a person: approved raises the limit, denied is as "fail"
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from seekpoint.producers.durable.call_results import GateAnswer
from seekpoint.producers.durable.durable_process import DurableProcess
from seekpoint.producers.durable.waits.gate_calls import open_gate
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import BudgetExceeded, InvalidSetting
from seekpoint.schemas.state.budget_sums import DIMENSIONS, Budget, amounts_in
from seekpoint.schemas.state.lifecycle import Lifecycle
from seekpoint.schemas.values.decimal_arithmetic import EXACT, exact_sum, plain_text
from seekpoint.schemas.values.json_values import dump

if TYPE_CHECKING:
    from seekpoint.producers.durable.replay.history_matcher import CallPlace

logger = logging.getLogger("seekpoint.producers")

_ZERO = Decimal(0)
_DAY_US = 86_400_000_000
_EXACT_DIMENSIONS = frozenset({"tool_calls", "model_calls", "irreversible_effects"})
"""The usage of these is known before a call: one that uses none may begin if none are left."""
_SCOPES = {"run": "the whole process", "day": "this UTC day"}
"""The scopes of limits, as a person reads them: ``run`` counts what all runs of the process used."""


class Excess(NamedTuple):
    """A limit that one more call would exceed."""

    dimension: str
    scope: str
    limit: Decimal
    used: Decimal
    """The amount that is spent and reserved, without the call."""
    wanted: Decimal

    def texts(self) -> dict[str, str]:
        """Return the amounts as plain text."""
        return {"limit": plain_text(self.limit), "used": plain_text(self.used), "wanted": plain_text(self.wanted)}


async def admit(process: DurableProcess, place: CallPlace, wanted: Mapping[str, Any]) -> None:
    """Return once a call with the estimate ``wanted`` may begin. Raises ``BudgetExceeded``.

    Send the call's start without an ``await`` in between: the start reserves.
    """
    while (budget := process.ahead_budget) is not None:
        amounts = amounts_of(wanted)
        day = process.clock.now_us() // _DAY_US
        for scope, dimension, used, limit in warnings_of(budget, place.key, amounts, day):
            told = process.process_id, used, limit, dimension, _SCOPES[scope]
            logger.warning("process %s has used %s of %s %s (budget of %s)", *told)
            note = "warned", dimension, _note_scope(scope, day), place.key, plain_text(used), plain_text(limit)
            process.send(b.BudgetNoted(*note))
        excess = excess_of(budget, place.key, amounts, day)
        if excess is None:
            return
        await _exceeded(process, place, budget, excess)


async def _exceeded(process: DurableProcess, place: CallPlace, budget: Budget, excess: Excess) -> None:
    """Return if a person raised the limit; else raise ``BudgetExceeded``."""
    texts = excess.texts()
    process.send(b.BudgetNoted("exceeded", excess.dimension, excess.scope, place.key, texts["wanted"], texts["limit"]))
    if budget.on_exceed == "escalate" and await _escalated(process, place, excess):
        return
    if budget.on_exceed == "pause" and process.ahead_lifecycle is Lifecycle.RUNNING:
        process.send(b.LifecycleChanged(Lifecycle.SUSPENDED, f"budget: {excess.dimension}"))
    raise BudgetExceeded(
        "the budget does not allow one more call", process_id=process.process_id, key=place.key,
        dimension=excess.dimension, scope=excess.scope, on_exceed=budget.on_exceed,
        limit=texts["limit"], used=texts["used"], wanted=texts["wanted"],
    )  # fmt: skip


async def _escalated(process: DurableProcess, place: CallPlace, excess: Excess) -> bool:
    """Whether a person raised the limit so that the call fits: to the answer's limit, else to what the call needs."""
    texts = excess.texts()
    prompt = {"call": place.key, "dimension": excess.dimension, "scope": excess.scope, **texts}
    name = f"budget:{excess.dimension}"
    with process.matcher.inside(place) as scope:
        scope.position = -1  # at 0, in no order: a run that finds the limit raised opens no gate, or another one
        key = f"{name}:{excess.scope}:{texts['used']}+{texts['wanted']}>{texts['limit']}"
        answer = await open_gate(process, name, prompt=prompt, key=key)
    limit = _limit_in(answer, excess)
    if limit is None:
        process.send(b.BudgetNoted("refunded", excess.dimension, excess.scope, place.key, actor=answer.actor))
        return False
    await raise_budget(process, excess.dimension, limit, scope=excess.scope, actor=answer.actor, key=place.key)
    return limit >= EXACT.add(excess.used, excess.wanted) and limit > excess.used


def _limit_in(answer: GateAnswer, excess: Excess) -> Decimal | None:
    """Return the limit that the answer sets; None if it denies, or names no valid amount."""
    if not answer:
        return None
    offered = answer.payload.get("limit") if isinstance(answer.payload, dict) else None
    if offered is None:
        return EXACT.add(excess.used, max(excess.wanted, Decimal(1)))
    try:
        return amounts_of({excess.dimension: offered})[excess.dimension]
    except InvalidSetting as exc:  # not raised: the answer is recorded, so every later run would raise it too
        logger.warning("the limit that %s named is not valid: %s", answer.actor, exc)
        return None


async def raise_budget(
    process: DurableProcess,
    dimension: str,
    limit: Any,
    *,
    scope: str = "run",
    actor: str | None = None,
    key: str | None = None,
) -> None:
    """Set one limit to a new amount. Raises ``InvalidSetting`` for an unknown dimension or an invalid amount."""
    amount = amounts_of({dimension: limit})[dimension]
    await process.append(b.BudgetNoted("raised", dimension, scope, key, "0", plain_text(amount), actor))


# --- pure -------------------------------------------------------------------------------------------------------------
def excess_of(budget: Budget, key: str, wanted: Mapping[str, Decimal], day: int) -> Excess | None:
    """Return the first limit that the call ``key`` would exceed; None if it fits.

    A call without an estimate of a dimension may begin while any of that is left. Counts of calls need no estimate.
    """
    for scope, limits in (("run", budget.limits), ("day", budget.day_limits)):
        for dimension, limit in limits.items():
            used, more = _used(budget, key, dimension, scope, day), wanted.get(dimension, _ZERO)
            if EXACT.add(used, more) > limit if more else used >= limit and dimension not in _EXACT_DIMENSIONS:
                return Excess(dimension, scope, limit, used, more)
    return None


def warnings_of(
    budget: Budget, key: str, wanted: Mapping[str, Decimal], day: int
) -> list[tuple[str, str, Decimal, Decimal]]:
    """Return (scope, dimension, used with the call, limit) of each limit that needs its first warning."""
    found = []
    for scope, limits in (("run", budget.limits), ("day", budget.day_limits)):
        for dimension, limit in limits.items():
            used = EXACT.add(_used(budget, key, dimension, scope, day), wanted.get(dimension, _ZERO))
            warned = f"warned {dimension} {_note_scope(scope, day)}" in budget.noted
            if not warned and limit > 0 and used >= EXACT.multiply(budget.warn_at, limit):
                found.append((scope, dimension, used, limit))
    return found


def rest_of(budget: Budget, key: str, day: int) -> dict[str, Decimal]:
    """Return what the limits leave to the call ``key``: the least where a dimension has two, and never below 0."""
    rest: dict[str, Decimal] = {}
    for scope, limits in (("run", budget.limits), ("day", budget.day_limits)):
        for dimension, limit in limits.items():
            left = max(EXACT.subtract(limit, _used(budget, key, dimension, scope, day)), _ZERO)
            rest[dimension] = min(left, rest.get(dimension, left))
    return rest


def _used(budget: Budget, key: str, dimension: str, scope: str, day: int) -> Decimal:
    reserved = exact_sum(amounts.get(dimension, _ZERO) for one, amounts in budget.reserved.items() if one != key)
    if scope == "run":
        return EXACT.add(budget.used.get(dimension, _ZERO), reserved)
    return EXACT.add(budget.day_spent.get(dimension, _ZERO) if budget.day == day else _ZERO, reserved)


def _note_scope(scope: str, day: int) -> str:
    return f"day {day}" if scope == "day" else scope


def amount_texts(amounts: Mapping[str, Decimal]) -> b.Json:
    """Return the amounts as entries have them."""
    return dump({name: plain_text(amount) for name, amount in amounts.items()})


def amounts_of(wanted: Mapping[str, Any]) -> dict[str, Decimal]:
    """Return the exact amount of each dimension. Raises ``InvalidSetting``."""
    if not wanted:
        return {}
    try:
        return amounts_in(dump({name: str(value) for name, value in wanted.items() if value is not None}))
    except (ValueError, TypeError) as exc:
        raise InvalidSetting(
            f"not valid as amounts of a budget: {exc}",
            found=repr(dict(wanted))[:200],
            hint=f"dimensions: {', '.join(DIMENSIONS)}",
        ) from exc
