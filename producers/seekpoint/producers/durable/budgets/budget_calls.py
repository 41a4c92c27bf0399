"""Limit what a process may use. ``budget_checks`` enforces the limits."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from seekpoint.producers.durable.durable_process import DurableCalls, DurableProcess
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import InvalidSetting
from seekpoint.schemas.values.decimal_arithmetic import plain_text
from seekpoint.schemas.values.json_values import dump

if TYPE_CHECKING:
    from seekpoint.producers.durable.replay.history_matcher import CallPlace


class BudgetCalls(DurableCalls):
    """The budget calls of a process."""

    async def set_budget(
        self,
        limits: Mapping[str, Any] | None = None,
        *,
        a_day: Mapping[str, Any] | None = None,
        warn_at: float | str | Decimal = "0.8",
        on_exceed: str = "fail",
    ) -> None:
        """Limit the usage of the process: ``set_budget({"usd": "5.00", "model_calls": 40})``; ``a_day``: each UTC day.

        A run that follows does not set it again, so limits that a person has raised stay. What calls used before counts
        too. A call without an estimate begins while anything is left, and is charged when it ends: so the last one may
        exceed the limit. An ``estimate`` is reserved, and is refused where it does not fit. Amounts are exact: texts,
        whole numbers or Decimals. ``on_exceed``: ``fail``, ``pause`` or ``escalate``. Raises ``InvalidSetting``.
        """
        process = self._durable
        whole, day = _texts(limits), _texts(a_day)
        if on_exceed not in ("fail", "pause", "escalate"):
            raise InvalidSetting("an exceeded budget can fail, pause or escalate", on_exceed=on_exceed)
        share = plain_text(warn_at) if isinstance(warn_at, Decimal) else str(warn_at)
        text = dump([whole, day, share, on_exceed])
        place = process.matcher.place("sample", "budget", "")
        if place.record is None:
            set_now = b.BudgetSet(dump(whole), dump(day), share, on_exceed)
            await process.in_order(place, _set, process, place, set_now, text)


async def _set(process: DurableProcess, place: CallPlace, body: b.BudgetSet, text: b.Json) -> None:
    process.send(body)
    await process.append(b.Sampled(place.key, place.position, "budget", "", text))


def _texts(limits: Mapping[str, Any] | None) -> dict[str, str]:
    from seekpoint.producers.durable.budgets.budget_checks import amounts_of

    return {name: plain_text(amount) for name, amount in amounts_of(limits or {}).items()}
