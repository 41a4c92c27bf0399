"""Windows of sent records, each about a second long, whose acknowledgements are counted together.

Once all records of the oldest windows are acknowledged, the job is settled up to the start of the next window. The
progress file stores that point.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from seekpoint.consumers.staging.copy.copy_stats import CopyStats, Settled
from seekpoint.consumers.staging.replay_ports import OnDelivery

_WINDOW_S = 1.0
_WINDOW_RECORDS = 200_000


class AckWindow:
    """The records that were sent within about a second."""

    __slots__ = ("on_delivery", "settled", "unacknowledged")

    def __init__(self, settled: Settled, on_error: Callable[[Any], None]) -> None:
        self.settled = settled
        """The point that is settled once all records before this window are acknowledged."""
        self.unacknowledged = 0

        def on_delivery(error: Any, message: Any) -> None:
            if error is None:
                self.unacknowledged -= 1
            else:
                on_error(error)

        self.on_delivery: OnDelivery = on_delivery


class AckWindows:
    """The open windows. ``on_settled`` receives each settled point; ``tail`` returns the target's end offsets."""

    def __init__(
        self, stats: CopyStats, tail: Callable[[], Mapping[int, int]], on_settled: Callable[[Settled], None]
    ) -> None:
        self._stats = stats
        self._tail = tail
        self._on_settled = on_settled
        self._open: list[AckWindow] = []
        self.failure: Any = None
        """The first error of a delivery."""
        self._begin()

    @property
    def unacknowledged(self) -> int:
        """Return how many records are not acknowledged."""
        return sum(window.unacknowledged for window in self._open)

    def is_over(self) -> bool:
        """Return whether the current window is long enough."""
        now, sent = time.monotonic(), self._stats.sent - self._sent_before
        return now - self._began_at >= _WINDOW_S or sent >= _WINDOW_RECORDS

    def settle(self) -> None:
        """End the current window, and pass on the newest settled point."""
        self._begin()
        done = 0
        while done < len(self._open) - 1 and self._open[done].unacknowledged == 0:
            done += 1
        if done:
            self._open = self._open[done:]
            self._on_settled(self._open[0].settled)
        self._stats.acknowledged = self._stats.sent - self.unacknowledged

    def _begin(self) -> None:
        stats = self._stats
        settled = Settled(dict(stats.positions), stats.tallies.copy(), stats.counters(), dict(self._tail()))
        self.current = AckWindow(settled, self._fail)
        self._open.append(self.current)
        self._sent_before = stats.sent
        self._began_at = time.monotonic()

    def _fail(self, error: Any) -> None:
        if self.failure is None:
            self.failure = error
