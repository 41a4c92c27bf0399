"""Look up prices of tokens in the user's table, in USD a million tokens. An unknown model costs None, never 0."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from seekpoint.producers.durable.decisions.usage import Usage
from seekpoint.schemas.errors import InvalidSetting
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.values.decimal_arithmetic import EXACT, exact_sum, parse_decimal

_MILLION = Decimal(1_000_000)
_PRICE_MAX = parse_decimal("1E+9")
_DECIMALS_MAX = 6
"""The cost of one token then has the twelve decimals that a budget counts."""


class Price(FrozenStruct, frozen=True):
    """USD a million tokens, by kind. The default price of cached and cache-written tokens is that of input.

    ``cache_write`` is for tokens that are kept for minutes, ``cache_write_1h`` for those that are kept for an hour: by
    default twice the price of input.
    """

    input: Decimal
    output: Decimal
    cached: Decimal | None = None
    cache_write: Decimal | None = None
    cache_write_1h: Decimal | None = None

    def cost(self, usage: Usage) -> Decimal | None:
        """Return the exact cost of ``usage`` in USD; None if input or output is not known."""
        if usage.input_tokens is None or usage.output_tokens is None:
            return None
        of_1h = EXACT.multiply(self.input, Decimal(2)) if self.cache_write_1h is None else self.cache_write_1h
        parts = (
            (usage.input_tokens, self.input),
            (usage.output_tokens, self.output),
            (usage.cached_tokens or 0, self.input if self.cached is None else self.cached),
            (usage.cache_write_5m_tokens, self.input if self.cache_write is None else self.cache_write),
            (usage.cache_write_1h_tokens or 0, of_1h),
        )
        return EXACT.divide(exact_sum(EXACT.multiply(Decimal(count), price) for count, price in parts), _MILLION)


class Prices:
    """Prices by model. A name that ends in ``*`` matches every model with that prefix; the longest match counts.

    Set ``node.prices = Prices({...})`` before the first decision to journal the costs of decisions.

    >>> from seekpoint import Prices, Usage
    >>> prices = Prices({"small-*": {"input": "0.15", "output": "0.60"}})
    >>> prices.cost("small-2026-01", Usage(input_tokens=1_000_000, output_tokens=500_000))
    Decimal('0.45')
    >>> prices.cost("large", Usage(input_tokens=1, output_tokens=1)) is None
    True
    """

    def __init__(self, models: Mapping[str, Price | Mapping[str, Any]]) -> None:
        """Raises ``InvalidSetting`` for an invalid price: a float is not exact, write ``"0.15"`` or a Decimal."""
        self._models = {
            name: price if isinstance(price, Price) else _price(name, price) for name, price in models.items()
        }

    def of(self, model: str | None) -> Price | None:
        """Return the price of ``model``; None if the table has none."""
        if model is None:
            return None
        if model in self._models:
            return self._models[model]
        matches = [name for name in self._models if name.endswith("*") and model.startswith(name[:-1])]
        return self._models[max(matches, key=len)] if matches else None

    def cost(self, model: str | None, usage: Usage | None) -> Decimal | None:
        """Return the cost of a call of ``model`` in USD; None for an unknown model or usage."""
        price = self.of(model)
        return None if price is None or usage is None else price.cost(usage)


def _price(model: str, parts: Mapping[str, Any]) -> Price:
    unknown = parts.keys() - {"input", "output", "cached", "cache_write", "cache_write_1h"}
    if unknown or not {"input", "output"} <= parts.keys():
        raise InvalidSetting(
            "a price has input and output, and may have cached, cache_write and cache_write_1h",
            model=model,
            found=sorted(parts),
        )
    return Price(**{name: _amount(model, name, value) for name, value in parts.items()})


def _amount(model: str, name: str, value: Any) -> Decimal:
    try:
        if isinstance(value, Decimal | int | str) and not isinstance(value, bool):
            amount = parse_decimal(value)
            if amount.is_finite() and 0 <= amount <= _PRICE_MAX and _decimals(amount) <= _DECIMALS_MAX:
                return amount
    except InvalidOperation:
        pass
    raise InvalidSetting(
        f"a price is an exact amount of USD a million tokens, as text or Decimal, with up to {_DECIMALS_MAX} decimals",
        model=model,
        part=name,
        found=repr(value),
    )


def _decimals(amount: Decimal) -> int:
    return -int(amount.as_tuple().exponent)
