"""A program that runs an agent of the Agent Development Kit durably: ``adk_program.py JOURNAL LEDGER TURNS``.

Before a model or a tool does anything, it writes a line into the ledger: the program, the call, and the seconds since
the program could begin. Each turn is a model call, then two tools at once that are steps; in every third turn a
payment too, at most once. Prints ``done``, or ``unknown KEY`` where nobody knows whether a payment was made.
"""

from __future__ import annotations

import asyncio
import sys

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from call_ledger import Ledger
from scripted_llms import ScriptedLlm, call, said
from seekpoint import Effect, Node, Process, agent
from seekpoint.adapters.adk import DurableRunner
from seekpoint.errors import EffectUnknown

JOURNAL = [*sys.argv, ""][1]
TURNS = int(sys.argv[3]) if __name__ == "__main__" else 0
PROCESS = "case-1"
note = Ledger().note


def turn_of(number: int) -> int:
    """The turn of a model that has seen so many results of tools."""
    return next(turn for turn in range(TURNS + 1) if 2 * turn + turn // 3 == number)


def script(number: int) -> list[types.Part]:
    """What the model says when it has seen so many results."""
    turn = turn_of(number)
    if turn == TURNS:
        return said("done")
    calls = [call("look", f"look-{turn}-{side}", what=f"{turn}{side}") for side in "ab"]
    return [*calls, call("pay", f"pay-{turn}", turn=turn)] if turn % 3 == 2 else calls


async def look(what: str, tool_context: ToolContext) -> str:
    """Look something up."""
    note(f"look-{what}")
    await asyncio.sleep(0.002)
    tool_context.state["app:looks"] = what
    return f"seen {what}"


async def pay(turn: int) -> str:
    """Pay."""
    note(f"pay-{turn}")
    await asyncio.sleep(0.002)
    return f"paid {turn}"


model = ScriptedLlm(model="scripted", script=script, on_call=lambda number: note(f"model-{turn_of(number)}"))
buyer = LlmAgent(name="buyer", model=model, tools=[look, pay])


@agent("buyer")
async def buy(process: Process, wish: str) -> str:
    """Run the agent."""
    runner = DurableRunner(
        process, app_name="shop", agent=buyer, auto_create_session=True, effects={"pay": Effect.AT_MOST_ONCE}
    )
    told = ""
    config = RunConfig(max_llm_calls=0)
    async for event in runner.run_async(user_id="ada", session_id="buyer", new_message=wish, run_config=config):
        if event.is_final_response() and event.content and event.content.parts:
            told = event.content.parts[0].text or ""
    return told


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
