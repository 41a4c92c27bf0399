"""``seekpoint redrive --failed``: which failed runs it finds. On a log in memory; nothing is sent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from console_on_memory import on
from consoles import file_settings, work_on
from kafka_checkpoints import project, save
from seekpoint.consumers.journal_log import embedded_log
from seekpoint.consumers.kafka.kafka_reader import KafkaReader
from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.producers import Client, Node, NotDone, Process, agent
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.config.settings import Settings
from shells import Ran, Shell


@agent("refund")
async def refund(process: Process, order: int) -> int:
    if order > 1:
        raise ValueError(f"no order {order}")
    return order


@agent("triage")
async def triage(process: Process, order: int) -> None:
    raise ValueError("no such customer")


@pytest.fixture
def failed(log: MemoryLog) -> MemoryLog:
    """A log with one run that ended and three that failed."""

    async def some(node: Node) -> None:
        assert await node.run(refund, "r-1", 1) == 1
        for code, process_id, order in ((refund, "r-2", 2), (refund, "r-3", 3), (triage, "t-1", 1)):
            with pytest.raises(ValueError, match="no "):
                await node.run(code, process_id, order)

    on(log, some)
    return log


def found(seekpoint: Shell, *arguments: str) -> list[str]:
    listed = seekpoint("redrive", "--failed", "--dry-run", "--json", *arguments)
    assert (listed.code, listed.json["redriven"]) == (0, []), listed.err
    return sorted(one["process_id"] for one in listed.json["failed"])


def test_failed_runs_are_found_by_agent_and_time(seekpoint: Shell, failed: MemoryLog) -> None:
    """All without a filter; never one that ended well."""
    assert found(seekpoint) == ["r-2", "r-3", "t-1"]
    assert found(seekpoint, "--agent", "refund") == ["r-2", "r-3"]
    assert found(seekpoint, "--agent", "nobody") == []
    assert found(seekpoint, "--since", "1h", "--agent", "triage") == ["t-1"]
    time.sleep(1.1)
    assert found(seekpoint, "--since", "1s") == []
    shown = seekpoint("redrive", "--failed", "--agent", "refund", "--dry-run")
    assert "r-2  ValueError: no order 2" in shown.out.splitlines()
    assert "2 failed runs found" in shown.err


@agent("payer")
async def payer(process: Process, order: int) -> None:
    await process.effect("pay", _closed, order)


async def _closed(order: int) -> None:
    raise NotDone("the bank is closed")


@agent("asker")
async def asker(process: Process, order: int) -> None:
    await process.gate("sure")


def test_an_effect_that_did_nothing_is_named(shell: Shell, tmp_path: Path) -> None:
    """What does not qualify is refused, in a dry run too; a run that waits can be redriven, and one that ended not."""
    settings = file_settings(tmp_path)

    def seekpoint(*arguments: str) -> Ran:
        return shell(*arguments, "--journal-url", str(settings.journal_url))

    async def some(node: Node) -> None:
        with pytest.raises(NotDone):
            await node.run(payer, "p-1", 1)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(node.run(asker, "a-1", 1), 0.3)
        assert await node.run(refund, "r-1", 1) == 1

    work_on(settings, some)
    for more in ((), ("--dry-run",)):
        ran = seekpoint("redrive", "p-1", "--effect", "no:1", *more)
        assert (ran.code, "no effect of this key" in ran.err) == (4, True)
    assert seekpoint("redrive", "p-1", "--effect", "pay:1", "--dry-run", "--json").json["redriven"] == []
    assert seekpoint("redrive", "p-1", "--effect", "pay:1", "--json").json["redriven"] == ["p-1"]
    log = embedded_log(settings)
    assert log is not None
    with closing(log):
        request = Recoverer(log).recover("p-1").state.redrive
    assert request is not None
    assert request.effects == '["pay:1"]'
    assert seekpoint("redrive", "a-1", "--json").json["redriven"] == ["a-1"]
    assert seekpoint("redrive", "r-1").code == 4
    assert seekpoint("redrive", "p-1", "a-1", "--effect", "pay:1").code == 2


@pytest.mark.parametrize("arguments", [(), ("--agent", "refund"), ("r-2", "--failed"), ("r-2", "--since", "1h")])
def test_a_redrive_without_a_choice_is_refused(seekpoint: Shell, arguments: tuple[str, ...]) -> None:
    """Before anything is read."""
    assert seekpoint("redrive", *arguments).code == 2


def test_a_run_that_did_not_fail_is_refused(seekpoint: Shell, failed: MemoryLog) -> None:
    """Then nothing is sent to any of the processes."""
    refused = seekpoint("redrive", "r-2", "r-1", "--dry-run")
    assert (refused.code, "neither failed nor waits, nothing was sent" in refused.err, refused.out) == (4, True, "")


def test_what_is_asked_for_is_in_the_request(
    seekpoint: Shell, failed: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asks, why, and whether steps in doubt begin anew; stderr says that there is no view."""
    monkeypatch.setattr(Client, "connect", lambda settings: Client.in_memory(failed))
    how = ("--in-doubt", "--reason", "mended", "--actor", "ann", "--json")
    sent = seekpoint("redrive", "--failed", "--agent", "refund", *how)
    assert (sent.code, sent.json["redriven"]) == (0, ["r-2", "r-3"]), sent.err
    assert sent.json["failed"][0] == {
        "process_id": "r-2", "agent": "refund", "failure": "ValueError: no order 2", "runs_failed": 1, "in_doubt": 0
    }  # fmt: skip
    assert "reading checkpoints and the log: the settings name no Redis" in sent.err
    assert seekpoint("redrive", "t-1").code == 0
    found = [Recoverer(failed).recover(process_id).state.redrive for process_id in ("r-2", "t-1")]
    assert [one and (one.in_doubt, one.reason) for one in found] == [(True, "mended"), (False, None)]


@pytest.mark.cluster
def test_failed_runs_of_a_real_journal_are_found_by_the_view(
    shell: Shell, journal: Settings, point_at: Callable[[Settings], None]
) -> None:
    """And by checkpoints without it. A run that failed, or went on, after the view is found as it is now."""

    async def some() -> None:
        async with Node.connect(journal) as node:
            for number in range(2, 5):
                with pytest.raises(ValueError, match="no order"):
                    await node.run(refund, f"r-{number}", number)

    async def later() -> None:
        async with Node.connect(journal) as node:
            with pytest.raises(ValueError, match="no order"):
                await node.run(refund, "r-9", 9)
            async with node.open("r-2") as process:
                await process.finish(None)

    asyncio.run(some())
    point_at(journal)
    bare = shell("redrive", "--failed", "--agent", "refund", "--since", "1h", "--dry-run", "--json")
    assert ([one["process_id"] for one in bare.json["failed"]], bare.code) == (["r-2", "r-3", "r-4"], 0), bare.err
    assert "reading checkpoints and the log: " in bare.err
    save(journal)
    project(journal)
    asyncio.run(later())
    by_view = shell("redrive", "--failed", "--agent", "refund", "--since", "1h", "--in-doubt", "--json")
    assert "reading checkpoints" not in by_view.err
    assert by_view.json["redriven"] == ["r-3", "r-4", "r-9"], by_view.err
    reader = KafkaReader(journal)
    request = Recoverer(reader).recover("r-9").state.redrive
    reader.close()
    assert request is not None
    assert request.in_doubt
