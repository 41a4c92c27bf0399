"""Connectors: what an effect needs to know of the outside system it changes, by name.

A connector outlives the code that used it: whoever resumes a process looks it up again, by the name in the journal. So
register the connectors of a program before it opens processes.

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
from seekpoint.schemas.dataclass import dataclass
from seekpoint.schemas.errors import InvalidName, InvalidSetting, UnknownConnector

__all__ = ["ATTEMPTS_MAX", "Connector", "Connectors", "NotDone", "Reconciled", "connectors", "handed", "takes"]

ATTEMPTS_MAX = 10
"""How often an effect without a connector of its own is called in all while it is in doubt."""

_NAME_CHARACTERS_MAX = 100

Call: TypeAlias = Callable[..., Any]


@register_failure
class NotDone(Exception):
    """Raise it from the call of an effect, or derive from it, when it is certain that nothing was done.

    The effect is then failed, and nobody has to find out.
    """

    retryable = False


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What a reconciler found, with what goes with it: the effect's ``output``, or the ``reason`` why not."""

    answer: Answer
    output: Any = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Connector:
    """One outside system. ``dispatch`` and ``reconcile`` are functions, async or not.

    Both get the effect's arguments and options, and ``idempotency_key=`` and ``business_key=`` if they take them.
    """

    name: str
    dispatch: Call | None = None
    """Does it; what it returns is the effect's output."""
    reconcile: Call | None = None
    """Finds out whether it was done: an ``Answer``, or a ``Reconciled`` with more about it."""
    max_attempts: int = ATTEMPTS_MAX
    """How often it is called in all while an effect is in doubt; then the effect is stuck."""
    enforces_key: bool = False
    """The system itself takes an idempotency key once, for ever: then even an at-most-once call may be repeated."""
    outbox: bool = False
    """The owner only writes the intent down; a ``Dispatcher`` calls."""

    def __post_init__(self) -> None:
        if not 1 <= len(self.name) <= _NAME_CHARACTERS_MAX or not self.name.isprintable() or "/" in self.name:
            raise InvalidName("a connector's name has 1 to 100 printable characters, no /", name=repr(self.name)[:120])
        if self.max_attempts < 1:
            raise InvalidSetting("a connector calls at least once", name=self.name, max_attempts=self.max_attempts)
        if self.outbox and self.dispatch is None:
            raise InvalidSetting("a dispatcher needs something to call: dispatch=", name=self.name)
        if self.enforces_key and self.dispatch is not None and not takes(self.dispatch, "idempotency_key"):
            raise InvalidSetting(
                "a system that enforces the key has to be given it: dispatch(..., idempotency_key=)", name=self.name
            )


class Connectors:
    """Connectors by name."""

    def __init__(self) -> None:
        self._known: dict[str, Connector] = {}

    def register(self, connector: Connector) -> Connector:
        """Make it known, in place of one of the same name. Effects under way keep what they began with."""
        self._known[connector.name] = connector
        return connector

    def __getitem__(self, name: str) -> Connector:
        """The connector of this name, as of now. Raises ``UnknownConnector``, which says what to register."""
        try:
            return self._known[name]
        except KeyError:
            raise UnknownConnector(
                f"no connector is called {name!r} here", connector=name, known=sorted(self._known) or "none"
            ) from None

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def __iter__(self) -> Iterator[Connector]:
        return iter([*self._known.values()])

    @property
    def outbox(self) -> list[str]:
        """The names of those whose effects a dispatcher calls, sorted."""
        return sorted(connector.name for connector in self if connector.outbox)


connectors = Connectors()
"""Those of this program: what processes and dispatchers look up unless they are given others."""


def takes(call: Call, name: str) -> bool:
    """Whether ``call`` has a parameter of this name. One that takes anything (``**options``) is not given it: it may
    only pass on what it gets.

    >>> takes(lambda amount, idempotency_key: None, "idempotency_key"), takes(lambda **options: None, "idempotency_key")
    (True, False)
    """
    try:
        parameter = inspect.signature(call).parameters.get(name)
    except (TypeError, ValueError):  # a built-in that does not say
        return False
    return parameter is not None and parameter.kind in (
        inspect.Parameter.KEYWORD_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    )


def handed(call: Call, **known: Any) -> dict[str, Any]:
    """Those of ``known`` that ``call`` has parameters for."""
    return {name: value for name, value in known.items() if takes(call, name)}
