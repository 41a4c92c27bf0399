"""Programs that are not async: a node, its processes and agents, from plain threads."""

from __future__ import annotations

import ast
import asyncio
import inspect
import threading
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_type

import pytest

from seekpoint.producers import Agent, Node, Process, Retry, VirtualClock, agent, check_replay
from seekpoint.producers.durable.call_results import Turn
from seekpoint.producers.sync import SyncClient, SyncNode, SyncProcess
from seekpoint.producers.testing import When, assert_replays, crash_at, history_of
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import HandleClosed, Refused, UnknownProcess


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog(partitions=1)


@pytest.fixture
def node(log: MemoryLog) -> Iterator[SyncNode]:
    with SyncNode.in_memory(log, clock=VirtualClock(patience_s=0.0)) as node:
        yield node


def keys(log: MemoryLog, kind: str = "step_started") -> list[str]:
    return [entry.body.key for entry in history_of(log, "p") if kind == entry.body.KIND]  # type: ignore[attr-defined]


def test_a_process_is_worked_as_from_async_code(node: SyncNode, log: MemoryLog) -> None:
    """Steps, content, waits, turns and pieces of work: the same entries under the same keys."""
    with node.open("p") as process:
        assert isinstance(process, SyncProcess)
        assert process.step("add", sum, [1, 2]) == 3
        assert process.step("add", sum, [3, 4]) == 7
        process.update("status", "checking")
        process.sleep(3_600)
        with process.invocation("message", {"n": 1}) as work:
            work.result = process.step("in", str, 5)
        for turn in process.turns():
            process.step("round", str, turn.number)
            if turn.number == 2:
                break
        assert process.state.context == {"status": "checking"}
    assert keys(log) == ["add:1", "add:2", "in:1", "1/round:1", "2/round:1"]
    assert node.recover("p").state.owner is None


def test_a_file_serves_programs_that_are_not_async(tmp_path: Path) -> None:
    """A node, and a client that submits to workers."""
    file = tmp_path / "runs.db"
    with SyncNode.local(file) as node, node.open("p") as process:
        assert process.step("add", sum, [1, 2]) == 3
    with SyncClient.local(file) as client:
        client.submit("greet", "q", "Ada")
        assert client.state("p").calls["add:1"].status == "succeeded"


def test_what_was_done_is_remembered(node: SyncNode) -> None:
    """A second opening answers from the journal."""
    ran: list[int] = []

    def body() -> str:
        ran.append(1)
        return "done"

    for _ in range(2):
        with node.open("p") as process:
            assert process.step("once", body) == "done"
    assert ran == [1]


def test_errors_are_those_of_async_code(node: SyncNode) -> None:
    """Of the process, of the node, and of a step that has no retries left."""
    with pytest.raises(UnknownProcess):
        node.recover("nobody")
    with pytest.raises(ZeroDivisionError), node.open("p") as process:
        process.step("divide", lambda: 1 / 0, retry=Retry(attempts=2))
    assert "error" in [logged.entry.body.KIND.split("_")[0] for logged in node.entries("p")]
    with pytest.raises(HandleClosed):
        process.update("a", 1)
    with pytest.raises(HandleClosed):
        SyncNode.in_memory().open("p").__enter__()
    with pytest.raises(AttributeError):
        node.no_such_thing()


def test_async_functions_are_called_too(node: SyncNode) -> None:
    """A step's body may be async though the code is not."""

    async def body(text: str) -> str:
        return text.upper()

    with node.open("p") as process:
        assert process.step("shout", body, "ok") == "OK"


def test_a_process_is_one_threads(node: SyncNode) -> None:
    """A body in another thread makes no calls on it: neither a deadlock nor an order that nobody chose."""
    with node.open("p") as process:

        def body() -> None:
            process.step("inner", str, 1)

        with pytest.raises(Refused, match="one thread"):
            process.step("outer", body, timeout=60)
        assert process.step("after", str, 1) == "1"


def test_many_threads_share_a_node(node: SyncNode) -> None:
    """Each with a process of its own."""
    results: dict[int, Any] = {}

    def work(number: int) -> None:
        with node.open(f"p-{number}") as process:
            results[number] = process.step("double", lambda: number * 2)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == {number: number * 2 for number in range(20)}


# --- agents that are plain functions ----------------------------------------------------------------------------------
def counting(calls: list[str]) -> Agent:
    def work(name: str) -> str:
        calls.append(name)
        return name.upper()

    @agent("counting", 3)
    def run(process: SyncProcess, input: Any) -> Any:
        first = process.step("look", work, "look")
        process.update("seen", first)
        process.sleep(3_600)
        return [first, process.step("send", work, "send"), input, process.state.context]

    return run


DONE = ["LOOK", "SEND", 7, {"seen": "LOOK"}]


async def test_a_plain_function_is_an_agent_on_any_node(log: MemoryLog) -> None:
    """Its definition is that of its own source; its keys and its result are an async agent's."""
    async with Node.in_memory(log, clock=VirtualClock(patience_s=0.0)) as node:
        assert await node.run(counting([]), "p", 7) == DONE
    assert keys(log) == ["look:1", "send:1"]
    assert counting([]).definition == counting([]).definition

    @agent("counting", 3)
    def other(process: SyncProcess, input: Any) -> Any:
        return None

    assert other.definition != counting([]).definition


@pytest.mark.parametrize("when", When)
async def test_a_plain_function_resumes_after_a_crash(when: When) -> None:
    """What it did before is not done again."""
    calls: list[str] = []
    crash = crash_at(call="send:1", when=when)
    assert await crash.run(counting(calls), "p", 7) == DONE
    assert calls.count("look") == 1
    found = await assert_replays(counting([]), crash.history())
    assert found.ended_by == "result"


async def test_plain_and_async_code_resume_each_other() -> None:
    """They make the same entries."""

    @agent("counting", 3)
    async def awaits(process: Process, input: Any) -> Any:
        first = await process.step("look", str.upper, "look")
        await process.update("seen", first)
        await process.sleep(3_600)
        return [first, await process.step("send", str.upper, "send"), input, process.state.context]

    calls: list[str] = []
    assert await crash_at(call="send:1").run(awaits, "p", 7, resumed_by=counting(calls)) == DONE
    assert "look" not in calls
    assert await crash_at(call="send:1").run(counting(calls), "p", 7, resumed_by=awaits) == DONE
    assert calls.count("look") == 1


async def test_a_plain_function_that_changed_diverges() -> None:
    """As an async one does."""
    crash = crash_at(seq=1)
    await crash.run(counting([]), "p", 7)

    @agent("counting", 4)
    def other(process: SyncProcess, input: Any) -> Any:
        return process.step("lookup", str, 1)

    found = await check_replay(other, crash.history())
    assert found.divergence is not None
    assert found.divergence.kind == "order"


async def test_what_a_plain_function_raises_is_recorded(log: MemoryLog) -> None:
    """The process is failed, and run again it resumes."""
    tries: list[int] = []

    @agent("fails")
    def fails(process: SyncProcess, input: Any) -> Any:
        process.step("once", str, 1)
        tries.append(1)
        if len(tries) == 1:
            raise LookupError("not yet")
        return "done"

    async with Node.in_memory(log) as node:
        with pytest.raises(LookupError):
            await node.run(fails, "p")
        assert str((await node.recover("p")).state.lifecycle) == "failed"
        assert await node.run(fails, "p") == "done"
    assert keys(log) == ["once:1"]


def test_more_plain_agents_than_threads_for_bodies(node: SyncNode) -> None:
    """Agents have threads of their own: their steps' bodies never wait for one that an agent holds."""

    @agent("many")
    def many(process: SyncProcess, input: Any) -> Any:
        process.sleep(1)
        return process.step("body", lambda: input)

    async def all_of_them() -> list[Any]:
        target: Node = node._target
        return await asyncio.gather(*(target.run(many, f"p-{number}", number) for number in range(50)))

    assert node._calls(all_of_them) == list(range(50))


def test_what_is_typed_exists() -> None:
    """The names that type checkers know of are those of an opened process and of a node."""
    with SyncNode.in_memory() as node, node.open("p") as process:
        for proxy in (process, node):
            tree = ast.walk(ast.parse(inspect.getsource(type(proxy))))
            (typed,) = (each for each in tree if isinstance(each, ast.If) and ast.unparse(each.test) == "TYPE_CHECKING")
            names = [ast.unparse(each.targets[0]) for each in typed.body if isinstance(each, ast.Assign)]
            names += [ast.unparse(each.target) for each in typed.body if isinstance(each, ast.AnnAssign)]
            assert len(names) > 10
            assert [name for name in names if not hasattr(proxy, name)] == []


def test_a_type_checker_sees_the_signatures(node: SyncNode) -> None:
    """They are those of the async calls: mypy reads this file."""
    with node.open("p", wait_s=0.5) as process:
        assert_type(process, SyncProcess)
        assert_type(process.step("upper", str.upper, "ok"), str)
        assert_type(process.now(), datetime)
        for turn in process.turns():
            assert_type(turn, Turn)
            break
    assert_type(node.signal("p", "go", signal_id=bytes(16)), bytes)
    assert_type([each.offset for each in node.entries("p")], list[int])
    if TYPE_CHECKING:
        node.signal("p", "go", signal=b"7")  # type: ignore[call-arg]
        process.gate("approve", timeout="soon")  # type: ignore[call-overload]
