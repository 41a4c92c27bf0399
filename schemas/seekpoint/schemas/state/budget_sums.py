"""The budget of a process, its limits and its use: exact decimals by dimension, for the run and for the newest UTC day.

A call's start reserves its estimate; its end frees that and charges what was used. Each is one entry with one seq, so
nothing is ever charged twice, and every recovery finds the same sums.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any

from msgspec import field

from seekpoint.schemas.bodies.body import Json
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.values.decimal_arithmetic import EXACT, parse_decimal, plain_text
from seekpoint.schemas.values.json_values import load

__all__ = ["DIMENSIONS", "Budget", "amount_of", "amounts_in"]

DIMENSIONS = ("usd", "tokens", "tool_calls", "model_calls", "irreversible_effects", "wall_s")
Amounts = Mapping[str, Decimal]
_DAY_US = 86_400_000_000
_ZERO = Decimal(0)
_AMOUNT_MAX = parse_decimal("1E+15")
_TOTAL_MAX = parse_decimal("1E+40")
"""More than 2**64 amounts come to: what was written as a sum is read as one."""
_EXPONENT_MIN = -12
_AMOUNT_CHARS_MAX = 100


class Budget(FrozenStruct, frozen=True):
    """Limits, what was used, and what is reserved for calls under way."""

    limits: Amounts = field(default_factory=dict)
    day_limits: Amounts = field(default_factory=dict)
    warn_at: Decimal = parse_decimal("0.8")
    on_exceed: str = "fail"
    spent: Amounts = field(default_factory=dict)
    day: int = 0
    """The UTC day of ``day_spent``, counted from 1970."""
    day_spent: Amounts = field(default_factory=dict)
    reserved: Mapping[str, Amounts] = field(default_factory=dict)
    """By the key of the call that is under way."""
    noted: tuple[str, ...] = ()
    """The notes written so far, such as ``warned usd run``; a note of a day ends with its number."""
    granted: Amounts = field(default_factory=dict)
    """What the parent of a child lets it use: the limits that its code sets are not higher."""
    by_children: Amounts = field(default_factory=dict)
    """What children used that have ended, and theirs: apart from ``spent``, since each process counts its own."""

    @property
    def has_limits(self) -> bool:
        """Whether it limits something; else it only counts."""
        return bool(self.limits or self.day_limits)

    def reserve(self, key: str, estimate: Amounts) -> Budget:
        """Keep ``estimate`` for the call ``key``, in place of what was kept for it."""
        others = {one: kept for one, kept in self.reserved.items() if one != key}
        return replace(self, reserved={**others, key: estimate} if estimate else others)

    def charge(self, key: str, amounts: Amounts, at_us: int, *, is_last: bool = True) -> Budget:
        """Charge ``amounts``. Free what was kept for ``key``, unless another attempt follows that needs it."""
        charged = replace(self, spent=_sum(self.spent, amounts))
        day = at_us // _DAY_US
        if day > self.day:
            charged = replace(charged, day=day, day_spent=dict(amounts))
        elif day == self.day:
            charged = replace(charged, day_spent=_sum(self.day_spent, amounts))
        if not is_last or key not in self.reserved:
            return charged
        return replace(charged, reserved={one: rest for one, rest in self.reserved.items() if one != key})

    def charge_child(self, key: str, amounts: Amounts, before: Amounts, at_us: int) -> Budget:
        """Charge what the child of the call ``key`` used since ``before`` was charged; free what was kept for it."""
        since = {name: EXACT.subtract(one, min(one, before.get(name, _ZERO))) for name, one in amounts.items()}
        if not since:
            return self.reserve(key, {})  # format 1 says nothing of a child: then no day begins either
        charged = self.charge(key, since, at_us)
        return replace(charged, spent=self.spent, by_children=_sum(self.by_children, since))

    @property
    def used(self) -> Amounts:
        """The amounts that the process and its children used."""
        return _sum(self.spent, self.by_children) if self.by_children else self.spent

    def only_spent(self) -> Budget | None:
        """Return a budget without limits that has the same sums: what a gravestone keeps. None if nothing was used."""
        return Budget(spent=self.spent, by_children=self.by_children) if self.used else None

    def spent_texts(self) -> dict[str, str]:
        """Return what was spent, by dimension, as decimal texts."""
        return _texts(self.spent)

    def to_json(self) -> dict[str, Any]:
        """Return JSON values; ``from_json`` reads them."""
        of_tree = {"granted": _texts(self.granted), "by_children": _texts(self.by_children)}
        return {
            **{name: amounts for name, amounts in of_tree.items() if amounts},  # states of format 1 have neither
            "limits": _texts(self.limits),
            "day_limits": _texts(self.day_limits),
            "warn_at": plain_text(self.warn_at),
            "on_exceed": self.on_exceed,
            "spent": _texts(self.spent),
            "day": self.day,
            "day_spent": _texts(self.day_spent),
            "reserved": {key: _texts(kept) for key, kept in self.reserved.items()},
            "noted": list(self.noted),
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Budget:
        """Return the budget that ``to_json`` wrote. ``ValueError``, ``TypeError`` or ``LookupError`` if it is none."""
        if type(found["day"]) is not int or type(found["on_exceed"]) is not str:
            raise TypeError("a budget has a day and what to do")
        return cls(
            limits=_amounts(found["limits"]),
            day_limits=_amounts(found["day_limits"]),
            warn_at=amount_of(found["warn_at"]),
            on_exceed=found["on_exceed"],
            spent=_amounts(found["spent"], _TOTAL_MAX),
            day=found["day"],
            day_spent=_amounts(found["day_spent"], _TOTAL_MAX),
            reserved={str(key): _amounts(kept) for key, kept in found["reserved"].items()},
            noted=tuple(map(str, found["noted"])),
            granted=_amounts(found.get("granted", {})),
            by_children=_amounts(found.get("by_children", {}), _TOTAL_MAX),
        )


def amounts_in(text: Json | None) -> dict[str, Decimal]:
    """Return the amounts by dimension in a body's JSON text; {} for None. Raise ``ValueError`` for another object."""
    return {} if text is None else _amounts(load(text))


def amount_of(value: Any) -> Decimal:
    """Return the amount in a decimal text or a whole number. Raise ``ValueError`` for another value.

    The texts are the same in every reader, because states contain them.
    """
    return _amount(value, _AMOUNT_MAX)


def _amounts(found: Any, highest: Decimal = _AMOUNT_MAX) -> dict[str, Decimal]:
    if type(found) is not dict:
        raise ValueError("amounts are an object by dimension")
    unknown = found.keys() - set(DIMENSIONS)
    if unknown:
        raise ValueError(f"{min(map(str, unknown))} is no dimension of a budget")
    return {name: _amount(value, highest) for name, value in found.items() if value is not None}


def _amount(value: Any, highest: Decimal) -> Decimal:
    """Return an amount within bounds, so that sums stay exact and short in every reader."""
    if type(value) not in (str, int, Decimal):
        raise ValueError(f"an amount is a decimal text or a whole number, not {type(value).__name__}")
    try:
        if type(value) is str and len(value) > _AMOUNT_CHARS_MAX:
            raise InvalidOperation
        amount = parse_decimal(value)
    except InvalidOperation:
        raise ValueError("an amount is a decimal") from None
    if not amount.is_finite() or not 0 <= amount <= highest or int(amount.as_tuple().exponent) < _EXPONENT_MIN:
        raise ValueError("an amount is between 0 and 10^15, with at most twelve decimals")
    return amount


def _sum(spent: Amounts, more: Amounts) -> dict[str, Decimal]:
    return {name: EXACT.add(spent.get(name, _ZERO), more.get(name, _ZERO)) for name in {**spent, **more}}


def _texts(amounts: Amounts) -> dict[str, str]:
    return {name: plain_text(amount) for name, amount in amounts.items()}
