"""Attach 8 MiB to a process, and be killed with -9 when some of the parts are in the log.

python attaching_program.py: the journal is that of the environment.
"""

from __future__ import annotations

import asyncio
import os
import signal
from random import Random
from typing import Any

from seekpoint import Node
from seekpoint.producers.log_session import LogSession
from seekpoint.schemas import bodies

append = LogSession.append


async def die_after(session: LogSession, body: Any) -> Any:
    """Append as ever, and die behind the first parts of an attachment."""
    done = await append(session, body)
    if isinstance(body, bodies.PartAttached):
        os.kill(os.getpid(), signal.SIGKILL)
    return done


async def main() -> None:
    """Attach."""
    setattr(LogSession, "append", die_after)  # noqa: B010  # a type checker refuses the assignment
    async with Node.connect() as node, node.open("case-17") as process:
        await process.attach(Random(1).randbytes(8 * 1_048_576))


if __name__ == "__main__":
    asyncio.run(main())
