"""Recovery on demand: a worker that answers requests of ``NAME.recover`` on ``NAME.recovered``. Start more to scale.

    NAME.recover ── Faust: group, agent ──> decode ──> Answering ──> NAME.recovered (acknowledged) ──> commit, ours

It is a ``faust.App``: its life cycle, its agent, its timers, its client. What Faust's commits cannot promise (they pass
requests that are under way or were skipped around a rebalance) is done here: one request at a time, its offset
committed only after its answer was acknowledged; requests that Faust passed over are read again with our own reader.
So every request is answered at least once, whenever a worker is killed.
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
from seekpoint.consumers.recovery_service.answering import Answering, MakeReady, is_now
from seekpoint.consumers.recovery_service.exchange import KafkaExchange
from seekpoint.consumers.recovery_service.kept_states import KeptStates
from seekpoint.consumers.recovery_service.open_requests import RequestAudit
from seekpoint.consumers.recovery_service.service_figures import Figures
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

__all__ = ["Checkpoint", "RecoveryService"]

Checkpoint = Callable[[str], Awaitable[None]]
"""Has a process checkpointed, so that its next recovery is short."""

_LOOK_INTERVAL_S = 1.0
_HOUSEKEEPING_INTERVAL_S = 10.0
_RETRY_S = 1.0
_STOP_TIMEOUT_S = 20.0
_CHECKPOINTING_MAX = 64
"""Processes whose checkpoints are waited for at once; further ones are saved too, and not counted."""
_logger = logging.getLogger("seekpoint.consumers.recovery_service.recovery_service")


class RecoveryService:
    """One worker. ``async with RecoveryService(settings) as service: await service.run()``; one event loop's.

    After each answer about the present it waits beside its work until a projector has saved the process (which reads
    the same requests), and counts whether it did. A state of the present that does not fit into an answer is answered
    with its place: ``view:ID``, once the view has it. ``checkpoint`` and ``make_ready`` replace the two. Starting
    raises ``JournalUnavailable``, ``JournalMismatch`` (a topic is missing) and
    ``InvalidSetting``.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        checkpoint: Checkpoint | None = None,
        make_ready: MakeReady | None = None,
        stall_max_s: float = STALL_MAX_S,
    ) -> None:
        from seekpoint.consumers.kafka.kafka_reader import KafkaReader

        self.settings = settings
        self.health = ProgressHealth(stall_max_s)
        self.figures = Figures()
        self.node_id = settings.node_id or f"recovery-{uuid4().hex[:12]}"
        self._reader: KafkaReader = KafkaReader(settings)
        self._exchange = KafkaExchange(self._reader)
        self._recovery = Recovery.over(self._reader, settings)
        self._dead_letters = DeadLetters(self._reader, settings, topic="recover")
        self._kept = KeptStates(self._recovery, settings)
        self._checkpoint, self._make_ready = checkpoint, make_ready or self._kept.in_view
        self._checkpointing: dict[str, asyncio.Task[None]] = {}
        self._next: dict[int, int] = {}
        self._serving = False
        self._joined_at = 0.0
        self._topic_id: str | None = None
        self._found_id: str | None = None
        self._audit = RequestAudit(self._exchange)
        self._folder = tempfile.TemporaryDirectory(prefix="seekpoint-recovery-")
        self.app: faust.App

    # --- life -----------------------------------------------------------------------------------------------------
    async def start(self) -> RecoveryService:
        """Check the journal and its topics, join the group, begin to answer."""
        try:
            limits = await self._in_thread(lambda: self._reader.limits)
            await self._in_thread(self._exchange.end, "recover", 0)  # Faust only warns of a topic that is not there
            await self._in_thread(self._exchange.end, "recovered", 0)
            self._topic_id = await self._in_thread(self._reader.found_id, "recover")
            self._answering = Answering(self._recovery, limits, self.node_id, self._make_ready)
            self._config = faust_config(self.settings, limits)
            await self._join(self._config)
        except BaseException:
            await self.close()
            raise
        return self

    async def _join(self, config: dict[str, Any]) -> None:
        """Start Faust; again where Kafka refuses for a moment (it asks for the leaders' topic at each start)."""
        deadline = time.monotonic() + self.settings.start_timeout_s
        while True:
            self.app = self._make_app(config)
            try:
                await self.app.start()
                self._joined_at = time.monotonic()
                return
            except Exception as exc:  # aiokafka's and Faust's alike
                said = self.settings.scrub(f"{type(exc).__name__}: {exc}")
                await self._leave()
                if time.monotonic() > deadline:
                    raise JournalUnavailable(f"Faust does not start: {said}", journal=self.settings.journal) from exc
                _logger.warning("Faust does not start, again: %s", said)
                await asyncio.sleep(_RETRY_S)

    async def _join_again_if_it_stands(self) -> None:
        """Clients stop silently: start Faust anew, unless it is a recovery that takes long."""
        if self._found_id != self._topic_id and self._found_id is not None:  # offsets mean something else there
            _logger.warning("the topic of the requests was made anew: Faust is started anew")
            await self._leave()
            self._topic_id = self._found_id
            self._next.clear()
            await self._join(self._config)
            return
        stands = not self.health.is_well and not self._serving
        if stands and time.monotonic() - self._joined_at > self.health.stall_max_s:
            _logger.warning("nothing was answered for %.0f s: Faust is started anew", self.health.stalled_s)
            await self._leave()
            await self._join(self._config)

    async def _leave(self) -> None:
        with contextlib.suppress(Exception):  # what is left of a worker that failed has nothing to say
            await asyncio.wait_for(self.app.stop(), _STOP_TIMEOUT_S)

    async def run(self, stop: asyncio.Event | None = None) -> None:
        """Answer until ``stop`` is set. Raises ``JournalUnavailable`` if Faust gives up: start the worker again."""
        while not (stop is not None and stop.is_set()):
            await self._join_again_if_it_stands()
            if self.app.should_stop:
                reason = self.app.crash_reason
                said = self.settings.scrub(str(reason or "it was stopped"))
                raise JournalUnavailable(f"the recovery worker ended: {said}", node=self.node_id) from reason
            await asyncio.sleep(0.1)

    async def close(self) -> None:
        """Leave the group and give up connections; a request under way is answered by whoever reads it next."""
        for task in self._checkpointing.values():
            task.cancel()
        await asyncio.gather(*self._checkpointing.values(), return_exceptions=True)
        if hasattr(self, "app"):
            await self._leave()
        await self._kept.close()
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
        import faust  # 70 ms and more, which nobody else waits for

        name = f"{self.settings.journal}.recovery"
        app = faust.App(name, datadir=self._folder.name, loop=asyncio.get_running_loop(), **config)
        # acks=False: Faust commits nothing of this topic, we do.
        raw: dict[str, Any] = {
            "key_type": bytes,
            "value_type": bytes,
            "key_serializer": "raw",
            "value_serializer": "raw",
        }
        topic = app.topic(self.settings.topic_name("recover"), acks=False, **raw)
        self._add_agent(app, topic)
        app.timer(_LOOK_INTERVAL_S, name="look")(self._look)
        app.timer(_HOUSEKEEPING_INTERVAL_S, on_leader=True, name="housekeeping")(self._keep_house)
        app.on_partitions_assigned.connect(self._on_assigned)
        return app

    def _add_agent(self, app: faust.App, topic: Any) -> None:
        """The agent: every request, one after the other."""

        async def requests(stream: Any) -> None:
            async for event in stream.events():
                await self._take(event.message)

        app.agent(topic, name="recover", concurrency=1)(requests)

    async def _on_assigned(self, *_: Any, **__: Any) -> None:
        if self.health.lag is None:
            self.health.observe(0)
        self._next.clear()  # Faust reads on from what is committed, and so do we
        _logger.info("assigned: %s", sorted(self._assigned()))

    def _assigned(self) -> list[int]:
        topic = self.settings.topic_name("recover")
        return sorted(each.partition for each in self.app.consumer.assignment() if each.topic == topic)

    def _committed(self, partition: int) -> int:
        """Where this worker began to read the partition; 0 if nothing was ever committed."""
        known: dict[Any, int | None] = self.app.consumer._committed_offset  # type: ignore[attr-defined]
        topic = self.settings.topic_name("recover")
        found = next((offset for at, offset in known.items() if (at.topic, at.partition) == (topic, partition)), None)
        return max(found or 0, 0)

    # --- requests -------------------------------------------------------------------------------------------------
    async def _take(self, message: Any) -> None:
        """Serve what Faust delivered, and before it whatever Faust passed over. What was served before is left out."""
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
        """One request; while it lasts the worker does not stand."""
        self._serving = True
        try:
            await self._answer(record)
        finally:
            self._serving = False

    async def _answer(self, record: Record) -> None:
        """Answer, wait for the acknowledgement, only then commit."""
        began = time.perf_counter()
        request = await self._decoded(record)
        if request is not None:
            answer = await self._answering.answer(request)
            await self._send(answer, self._reply_partition(request, record))
            self._count(answer, time.perf_counter() - began)
        await self._commit(record)
        self.health.progress()
        found = self._answering.found
        if request is not None and found is not None and is_now(request):
            self._have_checkpointed(request.process_id, found.state.offset)

    async def _decoded(self, record: Record) -> RecoveryRequest | None:
        """The request; None for a record that is none: it becomes a dead letter."""
        try:
            request = decode_request(record.value, self._reader.limits)
            if record.key != request.process_id.encode():
                raise UndecodableRecord("a request under another key than its process id")
            return request
        except UndecodableRecord as exc:
            self.figures.undecodable += 1
            try:
                await self._in_thread(self._dead_letters.add, record, exc)
            except SeekpointError as refusal:  # too many of them: nothing is lost but their bytes
                _logger.warning("no dead letter of %d:%d: %s", record.partition, record.offset, refusal)
            return None

    def _reply_partition(self, request: RecoveryRequest, record: Record) -> int:
        wanted = request.reply_partition
        return record.partition if wanted is None or not 0 <= wanted < self._reader.partitions else wanted

    async def _send(self, answer: RecoveryAnswer, partition: int) -> None:
        """Produce until it is acknowledged: a request whose answer is lost would be lost itself."""
        topic, key = self.settings.topic_name("recovered"), answer.process_id.encode()
        while True:
            try:
                await self.app.producer.send_and_wait(topic, key, encode_answer(answer), partition, None, None)
                return
            except asyncio.CancelledError:
                raise
            except Exception as exc:  # whatever aiokafka raises: the request is not answered yet
                _logger.warning("an answer was not taken, again: %s", self.settings.scrub(repr(exc)))
                await asyncio.sleep(_RETRY_S)

    async def _commit(self, record: Record) -> None:
        """The next request of the partition is the one after this. If that is lost, this one is answered twice."""
        from faust.types import TP

        if record.partition in self._assigned():
            self._next[record.partition] = record.offset + 1
            place = TP(self.settings.topic_name("recover"), record.partition)
            await self.app.consumer._commit({place: record.offset + 1})  # type: ignore[attr-defined]

    def _count(self, answer: RecoveryAnswer, duration_s: float) -> None:
        self.figures.answer_seconds += duration_s
        if answer.error is None:
            self.figures.answered += 1
        elif answer.error == RequestTimeout.__name__:
            self.figures.expired += 1
        else:
            self.figures.failed += 1

    def _have_checkpointed(self, process_id: str, offset: int) -> None:
        if process_id not in self._checkpointing and len(self._checkpointing) < _CHECKPOINTING_MAX:
            task = asyncio.create_task(self._save(process_id, offset), name=f"checkpoint {process_id}")
            self._checkpointing[process_id] = task
            task.add_done_callback(lambda _: self._checkpointing.pop(process_id, None))

    async def _save(self, process_id: str, offset: int) -> None:
        try:
            if self._checkpoint is not None:
                await self._checkpoint(process_id)
            else:
                await self._kept.checkpointed(process_id, offset)
            self.figures.checkpoints += 1
        except Exception as exc:  # the answer is given: a checkpoint only makes the next recovery short
            self.figures.checkpoint_failures += 1
            _logger.warning("%s was recovered but not checkpointed: %s", process_id, self.settings.scrub(str(exc)))

    # --- timers ---------------------------------------------------------------------------------------------------
    async def _look(self) -> None:
        """How much waits for this worker: by our own reader, since a client that stopped silently sees no end move."""
        try:
            self._found_id = await self._in_thread(self._reader.found_id, "recover")
            if self.app.rebalancing or self.health.lag is None:
                return  # nobody knows what is ours: to hear nothing for long is not well
            assigned, lag = self._assigned(), 0
            for partition in assigned:
                end = await self._in_thread(self._exchange.end, "recover", partition)
                lag += max(0, end - self._next.get(partition, self._committed(partition)))
            self.health.observe(lag)
        except SeekpointError as exc:
            _logger.warning("the lag is not known: %s", exc)

    async def _keep_house(self) -> None:
        """On the leader: which requests of the whole group are open, and which were never answered."""
        try:
            await self._in_thread(self._audit.read)
        except SeekpointError as exc:
            _logger.warning("open requests are not known: %s", exc)
            return
        late = self._audit.requests.expire(now_us())
        self.figures.open_requests = len(self._audit.requests)
        self.figures.unanswered += len(late)
        for request_id in late:
            _logger.warning("request %s was not answered before its deadline", id_text(request_id))

    async def _in_thread(self, call: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(None, functools.partial(call, *arguments))
