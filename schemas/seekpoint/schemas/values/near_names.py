"""Suggest the name that a mistyped one may have meant."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

_COMPARED_MAX = 2_000


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the one of the first 2,000 known names that is most like ``name``; None if none is.

    >>> nearest("refnud", ["order", "refund"]), nearest("zzz", ["order", "refund"])
    ('refund', None)
    """
    from difflib import get_close_matches

    return next(iter(get_close_matches(name[:200], list(islice(known, _COMPARED_MAX)), 1)), None)


def did_you_mean(name: str, known: Iterable[str], advice: str) -> str:
    """Return an error's hint: the nearest known name if there is one, then what else to do.

    >>> did_you_mean("refnud", ["refund"], "list them"), did_you_mean("x", [], "list them")
    ('did you mean refund?; list them', 'list them')
    """
    near = nearest(name, known)
    return advice if near is None else f"did you mean {near}?; {advice}"
