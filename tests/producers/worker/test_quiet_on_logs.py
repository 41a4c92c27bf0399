"""A sample of the quiet table with real workers, on a SQLite file and on Kafka."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest

from quiet_log import until_quiet
from quiet_rows import Row, actor, check_agreement, helper
from seekpoint.producers import Client, Worker
from seekpoint.schemas import Settings
from seekpoint.schemas.errors import SeekpointError

ENDS = {
    Row("inbox", "cancel", "return", 1): "stopped",
    Row("gate", "cancel+cancel", "return", 2): "stopped",
    Row("failed", "cancel+cancel", "return", 1): "stopped",
    Row("gate", "approve", "cancelled task", 2): "failed",
    Row("gate", "stray", "return", 2): "awaiting",
    Row("child", "cancel", "return", 1): "stopped",
    Row("stuck", "cancel", "return", 1): "failed",
}


async def play(settings: Settings) -> None:
    """Play the rows at once, with two workers of different groups; each becomes quiet at its end."""
    async with AsyncExitStack() as stack, Client.connect(settings) as client:

        async def request(number: int, row: Row) -> None:
            name = f"p-{number}"
            if row.stage == "inbox":
                await client.submit("actor", name, f"{row.stage}/{row.end}")
                await client.cancel(name)
                return
            await client.submit("actor", name, f"{row.stage}/{row.end}")
            wanted = "failed" if row.stage == "failed" else "awaiting"
            async with asyncio.timeout(60):
                while (await client.status(name)).stage != wanted:  # noqa: ASYNC110  # no event for it
                    await asyncio.sleep(0.05)
            for verb in row.request.split("+"):
                with suppress(SeekpointError):
                    if verb == "cancel":
                        await client.cancel(name)
                    elif verb == "approve":
                        await client.approve(name, "go")
                    else:
                        await client.signal(name, "nobody's")

        inbox = next(number for number, row in enumerate(ENDS) if row.stage == "inbox")
        await request(inbox, [*ENDS][inbox])
        for group in ("workers", "others"):
            worker = Worker([actor, helper], settings, grace_s=0.2, group=group)
            await stack.enter_async_context(worker)
        await asyncio.gather(*(request(number, row) for number, row in enumerate(ENDS) if number != inbox))
        assert await until_quiet(client) == []
        stages = {row: await check_agreement(client, f"p-{number}") for number, row in enumerate(ENDS)}
        assert stages == ENDS


async def test_a_file_becomes_quiet(tmp_path: Path) -> None:
    """Whatever was asked for in which stage."""
    await play(Settings(journal_url=f"sqlite:///{tmp_path}/runs.db", owner_timeout_s=2.0, heartbeat_interval_s=0.3))


@pytest.mark.cluster
async def test_a_journal_in_kafka_becomes_quiet(journal: Settings) -> None:
    """Whatever was asked for in which stage."""
    await play(journal)
