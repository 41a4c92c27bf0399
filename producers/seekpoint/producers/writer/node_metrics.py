"""What a node measures while it works. Pure: a program that serves metrics turns them into a page."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies import Body

__all__ = ["Histogram", "NodeMetrics"]

_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)


class Histogram:
    """How often something took how long. Observe from one thread; any thread may read."""

    def __init__(self) -> None:
        self.sum_s = 0.0
        """The sum of all observed times."""
        self._counts = [0] * (len(_BOUNDS_S) + 1)

    def observe(self, seconds: float) -> None:
        """Count one time. A bound belongs to the bucket that it ends."""
        self._counts[bisect_left(_BOUNDS_S, seconds)] += 1
        self.sum_s += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Return the upper bound of each bucket, and how many times lie at or below it.

        >>> times = Histogram()
        >>> times.observe(0.002)
        >>> times.buckets()[:2], times.buckets()[-1]
        ([('0.001', 0), ('0.0025', 1)], ('+Inf', 1))
        """
        bounds = [*map(str, _BOUNDS_S), "+Inf"]
        return list(zip(bounds, accumulate(list(self._counts)), strict=True))


class NodeMetrics:
    """The times and counts of one node since its start."""

    def __init__(self) -> None:
        self.append_s = Histogram()
        """From handing a record to the Kafka client to its acknowledgement."""
        self.confirm_s = Histogram()
        """From the wish to confirm acknowledged entries until they were read back."""
        self.calls_s = {kind: Histogram() for kind in ("step", "decision", "effect")}
        """How long each attempt of a call took, by its kind."""
        self.fenced_entries = 0
        """Entries of this node that do not count, because another owner's claim came first."""

    def note_call(self, body: Body) -> None:
        """Observe the time of an attempt if ``body`` records its end."""
        if isinstance(body, b.StepEnded):
            kind = "step"
        elif isinstance(body, b.DecisionMade):
            kind = "decision"
        elif isinstance(body, b.EffectSettled) and body.settled_by == "call":
            kind = "effect"
        else:
            return
        self.calls_s[kind].observe(body.duration_us / 1_000_000)
