"""How a worker reads its share of the inbox."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from seekpoint.producers import Node
from seekpoint.producers.node import runtime_of
from seekpoint.producers.worker import submission_intake
from seekpoint.producers.worker.submission_intake import SubmissionIntake
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.bodies.entry import new_id
from seekpoint.schemas.errors import JournalFull
from seekpoint.schemas.log.log_ports import Record
from seekpoint.schemas.log.submissions import SubmissionRecord, encode_submission


class QuietMember:
    """A member of a group in whose inbox nothing comes."""

    def __init__(self) -> None:
        self.assigned: frozenset[int] = frozenset()
        self.is_joined = False
        self.polls = 0
        self.is_closed = False

    def poll(self, timeout_s: float) -> list[Record]:
        self.polls += 1
        time.sleep(timeout_s / 10)
        return []

    def commit(self, partition: int, offset: int) -> None: ...

    def close(self) -> None:
        self.is_closed = True


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110  # no event for it
            await asyncio.sleep(0.005)


async def test_a_quiet_inbox_wakes_the_event_loop_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new assignment is told at once, and the member leaves at once."""
    member, told = QuietMember(), list[frozenset[int]]()
    async with Node.in_memory(MemoryLog()) as node:
        intake = SubmissionIntake(runtime_of(node), member, told.append, "workers")
        reading = asyncio.create_task(intake.run())
        await until(lambda: intake.polls == 2)
        assert member.polls > 10
        polls = intake.polls
        monkeypatch.setattr(submission_intake, "_QUIET_S", 20.0)
        await until(lambda: intake.polls > polls)
        polls, began_s = intake.polls, time.monotonic()
        member.assigned, member.is_joined = frozenset({3}), True
        await until(lambda: told == [frozenset({3})])
        assert intake.polls == polls + 1
        assert time.monotonic() - began_s < 10.0, "it was told only when the quiet time was over"
        reading.cancel()
        began_s = time.monotonic()
        await intake.close()
        assert member.is_closed
        assert time.monotonic() - began_s < 10.0


async def test_a_commit_that_finds_no_room_does_not_end_the_intake() -> None:
    """The submission is in the journal, and a later commit covers it."""
    submission = SubmissionRecord(
        id=new_id(), process_id="p", agent="a", input="null", priority=0, start_at_us=None, actor=None,
        correlation_id=None, ts=0,
    )  # fmt: skip

    class FullMember(QuietMember):
        commits = 0

        def poll(self, timeout_s: float) -> list[Record]:
            super().poll(timeout_s)
            return [Record(0, self.polls, 0, b"p", encode_submission(submission))]

        def commit(self, partition: int, offset: int) -> None:
            self.commits += 1
            raise JournalFull("no room")

    member, log = FullMember(), MemoryLog(partitions=1)
    async with Node.in_memory(log) as node:
        intake = SubmissionIntake(runtime_of(node), member, lambda partitions: None, "workers")
        reading = asyncio.create_task(intake.run())
        await until(lambda: member.commits >= 3)
        assert not reading.done()
        assert log.watermarks(0).high == 1, "what exists already is repeated"
        reading.cancel()
        await intake.close()
