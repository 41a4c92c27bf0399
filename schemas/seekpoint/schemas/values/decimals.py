"""Arithmetic on amounts: exact, and the same in every thread of every reader.

Python's decimal operators take precision, traps and letters from the thread's context, which belongs to the user's
code. The fold may not depend on it: so numbers are read, added and written here, and compared with ``<=`` or ``==``,
which are exact for finite numbers in any context. A test searches the sources for operators that are not.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import ROUND_HALF_EVEN, Context, Decimal, DivisionByZero, InvalidOperation, Overflow
from typing import Final

__all__ = ["DEFAULT_CONTEXT", "EXACT", "exact_sum", "parse_decimal", "plain_text"]

EXACT: Final = Context(
    prec=100,
    rounding=ROUND_HALF_EVEN,
    Emin=-999_999,
    Emax=999_999,
    capitals=1,
    clamp=0,
    flags=[],
    traps=[InvalidOperation, DivisionByZero, Overflow],
)
"""For amounts, which have 28 digits at most, and their sums: no history is long enough to need a hundred."""

DEFAULT_CONTEXT: Final = Context(
    prec=28,
    rounding=ROUND_HALF_EVEN,
    Emin=-999_999,
    Emax=999_999,
    capitals=1,
    clamp=0,
    flags=[],
    traps=[InvalidOperation, DivisionByZero, Overflow],
)
"""Python's default: what functions of the user's that are part of a fold run in, whatever their thread has set."""


def parse_decimal(value: str | int | Decimal) -> Decimal:
    """The number ``value`` says, exactly. ``InvalidOperation`` if it says none."""
    return Decimal(value, EXACT)


def exact_sum(amounts: Iterable[Decimal]) -> Decimal:
    """The sum of ``amounts``, exactly; 0 of none."""
    found = Decimal(0)
    for amount in amounts:
        found = EXACT.add(found, amount)
    return found


def plain_text(amount: Decimal) -> str:
    """``amount`` without an exponent. For bounded amounts: a huge one would be as long as it is large."""
    return format(amount, "f")
