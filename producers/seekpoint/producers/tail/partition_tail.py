"""One partition, as a node follows it: who listens to which process, who waits for how far. Pure: no I/O, no clock."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from seekpoint.producers.tail.proven_absence import Absence
from seekpoint.schemas.errors import SeekpointError
from seekpoint.schemas.log.log_ports import Landmark, Record
from seekpoint.schemas.log.tail import TailBatch

__all__ = ["Listener", "PartitionTail"]

logger = logging.getLogger("seekpoint.producers")


class Listener(Protocol):
    """Somebody who wants every record of one process: an open handle, or an open that is under way."""

    process_id: str
    key: bytes

    def absorb(self, records: list[Record], position: int) -> None:
        """Take the process's records; there are no others below ``position``. May raise: then it is failed."""

    def fail(self, error: SeekpointError) -> None:
        """The log, as far as it concerns this process, is wrong."""


class PartitionTail:
    """Followed from ``position`` on, without a hole: what listens here has missed nothing since it was attached."""

    def __init__(self, partition: int, position: int) -> None:
        self.partition = partition
        self.position = position
        self.listeners: dict[bytes, Listener] = {}
        self.absence = Absence(position)
        """Which processes are proven not to exist."""
        self.watchers = 0
        """How many wait for whatever may come."""
        self.generation = 0
        """Raised whenever it is begun anew: what came by an earlier beginning is not looked at."""
        self.broken = False
        self.given_up: SeekpointError | None = None
        """Why nobody follows it any more."""
        self.moved_at = 0.0
        """When it last got on, or somebody began to wait."""
        self.read_at = 0.0
        """When it was last seen to follow."""
        self.last: Landmark | None = None
        self.doubtful: Landmark | None = None
        """The last record before the leader changed: whether it is still there has to be looked at."""
        self._waiting: dict[asyncio.Future[None], int] = {}

    # --- who listens
    def attach(self, listener: Listener) -> None:
        """From here on it hears of its process; it stands where the lane stands."""
        self.listeners[listener.key] = listener

    def detach(self, listener: Listener) -> None:
        """It hears no more. What listens to the same process by now goes on."""
        if self.listeners.get(listener.key) is listener:
            del self.listeners[listener.key]

    # --- what came
    def take(self, stretch: TailBatch) -> None:
        """Hand out what came, then tell those who waited for it."""
        listeners = self.listeners
        found: dict[bytes, list[Record]] = {}
        for index, key in enumerate(stretch.keys):
            if key in listeners:
                found.setdefault(key, []).append(stretch.record(index))
        self.absence.note(stretch.keys)
        self._note_leader(stretch)
        self.position = max(self.position, stretch.next_offset)
        for key, records in found.items():
            self._hand(listeners[key], records)
        self._tell()

    def bring(self, listener: Listener) -> None:
        """Tell a listener how far its process is read, though nothing came of it."""
        self._hand(listener, [])

    def _hand(self, listener: Listener, records: list[Record]) -> None:
        try:
            listener.absorb(records, self.position)
        except SeekpointError as exc:  # a truncated log, a newer format: this process stops, loudly
            logger.error("process %s stops: %s", listener.process_id, exc)
            listener.fail(exc)

    def _note_leader(self, stretch: TailBatch) -> None:
        """A new leader may not have what an earlier one had: then the log was truncated below us."""
        first, last = stretch.first, self.last
        was, now = (-1 if each is None else each.leader_epoch for each in (last, first))
        if was != now and -1 not in (was, now):
            self.doubtful = self.doubtful or last
            self.absence.forget()
        self.last = stretch.last or self.last

    # --- who waits
    @property
    def target(self) -> int:
        """How far somebody waits for it to be read; 0 if nobody does."""
        return max(self._waiting.values(), default=0)

    async def through(self, position: int) -> None:
        """Return once everything below ``position`` was handed out. Raises what is wrong with the log."""
        if self.position >= position:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[future] = position
        try:
            await future
        finally:
            self._waiting.pop(future, None)

    def _tell(self) -> None:
        for future, position in list(self._waiting.items()):
            if position <= self.position:
                del self._waiting[future]
                if not future.done():
                    future.set_result(None)

    def fail(self, error: SeekpointError) -> None:
        """Whoever waits hears what is wrong."""
        waiting, self._waiting = self._waiting, {}
        for future in waiting:
            if not future.done():
                future.set_exception(error)
