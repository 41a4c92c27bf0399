"""The outbox of a node: entries of all its processes, sent in one batch a tick of the event loop by one appender.

The outbox watches the deadline. An append that fails, or is not acknowledged within ``append_timeout_s``, ends the
whole appender (rule O5). The outbox calls ``on_failing`` at once, so that handles with pending entries keep later ones.
It calls ``on_retired`` once the appender is drained and all its records are answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Sequence

import msgspec

from seekpoint.producers.tail.tailer import not_started, refuse_other_loop
from seekpoint.producers.writer.node_metrics import Histogram
from seekpoint.producers.writer.pending import HandleStatus, Pending
from seekpoint.schemas.config.error_texts import error_line, traceback_of
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import AppendTimeout, HandleClosed, JournalFull, JournalUnavailable, SeekpointError
from seekpoint.schemas.log.log_ports import Appender, DeliveryReport, LogWriter, ProducerRecord, Record

logger = logging.getLogger("seekpoint.producers")

_PAUSE_S, _PAUSE_MAX_S = 0.1, 5.0
"""The pause between appenders that fail in a row: it doubles each time, up to the second number."""
_ROOM_PAUSE_S = 1.0
"""The least pause while the log has no room, since a claim may fit where the entry does not."""


class Shipment(msgspec.Struct, eq=False):
    """The records given to the appender in one tick; their deadline counts from then."""

    sent_at: float
    open: int


class _External(msgspec.Struct, eq=False):
    """An external entry (claim, signal) that is not acknowledged yet."""

    future: asyncio.Future[int]
    record: ProducerRecord | None = None
    shipment: Shipment | None = None


class Outbox:
    """The sender of one node, for one event loop. ``start`` before use, ``close`` after."""

    def __init__(
        self,
        writer: LogWriter,
        settings: Settings,
        on_failing: Callable[[], None],
        on_retired: Callable[[SeekpointError], Coroutine[None, None, None]],
        append_s: Histogram | None = None,
        on_readable: Callable[[Sequence[Record]], None] | None = None,
    ) -> None:
        """``on_readable`` gets the records of this outbox that need not be read back, once they are acknowledged."""
        self._append_s = Histogram() if append_s is None else append_s
        self._writer = writer
        self._settings = settings
        self._on_failing = on_failing
        self._on_retired = on_retired
        self._on_readable = on_readable
        self._queue: list[ProducerRecord] = []
        self._shipments: deque[Shipment] = deque()
        self._unanswered: set[_External] = set()
        self._flush_scheduled = False
        self._retiring: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._appender: Appender | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self._closing = asyncio.Event()
        self._failures = 0
        """How many appenders failed in a row, without an acknowledged entry in between."""
        self.lacks_room = False
        """Whether the last appender ended because the log has no room."""

    @classmethod
    def without_handles(cls, writer: LogWriter, settings: Settings) -> Outbox:
        """Return an outbox for records that no handle owns: nothing is to heal where an append fails."""
        return cls(writer, settings, lambda: None, _nothing_to_heal)

    def start(self) -> None:
        """Make the appender, and begin to send."""
        self._loop = asyncio.get_running_loop()
        self._appender = self._new_appender()
        self._watch = asyncio.create_task(self._watch_deadline(), name="seekpoint-outbox")

    async def close(self) -> None:
        """Wait for pending entries for the drain time, then close the appender. Every caller gets an answer."""
        self._closed = True
        self._closing.set()
        if self._watch is not None:
            self._watch.cancel()
        if self._retiring is not None:
            await asyncio.gather(self._retiring, return_exceptions=True)
        try:
            if self._appender is not None:
                await asyncio.to_thread(self._appender.retire, self._settings.producer_drain_s)
        finally:
            self._appender = None
            self._queue = []  # owners' entries belong to handles, which the node fails
            self._answer_all(_closed())

    # --- sending
    def push(self, pending: Pending) -> None:
        """Send an owner's entry with this tick's batch. An entry of a healing handle stays with its handle."""
        if pending.handle.status is not HandleStatus.HEALING:
            self._queue.append(ProducerRecord(pending.handle.partition, pending.handle.key, pending.value, pending))
            if not self._flush_scheduled:
                self._schedule()

    def push_external(self, partition: int, key: bytes, value: bytes) -> asyncio.Future[int]:
        """Send an external entry; return the future of its offset. ``HandleClosed`` once the outbox is closed."""
        if self._closed:
            raise _closed()
        if self._loop is None:
            raise not_started()
        refuse_other_loop(self._loop)
        item = _External(self._loop.create_future())
        item.record = ProducerRecord(partition, key, value, item)
        self._unanswered.add(item)
        self._queue.append(item.record)
        self._schedule()
        return item.future

    def _schedule(self) -> None:
        if not self._flush_scheduled and self._loop is not None:
            self._flush_scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_scheduled = False
        if not self._queue or self._appender is None:
            return
        assert self._loop is not None
        records, self._queue = self._queue, []
        try:
            taken = self._appender.send(records)
        except Exception as exc:  # it is unknown what was sent: the appender is retired, and owners claim again
            failure = _unexpected(exc, self._settings)
            self._give_back(records, failure)
            self.retire(failure)
            return
        if taken < len(records):  # the appender is full: the rest leaves when deliveries make room
            self._queue = records[taken:]
            del records[taken:]
        if records:
            shipment = Shipment(self._loop.time(), taken)
            for record in records:
                record.token.shipment = shipment  # type: ignore[attr-defined]  # every token here has a place for it
            self._shipments.append(shipment)

    # --- deliveries
    def _new_appender(self) -> Appender:
        loop = self._loop
        assert loop is not None

        def deliver(deliveries: Sequence[DeliveryReport]) -> None:
            loop.call_soon_threadsafe(self._delivered, deliveries)

        return self._writer.appender(deliver)

    def _delivered(self, deliveries: Sequence[DeliveryReport]) -> None:
        assert self._loop is not None
        failure: SeekpointError | None = None
        now, written, acknowledged = self._loop.time(), None, 0
        readable: list[Record] = []
        for item, offset, error, record in deliveries:
            shipment: Shipment | None = item.shipment  # type: ignore[attr-defined]
            if shipment is not None:
                shipment.open -= 1
            if error is None:
                self._failures, self.lacks_room = 0, False
                if shipment is not written:  # a batch has few shipments of many records
                    self._observe(written, now, acknowledged)
                    written, acknowledged = shipment, 0
                acknowledged += 1
            failure = failure or error  # the first one tells why; later ones were only purged
            if isinstance(item, Pending):
                if error is None:
                    item.handle.acknowledge(item, offset)
                item.failure = error
            else:
                self._answer(item, offset, error)
            if record is not None:
                readable.append(record)
        self._observe(written, now, acknowledged)
        while self._shipments and self._shipments[0].open <= 0:
            self._shipments.popleft()
        if self._queue:
            self._schedule()
        if failure is not None:
            self.lacks_room = isinstance(failure, JournalFull)
            self.retire(failure)
        if readable and self._on_readable is not None:
            self._on_readable(readable)

    def _observe(self, shipment: Shipment | None, now: float, records: int) -> None:
        """Measure how long these records of a shipment took."""
        if shipment is not None:
            self._append_s.observe(now - shipment.sent_at, records)

    # --- the deadline
    async def _watch_deadline(self) -> None:
        assert self._loop is not None
        while True:
            await asyncio.sleep(self._settings.append_timeout_s / 20)
            oldest = self._shipments[0].sent_at if self._shipments else self._loop.time()
            if self._loop.time() - oldest > self._settings.append_timeout_s:
                limit_s = self._settings.append_timeout_s
                self.retire(AppendTimeout("the log did not acknowledge in time", append_timeout_s=limit_s))

    def retire(self, reason: SeekpointError) -> None:
        """Replace the present appender by a new one. Does nothing while one is being replaced."""
        if not self._closed and (self._retiring is None or self._retiring.done()):
            self._retiring = asyncio.create_task(self._retire(reason), name="seekpoint-retire")

    async def _retire(self, reason: SeekpointError) -> None:
        logger.warning("the appender is retired, handles in doubt claim again: %s", reason)
        old, self._appender = self._appender, None
        self._on_failing()
        # Queued entries of handles in doubt stay with the handles; external entries wait for the new appender.
        self._queue = [record for record in self._queue if not _in_doubt(record.token)]
        await self._drain(old)
        lost = JournalUnavailable("the appender ended before an acknowledgement came", reason=reason.message)
        self._answer_all(lost, but={record.token for record in self._queue})
        self._shipments.clear()
        await self._pause(reason)
        await self._replace()
        self._schedule()
        await self._on_retired(reason)

    async def _drain(self, old: Appender | None) -> None:
        """Have the old appender answer its records. Log it if that fails."""
        try:
            if old is not None:
                await asyncio.to_thread(old.retire, self._settings.producer_drain_s)
        except Exception as exc:
            logger.error("an appender could not be retired\n%s", traceback_of(exc, self._settings))

    async def _replace(self) -> None:
        """Make the next appender. While that fails, the callers that wait for it get the error."""
        while not self._closed:
            try:
                self._appender = self._new_appender()
                return
            except Exception as exc:
                failure = exc if isinstance(exc, SeekpointError) else _unexpected(exc, self._settings)
                self._on_failing()
                waiting, self._queue = self._queue, []
                self._give_back(waiting, failure)
                await self._on_retired(failure)
                await self._pause(failure)

    async def _pause(self, reason: SeekpointError) -> None:
        """Wait before the next appender, longer after each failure in a row: Kafka is likely to refuse it again.

        Do not wait after a deadline that passed, which took long enough.
        """
        if isinstance(reason, AppendTimeout):
            return
        self._failures += 1
        if self._failures > 1 or self.lacks_room:
            pause_s = min(_PAUSE_MAX_S, _PAUSE_S * 2.0 ** (self._failures - 2))
            pause_s = max(pause_s, _ROOM_PAUSE_S) if self.lacks_room else pause_s
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), pause_s)

    # --- answers to external entries
    def _give_back(self, records: Sequence[ProducerRecord], failure: SeekpointError) -> None:
        """Raise ``failure`` for external entries; owners' entries stay with their handles, which claim again."""
        for record in records:
            if isinstance(record.token, Pending):
                record.token.failure = failure
            else:
                self._answer(record.token, -1, failure)

    def _answer_all(self, failure: SeekpointError, but: Collection[object] = ()) -> None:
        """Raise ``failure`` in every caller that no appender will answer."""
        for item in self._unanswered.difference(but):
            self._answer(item, -1, failure)

    def _answer(self, item: object, offset: int, error: SeekpointError | None) -> None:
        assert isinstance(item, _External)
        if isinstance(error, JournalFull) and item.record is not None and not (self._closed or item.future.done()):
            item.shipment = None
            self._queue.append(item.record)  # it is certainly not in the log: it waits for room
            return
        self._unanswered.discard(item)
        if not item.future.done():
            item.future.set_result(offset) if error is None else item.future.set_exception(error)


def _closed() -> HandleClosed:
    return HandleClosed("the node was closed before the entry left", hint="use a node that is open")


def _unexpected(error: Exception, settings: Settings) -> SeekpointError:
    """Return the error for entries that were being sent when the program failed. Log the stack."""
    logger.error("sending failed unexpectedly\n%s", traceback_of(error, settings))
    failure = SeekpointError(
        f"sending failed unexpectedly, the entry may be in the log: {error_line(error, settings)}",
        hint="open the process again: the claim finds out what landed; if it fails again, report it",
    )
    failure.__cause__ = error
    return failure


def _in_doubt(item: object) -> bool:
    return isinstance(item, Pending) and item.handle.status is not HandleStatus.OPEN


async def _nothing_to_heal(reason: SeekpointError) -> None:
    """Do nothing: there are no handles whose entries could be in doubt."""
