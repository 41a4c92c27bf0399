"""A program of random steps, writes, branches and turns, killed after any of its entries, ends as if nothing was.

The log is cut after each entry in turn: what a machine that dies there leaves. Another node resumes from the cut. Each
body counts its runs in a ledger that no crash touches: what its journal had seen ended runs no more, what was in doubt
once more.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from cuts import cut_after, cuts, entries_of, on_node, spelled_out
from seekpoint.producers import Agent, Process, Retry, agent, register_failure
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b

Program = tuple[Any, ...]


@register_failure
class Broken(Exception):
    """What a step of the program raises."""


@dataclass
class Ledger:
    """The outside world: what ran there, by idempotency key."""

    runs: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)

    def work(self, what: str) -> Any:
        """A body that succeeds, fails for good, or fails at first."""

        async def body(value: int, *, idempotency_key: str) -> Any:
            self.runs[idempotency_key] += 1
            if what == "fails":
                raise Broken(str(value))
            if what == "flaky":
                self.ended[key := idempotency_key.rstrip("~")] += 1
                if self.ended[key] == 1:
                    raise Broken("at first")
            return [value, None, {"again": value}]

        return body


def program_of(plan: Program, ledger: Ledger) -> Agent:
    """An agent that does what ``plan`` says."""

    @agent("random")
    async def run(process: Process, input: Any) -> Any:
        seen: list[Any] = []
        before, turns = plan
        await perform(process, before, ledger, seen)
        if turns:
            async for turn in process.turns():
                await perform(process, turns[turn.number - 1], ledger, seen := [])
                if turn.number == len(turns):
                    break
        return [seen, process.state.context, [message.text for message in process.state.conversation]]

    return run


async def perform(process: Process, actions: Program, ledger: Ledger, seen: list[Any], *, alone: bool = True) -> None:
    """Do each action; what it gave is seen. What others write meanwhile is nobody's to see: that is a race."""
    for kind, *rest in actions:
        if kind == "step":
            seen.append(await told(process.step(rest[0], ledger.work(rest[1]), rest[2], retry=RETRY)))
        elif kind == "update":
            await process.update(rest[0], rest[1])
            seen.append(process.state.context if alone else None)
        elif kind == "say":
            await process.say("user", rest[0])
            seen.append(len(process.state.conversation) if alone else None)
        elif kind == "both":
            both = [process.step("both", ledger.work(what), index) for index, what in enumerate(rest)]
            seen.append(await asyncio.gather(*map(told, both)))
        elif kind == "branches":
            parts: list[list[Any]] = [[] for _ in rest]
            branches = [
                perform(process, inner, ledger, mine, alone=False) for inner, mine in zip(rest, parts, strict=True)
            ]
            await asyncio.gather(*branches)
            seen.append(parts)
        elif kind == "nested":
            seen.append(await told(process.step("nested", inside(process, rest, ledger), len(rest), retry=RETRY)))
        elif kind == "risky":
            seen.append(await told(process.step("nested risky", risky(process, rest, ledger), 0, retry=RETRY)))


def inside(process: Process, actions: Any, ledger: Ledger) -> Any:
    """A body that makes calls of its own."""

    async def body(_: int) -> Any:
        mine: list[Any] = []
        await perform(process, actions, ledger, mine)
        return mine

    return body


def risky(process: Process, whats: Any, ledger: Ledger) -> Any:
    """A body that fails where a step in it does: it is tried again, what succeeded in it is not."""

    async def body(_: int) -> Any:
        return [await process.step("inner", ledger.work(what), index) for index, what in enumerate(whats)]

    return body


async def told(call: Any) -> Any:
    """What a step gave, or failed with."""
    try:
        return await call
    except Broken as exc:
        return f"broken: {exc}"


RETRY = Retry(attempts=4, backoff_s=1, jitter=0)
"""One more than any program needs: a crash takes an attempt."""
UNSHRUNK = [Phase.explicit, Phase.reuse, Phase.generate]
"""A program that fails is shown as it is: making it smaller takes minutes."""
words = st.sampled_from(["a", "b"])
steps = st.tuples(st.just("step"), words, st.sampled_from(["works", "works", "fails", "flaky"]), st.integers(0, 3))
writes = st.one_of(
    st.tuples(st.just("update"), words, st.integers(0, 3)), st.tuples(st.just("say"), st.sampled_from(["hi", "ho"]))
)
plain = st.one_of(steps, writes, st.tuples(st.just("both"), *[st.sampled_from(["works", "fails"])] * 2))
some = st.lists(plain, max_size=3).map(tuple)
# Where two branches write the same value, or both say something, whoever comes last is a race: a crash may turn it.
apart = st.one_of(
    steps, st.tuples(st.just("update"), st.sampled_from(["c", "d"]), st.integers(0, 3)),
    st.tuples(st.just("both"), *[st.sampled_from(["works", "fails"])] * 2),
)  # fmt: skip
actions = st.lists(
    st.one_of(
        plain,
        st.tuples(st.just("branches"), some, st.lists(apart, max_size=3).map(tuple)),
        st.tuples(st.just("nested"), steps, steps),
        st.tuples(st.just("risky"), *[st.sampled_from(["works", "fails", "flaky"])] * 2),
    ),
    max_size=4,
).map(tuple)
programs = st.tuples(actions, st.lists(actions, max_size=3).map(tuple))


async def run_on(log: MemoryLog, plan: Program, ledger: Ledger) -> Any:
    return await on_node(log, lambda node: node.run(program_of(plan, ledger), "p", 1, take_over=True))


def bodies(log: MemoryLog) -> list[Any]:
    """What the entries say; the start of a step comes before its end though both left as one entry."""
    return [one for entry in entries_of(log) for one in spelled_out(entry.body)]


def in_doubt(log: MemoryLog) -> set[str]:
    """The idempotency keys of the attempts that began and have no end."""
    keys, under_way = {}, set()
    for body in bodies(log):
        if isinstance(body, b.StepStarted):
            keys[body.key] = body.idempotency_key
            under_way.add(body.key)
        elif isinstance(body, b.StepEnded):
            under_way.discard(body.key)
    return {keys[key] for key in under_way}


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow], phases=UNSHRUNK)
@given(plan=programs)
def test_a_program_killed_after_any_entry_ends_as_if_nothing_was(plan: Program) -> None:
    """Result, content and runs: an attempt that ended runs no more, one in doubt once more, with the same key."""
    asyncio.run(killed_everywhere(plan))


async def killed_everywhere(plan: Program) -> None:
    whole, ledger = MemoryLog(partitions=1), Ledger()
    wanted = await run_on(whole, plan, ledger)
    for entries, log in enumerate(cuts(whole), start=1):
        doubtful, mine = in_doubt(log), ran_before(log)
        assert await run_on(log, plan, mine) == wanted, entries
        for key, runs in mine.runs.items():
            assert runs <= ledger.runs[key] + (key in doubtful), (entries, key)
        ended = [body for body in bodies(log) if isinstance(body, b.StepEnded)]
        assert len({(body.key, body.attempt) for body in ended}) == len(ended)


def ran_before(log: MemoryLog) -> Ledger:
    """What had run when the log ended there: each attempt that began; of one in doubt the world has seen nothing."""
    ledger, keys = Ledger(), {}
    for body in bodies(log):
        if isinstance(body, b.StepStarted) and "nested" not in body.name:
            keys[body.key] = body.idempotency_key
            ledger.runs[body.idempotency_key] += 1
        elif isinstance(body, b.StepEnded) and body.key in keys:
            ledger.ended[keys[body.key].rstrip("~")] += 1
    return ledger


async def test_a_process_that_was_finished_is_not_run_by_a_cut() -> None:
    """The last entry of a run is its result: cut behind it, nothing runs."""
    log, ledger = MemoryLog(partitions=1), Ledger()
    plan = (((("step", "a", "works", 1)),), ())
    wanted = await run_on(log, plan, ledger)
    again = Ledger()
    assert await run_on(cut_after(log, log.watermarks(0).high), plan, again) == wanted
    assert not again.runs
