"""A program that runs a workflow of AGNT5 with an agent: ``agnt5_program.py JOURNAL LEDGER TURNS``.

Before a step, a model or a tool does anything, it writes a line into the ledger: the program, the call, and the seconds
since the program could begin. The workflow makes a step, then lets an agent take its turns. Each is a model call, then
a tool that may be called again; in every third turn also a payment, which may not. A last step ends it. Prints
``done``, or ``unknown ACTIVATION`` where nobody knows whether a payment was made.
"""

import asyncio
import os
import sys
from typing import Any

from agnt5 import Agent, WorkflowContext, tool, workflow
from agnt5.activation import ActivationKind, ActivationRecoveryPolicy
from agnt5.exceptions import ActivationError, ActivationErrorCode

from call_ledger import Ledger
from scripted_chat_server import scripted_chat, tool_call
from seekpoint import Node
from seekpoint.adapters.agnt5 import DurableWorkflows

JOURNAL = [*sys.argv, ""][1]
TURNS = int(sys.argv[3]) if __name__ == "__main__" else 0
RUN = "case-1"
PROJECT = "shop"
POLICIES = {ActivationKind.MODEL: ActivationRecoveryPolicy.IDEMPOTENT_RETRY}
note = Ledger().note


def outputs_before(turn: int) -> int:
    """How many tool outputs there are before a turn."""
    return turn + turn // 3


def turn_of(number: int) -> int:
    """The turn in which a model has seen so many tool outputs."""
    return next(turn for turn in range(TURNS + 1) if outputs_before(turn) == number)


def script(number: int) -> str | list[dict[str, Any]]:
    """What the model says when it has seen so many tool outputs."""
    turn = turn_of(number)
    if turn == TURNS:
        return "done"
    calls = [tool_call("look", {"turn": turn}, f"look-{turn}")]
    return [*calls, tool_call("pay", {"turn": turn}, f"pay-{turn}")] if turn % 3 == 2 else calls


@tool(recovery_policy="idempotent_retry")
async def look(ctx, turn: int) -> str:  # type: ignore[no-untyped-def]  # the SDK wants its own class, or nothing
    """Look something up."""
    note(f"look-{turn}")
    await asyncio.sleep(0.002)
    return f"seen {turn}"


@tool
async def pay(ctx, turn: int) -> str:  # type: ignore[no-untyped-def]
    """Pay."""
    note(f"pay-{turn}")
    await asyncio.sleep(0.002)
    return f"paid {turn}"


async def first() -> str:
    """Do something that may be done again."""
    note("first-0")
    await asyncio.sleep(0.002)
    return "first"


async def last() -> str:
    """Do something that may be done again."""
    note("last-0")
    await asyncio.sleep(0.002)
    return "last"


@workflow
async def shop(ctx: WorkflowContext, wish: str) -> str:
    """Buy."""
    await ctx.step("first", first)
    buyer = Agent(
        name="buyer", model="ollama/small", instructions="Buy.", tools=[look, pay], max_iterations=TURNS + 1
    )  # fmt: skip
    result = await buyer.run(wish, context=ctx)
    await ctx.step("last", last)
    return str(result.output)


async def main() -> None:
    """Begin, or go on."""
    node = Node.connect() if JOURNAL == "kafka" else Node.local(JOURNAL)
    with scripted_chat(script, lambda number: note(f"model-{turn_of(number)}")) as url:
        os.environ["OLLAMA_BASE_URL"] = url
        async with node, DurableWorkflows(node, project_id=PROJECT, policies=POLICIES, wait_s=30) as workflows:
            try:
                print(await workflows.run(shop, RUN, {"wish": "shoes"}))
            except ActivationError as error:
                if error.code is not ActivationErrorCode.UNKNOWN_OUTCOME:
                    raise
                print("unknown", error.activation_id)


if __name__ == "__main__":
    asyncio.run(main())
