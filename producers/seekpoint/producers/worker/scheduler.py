"""Submit the scheduled runs of a worker's agents, each once, under an id made from its moment.

    a firing is due -> submit the run under AGENT@MOMENT -> note the moment in the table of schedules

Any number of workers may do this: a second submission under an id is the same run. A worker that dies before it notes
the moment is followed by one that submits the same id again. The worker that looks after partition 0 of the inbox does
it, so that the others need not.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from hashlib import blake2b

from seekpoint.producers.durable.session import SharedValue
from seekpoint.producers.durable.steps.cron_schedules import PLANNED_MAX, Schedule, firing_id, moment_text
from seekpoint.producers.runs.schedule_table import ScheduleTable
from seekpoint.schemas.errors import SeekpointError, VersionConflict
from seekpoint.schemas.log.submissions import SubmissionRecord
from seekpoint.schemas.values.json_values import dump

logger = logging.getLogger("seekpoint.producers")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Scheduler:
    """Fires the schedules of some agents."""

    def __init__(
        self,
        schedules: Mapping[str, Schedule],
        table: SharedValue,
        submit: Callable[[SubmissionRecord], Awaitable[None]],
        now_us: Callable[[], int],
    ) -> None:
        self.schedules = schedules
        """The schedules by agent."""
        self.submitted = 0
        """How many firings were submitted here."""
        self._table = table
        self._submit = submit
        self._now_us = now_us
        self._next: datetime | None = None
        """The next moment at which a schedule fires; None: look at the table now."""

    def forget(self) -> None:
        """Look at the table at the next look, whatever the time: another worker fired meanwhile."""
        self._next = None

    async def look(self) -> None:
        """Submit what is due, and note it. An error is logged: the next look tries again."""
        now = _EPOCH + timedelta(microseconds=self._now_us())
        if not self.schedules or (self._next is not None and now < self._next):
            return
        self._next = None
        try:
            if await self._fire(now):
                self._next = min(filter(None, (one.next_after(now) for one in self.schedules.values())), default=None)
        except VersionConflict:
            logger.info("the table of schedules was changed by somebody else at the same time")
        except SeekpointError as exc:
            logger.warning("schedules cannot be looked at: %s", exc)

    async def _fire(self, now: datetime) -> bool:
        """Submit what is due at ``now``; return whether that was all."""
        is_all, found = True, await self._table.get()
        table = before = ScheduleTable.of(found.value)
        for agent, schedule in self.schedules.items():
            if agent in table.paused:
                continue
            row = table.row(agent, schedule)
            if row is None:
                table = table.with_last(agent, schedule, now.replace(microsecond=0))
                continue
            due = schedule.plan(row.last, now)
            for moment in due:
                await self._submit(scheduled_run(agent, moment))
                self.submitted += 1
            is_all = is_all and len(due) < PLANNED_MAX
            if due or row.schedule != schedule:
                table = table.with_last(agent, schedule, due[-1] if due else row.last)
        if table != before:
            await self._table.set_text(dump(table.value()), found.version, "schedules", None)
        return is_all


def scheduled_run(agent: str, moment: datetime) -> SubmissionRecord:
    """Return the submission of a firing: the same whoever makes it. The run's input is its moment."""
    process_id, text = firing_id(agent, moment), moment_text(moment)
    return SubmissionRecord(
        id=blake2b(f"{process_id}\0schedule".encode(), digest_size=16).digest(), process_id=process_id, agent=agent,
        input=dump(text), actor="schedules", ts=int((moment - _EPOCH) / timedelta(microseconds=1)),
    )  # fmt: skip
