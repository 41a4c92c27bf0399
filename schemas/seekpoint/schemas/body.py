"""What every body is: a frozen class with a kind, field for field its ``.avsc``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

__all__ = ["Body", "Json"]

Json: TypeAlias = str
"""JSON text (see ``values``); the codec checks it when it decodes."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Body:
    """The base of all bodies. Equality and text are written once: made for each of fifty they cost a start 20 ms."""

    KIND: ClassVar[str]
    """The entry's kind, as the log, the command line and ``last_kind`` show it."""
    EXTERNAL: ClassVar[bool] = False
    OWNERSHIP: ClassVar[bool] = False
    """Bookkeeping of ownership: neither counted in ``entries_applied`` nor ever a ``last_kind``."""

    @property
    def call(self) -> str | None:
        """A content write's key, where an agent's code runs again from its records; a field of those that have one."""
        return None

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__dataclass_fields__)

    def __hash__(self) -> int:
        return hash((type(self), *(getattr(self, name) for name in self.__dataclass_fields__)))

    def __repr__(self) -> str:
        parts = (f"{name}={getattr(self, name)!r}" for name in self.__dataclass_fields__)
        return f"{type(self).__qualname__}({', '.join(parts)})"
