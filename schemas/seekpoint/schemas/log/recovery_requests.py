"""The messages of the recovery service: requests in the topic ``NAME.recover``, answers in ``NAME.recovered``.

They are messages of a service, not entries: a journal's history never rests on them (``wire.service_messages``).
"""

from __future__ import annotations

from seekpoint.schemas.config.limits import DEFAULT_LIMITS, Limits
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.wire.service_messages import (
    FLAG,
    ID,
    LONG,
    OPTIONAL_LONG,
    OPTIONAL_TEXT,
    TEXT,
    MessageForm,
)


class RecoveryRequest(FrozenStruct, frozen=True, kw_only=True):
    """A request for the present state of a process, or a past one. Times are microseconds since 1970."""

    id: bytes
    """16 bytes; a repeated request has the same id."""
    process_id: str
    at_seq: int | None = None
    at_offset: int | None = None
    at_time: int | None = None
    must_be_current: bool = False
    """Whether to answer with an error, not an older state, if an open transaction hides the end of the partition."""
    deadline: int
    """The time, by the requester's clock, after which nobody waits for an answer."""
    reply_partition: int | None = None
    """The partition of ``NAME.recovered`` for the answer; None: the number of the request's own partition."""
    ts: int


class RecoveryAnswer(FrozenStruct, frozen=True, kw_only=True):
    """The answer to a request: a state with its report, or an error. It may be delivered more than once."""

    id: bytes
    """The id of the request."""
    process_id: str
    report: str | None = None
    """JSON of ``Report.to_dict()``; None if the recovery failed."""
    hash: str | None = None
    state: str | None = None
    """JSON of the whole state (``State.from_bytes``); None after an error, or if it does not fit into a record."""
    place: str | None = None
    """The place where a state that does not fit into a record was stored."""
    error: str | None = None
    """The class of the error; None if there is a state."""
    message: str = ""
    hint: str = ""
    facts: str = "{}"
    """JSON of the error's facts."""
    answered_by: str = ""
    ts: int


REQUEST = MessageForm(
    "af1e3cf07ba9bd43",
    id=ID, process_id=TEXT, at_seq=OPTIONAL_LONG, at_offset=OPTIONAL_LONG, at_time=OPTIONAL_LONG, must_be_current=FLAG,
    deadline=LONG, reply_partition=OPTIONAL_LONG, ts=LONG,
)  # fmt: skip
ANSWER = MessageForm(
    "6633d5e8ba35a07e",
    id=ID, process_id=TEXT, report=OPTIONAL_TEXT, hash=OPTIONAL_TEXT, state=OPTIONAL_TEXT, place=OPTIONAL_TEXT,
    error=OPTIONAL_TEXT, message=TEXT, hint=TEXT, facts=TEXT, answered_by=TEXT, ts=LONG,
)  # fmt: skip


def encode_request(request: RecoveryRequest) -> bytes:
    """Encode ``request`` as an Avro single object. Raises ``InvalidName``, ``UnserializableValue``."""
    return REQUEST.encode(request)


def encode_answer(answer: RecoveryAnswer) -> bytes:
    """Encode ``answer`` as an Avro single object. The caller checks its size. Raises as ``encode_request`` does."""
    return ANSWER.encode(answer)


def decode_request(data: bytes | None, limits: Limits = DEFAULT_LIMITS) -> RecoveryRequest:
    """Decode the request in ``data``. Raises ``UndecodableRecord`` if it is none."""
    return REQUEST.decode(data, RecoveryRequest, limits)


def decode_answer(data: bytes | None, limits: Limits = DEFAULT_LIMITS) -> RecoveryAnswer:
    """Decode the answer in ``data``. Raises ``UndecodableRecord`` if it is none."""
    return ANSWER.decode(data, RecoveryAnswer, limits)
