"""``seekpoint submit``, ``result``, ``suspend`` and ``resume`` on a journal in memory."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from console_on_memory import on
from seekpoint.producers import Client, Node, Process, agent
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.log.submissions import SubmissionRecord, decode_submission
from shells import Shell


@pytest.fixture(autouse=True)
def _clients_in_memory(log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients work on the log of the test."""
    monkeypatch.setattr(Client, "connect", lambda settings: Client.in_memory(log))


def submissions(log: MemoryLog) -> list[SubmissionRecord]:
    """Return what lies in the inbox."""
    inbox = log.topic("inbox")
    return [
        decode_submission(record.value)
        for partition in range(inbox.partitions)
        for batch in inbox.read(partition, 0, inbox.watermarks(partition).high)
        for record in batch.records
    ]


@agent("refund")
async def refund(process: Process, order: Any) -> Any:
    return {"refunded": order}


@agent("fails")
async def fails(process: Process, order: Any) -> None:
    raise ValueError("no money")


async def _run(node: Node, which: Any, process_id: str) -> None:
    with suppress(ValueError):
        await node.run(which, process_id, 12)


def test_submit_writes_one_record_to_the_inbox(seekpoint: Shell, log: MemoryLog) -> None:
    """With all that the options say. The id goes to stdout, and one line to stderr."""
    ran = seekpoint(
        "submit", "case-1", "--agent", "refund", "--input", '{"order": 1}', "--priority", "5", "--actor", "ann",
        "--start-at", "2030-01-01T00:00:00Z",
    )  # fmt: skip
    assert (ran.code, ran.out) == (0, "case-1\n")
    assert ran.err == "case-1: submitted to the workers that run refund, as ann\n"
    (one,) = submissions(log)
    assert (one.process_id, one.agent, one.input, one.priority, one.actor) == (
        "case-1", "refund", '{"order":1}', 5, "ann"
    )  # fmt: skip
    assert one.start_at_us == 1_893_456_000_000_000


def test_submit_with_json_prints_the_process_and_the_agent(seekpoint: Shell, log: MemoryLog) -> None:
    """Seconds since 1970 are a time too."""
    ran = seekpoint("submit", "case-1", "--agent", "refund", "--start-at", "1893456000", "--json")
    assert (ran.code, ran.json) == (0, {"process_id": "case-1", "agent": "refund"})
    assert [one.start_at_us for one in submissions(log)] == [1_893_456_000_000_000]


def test_submit_waits_no_longer_than_its_timeout(seekpoint: Shell, log: MemoryLog) -> None:
    """The run was submitted all the same."""
    ran = seekpoint("submit", "case-1", "--agent", "refund", "--wait", "--timeout", "0.1")
    assert (ran.code, ran.out) == (3, "")
    assert "did not end in time" in ran.err
    assert len(submissions(log)) == 1


def test_submit_with_wait_prints_the_result_of_a_finished_run(seekpoint: Shell, log: MemoryLog) -> None:
    """Nothing is submitted again. Another input is refused."""
    on(log, lambda node: _run(node, refund, "case-1"))
    ran = seekpoint("submit", "case-1", "--agent", "refund", "--input", "12", "--wait")
    assert (ran.code, ran.json) == (0, {"refunded": 12})
    other = seekpoint("submit", "case-1", "--agent", "refund", "--input", "13", "--wait")
    assert (other.code, "another input" in other.err) == (4, True)
    assert submissions(log) == []


@pytest.mark.parametrize("option", [["--priority", "9" * 30], ["--delay", "1e300"]])
def test_submit_refuses_numbers_that_no_record_can_hold(seekpoint: Shell, log: MemoryLog, option: list[str]) -> None:
    """With one line, and nothing is submitted."""
    ran = seekpoint("submit", "case-1", "--agent", "refund", *option)
    assert (ran.code in (2, 4), "unexpected" in ran.err) == (True, False), ran.err
    assert submissions(log) == []


def test_result_says_how_the_run_ended(seekpoint: Shell, log: MemoryLog) -> None:
    """Exit code 0: finished; 1: failed; 3: not over yet, or unknown; 4: cancelled."""
    on(log, lambda node: _run(node, refund, "done"))
    on(log, lambda node: _run(node, fails, "failed"))
    on(log, _cancelled)
    done = seekpoint("result", "done")
    assert (done.code, done.json) == (0, {"refunded": 12})
    assert seekpoint("result", "done", "--json").json == {"process_id": "done", "result": {"refunded": 12}}
    failed = seekpoint("result", "failed")
    assert (failed.code, "ValueError: no money" in failed.err) == (1, True), failed.err
    cancelled = seekpoint("result", "gone")
    assert (cancelled.code, "asked to stop" in cancelled.err) == (4, True), cancelled.err
    unknown = seekpoint("result", "nobody", "--timeout", "0.1")
    assert (unknown.code, "did not end in time" in unknown.err) == (3, True), unknown.err


async def _cancelled(node: Node) -> None:
    await node.cancel("gone", "not wanted")
    with pytest.raises(Exception, match="asked to stop"):
        await node.run(refund, "gone", 12)


def test_a_suspended_process_runs_after_resume_only(seekpoint: Shell, log: MemoryLog) -> None:
    """``run`` refuses it, and the second ``suspend`` says what is so."""
    on(log, _opened)
    suspended = seekpoint("suspend", "case-1", "--reason", "look at it", "--actor", "ann")
    assert (suspended.code, suspended.err) == (0, "case-1: suspended, as ann\n")
    assert "already suspended" in seekpoint("suspend", "case-1").err
    refused = seekpoint("result", "case-1", "--timeout", "0.1")
    assert (refused.code, "suspended" in refused.err) == (3, True), refused.err
    resumed = seekpoint("resume", "case-1", "--actor", "ann")
    assert (resumed.code, resumed.err.startswith("case-1: resumed, as ann")) == (0, True)
    again = seekpoint("resume", "case-1")
    assert (again.code, "is not suspended" in again.err) == (4, True)


async def _opened(node: Node) -> None:
    async with node.open("case-1") as process:
        await process.update("status", "checking")


@pytest.mark.parametrize("command", ["suspend", "resume"])
def test_unknown_and_finished_processes_are_refused(seekpoint: Shell, log: MemoryLog, command: str) -> None:
    """With the codes of ``cancel``."""
    on(log, lambda node: _run(node, refund, "done"))
    finished, unknown = seekpoint(command, "done"), seekpoint(command, "nobody")
    assert (finished.code, "is finished" in finished.err) == (4, True), finished.err
    assert unknown.code == seekpoint("cancel", "nobody").code == 1, unknown.err
