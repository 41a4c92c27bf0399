"""A console whose view is lost while somebody looks, on a real Kafka and Valkey."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing

import pytest

from consoles import serving
from kafka_checkpoints import project
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.services.facts.redis_facts import forget_everything
from seekpoint.producers import Node
from seekpoint.schemas.config.settings import Settings

pytestmark = pytest.mark.cluster


class Target(CommandTarget):
    """The journal of some settings."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(None, None, None)
        self.__dict__["settings"] = settings


async def _update(settings: Settings, process_id: str) -> None:
    async with Node.connect(settings) as node, node.open(process_id) as process:
        await process.update("x", 1)


def test_a_console_goes_on_from_the_log(journal: Settings) -> None:
    """It says so and why, and what goes on afterwards shows."""
    asyncio.run(_update(journal, "a"))
    project(journal)
    with closing(Target(journal)) as target, serving(target) as served, served.client() as client:

        def until_read_from(source: str, ids: set[str]) -> str | None:
            deadline = time.monotonic() + 60
            while True:
                found = client.get("/api/processes").json()
                listed = {one["process_id"] for one in found["processes"]}
                if (found["source"]["name"], listed) == (source, ids):
                    why: str | None = found["source"]["why"]
                    return why
                assert time.monotonic() < deadline, found

        assert until_read_from("view", {"a"}) is None
        forget_everything(journal, all_of_it=False)
        asyncio.run(_update(journal, "b"))
        assert until_read_from("log", {"a", "b"})
        asyncio.run(_update(journal, "b"))
        assert until_read_from("log", {"a", "b"})
        project(journal)
        assert until_read_from("view", {"a", "b"}) is None
