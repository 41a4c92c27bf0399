"""Register connectors: how to call and reconcile an outside system, by name.

A process that is resumed looks its connectors up again by their names in the journal. So register a program's
connectors before it opens processes.

>>> payments = Connectors()
>>> _ = payments.register(Connector("payments", print, max_attempts=3))
>>> payments["payments"].max_attempts
3
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from seekpoint.producers.durable.effects.effect_resolution import Answer
from seekpoint.producers.durable.failures.failure_classes import register_failure
from seekpoint.schemas.errors import InvalidName, InvalidSetting, UnknownConnector
from seekpoint.schemas.frozen_struct import FrozenStruct

__all__ = [
    "ATTEMPTS_MAX",
    "Connector",
    "Connectors",
    "NotDone",
    "Reconciled",
    "accepted_options",
    "accepts",
    "connectors",
]

ATTEMPTS_MAX = 10
"""How often an effect without a connector is called in all while it is in doubt."""

_NAME_CHARACTERS_MAX = 100

Call: TypeAlias = Callable[..., Any]


@register_failure
class NotDone(Exception):
    """Raise this, or a subclass, from the call of an effect if certainly nothing was done.

    The effect is then failed, and needs no reconciliation.
    """

    retryable = False


class Reconciled(FrozenStruct, frozen=True):
    """A reconciler's answer with the effect's ``output``, or the ``reason`` of its failure."""

    answer: Answer
    output: Any = None
    reason: str | None = None


class Connector(FrozenStruct, frozen=True):
    """One outside system. ``dispatch`` and ``reconcile`` are functions, async or not.

    Both get the effect's arguments and options, and ``idempotency_key=`` and ``business_key=`` if they accept them.
    """

    name: str
    dispatch: Call | None = None
    """Makes the call; its result is the effect's output."""
    reconcile: Call | None = None
    """Finds out whether the effect has happened; returns an ``Answer`` or a ``Reconciled``."""
    max_attempts: int = ATTEMPTS_MAX
    """How often an effect is called in all while it is in doubt; then the effect is stuck."""
    enforces_key: bool = False
    """The system accepts an idempotency key only once, for ever: then even an at-most-once call may be repeated."""
    outbox: bool = False
    """The owner only writes the intent; a ``Dispatcher`` calls."""

    def __post_init__(self) -> None:
        if not 1 <= len(self.name) <= _NAME_CHARACTERS_MAX or not self.name.isprintable() or "/" in self.name:
            raise InvalidName("a connector's name has 1 to 100 printable characters, no /", name=repr(self.name)[:120])
        if self.max_attempts < 1:
            raise InvalidSetting("a connector calls at least once", name=self.name, max_attempts=self.max_attempts)
        if self.outbox and self.dispatch is None:
            raise InvalidSetting("a dispatcher needs something to call: dispatch=", name=self.name)
        if self.enforces_key and self.dispatch is not None and not accepts(self.dispatch, "idempotency_key"):
            raise InvalidSetting(
                "a system that enforces the key has to be given it: dispatch(..., idempotency_key=)", name=self.name
            )


class Connectors:
    """Connectors by name."""

    def __init__(self) -> None:
        self._connectors: dict[str, Connector] = {}

    def register(self, connector: Connector) -> Connector:
        """Register a connector, in place of one of the same name. Effects under way keep the former one."""
        self._connectors[connector.name] = connector
        return connector

    def __getitem__(self, name: str) -> Connector:
        """Return the connector of this name, as of now. Raises ``UnknownConnector``, which lists those there are."""
        try:
            return self._connectors[name]
        except KeyError:
            raise UnknownConnector(
                f"no connector is called {name!r} here", connector=name, known=sorted(self._connectors) or "none"
            ) from None

    def __contains__(self, name: object) -> bool:
        return name in self._connectors

    def __iter__(self) -> Iterator[Connector]:
        return iter([*self._connectors.values()])

    @property
    def outbox(self) -> list[str]:
        """Return the names of the connectors whose effects a dispatcher calls, sorted."""
        return sorted(connector.name for connector in self if connector.outbox)


connectors = Connectors()
"""The connectors of this program: the default of processes and dispatchers."""


def accepts(call: Call, name: str) -> bool:
    """Whether ``call`` has a parameter of this name. ``**options`` does not count: it may only be passed on.

    >>> accepts(lambda amount, idempotency_key: None, "idempotency_key")
    True
    >>> accepts(lambda **options: None, "idempotency_key")
    False
    """
    try:
        parameter = inspect.signature(call).parameters.get(name)
    except (TypeError, ValueError):  # a built-in that does not say
        return False
    return parameter is not None and parameter.kind in (
        inspect.Parameter.KEYWORD_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    )


def accepted_options(call: Call, **options: Any) -> dict[str, Any]:
    """Return the ``options`` that ``call`` has parameters for."""
    return {name: value for name, value in options.items() if accepts(call, name)}
