"""A journal in memory for the command line, and an agent whose run has calls of many kinds."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

from seekpoint.consumers.checkpoints.memory_checkpoints import MemoryCheckpoints
from seekpoint.consumers.recovery.dead_letters import DeadLetters
from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.producers import Agent, Node, Process, Retry, agent
from seekpoint.producers.durable.decisions.prices import Prices
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.config.settings import Settings

__all__ = ["AGENTS", "OnMemory", "ask", "chatter", "on"]

AGENTS = """
from pathlib import Path
from seekpoint.producers import agent


def touch(name):
    Path(name).touch()
    return name


@agent("toucher", 3)
async def touching(process, input):
    return await process.step("touch", touch, input["name"])


@agent("toucher", 4)
async def changed(process, input):
    return await process.step("touch", touch, input["name"] + "-2")


def pay(name):
    Path(name).read_text()
    return "paid"


@agent("payer")
async def paying(process, input=None):
    return await process.step("pay", pay, "money")


@agent("breaker")
async def breaking(process, _):
    raise ValueError("no such order")


async def plain(process, input):
    return None
"""


class OnMemory:
    """A target whose journal is in memory."""

    config = None
    view: Any = None

    def __init__(self, log: MemoryLog) -> None:
        self.log = log
        self.settings = Settings(redis_url=None, node_id=os.environ.get("SEEKPOINT_NODE_ID"))
        self.dead_letters = DeadLetters(log, self.settings)
        self.checkpoints = MemoryCheckpoints(log.partitions)
        self.recoverer = Recoverer(log, self.dead_letters)

    def reachable(self, *, may_create: bool = False) -> Settings:
        return self.settings

    def scrub(self, text: str) -> str:
        return text

    def close(self) -> None:
        """Nothing to give up."""


def on(log: MemoryLog, work: Callable[[Node], Any]) -> Any:
    """Do ``work`` with a node on the log."""

    async def run() -> Any:
        async with Node.in_memory(log) as node:
            node.prices = Prices({"m": {"input": "1000000", "output": "0"}})
            return await work(node)

    return asyncio.run(run())


def ask(request: Any) -> Any:
    return {"model": "m", "content": "yes", "usage": {"input_tokens": 3, "output_tokens": 1}}


class Flaky:
    """Fails at first."""

    def __init__(self) -> None:
        self.runs = 0

    def __call__(self, order: str) -> str:
        self.runs += 1
        if self.runs == 1:
            raise ValueError("at first")
        return f"{order} paid"


def chatter() -> Agent:
    """An agent with nested calls, decisions that share messages, two turns and a step that is tried twice."""

    @agent("chatter", "7")
    async def run(process: Process, input: Any) -> Any:
        await process.set_budget({"usd": "10", "model_calls": 20}, a_day={"tokens": 1000})
        messages: list[Any] = [{"role": "system", "content": "be brief"}]
        async for turn in process.turns():

            async def lookup() -> Any:
                return await process.step("inner", str.upper, "a")

            await process.step("lookup", lookup)
            messages.append({"role": "user", "content": f"question {turn.number}"})
            await process.decide("answer", ask, {"model": "m", "messages": list(messages)})
            if turn.number == 2:
                break
        return await process.step("pay", Flaky(), "o-1", retry=Retry(attempts=2, backoff_s=0.001))

    return run
