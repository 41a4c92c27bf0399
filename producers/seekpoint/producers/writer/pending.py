"""An owner's entries on their way to the log, and what the code that sends them needs of the handle they belong to."""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import Protocol

import msgspec

from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.errors import SeekpointError
from seekpoint.schemas.frozen_struct import FrozenStruct

__all__ = ["Cause", "HandleStatus", "Pending"]


class HandleStatus(Enum):
    """What a handle may do."""

    OPEN = "appends"
    HEALING = "keeps what it is given until it has claimed again"
    CLOSED = "nothing more"


class PendingOwner(Protocol):
    """The handle of a pending entry."""

    key: bytes
    partition: int
    status: HandleStatus

    def acknowledge(self, pending: Pending, offset: int) -> None:
        """Take note that ``pending`` is in the log at ``offset``."""


class Pending(msgspec.Struct, eq=False):
    """An entry that was handed over and is not yet acknowledged."""

    handle: PendingOwner
    seq: int
    entry: Entry
    value: bytes
    future: asyncio.Future[int] | None
    offset: int | None = None
    shipment: object = None
    """The outbox's shipment that the entry left in."""
    attempts: int = 1
    failure: SeekpointError | None = None
    """The error of the last attempt, if that failed."""

    def resolve(self, offset: int) -> None:
        """Give the offset to the caller that waits. Drop the future: thousands of entries wait to be confirmed."""
        future, self.future = self.future, None
        if future is not None and not future.done():
            future.set_result(offset)

    def fail(self, error: SeekpointError) -> None:
        """Raise ``error`` in the caller that waits."""
        future, self.future = self.future, None
        if future is not None and not future.done():
            future.set_exception(error)
            future.exception()  # asyncio must not warn about the start entry of a step, which nobody awaits


class Cause(FrozenStruct, frozen=True):
    """Who wrote an entry, and which entry led to it."""

    actor: str | None = None
    caused_by: bytes | None = None
    correlation_id: str | None = None
