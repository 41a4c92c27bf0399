"""The recovery service: a worker that answers requests of ``NAME.recover`` on ``NAME.recovered``. Start more to scale.

    NAME.recover ── FaustDelivery ──> decode ──> RequestAnswerer ──> NAME.recovered (acknowledged) ──> commit

``FaustDelivery`` commits a request's offset after the answer was acknowledged. Every request is therefore answered at
least once, whenever a worker is killed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from seekpoint.consumers.heartbeats.progress_health import STALL_MAX_S, ProgressHealth
from seekpoint.consumers.kafka.faust_delivery import FaustDelivery, LeaderTimer
from seekpoint.consumers.recovery.dead_letters import DeadLetters
from seekpoint.consumers.recovery.recovery import Recovery
from seekpoint.consumers.recovery_service.answering import PublishState, RequestAnswerer, is_now
from seekpoint.consumers.recovery_service.exchange import KafkaExchange
from seekpoint.consumers.recovery_service.open_requests import RequestAudit
from seekpoint.consumers.recovery_service.stored_states import StoredStates
from seekpoint.schemas.bodies.entry import id_text
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import RequestTimeout, SeekpointError, UndecodableRecord
from seekpoint.schemas.log.log_ports import Record
from seekpoint.schemas.log.manifest import refuse_older_format
from seekpoint.schemas.log.recovery_requests import (
    RecoveryAnswer,
    RecoveryRequest,
    decode_request,
    encode_answer,
)
from seekpoint.schemas.values.clock import now_us

if TYPE_CHECKING:
    from seekpoint.consumers.kafka.kafka_reader import KafkaReader


@dataclass(slots=True)
class ServiceFigures:
    """Counters of a worker since its start."""

    answered: int = 0
    """Requests answered with a state."""
    failed: int = 0
    """Requests answered with an error."""
    expired: int = 0
    """Requests read after their deadline."""
    undecodable: int = 0
    """Records that are no requests."""
    checkpoints: int = 0
    checkpoint_failures: int = 0
    answer_seconds: float = 0.0
    """The sum of the times from reading a request to its acknowledged answer."""
    open_requests: int = 0
    """Open requests of the whole group, counted by its leader; 0 elsewhere."""
    unanswered: int = 0
    """Requests whose deadline passed without an answer, counted by the leader."""


RequestCheckpoint = Callable[[str], Awaitable[None]]
"""Requests a checkpoint of a process and waits for it, so that the next recovery of the process is short."""

_HOUSEKEEPING_INTERVAL_S = 10.0
_RETRY_S = 1.0
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
        self._audit = RequestAudit(self._exchange)
        self.delivery = FaustDelivery(
            self._reader,
            app_name=f"{settings.journal}.recovery",
            topic="recover",
            handle=self._answer,
            health=self.health,
            timers=[LeaderTimer("housekeeping", _HOUSEKEEPING_INTERVAL_S, self._audit_requests)],
        )
        """The Faust app and the group of recovery services."""

    # --- life -----------------------------------------------------------------------------------------------------
    async def start(self) -> RecoveryService:
        """Check the journal and its topics, join the group and start answering."""
        try:
            limits = await asyncio.to_thread(lambda: self._reader.limits)
            refuse_older_format(self._reader.name, self._reader.journal_format)
            await asyncio.to_thread(self._exchange.end, "recover", 0)  # Faust only logs a warning if a topic is missing
            await asyncio.to_thread(self._exchange.end, "recovered", 0)
            self._answerer = RequestAnswerer(self._recovery, limits, self.node_id, self._publish_state)
            await self.delivery.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def run(self, stop: asyncio.Event | None = None) -> None:
        """Answer until ``stop`` is set. Raises ``JournalUnavailable`` if Faust ends: start the worker again."""
        await self.delivery.run(stop)

    async def close(self) -> None:
        """Leave the group and close connections. The next reader of an unanswered request answers it."""
        for task in self._checkpointing.values():
            task.cancel()
        await asyncio.gather(*self._checkpointing.values(), return_exceptions=True)
        await self.delivery.close()
        await self._stored_states.close()
        self._recovery.close()
        await asyncio.to_thread(self._reader.close)

    async def __aenter__(self) -> RecoveryService:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # --- requests -----------------------------------------------------------------------------------------------------
    async def _answer(self, record: Record) -> None:
        """Answer one request and wait for the acknowledgement."""
        began = time.perf_counter()
        request = await self._decoded(record)
        if request is not None:
            answer = await self._answerer.answer(request)
            await self._send(answer, self._reply_partition(request, record))
            self._count(answer, time.perf_counter() - began)
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
                await asyncio.to_thread(self._dead_letters.add, record, exc)
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
                await self.delivery.app.producer.send_and_wait(topic, key, encode_answer(answer), partition, None, None)
                return
            except asyncio.CancelledError:
                raise
            except Exception as exc:  # of aiokafka: the request is not answered yet
                _logger.warning("an answer was not accepted, trying again: %s", self.settings.scrub(repr(exc)))
                await asyncio.sleep(_RETRY_S)

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
    async def _audit_requests(self) -> None:
        """On the leader: count the open requests of the whole group and log those that were never answered."""
        try:
            await asyncio.to_thread(self._audit.read)
        except SeekpointError as exc:
            _logger.warning("open requests cannot be counted: %s", exc)
            return
        late = self._audit.requests.expire(now_us())
        self.figures.open_requests = len(self._audit.requests)
        self.figures.unanswered += len(late)
        for request_id in late:
            _logger.warning("request %s was not answered before its deadline", id_text(request_id))
