"""The table of a journal's schedules: which are paused, and which firing of each was submitted last.

The table is one shared value, which is set by compare-and-set. So two workers that fire at once, or a worker and
somebody who pauses a schedule, cannot undo each other's change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from seekpoint.producers.durable.call_results import Versioned
from seekpoint.producers.durable.steps.cron_schedules import Schedule, moment_text
from seekpoint.schemas.errors import InvalidSetting, Refused, VersionConflict
from seekpoint.schemas.frozen_struct import FrozenStruct

__all__ = ["TABLE_NAME", "ScheduleRow", "ScheduleStatus", "ScheduleTable", "change_table", "schedule_statuses"]

TABLE_NAME = "seekpoint.schedules"
"""The name of the shared value."""
_FORGOTTEN_AFTER = timedelta(days=31)
"""How long after a firing that nobody made a row is dropped: no worker has that schedule any more."""
_ATTEMPTS = 20


class ScheduleRow(FrozenStruct, frozen=True):
    """One schedule of one agent. During a roll-out an agent may have two."""

    agent: str
    schedule: Schedule
    last: datetime
    """The newest firing that was submitted; before the first one, when the schedule was first seen, or resumed."""

    @property
    def next(self) -> datetime | None:
        """Return the first firing after ``last``."""
        return self.schedule.next_after(self.last)


class ScheduleStatus(FrozenStruct, frozen=True, kw_only=True):
    """The state of an agent's schedule. Moments are UTC."""

    agent: str
    cron: str
    timezone: str
    missed: str
    last: datetime
    """The newest firing that was submitted; before the first one, when the schedule was first seen, or resumed."""
    next: datetime | None
    """When it fires next; None while it is paused."""
    paused_by: str | None = None
    """Who paused it; empty if that was not said, None if it is not paused."""


def schedule_statuses(table: ScheduleTable) -> list[ScheduleStatus]:
    """Return the rows of a table, by agent."""
    return [
        ScheduleStatus(
            agent=row.agent, cron=row.schedule.cron, timezone=row.schedule.timezone, missed=row.schedule.missed,
            last=row.last, next=None if row.agent in table.paused else row.next, paused_by=table.paused.get(row.agent),
        )
        for row in sorted(table.rows, key=lambda one: (one.agent, one.last))
    ]  # fmt: skip


class ScheduleTable(FrozenStruct, frozen=True):
    """The schedules of a journal. Never changed: each change returns another table."""

    rows: tuple[ScheduleRow, ...] = ()
    paused: Mapping[str, str] = {}
    """The agents that are paused, with who did it."""

    @classmethod
    def of(cls, value: Any) -> ScheduleTable:
        """Return the table in a shared value. What somebody else put there is left out."""
        found = value if isinstance(value, dict) else {}
        paused = found.get("paused")
        rows = found.get("schedules")
        return cls(
            tuple(row for one in (rows if isinstance(rows, list) else []) if (row := _row_of(one)) is not None),
            {str(name): str(actor) for name, actor in (paused if isinstance(paused, dict) else {}).items()},
        )

    def value(self) -> dict[str, Any]:
        """Return the table as the shared value has it."""
        return {
            "schedules": [
                {
                    "agent": row.agent, "cron": row.schedule.cron, "timezone": row.schedule.timezone,
                    "missed": row.schedule.missed, "last": moment_text(row.last),
                }
                for row in self.rows
            ],
            "paused": dict(self.paused),
        }  # fmt: skip

    def row(self, agent: str, schedule: Schedule) -> ScheduleRow | None:
        """Return the row of a schedule; that of another policy for missed firings is the same schedule."""
        return next((row for row in self.rows if _is_of(row, agent, schedule)), None)

    def with_last(self, agent: str, schedule: Schedule, last: datetime) -> ScheduleTable:
        """Return the table in which ``last`` is the newest firing of a schedule."""
        others = (row for row in self.rows if not _is_of(row, agent, schedule) and not _is_forgotten(row, last))
        return replace(self, rows=(*others, ScheduleRow(agent, schedule, last)))

    def with_paused(self, agent: str, actor: str) -> ScheduleTable:
        """Return the table in which an agent's schedule is paused. Raises ``Refused``."""
        self.check(agent)
        return replace(self, paused={**self.paused, agent: actor})

    def with_resumed(self, agent: str, now: datetime) -> ScheduleTable:
        """Return the table in which an agent's schedule goes on at ``now``, without the firings of the pause."""
        self.check(agent)
        if agent not in self.paused:
            return self
        paused = {name: actor for name, actor in self.paused.items() if name != agent}
        rows = tuple(replace(row, last=max(row.last, now)) if row.agent == agent else row for row in self.rows)
        return ScheduleTable(rows, paused)

    def check(self, agent: str) -> None:
        """Raise ``Refused`` if the agent has no schedule."""
        if all(row.agent != agent for row in self.rows):
            raise Refused("the agent has no schedule here", agent=agent, hint="look with seekpoint schedules ls")


def _row_of(found: Any) -> ScheduleRow | None:
    try:
        last = datetime.strptime(found["last"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        return ScheduleRow(found["agent"], Schedule(found["cron"], found["timezone"], found["missed"]), last)
    except (KeyError, TypeError, ValueError, InvalidSetting):
        return None


def _is_of(row: ScheduleRow, agent: str, schedule: Schedule) -> bool:
    return (row.agent, row.schedule.cron, row.schedule.timezone) == (agent, schedule.cron, schedule.timezone)


def _is_forgotten(row: ScheduleRow, now: datetime) -> bool:
    following = row.next
    return following is None or following + _FORGOTTEN_AFTER < now


class SharedTable(Protocol):
    """The shared value that holds the table."""

    async def get(self) -> Versioned:
        """Return value and version."""
        ...

    async def set(self, value: Any, *, expected_version: int | None = None, actor: str | None = None) -> int:
        """Set the value. Raises ``VersionConflict``."""
        ...


async def change_table(
    shared: SharedTable, change: Callable[[ScheduleTable], ScheduleTable], actor: str | None = None
) -> ScheduleTable:
    """Change the table, whoever else changes it at the same time; return the table after the change."""
    for attempt in range(1, _ATTEMPTS + 1):
        found = await shared.get()
        before = ScheduleTable.of(found.value)
        after = change(before)
        if after == before:
            break
        try:
            await shared.set(after.value(), expected_version=found.version, actor=actor)
            break
        except VersionConflict:
            if attempt == _ATTEMPTS:
                raise
    return after
