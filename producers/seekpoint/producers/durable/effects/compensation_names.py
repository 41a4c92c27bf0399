"""Find the function for the name of a compensation in the journal."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

from seekpoint.schemas.state.calls import UNDO

__all__ = ["CONNECTOR", "UNDO", "compensation_name", "compensation_named", "register_compensation"]

CONNECTOR = "connector/"
"""The prefix of a compensation's name in the journal if a connector makes it."""
_registered: dict[str, Callable[..., Any]] = {}
"""The functions that code of this interpreter has named as compensations."""


def register_compensation(compensate: Callable[..., Any]) -> None:
    """Let obligations that name this function call it. A method or a closure is not registered: its name is not enough
    to find it."""
    module = sys.modules.get(compensate.__module__) if inspect.isroutine(compensate) else None
    name = compensation_name(compensate)
    if module is not None and getattr(compensate, "__self__", module) is module and "<" not in name:
        _registered[name] = compensate


def compensation_named(name: str) -> Callable[..., Any] | None:
    """Return the function that the journal calls ``name``, if code of this interpreter named it as a compensation.

    No other function is looked up: anybody who writes to the journal could name any function.
    """
    return _registered.get(name)


def compensation_name(compensate: Callable[..., Any] | str) -> str:
    """Return the name of a compensation in the journal: ``connector/NAME``, or ``module:function``.

    >>> compensation_name("payments"), compensation_name(compensation_name)
    ('connector/payments', 'seekpoint.producers.durable.effects.compensation_names:compensation_name')
    """
    if isinstance(compensate, str):
        return f"{CONNECTOR}{compensate}"
    return f"{compensate.__module__}:{getattr(compensate, '__qualname__', type(compensate).__qualname__)}"
