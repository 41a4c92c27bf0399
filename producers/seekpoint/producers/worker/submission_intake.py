"""Take submissions out of the inbox: append the ``Submitted`` entry of each, and then commit its offset.

A worker that dies in between is followed by one that appends the same entry again, which the fold applies once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from seekpoint.consumers.log_reading.stable_end import hidden_submissions
from seekpoint.consumers.recovery.dead_letters import DeadLetters
from seekpoint.producers.node_runtime import NodeRuntime
from seekpoint.schemas.bodies.entry import process_key
from seekpoint.schemas.errors import LimitExceeded, Retryable, SeekpointError, UndecodableRecord
from seekpoint.schemas.log.inbox_ports import InboxMember
from seekpoint.schemas.log.log_ports import Record
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.log.submissions import SubmissionRecord, decode_submission, submitted_entry
from seekpoint.schemas.wire.codec import encode_within

logger = logging.getLogger("seekpoint.producers")

T = TypeVar("T")

_POLL_S = 0.2
"""How long a poll waits for a record. A longer one would wake as often, and tell of a changed assignment later."""
_QUIET_S = 1.0
"""How long the thread polls before it tells the event loop that nothing has come: each time costs the loop."""
_AGAIN_S = 1.0
_EXISTING_S = 2.0
_LOOK_S = 15.0
"""How often the intake looks for transactions that hide submissions."""


class SubmissionIntake:
    """The loop that reads one member's share of the inbox."""

    def __init__(
        self,
        runtime: NodeRuntime,
        member: InboxMember,
        on_assigned: Callable[[frozenset[int]], None],
        group: str,
    ) -> None:
        self._runtime = runtime
        self._member = member
        self._on_assigned = on_assigned
        self._group = group
        self._letters = DeadLetters(runtime.reader, runtime.settings, topic="inbox")
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="seekpoint-inbox")
        self._assigned: frozenset[int] = frozenset()
        self._is_closing = False
        self._looked_at_s = 0.0
        self._hidden: dict[int, int | None] = {}
        """By partition: from where a transaction hid submissions at the last look."""
        self._is_behind, self._made_ms = True, time.time_ns() // 1_000_000
        """Whether the inbox was never read to its end. A new group reads all that was ever submitted."""
        self.taken = 0
        """How many submissions were written to the journal."""
        self.polls = 0
        """How often the inbox was read."""
        self.rounds = 0
        """How often a read of the inbox ended, also with an error. The intake stands still if this does not rise."""
        self.is_joined = False
        """Whether the group has told this member its partitions, which may be none, and they are looked after."""
        self.is_writing = False
        """Whether submissions are being written to the journal, which waits for Kafka as long as that takes."""

    async def run(self) -> None:
        """Take submissions until this is cancelled. Raises the errors after which reading on would lose some."""
        while True:
            try:
                records = await self._in_thread(self._poll)
            except Retryable as exc:
                self.rounds += 1
                logger.warning("the inbox cannot be read: %s", exc)
                await asyncio.sleep(_AGAIN_S)
                continue
            self.polls += 1
            self.rounds += 1
            if self._member.assigned != self._assigned:
                self._assigned = self._member.assigned
                self._on_assigned(self._assigned)
            self.is_joined = self._member.is_joined
            if records:
                await self._take(records)
            elif self.is_joined and self._assigned:
                self._is_behind = False

    def _poll(self) -> list[Record]:
        """Poll until something has come or changed, or a second is over."""
        until_s = time.monotonic() + (_QUIET_S if self.polls else 0.0)
        while True:
            records = self._member.poll(_POLL_S)
            is_changed = self._member.assigned != self._assigned or self._member.is_joined != self.is_joined
            if records or is_changed or self._is_closing or time.monotonic() >= until_s:
                return records

    async def _take(self, records: Sequence[Record]) -> None:
        """Write the entries of ``records``, wait for all acknowledgements, then commit.

        A commit that fails costs another member a second reading, and the next one covers it.
        """
        entries = [(record, *entry) for record in records if (entry := await self._entry_of(record)) is not None]
        old = [one.process_id for record, one, _ in entries if self._is_behind and record.timestamp_ms < self._made_ms]
        if old:
            existing = await self._runtime.in_thread(partial(self._existing, old))
            entries = [entry for entry in entries if entry[1].process_id not in existing]
        self.is_writing = True
        await asyncio.gather(*(self._process(*entry) for entry in entries))
        self.is_writing = False
        self.taken += len(entries)
        ends = {record.partition: record.offset + 1 for record in records}
        try:
            await self._in_thread(partial(self._commit, ends))
        except Retryable as exc:
            logger.warning("the submissions that were taken are not noted yet: %s", exc)

    async def look_for_transactions(self) -> None:
        """Log an open transaction of another producer that hides submissions: a worker sees none of them."""
        now_s = time.monotonic()
        if now_s - self._looked_at_s < _LOOK_S or not self._assigned:
            return
        self._looked_at_s = now_s
        for partition in sorted(self._assigned):
            try:
                found = await self._runtime.in_thread(partial(hidden_submissions, self._runtime.reader, partition))
            except Retryable:
                return
            offset = None if found is None else found.offset
            if offset is not None and self._hidden.get(partition) == offset:
                logger.warning("submissions cannot be read: %s", found)
            elif offset is not None:
                self._looked_at_s = 0.0  # it may end at once: the next look tells
            self._hidden[partition] = offset

    def _existing(self, process_ids: Sequence[str]) -> Collection[str]:
        """Return which processes of an older part of the inbox began, or are submitted: it is not repeated for them.

        Where a look takes long, as it does without a view, it is the last one: what is repeated is refused anyway.
        """
        began_s = time.monotonic()
        try:
            recovered = self._runtime.recovery.blocking.recover_many(process_ids)
        except SeekpointError as exc:
            logger.info("submissions are repeated, since nobody can tell which of them are known: %s", exc)
            return ()
        self._is_behind = time.monotonic() - began_s < _EXISTING_S
        states = {process_id: found.state for process_id, found in recovered.items()}
        return [one for one, state in states.items() if state.finished or state.run_identity is not None]

    def _commit(self, ends: Mapping[int, int]) -> None:
        for partition, offset in ends.items():
            self._member.commit(partition, offset)

    async def _entry_of(self, record: Record) -> tuple[SubmissionRecord, bytes] | None:
        """Return a submission and its encoded entry; None for another record, which becomes a dead letter."""
        limits = self._runtime.reader.limits
        try:
            found = decode_submission(record.value, limits)
            if record.key != process_key(found.process_id):
                raise UndecodableRecord("the key of a submission is not its process id")
            if record.partition != partition_of(record.key, self._runtime.reader.partitions):
                raise UndecodableRecord("the submission is in another partition than its process")
            return found, encode_within(submitted_entry(found), record.key, limits)
        except (UndecodableRecord, LimitExceeded) as exc:
            poison = exc if isinstance(exc, UndecodableRecord) else UndecodableRecord(exc.message)
            try:
                await self._runtime.in_thread(lambda: self._letters.add(record, poison))
            except SeekpointError as refusal:  # too many: only the bytes of this record are lost
                logger.error("%d:%d: no dead letter was written: %s", record.partition, record.offset, refusal)
            return None

    async def _process(self, record: Record, submission: SubmissionRecord, value: bytes) -> None:
        """Append the entry, inside a span if the runtime has a tracer."""
        tracer, found = self._runtime.tracer, submission
        if tracer is None:
            return await self._write(record, value)
        with tracer.processing("inbox", found.process_id, found.id, self._group, found.trace_parent) as span:
            span.at(record.partition, record.offset)
            return await self._write(record, value)

    async def _write(self, record: Record, value: bytes) -> None:
        """Append the entry; try again until Kafka has acknowledged it."""
        assert record.key is not None
        while True:
            try:
                await self._runtime.outbox.push_external(record.partition, record.key, value)
                return
            except Retryable as exc:
                logger.warning("%r: its submission was not written, trying again: %s", record.key, exc)
                await asyncio.sleep(_AGAIN_S)

    async def close(self) -> None:
        """Leave the group: other members get the partitions at once."""
        self._is_closing = True
        try:
            await self._in_thread(self._member.close)
        finally:
            self._thread.shutdown(wait=False, cancel_futures=True)

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)
