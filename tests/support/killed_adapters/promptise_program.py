"""An ``AgentProcess`` that is killed with -9 again and again: ``promptise_program.py JOURNAL LEDGER RUNS KILLS SEED``.

The program forks a child, which recovers the process, and has it handle the events whose results are not in the journal
yet, one after the other. At a random moment it kills the child and forks the next one. A call of the model or of the
tool writes a line into the ledger before it does anything: the child, the call, and the seconds since the child began.
So does a run whose checkpoint has been acknowledged (``acked``), and whatever is wrong.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from functools import cache
from pathlib import Path

from promptise.runtime.journal import ReplayEngine

from promptise_process import NAME, JournaledAgent
from seekpoint import Node
from seekpoint.adapters.promptise import SeekpointJournal, use_journal

JOURNAL, LEDGER = [*sys.argv, "", ""][1:3]
RUNS, KILLS, SEED = map(int, sys.argv[3:6]) if __name__ == "__main__" else (0, 0, 0)
CALLS = 3
"""How many calls a run makes: the model, the tool, the model."""
_LIMIT_S = 60.0
BEGAN = [0.0]


@cache
def ledger() -> int:
    """Open the ledger at its first line."""
    return os.open(LEDGER, os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def note(call: str) -> None:
    """Write a line that outlives this child."""
    os.write(ledger(), f"{os.getpid()} {call} {time.monotonic() - BEGAN[0]:.4f}\n".encode())


async def work() -> None:
    """Recover, and handle the events that are left."""
    node = Node.connect() if JOURNAL == "kafka" else Node.local(JOURNAL)
    async with node:
        journal, agent = SeekpointJournal(node), JournaledAgent(note)
        use_journal(agent.process, journal)
        before = await journal.recover(NAME)
        await agent.process.start()
        context = agent.process.context.get("done") or []
        results = await journal.read(NAME, entry_type="invocation_result")
        over = {int(one.data["event_id"].removeprefix("order-")) for one in results}
        if not over <= set(context):
            note(f"wrong-lost-{sorted(over - set(context))}")
        if before["context_state"].get("done", []) != context:
            note("wrong-recovered")
        for number in range(RUNS):
            if number not in over:
                await agent.run(number)
                note(f"acked-{number}")
        await agent.process.stop()
        if await ReplayEngine(journal).recover(NAME) != await journal.recover(NAME):
            note("wrong-replayed")


def child() -> int:
    """Return the pid of a new child."""
    if (pid := os.fork()) == 0:
        BEGAN[0] = time.monotonic()
        asyncio.run(work())
        os._exit(0)
    return pid


def lines() -> int:
    """How many lines the ledger has."""
    path = Path(LEDGER)
    return path.read_bytes().count(b"\n") if path.exists() else 0


def main() -> None:
    """Kill children, and let the last one end."""
    chance = random.Random(SEED)
    for _ in range(KILLS):
        pid, wanted = child(), lines() + chance.randint(1, max(1, RUNS * CALLS // (KILLS + 1)))
        deadline = time.monotonic() + _LIMIT_S
        while lines() < wanted and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(chance.uniform(0.0, 0.02))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    _, status = os.waitpid(child(), 0)
    sys.exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
