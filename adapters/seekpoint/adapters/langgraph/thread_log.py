"""One thread on this node: it writes what is asked for in as few entries as possible, and reads what was written.

    put, put_writes ──> queue ──> one entry: the change that they make together ──> applied: all of them return

While one entry is under way, the calls that arrive wait for the next one. Each entry is written only if the process has
not grown since the content that the change was made by; else the change is made again by the newer content.
"""

from __future__ import annotations

import asyncio
from binascii import a2b_base64, b2a_base64
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import TypeVar

from seekpoint import Appended, Node, SharedProcess, State
from seekpoint.adapters.langgraph.history_catch_up import extended
from seekpoint.adapters.langgraph.large_values import (
    ATTACHED_WIDTH,
    ENTRY_WIDTH_MAX,
    digests_of,
    is_attached,
    outlived,
    ref_of,
    unknown_to,
    width_of,
    with_attachments,
)
from seekpoint.adapters.langgraph.stored_parts import Forget, Op, Put, StoredValue, StoredWrite
from seekpoint.adapters.langgraph.thread_content import ContextChange, ThreadContent, fits_one_entry
from seekpoint.adapters.langgraph.thread_history import ThreadHistory
from seekpoint.adapters.write_queue import Asked, WriteQueue
from seekpoint.errors import AppendConflict

_TICKS = 3
"""How many turns of the event loop an entry waits for more calls: a superstep's writes and its checkpoint come so."""


_Part = TypeVar("_Part", StoredValue, StoredWrite)


class OutdatedError(Exception):
    """The removal was chosen by an older history than the thread has now: choose again."""


async def _next_batch(queue: deque[Asked[Op]]) -> list[Asked[Op]]:
    for _ in range(_TICKS):
        await asyncio.sleep(0)
        if len(queue) > 1 and isinstance(queue[-1].item, Put):
            break  # the checkpoint of a superstep comes after its writes
    batch = [queue.popleft()]
    width = width_of(batch[0].item)
    while queue and fits_one_entry([asked.item for asked in batch], queue[0].item):
        width += width_of(queue[0].item)
        if width > ENTRY_WIDTH_MAX:
            break
        batch.append(queue.popleft())
    return batch


class ThreadLog:
    """The process of one thread."""

    def __init__(self, node: Node, process_id: str, thread_id: str) -> None:
        self.process_id = process_id
        self._node = node
        self._thread_id = thread_id
        self._process: SharedProcess | None = None
        self._content: ThreadContent | None = None
        """The newest content that this node knows; None if it has to be read."""
        self._history: ThreadHistory | None = None
        self._reading = asyncio.Lock()
        self._queue = WriteQueue(f"seekpoint-{process_id}", _next_batch, self._append, self._forget)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way."""
        return self._queue.is_idle and not self._reading.locked()

    @property
    def history_width(self) -> int:
        """About how many bytes of memory the history takes."""
        return 0 if self._history is None else self._history.width

    def drop_history(self) -> None:
        """Forget the history. It is read again when it is asked for."""
        self._history = None

    # --- reading
    async def content(self) -> ThreadContent:
        """Return the content as of now: with all that any node has written before this call."""
        if self._process is None:
            return self._taken((await self._opened()).state)
        return self._taken(await self._process.read())

    def _taken(self, state: State) -> ThreadContent:
        known = self._content
        if known is not None and known.seq >= state.seq:
            return known
        self._content = ThreadContent.of(state.seq, state.values_json, state.deleted_seq)
        return self._content

    async def history(self) -> tuple[ThreadContent, ThreadHistory]:
        """Return content and history as of now. Reads of the log only what this node has not read yet."""
        async with self._reading:
            history = self._history or ThreadHistory()
            content = await extended(history, self._node, self.process_id, self.content)
            self._history = history
            return content, history

    @property
    def kept_attachments(self) -> Mapping[str, object]:
        """The attachments of the process, by digest, as of the last read. What only old checkpoints have is dropped."""
        return {} if self._process is None else self._process.state.attachments

    async def bytes_of(self, kind: str, data: str) -> tuple[str, bytes]:
        """Return the serializer's type and its bytes of a stored value, which may be an attachment."""
        if not is_attached(kind):
            return kind, a2b_base64(data)
        process = await self._opened()
        return kind[1:], await process.read_attachment(ref_of(data, self.process_id))

    async def with_bytes(self, part: _Part) -> _Part:
        """Return a stored value with its bytes in it."""
        if not is_attached(part.type):
            return part
        kind, data = await self.bytes_of(part.type, part.data)
        return part._replace(type=kind, data=b2a_base64(data, newline=False).decode())

    async def _opened(self) -> SharedProcess:
        if self._process is None:
            self._process = await self._node.open(self.process_id, shared=True)
        return self._process

    # --- writing
    async def delete(self) -> None:
        """Delete all of the thread."""
        await self._node.delete(self.process_id)

    async def write(self, op: Op) -> None:
        """Have ``op`` written; return once it is applied. A ``Forget`` by an old history raises ``OutdatedError``."""
        await self._queue.put(op)

    def _forget(self) -> None:
        self._content = None

    async def _append(self, batch: list[Asked[Op]]) -> None:
        process = await self._opened()
        asked_ops = [asked.item for asked in batch]
        attached: set[str] = set()
        content, ops = self._content, asked_ops
        while True:
            if attached or any(width_of(op) >= ATTACHED_WIDTH for op in asked_ops):
                # Attached anew each time: another node may have dropped them, and nothing is written if it has not.
                ops = [await with_attachments(op, process) for op in asked_ops]
                attached, content = {digest for op in ops for digest in digests_of(op)}, None
            content = content or await self.content()
            for op in ops:
                if isinstance(op, Forget) and op.based_on != content.seq:
                    raise OutdatedError
            whole = [await self._completed(op, content) for op in ops]
            if whole != ops and sum(map(width_of, whole)) > ENTRY_WIDTH_MAX:  # what is taken over is attached too
                asked_ops = [await self._completed(op, content) for op in asked_ops]
                ops = asked_ops
                continue
            after, change = content.applied(whole, self._thread_id)
            lost = unknown_to(process, after)
            if lost is not None and lost.partition(":")[0] not in attached:
                if (state := await process.read()).seq > content.seq:  # the content was old, not the thread's loss
                    content = self._taken(state)
                    continue
                await process.read_attachment(ref_of(lost, self.process_id))  # raises, unless the state was old
            elif lost is not None:
                continue
            try:
                done = await self._written(change, content.seq)
            except AppendConflict as exc:
                content = self._taken(exc.state)
                continue
            after.seq = done.seq
            if self._content is None or self._content.seq < after.seq:
                self._content = after
            if self._history is not None and self._history.seq == content.seq:
                self._history.apply(done.seq, change.values)
            if attached and (refs := outlived(process.state, after, self.process_id)):
                with suppress(AppendConflict):  # another node has written: the next large value tries again
                    await process.detach(*refs, expected_seq=done.seq)
                self._content = None
            return

    async def _completed(self, op: Op, content: ThreadContent) -> Op:
        """Add the values that a checkpoint takes over from an older one, so that the context has all of them again."""
        if not isinstance(op, Put) or not (missing := content.missing(op)):
            return op
        _, history = await self.history()
        found: dict[str, StoredValue] = dict(op.channels)
        for channel in missing:
            value = history.value(op.ns, channel, op.versions[channel])
            if value is not None:
                found[channel] = value
        return Put(ns=op.ns, checkpoint=op.checkpoint, versions=op.versions, channels=found)

    async def _written(self, change: ContextChange, seq: int) -> Appended:
        """Append one entry that makes ``change``."""
        process = self._process
        assert process is not None
        return await process.change(set=change.values, delete=change.deleted, expected_seq=seq)
