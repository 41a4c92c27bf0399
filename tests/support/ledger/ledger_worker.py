"""A worker for the ledger's agent: ``python ledger_worker.py PORT``; settings come from the environment."""

from __future__ import annotations

import asyncio
import os
import signal

from ledger_agent import run
from seekpoint.producers import Worker
from seekpoint.schemas import Settings

__all__: list[str] = []


async def main() -> None:
    """Work until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    settings = Settings.load(node_id=f"life-{os.environ['AGENT_LIFE']}")
    await Worker([run], settings, runs_max=20, grace_s=0.3, drain_s=1.0).run(stop)


if __name__ == "__main__":
    asyncio.run(main())
