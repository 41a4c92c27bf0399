"""The view of a node that starts: opened only where it saves time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from seekpoint.consumers import Recovery, Tier
from seekpoint.consumers.recovery import base_finder
from seekpoint.consumers.view.memory_view import MemoryView
from seekpoint.producers import Node
from seekpoint.schemas import MemoryLog


async def recovery_of(log: MemoryLog, opened: list[MemoryView], *, is_starting: bool) -> Recovery:
    """A recovery of a log with one process, whose view is opened at its first use."""
    async with Node.in_memory(log) as node, node.open("p") as process:
        await process.update("status", "ready")

    def open_view() -> MemoryView:
        time.sleep(0.05)  # as long as another thread needs to ask as well
        opened.append(MemoryView())
        return opened[-1]

    recovery = Recovery.in_memory(log)
    recovery.blocking.base_finder.is_starting = is_starting
    recovery.blocking.base_finder.open_view = open_view
    return recovery


@pytest.fixture
def no_timer(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """The calls that a recovery would make a moment later."""
    later: list[Callable[[], None]] = []

    class Timer:
        def __init__(self, delay_s: float, call: Callable[[], None]) -> None:
            self.start = lambda: later.append(call)

    monkeypatch.setattr(threading, "Timer", Timer)
    return later


async def test_a_node_that_starts_does_not_open_the_view_for_a_short_log(
    no_timer: list[Callable[[], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loading its modules and its client takes longer than reading the log; they are loaded a moment later."""
    opened: list[MemoryView] = []
    monkeypatch.setattr(base_finder, "_CLIENT", "not loaded")
    recovery = await recovery_of(MemoryLog(), opened, is_starting=True)
    found = await recovery.recover("p")
    assert (found.report.tier, len(opened), len(no_timer)) == (Tier.SCAN, 0, 1)
    no_timer[0]()
    assert len(opened) == 1


async def test_a_node_that_starts_uses_the_view_if_its_client_is_loaded(
    no_timer: list[Callable[[], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then it costs a round trip; and if Redis is away, the report says so."""
    opened: list[MemoryView] = []
    monkeypatch.setattr(base_finder, "_CLIENT", "sys")
    recovery = await recovery_of(MemoryLog(), opened, is_starting=True)
    await recovery.recover("p")
    assert (len(opened), len(no_timer)) == (1, 0)


async def test_a_recovery_that_is_not_in_a_hurry_opens_the_view() -> None:
    """A view that is opened late is queried as one that was given."""
    opened: list[MemoryView] = []
    recovery = await recovery_of(MemoryLog(), opened, is_starting=False)
    await recovery.recover("p")
    assert len(opened) == 1


async def test_threads_share_the_view_that_one_of_them_opened() -> None:
    """A second view would keep a connection that nobody closes."""
    opened: list[MemoryView] = []
    finder = (await recovery_of(MemoryLog(), opened, is_starting=False)).blocking.base_finder
    threads = [threading.Thread(target=lambda: finder.view) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(opened) == 1
