"""A law: a process that is rewound to any entry and run on ends as one that never went past that entry.

Its steps may be made again, since the process forgot them. No effect is made twice. In memory, for every entry of runs
with turns, branches, nested calls, effects, samples and content writes.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from folding import refold
from seekpoint.producers import Agent, Effect, Node, Process, agent
from seekpoint.schemas import MemoryLog

done: Counter[str] = Counter()
hangs = [False]


async def noted(name: str) -> str:
    done[name] += 1
    return name


async def outer(process: Process, name: str) -> str:
    """A step with a call of its own."""
    inner = await process.step(f"{name}-inner", noted, f"{name}-inner")
    return f"{await noted(name)} after {inner}"


async def last(name: str) -> str:
    await noted(name)
    if hangs[0]:
        await asyncio.Event().wait()
    return name


async def one(process: Process, kind: str, name: str) -> Any:
    """Make one call of a kind."""
    if kind == "step":
        return await process.step(name, noted, name)
    if kind == "nested":
        return await process.step(name, partial(outer, process, name))
    if kind == "effect":
        return await process.effect(name, noted, f"effect {name}", semantics=Effect.AT_MOST_ONCE)
    if kind == "sample":
        return await process.sample(name, lambda: name)
    if kind == "write":
        await process.update(name, value=1)
        return await process.say("user", name) and None
    return await process.gather(*(process.step(f"{name}-{number}", noted, f"{name}-{number}") for number in range(3)))


KINDS = ("step", "nested", "effect", "sample", "write", "branches")


def program(calls: list[str], turns: bool) -> Agent:
    """An agent that makes these calls, all at once or one in each turn, and a last step that may hang."""

    @agent("program")
    async def made(process: Process, given: None) -> str:
        if turns:
            async for turn in process.turns():
                if turn.number > len(calls):
                    break
                await one(process, calls[turn.number - 1], f"call-{turn.number}")
        else:
            for number, kind in enumerate(calls):
                await process.update(f"answer {number}", await one(process, kind, f"call-{number}"))
        return await process.step("last", last, "last")

    return made


async def cut_off(node: Node, code: Agent) -> None:
    hangs[0] = True
    run = asyncio.ensure_future(node.run(code, "p", None))
    async with asyncio.timeout(10):
        while not done["last"] and not run.done():  # noqa: ASYNC110  # the ledger gives no event
            await asyncio.sleep(0.005)
    assert not run.done(), run.exception()
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
    hangs[0] = False


@pytest.mark.parametrize("turns", [False, True])
@settings(max_examples=8, deadline=None)
@given(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4), st.tuples(*[st.integers(0, 1 << 20)] * 2))
async def test_a_rewound_process_ends_as_if_it_had_never_gone_on(
    turns: bool, calls: list[str], places: tuple[int, int]
) -> None:
    code, ends = program(calls, turns), []
    for is_rewound in (False, True):
        done.clear()
        log = MemoryLog()
        async with Node.in_memory(log) as node:
            await cut_off(node, code)
            if is_rewound:
                for place in places:  # the second time in what the first one left
                    to_seq = 1 + place % (await node.recover("p")).state.seq
                    past = (await node.recover("p", at_seq=to_seq)).state
                    await node.rewind("p", to_seq)
                    back = (await node.recover("p")).state
                    assert (back.context, [*back.conversation]) == (past.context, [*past.conversation])
            result = await node.run(code, "p", None)
            final = (await node.recover("p", at_seq=(await node.recover("p")).state.seq - 1)).state
            ends.append((result, final.context, [one.content for one in final.conversation]))
            assert all(count == 1 for name, count in done.items() if name.startswith("effect ")), done
            assert refold(log, "p").hash == (await node.recover("p")).state.hash
    assert ends[0] == ends[1]


@pytest.mark.parametrize("turns", [False, True])
@settings(max_examples=8, deadline=None)
@given(st.lists(st.sampled_from([kind for kind in KINDS if kind != "effect"]), min_size=1, max_size=4))
async def test_the_content_hash_of_a_rewound_state_is_that_of_then(turns: bool, calls: list[str]) -> None:
    """O7: at every seq of a run without effects, which stay in a rewind; a fork has that hash too."""
    code = program(calls, turns)
    done.clear()
    async with Node.in_memory(MemoryLog()) as node:
        await cut_off(node, code)
        for seq in range((await node.recover("p")).state.seq, 0, -1):
            past = (await node.recover("p", at_seq=seq)).state
            async with node.fork("p", f"q{seq}", at=seq) as fork:
                assert fork.state.content_hash == past.content_hash
            await node.rewind("p", seq)
            assert (await node.recover("p")).state.content_hash == past.content_hash
