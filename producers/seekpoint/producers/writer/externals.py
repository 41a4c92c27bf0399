"""External entries: any program may send them to a process. They only fill its mailbox (rule O1)."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

from seekpoint.producers.writer.outbox import Outbox
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry, new_id
from seekpoint.schemas.errors import JournalUnavailable, Refused, Retryable, SeekpointError
from seekpoint.schemas.folding.fold import SHARED_PREFIX
from seekpoint.schemas.log.log_ports import LogReader
from seekpoint.schemas.log.manifest import refuse_older_format
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.values.clock import now_us
from seekpoint.schemas.values.process_ids import named_process_key
from seekpoint.schemas.wire.codec import encode_within, is_entry

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from seekpoint.consumers.recovery.recovery_report import Recovered
    from seekpoint.producers.tracing.tracer import Tracer
    from seekpoint.schemas.state.process_state import State

logger = logging.getLogger("seekpoint.producers")

_ATTEMPTS = 3


class _Look:
    """The recovery of one process that several senders wait for."""

    def __init__(self) -> None:
        self.lock, self.senders = asyncio.Lock(), 0
        self.begun = self.ended = 0
        """The numbers of the newest recovery that began, and of the newest one that ended."""
        self.state: State | None = None
        self.error: SeekpointError | None = None
        """Why the newest recovery failed; None: it found ``state``."""


class Externals:
    """Sends signals and requests for one node."""

    def __init__(self, reader: LogReader, executor: Executor, outbox: Outbox, tracer: Tracer | None = None) -> None:
        self._reader = reader
        self._executor = executor
        self._outbox = outbox
        self._tracer = tracer
        self._looks: dict[str, _Look] = {}

    async def send(
        self, process_id: str, body: b.Body, actor: str | None = None, entry_id: bytes | None = None
    ) -> bytes:
        """Append an external entry, once however often that is tried; return its id."""
        sent_id = entry_id or new_id()
        await self.append(process_id, body, actor, sent_id)
        return sent_id

    async def append(self, process_id: str, body: b.Body, actor: str | None, entry_id: bytes) -> int:
        """Append an external entry as ``send`` does; return its offset.

        ``Refused`` where a shared value gets another entry than ``SharedSet``, or a process gets that.
        """
        key = named_process_key(process_id)
        if isinstance(body, b.SharedSet) != process_id.startswith(SHARED_PREFIX):
            raise Refused(
                "a shared value is set, and nothing else is", process_id=process_id, kind=body.KIND,
                hint="node.shared(NAME).set(...), or seekpoint shared set NAME; a process needs another id",
            )  # fmt: skip
        refuse_older_format(self._reader.name, self._reader.journal_format)
        entry = Entry(entry_id, process_id, None, 0, None, None, now_us(), actor, None, None, body)
        value = encode_within(entry, key, self._reader.limits)
        partition = partition_of(key, self._reader.partitions)
        if self._tracer is None:
            return await self._append(partition, key, value, entry_id)
        with self._tracer.sending("journal", process_id, entry_id) as span:
            offset = await self._append(partition, key, value, entry_id)
            span.at(partition, offset)
            return offset

    async def state_after(self, process_id: str, offset: int, recover: Callable[[], Awaitable[Recovered]]) -> State:
        """Return the process's state as of ``offset`` or later, or an older one if that is all that can be read.

        Those who send at the same time share recoveries, failed ones too.
        """
        look = self._looks.setdefault(process_id, _Look())
        look.senders += 1
        begun = look.begun
        try:
            async with look.lock:
                has_seen = look.ended > begun  # that recovery began when this sender's entry was in the log
                if not has_seen and (look.state is None or look.state.offset < offset):
                    number = look.begun = look.begun + 1
                    try:
                        look.state, look.error = (await recover()).state, None
                    except SeekpointError as exc:
                        look.error = exc
                    look.ended = number
                if look.error is not None and (look.state is None or look.state.offset < offset):
                    raise look.error
                assert look.state is not None
                return look.state
        finally:
            look.senders -= 1
            if not look.senders:
                del self._looks[process_id]

    async def _append(self, partition: int, key: bytes, value: bytes, entry_id: bytes) -> int:
        try:
            began = (await self._run(self._reader.watermarks, partition)).high
        except JournalUnavailable as exc:  # an end that Kafka does not tell is healed by an append
            logger.warning("the end of partition %d is not known, appending first: %s", partition, exc)
            return await self._outbox.push_external(partition, key, value)
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return await self._outbox.push_external(partition, key, value)
            except Retryable:
                # The entry may have landed: look for it before it is sent again, so that one signal is one entry.
                landed: int | None = await self._run(self._landed, partition, key, began, entry_id)
                if landed is not None:
                    return landed
                if attempt == _ATTEMPTS:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _landed(self, partition: int, key: bytes, began: int, entry_id: bytes) -> int | None:
        high = self._reader.watermarks(partition).high
        for batch in self._reader.read(partition, began, high, {key}):
            for record in batch.records:
                if is_entry(record.value, entry_id):
                    return record.offset
        return None

    async def _run(self, call: Any, *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._executor, call, *arguments)
