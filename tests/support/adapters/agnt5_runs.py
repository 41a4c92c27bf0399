"""Runs of workflows of AGNT5, as a program makes them that was just started."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from seekpoint import Node
from seekpoint.adapters.agnt5 import DurableWorkflows

__all__ = ["PROCESS", "giving", "once", "statuses", "until_asleep"]

T = TypeVar("T")
PROCESS = "agnt5/default/order-17"


async def once(node: Node, run: Any, input: dict[str, Any] | None = None, **options: Any) -> Any:
    """Run a workflow as a program does that was just started."""
    async with DurableWorkflows(node, **options) as workflows:
        return await workflows.run(run, "order-17", input)


def giving(value: T, ran: Counter[str] | None = None) -> Callable[[], Awaitable[T]]:
    """Return a step's body, which counts its calls as those of ``last``."""

    async def give() -> T:
        if ran is not None:
            ran["last"] += 1
        return value

    return give


async def statuses(node: Node) -> dict[str, str]:
    """The status of each activation, by its stable key."""
    state = (await node.recover(PROCESS, missing_ok=True)).state
    found = {key: state.value(key) for key in state.values_json if key.startswith("actv1_")}
    return {one["stable_key"]: one["status"] for one in found.values()}


async def until_asleep(node: Node) -> None:
    async with asyncio.timeout(30):
        while "SUSPENDED" not in (await statuses(node)).values():  # noqa: ASYNC110  # the state is in the log
            await asyncio.sleep(0.005)
