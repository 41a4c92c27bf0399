"""Branches in runs that resume: after crashes, cancellations and changes of the code."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from branch_programs import for_ever, result_of, running, slowly
from cuts import bodies, cut_after, cuts, entries_of, on_node
from seekpoint.producers import Node, Process, ReplayMode, agent, check_replay
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import BudgetExceeded, ReplayDivergence


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


async def test_code_goes_on_from_a_budget_that_was_exceeded_as_it_did() -> None:
    """The refusal has no record. What the code asked for next has one."""

    async def code(process: Process) -> Any:
        await process.set_budget({"tool_calls": 1})

        async def calls_tools() -> Any:
            try:
                await process.tool("first", str, 1)
                await process.tool("second", str, 2)
            except BudgetExceeded:
                return await process.step("fallback", slowly, "fallback")

        steps = process.step("beside", slowly, 2), process.step("long", slowly, 3, 200)
        return await process.gather(calls_tools(), *steps)

    log = MemoryLog(partitions=1)
    assert await result_of(code, log) == ["fallback", 2, 3]
    for crashed in cuts(log):
        assert await result_of(code, crashed) == ["fallback", 2, 3]


async def test_a_result_of_a_child_that_ended_before_the_branches_is_given_as_in_the_first_run() -> None:
    """When all branches rest, in the first run as in the replay: though nothing else that is recorded is left."""
    told: list[str] = []

    @agent("child")
    async def child(process: Process, input: Any) -> Any:
        return 1

    async def code(process: Process) -> Any:
        told.clear()
        spawned = process.spawn(child, "p.child")
        await process.step("long", slowly, 1, 300)

        async def waits() -> None:
            await spawned.result()
            told.append("waits")

        async def asks() -> None:
            told.append("asks")
            await process.step("ask", slowly, 1)

        await process.gather(waits(), asks())
        raise KeyError("stop here")

    log = MemoryLog(partitions=1)
    with pytest.raises(KeyError):
        await result_of(code, log)
    assert told == ["asks", "waits"]
    ended = next(at for at, body in enumerate(bodies(log), 1) if body.KIND == "step_ended")
    for crashed in list(cuts(log))[ended:]:
        with pytest.raises(KeyError):
            await result_of(code, crashed)
        assert told == ["asks", "waits"]


async def test_a_race_is_a_branch_as_it_stands() -> None:
    """``gather(race(...), ...)`` starts the race in the branch that awaits it, in every run."""

    async def code(process: Process) -> Any:
        async def asks(number: int) -> Any:
            return await process.step("ask", slowly, number, 3 * number)

        return await process.gather(
            process.race(asks(9), process.step("quick", slowly, 1)), process.gather(asks(2), asks(3)), asks(4)
        )

    log = MemoryLog(partitions=1)
    first = await result_of(code, log)
    assert first == [1, [2, 3], 4]
    for crashed in cuts(log):
        assert await result_of(code, crashed) == first


@pytest.mark.parametrize("tidies_up", [False, True])
async def test_a_failed_branch_is_redriven_unless_its_failure_led_to_other_calls(tidies_up: bool) -> None:
    """A branch beside it that was cancelled has made a call because of the failure: then the failure stays."""
    is_broken = True

    def flaky() -> int:
        if is_broken:
            raise ValueError("broken")
        return 1

    async def code(process: Process) -> Any:
        async def fails() -> Any:
            await process.step("p", slowly, 1)
            return await process.step("flaky", flaky)

        async def beside() -> Any:
            try:
                await process.step("b1", slowly, 1)
                return await process.step("b2", slowly, 2, 100)
            finally:
                if tidies_up:
                    await process.step("tidy", str, 3)

        return await process.gather(fails(), beside())

    log = MemoryLog(partitions=1)
    with pytest.raises(ValueError, match="broken"):
        await result_of(code, log)
    is_broken = False
    if tidies_up:
        with pytest.raises(ValueError, match="broken"):
            await result_of(code, log, retry_failed=True)
    else:
        assert await result_of(code, log, retry_failed=True) == [1, 2]


async def test_the_first_run_of_a_fork_gets_inherited_answers_before_its_own() -> None:
    """In the order of its parent, though its seqs begin again, and though the other branch is quicker now."""
    told, is_slow = list[str](), True

    async def body(name: str) -> None:
        if is_slow and name == "slow":
            await for_ever()

    async def code(process: Process) -> Any:
        told.clear()

        async def branch(name: str, steps: int) -> Any:
            for number in range(steps):
                await process.step(f"{name}{number}", body, name)
                told.append(name)
                await slowly(None, 100)  # the work of the other branch goes on meanwhile
            return name

        return await process.race(branch("slow", 2), branch("quick", 20))

    log = MemoryLog(partitions=1)
    assert await result_of(code, log) == "quick"
    is_slow = False
    ended = [at for at, entry in enumerate(bodies(log), 1) if entry.KIND == "step_ended"]
    for inherited in (19, 20):
        crashed = cut_after(log, ended[inherited - 1])
        await on_node(crashed, lambda node: forked(node, "p", "q"))
        await on_node(crashed, lambda node: node.run(running(code), "q"))
        assert told[:inherited] == ["quick"] * inherited


async def test_a_resumed_fork_repeats_what_its_branches_decided() -> None:
    """Inherited answers come before the fork's own, in the fork and in a fork of it, wherever its run was cut off."""
    slow = "a"

    async def body(name: str) -> None:
        await slowly(None, 40 if name == slow else 1)

    async def code(process: Process) -> Any:
        async def branch(name: str, steps: int) -> Any:
            for number in range(steps):
                await process.step(f"{name}{number}", body, name)
            return name

        return await process.race(branch("a", 2), branch("b", 5))

    async def run_as(process_id: str, log: MemoryLog) -> Any:
        return await on_node(log, lambda node: node.run(running(code), process_id, take_over=True))

    log = MemoryLog(partitions=1)
    assert await run_as("p", log) == "b"
    ended = [at for at, entry in enumerate(bodies(log), 1) if entry.KIND == "step_ended"]
    before = cut_after(log, ended[2])
    for parent, fork in (("p", "q"), ("q", "r")):
        await on_node(before, partial(forked, parent=parent, process_id=fork))
        inherited = before.watermarks(0).high
        slow, whole = "b", cut_after(before, inherited)
        assert await run_as(fork, whole) == "a"
        steps = [at for at, entry in enumerate(entries_of_all(whole), 1) if entry.body.KIND == "step_ended"]
        slow, own = "a", [at for at in steps if at > inherited]
        for end in own:
            crashed = cut_after(whole, end)
            keys = [getattr(entry.body, "key", "") for entry in entries_of(crashed, fork)]
            found = await run_as(fork, crashed)
            assert found == "a" or not any(key.endswith("a1:1") for key in keys)
        before = cut_after(whole, own[0])


def entries_of_all(log: MemoryLog) -> list[Any]:
    """Return the entries of all processes of a log with one partition, in order."""
    return [log.codec.decode(one.value) for batch in log.read(0, 0, log.watermarks(0).high) for one in batch.records]


async def forked(node: Node, parent: str, process_id: str) -> None:
    async with node.fork(parent, process_id):
        pass
