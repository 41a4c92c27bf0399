"""When a worker takes over a process whose owners died: each death without progress doubles the wait. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seekpoint.producers.durable.failures.owner_deaths import deaths_max

if TYPE_CHECKING:
    from seekpoint.producers.durable.steps.agent import Agent
    from seekpoint.producers.writer.clocks import Clock
    from seekpoint.schemas.config.settings import Settings

_WAIT_S, _WAIT_MAX_S = 1.0, 60.0
"""The wait after the second death. After the first one a run goes on at once: mostly it is not what ended the owner."""


class TakeOvers:
    """The waits before take-overs, in one worker."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._waits: dict[str, tuple[int, float]] = {}
        """By process: its epoch when it was found without a living owner, and when it may be taken over."""

    def wait_s(self, process_id: str, epoch: int, deaths: int) -> float | None:
        """Return how long the take-over has to wait still; None: no longer."""
        if deaths < 2:
            self._waits.pop(process_id, None)
            return None
        now_s = self._clock.monotonic()
        waited_epoch, begins_s = self._waits.get(process_id, (-1, 0.0))
        if waited_epoch != epoch:
            begins_s = now_s + min(_WAIT_S * 2.0 ** min(deaths - 2, 10), _WAIT_MAX_S)
            self._waits[process_id] = epoch, begins_s
        return begins_s - now_s if begins_s > now_s else None

    def is_last(self, agent: Agent, deaths: int) -> bool:
        """Return whether one more death of an owner parks the run."""
        return deaths > 0 and deaths + 1 == deaths_max(agent, self._settings)
