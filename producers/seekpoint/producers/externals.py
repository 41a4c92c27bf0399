"""External entries: what anybody may tell a process. They only fill its mailbox (rule O1)."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from typing import Any

from seekpoint.producers.outbox import Outbox
from seekpoint.schemas import bodies as b
from seekpoint.schemas.clock import now_us
from seekpoint.schemas.codec import encode
from seekpoint.schemas.entry import Entry, new_id, process_key
from seekpoint.schemas.errors import LimitExceeded, TryAgain, UndecodableRecord
from seekpoint.schemas.log import LogReader
from seekpoint.schemas.partition import partition_of
from seekpoint.schemas.values import dump

__all__ = ["Externals"]

_ATTEMPTS = 3


class Externals:
    """Sends signals and requests for one node."""

    def __init__(self, reader: LogReader, executor: Executor, outbox: Outbox) -> None:
        self._reader = reader
        self._executor = executor
        self._outbox = outbox

    async def signal(
        self, process_id: str, name: str, payload: Any, actor: str | None, signal_id: bytes | None
    ) -> bytes:
        """Append a signal; its id."""
        body = b.Signal(name, dump(payload, self._reader.limits))
        return await self.send(process_id, body, actor, signal_id)

    async def cancel(self, process_id: str, reason: str | None, actor: str | None) -> bytes:
        """Append a request to stop; its id."""
        return await self.send(process_id, b.CancelRequested(reason), actor)

    async def send(
        self, process_id: str, body: b.Body, actor: str | None = None, entry_id: bytes | None = None
    ) -> bytes:
        """Append any external entry, once however often Kafka has to be asked; its id."""
        key = process_key(process_id)
        entry = Entry(entry_id or new_id(), process_id, None, 0, None, None, now_us(), actor, None, None, body)
        value = encode(entry)
        if len(value) + len(key) > self._reader.limits.record_bytes:
            raise LimitExceeded(
                "the entry is larger than the journal's record limit", process_id=process_id, bytes=len(value)
            )
        partition = partition_of(key, self._reader.partitions)
        began = (await self._run(self._reader.watermarks, partition)).high
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                await self._outbox.push_external(partition, key, value)
                break
            except TryAgain:
                # In doubt: whoever retries first reads from where it began, so that one signal is one entry.
                if await self._run(self._landed, partition, key, began, entry.id):
                    break
                if attempt == _ATTEMPTS:
                    raise
        return entry.id

    def _landed(self, partition: int, key: bytes, began: int, entry_id: bytes) -> bool:
        high = self._reader.watermarks(partition).high
        for batch in self._reader.read(partition, began, high, {key}):
            for record in batch.records:
                try:
                    if self._reader.codec.decode(record.value).id == entry_id:
                        return True
                except UndecodableRecord:
                    continue
        return False

    async def _run(self, call: Any, *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._executor, call, *arguments)
