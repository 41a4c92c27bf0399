"""Hand out the chunks of a decision while its stream is read, and those of the record in later runs.

The decision is made in a task of its own, which reads the stream, records it, and ends. The code that asked reads the
chunks from a queue. It gets the end of the stream once that task has ended, so the whole stream is recorded by then. Of
a stream that breaks off, the record has the chunks that the code got. Chunks beyond half an entry come once the stream
is recorded. While branches run (``process.gather``), nothing but recorded answers may decide their order: there the
first chunk comes once the whole stream is recorded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any, Self

_NO_MORE = object()
_running = set[asyncio.Task[Any]]()
"""An event loop has only weak references to its tasks: one whose stream nobody reads any more records it all the same.
"""


class LiveChunks:
    """The chunks of one stream that came and were not read yet."""

    def __init__(self) -> None:
        self.recorded: Callable[[], Coroutine[Any, Any, Any]] | None = None
        """Returns the chunks of the record, if the decision has one."""
        self.is_begun = False
        """Whether a chunk came."""
        self.is_held = False
        """Whether chunks wait for the end of the stream: one cannot be recorded, or a failure has no room for more."""
        self.is_closed = False
        """Whether the code wants no more chunks."""
        self.is_cut = False
        """Whether the call was stopped before its stream ended."""
        self._queue = asyncio.Queue[Any]()

    def put(self, chunk: Any) -> None:
        """Add a chunk."""
        self.is_begun = True
        self._queue.put_nowait(chunk)

    def end(self, task: asyncio.Task[Any]) -> None:
        """Add the end; ``task`` has made the decision."""
        if not task.cancelled():
            task.exception()  # whoever reads the stream to its end gets it; nobody else asks
        self._queue.put_nowait(_NO_MORE)

    async def get(self) -> Any:
        """Return the next chunk, or ``_NO_MORE``."""
        return await self._queue.get()


class DecisionStream:
    """An asynchronous iterator of the chunks of one decision. It ends once the decision is recorded."""

    def __init__(
        self, live: LiveChunks, decision: Coroutine[Any, Any, Any], is_in_branches: Callable[[], bool]
    ) -> None:
        self._live = live
        self._decision = decision
        self._is_in_branches = is_in_branches
        self._whole: Iterator[Any] | None = None
        self._task: asyncio.Task[Any] | None = None
        self._is_over = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        """Return the next chunk. Raises what ``decide`` raises."""
        if self._is_over:
            raise StopAsyncIteration
        if self._whole is None and self._task is None and self._is_in_branches():
            self._whole = iter(await self._decision)
        if self._whole is not None:
            for chunk in self._whole:
                return chunk
            raise StopAsyncIteration
        task = self._task or await self._start()
        try:
            chunk = await self._live.get()
            if chunk is not _NO_MORE:
                return chunk
            self._is_over = True
            await task
        except asyncio.CancelledError:
            await self._cancel(task)
            raise
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Stop the call at its next chunk; return once what came until then is recorded."""
        if self._is_over:
            return
        self._is_over = self._live.is_closed = True
        if self._task is None:
            self._decision.close()  # not begun, or over
            return
        try:
            with suppress(Exception):  # the next call of the process raises what concerns the process
                await asyncio.shield(self._task)
        except asyncio.CancelledError:
            await self._cancel(self._task)
            raise

    async def _start(self) -> asyncio.Task[Any]:
        """Begin to make the decision; of a recorded one, all chunks are here at once, and its end in its order."""
        if self._live.recorded is not None:
            for chunk in await self._live.recorded():
                self._live.put(chunk)
        self._task = asyncio.ensure_future(self._decision)
        _running.add(self._task)
        self._task.add_done_callback(_running.discard)
        self._task.add_done_callback(self._live.end)
        return self._task

    async def _cancel(self, task: asyncio.Task[Any]) -> None:
        self._is_over = True
        task.cancel()
        await asyncio.wait([task])

    def __del__(self) -> None:
        """Stop the call of a stream that nobody reads any more."""
        if self._task is None:
            self._decision.close()
        elif not self._is_over:
            self._live.is_closed = True
