"""The last part of the demo, after the workers ended: empty Redis, and recover a long process from each tier."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from seekpoint.console.services.facts.redis_facts import forget_everything
from seekpoint.consumers import Projector, Recovery, Tier
from seekpoint.consumers.recovery.recovery_report import Recovered
from seekpoint.producers import Node
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import SeekpointError

LONG_PROCESS = "long-history"
_CHUNK, _TAIL = 1_000, 10
_TRIES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Flush:
    """The result of emptying Redis and recovering every case again."""

    keys: int
    """The number of deleted keys."""
    cases: int
    tiers: Mapping[str, int]
    """The number of cases recovered from each tier."""
    mismatches: int
    """The number of states that differ from those before."""
    median_s: float

    @property
    def ok(self) -> bool:
        """Whether every state was recovered from a checkpoint, unchanged."""
        return self.mismatches == 0 and self.tiers == {str(Tier.CHECKPOINT): self.cases}

    def to_dict(self) -> dict[str, Any]:
        """Return the facts for the JSON line."""
        return {
            "keys": self.keys,
            "cases": self.cases,
            "tiers": dict(self.tiers),
            "hash_mismatches": self.mismatches,
            "median_duration_s": self.median_s,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TierRow:
    """The recovery of the long process from one tier. ``report`` is that of the attempt of median duration."""

    report: Mapping[str, Any]
    hash: str

    @property
    def tier(self) -> str:
        """The name of the tier."""
        return str(self.report["tier"])

    def to_dict(self) -> dict[str, Any]:
        """Return the facts for the JSON line."""
        return {"process": LONG_PROCESS, **self.report, "hash": self.hash}


@dataclass(frozen=True, slots=True, kw_only=True)
class Aftermath:
    """The results of what the demo does after the workers ended."""

    flush: Flush
    tiers: Sequence[TierRow]

    @property
    def is_one_state(self) -> bool:
        """Whether all tiers give the same state."""
        return len({row.hash for row in self.tiers}) == 1

    @property
    def ok(self) -> bool:
        """Whether the results are those that the demo promises."""
        return self.flush.ok and self.is_one_state and {row.tier for row in self.tiers} == set(map(str, Tier))


class BackgroundProjector:
    """A projector in a thread of this process. At the end of the ``with`` block it saves its state and stops."""

    def __init__(self, settings: Settings) -> None:
        self.failure: str | None = None
        """The error that ended the projector early; None if there was none."""
        self._projector = Projector.connect(settings)
        self._thread = threading.Thread(target=self._work, name="demo-projector", daemon=True)

    def __enter__(self) -> BackgroundProjector:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._projector.stop()
        self._thread.join()

    def _work(self) -> None:
        try:
            asyncio.run(self._projector.run())
        except SeekpointError as exc:
            self.failure = str(exc)


def lose_redis(settings: Settings, before: Mapping[str, str], *, is_ours: bool) -> Flush:
    """Delete the journal's keys in Redis (with ``is_ours``: all keys), and recover each process of ``before``.

    ``before`` maps each process to the hash of its state. No projector may run meanwhile: it would rebuild the view.
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
    """Write a long history, project it, append a few entries, and recover the process from each tier."""
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
    """Return the attempt of median duration, after one attempt that warms up the reader."""
    await recovery.recover(LONG_PROCESS, tier=tier)
    tries = [await recovery.recover(LONG_PROCESS, tier=tier) for _ in range(_TRIES)]
    tries.sort(key=lambda one: one.report.duration_s)
    found = tries[len(tries) // 2]
    return TierRow(report=found.report.to_dict(), hash=found.state.hash)
