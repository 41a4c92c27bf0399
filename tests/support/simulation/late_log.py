"""A log in memory with a wire: what was on the wire when its sender gave up may land later."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import JournalUnavailable
from seekpoint.schemas.log.log_ports import Batch, DeliveryReport, ProducerRecord
from seekpoint.schemas.log.memory_log import MemoryAppender

__all__ = ["FAST", "LateAppender", "LateLog", "break_things"]

FAST: dict[str, Any] = {
    "append_timeout_s": 0.05,
    "heal_timeout_s": 3.0,
    "producer_drain_s": 0.01,
    "confirm_interval_s": 0.1,
    "owner_timeout_s": 0.5,
    "heartbeat_interval_s": 0.1,
}
"""Settings of a node that meets a fault soon."""


class LateAppender(MemoryAppender):
    """What was on the wire when it was retired may land later: the first of it, in order."""

    def retire(self, drain_s: float) -> None:
        """Answer everything with an error, and keep some of it for later."""
        waiting = list(self._waiting)
        super().retire(drain_s)
        assert isinstance(self._log, LateLog)
        self._log.late += waiting[: self._log.random.randrange(len(waiting) + 1)]


class LateLog(MemoryLog):
    """A log with a wire: what nobody hopes for any more arrives all the same, old claims and old entries."""

    def __init__(self, seed: int) -> None:
        super().__init__(partitions=1)
        self.random = random.Random(seed)
        self.late: list[ProducerRecord] = []
        self.readable = True

    def appender(self, deliver: Callable[[Sequence[DeliveryReport]], None]) -> MemoryAppender:
        """A new appender."""
        made = LateAppender(self, deliver)
        self._appenders.add(made)
        return made

    def read(self, *arguments: Any, **options: Any) -> Iterator[Batch]:
        """As ever, unless nothing can be read."""
        if not self.readable:
            raise JournalUnavailable("nothing can be read now")
        return super().read(*arguments, **options)

    def land_late(self) -> None:
        """Some of what was on the wire arrives."""
        for _ in range(self.random.randrange(len(self.late) + 1)):
            record = self.late.pop(0)
            self.append(record.partition, record.key, record.value)


async def break_things(log: LateLog, chance: random.Random, is_over: Callable[[], bool], calm_max_s: float) -> None:
    """Lose acknowledgements or appends, and often all reads, again and again until it is over; then heal the log."""
    while not is_over():
        chance.choice([log.drop_acknowledgements, log.refuse_appends])()
        log.readable = chance.random() < 0.4
        await asyncio.sleep(chance.uniform(0.01, 0.15))
        log.heal()
        log.readable = True
        await asyncio.sleep(chance.uniform(0.02, calm_max_s))
        log.land_late()
    log.heal()
    log.readable = True
