"""Plain code around an event loop: what it may raise, call and be handed without either waiting for ever."""

from __future__ import annotations

import asyncio
import concurrent.futures
import subprocess
import sys
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest

from plain_threads import interrupt_main, interruptible, outcome
from seekpoint.producers import Node, Process, agent
from seekpoint.producers.durable.decisions.prices import Prices
from seekpoint.producers.sync import SyncNode, SyncProcess
from seekpoint.producers.testing import history_of
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.bodies import InvocationEnded
from seekpoint.schemas.errors import HandleClosed, Refused


class Halt(BaseException):
    """As gevent's time-outs and pytest's outcomes are: no ``Exception``."""


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog(partitions=1)


# --- what it raises ---------------------------------------------------------------------------------------------------
def halts() -> None:
    raise Halt


async def halts_in_the_loop() -> None:
    raise Halt


@pytest.mark.parametrize("body", [halts, halts_in_the_loop])
def test_whatever_a_body_raises_reaches_the_thread_that_asked(log: MemoryLog, body: Callable[[], Any]) -> None:
    """Also what is no ``Exception``: as the failure of the call. The process is free, and the node still works."""

    def work() -> None:
        with SyncNode.in_memory(log) as node:
            with pytest.raises(RuntimeError, match="Halt"), node.open("p") as process:
                process.step("halt", body)
            assert node.recover("p").state.owner is None

    assert outcome(work) is None


@pytest.mark.parametrize("raised", [GeneratorExit, concurrent.futures.CancelledError, asyncio.CancelledError])
def test_a_body_in_a_thread_cancels_nothing(log: MemoryLog, raised: type[BaseException]) -> None:
    """A future of its own that was cancelled, or a generator that was closed, fails the step, not the run."""

    def body() -> None:
        raise raised

    def work() -> None:
        with SyncNode.in_memory(log) as node, node.open("p") as process:
            with pytest.raises(RuntimeError, match=raised.__name__):
                process.step("fail", body)
            assert process.step("after", str, 1) == "1"

    assert outcome(work) is None


def test_an_exit_in_a_call_in_a_task_of_its_own_does_not_end_the_loop(log: MemoryLog) -> None:
    """Who awaits the task is told, and the node still works."""

    @agent("gathers")
    async def gathers(process: Process, input: Any) -> None:
        async def leaves() -> None:
            sys.exit(3)

        await asyncio.gather(process.step("leave", leaves))

    def work() -> None:
        with SyncNode.in_memory(log) as node:
            with pytest.raises(RuntimeError, match="SystemExit: 3"):
                node.run(gathers, "p")
            assert node.recover("p").state.owner is None

    assert outcome(work) is None


def test_code_that_swallows_a_call_off_does_not_spend_the_next_one(log: MemoryLog) -> None:
    """Two interrupts that the thread catches, the first swallowed by the body too: the process goes on."""
    begun = threading.Event()

    async def body(swallows: bool) -> None:
        try:
            begun.set()
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            if not swallows:
                raise

    with interruptible(), SyncNode.in_memory(log) as node, node.open("p") as process:
        for swallows in (True, False):
            begun.clear()
            struck = interrupt_main(begun)
            with pytest.raises(KeyboardInterrupt):
                process.step("wait", body, swallows)
            struck.join()
        assert process.step("after", str, 1) == "1"


# --- what it is handed ------------------------------------------------------------------------------------------------
def test_a_child_gives_its_result(log: MemoryLog) -> None:
    """Spawned by plain code, it is asked without ``await``."""

    @agent("child")
    def child(process: SyncProcess, input: Any) -> Any:
        return process.step("double", lambda: input * 2)

    with SyncNode.in_memory(log) as node, node.open("p") as process:
        assert process.spawn(child, "c", 4).result() == 8


def test_a_shared_value_is_used_without_await(log: MemoryLog) -> None:
    """Set, got and watched through a process."""
    with SyncNode.in_memory(log) as node, node.open("p") as process:
        shared = process.shared("limit")
        assert shared.set(5) == 1
        assert shared.get() == (5, 1)
        for seen in shared.watch():
            assert seen == (5, 1)
            break


def test_a_plain_framework_gets_plain_calls(log: MemoryLog) -> None:
    """What is wrapped for it answers, and each call is remembered."""
    for model in (lambda **request: "yes", lambda **request: "no"):
        with SyncNode.in_memory(log) as node, node.open("p") as process:
            assert process.wrap_model(model)(messages=[]) == "yes"
            assert process.wrap_tool(str.upper, "shout")("ok") == "OK"


def test_what_plain_code_sets_is_set(log: MemoryLog) -> None:
    """The result of an invocation is in the journal; a node has the prices it was given."""
    prices = Prices({"*": {"input": 1, "output": 1}})
    with SyncNode.in_memory(log) as node:
        node.prices = prices
        assert node._target.prices is prices
        with node.open("p") as process, process.invocation("message") as work:
            work.result = process.step("double", lambda: 42)
            assert work.result == 42
    (ended,) = [entry.body for entry in history_of(log, "p") if isinstance(entry.body, InvocationEnded)]
    assert ended.result == "42"


SEEN: ContextVar[str] = ContextVar("seen", default="nothing")


async def look_in_the_loop() -> str:
    return SEEN.get()


def test_bodies_see_what_the_thread_has_set(log: MemoryLog) -> None:
    """By then, not as the process was opened: the trace of a request, the tenant of a call."""
    with SyncNode.in_memory(log) as node, node.open("p") as process:
        for value in ("first", "second"):
            SEEN.set(value)
            assert process.step("look", SEEN.get) == value
            assert process.step("look", look_in_the_loop) == value


async def test_a_plain_agent_sees_what_its_caller_has_set(log: MemoryLog) -> None:
    """In its own code and in the bodies of its steps."""

    @agent("looks")
    def looks(process: SyncProcess, input: Any) -> Any:
        return [SEEN.get(), process.step("look", look_in_the_loop)]

    SEEN.set("the caller's")
    async with Node.in_memory(log) as node:
        assert await node.run(looks, "p") == ["the caller's"] * 2


def test_plain_code_reaches_the_node_of_its_process(log: MemoryLog) -> None:
    """It signals, recovers and opens other processes, without ``await``."""

    @agent("tells")
    def tells(process: SyncProcess, input: Any) -> Any:
        process.node.signal("other", "go", 1)
        with process.node.open("other") as other:
            assert other.receive("go").payload == 1
            other.update("told", True)
        return process.node.recover("other").state.context

    with SyncNode.in_memory(log) as node:
        with node.open("other"):
            pass
        assert node.run(tells, "p") == {"told": True}


# --- when nobody can answer -------------------------------------------------------------------------------------------
def test_a_node_that_was_not_started_says_so() -> None:
    """Whatever is asked of it, and shown it is too."""
    node = SyncNode.in_memory()
    assert "SyncNode" in repr(node)
    with pytest.raises(HandleClosed, match="not started"):
        node.recover("p")


def test_the_event_loop_does_not_wait_for_itself(log: MemoryLog) -> None:
    """Async code that uses the plain node is refused, at its first call; the node still works."""

    def work() -> None:
        with SyncNode.in_memory(log) as node, node.open("p") as process:

            async def body() -> None:
                node.recover("p")

            with pytest.raises(Refused, match="event loop"):
                process.step("recover", body)
            assert node.recover("p").state.owner is not None

    assert outcome(work) is None


FORKS = """
import os, sys
from seekpoint.producers import SyncNode
from seekpoint.schemas.errors import HandleClosed

with SyncNode.in_memory() as node, node.open("p") as process:
    if forked := os.fork():
        assert os.waitpid(forked, 0)[1] == 0
        process.update("by", "the parent")
    else:
        for call in (lambda: process.update("by", "the fork"), lambda: node.recover("p")):
            try:
                call()
            except HandleClosed as exc:
                assert "fork" in str(exc)
            else:
                sys.exit("it was answered")
print("left")
"""
ENDS = """
from seekpoint.producers import SyncNode

def opened():
    with SyncNode.in_memory() as node, node.open("p") as process:
        yield process

waiting = opened()
next(waiting)
print("left")
"""


@pytest.mark.parametrize(("program", "said"), [(FORKS, "left\nleft\n"), (ENDS, "left\n")], ids=["forks", "ends"])
def test_a_program_whose_event_loop_is_gone_ends(program: str, said: str) -> None:
    """A fork has no event loop, and none runs while the interpreter ends: nobody waits for it."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-u", "-c", program]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, said, "")
