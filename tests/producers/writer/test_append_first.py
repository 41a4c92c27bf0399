"""A partition whose end Kafka does not tell for minutes: submissions and signals are appended, which heals it."""

from __future__ import annotations

import asyncio

import pytest

from seekpoint.producers import Client, Node
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import JournalUnavailable
from seekpoint.schemas.log.log_ports import Watermarks


class EndlessLog(MemoryLog):
    """A log that does not tell its end, as after a lost replica (``OFFSET_NOT_AVAILABLE``), until it is appended to."""

    tells_end = True

    def watermarks(self, partition: int) -> Watermarks:
        if not self.tells_end:
            raise JournalUnavailable("Kafka cannot serve now (OFFSET_NOT_AVAILABLE)")
        return super().watermarks(partition)


async def test_a_submission_and_a_signal_are_appended_first() -> None:
    log = EndlessLog(partitions=1)
    async with Client.in_memory(log) as client:
        log.tells_end = False
        async with asyncio.timeout(10):
            await client.submit("a", "p", 1)
        log.tells_end = True
        assert log.topic("inbox").watermarks(0).high == 1
    async with Node.in_memory(log) as node:
        log.tells_end = False
        async with asyncio.timeout(10):
            await node.signal("p", "go", 1)
        log.tells_end = True
        assert log.watermarks(0).high == 1


async def test_an_owner_that_writes_nothing_learns_of_its_successor_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The idle partition is read within ``owner_timeout_s``, also where that is shorter than half a minute."""
    log = MemoryLog(partitions=1)
    async with Node.in_memory(log, owner_timeout_s=0.3, heartbeat_interval_s=0.1, confirm_interval_s=0.1) as node:
        await node.open("p")
        read: list[object] = []
        monkeypatch.setattr(node._runtime.confirmer, "to_end", _noting(read))
        async with asyncio.timeout(10):
            while not read:  # noqa: ASYNC110  # no event for it
                await asyncio.sleep(0.05)
        assert read


def _noting(read: list[object]):  # type: ignore[no-untyped-def]  # the coroutine function of a method
    async def to_end(handle: object) -> None:
        read.append(handle)

    return to_end
