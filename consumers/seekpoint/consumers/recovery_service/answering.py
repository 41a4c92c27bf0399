"""Answer recovery requests, and decode answers for the requester.

This module does not read requests: ``recovery_service`` reads them from Kafka with Faust, and tests pass them in.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from seekpoint.consumers.recovery.points import NOW, Point
from seekpoint.consumers.recovery.recovery import Recovery
from seekpoint.consumers.recovery.recovery_report import Recovered
from seekpoint.schemas import errors
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.errors import RequestTimeout, SeekpointError, UndecodableRecord
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.log.recovery_requests import RecoveryAnswer, RecoveryRequest, encode_answer
from seekpoint.schemas.state.process_state import State
from seekpoint.schemas.values.clock import now_us

PublishState = Callable[[str, Recovered], Awaitable[str | None]]
"""Stores a state that is too large for an answer where the requester can read it. Returns the place, or None."""

_ERRORS = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, SeekpointError)
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FACTS_BYTES_MAX = 4096
_TEXT_CHARS_MAX = 2000
_logger = logging.getLogger("seekpoint.consumers.recovery_service.answering")


class Answered(FrozenStruct, frozen=True, kw_only=True):
    """The result of a recovery by another node."""

    process_id: str
    state: State | None
    """None if it did not fit into the answer: then ``place`` may name where it is."""
    hash: str
    """The hash of the state. If the answer contains the state, the hash was compared."""
    report: dict[str, Any]
    """``Report.to_dict()`` of the node that recovered the process."""
    place: str | None
    answered_by: str


class RequestAnswerer:
    """Answers requests for one node. It never raises for a request: an error becomes the answer."""

    def __init__(
        self,
        recovery: Recovery,
        limits: Limits,
        node_id: str,
        publish_state: PublishState | None = None,
        clock: Callable[[], int] = now_us,
    ) -> None:
        self._recovery = recovery
        self._limits = limits
        self._node_id = node_id
        self._publish_state = publish_state
        self._clock = clock
        self.found: Recovered | None = None
        """The recovered process of the newest answer; None if that answer is an error."""

    async def answer(self, request: RecoveryRequest) -> RecoveryAnswer:
        """Return the state or the error. A request whose deadline has passed is not recovered."""
        self.found = None
        try:
            if request.deadline <= self._clock():
                raise RequestTimeout(
                    "the request's deadline had passed when it was read", process_id=request.process_id
                )
            found = await self._recovery.recover(
                request.process_id,
                at_seq=request.at_seq,
                at_offset=request.at_offset,
                at_time=None if request.at_time is None else _EPOCH + timedelta(microseconds=request.at_time),
                must_be_current=request.must_be_current,
            )
            answer = await self._answer_with(request, found)
            self.found = found
            return answer
        except SeekpointError as exc:
            return self._failed(request, exc)
        except Exception as exc:
            trace = self._recovery.settings.scrub("".join(traceback.format_exception(exc)))
            _logger.error("a requested recovery failed: %s", trace)
            return self._failed(request, SeekpointError(f"unexpected {type(exc).__name__}: {exc}"))

    async def _answer_with(self, request: RecoveryRequest, found: Recovered) -> RecoveryAnswer:
        whole = RecoveryAnswer(
            id=request.id,
            process_id=request.process_id,
            report=orjson.dumps(found.report.to_dict()).decode(),
            hash=found.state.hash,
            state=found.state.to_bytes().decode(),
            answered_by=self._node_id,
            ts=self._clock(),
        )
        if self._fits(whole):
            return whole
        if self._publish_state is None or not is_now(request):  # a published state is as of now
            return replace(whole, state=None)
        return replace(whole, state=None, place=await self._publish_state(request.process_id, found))

    def _fits(self, answer: RecoveryAnswer) -> bool:
        return len(encode_answer(answer)) + len(answer.process_id.encode()) <= self._limits.record_bytes

    def _failed(self, request: RecoveryRequest, error: SeekpointError) -> RecoveryAnswer:
        scrub = self._recovery.settings.scrub
        facts = scrub(orjson.dumps(error.facts, default=str, option=orjson.OPT_NON_STR_KEYS).decode())
        return RecoveryAnswer(
            id=request.id,
            process_id=request.process_id,
            error=type(error).__name__,
            message=_text(scrub(error.message)),
            hint=_text(scrub(error.hint)),
            facts=facts if len(facts) <= _FACTS_BYTES_MAX else "{}",
            answered_by=self._node_id,
            ts=self._clock(),
        )


def _text(text: str) -> str:
    """Return the text as valid UTF-8, short enough to leave room for the rest of the record."""
    return text.encode(errors="replace").decode()[:_TEXT_CHARS_MAX]


def is_now(request: RecoveryRequest) -> bool:
    """Return whether the request is about the present, not about a point in the past."""
    return (request.at_seq, request.at_offset, request.at_time) == (None, None, None)


def open_answer(answer: RecoveryAnswer) -> Answered:
    """Decode an answer. Raises the error of the recovery, with its class.

    Raises ``UndecodableRecord`` if the answer has neither state nor error, or its state has another hash.
    """
    if answer.error is not None:
        raise _error(answer)
    if answer.hash is None or answer.report is None:
        raise UndecodableRecord("an answer without hash or report", process_id=answer.process_id)
    state = None if answer.state is None else State.from_bytes(answer.state.encode())
    if state is not None and state.hash != answer.hash:
        raise UndecodableRecord(
            "the state in an answer does not have the answer's hash", process_id=answer.process_id, found=state.hash
        )
    return Answered(
        process_id=answer.process_id,
        state=state,
        hash=answer.hash,
        report=_object(answer.report),
        place=answer.place,
        answered_by=answer.answered_by,
    )


def _error(answer: RecoveryAnswer) -> SeekpointError:
    name = answer.error or ""
    kind = _ERRORS.get(name)
    facts = {**_object(answer.facts), "answered_by": answer.answered_by}
    message = answer.message if kind else f"{name}: {answer.message}"
    return (kind or SeekpointError).restored(message, facts.pop("hint", None) or answer.hint, facts)


def _object(text: str) -> dict[str, Any]:
    """Decode a JSON object. Raises ``UndecodableRecord`` for anything else."""
    try:
        found = orjson.loads(text)
    except ValueError as exc:
        raise UndecodableRecord("an answer contains text that is no JSON", found=text[:80]) from exc
    if not isinstance(found, dict):
        raise UndecodableRecord("an answer contains JSON that is no object", found=text[:80])
    return found


def point_of(*, at_seq: int | None, at_offset: int | None, at_time: datetime | float | None) -> dict[str, int | None]:
    """Return the point as fields of a request. Raises ``UnknownPoint`` for an impossible one."""
    point = Point(seq=at_seq, offset=at_offset, time=at_time)
    if point == NOW or point.time is None:
        return {"at_seq": at_seq, "at_offset": at_offset, "at_time": None}
    if isinstance(point.time, datetime):
        return {"at_seq": None, "at_offset": None, "at_time": (point.time - _EPOCH) // timedelta(microseconds=1)}
    return {"at_seq": None, "at_offset": None, "at_time": round(point.time * 1_000_000)}
