"""The members of the groups that share a journal's partitions: projectors, recovery services, reactors and workers."""

from __future__ import annotations

from seekpoint.schemas.frozen_struct import FrozenStruct

_ROLES = {"projector": ("projector", "journal"), "recovery": ("recovery", "recover")}
_FAMILIES = {"reactors": ("reactors", "journal"), "workers": ("worker", "inbox")}


class GroupMember(FrozenStruct, frozen=True, kw_only=True):
    """One program that is a member of a group."""

    role: str
    """``projector``, ``recovery``, ``reactors`` or ``worker``."""
    group: str
    """The name of the group."""
    member: str
    """The id of the member, which its client or its program chose."""
    host: str
    """The address or the name of its machine, with the number of its program where that is known."""
    partitions: tuple[int, ...]
    """The partitions that are assigned to it, in order."""


def role_and_topic(journal: str, group: str) -> tuple[str, str] | None:
    """Return the role of a group's members, and the topic whose partitions they share; None for a foreign group.

    >>> role_and_topic("fleet", "fleet.projector"), role_and_topic("fleet", "fleet.workers.default")
    (('projector', 'journal'), ('worker', 'inbox'))
    >>> role_and_topic("fleet", "fleets.projector"), role_and_topic("fleet", "fleet.reader")
    (None, None)
    """
    own, _, name = group.removeprefix(f"{journal}.").partition(".")
    if not group.startswith(f"{journal}."):
        return None
    return _FAMILIES.get(own) if name else _ROLES.get(own)
