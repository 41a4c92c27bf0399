"""The recovery service: a worker that answers requests of ``NAME.recover`` on ``NAME.recovered``. Start more to scale.

    NAME.recover ── Faust: group, agent ──> decode ──> RequestAnswerer ──> NAME.recovered (acknowledged) ──> our commit

A ``faust.App`` provides the life cycle, the agent, the timers and the client. Faust's own commits would pass requests
that are not answered yet, or that it skipped around a rebalance. So this worker answers one request at a time and
commits its offset after the answer was acknowledged. Requests that Faust skipped are read with our own reader. Every
request is therefore answered at least once, whenever a worker is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import tempfile
import time
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from seekpoint.consumers.heartbeats.progress_health import STALL_MAX_S, ProgressHealth
from seekpoint.consumers.kafka.faust_settings import faust_config
from seekpoint.consumers.recovery.dead_letters import DeadLetters
from seekpoint.consumers.recovery.recovery import Recovery
from seekpoint.consumers.recovery_service.answering import PublishState, RequestAnswerer, is_now
from seekpoint.consumers.recovery_service.exchange import KafkaExchange
from seekpoint.consumers.recovery_service.open_requests import RequestAudit
from seekpoint.consumers.recovery_service.service_figures import ServiceFigures
from seekpoint.consumers.recovery_service.stored_states import StoredStates
from seekpoint.schemas.bodies.entry import id_text
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import JournalUnavailable, RequestTimeout, SeekpointError, UndecodableRecord
from seekpoint.schemas.log.log_ports import Record
from seekpoint.schemas.log.recovery_requests import (
    RecoveryAnswer,
    RecoveryRequest,
    decode_request,
    encode_answer,
)
from seekpoint.schemas.values.clock import now_us

if TYPE_CHECKING:
    import faust

    from seekpoint.consumers.kafka.kafka_reader import KafkaReader

__all__ = ["RecoveryService", "RequestCheckpoint"]

RequestCheckpoint = Callable[[str], Awaitable[None]]
"""Requests a checkpoint of a process and waits for it, so that the next recovery of the process is short."""

_LAG_INTERVAL_S = 1.0
_HOUSEKEEPING_INTERVAL_S = 10.0
_RETRY_S = 1.0
_STOP_TIMEOUT_S = 20.0
_CHECKPOINTING_MAX = 64
"""The most processes whose checkpoints are waited for at once. Further ones are saved too, but not counted."""
_logger = logging.getLogger("seekpoint.consumers.recovery_service.recovery_service")


class RecoveryService:
    """One worker: ``async with RecoveryService(settings) as service: await service.run()``. For one event loop.

    After each answer about the present a task waits until a projector, which reads the same requests, has checkpointed
    the process, and counts the outcome; ``checkpoint`` replaces that. If a present state does not fit into an answer,
    the answer names its place, ``view:ID``, once the view has it; ``publish_state`` replaces that. Starting raises
    ``JournalUnavailable``, ``JournalMismatch`` (a topic is missing) and ``InvalidSetting``.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        checkpoint: RequestCheckpoint | None = None,
        publish_state: PublishState | None = None,
        stall_max_s: float = STALL_MAX_S,
    ) -> None:
        from seekpoint.consumers.kafka.kafka_reader import KafkaReader

        self.settings = settings
        self.health = ProgressHealth(stall_max_s)
        self.figures = ServiceFigures()
        self.node_id = settings.node_id or f"recovery-{uuid4().hex[:12]}"
        self._reader: KafkaReader = KafkaReader(settings)
        self._exchange = KafkaExchange(self._reader)
        self._recovery = Recovery.over(self._reader, settings)
        self._dead_letters = DeadLetters(self._reader, settings, topic="recover")
        self._stored_states = StoredStates(self._recovery, settings)
        self._checkpoint = checkpoint
        self._publish_state = publish_state or self._stored_states.wait_for_view
        self._checkpointing: dict[str, asyncio.Task[None]] = {}
        self._next: dict[int, int] = {}
        self._serving = False
        self._joined_at = 0.0
        self._topic_id: str | None = None
        self._found_id: str | None = None
        self._audit = RequestAudit(self._exchange)
        self._folder = tempfile.TemporaryDirectory(prefix="seekpoint-recovery-")
        self._app: faust.App | None = None

    @property
    def app(self) -> faust.App:
        """The Faust app, once the service was started."""
        assert self._app is not None
        return self._app

    # --- life -----------------------------------------------------------------------------------------------------
    async def start(self) -> RecoveryService:
        """Check the journal and its topics, join the group and start answering."""
        try:
            limits = await self._in_thread(lambda: self._reader.limits)
            await self._in_thread(self._exchange.end, "recover", 0)  # Faust only logs a warning if a topic is missing
            await self._in_thread(self._exchange.end, "recovered", 0)
            self._topic_id = await self._in_thread(self._reader.found_id, "recover")
            self._answerer = RequestAnswerer(self._recovery, limits, self.node_id, self._publish_state)
            self._config = faust_config(self.settings, limits)
            await self._join(self._config)
        except BaseException:
            await self.close()
            raise
        return self

    async def _join(self, config: dict[str, Any]) -> None:
        """Start Faust, and retry: each start asks for the leaders' topic, which Kafka may refuse for a moment."""
        deadline = time.monotonic() + self.settings.start_timeout_s
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

    async def _restart_if_stalled(self) -> None:
        """Restart Faust if its client stopped without an error, unless a long recovery is the reason."""
        if self._found_id != self._topic_id and self._found_id is not None:  # its offsets are those of another topic
            _logger.warning("the topic of the requests was re-created: restarting Faust")
            await self._leave()
            self._topic_id = self._found_id
            self._next.clear()
            await self._join(self._config)
            return
        is_stalled = not self.health.is_well and not self._serving
        if is_stalled and time.monotonic() - self._joined_at > self.health.stall_max_s:
            _logger.warning("nothing was answered for %.0f s: restarting Faust", self.health.stalled_s)
            await self._leave()
            await self._join(self._config)

    async def _leave(self) -> None:
        with contextlib.suppress(Exception):  # the worker has failed already
            await asyncio.wait_for(self.app.stop(), _STOP_TIMEOUT_S)

    async def run(self, stop: asyncio.Event | None = None) -> None:
        """Answer until ``stop`` is set. Raises ``JournalUnavailable`` if Faust ends: start the worker again."""
        while not (stop is not None and stop.is_set()):
            await self._restart_if_stalled()
            if self.app.should_stop:
                crash = self.app.crash_reason
                reason = self.settings.scrub(str(crash or "it was stopped"))
                raise JournalUnavailable(f"the recovery worker ended: {reason}", node=self.node_id) from crash
            await asyncio.sleep(0.1)

    async def close(self) -> None:
        """Leave the group and close connections. The next reader of an unanswered request answers it."""
        for task in self._checkpointing.values():
            task.cancel()
        await asyncio.gather(*self._checkpointing.values(), return_exceptions=True)
        if self._app is not None:
            await self._leave()
        await self._stored_states.close()
        self._recovery.close()
        await asyncio.to_thread(self._reader.close)
        self._folder.cleanup()

    async def __aenter__(self) -> RecoveryService:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --- Faust ----------------------------------------------------------------------------------------------------
    def _make_app(self, config: dict[str, Any]) -> faust.App:
        import faust  # takes 70 ms and more, which only a worker should pay

        name = f"{self.settings.journal}.recovery"
        app = faust.App(name, datadir=self._folder.name, loop=asyncio.get_running_loop(), **config)
        # acks=False: this worker commits the topic's offsets, not Faust.
        raw: dict[str, Any] = {
            "key_type": bytes,
            "value_type": bytes,
            "key_serializer": "raw",
            "value_serializer": "raw",
        }
        topic = app.topic(self.settings.topic_name("recover"), acks=False, **raw)
        self._add_agent(app, topic)
        app.timer(_LAG_INTERVAL_S, name="lag")(self._measure_lag)
        app.timer(_HOUSEKEEPING_INTERVAL_S, on_leader=True, name="housekeeping")(self._audit_requests)
        app.on_partitions_assigned.connect(self._on_assigned)
        return app

    def _add_agent(self, app: faust.App, topic: Any) -> None:
        """Add the agent that handles one request after the other."""

        async def requests(stream: Any) -> None:
            async for event in stream.events():
                await self._take(event.message)

        app.agent(topic, name="recover", concurrency=1)(requests)

    async def _on_assigned(self, *_: Any, **__: Any) -> None:
        if self.health.lag is None:
            self.health.observe(0)
        self._next.clear()  # Faust continues at the committed offset, and so does this worker
        _logger.info("assigned: %s", sorted(self._assigned()))

    def _assigned(self) -> list[int]:
        topic = self.settings.topic_name("recover")
        return sorted(each.partition for each in self.app.consumer.assignment() if each.topic == topic)

    def _committed(self, partition: int) -> int:
        """Return the offset at which this worker began to read the partition; 0 if none was ever committed."""
        consumer: Any = self.app.consumer
        known: dict[Any, int | None] = consumer._committed_offset
        topic = self.settings.topic_name("recover")
        found = next((offset for at, offset in known.items() if (at.topic, at.partition) == (topic, partition)), None)
        return max(found or 0, 0)

    # --- requests -------------------------------------------------------------------------------------------------
    async def _take(self, message: Any) -> None:
        """Serve the request that Faust delivered, and first those that it skipped. Skip what was served before."""
        partition, offset = message.partition, message.offset
        expected = self._next.get(partition)
        if expected is None:
            expected = self._committed(partition)
        if offset < expected:
            return
        if offset > expected:
            records, _ = await self._in_thread(self._exchange.read, "recover", partition, expected)
            for record in records:
                if expected <= record.offset < offset:
                    self.figures.passed_over += 1
                    await self._serve(record)
        stamp = int((message.timestamp or 0) * 1000)
        await self._serve(Record(partition, offset, stamp, message.key, message.value))

    async def _serve(self, record: Record) -> None:
        """Serve one request. Meanwhile the worker does not count as stalled."""
        self._serving = True
        try:
            await self._answer(record)
        finally:
            self._serving = False

    async def _answer(self, record: Record) -> None:
        """Answer, wait for the acknowledgement, then commit."""
        began = time.perf_counter()
        request = await self._decoded(record)
        if request is not None:
            answer = await self._answerer.answer(request)
            await self._send(answer, self._reply_partition(request, record))
            self._count(answer, time.perf_counter() - began)
        await self._commit(record)
        self.health.progress()
        found = self._answerer.found
        if request is not None and found is not None and is_now(request):
            self._start_checkpoint(request.process_id, found.state.offset)

    async def _decoded(self, record: Record) -> RecoveryRequest | None:
        """Decode a request. A record that is none becomes a dead letter, and the result is None."""
        try:
            request = decode_request(record.value, self._reader.limits)
            if record.key != request.process_id.encode():
                raise UndecodableRecord("the key of a request is not its process id")
            return request
        except UndecodableRecord as exc:
            self.figures.undecodable += 1
            try:
                await self._in_thread(self._dead_letters.add, record, exc)
            except SeekpointError as refusal:  # too many: only the bytes of this record are lost
                _logger.warning(
                    "the dead letter of %d:%d was not written: %s", record.partition, record.offset, refusal
                )
            return None

    def _reply_partition(self, request: RecoveryRequest, record: Record) -> int:
        reply = request.reply_partition
        return record.partition if reply is None or not 0 <= reply < self._reader.partitions else reply

    async def _send(self, answer: RecoveryAnswer, partition: int) -> None:
        """Produce until the answer is acknowledged: without an answer the request itself would be lost."""
        topic, key = self.settings.topic_name("recovered"), answer.process_id.encode()
        while True:
            try:
                await self.app.producer.send_and_wait(topic, key, encode_answer(answer), partition, None, None)
                return
            except asyncio.CancelledError:
                raise
            except Exception as exc:  # of aiokafka: the request is not answered yet
                _logger.warning("an answer was not accepted, trying again: %s", self.settings.scrub(repr(exc)))
                await asyncio.sleep(_RETRY_S)

    async def _commit(self, record: Record) -> None:
        """Commit the offset after this request. If the commit is lost, the request is answered twice."""
        from faust.types import TP

        if record.partition in self._assigned():
            self._next[record.partition] = record.offset + 1
            partition = TP(self.settings.topic_name("recover"), record.partition)
            consumer: Any = self.app.consumer
            await consumer._commit({partition: record.offset + 1})

    def _count(self, answer: RecoveryAnswer, duration_s: float) -> None:
        self.figures.answer_seconds += duration_s
        if answer.error is None:
            self.figures.answered += 1
        elif answer.error == RequestTimeout.__name__:
            self.figures.expired += 1
        else:
            self.figures.failed += 1

    def _start_checkpoint(self, process_id: str, offset: int) -> None:
        if process_id not in self._checkpointing and len(self._checkpointing) < _CHECKPOINTING_MAX:
            task = asyncio.create_task(self._save(process_id, offset), name=f"checkpoint {process_id}")
            self._checkpointing[process_id] = task
            task.add_done_callback(lambda _: self._checkpointing.pop(process_id, None))

    async def _save(self, process_id: str, offset: int) -> None:
        try:
            if self._checkpoint is not None:
                await self._checkpoint(process_id)
            else:
                await self._stored_states.wait_for_checkpoint(process_id, offset)
            self.figures.checkpoints += 1
        except Exception as exc:  # the request is answered: a checkpoint only makes the next recovery short
            self.figures.checkpoint_failures += 1
            _logger.warning("%s was recovered but not checkpointed: %s", process_id, self.settings.scrub(str(exc)))

    # --- timers ---------------------------------------------------------------------------------------------------
    async def _measure_lag(self) -> None:
        """Measure the lag with our own reader: a client that stopped without an error sees no end move."""
        try:
            self._found_id = await self._in_thread(self._reader.found_id, "recover")
            if self.app.rebalancing or self.health.lag is None:
                return  # the assignment is not known: if that lasts, the worker is not well
            assigned, lag = self._assigned(), 0
            for partition in assigned:
                end = await self._in_thread(self._exchange.end, "recover", partition)
                lag += max(0, end - self._next.get(partition, self._committed(partition)))
            self.health.observe(lag)
        except SeekpointError as exc:
            _logger.warning("the lag cannot be measured: %s", exc)

    async def _audit_requests(self) -> None:
        """On the leader: count the open requests of the whole group and log those that were never answered."""
        try:
            await self._in_thread(self._audit.read)
        except SeekpointError as exc:
            _logger.warning("open requests cannot be counted: %s", exc)
            return
        late = self._audit.requests.expire(now_us())
        self.figures.open_requests = len(self._audit.requests)
        self.figures.unanswered += len(late)
        for request_id in late:
            _logger.warning("request %s was not answered before its deadline", id_text(request_id))

    async def _in_thread(self, call: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(None, functools.partial(call, *arguments))
