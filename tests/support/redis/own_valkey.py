"""A Valkey server of a test's own: it may be flushed, filled, paused and killed without anybody else noticing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import redis

from seekpoint.compose.cluster_ports import free_ports
from seekpoint.compose.server_processes import Launch, Valkey

__all__ = ["OwnValkey", "own_valkey"]


class OwnValkey:
    """The server, and a client to look at it behind the view's back."""

    def __init__(self, part: Valkey) -> None:
        self.part = part
        self.url = f"redis://{part.address}/0"
        self.client: Any = redis.Redis.from_url(self.url)


@contextmanager
def own_valkey(**settings: str) -> Iterator[OwnValkey]:
    """Run one; ``settings`` as in its configuration, with _ for -."""
    with TemporaryDirectory() as directory:
        port, bus = free_ports(2)
        given = {name.replace("_", "-"): value for name, value in settings.items()}
        options = {"cluster-port": str(bus), **given}  # its own choice, 10,000 above, may be taken
        launch = Launch(group=None, lock_fd=None, timeout_s=60, note=lambda name, pid: None)
        part = Valkey(Path(directory), port, launch, options)
        part.start()
        server = OwnValkey(part)
        try:
            yield server
        finally:
            server.client.close()
            part.kill()
