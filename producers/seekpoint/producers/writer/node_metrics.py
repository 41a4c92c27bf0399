"""What a node measures while it works. Pure: a program that serves metrics turns them into a page."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate

from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies import Body
from seekpoint.schemas.errors import Cancelled, HandleLost, Retryable

_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)


class Histogram:
    """A histogram of durations, in seconds. Observe from one thread; any thread may read."""

    def __init__(self) -> None:
        self.sum_s = 0.0
        """The sum of all observed durations."""
        self._counts = [0] * (len(_BOUNDS_S) + 1)

    def observe(self, seconds: float, count: int = 1) -> None:
        """Count a time, ``count`` times. A bound belongs to the bucket that it ends."""
        self._counts[bisect_left(_BOUNDS_S, seconds)] += count
        self.sum_s += seconds * count

    @property
    def count(self) -> int:
        """The number of observed durations."""
        return sum(self._counts)

    def buckets(self) -> list[tuple[str, float]]:
        """Return the upper bound of each bucket, and how many times lie at or below it.

        >>> times = Histogram()
        >>> times.observe(0.002)
        >>> times.buckets()[:2], times.buckets()[-1]
        ([('0.001', 0), ('0.0025', 1)], ('+Inf', 1))
        """
        bounds = [*map(str, _BOUNDS_S), "+Inf"]
        return list(zip(bounds, accumulate(list(self._counts)), strict=True))


class RunCounts:
    """The number of runs that a node began by itself (not those of a worker), by their end."""

    def __init__(self) -> None:
        self.started = self.resumed = 0
        """Runs that began here for the first time, and those that had begun before, here or elsewhere."""
        self.finished = self.failed = self.cancelled = 0
        """Runs that ended with a result, with an error of their code, and because somebody asked for it."""
        self.running = 0
        """Runs under way."""

    @contextmanager
    def counted(self, *, is_resumed: bool) -> Iterator[None]:
        """Count the run inside. One that lost its process, or that can go on by itself, has no outcome."""
        self.resumed += is_resumed
        self.started += not is_resumed
        self.running += 1
        try:
            yield
            self.finished += 1
        except Cancelled:
            self.cancelled += 1
            raise
        except Exception as exc:
            self.failed += not isinstance(exc, HandleLost | Retryable)
            raise
        finally:
            self.running -= 1


class NodeMetrics:
    """The times and counts of one node since its start."""

    def __init__(self) -> None:
        self.append_s = Histogram()
        """From handing a record to the Kafka client to its acknowledgement."""
        self.confirm_s = Histogram()
        """From the request to confirm acknowledged entries until they are confirmed."""
        self.calls_s = {kind: Histogram() for kind in ("step", "decision", "effect")}
        """How long each attempt of a call took, by its kind."""
        self.runs = RunCounts()
        self.fenced_entries = 0
        """Entries of this node that do not count, because another owner's claim came first."""

    def note_call(self, body: Body) -> None:
        """Observe the time of an attempt if ``body`` records its end."""
        kind = _ENDS.get(type(body))
        if kind is None:
            return
        assert isinstance(body, b.StepEnded | b.DecisionMade | b.EffectSettled)
        if not isinstance(body, b.EffectSettled) or body.settled_by == "call":
            self.calls_s[kind].observe(body.duration_us / 1_000_000)


_ENDS: Mapping[type[Body], str] = {b.StepEnded: "step", b.DecisionMade: "decision", b.EffectSettled: "effect"}
