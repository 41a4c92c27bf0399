"""What is no ``Exception`` is a failure of the call or run that it leaves, unless it stops the task or the program."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from seekpoint.producers import Node, Process, SyncProcess, agent, check_replay
from seekpoint.producers.durable.failures.program_exits import is_stop
from seekpoint.producers.testing import history_of
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.state.lifecycle import Lifecycle


class Halt(BaseException):
    """As pytest's outcomes are."""


async def await_cancelled() -> None:
    """Await somebody else's task, which was cancelled."""
    task = asyncio.ensure_future(asyncio.sleep(60))
    task.cancel()
    await task


def closed() -> None:
    raise GeneratorExit


def interrupted() -> None:
    raise KeyboardInterrupt


def halted() -> None:
    raise Halt("enough")


def exited() -> None:
    sys.exit(3)


def in_the_loop(body: Callable[[], None]) -> Callable[[], Coroutine[Any, Any, None]]:
    async def called() -> None:
        await asyncio.sleep(0)
        body()

    return called


BODIES: dict[str, tuple[Callable[[], Any], str]] = {
    "SystemExit": (exited, "SystemExit: 3"),
    "KeyboardInterrupt": (interrupted, "KeyboardInterrupt"),
    "GeneratorExit": (closed, "GeneratorExit"),
    "Halt": (halted, "Halt: enough"),
}
LOOPED = {f"{name} in the loop": (in_the_loop(body), said) for name, (body, said) in BODIES.items()}
ALL = {**BODIES, **LOOPED, "CancelledError": (await_cancelled, "CancelledError")}


@agent("calls")
async def calls(process: Process, how: str) -> str:
    body = ALL[how][0]
    try:
        await process.step("leave", body)
    except Exception as exc:
        return repr(exc)
    return "it returned"


@agent("code")
async def code(process: Process, how: str) -> None:
    await process.step("first", str, 1)
    body = ALL[how][0]
    found = body()
    if found is not None:
        await found


@agent("plain")
def plain(process: SyncProcess, how: str) -> None:
    process.step("first", str, 1)
    ALL[how][0]()


@pytest.mark.asyncio
@pytest.mark.parametrize("how", ALL)
async def test_a_call_that_is_left_so_has_failed_and_is_not_made_again(how: str) -> None:
    """The code may catch it, and gets the same of the record."""
    log = MemoryLog(partitions=1)
    async with Node.in_memory(log) as node:
        said = await node.run(calls, "p", how)
        assert said == f"RuntimeError('the call raised {ALL[how][1]}')"
        history = [one async for one in node.entries("p")]
    report = await check_replay(calls, history)
    assert report.ok, report
    assert [entry.body.KIND for entry in history_of(log, "p")].count("step_ended") == 1


@pytest.mark.asyncio
@pytest.mark.parametrize("how", ALL)
async def test_a_run_whose_code_is_left_so_has_failed(how: str) -> None:
    """It does not end the event loop, and the journal says why it failed."""
    log = MemoryLog(partitions=1)
    async with Node.in_memory(log) as node:
        with pytest.raises(RuntimeError, match=ALL[how][1]):
            await node.run(code, "p", how)
        state = (await node.recover("p")).state
        assert state.lifecycle is Lifecycle.FAILED
        assert state.owner is None
        assert state.failure is not None
        assert ALL[how][1] in state.failure.message
        history = [one async for one in node.entries("p")]
    report = await check_replay(code, history)
    assert report.ok, report


@pytest.mark.asyncio
@pytest.mark.parametrize("how", BODIES)
async def test_a_run_of_plain_code_that_is_left_so_has_failed(how: str) -> None:
    """As the code of an async agent."""
    async with Node.in_memory(MemoryLog(partitions=1)) as node:
        with pytest.raises(RuntimeError, match=BODIES[how][1]):
            await node.run(plain, "p", how)
        assert (await node.recover("p")).state.lifecycle is Lifecycle.FAILED


@pytest.mark.asyncio
@pytest.mark.parametrize("how", [*LOOPED, "CancelledError"])
async def test_a_branch_that_is_left_so_fails_its_group(how: str) -> None:
    """Its task does not end the event loop."""

    @agent("branches")
    async def branches(process: Process, _: None) -> list[Any]:
        found = await process.gather(ALL[how][0](), process.step("beside", str, 1), return_exceptions=True)
        return [str(one) for one in found]

    async with Node.in_memory(MemoryLog(partitions=1)) as node:
        found = await node.run(branches, "p", None)
        assert found == [f"a branch raised {ALL[how][1]}", "1"]


@pytest.mark.asyncio
async def test_a_task_that_code_cancels_leaves_its_call_in_doubt() -> None:
    """That is a stop of the call: it has no outcome, and its next run makes it again."""
    ran: list[int] = []

    async def body() -> str:
        ran.append(1)
        if len(ran) == 1:
            await asyncio.sleep(60)
        return "done"

    async with Node.in_memory(MemoryLog(partitions=1)) as node:
        async with node.open("p") as process:
            task = asyncio.ensure_future(process.step("slow", body))
            await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        async with node.open("p") as process:
            assert await process.step("slow", body) == "done"


def test_a_closed_coroutine_has_not_failed() -> None:
    """Its event loop has ended, so nobody runs it any more: the call stays in doubt."""
    seen: list[bool] = []

    async def body() -> None:
        task = asyncio.current_task()
        try:
            await asyncio.Event().wait()
        except GeneratorExit as exc:
            seen.append(is_stop(exc, task))
            raise

    loop, coroutine = asyncio.new_event_loop(), body()
    task = loop.create_task(coroutine)
    loop.run_until_complete(asyncio.sleep(0))
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # asyncio would log it
    loop.close()
    coroutine.close()
    assert seen == [True]


# --- what signals raise -----------------------------------------------------------------------------------------------
def raised_by(act: Callable[[], object]) -> BaseException:
    try:
        act()
    except BaseException as exc:
        return exc
    raise AssertionError("nothing was raised")


def struck(number: int, handler: Any) -> BaseException:
    """Return what a handler of the signal raises into code that runs just then."""
    before = signal.signal(number, handler)
    try:

        def act() -> None:
            os.kill(os.getpid(), number)
            threading.Event().wait(10)

        error = raised_by(act)
        assert is_stop(error, None)
        return error
    finally:
        signal.signal(number, before)


def test_what_a_signal_handler_raises_is_a_stop() -> None:
    """Ctrl-C, and the usual ``sys.exit`` at SIGTERM, wherever they strike."""
    assert isinstance(struck(signal.SIGTERM, lambda *_: sys.exit(0)), SystemExit)
    assert isinstance(struck(signal.SIGINT, signal.default_int_handler), KeyboardInterrupt)


def test_what_code_raises_is_no_stop() -> None:
    """In a thread, or while another handler than Python's own waits for Ctrl-C."""
    assert not is_stop(raised_by(exited), None)
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        assert not is_stop(raised_by(interrupted), None)
    finally:
        signal.signal(signal.SIGINT, before)
