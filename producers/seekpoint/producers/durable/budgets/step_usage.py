"""Read what a step says that it used: amounts by dimension of a budget, or tokens."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from seekpoint.producers.durable.budgets.budget_checks import amounts_of
from seekpoint.producers.durable.decisions.usage import Usage
from seekpoint.schemas.config.error_texts import error_line
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import InvalidSetting
from seekpoint.schemas.values.decimal_arithmetic import plain_text

logger = logging.getLogger("seekpoint.producers")

Used: TypeAlias = Usage | Mapping[str, Any] | Callable[[Any], Usage | Mapping[str, Any] | None] | None
"""What a step used: tokens, amounts by dimension of a budget, or a function of its result that returns one of them."""


def check_used(used: Used) -> None:
    """Raise ``InvalidSetting`` for a step's ``usage=`` that is neither amounts, nor a ``Usage``, nor a function."""
    if not callable(used):
        _spent(used)


def used_by(used: Used, result: Any, key: str, settings: Settings) -> dict[str, Any]:
    """Return the usage and the cost of a step that returned ``result``; {} where its function does not tell."""
    try:
        return _spent(used(result) if callable(used) else used)
    except Exception as exc:  # of the user's function: another call would cost again, and fail again
        logger.warning("%s: its usage cannot be read: %s", key, error_line(exc, settings))
        return {}


def _spent(used: object) -> dict[str, Any]:
    if used is None:
        return {}
    if isinstance(used, Usage):
        return {"usage": used.to_dict()}
    if not isinstance(used, Mapping) or not used.keys() <= _OF_A_STEP:
        raise InvalidSetting(
            f"usage= is a Usage, a dict with some of {', '.join(sorted(_OF_A_STEP))}, or a function that returns one",
            usage=repr(used)[:80],
        )
    amounts = {name: plain_text(amount) for name, amount in amounts_of(used).items()}
    return {"cost_usd": amounts.pop("usd", None), "usage": amounts}


_OF_A_STEP = frozenset({"usd", "tokens", "tool_calls", "model_calls"})
