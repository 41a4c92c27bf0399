"""The base of all bodies: a frozen class with a kind, field for field its ``.avsc``."""

from __future__ import annotations

from typing import ClassVar, TypeAlias

from seekpoint.schemas.frozen_struct import FrozenStruct

__all__ = ["Body", "Json"]

Json: TypeAlias = str
"""JSON text (see ``values``); the codec checks it when it decodes."""


class Body(FrozenStruct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The base of all bodies."""

    KIND: ClassVar[str]
    """The entry's kind, as the log, the command line and ``last_kind`` show it."""
    EXTERNAL: ClassVar[bool] = False
    OWNERSHIP: ClassVar[bool] = False
    """Bookkeeping of ownership: neither counted in ``entries_applied`` nor ever a ``last_kind``."""
    RESTORES: ClassVar[bool] = False
    """Whether the body carries the content of a state: such an entry may be larger than others."""

    @property
    def call(self) -> str | None:
        """A content write's key, where an agent's code runs again from its records; a field of those that have one."""
        return None
