"""Records are sent in **generations** of about a second: what was acknowledged is known of them as a whole.

When all of one generation, and of those before it, were acknowledged, the job is settled up to where it ended, and that
is what the progress file says.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from seekpoint.consumers.staging.copy.copy_stats import CopyStats, Settled
from seekpoint.consumers.staging.replay_ports import OnDelivery

__all__ = ["Generation", "Generations"]

_GENERATION_S = 1.0
_GENERATION_RECORDS = 200_000


class Generation:
    """Records that were sent within about a second."""

    __slots__ = ("left", "settled", "told")

    def __init__(self, settled: Settled, on_error: Callable[[Any], None]) -> None:
        self.settled = settled
        """What is settled once all before it was acknowledged."""
        self.left = 0
        """How many are not acknowledged."""

        def told(error: Any, message: Any) -> None:
            if error is None:
                self.left -= 1
            else:
                on_error(error)

        self.told: OnDelivery = told


class Generations:
    """Those that are open. ``on_settled`` is told what to keep; ``tail`` says where the target ends."""

    def __init__(
        self, flow: CopyStats, tail: Callable[[], Mapping[int, int]], on_settled: Callable[[Settled], None]
    ) -> None:
        self._flow = flow
        self._tail = tail
        self._on_settled = on_settled
        self._open: list[Generation] = []
        self.failure: Any = None
        """The first error of a delivery."""
        self._begin()

    @property
    def left(self) -> int:
        """How many records are not acknowledged."""
        return sum(generation.left for generation in self._open)

    def is_over(self) -> bool:
        """Whether the present one is long enough."""
        now, sent = time.monotonic(), self._flow.sent - self._sent_before
        return now - self._began_at >= _GENERATION_S or sent >= _GENERATION_RECORDS

    def settle(self) -> None:
        """End the present one; tell what the oldest open one began with: everything before it was acknowledged."""
        self._begin()
        done = 0
        while done < len(self._open) - 1 and self._open[done].left == 0:
            done += 1
        if done:
            self._open = self._open[done:]
            self._on_settled(self._open[0].settled)
        self._flow.acknowledged = self._flow.sent - self.left

    def _begin(self) -> None:
        flow = self._flow
        began = Settled(dict(flow.positions), flow.tallies.copy(), flow.counters(), dict(self._tail()))
        self.current = Generation(began, self._fail)
        self._open.append(self.current)
        self._sent_before = flow.sent
        self._began_at = time.monotonic()

    def _fail(self, error: Any) -> None:
        if self.failure is None:
            self.failure = error
