"""Which function a journal's name of a compensation means."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["CONNECTOR", "UNDO", "compensation_name", "compensation_named", "know_compensation"]

UNDO = "undo/"
"""What the key of a compensation begins with; the key of its effect follows."""

CONNECTOR = "connector/"
"""What the journal's name of a compensation begins with where it is a connector's."""
_known: dict[str, Callable[..., Any]] = {}
"""Functions that code of this interpreter has named as a compensation."""


def know_compensation(compensate: Callable[..., Any]) -> None:
    """Let a debt that names this function be paid by it. A method needs its object, and a closure what it closes over:
    their names say too little."""
    module = sys.modules.get(compensate.__module__) if inspect.isroutine(compensate) else None
    name = compensation_name(compensate)
    if module is not None and getattr(compensate, "__self__", module) is module and "<" not in name:
        _known[name] = compensate


def compensation_named(name: str) -> Callable[..., Any] | None:
    """Return the function that a journal calls ``name``, if code of this interpreter named it as a compensation.

    No other function is ever looked up: a journal's text could name any.
    """
    return _known.get(name)


def compensation_name(compensate: Callable[..., Any] | str) -> str:
    """What the journal calls a compensation: ``connector/NAME``, or ``module:function``.

    >>> compensation_name("payments"), compensation_name(compensation_name)
    ('connector/payments', 'seekpoint.producers.durable.effects.compensations:compensation_name')
    """
    if isinstance(compensate, str):
        return f"{CONNECTOR}{compensate}"
    return f"{compensate.__module__}:{getattr(compensate, '__qualname__', type(compensate).__qualname__)}"
