"""Ctrl-C and sys.exit() in a program that is not async."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from plain_threads import interrupt_main, interruptible, outcome, raised
from seekpoint.producers import Agent, Node, Process, agent
from seekpoint.producers.sync import SyncNode, SyncProcess
from seekpoint.producers.sync_process import LoopCalls
from seekpoint.producers.testing import history_of
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import HandleClosed


@pytest.fixture(autouse=True)
def _interruptible() -> Iterator[None]:
    with interruptible():
        yield


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
        assert node._looped.calls._tasks == set()
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


def test_an_exit_in_a_step_is_the_failure_of_the_step(log: MemoryLog) -> None:
    """The thread that asked gets it, as every later run does, and the process is free."""

    def work() -> None:
        with SyncNode.in_memory(log) as node, node.open("p") as process:
            process.step("leave", leaves)

    for _ in range(2):
        assert repr(outcome(work)) == repr(RuntimeError("the call raised SystemExit: 3"))
    assert [entry.body.KIND for entry in history_of(log, "p")].count("step_ended") == 1


@pytest.mark.parametrize("ending", [leaving, leaving_in_step], ids=["async", "plain"])
def test_an_exit_in_an_agent_is_the_failure_of_the_run(log: MemoryLog, ending: Agent) -> None:
    """The same of a run; the node still works."""

    def work() -> None:
        with SyncNode.in_memory(log) as node:
            assert "raised SystemExit: 3" in str(outcome(lambda: node.run(ending, "p")))
            state = node.recover("p").state
            assert state.owner is None
            assert state.lifecycle == "failed"

    assert outcome(work) is None


def test_an_exit_in_a_step_does_not_end_the_event_loop(log: MemoryLog) -> None:
    """A plain agent on an async node may catch the failure."""

    @agent("catches")
    def catches(process: SyncProcess, input: Any) -> object:
        try:
            process.step("leave", leaves)
        except RuntimeError as exc:
            return str(exc)
        return None

    async def work() -> Any:
        async with Node.in_memory(log) as node:
            return await node.run(catches, "p")

    assert outcome(lambda: asyncio.run(work())) == "the call raised SystemExit: 3"


def test_a_cancelled_agent_makes_no_more_calls(log: MemoryLog) -> None:
    """Its call is cancelled, and so is each later one, of its node too."""
    ready, ended, told = threading.Event(), threading.Event(), list[object]()

    @agent("goes on")
    def goes_on(process: SyncProcess, input: Any) -> None:
        ready.set()
        told.append(raised(lambda: process.gate("never")))
        told.append(raised(lambda: process.node.signal("other", "go")))
        ended.set()

    async def work() -> None:
        async with Node.in_memory(log) as node:
            run = asyncio.create_task(node.run(goes_on, "p"))
            assert await asyncio.to_thread(ready.wait, 60)
            while (await node.recover("p")).state.lifecycle != "awaiting":  # noqa: ASYNC110  # the log gives no event
                await asyncio.sleep(0.01)
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run
            assert await asyncio.to_thread(ended.wait, 60)

    assert outcome(lambda: asyncio.run(work())) is None
    assert told == [asyncio.CancelledError] * 2
    assert [entry.body.KIND for entry in history_of(log, "p")][-1] == "released"


def test_a_call_that_has_not_begun_is_refused_too() -> None:
    """A thread submitted it, and the run was cancelled before the event loop came to it."""
    made, told = list[int](), list[object]()
    with asyncio.Runner() as runner:
        calls = LoopCalls(runner.get_loop(), threading.current_thread())
        thread = threading.Thread(target=lambda: told.append(raised(lambda: calls(lambda: made.append(1)))))
        thread.start()
        time.sleep(0.2)  # the call is submitted, and the event loop does not run
        calls.refuse(asyncio.CancelledError)
        runner.run(asyncio.to_thread(thread.join, 60))
    assert (made, told) == ([], [asyncio.CancelledError])


def test_an_error_is_not_hidden_by_a_node_that_is_closed(log: MemoryLog) -> None:
    """The process cannot be released any more; the program gets its own error."""

    def work() -> None:
        with SyncNode.in_memory(log) as node, pytest.raises(LookupError), node.open("p"):
            node.__exit__(None, None, None)
            raise LookupError

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
