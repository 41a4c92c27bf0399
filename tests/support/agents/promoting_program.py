"""A run, its fork, and a promotion as a real program, which goes on wherever it was killed. Bodies write a ledger.

Run: ``promoting_program.py LEDGER [BODY before|after]``; settings come from the environment. With a body, the program
kills itself around its first entry with this body: before it is sent, or once it is acknowledged. It prints the result.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from seekpoint.producers import Effect, Node, Process, agent
from seekpoint.producers.log_session import LogSession
from seekpoint.schemas import Settings


def tell(what: str) -> str:
    with Path(sys.argv[1]).open("a") as file:
        file.write(what + "\n")
    return what


@agent("triage")
async def triage(process: Process, order: int) -> Any:
    """Reserve, ask; pay and fail, or reject."""
    await process.step("look", tell, "looked")
    await process.effect("reserve", tell, "reserved", semantics=Effect.AT_MOST_ONCE)
    choice = await process.decide("choose", lambda request: tell("pay"), {"order": order})
    await process.update("choice", choice)
    if choice == "pay":
        await process.effect("pay", tell, "paid", semantics=Effect.AT_MOST_ONCE)
        raise ValueError("the bank is closed")
    await process.effect("write", tell, "wrote", semantics=Effect.AT_MOST_ONCE)
    return await process.step("reject", tell, "rejected")


async def story(node: Node) -> Any:
    """Run "p", which fails; fork it with another answer; run the fork; promote it; run "p" to its end."""
    if not (await node.recover("p", missing_ok=True)).known:
        with suppress(ValueError):
            await node.run(triage, "p", 4711)
    fork = (await node.recover("q", missing_ok=True)).state
    if fork.seq == 0:
        async with node.fork("p", "q", answers={"choose:1": "reject"}, effects="live"):
            pass
    if not fork.finished:
        await node.run(triage, "q")
    if (await node.recover("p")).state.context["choice"] == "pay":
        await node.promote("q", prefer="fork", reason="no receipt", actor="ann")
    return await node.run(triage, "p")


def arm(kind: str, when: str) -> None:
    """Make the program kill itself around its first entry with a body of this kind."""
    append = LogSession.append

    async def dies(self: LogSession, body: Any) -> Any:
        if type(body).__name__ == kind and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        acknowledged = await append(self, body)
        if type(body).__name__ == kind:
            os.kill(os.getpid(), signal.SIGKILL)
        return acknowledged

    LogSession.append = dies  # type: ignore[method-assign]


async def main() -> None:
    async with Node.connect(Settings.load()) as node:
        print(await story(node))


if __name__ == "__main__":
    if len(sys.argv) > 2:
        arm(sys.argv[2], sys.argv[3])
    asyncio.run(main())
