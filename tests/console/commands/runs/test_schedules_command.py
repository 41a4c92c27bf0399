"""``seekpoint schedules`` on a journal in memory."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from console_on_memory import on
from seekpoint.producers import Client, Node
from seekpoint.producers.durable.steps.cron_schedules import Schedule
from seekpoint.producers.runs.schedule_table import TABLE_NAME, ScheduleTable
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.log.submissions import decode_submission
from shells import Shell

DAILY = Schedule("0 7 * * *", "Europe/Berlin", "all")


@pytest.fixture(autouse=True)
def _clients_in_memory(log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients work on the log of the test."""
    monkeypatch.setattr(Client, "connect", lambda settings: Client.in_memory(log))


async def fire(node: Node) -> None:
    """Do what a worker with the schedule does."""
    table = ScheduleTable().with_last("report", DAILY, datetime(2026, 11, 23, 6, tzinfo=UTC))
    await node.shared(TABLE_NAME).set(table.value())


def test_schedules_are_listed_paused_and_resumed(seekpoint: Shell, log: MemoryLog) -> None:
    """With the last firing and the next one; a paused schedule has no next one."""
    assert "no worker has had" in seekpoint("schedules", "ls").err
    on(log, fire)
    (row,) = seekpoint("schedules", "ls", "--json").json["schedules"]
    assert row == {
        "agent": "report", "cron": "0 7 * * *", "timezone": "Europe/Berlin", "missed": "all",
        "last": "2026-11-23T06:00:00Z", "next": "2026-11-24T06:00:00Z", "paused_by": None,
    }  # fmt: skip
    assert "2026-11-24T06:00:00Z" in seekpoint("schedules", "ls").out
    ran = seekpoint("schedules", "pause", "report", "--actor", "ann")
    assert (ran.code, ran.err) == (0, "report: its schedule is paused, as ann\n")
    assert "paused by ann" in seekpoint("schedules", "ls").out
    assert seekpoint("schedules", "resume", "report", "--json").json == {"agent": "report", "state": "resumed"}
    (row,) = seekpoint("schedules", "ls", "--json").json["schedules"]
    assert row["last"] > "2026-11-23T06:00:00Z"
    assert row["next"] > row["last"]


def test_a_schedule_is_triggered_by_hand(seekpoint: Shell, log: MemoryLog) -> None:
    """The run's id and input are the moment, as those of a firing."""
    on(log, fire)
    ran = seekpoint("schedules", "trigger", "report", "--actor", "ann")
    assert ran.code == 0
    process_id = ran.out.strip()
    inbox = log.topic("inbox")
    (one,) = [
        decode_submission(record.value)
        for partition in range(inbox.partitions)
        for batch in inbox.read(partition, 0, inbox.watermarks(partition).high)
        for record in batch.records
    ]
    assert (one.process_id, one.agent, one.actor) == (process_id, "report", "ann")
    assert one.input == f'"{process_id.removeprefix("report@")}"'


@pytest.mark.parametrize("command", ["pause", "resume", "trigger"])
def test_an_agent_without_a_schedule_is_refused(seekpoint: Shell, command: str) -> None:
    """With the command that lists them."""
    ran = seekpoint("schedules", command, "other")
    assert ran.code == 4
    assert "seekpoint schedules ls" in ran.err
