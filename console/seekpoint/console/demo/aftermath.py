"""After the fleet went home: Redis loses everything, and a long process is found in each of the three ways."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from types import TracebackType
from typing import Any

from seekpoint.console.services.redis_facts import forget_everything
from seekpoint.consumers import Projector, Recovery, Tier
from seekpoint.consumers.recovery.recovery_report import Recovered
from seekpoint.producers import Node
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import SeekpointError

__all__ = ["LONG_PROCESS", "Aftermath", "Flush", "Projecting", "TierRow", "compare_tiers", "lose_redis"]

LONG_PROCESS = "long-history"
_CHUNK, _TAIL = 1_000, 10
_TRIES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Flush:
    """Redis lost everything, and every case was recovered again."""

    keys: int
    """How many were deleted."""
    cases: int
    tiers: Mapping[str, int]
    """How many were found by which tier."""
    mismatches: int
    """States that are not what they were before."""
    median_s: float

    @property
    def ok(self) -> bool:
        """Whether checkpoints alone gave every state back."""
        return self.mismatches == 0 and self.tiers == {str(Tier.CHECKPOINT): self.cases}

    def to_dict(self) -> dict[str, Any]:
        """For the one JSON line."""
        return {
            "keys": self.keys,
            "cases": self.cases,
            "tiers": dict(self.tiers),
            "hash_mismatches": self.mismatches,
            "median_duration_s": self.median_s,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TierRow:
    """One way to find the long process. ``report`` is that of the median of some tries."""

    report: Mapping[str, Any]
    hash: str

    @property
    def tier(self) -> str:
        """Which way it was."""
        return str(self.report["tier"])

    def to_dict(self) -> dict[str, Any]:
        """For the one JSON line."""
        return {"process": LONG_PROCESS, **self.report, "hash": self.hash}


@dataclass(frozen=True, slots=True, kw_only=True)
class Aftermath:
    """What was seen after the fleet went home."""

    flush: Flush
    tiers: Sequence[TierRow]

    @property
    def is_one_state(self) -> bool:
        """Whether every way leads to the same."""
        return len({row.hash for row in self.tiers}) == 1

    @property
    def ok(self) -> bool:
        """Whether it is what the demo promises."""
        return self.flush.ok and self.is_one_state and {row.tier for row in self.tiers} == set(map(str, Tier))


class Projecting:
    """A projector beside the fleet, in a thread. Leaving the ``with`` has it save what is left, and ends it."""

    def __init__(self, settings: Settings) -> None:
        self.failure: str | None = None
        """What ended it before its time."""
        self._projector = Projector.connect(settings)
        self._thread = threading.Thread(target=self._work, name="demo-projector", daemon=True)

    def __enter__(self) -> Projecting:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._projector.stop()
        self._thread.join()

    def _work(self) -> None:
        try:
            asyncio.run(self._projector.run())
        except SeekpointError as exc:
            self.failure = str(exc)


def lose_redis(settings: Settings, before: Mapping[str, str], *, is_ours: bool) -> Flush:
    """Empty Redis (one that is not ours: of this journal), and recover every process of ``before``, one by one.

    ``before`` has their hashes. No projector may run: it would make the view anew while one looks.
    """
    keys = forget_everything(settings, all_of_it=is_ours)

    async def recover() -> dict[str, Recovered]:
        async with Recovery.connect(settings) as recovery:
            return {case: await recovery.recover(case) for case in before}

    found = asyncio.run(recover())
    tiers: dict[str, int] = {}
    for one in found.values():
        tiers[str(one.report.tier)] = tiers.get(str(one.report.tier), 0) + 1
    return Flush(
        keys=keys,
        cases=len(before),
        tiers=tiers,
        mismatches=sum(one.state.hash != before[case] for case, one in found.items()),
        median_s=median([one.report.duration_s for one in found.values()] or [0.0]),
    )


def compare_tiers(settings: Settings, entries: int) -> list[TierRow]:
    """Write a long history, have it projected, add a short tail, and find its state in every way there is."""
    return asyncio.run(_compare(settings, entries))


async def _compare(settings: Settings, entries: int) -> list[TierRow]:
    async with Node.connect(settings) as node, node.open(LONG_PROCESS, take_over=True) as process:
        for start in range(0, entries, _CHUNK):
            await asyncio.gather(
                *(process.update("step", number) for number in range(start, min(start + _CHUNK, entries)))
            )
        await Projector.connect(settings).catch_up()
        for number in range(_TAIL):
            await process.update("step", entries + number)
    async with Recovery.connect(settings) as recovery:
        return [await _median(recovery, tier) for tier in Tier]


async def _median(recovery: Recovery, tier: Tier) -> TierRow:
    """Of some tries, after one that warms the reader up."""
    await recovery.recover(LONG_PROCESS, tier=tier)
    tries = [await recovery.recover(LONG_PROCESS, tier=tier) for _ in range(_TRIES)]
    tries.sort(key=lambda one: one.report.duration_s)
    found = tries[len(tries) // 2]
    return TierRow(report=found.report.to_dict(), hash=found.state.hash)
