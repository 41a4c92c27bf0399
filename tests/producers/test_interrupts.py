"""Ctrl-C and sys.exit() in a program that is not async."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

import pytest

from plain_threads import interrupt_main, outcome
from seekpoint.producers import Agent, Process, agent
from seekpoint.producers.sync import SyncNode, SyncProcess
from seekpoint.producers.testing import history_of
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import HandleClosed


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog(partitions=1)


def waits(node: SyncNode, ready: threading.Event) -> None:
    async def slow() -> None:
        ready.set()
        await asyncio.sleep(3600)

    with node.open("p") as process:
        process.step("slow", slow)


def runs_on(node: SyncNode, ready: threading.Event) -> None:
    @agent("runs on")
    async def run(process: Process, input: Any) -> None:
        ready.set()
        await asyncio.sleep(3600)

    node.run(run, "running")


def test_an_interrupted_step_is_called_off(log: MemoryLog) -> None:
    """No failure is recorded, and it runs again when the process resumes."""
    ready = threading.Event()
    with pytest.raises(KeyboardInterrupt), SyncNode.in_memory(log) as node:
        interrupt_main(ready)
        waits(node, ready)
    assert [entry.body.KIND for entry in history_of(log, "p")] == ["claim", "step_started", "released"]
    with SyncNode.in_memory(log) as node, node.open("p") as process:
        assert process.step("slow", lambda: "now") == "now"


def test_an_interrupted_run_is_released(log: MemoryLog) -> None:
    """The same of an agent: its thread is told at its next call."""
    ready, told = threading.Event(), threading.Event()

    @agent("waits")
    def waits(process: SyncProcess, input: Any) -> Any:
        try:
            ready.set()
            process.gate("never")
        except BaseException:
            told.set()
            raise

    with pytest.raises(KeyboardInterrupt), SyncNode.in_memory(log) as node:
        interrupt_main(ready)
        node.run(waits, "p")
    assert told.wait(60)
    assert [entry.body.KIND for entry in history_of(log, "p")][-1] == "released"


def test_an_interrupted_async_run_is_released(log: MemoryLog) -> None:
    """Its task is cancelled, and waited for."""
    ready = threading.Event()
    with SyncNode.in_memory(log) as node:
        interrupt_main(ready)
        with pytest.raises(KeyboardInterrupt):
            runs_on(node, ready)
        assert node.recover("running").state.owner is None
    assert [entry.body.KIND for entry in history_of(log, "running")][-1] == "released"


def test_an_interrupted_opening_claims_nothing(log: MemoryLog) -> None:
    """It waited for the owner to go. The node still works."""
    ready = threading.Event()
    with SyncNode.in_memory(log) as owner, owner.open("p"), SyncNode.in_memory(log) as node:
        threading.Timer(0.3, ready.set).start()  # by then it waits
        interrupt_main(ready)
        with pytest.raises(KeyboardInterrupt), node.open("p", wait_s=60):
            pass
        assert node._looped is not None
        assert node._looped._tasks == {}
        assert node.recover("p").state.owner is not None
    assert [entry.body.KIND for entry in history_of(log, "p")] == ["claim", "released"]


def test_an_interrupt_in_plain_code_releases_the_process(log: MemoryLog) -> None:
    """The thread waits for nothing of the node's: the process is released as it stands, and no failure is recorded."""
    ready = threading.Event()
    with pytest.raises(KeyboardInterrupt), SyncNode.in_memory(log) as node, node.open("p") as process:
        process.step("a", str, 1)
        interrupt_main(ready)
        ready.set()
        threading.Event().wait()
    assert [entry.body.KIND for entry in history_of(log, "p")][-2:] == ["step_ended", "released"]


async def leaves() -> None:
    sys.exit(3)


@agent("leaves")
async def leaving(process: Process, input: Any) -> None:
    await leaves()


@agent("leaves in a step")
def leaving_in_step(process: SyncProcess, input: Any) -> None:
    process.step("leave", leaves)


def test_an_exit_in_a_step_ends_the_program_not_the_loop(log: MemoryLog) -> None:
    """The thread that asked gets it, and the process is free."""

    def work() -> None:
        with SyncNode.in_memory(log) as node, node.open("p") as process:
            process.step("leave", leaves)

    assert isinstance(outcome(work), SystemExit)
    assert [entry.body.KIND for entry in history_of(log, "p")][-1] == "released"


@pytest.mark.parametrize("ending", [leaving, leaving_in_step], ids=["async", "plain"])
def test_an_exit_in_an_agent_ends_the_program_not_the_loop(log: MemoryLog, ending: Agent) -> None:
    """The same of a run; the node still works."""

    def work() -> None:
        with SyncNode.in_memory(log) as node:
            assert isinstance(outcome(lambda: node.run(ending, "p")), SystemExit)
            assert node.recover("p").state.owner is None

    assert outcome(work) is None


def test_who_waits_while_the_node_is_closed_is_told(log: MemoryLog) -> None:
    """Other threads, in a step, between two, in a run and in an opening: each ends, told that the node was closed."""
    ready, running, closed = threading.Event(), threading.Event(), threading.Event()
    node, told = SyncNode.in_memory(log), list[object]()

    def idle() -> None:
        with node.open("idle") as process:
            process.step("first", str, 1)
            assert closed.wait(60)
            process.step("second", str, 2)

    def late() -> None:
        assert closed.wait(60)
        with node.open("late"):
            pass

    works = [lambda: waits(node, ready), lambda: runs_on(node, running), idle, late]
    threads = [threading.Thread(target=lambda work=work: told.append(outcome(work))) for work in works]
    with node:
        for thread in threads:
            thread.start()
        assert ready.wait(60)
        assert running.wait(60)
    closed.set()
    for thread in threads:
        thread.join()
    assert [type(each) for each in told] == [HandleClosed] * len(works)
    with pytest.raises(HandleClosed):
        node.recover("p")
