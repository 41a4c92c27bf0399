"""Ctrl-C and sys.exit() in a program that is not async: at each moment between the program and the event loop."""

from __future__ import annotations

import asyncio
import dis
import gc
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from itertools import count
from types import CodeType, FrameType
from typing import Any

import pytest

from plain_threads import interrupt_main, outcome
from seekpoint.producers import Agent, Process, agent, errands, sync
from seekpoint.producers.sync import SyncNode, SyncProcess
from seekpoint.producers.testing import history_of
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import HandleClosed

BETWEEN = (errands.__file__, sync.__file__)


@cache
def moments(code: CodeType) -> frozenset[int]:
    """Where in it Python looks for signals: at its start, when it loops, and when a call has returned."""
    found, called = set(), True
    for each in dis.get_instructions(code):
        if called or each.opname.startswith(("RESUME", "JUMP_BACKWARD")):
            found.add(each.offset)
        called = each.opname.startswith("CALL")
    return frozenset(found)


class Interrupt:
    """Ctrl-C at the ``at``-th moment that this thread runs that code; the event loop runs ``after_s`` before."""

    def __init__(self, at: int, after_s: float = 0.0) -> None:
        self.left = at
        self.after_s = after_s
        self.where = ""
        self.is_over = False

    def give_up(self) -> bool:
        """None comes any more. Whether none came."""
        came_none = self.left > 0 and not self.is_over
        self.is_over = True
        return came_none

    def __call__(self, frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code.co_filename not in BETWEEN:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and not self.is_over and frame.f_lasti in moments(frame.f_code):
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                time.sleep(self.after_s)
                self.where = f"{frame.f_code.co_qualname}:{frame.f_lineno}"
                raise KeyboardInterrupt
        return self


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog(partitions=1)


def interrupted(
    work: Callable[[SyncNode, threading.Event], None], at: int, *, is_endless: bool
) -> tuple[Interrupt, list[str]]:
    """Interrupt ``work`` at that moment, or, if it ``is_endless``, once it waits. The journal's kinds afterwards."""
    log, ready, interrupt = MemoryLog(partitions=1), threading.Event(), Interrupt(at, 0.03 if is_endless else 0.0)
    if is_endless:
        interrupt_main(ready, interrupt.give_up)
    sys.settrace(interrupt)
    try:
        with suppress(KeyboardInterrupt), SyncNode.in_memory(log) as node:
            work(node, ready)
    finally:
        sys.settrace(None)
        interrupt.give_up()
        ready.set()
    for thread in threading.enumerate():
        if thread.name == "seekpoint-sync":
            thread.join(60)
            assert not thread.is_alive(), interrupt.where
    return interrupt, [entry.body.KIND for name in ("p", "running") for entry in history_of(log, name)]


def waits(node: SyncNode, ready: threading.Event) -> None:
    async def slow() -> None:
        ready.set()
        await asyncio.sleep(3600)

    with node.open("p") as process:
        process.step("slow", slow)


def calls(node: SyncNode, ready: threading.Event) -> None:
    with node.open("p") as process:
        process.step("a", str, 1)
        with process.invocation("message") as work:
            work.result = process.step("b", str, 2)
        for turn in process.turns():
            if turn.number == 2:
                break


def runs(node: SyncNode, ready: threading.Event) -> None:
    @agent("runs")
    def run(process: SyncProcess, input: Any) -> str:
        return process.step("a", str, 1)

    node.run(run, "p")


def runs_on(node: SyncNode, ready: threading.Event) -> None:
    @agent("runs on")
    async def run(process: Process, input: Any) -> None:
        ready.set()
        await asyncio.sleep(3600)

    node.run(run, "running")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # one in the end of a for loop is lost
@pytest.mark.parametrize("work", [calls, waits, runs, runs_on], ids=["calls", "waits", "runs", "runs on"])
def test_an_interrupt_at_any_moment_leaves_the_process_released(
    work: Callable[[SyncNode, threading.Event], None],
) -> None:
    """What is under way is called off, no failure is recorded, the thread of the event loop ends."""
    for at in count(1):
        for _ in range(3):
            interrupt, kinds = interrupted(work, at, is_endless=work in {waits, runs_on})
            if kinds != ["claim"]:  # called off in the middle of it: no heartbeat names it, so it is nobody's
                break
        assert kinds[-1:] in ([], ["released"], ["finished"]), interrupt.where
        assert "error_recorded" not in kinds, interrupt.where
        if interrupt.left > 0:
            break
    assert at > 20
    gc.collect()  # an event loop that was interrupted as it was made tells of that now, not in another test


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
