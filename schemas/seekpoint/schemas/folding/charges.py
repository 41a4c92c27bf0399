"""The amounts that a call reserves from the budget at its start and charges to it at its end."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import orjson

from seekpoint.schemas.state.budget_sums import Budget, amounts_in
from seekpoint.schemas.state.calls import Call
from seekpoint.schemas.values.decimal_arithmetic import EXACT

AMOUNT_ERRORS = (ValueError, LookupError, TypeError, ArithmeticError)
"""The exceptions that malformed amounts raise."""
_MILLION = Decimal(1_000_000)


def reserve(budget: Budget | None, body: Any) -> Budget | None:
    """Return ``budget`` with the estimate of ``body``, a start, reserved. A malformed one raises ``AMOUNT_ERRORS``."""
    estimate = getattr(body, "estimate", None)
    irreversible = getattr(body, "irreversible", False)
    if estimate is None and not irreversible:
        return budget
    amounts = amounts_in(estimate)
    if irreversible:
        amounts["irreversible_effects"] = Decimal(1)
    return None if budget is None else budget.reserve(body.key, amounts)


def charge(budget: Budget, body: Any, call: Call) -> Budget:
    """Return ``budget`` charged with the usage in ``body``, an end, and the counts that the kind of ``call`` implies.

    What an end does not tell is charged as it was estimated: unknown is not free. A failed effect is not counted.
    Malformed usage raises ``AMOUNT_ERRORS``.
    """
    used = _used_in(body)
    if call.kind == "decision":
        used.setdefault("model_calls", Decimal(1))
    if (
        call.kind == "effect"
        and call.status == "failed"
        and "irreversible_effects" in budget.reserved.get(body.key, {})
    ):
        used["irreversible_effects"] = Decimal(0)
    is_last = call.status not in ("started", "unknown", "stuck")
    if is_last:
        used = {**budget.reserved.get(body.key, {}), **used}
    return budget.charge(body.key, used, body.ended_at_us, is_last=is_last)


def _used_in(body: Any) -> dict[str, Decimal]:
    """Return the amounts in an end: the sum of tokens, the cost, the duration, and counts by dimension."""
    usage = {} if body.usage is None else orjson.loads(body.usage)
    used: dict[str, Decimal] = {"wall_s": EXACT.divide(Decimal(max(body.duration_us, 0)), _MILLION)}
    if type(usage) is not dict:
        raise ValueError("a usage is an object")
    if type(usage.get("input_tokens")) is int and type(usage.get("output_tokens")) is int:
        names = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens")
        used["tokens"] = Decimal(sum(_count_in(usage, name) for name in names))
    counts = {name: usage[name] for name in ("tool_calls", "model_calls", "tokens") if name in usage}
    used |= amounts_in(orjson.dumps(counts).decode())
    if body.cost_usd is not None:
        used |= amounts_in(orjson.dumps({"usd": body.cost_usd}).decode())
    return used


def _count_in(usage: dict[str, Any], name: str) -> int:
    count = usage.get(name)
    if count is not None and type(count) is not int:
        raise ValueError("tokens are counted in whole numbers")
    return max(count or 0, 0)
