"""A program that runs an agent of the OpenAI Agents SDK durably: ``runner_program.py JOURNAL LEDGER TURNS``.

Before a model or a tool does anything, it writes a line into the ledger: the program, the call, and the seconds since
the program could begin. Each turn is a model call, then two tools at once that are steps; in every third turn a
payment too, at most once. Prints ``done``, or ``unknown KEY`` where nobody knows whether a payment was made.
"""

from __future__ import annotations

import asyncio
import sys

from agents import Agent, function_tool
from agents.items import TResponseOutputItem
from agents.testing import assistant_message, function_call

from call_ledger import Ledger
from scripted_agents import RepeatableModel
from seekpoint import Effect, Node, Process, agent
from seekpoint.adapters.openai_agents import DurableRunner
from seekpoint.errors import EffectUnknown

JOURNAL = [*sys.argv, ""][1]
TURNS = int(sys.argv[3]) if __name__ == "__main__" else 0
PROCESS = "case-1"
note = Ledger().note


def outputs_before(turn: int) -> int:
    """How many tool outputs there are before a turn."""
    return 2 * turn + turn // 3


def script(number: int) -> list[TResponseOutputItem]:
    """What the model says when it has seen so many tool outputs."""
    turn = next(turn for turn in range(TURNS + 1) if outputs_before(turn) == number)
    if turn == TURNS:
        return [assistant_message("done")]
    calls = [function_call("look", {"what": f"{turn}{side}"}, call_id=f"look-{turn}-{side}") for side in "ab"]
    return [*calls, function_call("pay", {"turn": turn}, call_id=f"pay-{turn}")] if turn % 3 == 2 else calls


def model_called(number: int) -> None:
    """Note a model call by its turn."""
    note(f"model-{next(turn for turn in range(TURNS + 1) if outputs_before(turn) == number)}")


@function_tool
async def look(what: str) -> str:
    """Look something up."""
    note(f"look-{what}")
    await asyncio.sleep(0.002)
    return f"seen {what}"


@function_tool
async def pay(turn: int) -> str:
    """Pay."""
    note(f"pay-{turn}")
    await asyncio.sleep(0.002)
    return f"paid {turn}"


buyer = Agent(name="buyer", model=RepeatableModel(script, model_called), tools=[look, pay])


@agent("buyer")
async def buy(process: Process, wish: str) -> str:
    """Run the agent."""
    runner = DurableRunner(process, effects={"pay": Effect.AT_MOST_ONCE})
    result = await runner.run(buyer, wish, max_turns=TURNS + 1, session="buyer")
    return str(result.final_output)


async def main() -> None:
    """Begin, or go on."""
    node = Node.connect() if JOURNAL == "kafka" else Node.local(JOURNAL)
    async with node:
        try:
            print(await node.run(buy, PROCESS, "shoes", wait_s=30))
        except EffectUnknown as unknown:
            print("unknown", unknown.key)


if __name__ == "__main__":
    asyncio.run(main())
