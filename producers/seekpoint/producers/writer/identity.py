"""The identity of a node: its name, and its present boot."""

from __future__ import annotations

from os import urandom  # as random as a UUID, which takes four modules to import

from msgspec import field

from seekpoint.schemas.frozen_struct import FrozenStruct


class Identity(FrozenStruct, frozen=True):
    """A node's name (the same after a restart, if it is set) and the id of its present boot (never the same)."""

    node_id: str
    boot_id: str = field(default_factory=lambda: urandom(16).hex())

    @classmethod
    def of(cls, node_id: str | None) -> Identity:
        """Return the identity of a node that starts now."""
        return cls(node_id or f"node-{urandom(6).hex()}")
