"""Exact arithmetic on amounts, independent of the thread's decimal context.

Python's decimal operators take precision, traps and capitals from the thread's context, which user code may change.
The fold must not depend on it, so numbers are parsed, added and formatted here. The comparisons ``<=`` and ``==`` are
exact for finite numbers in any context. A test searches the sources for other operators.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import ROUND_HALF_EVEN, Context, Decimal, DivisionByZero, InvalidOperation, Overflow
from typing import Final

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
"""The context for amounts, which have at most 28 digits, and their sums, which never need a hundred."""

DEFAULT_CONTEXT: Final = EXACT.copy()
DEFAULT_CONTEXT.prec = 28
"""Python's default context. Users' fold functions run in it, whatever their thread has set."""


def parse_decimal(value: str | int | Decimal) -> Decimal:
    """Return the exact number in ``value``. Raises ``InvalidOperation`` if it is no number."""
    return Decimal(value, EXACT)


def exact_sum(amounts: Iterable[Decimal]) -> Decimal:
    """Return the exact sum of ``amounts``; 0 if there are none."""
    total = Decimal(0)
    for amount in amounts:
        total = EXACT.add(total, amount)
    return total


def plain_text(amount: Decimal) -> str:
    """Return ``amount`` without an exponent. Use it for bounded amounts only: a huge one has as many digits."""
    return format(amount, "f")


def sum_of_texts(amounts: Iterable[str | None]) -> str | None:
    """Return the sum of amounts as decimal texts, without those that are not known; None if none is.

    >>> sum_of_texts(["0.10", None, "2"]), sum_of_texts([None])
    ('2.10', None)
    """
    known = [parse_decimal(amount) for amount in amounts if amount is not None]
    return format(exact_sum(known), "f") if known else None
