"""How many runs of an agent a worker begins in a span of time."""

from __future__ import annotations

from dataclasses import dataclass

from seekpoint.schemas.errors import InvalidSetting


@dataclass(frozen=True)
class Rate:
    """At most ``runs`` runs begin in any span of ``per_s`` seconds: ``@agent("mail", rate=Rate(10, per_s=60))``.

    Each worker keeps the limit by itself: three workers begin up to three times as many. Only beginnings count. A run
    that goes on, after its wait or after a crash, is not held back.

    >>> Rate(10, per_s=60)
    Rate(runs=10, per_s=60)
    """

    runs: int
    per_s: float = 1.0

    def __post_init__(self) -> None:
        """Raise ``InvalidSetting`` for numbers that make no limit."""
        if type(self.runs) is not int or self.runs < 1:
            raise InvalidSetting("a rate allows at least one run", setting="rate", value=repr(self.runs)[:40])
        if not 0 < self.per_s < float("inf"):
            raise InvalidSetting("a rate is per a span of seconds", setting="rate", value=repr(self.per_s)[:40])


def rate_of(rate: object) -> Rate | None:
    """Return the rate of an agent. Raises ``InvalidSetting`` for what is no rate."""
    if rate is None or isinstance(rate, Rate):
        return rate
    raise InvalidSetting("the rate of an agent is a Rate", setting="rate", found=repr(rate)[:40])
