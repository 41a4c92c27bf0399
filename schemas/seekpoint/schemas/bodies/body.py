"""The base of all bodies: a frozen class with a kind and the fields of its ``.avsc``."""

from __future__ import annotations

from typing import ClassVar, TypeAlias

from seekpoint.schemas.frozen_struct import FrozenStruct

Json: TypeAlias = str
"""JSON text of a dynamic value (see ``values``). The codec checks it when it decodes an entry."""

Data: TypeAlias = bytes
"""Bytes of any length. A field that is ``bytes`` is an id."""


class Body(FrozenStruct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The base of all bodies."""

    KIND: ClassVar[str]
    """The entry's kind, as the command line and ``last_kind`` show it."""
    EXTERNAL: ClassVar[bool] = False
    """Whether anybody may write the body, not only the owner."""
    OWNERSHIP: ClassVar[bool] = False
    """Whether the body only manages ownership: it is not counted in ``entries_applied`` and is no ``last_kind``."""
    IS_TIMED: ClassVar[bool] = False
    """Whether a state keeps the time of such an entry: it begins a wait, or sets the lifecycle."""
    RESTORES: ClassVar[bool] = False
    """Whether the body carries the content of a state: such an entry may be larger than others."""

    @property
    def call(self) -> str | None:
        """The key of a content write that is a call of an agent's code. Bodies of content writes have it as a field."""
        return None
