"""The base of Seekpoint's errors. A class declares its facts as annotations, for its constructor and its attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, dataclass_transform

if TYPE_CHECKING:
    from typing import Self


def _parameter(*, kw_only: bool) -> Any:
    """Mark the parameter that is positional, for type checkers."""


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(_parameter,))
class _Declared(Exception):
    """Tells type checkers that subclasses have the constructor that their annotations describe."""


class SeekpointError(_Declared):
    """The base of all errors. ``str()`` is the message, the facts and the hint, in one line.

    A subclass declares its facts as annotations (``offset: int | None = None``); the constructor takes them by name.
    A fact that is not known is None, and ``facts`` and ``str()`` leave it out."""

    if TYPE_CHECKING:
        message: str = _parameter(kw_only=False)
    hint: str = "see docs/errors.md"
    cluster: str | None = None
    journal: str | None = None
    process_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    seq: int | None = None
    epoch: int | None = None
    key: str | None = None
    answered_by: str | None = None
    """The node that answered a request for a recovery with this error."""

    _not_facts: ClassVar[frozenset[str]] = frozenset({"message", "hint"})

    if not TYPE_CHECKING:

        def __init__(self, message: str, /, *, hint: str | None = None, **facts: object) -> None:
            super().__init__(message)
            self.message = message
            if hint is not None:
                self.hint = hint
            if unknown := facts.keys() - _declared(type(self)):
                raise TypeError(f"{type(self).__name__} declares no fact {', '.join(sorted(unknown))}")
            vars(self).update(facts)

    @property
    def facts(self) -> dict[str, Any]:
        """The facts that are known, by name: a new dict."""
        hidden = self._not_facts
        return {
            name: value
            for name, value in vars(self).items()
            if value is not None and name not in hidden and not name.startswith("_")
        }

    @classmethod
    def restored(cls, message: str, hint: str | None, facts: Mapping[str, Any]) -> Self:
        """Return an error from its recorded parts, which anybody may have written.

        A fact that this version does not declare is kept, unless its name is private or that of a method. The
        constructor of a subclass is not called.
        """
        error = SeekpointError.__new__(cls, message)
        SeekpointError.__init__(error, message)
        if hint:
            error.hint = hint
        for name, value in facts.items():
            hides = hasattr(cls, name) and name not in _declared(cls)
            if not (hides or name in cls._not_facts or name.startswith("_")):
                setattr(error, name, value)
        return error

    def __str__(self) -> str:
        facts = ", ".join(f"{name}={value}" for name, value in self.facts.items())
        return f"{self.message}{f' ({facts})' if facts else ''}; {self.hint}"


def _declared(cls: type[BaseException]) -> frozenset[str]:
    """Return the names that a class and its bases declare."""
    return frozenset().union(*(getattr(base, "__annotations__", ()) for base in cls.__mro__))
