"""LangGraph with its SQLite saver, for ``steps.py``: a chain of nodes, with a checkpoint behind each.

As a program it prints what ``_rival_program.py`` says. Each commit is synchronised with the disk.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, TypedDict

from _rival_program import STEPS, rival_program, seconds_at_once

__all__ = ["run_seconds", "step_ms", "threads_of"]


class Count(TypedDict):
    """The graph's state."""

    count: int


async def step_ms(path: Path, steps: int) -> list[float]:
    """Milliseconds of each step: one node that runs, and its checkpoint.

    ``ImportError`` where ``langgraph`` or ``langgraph-checkpoint-sqlite`` is not installed.
    """
    taken: list[float] = []
    async with _graph(path, steps, lambda: taken.append(time.perf_counter())) as run:
        await run("case")
    return [(late - early) * 1000 for early, late in pairwise(taken[50:])]


async def run_seconds(path: Path, runs: int) -> float:
    """Seconds of so many runs of three steps, 50 at once."""
    async with _graph(path, STEPS, lambda: None) as run:
        return await seconds_at_once(run, runs)


@asynccontextmanager
async def _graph(path: Path, steps: int, at_step: Any) -> AsyncIterator[Any]:
    """Give a function that runs a thread of so many steps, by its name."""
    savers: Any = import_module("langgraph.checkpoint.sqlite.aio")
    async with savers.AsyncSqliteSaver.from_conn_string(str(path)) as saver:
        await saver.conn.execute("PRAGMA synchronous = FULL")
        yield threads_of(saver, steps, at_step)


def threads_of(saver: Any, steps: int, at_step: Callable[[], object]) -> Callable[[str], Awaitable[None]]:
    """Return a function that runs a thread of so many steps, by its name, with its checkpoints in ``saver``."""
    graphs: Any = import_module("langgraph.graph")

    async def node(state: Count) -> dict[str, Any]:
        at_step()
        return {"count": state["count"] + 1}

    def following(state: Count) -> str:
        return graphs.END if state["count"] >= steps else "node"

    graph = graphs.StateGraph(Count)
    graph.add_node("node", node)
    graph.add_edge(graphs.START, "node")
    graph.add_conditional_edges("node", following, ["node", graphs.END])
    compiled = graph.compile(checkpointer=saver)

    async def run(name: str) -> None:
        config: Any = {"configurable": {"thread_id": name}, "recursion_limit": steps + 10}
        await compiled.ainvoke({"count": 0}, config, durability="sync")

    return run


if __name__ == "__main__":
    sys.exit(asyncio.run(rival_program(step_ms, run_seconds)))
