"""Reading what a thread's history lacks: the entries that were applied since it was read last."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import orjson

from seekpoint import Node
from seekpoint.adapters.langgraph.thread_content import ThreadContent
from seekpoint.adapters.langgraph.thread_history import ThreadHistory
from seekpoint.errors import JournalGap
from seekpoint.schemas.bodies import ContentBatch, Deleted


async def extended(
    history: ThreadHistory, node: Node, process_id: str, read: Callable[[], Awaitable[ThreadContent]]
) -> ThreadContent:
    """Bring ``history`` to the thread's content as of now, which ``read`` returns; return that content.

    Only entries are read that this node has not read yet, unless the log was trimmed meanwhile.
    """
    while True:
        content = await read()
        if content.deleted_seq > history.seq:
            history.clear(content.deleted_seq)
        if history.seq >= content.seq:
            return content
        try:
            await _read_new(history, node, process_id, content.seq)
        except JournalGap:
            await _read_what_is_left(history, node, process_id, content)
        found = history.unapplied
        if found and found[0][0] > history.seq + 1 and found[-1][0] > content.seq:
            continue  # the thread may have been deleted since its content was read: then these belong to a new one
        while found and found[0][0] <= content.seq:
            _apply(history, *found.popleft())
        history.seq = max(history.seq, content.seq)
        return content


async def _read_new(history: ThreadHistory, node: Node, process_id: str, seq: int) -> None:
    """Read what was applied since the last read, if that does not reach ``seq``."""
    while history.unapplied and history.unapplied[0][0] <= history.seq:
        history.unapplied.popleft()
    if history.unapplied and history.unapplied[-1][0] >= seq:
        return
    found, read_to = [], history.read_to
    async for record in node.records(process_id, after_offset=read_to, through_forks=False):
        read_to = record.offset
        if record.seq is not None and record.seq > history.seq:
            found.append((record.seq, record.body))
    history.read_to = read_to
    history.unapplied.extend(found)


async def _read_what_is_left(history: ThreadHistory, node: Node, process_id: str, content: ThreadContent) -> None:
    """Read a trimmed log anew. The newest checkpoints, whose entries may be gone, come from the content."""
    history.clear(0)
    newest: dict[int, tuple[int, Any]] = {}
    async for logged in node.entries(process_id):
        entry = logged.entry
        if entry.seq is None or entry.seq > content.seq:
            continue
        if entry.epoch > newest.get(entry.seq, (-1, None))[0]:  # of one seq, the newest owner's is applied
            newest[entry.seq] = entry.epoch, entry.body
    bodies = [(seq, newest[seq][1]) for seq in sorted(newest)]
    for seq, body in bodies:
        _apply(history, seq, body)
    if not any(isinstance(body, Deleted) for _, body in bodies):
        history.complete(content)


def _apply(history: ThreadHistory, seq: int, body: Any) -> None:
    if isinstance(body, Deleted):
        history.clear(seq)
    elif isinstance(body, ContentBatch):
        history.apply(seq, {key: orjson.loads(text) for key, text in body.values.items()})
