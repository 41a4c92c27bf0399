"""Roles, and who sent a request."""

from __future__ import annotations

from enum import IntEnum

from seekpoint.schemas.frozen_struct import FrozenStruct


class Role(IntEnum):
    """The rights of a person or a program. A role may do everything that a lower one may."""

    VIEWER = 1
    """Look at everything."""
    OPERATOR = 2
    """Change processes, begin reruns and replays, stop them."""
    ADMIN = 3
    """Everything."""

    @property
    def title(self) -> str:
        """Return the name as options and pages have it."""
        return self.name.lower()


class UserIdentity(FrozenStruct, frozen=True, kw_only=True):
    """A person or a program that sends requests. ``name`` is the actor of the entries that the request causes."""

    name: str
    role: Role
    proof: str = ""
    """Which token was presented, without being a secret; "" if none was."""


def role_named(text: str) -> Role | None:
    """Return the role with this name; None if there is none.

    >>> role_named("operator"), role_named("owner")
    (<Role.OPERATOR: 2>, None)
    """
    return next((role for role in Role if role.title == text), None)
