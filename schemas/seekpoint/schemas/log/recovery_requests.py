"""The messages of the recovery service: requests in the topic ``NAME.recover``, answers in ``NAME.recovered``.

They are no entries: a journal's history does not depend on them. They are framed like entries (``C3 01``, CRC-64-AVRO
fingerprint, Avro body), but their schemas are not registered in ``NAME.schemas``. If they were, a request written into
the journal's topic would stop its readers instead of becoming a dead letter. The schemas ship as ``.avsc`` files.
The decoders treat their input as untrusted: they check every length, require that all bytes are consumed, and raise
``UndecodableRecord`` for any failure.
"""

from __future__ import annotations

from typing import Any, TypeVar

from seekpoint.schemas.bodies.entry import process_key
from seekpoint.schemas.config.limits import DEFAULT_LIMITS, Limits
from seekpoint.schemas.errors import InvalidName, UndecodableRecord, UnserializableValue
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.wire import avro_primitives as avro
from seekpoint.schemas.wire.avro_primitives import Get, Put, optional_get, optional_put

__all__ = [
    "ANSWER_FINGERPRINT",
    "REQUEST_FINGERPRINT",
    "RecoveryAnswer",
    "RecoveryRequest",
    "decode_answer",
    "decode_request",
    "encode_answer",
    "encode_request",
]

REQUEST_FINGERPRINT = bytes.fromhex("af1e3cf07ba9bd43")
ANSWER_FINGERPRINT = bytes.fromhex("6633d5e8ba35a07e")
"""The CRC-64-AVRO of each schema's parsing canonical form, little-endian. A test compares them with fastavro's."""

_MAGIC = b"\xc3\x01"


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


_Fields = tuple[tuple[str, Put, Get], ...]
_Message = TypeVar("_Message", RecoveryRequest, RecoveryAnswer)

_ID = (avro.put_id, avro.get_id)
_TEXT = (avro.put_text, avro.get_text)
_LONG = (avro.put_long, avro.get_long)
_FLAG = (avro.put_bool, avro.get_bool)
_OPTIONAL_TEXT = (optional_put(avro.put_text), optional_get(avro.get_text))
_OPTIONAL_LONG = (optional_put(avro.put_long), optional_get(avro.get_long))


_REQUEST: _Fields = (
    ("id", *_ID),
    ("process_id", *_TEXT),
    ("at_seq", *_OPTIONAL_LONG),
    ("at_offset", *_OPTIONAL_LONG),
    ("at_time", *_OPTIONAL_LONG),
    ("must_be_current", *_FLAG),
    ("deadline", *_LONG),
    ("reply_partition", *_OPTIONAL_LONG),
    ("ts", *_LONG),
)
_ANSWER: _Fields = (
    ("id", *_ID),
    ("process_id", *_TEXT),
    ("report", *_OPTIONAL_TEXT),
    ("hash", *_OPTIONAL_TEXT),
    ("state", *_OPTIONAL_TEXT),
    ("place", *_OPTIONAL_TEXT),
    ("error", *_OPTIONAL_TEXT),
    ("message", *_TEXT),
    ("hint", *_TEXT),
    ("facts", *_TEXT),
    ("answered_by", *_TEXT),
    ("ts", *_LONG),
)


def encode_request(request: RecoveryRequest) -> bytes:
    """Encode ``request`` as an Avro single object. Raises ``InvalidName``, ``UnserializableValue``."""
    return _encode(request, REQUEST_FINGERPRINT, _REQUEST)


def encode_answer(answer: RecoveryAnswer) -> bytes:
    """Encode ``answer`` as an Avro single object. The caller checks its size. Raises as ``encode_request`` does."""
    return _encode(answer, ANSWER_FINGERPRINT, _ANSWER)


def decode_request(data: bytes | None, limits: Limits = DEFAULT_LIMITS) -> RecoveryRequest:
    """Decode the request in ``data``. Raises ``UndecodableRecord`` if it is none."""
    return _decode(data, REQUEST_FINGERPRINT, _REQUEST, RecoveryRequest, limits)


def decode_answer(data: bytes | None, limits: Limits = DEFAULT_LIMITS) -> RecoveryAnswer:
    """Decode the answer in ``data``. Raises ``UndecodableRecord`` if it is none."""
    return _decode(data, ANSWER_FINGERPRINT, _ANSWER, RecoveryAnswer, limits)


def _encode(message: RecoveryRequest | RecoveryAnswer, fingerprint: bytes, layout: _Fields) -> bytes:
    process_key(message.process_id)
    out = bytearray(_MAGIC + fingerprint)
    try:
        for name, put, _ in layout:
            put(out, getattr(message, name))
    except ValueError as exc:
        raise UnserializableValue(f"the message cannot be encoded: {exc}", process_id=message.process_id) from exc
    return bytes(out)


def _decode(data: bytes | None, fingerprint: bytes, layout: _Fields, kind: type[_Message], limits: Limits) -> _Message:
    if data is None:
        raise UndecodableRecord("a record without a value")
    if len(data) > limits.record_bytes:
        raise UndecodableRecord("larger than the journal's record limit", bytes=len(data))
    header = _MAGIC + fingerprint
    if not data.startswith(header):
        raise UndecodableRecord(f"no {kind.__name__}: the header is another", found=data[: len(header)].hex())
    values: dict[str, Any] = {}
    at = len(header)
    try:
        for name, _, get in layout:
            values[name], at = get(data, at)
        process_key(values["process_id"])
    except (ValueError, IndexError, InvalidName) as exc:
        raise UndecodableRecord(f"no {kind.__name__}: {exc or type(exc).__name__}") from exc
    if at != len(data):
        raise UndecodableRecord(f"no {kind.__name__}: bytes are left over")
    return kind(**values)
