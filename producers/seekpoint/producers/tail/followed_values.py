"""Shared values as they change: each is followed once a node, by the lane of its partition, for all who watch it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from seekpoint.schemas.bodies.entry import process_key
from seekpoint.schemas.errors import Retryable, SeekpointError, UndecodableRecord
from seekpoint.schemas.folding.fold import advance
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.state.process_state import Draft, State

if TYPE_CHECKING:
    from seekpoint.consumers import Recovery
    from seekpoint.producers.tail.partition_tail import PartitionTail
    from seekpoint.producers.tail.tailer import Tailer
    from seekpoint.schemas.log.log_ports import LogReader, Record

__all__ = ["FollowedValue", "ValueFollower"]

logger = logging.getLogger("seekpoint.producers")

_AGAIN_S = 0.5


class FollowedValue:
    """The state of one process that nobody owns, kept up to date. A listener of its lane."""

    def __init__(self, process_id: str, reader: LogReader) -> None:
        self.process_id = process_id
        self.key = process_key(process_id)
        self.lane: PartitionTail | None = None
        """Where it is read, once it is."""
        self.finding: asyncio.Task[None] | None = None
        self.on_change: list[Callable[[], object]] = []
        self._reader = reader
        self._early: list[Record] = []
        self._draft: Draft | None = None
        self._error: SeekpointError | None = None

    def newer(self, version: int) -> State | None:
        """Its state, if it was set after ``version``. Raises what is wrong with the log."""
        if self._error is not None:
            raise self._error
        draft = self._draft
        return draft.snapshot() if draft is not None and draft.shared_version > version else None

    def begin(self, state: State) -> None:
        """What it was when it was recovered; what came meanwhile follows."""
        self._draft = state.thaw()
        early, self._early = self._early, []
        self.absorb(early, 0)
        self._tell()

    def absorb(self, records: list[Record], position: int) -> None:
        """Take what came of it."""
        if self._draft is None:
            self._early += records
            return
        for record in records:
            try:
                entry = self._reader.codec.decode(record.value)
            except UndecodableRecord:
                continue
            advance(self._draft, record.offset, entry, self._reader.limits)
        if records:
            self._tell()

    def fail(self, error: SeekpointError) -> None:
        """The log, as far as it concerns this process, is wrong."""
        self._error = error
        self._tell()

    def _tell(self) -> None:
        for tell in list(self.on_change):
            tell()


class ValueFollower:
    """What one node follows."""

    def __init__(self, reader: LogReader, recovery: Recovery, tailer: Tailer) -> None:
        self._reader = reader
        self._recovery = recovery
        self._tailer = tailer
        self._followed: dict[str, FollowedValue] = {}

    def begin(self, process_id: str, on_change: Callable[[], object]) -> FollowedValue:
        """Follow a process; ``on_change`` is called once its state is known, and whenever something came of it."""
        followed = self._followed.get(process_id)
        if followed is None:
            followed = self._followed[process_id] = FollowedValue(process_id, self._reader)
            followed.finding = asyncio.create_task(self._begin(followed), name="seekpoint-follow")
        followed.on_change.append(on_change)
        return followed

    async def _begin(self, followed: FollowedValue) -> None:
        while True:
            try:
                return await self._find(followed)
            except Retryable as exc:
                logger.warning("%s cannot be followed yet: %s", followed.process_id, exc)
                await asyncio.sleep(_AGAIN_S)
            except SeekpointError as exc:
                return followed.fail(exc)

    async def _find(self, followed: FollowedValue) -> None:
        """Listen first, so that what the lane has passed lies below the end that the recovery reads to."""
        process_id = followed.process_id
        partition = partition_of(followed.key, self._reader.partitions)
        lane, began = self._tailer.lane(partition), 0
        while True:
            if lane is not None:
                lane.attach(followed)
                began = lane.position
            found = await self._recovery.recover(process_id, missing_ok=True)
            was, lane = lane, self._tailer.lane_from(partition, found.report.log_end)
            if was is None:
                lane.attach(followed)
                began = lane.position
            if was in (None, lane) and began <= found.report.log_end:
                break
        followed.lane = lane
        self._tailer.watch(lane, 1)
        followed.begin(found.state)

    def end(self, followed: FollowedValue, on_change: Callable[[], object]) -> None:
        """The end of ``begin``."""
        followed.on_change.remove(on_change)
        if not followed.on_change:
            self._followed.pop(followed.process_id, None)
            if followed.finding is not None:
                followed.finding.cancel()
            if followed.lane is not None:
                self._tailer.watch(followed.lane, -1)
            self._tailer.detach(followed, partition_of(followed.key, self._reader.partitions))
