"""A member of the reactors' group that kills itself once at a chosen point between noticing something and acting on it.

``python reactor_program.py FOLDER``: a file ``PROCESS_ID=POINT`` in the folder asks for the kill, as for the workers.
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

from seekpoint.console.services.daemons.sweeping import SweepingService
from seekpoint.consumers import Reaction, reactor
from seekpoint.producers import Client
from seekpoint.producers.sweep import Sweep
from seekpoint.schemas import Settings
from waiting_agents import tell, timer
from waiting_worker import die_at

__all__: list[str] = []

_client = Client.connect()
_SWEEP_S = _MARGIN_S = 1.0


@reactor("go-on", kinds=["finished"], where='process_id.startsWith("source-") && !process_id.endsWith(".next")')
async def go_on(reaction: Reaction) -> None:
    """Start a run after each source: under the same id at each call for the entry."""
    die_at("heard", reaction.process_id)
    tell("reacted", reaction.process_id)
    await _client.submit(timer, f"{reaction.process_id}.next", 0.05)
    die_at("reacted", reaction.process_id)


def install() -> None:
    """Put the points into the sweep's own calls."""
    send: Any = Sweep._send

    async def sends(self: Sweep, submission: Any) -> None:
        die_at("sweeps", submission.process_id)
        tell("swept", submission.process_id)
        await send(self, submission)
        die_at("swept", submission.process_id)

    changed: Any = Sweep
    changed._send = sends


async def main() -> None:
    """React and sweep until SIGTERM."""
    install()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    settings = Settings.load()
    async with _client, SweepingService([go_on], settings, sweep_s=_SWEEP_S, margin_s=_MARGIN_S) as service:
        tell("joined", str(os.getpid()))
        await service.run(stop)


if __name__ == "__main__":
    asyncio.run(main())
