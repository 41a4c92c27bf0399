"""Delivers the records of one topic through a ``faust.App``: at least once each, in the order of their partition.

    topic ── Faust: group, agent ──> FaustDelivery ──> handle(record) ──> our commit

Faust provides the life cycle, the group, the agent, the timers and the client. Its own commits would pass records that
are not handled yet, or that it skipped around a rebalance (faust issue 606). So one record is handled at a time and its
offset is committed afterwards. Records that Faust skipped are read with our own reader. Every record is therefore
handled at least once, whenever a worker is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from seekpoint.consumers.heartbeats.progress_health import ProgressHealth
from seekpoint.consumers.kafka.faust_settings import faust_config
from seekpoint.consumers.kafka.group_watch import GroupWatch
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import GroupLost, JournalUnavailable, SeekpointError
from seekpoint.schemas.log.log_ports import Record

if TYPE_CHECKING:
    import faust

    from seekpoint.consumers.kafka.kafka_reader import KafkaReader

HandleRecord = Callable[[Record], Awaitable[None]]
"""Handles one record. The record counts as handled once this returns, and its offset is committed then."""

_LOOK_INTERVAL_S, _LAG_INTERVAL_S = 0.5, 2.0
_RETRY_S = 1.0
_STOP_TIMEOUT_S = 20.0
_logger = logging.getLogger("seekpoint.consumers.kafka.faust_delivery")


class LeaderTimer(NamedTuple):
    """A call that the leader of the group makes again and again."""

    name: str
    interval_s: float
    call: Callable[[], Awaitable[None]]


class FaustDelivery:
    """One member of the group ``app_name`` that handles the records of the topic ``NAME.topic``. For one event loop."""

    def __init__(
        self,
        reader: KafkaReader,
        *,
        app_name: str,
        topic: str,
        handle: HandleRecord,
        health: ProgressHealth,
        timers: Iterable[LeaderTimer] = (),
    ) -> None:
        self.settings: Settings = reader.settings
        self.health = health
        self.passed_over = 0
        """Records that Faust did not deliver and this member read itself."""
        self._reader = reader
        self._app_name = app_name
        self._topic_kind = topic
        self._topic = self.settings.topic_name(topic)
        self._handle = handle
        self._timers = tuple(timers)
        self._watch = GroupWatch(app_name, lambda: reader.group_members())
        self._next: dict[int, int] = {}
        self._is_handling = False
        self._failure: Exception | None = None
        self._joined_at = 0.0
        self._topic_id: str | None = None
        self._found_id: str | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="seekpoint-faust-")
        self._app: faust.App | None = None

    @property
    def app(self) -> faust.App:
        """The Faust app, once the delivery was started."""
        assert self._app is not None
        return self._app

    # --- life ---------------------------------------------------------------------------------------------------------
    async def start(self) -> None:
        """Join the group. Raises ``JournalUnavailable`` if Kafka does not let it within ``start_timeout_s``."""
        limits = await self._in_thread(lambda: self._reader.limits)
        self._topic_id = await self._in_thread(self._reader.found_id, self._topic_kind)
        self._config = faust_config(self.settings, limits)
        await self._join(self._config, self.settings.start_timeout_s)

    async def _join(self, config: dict[str, Any], within_s: float | None = None) -> None:
        """Start Faust, and retry: each start asks for the leaders' topic, which Kafka may refuse for a moment.

        Without ``within_s`` it is a restart: it waits for Kafka as long as ``run`` goes on.
        """
        deadline = time.monotonic() + (float("inf") if within_s is None else within_s)
        while True:
            self._app = self._make_app(config)
            try:
                await self.app.start()
                self._joined_at = time.monotonic()
                return
            except Exception as exc:  # of aiokafka or of Faust
                reason = self.settings.scrub(f"{type(exc).__name__}: {exc}")
                await self._leave()
                if time.monotonic() > deadline:
                    raise JournalUnavailable(f"Faust does not start: {reason}", journal=self.settings.journal) from exc
                _logger.warning("Faust does not start, trying again: %s", reason)
                await asyncio.sleep(_RETRY_S)

    async def run(self, stop: asyncio.Event | None = None) -> None:
        """Deliver until ``stop`` is set. Raises what ``handle`` raises, and ``JournalUnavailable`` if Faust ends."""
        stop = asyncio.Event() if stop is None else stop
        while not stop.is_set():
            if self._failure is not None:
                raise self._failure
            await self._until(stop, self._restart_if_stalled())
            if stop.is_set():
                return
            if self.app.should_stop:
                crash = self.app.crash_reason
                reason = self.settings.scrub(str(crash or "it was stopped"))
                raise JournalUnavailable(f"Faust ended: {reason}", journal=self.settings.journal) from crash
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_INTERVAL_S):
                    await stop.wait()

    @staticmethod
    async def _until(stop: asyncio.Event, work: Coroutine[None, None, None]) -> None:
        """Do ``work``, and cancel it once ``stop`` is set: a restart waits for Kafka however long it is away."""
        doing, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait({doing, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            while not doing.done():  # a ``wait_for`` in Python 3.11 may lose a cancellation
                doing.cancel()
                await asyncio.wait({doing}, timeout=_RETRY_S)
        if not doing.cancelled():
            doing.result()

    async def _restart_if_stalled(self) -> None:
        """Restart Faust if its client stopped without an error, unless the handler of a record takes long."""
        if self._found_id != self._topic_id and self._found_id is not None:  # its offsets are those of another topic
            _logger.warning("the topic %s was re-created: restarting Faust", self._topic)
            await self._leave()
            self._topic_id = self._found_id
            self._next.clear()
            await self._join(self._config)
            return
        is_stalled = not self.health.is_well and not self._is_handling
        if is_stalled and time.monotonic() - self._joined_at > self.health.stall_max_s:
            _logger.warning("no progress for %.0f s: restarting Faust", self.health.stalled_s)
            await self._leave()
            await self._join(self._config)

    async def _leave(self) -> None:
        with contextlib.suppress(Exception):  # the worker has failed already
            await asyncio.wait_for(self.app.stop(), _STOP_TIMEOUT_S)

    async def close(self) -> None:
        """Leave the group. The next member handles what is not committed."""
        if self._app is not None:
            await self._leave()
        self._folder.cleanup()

    # --- Faust --------------------------------------------------------------------------------------------------------
    def _make_app(self, config: dict[str, Any]) -> faust.App:
        import faust  # takes 70 ms and more, which only a worker should pay

        app = faust.App(self._app_name, datadir=self._folder.name, loop=asyncio.get_running_loop(), **config)
        # acks=False: this member commits the topic's offsets, not Faust.
        raw: dict[str, Any] = {
            "key_type": bytes,
            "value_type": bytes,
            "key_serializer": "raw",
            "value_serializer": "raw",
        }
        self._add_agent(app, app.topic(self._topic, acks=False, **raw))
        app.timer(_LAG_INTERVAL_S, name="lag")(self._measure_lag)
        for timer in self._timers:
            app.timer(timer.interval_s, on_leader=True, name=timer.name)(timer.call)
        app.on_partitions_assigned.connect(self._on_assigned)
        return app

    def _add_agent(self, app: faust.App, topic: Any) -> None:
        """Add the agent that handles one record after the other."""

        async def records(stream: Any) -> None:
            async for event in stream.events():
                try:
                    await self._take(event.message)
                except Exception as exc:
                    self._failure = exc
                    raise

        app.agent(topic, name=self._topic_kind, concurrency=1)(records)

    async def _on_assigned(self, *_: Any, **__: Any) -> None:
        if self.health.lag is None:
            self.health.observe(0)
        self._next.clear()  # Faust continues at the committed offset, and so does this member
        _logger.info("assigned: %s", self._assigned())

    def _assigned(self) -> list[int]:
        return sorted(each.partition for each in self.app.consumer.assignment() if each.topic == self._topic)

    def _committed(self, partition: int) -> int:
        """Return the offset at which this member began to read the partition; 0 if none was ever committed."""
        consumer: Any = self.app.consumer
        known: dict[Any, int | None] = consumer._committed_offset
        places = (offset for at, offset in known.items() if (at.topic, at.partition) == (self._topic, partition))
        return max(next(places, None) or 0, 0)

    # --- records ------------------------------------------------------------------------------------------------------
    async def _take(self, message: Any) -> None:
        """Handle the record that Faust delivered, and first those that it skipped. Skip what was handled before."""
        partition, offset = message.partition, message.offset
        expected = self._next.get(partition)
        if expected is None:
            expected = self._committed(partition)
        if offset < expected:
            return
        if offset > expected:
            for record in await self._in_thread(self._read, partition, expected, offset):
                self.passed_over += 1
                await self._handle_and_commit(record)
        stamp = int((message.timestamp or 0) * 1000)
        await self._handle_and_commit(Record(partition, offset, stamp, message.key, message.value))

    def _read(self, partition: int, start: int, stop: int) -> list[Record]:
        """Return the committed records in [start, stop), without those that were deleted."""
        low = self._reader.marks_of(self._topic, partition).low
        batches = self._reader.read_topic(self._topic, partition, max(start, low), stop)
        return [record for batch in batches for record in batch.records if record.offset < stop]

    async def _handle_and_commit(self, record: Record) -> None:
        """Handle one record, then commit. Meanwhile the member does not count as stalled."""
        self._is_handling = True
        try:
            await self._handle(record)
            await self._commit(record)
            self.health.progress()
        finally:
            self._is_handling = False

    async def _commit(self, record: Record) -> None:
        """Commit the offset after this record. If the commit is lost, the record is handled twice."""
        from faust.types import TP

        if record.partition in self._assigned():
            self._next[record.partition] = record.offset + 1
            consumer: Any = self.app.consumer
            await consumer._commit({TP(self._topic, record.partition): record.offset + 1})

    # --- lag ----------------------------------------------------------------------------------------------------------
    async def _measure_lag(self) -> None:
        """Measure the lag with our own reader: a client that stopped without an error sees no end move."""
        try:
            self._found_id = await self._in_thread(self._reader.found_id, self._topic_kind)
            if self.app.rebalancing or self.health.lag is None:
                return  # the assignment is not known: if that lasts, the member is not well
            assigned = self._assigned()
            if self._watch.look(True) if assigned else await self._in_thread(self._watch.look, False):
                return  # nobody reads for the group: the member is not well, and is started again
            ends = await self._in_thread(self._ends_of, assigned)
            mine = [partition for partition in self._assigned() if partition in ends]  # some may have gone meanwhile
            self.health.observe(sum(max(0, ends[one] - self._next.get(one, self._committed(one))) for one in mine))
        except GroupLost as exc:
            self._failure = exc
        except SeekpointError as exc:
            _logger.warning("the lag cannot be measured: %s", exc)

    def _ends_of(self, partitions: Iterable[int]) -> dict[int, int]:
        return {partition: self._reader.marks_of(self._topic, partition).high for partition in partitions}

    async def _in_thread(self, call: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(None, functools.partial(call, *arguments))
