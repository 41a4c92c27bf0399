"""A console that serves in a thread, and journals in a file for it to show."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.web.console_options import ConsoleOptions
from seekpoint.console.web.route_declarations import Operation
from seekpoint.console.web.routes import OPERATIONS
from seekpoint.console.web.web_server import run_console
from seekpoint.producers import Node
from seekpoint.schemas.config.settings import Settings

__all__ = ["Served", "file_settings", "serving", "work_on"]


class Served:
    """A running console."""

    def __init__(self, url: str) -> None:
        self.url = url

    def client(self, **options: Any) -> httpx.Client:
        """Return a client that does not follow redirects."""
        return httpx.Client(base_url=self.url, timeout=30.0, **options)


@contextmanager
def serving(
    target: CommandTarget,
    options: ConsoleOptions | None = None,
    operations: Sequence[Operation] = OPERATIONS,
    local_user: str = "ann",
) -> Iterator[Served]:
    """Serve until the block ends."""
    addresses: list[str] = []
    servers: list[Any] = []
    failures: list[BaseException] = []
    is_ready = threading.Event()

    def greet(address: str) -> None:
        addresses.append(address)
        is_ready.set()

    def run() -> None:
        try:
            run_console(
                target, options or ConsoleOptions(port=0), local_user, greet, servers.append, operations=operations
            )
        except BaseException as error:
            failures.append(error)
            is_ready.set()

    thread = threading.Thread(target=run, name="console under test")
    thread.start()
    try:
        assert is_ready.wait(30)
        if failures:
            raise failures[0]
        yield Served(addresses[0].rstrip("/"))
    finally:
        for server in servers:
            server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()


def file_settings(folder: Path, **given: Any) -> Settings:
    """Return settings of a journal in a file of the folder."""
    return Settings(journal_url=f"sqlite:///{folder / 'journal.db'}", **given)


def work_on(settings: Settings, work: Callable[[Node], Awaitable[Any]]) -> Any:
    """Do ``work`` with a node on the journal."""

    async def run() -> Any:
        async with Node.connect(settings) as node:
            return await work(node)

    return asyncio.run(run())
