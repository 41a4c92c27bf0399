"""LangGraph with its SQLite saver, as far as ``steps.py`` measures it: a chain of nodes, a checkpoint behind each."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path
from typing import Any, TypedDict

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph

__all__ = ["step_ms"]


class Count(TypedDict):
    """The graph's state."""

    count: int


async def step_ms(path: Path, steps: int) -> list[float]:
    """Milliseconds of each step: one node that runs and its checkpoint, as the saver comes (WAL, synchronous)."""
    taken: list[float] = []

    async def node(state: Count) -> dict[str, Any]:
        taken.append(time.perf_counter())
        return {"count": state["count"] + 1}

    def following(state: Count) -> str:
        return END if state["count"] >= steps else "node"

    graph = StateGraph(Count)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    graph.add_conditional_edges("node", following, ["node", END])
    async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
        compiled = graph.compile(checkpointer=saver)
        config: Any = {"configurable": {"thread_id": "case"}, "recursion_limit": steps + 10}
        await compiled.ainvoke({"count": 0}, config, durability="sync")
    return [(late - early) * 1000 for early, late in pairwise(taken[50:])]
