"""When a failed call is tried again, and how long to wait before. Pure."""

from __future__ import annotations

from dataclasses import field
from typing import Final

from seekpoint.schemas.dataclass import dataclass
from seekpoint.schemas.errors import InvalidSetting, LimitExceeded, UnserializableValue

__all__ = ["ONCE", "Retry"]

_NEVER: Final = (UnserializableValue, LimitExceeded)
"""The work was done, only its result cannot be journaled: doing it again gives the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often a call may be tried, and the wait between: ``backoff_s * factor ** n``, capped, with jitter.

    ``non_retryable`` and exceptions whose attribute ``retryable`` is False end it at once. A takeover in the middle of
    an attempt never ends it: whoever resumes has at least one attempt.

    >>> Retry(attempts=4, jitter=0).waits_s()
    [1.0, 2.0, 4.0]
    """

    attempts: int = 3
    backoff_s: float = 1.0
    factor: float = 2.0
    backoff_max_s: float = 60.0
    jitter: float = 0.1
    """The share of a wait that chance adds or takes: many that failed together do not come back together."""
    non_retryable: tuple[type[BaseException], ...] = field(default=())

    def __post_init__(self) -> None:
        try:
            fits = self.attempts >= 1 and min(self.backoff_s, self.backoff_max_s) >= 0 and self.factor >= 1
            fits = fits and 0 <= self.jitter <= 1
        except TypeError:  # no numbers
            fits = False
        if not fits:
            raise InvalidSetting(
                "a retry has at least one attempt, waits that do not shrink, and a jitter from 0 to 1",
                attempts=self.attempts, backoff_s=self.backoff_s, factor=self.factor, jitter=self.jitter,
            )  # fmt: skip
        final = self.non_retryable
        if type(final) is not tuple or not all(
            isinstance(one, type) and issubclass(one, BaseException) for one in final
        ):
            raise InvalidSetting("non_retryable= is a tuple of exception classes", found=repr(final)[:80])

    def allows(self, attempt: int, error: BaseException) -> bool:
        """Whether there is another attempt after number ``attempt`` ended with ``error``."""
        return attempt < self.attempts and self.is_retryable(error)

    def is_retryable(self, error: BaseException) -> bool:
        """Whether another attempt could end otherwise."""
        return not isinstance(error, _NEVER + self.non_retryable) and getattr(error, "retryable", True) is not False

    def wait_s(self, attempt: int, chance: float = 0.5) -> float:
        """Seconds to wait after attempt number ``attempt``; ``chance`` in [0, 1) decides the jitter."""
        try:
            wait = self.backoff_s * self.factor ** (attempt - 1)
        except OverflowError:
            wait = self.backoff_max_s
        return min(wait, self.backoff_max_s) * (1 + self.jitter * (2 * chance - 1))

    def waits_s(self) -> list[float]:
        """All waits, without chance: to look at."""
        return [self.wait_s(attempt) for attempt in range(1, self.attempts)]


ONCE: Final = Retry(attempts=1)
"""What a call gets that asks for nothing: one attempt."""
