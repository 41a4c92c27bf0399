"""LangGraph with its SQLite saver, as far as ``steps.py`` measures it: a chain of nodes, a checkpoint behind each."""

from __future__ import annotations

import time
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, TypedDict

__all__ = ["step_ms"]


class Count(TypedDict):
    """The graph's state."""

    count: int


async def step_ms(path: Path, steps: int) -> list[float]:
    """Milliseconds of each step: one node that runs and its checkpoint, as the saver comes (WAL, synchronous).

    ``ImportError`` where ``langgraph`` or ``langgraph-checkpoint-sqlite`` is not installed.
    """
    graphs: Any = import_module("langgraph.graph")
    savers: Any = import_module("langgraph.checkpoint.sqlite.aio")
    taken: list[float] = []

    async def node(state: Count) -> dict[str, Any]:
        taken.append(time.perf_counter())
        return {"count": state["count"] + 1}

    def following(state: Count) -> str:
        return graphs.END if state["count"] >= steps else "node"

    graph = graphs.StateGraph(Count)
    graph.add_node("node", node)
    graph.add_edge(graphs.START, "node")
    graph.add_conditional_edges("node", following, ["node", graphs.END])
    async with savers.AsyncSqliteSaver.from_conn_string(str(path)) as saver:
        compiled = graph.compile(checkpointer=saver)
        config: Any = {"configurable": {"thread_id": "case"}, "recursion_limit": steps + 10}
        await compiled.ainvoke({"count": 0}, config, durability="sync")
    return [(late - early) * 1000 for early, late in pairwise(taken[50:])]
