"""Checks that the log still has what a tail delivered: a log that lost its end may have grown again since."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from seekpoint.producers.tail.partition_tail import PartitionTail, Taken, checksum_of
from seekpoint.schemas.errors import JournalGap, LogTruncated, Retryable, SeekpointError
from seekpoint.schemas.log.log_ports import Landmark, LogReader

logger = logging.getLogger("seekpoint.producers")

_RETRY_S = 1.0


class TruncationChecks:
    """The checks of one tailer. Each returns the error for all listeners of the partition, None if nothing is wrong."""

    def __init__(self, reader: LogReader, run: Callable[[Callable[[], Any]], Awaitable[Any]]) -> None:
        """``run`` makes a blocking call in a thread."""
        self._reader = reader
        self._run = run

    async def after_change_of_leader(self, tail: PartitionTail) -> LogTruncated | None:
        """Ask the new leader for the last record that was read from the former one, and for all taken behind it."""
        unverified, tail.unverified = tail.unverified, None
        if unverified is None:
            return None
        try:
            await self._ask(tail, lambda: self._check(tail.partition, unverified.last, unverified.taken))
        except LogTruncated as exc:
            return exc
        except SeekpointError as exc:
            logger.warning("a new leader cannot be asked: %s", exc)
        return None

    async def of_taken(self, tail: PartitionTail) -> SeekpointError | None:
        """Read the newest record that the tail took from its acknowledgement, and all others if the leader changed."""
        taken, tail.taken, last = tail.taken, None, tail.last
        if taken is None:
            return None
        tail.is_checking = True
        try:
            found = await self._ask(tail, lambda: self._read_newest(taken, last))
        except SeekpointError as exc:
            return exc
        finally:
            tail.is_checking = False
        if tail.last is last:
            tail.last = found or last
        return None

    async def _ask(self, tail: PartitionTail, ask: Callable[[], Any]) -> Any:
        """Ask until the log answers."""
        while True:
            try:
                return await self._run(ask)
            except Retryable as exc:
                logger.info("partition %d cannot be read back: %s", tail.partition, exc)
                await asyncio.sleep(_RETRY_S)

    # --- in a thread
    def _check(self, partition: int, last: Landmark | None, taken: Taken | None) -> None:
        if last is not None and last.leader_epoch >= 0:
            try:
                epoch = self._reader.leader_epoch_at(partition, last.offset)
            except JournalGap:  # trimmed, as below
                epoch = -1
            if epoch not in (-1, last.leader_epoch):
                raise LogTruncated(
                    "another leader epoch: the log was truncated",
                    partition=partition, offset=last.offset, expected=last.leader_epoch, leader_epoch=epoch,
                )  # fmt: skip
        if taken is not None:
            self._read_all(taken)

    def _read_newest(self, taken: Taken, last: Landmark | None) -> Landmark | None:
        newest = taken.newest
        try:
            batches = list(self._reader.read(newest.partition, newest.offset, newest.offset + 1))
        except JournalGap:  # trimmed: they are in checkpoints
            return None
        # one leader only appends: what lies between two records of its epoch was never lost
        found = batches[-1].last
        if found is None or found.leader_epoch not in (-1, None if last is None else last.leader_epoch):
            self._check(newest.partition, last, taken)
        return found

    def _read_all(self, taken: Taken) -> None:
        checksum = 0
        try:
            for batch in self._reader.read(taken.newest.partition, taken.start, taken.newest.offset + 1):
                checksum = checksum_of(batch.records, checksum)
        except JournalGap:
            return
        if checksum != taken.checksum:
            raise LogTruncated(
                "acknowledged records are no longer where they were: the log was truncated",
                partition=taken.newest.partition, offset=taken.start,
            )  # fmt: skip
