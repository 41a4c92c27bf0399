"""A program that runs an agent of Pydantic AI durably: ``pydantic_program.py JOURNAL LEDGER TURNS``.

It does what ``runner_program`` does, and writes the same ledger: each turn is a model call, then two tools at once that
are steps; in every third turn a payment too, at most once. Every second model call is streamed. At the end it saves the
conversation. Prints ``done``, or ``unknown KEY`` where nobody knows whether a payment was made.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from pydantic_ai import Agent, UsageLimits
from pydantic_ai.conversation import Conversation

from call_ledger import Ledger
from scripted_pydantic_agents import called, said, scripted
from seekpoint import Effect, Node, Process, agent
from seekpoint.adapters.pydantic_ai import SeekpointConversationStore, SeekpointDurability, durable
from seekpoint.errors import EffectUnknown

JOURNAL = [*sys.argv, ""][1]
TURNS = int(sys.argv[3]) if __name__ == "__main__" else 0
PROCESS = "case-1"
note = Ledger().note


def turn_of(outputs: int) -> int:
    """Return the turn in which the model has seen so many tool outputs."""
    return next(turn for turn in range(TURNS + 1) if 2 * turn + turn // 3 == outputs)


def script(number: int) -> Any:
    """What the model says when it has seen so many tool outputs."""
    turn = turn_of(number)
    if turn == TURNS:
        return said("done")
    calls = [called("look", f"look-{turn}-{side}", what=f"{turn}{side}") for side in "ab"]
    return [*calls, called("pay", f"pay-{turn}", turn=turn)] if turn % 3 == 2 else calls


async def look(what: str) -> str:
    """Look something up."""
    note(f"look-{what}")
    await asyncio.sleep(0.002)
    return f"seen {what}"


async def pay(turn: int) -> str:
    """Pay."""
    note(f"pay-{turn}")
    await asyncio.sleep(0.002)
    return f"paid {turn}"


buyer = Agent(
    scripted("buyer", script, lambda number: note(f"model-{turn_of(number)}")), name="buyer", tools=[look, pay],
    capabilities=[SeekpointDurability(effects={"pay": Effect.AT_MOST_ONCE})],
)  # fmt: skip


@agent("buyer")
async def buy(process: Process, wish: str) -> str:
    """Run the agent, and save the conversation."""
    store = SeekpointConversationStore(process.node)  # type: ignore[arg-type]  # it is a whole node
    with durable(process, buyer):
        conversation = await store.load("buyer") or Conversation(conversation_id="buyer")
        async with buyer.run_stream(
            wish, conversation=conversation, usage_limits=UsageLimits(request_limit=None)
        ) as result:
            output = await result.get_output()
        conversation.messages = result.all_messages()
        await store.save(conversation)
    return output.strip()


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
