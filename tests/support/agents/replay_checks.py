"""Agents that ran once, and their code held against that history."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from seekpoint.consumers.recovery.process_history import Logged
from seekpoint.producers import Agent, Effect, Node, Process, ReplayCheck, Retry, agent, check_replay
from seekpoint.schemas.state.process_state import State

__all__ = ["Code", "World", "checked", "everything", "history", "made", "ran", "until"]

Code = Callable[[Process, Any], Any]


async def history(node: Node, process_id: str = "p") -> list[Logged]:
    return [one async for one in node.entries(process_id)]


async def until(node: Node, is_so: Callable[[State], bool]) -> None:
    """Return once the process's state is so."""
    async with asyncio.timeout(60):
        while not is_so((await node.recover("p", missing_ok=True)).state):  # noqa: ASYNC110  # a log gives no event
            await asyncio.sleep(0)


class World:
    """What bodies do: counted, because a check does none of it."""

    def __init__(self) -> None:
        self.runs = 0

    async def do(self, what: Any = None, **more: Any) -> Any:
        self.runs += 1
        return {"did": what}

    def ask(self, request: Any) -> Any:
        self.runs += 1
        return {"model": "m", "content": f"answer {self.runs}", "usage": {"prompt_tokens": 3, "completion_tokens": 1}}

    async def flaky(self) -> str:
        self.runs += 1
        if self.runs % 2:
            raise ValueError("at first")
        return "then"

    async def fails(self) -> None:
        self.runs += 1
        raise LookupError("nothing there")


def made(code: Code, version: int = 1, name: str = "worker", *, pinned: bool = False) -> Agent:
    return agent(name, version, pinned=pinned)(code)


async def ran(node: Node, code: Code, input: Any = None) -> list[Logged]:
    """The history of a run of ``code``, to whatever end it comes."""
    with suppress(Exception):  # what a test's agent fails with is its own
        await node.run(made(code), "p", input)
    return await history(node)


async def checked(code: Code, entries: list[Logged], **how: Any) -> ReplayCheck:
    return await check_replay(made(code, 2), entries, patience_s=0.05, **how)


def everything(world: World) -> Code:
    """An agent that makes every kind of call, in branches and turns too."""

    async def branch(process: Process, name: str) -> Any:
        first = await process.step(name, world.do, name)
        return [first, await process.step("second", world.do, 2)]

    @agent("child")
    async def child(process: Process, input: Any) -> Any:
        return await process.step("grow", world.do, input)

    async def code(process: Process, input: Any) -> Any:
        await process.set_budget({"tool_calls": 100})
        await process.update("at", 1)
        seen: list[Any] = [str(await process.now()), str(await process.uuid()), await process.random()]
        seen.append(await process.sample("file", lambda: world.runs))

        async def nested() -> Any:
            return await process.step("inner", world.do, "inner")

        seen.append(await process.step("outer", nested))
        seen += await asyncio.gather(branch(process, "left"), branch(process, "right"))
        with pytest.raises(LookupError):
            await process.step("fails", world.fails)
        seen.append(await process.step("flaky", world.flaky, retry=Retry(attempts=3, backoff_s=0.1)))
        seen.append(await process.decide("plan", world.ask, {"model": "m", "messages": [{"content": "go"}]}))
        seen.append(await process.effect("pay", world.do, 12, semantics=Effect.AT_MOST_ONCE))
        await process.sleep(timedelta(hours=1))
        seen.append(bool(await process.gate("ok", timeout=1)))
        seen.append(await process.spawn(child, "p-child", {"n": 1}).result())
        shared = process.shared("rate")
        seen.append([await shared.set(5), (await shared.get()).value])
        async for turn in process.turns():
            await process.say("user", f"turn {turn.number}")
            await process.update("at", [process.state.context["at"], len(process.state.conversation)])
            seen.append(await process.tool("use", world.do, turn.number))
            if turn.number == 3:
                break
        return [seen, process.state.context, [message.text for message in process.state.conversation]]

    return code
