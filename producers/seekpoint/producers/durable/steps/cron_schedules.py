"""Cron schedules of agents: when a run is due, and what becomes of firings that nobody noticed in time. Pure: no clock.

At a change of the clocks the rules are those of Debian's cron. A schedule at a fixed time of day fires once a day: in
an hour that is skipped at the first moment after it, in an hour that comes twice the first time. A schedule whose
minute or hour begins with ``*`` fires by the time that has passed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from seekpoint.schemas.errors import InvalidSetting

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

MISSED = ("skip", "once", "all")
_MISSED_AFTER = timedelta(seconds=60)
"""How late a firing may be before it counts as missed: longer than a takeover, or a rolling restart, takes."""
PLANNED_MAX = 100
"""How many firings ``plan`` returns at once; the others come with the next plan."""
_ID_BYTES_MAX = 200


@dataclass(frozen=True)
class Schedule:
    """A cron expression of five fields, a time zone, and the policy for missed firings."""

    cron: str
    timezone: str = "UTC"
    missed: str = "once"
    """``skip``, ``once`` or ``all``: of the firings that nobody submitted within a minute, none is made, only the
    newest, or each."""

    def __post_init__(self) -> None:
        """Raise ``InvalidSetting`` for what is no schedule."""
        object.__setattr__(self, "cron", " ".join(str(self.cron).split()))
        if self.missed not in MISSED:
            raise InvalidSetting(
                f"missed= is one of {', '.join(MISSED)}", setting="missed", value=str(self.missed)[:40]
            )
        if len(self.cron.split(" ")) != 5:
            raise InvalidSetting("a schedule has five fields", setting="schedule", value=self.cron[:80])
        try:
            self._zone  # noqa: B018  # raises where there is none
        except (KeyError, ValueError, OSError) as exc:
            raise InvalidSetting(
                "there is no such time zone", setting="timezone", value=str(self.timezone)[:80]
            ) from exc
        try:
            found = self.next_after(datetime(2026, 1, 1, tzinfo=UTC))
        except ValueError as exc:
            raise InvalidSetting(f"no cron expression: {exc}", setting="schedule", value=self.cron[:80]) from exc
        if found is None:
            raise InvalidSetting("the schedule never fires", setting="schedule", value=self.cron[:80])

    @cached_property
    def _zone(self) -> ZoneInfo:
        from zoneinfo import ZoneInfo  # programs without schedules start without

        return ZoneInfo(self.timezone)

    def firings(self, after: datetime, until: datetime | None = None) -> Iterator[datetime]:
        """Yield the moments after ``after``, up to ``until`` itself, at which the schedule fires. All are in UTC."""
        newest = after
        for found in self._ticks(after):
            if until is not None and found > until:
                return
            if found > newest:
                newest = found
                yield found

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first moment after ``moment`` at which the schedule fires; None if there is none in 50 years."""
        return next(self.firings(moment), None)

    def newest(self, after: datetime, until: datetime) -> datetime | None:
        """Return the newest moment after ``after``, up to ``until``, at which the schedule fires."""
        back = next(self._ticks(until, reverse=True), None)
        if back is None:
            return None
        found: datetime | None = None
        for found in self.firings(max(after, back - timedelta(seconds=1)), until):  # noqa: B007  # the last one is wanted
            pass
        return found

    def _ticks(self, start: datetime, *, reverse: bool = False) -> Iterator[datetime]:
        from cronsim import CronSim, CronSimError  # programs without schedules start without

        try:
            ticks = CronSim(self.cron, start.astimezone(self._zone), reverse=reverse)
        except CronSimError as exc:
            raise ValueError(str(exc)) from exc
        return (one.astimezone(UTC) for one in ticks)

    def plan(self, last: datetime, now: datetime) -> list[datetime]:
        """Return the firings to submit at ``now``, oldest first. ``last`` is the newest one that was submitted."""
        if self.missed == "all":
            return [*islice(self.firings(last, now), PLANNED_MAX)]
        missed_until = now - _MISSED_AFTER
        due = [*self.firings(max(last, missed_until), now)]
        if self.missed == "once" and last < missed_until:
            newest = self.newest(last, missed_until)
            return due if newest is None else [newest, *due]
        return due


def moment_text(moment: datetime) -> str:
    """Return a moment as the ids and inputs of scheduled runs have it.

    >>> moment_text(datetime(2026, 11, 23, 7, tzinfo=UTC))
    '2026-11-23T07:00:00Z'
    """
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S}Z"


def firing_id(agent: str, moment: datetime) -> str:
    """Return the id of the process of a firing: the same whoever submits it.

    >>> firing_id("report", datetime(2026, 11, 23, 7, tzinfo=UTC))
    'report@2026-11-23T07:00:00Z'
    """
    return f"{agent}@{moment_text(moment)}"


def schedule_of(agent: str, cron: str | None, timezone: str, missed: str) -> Schedule | None:
    """Return the schedule of an agent; None without ``cron``. Raises ``InvalidSetting``."""
    if cron is None:
        return None
    if len(firing_id(agent, datetime(2026, 1, 1, tzinfo=UTC)).encode()) > _ID_BYTES_MAX:
        raise InvalidSetting("the name is too long for the ids of scheduled runs", setting="schedule", value=agent[:80])
    return Schedule(cron, timezone, missed)
