"""Errors after which the process has to be opened again."""

from __future__ import annotations

from seekpoint.schemas.errors.error_base import SeekpointError


class HandleLost(SeekpointError):
    """This handle can no longer be used: open the process again."""

    hint = "open the process again"


class Fenced(HandleLost):
    """Another owner has claimed the process. ``fenced_entries`` counts the entries of this handle that were
    acknowledged and not applied."""

    hint = "stop: the new owner carries on; seekpoint log PROCESS_ID shows who"
    new_epoch: int | None = None
    new_node: str | None = None
    fenced_entries: int | None = None


class GroupLost(HandleLost):
    """This program has no partitions, and nobody else has: its group does not take it again although Kafka answers."""

    hint = "start the program again; seekpoint doctor shows the members of the groups"
    group: str | None = None


class HandleClosed(HandleLost):
    """The handle was released, finished or closed by an earlier error."""

    unacknowledged: int | None = None
