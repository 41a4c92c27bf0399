"""Mail that an agent's code receives, on a real Kafka: an owner that is killed loses none and takes none twice."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from seekpoint.producers import Node, Process, agent
from seekpoint.schemas import Settings
from seekpoint.schemas import bodies as b

pytestmark = pytest.mark.cluster

COUNT = 4


@agent("mailman")
async def mailman(process: Process, input: str) -> list[int]:
    """Receives so many; before each it says to the file ``input`` what it has so far."""
    seen: list[int] = []
    for _ in range(COUNT):
        note(Path(input), len(seen))
        seen.append((await process.receive("go")).payload)
    return seen


def note(at: Path, received: int) -> None:
    """Say how far it came."""
    at.write_text(str(received))


def has_received(at: Path) -> int | None:
    """How far it says that it came; None before it said anything."""
    return int(at.read_text() or 0) if at.exists() else None


_CHILD = """
import asyncio, sys
sys.path[:0] = sys.argv[5:]
from test_receipts_on_kafka import mailman
from seekpoint.producers import Node
from seekpoint.schemas import Settings

async def main():
    servers, journal, partitions, given = sys.argv[1:5]
    settings = Settings(bootstrap_servers=servers, journal=journal, partitions=int(partitions), node_id="killed")
    async with Node.connect(settings) as node:
        await node.run(mailman, "p", given, take_over=True)

asyncio.run(main())
"""


async def killed_at(settings: Settings, received: int, at: Path) -> None:
    """Run it in another program, and kill that once it has received so many and waits for the next."""
    servers, partitions = settings.bootstrap_servers, str(settings.partitions)
    arguments = [servers, settings.journal, partitions, str(at), str(Path(__file__).parent)]
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", _CHILD, *arguments)
    async with asyncio.timeout(60):
        while has_received(at) != received:
            assert child.returncode is None
            await asyncio.sleep(0.02)
    os.kill(child.pid, signal.SIGKILL)
    await child.wait()


async def test_an_owner_that_is_killed_loses_no_mail_and_takes_none_twice(journal: Settings, tmp_path: Path) -> None:
    """Twice, at another place each: behind its first, and at the start of a resume that was answered for three."""
    at = tmp_path / "seen"
    async with Node.connect(replace(journal, node_id="sender")) as node:
        sent = [await node.signal("p", "go", 0)]
        await killed_at(journal, 1, at)
        sent += [await node.signal("p", "go", number) for number in (1, 2)]
        at.unlink()
        await killed_at(journal, 3, at)
        sent.append(await node.signal("p", "go", 3))
        assert await node.run(mailman, "p", str(at), take_over=True) == [0, 1, 2, 3]
        taken = [one.entry.body async for one in node.entries("p", kinds=[b.Received.KIND])]
    assert [(body.key, body.external_id) for body in taken if isinstance(body, b.Received)] == [
        (f"receive:{number}", external_id) for number, external_id in enumerate(sent, 1)
    ]
