"""What ``process.gather``, ``race`` and ``branch`` give, and refuse."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import pytest

from branch_programs import broken, for_ever, result_of, slowly
from cuts import cuts, on_node
from seekpoint.producers import Node, Process, SyncProcess, agent
from seekpoint.producers.durable.branches import branch_schedule
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import Refused


async def test_gather_returns_results_in_the_order_of_its_arguments() -> None:
    async def code(process: Process) -> Any:
        async def branch(name: str) -> str:
            return str(await process.step(name, slowly, name)) + "!"

        return await process.gather(
            process.step("a", slowly, 1), branch("b"), process.sleep(3), process.step("c", str, 2)
        )

    assert await result_of(code) == [1, "b!", None, "2"]


async def test_gather_of_nothing_is_empty() -> None:
    assert await result_of(lambda process: process.gather()) == []


async def test_gather_runs_at_most_limit_branches_at_once() -> None:
    now, most = 0, 0

    async def body() -> None:
        nonlocal now, most
        now += 1
        most = max(now, most)
        await slowly(None)
        now -= 1

    async def code(process: Process) -> Any:
        return await process.gather(*(process.step("work", body) for _ in range(7)), limit=3)

    assert await result_of(code) == [None] * 7
    assert most == 3


async def test_a_failing_branch_cancels_the_others_and_is_raised() -> None:
    ended: list[str] = []

    async def code(process: Process) -> Any:
        async def other() -> None:
            try:
                await process.step("other", for_ever)
            finally:
                ended.append("other")

        try:
            await process.gather(other(), process.step("broken", broken, "no"), other())
        except ValueError as exc:
            return [repr(exc), list(ended)]

    assert await result_of(code) == ["ValueError('no')", ["other", "other"]]


async def test_each_failure_is_looked_at(caplog: pytest.LogCaptureFixture) -> None:
    """asyncio logs an exception that nobody has looked at, with a traceback that would frighten the user."""

    async def code(process: Process) -> Any:
        async def fails(number: int) -> None:
            raise ValueError(str(number))

        return await process.gather(*map(fails, range(3)))

    with pytest.raises(ValueError, match="0"):
        await result_of(code)
    gc.collect()
    assert "never retrieved" not in caplog.text


async def test_failures_are_results_where_that_is_asked() -> None:
    async def code(process: Process) -> Any:
        found = await process.gather(process.step("a", broken, 1), process.step("b", slowly, 2), return_exceptions=True)
        return [repr(one) for one in found]

    assert await result_of(code) == ["ValueError(1)", "2"]


async def test_a_branch_that_never_began_is_not_started_after_a_failure() -> None:
    begun: list[int] = []

    async def code(process: Process) -> Any:
        branches = [process.step("broken", broken, 0), *(process.step("later", begun.append, n) for n in range(3))]
        with pytest.raises(ValueError, match="0"):
            await process.gather(*branches, limit=1)

    await result_of(code)
    assert begun == []


async def test_the_first_branch_that_ends_wins_and_the_others_are_cancelled() -> None:
    ended: list[str] = []

    async def code(process: Process) -> Any:
        async def slow() -> str:
            try:
                await process.step("slow", for_ever)
            finally:
                ended.append("slow")
            return "slow"

        return await process.race(slow(), process.step("quick", slowly, "quick"))

    assert await result_of(code) == "quick"
    assert ended == ["slow"]


async def test_a_sleep_is_the_time_out_of_a_race() -> None:
    async def code(process: Process) -> Any:
        return await process.race(process.gate("answer"), process.sleep(60))

    assert await result_of(code) is None


async def test_a_branch_runs_beside_its_block_and_the_end_of_the_block_waits_for_it() -> None:
    seen: list[str] = []

    async def code(process: Process) -> Any:
        async def beside() -> str:
            seen.append(await process.step("beside", slowly, "beside"))
            return "done"

        async with process.branch(beside()) as branch:
            seen.append(await process.step("block", str, "block"))
        assert seen == ["block", "beside"]
        return await branch.result()

    assert await result_of(code) == "done"


async def test_the_end_of_a_block_raises_what_its_branch_raised_unless_that_is_known() -> None:
    async def code(process: Process) -> Any:
        with pytest.raises(ValueError, match="lost"):
            async with process.branch(process.step("a", broken, "lost")):
                pass
        async with process.branch(process.step("b", broken, "known")) as branch:
            with pytest.raises(ValueError, match="known"):
                await branch.result()
        with pytest.raises(KeyError):
            async with process.branch(process.step("c", for_ever)):
                raise KeyError("of the block")
        async with process.branch(process.step("d", for_ever)) as branch:
            await branch.cancel()
        return "all"

    assert await result_of(code) == "all"


async def test_one_branch_waits_for_another() -> None:
    async def code(process: Process) -> Any:
        async def second(first: Any) -> list[Any]:
            return [await first.result(), await process.step("second", str, 2)]

        async with process.branch(process.step("first", slowly, 1)) as first, process.branch(second(first)) as other:
            return await other.result()

    assert await result_of(code) == [1, "2"]


async def test_a_coroutine_in_two_groups_is_an_error_and_no_hang() -> None:
    async def code(process: Process) -> Any:
        step = process.step("a", slowly, 1)

        async def group() -> Any:
            return await process.gather(step)

        return await process.gather(group(), group())

    with pytest.raises(RuntimeError, match="awaited"):
        await result_of(code)


@pytest.mark.parametrize(
    ("mistake", "says"),
    [
        (lambda process: process.race(), "a race needs a branch"),
        (lambda process: process.gather(for_ever), "takes coroutines"),
        (lambda process: process.gather(limit=0), "a limit of at least 1"),
        (lambda process: process.gather(*[process.step("a", str, 1)] * 2), "each of them once"),
    ],
    ids=["no branch", "a function", "no limit", "one twice"],
)
async def test_mistakes_are_refused(mistake: Callable[[Process], Any], says: str) -> None:
    async def code(process: Process) -> Any:
        await mistake(process)

    with pytest.raises(Refused, match=says):
        await result_of(code)


async def test_a_task_of_asyncio_in_a_branch_is_refused() -> None:
    async def code(process: Process) -> Any:
        async def own() -> None:
            await process.step("own", str, 1)

        async def made_here() -> None:
            await asyncio.gather(process.step("a", slowly, 1), process.step("b", slowly, 2))

        async def made_there() -> None:
            await asyncio.gather(own(), own())

        for branch in (made_here, made_there):
            with pytest.raises(Refused, match="a task that is not a branch"):
                await process.gather(branch())
        with pytest.raises(Refused, match="starts branches of the main code"):
            await asyncio.create_task(in_task(process))
        return "refused"

    async def in_task(process: Process) -> None:
        await process.gather(process.step("c", str, 1))

    assert await result_of(code) == "refused"


async def test_the_body_of_a_step_in_a_branch_may_start_tasks_and_branches() -> None:
    async def code(process: Process) -> Any:
        async def body() -> list[Any]:
            tasks = await asyncio.gather(process.step("in a task", str, 1), process.step("in another", str, 2))
            return [*tasks, *await process.gather(process.step("in a branch", str, 3))]

        return await process.gather(process.step("outer", body), process.step("beside", str, 4))

    assert await result_of(code) == [["1", "2", "3"], "4"]


async def test_a_branch_that_waits_for_something_else_ends_the_run_with_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A queue that another branch fills: that one would go on only once this one is at rest."""
    monkeypatch.setattr(branch_schedule, "PATIENCE_S", 0.2)

    async def code(process: Process) -> Any:
        queue: asyncio.Queue[int] = asyncio.Queue()

        async def fills() -> None:
            queue.put_nowait(await process.step("fill", slowly, 1))

        return await process.gather(queue.get(), fills())

    with pytest.raises(Refused, match="is not a call of its process"):
        await result_of(code)


async def test_turns_are_begun_by_the_main_code_alone() -> None:
    async def code(process: Process) -> Any:
        async with process.branch(process.step("beside", slowly, 1)):
            async for _ in process.turns():
                pass

    with pytest.raises(Refused, match="while branches run"):
        await result_of(code)


async def test_a_plain_function_does_not_start_branches() -> None:
    @agent("plain")
    def plain(process: SyncProcess, input: Any) -> Any:
        process.race(for_ever())

    with pytest.raises(Refused, match="an async function"):
        await on_node(MemoryLog(partitions=1), lambda node: node.run(plain, "p"))


async def test_branches_outside_of_an_agent() -> None:
    async def work(node: Node) -> Any:
        async with node.open("p") as process:
            await process.gather(process.step("a", slowly, 1), process.step("b", str, 2))
            return await process.race(process.step("c", slowly, 3), process.step("d", for_ever))

    assert await on_node(MemoryLog(partitions=1), work) == 3


async def test_two_branches_await_the_result_of_one_child() -> None:
    @agent("child")
    async def child(process: Process, input: int) -> int:
        return await process.step("work", slowly, input)

    async def code(process: Process) -> Any:
        spawned = process.spawn(child, "p-child", 3)
        return await process.gather(spawned.result(), spawned.result(), process.step("beside", slowly, 1))

    log = MemoryLog(partitions=1)
    assert await result_of(code, log) == [3, 3, 1]
    for crashed in cuts(log):
        assert await result_of(code, crashed) == [3, 3, 1]


async def test_a_cancelled_body_may_tidy_up_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bodies may wait for anything; the other branches wait for the cancelled one meanwhile."""
    monkeypatch.setattr(branch_schedule, "PATIENCE_S", 0.1)

    async def tidies_up() -> None:
        try:
            await for_ever()
        finally:
            await asyncio.sleep(0.5)

    async def code(process: Process) -> Any:
        async def cancels(other: Any) -> Any:
            await process.step("soon", slowly, 1)
            await other.cancel()
            return await process.step("then", slowly, 2)

        async with process.branch(process.step("watch", tidies_up)) as watch:
            return await process.gather(cancels(watch), process.step("beside", slowly, 3, 40))

    assert await result_of(code) == [2, 3]


async def test_a_branch_that_has_not_begun_has_no_result() -> None:
    async def code(process: Process) -> Any:
        branch = process.branch(process.step("a", str, 1))
        for call in (branch.result, branch.cancel):
            with pytest.raises(Refused, match="has not begun"):
                await call()
        async with branch:
            return await branch.result()

    assert await result_of(code) == "1"
