"""When a failed call has another attempt, and how long it waits before. Pure."""

from __future__ import annotations

from typing import Final

from msgspec import field

from seekpoint.schemas.errors import InvalidSetting, LimitExceeded, UnserializableValue
from seekpoint.schemas.frozen_struct import FrozenStruct

_NEVER: Final = (UnserializableValue, LimitExceeded)
"""Errors after the work was done: the result cannot be journaled, and another attempt gives the same result."""


class Retry(FrozenStruct, frozen=True, kw_only=True):
    """The number of tries of a call, and the waits between them: ``backoff_s * factor ** n``, capped, with jitter.

    ``non_retryable`` and exceptions whose attribute ``retryable`` is False end it at once; with ``only_transient`` so
    do all but errors of a connection, a time-out, or a server that is busy. A step or a decision whose server named the
    seconds to wait (``Retry-After``) waits at least that long, within ``backoff_max_s``. A takeover in the middle of an
    attempt never ends it: whoever resumes has at least one attempt.

    >>> Retry(attempts=4, jitter=0).waits_s()
    [1.0, 2.0, 4.0]
    """

    attempts: int = 3
    backoff_s: float = 1.0
    factor: float = 2.0
    backoff_max_s: float = 60.0
    jitter: float = 0.1
    """The random share of a wait, so that calls that failed together do not come back together."""
    non_retryable: tuple[type[BaseException], ...] = field(default=())
    only_transient: bool = False
    """Retry only after an error of a connection, a time-out, or a busy server (408, 425, 429, 5xx)."""

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
        """Whether attempt number ``attempt``, which ended with ``error``, is followed by another."""
        return attempt < self.attempts and self.is_retryable(error)

    def is_retryable(self, error: BaseException) -> bool:
        """Whether another attempt may end differently."""
        if isinstance(error, _NEVER + self.non_retryable) or getattr(error, "retryable", True) is False:
            return False
        if not self.only_transient:
            return True
        from seekpoint.producers.durable.failures.transient import is_transient

        return is_transient(error)

    def wait_s(self, attempt: int, chance: float = 0.5, asked_s: float = 0.0) -> float:
        """Return the seconds to wait after attempt number ``attempt``; ``chance`` in [0, 1) decides the jitter.

        At least the ``asked_s`` that a server asked for, and then only longer by the jitter, within ``backoff_max_s``.
        """
        try:
            wait = self.backoff_s * self.factor ** (attempt - 1)
        except OverflowError:
            wait = self.backoff_max_s
        wait = min(wait, self.backoff_max_s) * (1 + self.jitter * (2 * chance - 1))
        return max(wait, min(asked_s * (1 + self.jitter * chance), self.backoff_max_s))

    def waits_s(self) -> list[float]:
        """Return all waits without their random share, for people to read."""
        return [self.wait_s(attempt) for attempt in range(1, self.attempts)]


ONCE: Final = Retry(attempts=1)
"""The default of effects: one attempt."""

TRANSIENT: Final = Retry(attempts=3, backoff_s=0.2, backoff_max_s=30.0, jitter=0.5, only_transient=True)
"""The default of steps and decisions."""
