"""Server-sent events. Viewers of the same thing share one computation, and one text is sent to all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Hashable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seekpoint.console.web.data.poller import Poller

_KEEP_ALIVE_S = 15.0
_KEPT_MAX = 100
"""How many texts are kept, of different keys."""


def event_text(name: str, data: bytes | str, identity: str | None = None) -> bytes:
    """Return a server-sent event. ``data`` is one line.

    >>> event_text("rows", "{}", "7")
    b'event: rows\\nid: 7\\ndata: {}\\n\\n'
    """
    text = data if isinstance(data, bytes) else data.encode()
    number = b"" if identity is None else b"id: " + identity.encode() + b"\n"
    return b"event: " + name.encode() + b"\n" + number + b"data: " + text + b"\n\n"


class Streams:
    """The open streams of all viewers of what one poller reads."""

    def __init__(self, poller: Poller) -> None:
        self._poller = poller
        self._changed = asyncio.Condition()
        self._closed = False
        self._version = 0
        self._made: dict[Hashable, tuple[int, bytes]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.computed = 0
        """How many texts were made for streams."""
        poller.on_change(self._notify)

    def close(self) -> None:
        """End all streams, so that a server that stops need not wait for viewers."""
        self._closed = True
        self._notify()

    async def events(self, name: str, key: Hashable, make: Callable[[], bytes]) -> AsyncGenerator[bytes, None]:
        """Yield an event with what ``make`` returns, now and after each change; comments keep the connection open.

        Streams with an equal ``key`` share what one of them made.
        """
        seen = b""
        self._poller.watch()
        try:
            yield b"retry: 1000\n\n"
            while not self._closed:
                version = self._version
                text = self._text(key, make)
                yield b": still here\n\n" if text == seen else event_text(name, text)
                seen = text
                await self._wait(version)
        finally:
            self._poller.unwatch()

    def _text(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        kept = self._made.get(key)
        if kept is None or kept[0] != self._version:
            if kept is None and len(self._made) > _KEPT_MAX:
                self._made.clear()
            self.computed += 1
            kept = self._made[key] = self._version, make()
        return kept[1]

    async def _wait(self, version: int) -> None:
        try:
            async with asyncio.timeout(_KEEP_ALIVE_S), self._changed:
                await self._changed.wait_for(lambda: self._version != version or self._closed)
        except TimeoutError:
            pass

    def _notify(self) -> None:
        self._version += 1
        task = asyncio.get_running_loop().create_task(self._wake())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()
