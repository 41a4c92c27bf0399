"""Crashes of a run on a log in memory: the log, cut after each of its entries, is what a dead machine leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

from seekpoint.producers import Node, VirtualClock
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.bodies.entry import Entry

__all__ = ["bodies", "cut_after", "cuts", "entries_of", "of_kind", "on_node", "spelled_out", "until"]

T = TypeVar("T")


def cut_after(log: MemoryLog, entries: int) -> MemoryLog:
    """A log of its own that has the first ``entries`` of ``log``, which has one partition."""
    copy = MemoryLog(partitions=1)
    for batch in log.read(0, 0, entries):
        for record in batch.records:
            copy.append(0, record.key, record.value, record.timestamp_ms)
    return copy


def cuts(log: MemoryLog) -> Iterator[MemoryLog]:
    """The log cut after its first entry, after its second, …: all but the whole."""
    for entries in range(1, log.watermarks(0).high):
        yield cut_after(log, entries)


async def until(found: Callable[[], object]) -> None:
    """Once ``found`` says something. Raises ``TimeoutError`` after a minute."""
    async with asyncio.timeout(60):
        while not found():  # noqa: ASYNC110  # no log tells a test that it has grown
            await asyncio.sleep(0.005)


async def on_node(log: MemoryLog, work: Callable[[Node], Awaitable[T]], clock: VirtualClock | None = None) -> T:
    """What ``work`` gives on a node of its own, whose clock skips what is slept."""
    clock = clock or VirtualClock(patience_s=0)
    async with Node.in_memory(log, clock=clock, confirm_interval_s=60.0) as node:
        return await work(node)


def entries_of(log: MemoryLog, process_id: str = "p") -> list[Entry]:
    """The entries of a process, in order."""
    found = []
    for partition in range(log.partitions):
        for batch in log.read(partition, 0, log.watermarks(partition).high, {process_id.encode()}):
            found += [log.codec.decode(record.value) for record in batch.records]
    return found


def bodies(log: MemoryLog, process_id: str = "p") -> list[Any]:
    """What they say."""
    return [entry.body for entry in entries_of(log, process_id)]


def of_kind(log: MemoryLog, kind: type[Any], process_id: str = "p") -> list[Any]:
    """Those of one kind; the start of a step is one, though it left with the end in one entry."""
    return [one for body in bodies(log, process_id) for one in spelled_out(body) if isinstance(one, kind)]


def spelled_out(body: Any) -> list[Any]:
    """The start and the end of a step that left as one entry, as if they were two."""
    began = getattr(body, "implied_start", None)
    return [body] if began is None else [began, body]
