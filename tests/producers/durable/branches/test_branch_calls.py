"""What ``process.gather``, ``race`` and ``branch`` give, and refuse."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from cuts import bodies, cuts, on_node, until
from seekpoint.producers import Agent, Node, Process, ReplayMode, SyncProcess, agent, check_replay
from seekpoint.producers.durable.branches import branch_schedule
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import Cancelled, Refused, ReplayDivergence, SeekpointError


def running(code: Callable[[Process], Awaitable[Any]]) -> Agent:
    @agent("branching")
    async def run(process: Process, input: Any) -> Any:
        return await code(process)

    return run


async def result_of(code: Callable[[Process], Awaitable[Any]], log: MemoryLog | None = None) -> Any:
    log = MemoryLog(partitions=1) if log is None else log
    async with asyncio.timeout(20):
        return await on_node(log, lambda node: node.run(running(code), "p", take_over=True))


async def slowly(value: Any, rounds: int = 20) -> Any:
    for _ in range(rounds):
        await asyncio.sleep(0)
    return value


def broken(value: Any) -> None:
    raise ValueError(value)


async def for_ever() -> None:
    await asyncio.Event().wait()


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


async def test_the_recorded_winner_wins_every_replay() -> None:
    """Though the other branch would be quicker in the run that resumes."""
    quick = True

    async def code(process: Process) -> Any:
        async def branch(name: str) -> str:
            await process.step(name, body, name)
            return name

        async def body(name: str) -> None:
            await asyncio.sleep(0 if quick == (name == "a") else 0.02)

        winner = await process.race(branch("a"), branch("b"))
        return await process.step("end", str, winner)

    log = MemoryLog(partitions=1)
    assert await result_of(code, log) == "a"
    quick = False
    winners = []
    for crashed in cuts(log):
        decided = any(body.KIND == "step_ended" for body in bodies(crashed))
        winners.append((decided, await result_of(code, crashed)))
    assert {winner for decided, winner in winners if decided} == {"a"}
    assert {winner for decided, winner in winners if not decided} == {"b"}


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


async def test_a_cancelled_branch_gets_no_answer_that_its_body_makes_afterwards() -> None:
    """The body swallows the cancellation and its result is recorded; the branch is cancelled in every run."""
    told: list[str] = []

    async def stubborn() -> str:
        try:
            await for_ever()
        except asyncio.CancelledError:
            return "anyway"
        return "never"

    async def code(process: Process) -> Any:
        async def branch() -> str:
            try:
                return await process.step("stubborn", stubborn)
            except asyncio.CancelledError:
                told.append("cancelled")
                raise

        won = await process.race(branch(), process.step("quick", slowly, 1))
        await process.step("end", str, won)
        raise KeyError("stop here")

    log = MemoryLog(partitions=1)
    for _ in range(3):
        with pytest.raises(KeyError):
            await result_of(code, log)
    assert told == ["cancelled"] * 3


@pytest.mark.parametrize(
    ("mistake", "says"),
    [
        (lambda process: process.race(), "a race needs a branch"),
        (lambda process: process.gather(for_ever), "takes coroutines"),
        (lambda process: process.gather(limit=0), "a limit of at least 1"),
    ],
    ids=["no branch", "a function", "no limit"],
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


async def test_branches_of_a_turn_go_with_it() -> None:
    async def code(process: Process) -> Any:
        seen = []
        async for turn in process.turns():
            seen.append(await process.gather(process.step("a", str, turn.number), process.step("b", slowly, 2)))
            if turn.number == 3:
                break
        return seen

    log = MemoryLog(partitions=1)
    wanted = await result_of(code, log)
    assert wanted == [["1", 2], ["2", 2], ["3", 2]]
    for crashed in cuts(log):
        assert (await result_of(code, crashed))[-1] == wanted[-1]


async def test_a_plain_function_does_not_start_branches() -> None:
    @agent("plain")
    def plain(process: SyncProcess, input: Any) -> Any:
        process.race(for_ever())

    with pytest.raises(Refused, match="an async function"):
        await on_node(MemoryLog(partitions=1), lambda node: node.run(plain, "p"))


async def test_changed_code_diverges_and_does_not_hang() -> None:
    names = ["a", "b"]

    async def code(process: Process) -> Any:
        async def branch(name: str) -> Any:
            await process.step(name, slowly, 1)
            return await process.step(f"{name} again", slowly, 1)

        await process.gather(*map(branch, names))
        raise KeyError("stop here")

    log = MemoryLog(partitions=1)
    with pytest.raises(KeyError):
        await result_of(code, log)
    for changed in (["a"], ["b", "a"], ["a", "c"]):
        names[:] = changed
        with pytest.raises(ReplayDivergence):
            await result_of(code, log)


async def test_an_answer_that_no_branch_asks_for_is_a_divergence() -> None:
    """Every branch waits for work that may begin behind it only."""
    asks = ["a", "b"]

    async def code(process: Process) -> Any:
        async def branch(at: int) -> Any:
            for _ in range(len(asks)):
                await process.step(asks[at], slowly, 1)

        await process.race(branch(0), branch(1))
        raise KeyError("stop here")

    log = MemoryLog(partitions=1)
    with pytest.raises(KeyError):
        await result_of(code, log)

    async def other(process: Process) -> Any:
        await process.race(process.step("a", slowly, 1, key="new"), process.step("b", slowly, 1, key="other"))

    with pytest.raises(ReplayDivergence):
        await result_of(other, log)


async def test_a_check_follows_branches_without_running_anything() -> None:
    async def code(process: Process) -> Any:
        won = await process.race(process.step("a", slowly, 1, 3), process.step("b", slowly, 2, 30))
        return await process.gather(process.step("c", str, won), process.step("d", slowly, 4))

    log = MemoryLog(partitions=1)
    await result_of(code, log)

    async def history(of: MemoryLog) -> list[Any]:
        return await on_node(of, lambda node: collected(node))

    async def collected(node: Node) -> list[Any]:
        return [one async for one in node.entries("p")]

    found = await check_replay(running(code), await history(log))
    assert (found.divergence, found.ended_by) == (None, "result")
    for crashed in list(cuts(log))[2:]:
        found = await check_replay(running(code), await history(crashed))
        assert found.divergence is None
        assert found.unreached == 0


async def test_a_cancelled_process_tells_its_branches() -> None:
    log = MemoryLog(partitions=1)

    async def code(process: Process) -> Any:
        await process.node.cancel("p")
        return await process.gather(process.gate("one"), process.gate("two"))

    with pytest.raises(Cancelled):
        await result_of(code, log)


async def test_a_run_that_is_cancelled_from_outside_resumes_where_its_branches_were() -> None:
    log, begun = MemoryLog(partitions=1), asyncio.Event()
    waits = True

    async def code(process: Process) -> Any:
        async def branch(name: str) -> Any:
            await process.step(f"{name} first", slowly, 1)
            return await process.step(name, held)

        async def held() -> str:
            begun.set()
            await (for_ever() if waits else slowly(1))
            return "went on"

        return await process.gather(branch("a"), branch("b"))

    run = asyncio.create_task(result_of(code, log))
    await asyncio.wait_for(begun.wait(), 20)
    run.cancel()
    await asyncio.wait([run])
    waits = False
    assert await result_of(code, log) == ["went on", "went on"]


async def test_branches_outside_of_an_agent() -> None:
    async def work(node: Node) -> Any:
        async with node.open("p") as process:
            await process.gather(process.step("a", slowly, 1), process.step("b", str, 2))
            return await process.race(process.step("c", slowly, 3), process.step("d", for_ever))

    assert await on_node(MemoryLog(partitions=1), work) == 3


async def test_a_cancelled_process_comes_to_its_effects_in_every_branch_before_it_is_told() -> None:
    """The request is known when the run begins; the compensation is known once the code has asked for the effect."""
    done: list[str] = []

    async def do(what: str) -> str:
        done.append(what)
        return what

    async def undo(what: str) -> None:
        done.append(f"un{what}")

    async def code(process: Process) -> Any:
        async def books() -> None:
            await process.step("look", slowly, 1)
            await process.effect("book", do, "book", compensate=undo)
            await process.gate("booked")

        await process.gather(process.gate("go"), books())

    log = MemoryLog(partitions=1)

    async def crashes(node: Node) -> None:
        run = asyncio.create_task(node.run(running(code), "p"))
        await until(lambda: sum(body.KIND == "gate_opened" for body in bodies(log)) == 2)
        await node.close()
        with pytest.raises((asyncio.CancelledError, SeekpointError)):
            await run

    await on_node(log, crashes)
    await on_node(log, lambda node: node.cancel("p"))
    with pytest.raises(Cancelled):
        await result_of(code, log)
    assert done == ["book", "unbook"]


async def test_a_permissive_run_takes_recorded_answers_in_changed_branches() -> None:
    log, begun = MemoryLog(partitions=1), list[str]()

    def work(name: str) -> str:
        begun.append(name)
        return name

    async def before(process: Process) -> Any:
        await process.gather(process.step("a", work, "a"), process.step("b", work, "b"))
        raise KeyError("stop here")

    async def after(process: Process) -> Any:
        async def branch(name: str) -> Any:
            return await process.step(name, work, name)

        return await process.gather(branch("b"), branch("c"), branch("a"))

    with pytest.raises(KeyError):
        await result_of(before, log)
    permissive = agent("branching")(running(after).run)
    found = await on_node(log, lambda node: node.run(permissive, "p", take_over=True, replay=ReplayMode.PERMISSIVE))
    assert (found, begun) == (["b", "c", "a"], ["a", "b", "c"])
