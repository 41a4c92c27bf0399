"""An agent that finds and pays, with content between; and the world it works on, where it can break."""

from __future__ import annotations

from typing import Any

from seekpoint.producers import Agent, Process, agent

__all__ = ["World", "refunder"]


class World:
    """What a test's agent works on, and what it saw."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.seen: list[Any] = []
        self.break_at: str | None = None

    async def do(self, what: str) -> str:
        self.done.append(what)
        return f"{what} done"

    def maybe_break(self, where: str) -> None:
        if self.break_at == where:
            raise ValueError(f"broken at {where}")


def refunder(world: World) -> Agent:
    """An agent that writes content between its steps, and looks at it."""

    @agent("refunder")
    async def run(process: Process, input: Any) -> Any:
        await process.update("order", input["order"])
        found = await process.step("find", world.do, "find")
        await process.say("assistant", found)
        world.maybe_break("middle")
        world.seen.append((process.state.context, [message.text for message in process.state.conversation]))
        await process.update("order", "paid")
        paid = await process.step("pay", world.do, "pay")
        world.maybe_break("end")
        world.seen.append((process.state.context, len(process.state.conversation)))
        return {"paid": paid}

    return run
