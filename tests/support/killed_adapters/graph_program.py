"""A program that runs a graph to its end, and goes on from where it was killed.

    python graph_program.py JOURNAL LEDGER CALLS

``JOURNAL`` is a file, or ``kafka`` for the journal of the environment. The model is scripted. Each call of it is one
line in the outside file ``LEDGER``, before its answer: the process, its number, and the seconds since the program
could have made its first call.
"""

from __future__ import annotations

import asyncio
import operator
import os
import sys
import time
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph

from seekpoint import Node
from seekpoint.adapters.langgraph import SeekpointSaver

__all__ = ["answer_to"]

THREAD: Any = {"configurable": {"thread_id": "case-7"}, "recursion_limit": 10_000}


class Talk(TypedDict):
    """The graph's state."""

    answers: Annotated[list[str], operator.add]
    looked_up: Annotated[list[int], operator.add]


def answer_to(number: int) -> str:
    """Return the answer of the scripted model to its call ``number``."""
    return f"answer {number}"


async def run(journal: str, ledger: str, calls: int) -> None:
    """Run the graph, from its beginning or from its newest checkpoint."""
    node = Node.connect() if journal == "kafka" else Node.local(journal)
    began = time.monotonic()
    lines = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def model(state: Talk) -> dict[str, Any]:
        number = len(state["answers"])
        os.write(lines, f"{os.getpid()} {number} {time.monotonic() - began:.3f}\n".encode())
        await asyncio.sleep(0.005)
        return {"answers": [answer_to(number)]}

    async def look_up(state: Talk) -> dict[str, Any]:
        return {"looked_up": [len(state["answers"])]}

    async def check(state: Talk) -> dict[str, Any]:
        assert state["answers"] == [answer_to(number) for number in range(len(state["answers"]))]
        return {}

    builder: Any = StateGraph(Talk)
    builder.add_node("model", model)
    builder.add_node("look_up", look_up)
    builder.add_node("check", check)
    builder.add_edge(START, "model")
    builder.add_conditional_edges(
        "model",
        lambda state: END if len(state["answers"]) >= calls else ["look_up", "check"],
        ["look_up", "check", END],
    )
    builder.add_edge(["look_up", "check"], "model")
    async with node:
        graph = builder.compile(checkpointer=SeekpointSaver(node))
        state = await graph.aget_state(THREAD)
        if state.next or not state.values:
            await graph.ainvoke(None if state.next else {"answers": [], "looked_up": []}, THREAD, durability="sync")
        done = (await graph.aget_state(THREAD)).values
        assert done["answers"] == [answer_to(number) for number in range(calls)]
        assert done["looked_up"] == list(range(1, calls))
    print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], sys.argv[2], int(sys.argv[3])))
