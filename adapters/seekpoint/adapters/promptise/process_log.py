"""The journal of one Promptise process on this node.

    append, checkpoint ──> queue ──> one entry of the process for all that wait ──> applied: the calls return

Each entry is written only if the process has not grown since the content that its change was made by; else the change
is made again by the newer content. So entries of several nodes lose nothing, and an entry that is known is not written
again.
"""

from __future__ import annotations

import json
from collections import deque
from contextlib import suppress
from typing import Any

from seekpoint import Node, Ref, SharedProcess, State, Tier
from seekpoint.adapters.promptise.stored_entries import JournalContent, NewEntry, RecoveredFacts
from seekpoint.adapters.write_queue import Asked, WriteQueue
from seekpoint.errors import AppendConflict, LimitExceeded, UnserializableValue

_TOGETHER_MAX, _TOGETHER_WIDTH = 50, 262_144
"""How many entries are written together, and how many characters they may have."""
_LARGE_WIDTH = 4_096
"""The number of characters from which a value is attached, if its entry would be too large otherwise."""
_KEPT_BYTES_MAX, _KEPT_MAX = 134_217_728, 512
"""How many bytes, and how many large values, stay attached."""
_MEDIA_TYPE = "application/json"


async def _next_batch(queue: deque[Asked[NewEntry]]) -> list[Asked[NewEntry]]:
    batch = [queue.popleft()]
    width = batch[0].item.width
    while queue and len(batch) < _TOGETHER_MAX:
        width += queue[0].item.width
        if width > _TOGETHER_WIDTH:
            break
        batch.append(queue.popleft())
    return batch


class ProcessLog:
    """The journal of one process. It belongs to the event loop of the node."""

    def __init__(self, node: Node, process_id: str, actor: str | None) -> None:
        self.process_id = process_id
        self._node = node
        self._actor = actor
        self._process: SharedProcess | None = None
        self._content: JournalContent | None = None
        """The newest content that this node knows; None if it has to be looked up."""
        self._queue = WriteQueue(f"seekpoint-{process_id}", _next_batch, self._write, self._forget)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way."""
        return self._queue.is_idle

    # --- reading
    async def state(self, tier: Tier | None = None) -> State:
        """Return the state as of now: with all that any node has written before this call."""
        return (await self._node.recover(self.process_id, tier=tier, missing_ok=True)).state

    async def recovered(self, tier: Tier | None = None) -> RecoveredFacts:
        """Return what a recovery needs, attached values included."""
        found = RecoveredFacts.of(await self.state(tier))
        if not found.refs():
            return found
        updates = {key: await self.value_of(value) for key, value in found.updates.items()}
        return found._replace(checkpoint=await self.value_of(found.checkpoint), updates=updates)

    async def value_of(self, value: Any) -> Any:
        """Return a value, or what is attached for it."""
        if not isinstance(value, Ref):
            return value
        return json.loads(await self._node.read_attachment(value, process_id=self.process_id))

    # --- writing
    async def append(self, entry: NewEntry) -> None:
        """Have an entry written; return once it is applied. A caller that is cancelled leaves it to be written."""
        await self._queue.put(entry)

    async def _write(self, batch: list[Asked[NewEntry]]) -> None:
        try:
            await self._append([asked.item for asked in batch])
        except (LimitExceeded, UnserializableValue) as exc:  # nothing was written
            if len(batch) == 1:
                await self._append_attached(batch[0].item, exc)
                return
            for asked in batch:
                await self._write_alone(asked)

    async def _write_alone(self, asked: Asked[NewEntry]) -> None:
        """Write one entry of several that were refused together; its caller alone gets its error."""
        try:
            await self._write([asked])
        except Exception as exc:
            self._forget()
            asked.settle(exc)
        else:
            asked.settle()

    def _forget(self) -> None:
        self._content = None

    async def _append(self, entries: list[NewEntry]) -> None:
        process = await self._opened()
        content = self._content or JournalContent.of(process.state)
        while True:
            after, change = content.with_entries(entries)
            if change is None:
                return
            try:
                done = await process.change(set=change.values, delete=change.deleted, expected_seq=content.seq)
            except AppendConflict as conflict:
                content = JournalContent.of(conflict.state)
                continue
            after.seq = done.seq
            self._content = after
            return

    async def _opened(self) -> SharedProcess:
        if self._process is None:
            self._process = await self._node.open(self.process_id, shared=True, actor=self._actor)
        return self._process

    # --- what is too large for an entry or for the state
    async def _append_attached(self, entry: NewEntry, refused: Exception) -> None:
        large = _large_part(entry)
        if large is None or not isinstance(refused, LimitExceeded):
            raise refused
        process, data = await self._opened(), json.dumps(large, ensure_ascii=False).encode()
        while True:
            # Attached anew each time: another node may have dropped it, and nothing is written if it has not.
            ref = await process.attach(data, media_type=_MEDIA_TYPE, actor=self._actor)
            state = process.state
            after, change = JournalContent.of(state).with_entries([_with_ref(entry, ref)])
            if change is None:
                return
            if ref.digest not in state.attachments:
                continue
            try:
                done = await process.change(set=change.values, delete=change.deleted, expected_seq=state.seq)
            except AppendConflict:
                continue
            after.seq = done.seq
            self._content = after
            await self._drop_outlived(process)
            return

    async def _drop_outlived(self, process: SharedProcess) -> None:
        """Drop the oldest large values that a recovery does not need; the log keeps their bytes until a trim.

        Values in a blob store stay: their bytes are not in the log.
        """
        state = process.state
        size, count, refs = state.attached_bytes, len(state.attachments), list[Ref]()
        for digest, one in state.attachments.items():
            if size <= _KEPT_BYTES_MAX and count <= _KEPT_MAX:
                break
            if one.store or any(digest in text for text in state.values_json.values()):
                continue
            refs.append(Ref(digest, one.size, self.process_id, one.media_type))
            size, count = size - one.size, count - 1
        if refs:
            self._content = None
            with suppress(AppendConflict):  # another node has written: the next large value tries again
                await process.detach(*refs, expected_seq=state.seq)


def _large_part(entry: NewEntry) -> Any:
    """Return what is attached of an entry that is too large; None: there is nothing."""
    if entry.width < _LARGE_WIDTH or entry.type == "state_transition":
        return None
    name = entry.large_field
    if name is None or not isinstance(entry.data, dict) or name not in entry.data:
        return entry.data
    return entry.data[name]


def _with_ref(entry: NewEntry, ref: Ref) -> NewEntry:
    name = entry.large_field
    is_whole = name is None or not isinstance(entry.data, dict) or name not in entry.data
    return entry._replace(data=ref if is_whole else {**entry.data, name: ref})
