"""Shared values, and processes that others own, as they change: a node follows each once, for all its watchers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from seekpoint.consumers.log_reading.scan import entries_of
from seekpoint.consumers.recovery.recovery_report import Recovered
from seekpoint.producers.tail.followed_recovery import recover_and_follow
from seekpoint.schemas.bodies.entry import process_key
from seekpoint.schemas.errors import Retryable, SeekpointError
from seekpoint.schemas.folding.fold import advance, advance_owner_entry
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.state.process_state import Draft, State, new_state

if TYPE_CHECKING:
    from seekpoint.consumers import Recovery
    from seekpoint.producers.tail.partition_tail import PartitionTail
    from seekpoint.producers.tail.tailer import Tailer
    from seekpoint.schemas.log.log_ports import LogReader, Record

logger = logging.getLogger("seekpoint.producers")

_AGAIN_S = 0.5


class FollowedValue:
    """The current state of a process that is only looked at. A follower at its partition's tail."""

    def __init__(self, process_id: str, reader: LogReader) -> None:
        self.process_id = process_id
        self.key = process_key(process_id)
        self.tail: PartitionTail | None = None
        """The tail that delivers its records, once it is recovered."""
        self.recovering: asyncio.Task[None] | None = None
        self.on_change: list[Callable[[], object]] = []
        self.error: SeekpointError | None = None
        self._reader = reader
        self._early: list[Record] = []
        self._draft: Draft | None = None

    def state(self) -> State | None:
        """Return its state; None before it is recovered. Raises what is wrong with the log."""
        if self.error is not None:
            raise self.error
        return None if self._draft is None else self._draft.snapshot()

    def peek(self) -> Draft | None:
        """Return its state as it is now, which is not to be changed or kept; None before it is recovered.

        It takes less time than ``state``. Raises what is wrong with the log.
        """
        if self.error is not None:
            raise self.error
        return self._draft

    def newer(self, version: int) -> State | None:
        """Return its state if it was set after ``version``. Raises what is wrong with the log."""
        draft = self._draft
        return self.state() if draft is None or draft.shared_version > version else None

    def begin(self, state: State) -> None:
        """Start from the recovered state, and fold the records that arrived meanwhile."""
        self._draft = state.thaw()
        early, self._early = self._early, []
        self.absorb(early, 0)
        self._notify()

    def absorb(self, records: list[Record], position: int) -> None:
        """Fold ``records``; keep them until the state is recovered."""
        if self._draft is None:
            self._early += records
            return
        for record in records:
            self._fold(self._draft, record)
        if records:
            self._notify()

    def _fold(self, draft: Draft, record: Record) -> None:
        limits = self._reader.limits
        owned = self._reader.codec.decode_owner_entry(record.value, self.key)
        if owned is None or advance_owner_entry(draft, record.offset, owned, limits) is None:
            for _, entry in entries_of([record], self._reader):
                advance(draft, record.offset, entry, limits)

    def fail(self, error: SeekpointError) -> None:
        """Keep ``error``, which ``newer`` raises: the log is wrong."""
        self.error = error
        self._notify()

    def _notify(self) -> None:
        for on_change in list(self.on_change):
            on_change()


async def recover_followed(
    followed: FollowedValue, reader: LogReader, recovery: Recovery, tailer: Tailer, *, must_be_current: bool = False
) -> tuple[PartitionTail, State]:
    """Attach ``followed`` to the tail of its partition, and recover the state to ``begin`` it with."""

    def presume(tail: PartitionTail) -> Recovered | None:
        report = tail.absence.report(followed.key, tail.position)
        return None if report is None else Recovered(state=new_state(), report=report, known=False)

    read = partial(recovery.recover, followed.process_id, missing_ok=True, must_be_current=must_be_current)
    found = await recover_and_follow(followed, tailer, reader.partitions, read, presume, is_owner=False)
    return found.tail, found.recovered.state


class ValueFollower:
    """The shared values that one node follows."""

    def __init__(self, reader: LogReader, recovery: Recovery, tailer: Tailer) -> None:
        self._reader = reader
        self._recovery = recovery
        self._tailer = tailer
        self._followed: dict[str, FollowedValue] = {}

    def begin(self, process_id: str, on_change: Callable[[], object]) -> FollowedValue:
        """Follow a process; call ``on_change`` once its state is known, and at each of its later records."""
        followed = self._followed.get(process_id)
        if followed is None:
            followed = self._followed[process_id] = FollowedValue(process_id, self._reader)
            followed.recovering = asyncio.create_task(self._begin(followed), name="seekpoint-follow")
        followed.on_change.append(on_change)
        return followed

    async def _begin(self, followed: FollowedValue) -> None:
        while True:
            try:
                return await self._recover(followed)
            except Retryable as exc:
                logger.warning("%s cannot be followed yet: %s", followed.process_id, exc)
                await asyncio.sleep(_AGAIN_S)
            except SeekpointError as exc:
                return followed.fail(exc)

    async def _recover(self, followed: FollowedValue) -> None:
        self._follow(followed, *await recover_followed(followed, self._reader, self._recovery, self._tailer))

    def _follow(self, followed: FollowedValue, tail: PartitionTail, state: State) -> None:
        followed.tail = tail
        self._tailer.watch(tail, 1)
        followed.begin(state)

    def end(self, followed: FollowedValue, on_change: Callable[[], object]) -> None:
        """End what ``begin`` began."""
        followed.on_change.remove(on_change)
        if not followed.on_change:
            self._followed.pop(followed.process_id, None)
            if followed.recovering is not None:
                followed.recovering.cancel()
            if followed.tail is not None:
                self._tailer.watch(followed.tail, -1)
            self._tailer.detach(followed, partition_of(followed.key, self._reader.partitions))
