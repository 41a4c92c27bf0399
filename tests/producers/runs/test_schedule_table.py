"""The table of schedules, and changes of it by several programs at once."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from seekpoint.producers import Node, Shared
from seekpoint.producers.durable.steps.cron_schedules import Schedule
from seekpoint.producers.runs.schedule_table import TABLE_NAME, ScheduleTable, change_table
from seekpoint.schemas.errors import Refused

NOW = datetime(2026, 11, 23, 6, tzinfo=UTC)
DAILY = Schedule("0 7 * * *", "Europe/Berlin")


def test_a_table_reads_back_as_it_was_written() -> None:
    """Also one with a pause."""
    table = ScheduleTable().with_last("report", DAILY, NOW).with_paused("report", "ann")
    assert ScheduleTable.of(table.value()) == table


@pytest.mark.parametrize("value", [None, 5, [], {"schedules": 7, "paused": []}, {"schedules": [{"agent": "a"}, 3]}])
def test_what_somebody_else_wrote_is_left_out(value: Any) -> None:
    """The shared value has a name that any program may set."""
    assert ScheduleTable.of(value) == ScheduleTable()


def test_a_changed_policy_is_the_same_schedule_and_another_cron_or_zone_is_a_new_one() -> None:
    """So that a new policy applies to the firings that are missed now."""
    table = ScheduleTable().with_last("report", DAILY, NOW)
    row = table.row("report", Schedule("0 7 * * *", "Europe/Berlin", "all"))
    assert row is not None
    assert row.last == NOW
    assert table.row("report", Schedule("0 7 * * *", "UTC")) is None
    assert table.row("report", Schedule("0 8 * * *", "Europe/Berlin")) is None


def test_a_schedule_that_is_unknown_is_neither_paused_nor_resumed() -> None:
    """Its name is probably wrong."""
    with pytest.raises(Refused):
        ScheduleTable().with_paused("report", "ann")
    with pytest.raises(Refused):
        ScheduleTable().with_resumed("report", NOW)


async def pause(shared: Shared, agent: str) -> None:
    await change_table(shared, lambda table: table.with_paused(agent, "ann"))


async def test_changes_at_the_same_time_are_all_made() -> None:
    """Each program reads again when another one was first."""
    names = [f"report-{number}" for number in range(6)]
    async with Node.in_memory() as node:
        shared = node.shared(TABLE_NAME)
        table = ScheduleTable()
        for name in names:
            table = table.with_last(name, DAILY, NOW)
        await shared.set(table.value())
        await asyncio.gather(*(pause(shared, name) for name in names))
        assert {*ScheduleTable.of((await shared.get()).value).paused} == {*names}
