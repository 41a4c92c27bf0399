"""``seekpoint redrive --failed``: which failed runs it finds. On a log in memory; nothing is sent."""

from __future__ import annotations

import time

import pytest

from console_on_memory import on
from seekpoint.producers import Node, Process, agent
from seekpoint.schemas import MemoryLog
from shells import Shell


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


@pytest.mark.parametrize("arguments", [(), ("--agent", "refund"), ("r-2", "--failed"), ("r-2", "--since", "1h")])
def test_a_redrive_without_a_choice_is_refused(seekpoint: Shell, arguments: tuple[str, ...]) -> None:
    """Before anything is read."""
    assert seekpoint("redrive", *arguments).code == 2


def test_a_run_that_did_not_fail_is_refused(seekpoint: Shell, failed: MemoryLog) -> None:
    """Then nothing is sent to any of the processes."""
    refused = seekpoint("redrive", "r-2", "r-1", "--dry-run")
    assert (refused.code, "did not fail, nothing was sent" in refused.err, refused.out) == (4, True, "")
