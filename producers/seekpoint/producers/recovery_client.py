"""Requests to a recovery consumer, for programs that may not or do not want to read the journal themselves."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor
from datetime import datetime
from functools import partial
from typing import TypeVar

from seekpoint.consumers.recovery_service.answering import Answered, open_answer, point_of
from seekpoint.consumers.recovery_service.exchange import Exchange
from seekpoint.schemas.bodies.entry import id_text, new_id, process_key
from seekpoint.schemas.errors import RequestTimeout, Retryable, UndecodableRecord
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.log.recovery_requests import RecoveryAnswer, RecoveryRequest, decode_answer, encode_request
from seekpoint.schemas.values.clock import now_us
from seekpoint.schemas.values.process_ids import named_process_key

_RESEND_S = 5.0
_LOOK_MIN_S, _LOOK_MAX_S, _LOOK_GROWTH = 0.01, 0.2, 1.3
_logger = logging.getLogger("seekpoint.producers")

T = TypeVar("T")


class Requests:
    """The recovery requests of one node. A request is sent again, with the same id, until it is answered."""

    def __init__(self, exchange: Exchange, executor: Executor, resend_s: float = _RESEND_S) -> None:
        self._exchange = exchange
        self._executor = executor
        self._resend_s = resend_s

    async def recover(
        self,
        process_id: str,
        *,
        at_seq: int | None = None,
        at_offset: int | None = None,
        at_time: datetime | float | None = None,
        must_be_current: bool = False,
        timeout_s: float = 30.0,
    ) -> Answered:
        """Return the state of a process as a recovery consumer finds it; see ``Node.request_recovery``."""
        point = point_of(at_seq=at_seq, at_offset=at_offset, at_time=at_time)
        now = now_us()
        deadline = now + round(timeout_s * 1_000_000)
        named_process_key(process_id)
        request = RecoveryRequest(
            id=new_id(), process_id=process_id, must_be_current=must_be_current, deadline=deadline, ts=now, **point
        )
        try:
            async with asyncio.timeout(timeout_s):
                answer = await self._ask(request)
        except TimeoutError as exc:
            raise RequestTimeout(
                f"no answer within {timeout_s:g} s", process_id=process_id, request_id=id_text(request.id)
            ) from exc
        return open_answer(answer)

    async def _ask(self, request: RecoveryRequest) -> RecoveryAnswer:
        key = process_key(request.process_id)
        partition = partition_of(key, await self._run(lambda: self._exchange.partitions))
        # Read before the request is sent: no answer can lie below this offset.
        start = await self._insist(lambda: self._exchange.end("recovered", partition))
        while True:
            await self._insist(lambda: self._exchange.send("recover", partition, key, encode_request(request)))
            answer, start = await self._wait(request.id, partition, start)
            if answer is not None:
                return answer

    async def _wait(self, request_id: bytes, partition: int, start: int) -> tuple[RecoveryAnswer | None, int]:
        """Return the answer if it arrives before the request is sent again, and the offset to read on from."""
        due, pause_s = time.monotonic() + self._resend_s, _LOOK_MIN_S
        while time.monotonic() < due:
            records, start = await self._insist(partial(self._exchange.read, "recovered", partition, start))
            for record in records:
                try:
                    answer = decode_answer(record.value, self._exchange.limits)
                except UndecodableRecord as exc:
                    _logger.warning("%d:%d is no answer: %s", partition, record.offset, exc.message)
                    continue
                if answer.id == request_id:
                    return answer, start
            await asyncio.sleep(pause_s)
            pause_s = min(_LOOK_MAX_S, pause_s * _LOOK_GROWTH)
        return None, start

    async def _insist(self, call: Callable[[], T]) -> T:
        """Return the result of ``call``. Try again while Kafka does not answer; the caller's timeout ends that."""
        while True:
            try:
                return await self._run(call)
            except Retryable as exc:
                _logger.warning("Kafka is asked again: %s", exc)
                await asyncio.sleep(_LOOK_MAX_S)

    async def _run(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)
