"""Entries to bytes: the writing half of the codec, by hand and for the current schema only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from seekpoint.schemas.bodies import BODIES, Body
from seekpoint.schemas.bodies.entry import Entry, process_key
from seekpoint.schemas.errors import LimitExceeded, UnserializableValue
from seekpoint.schemas.wire import avro_primitives as avro
from seekpoint.schemas.wire.avro_primitives import Put, optional_put, put_long
from seekpoint.schemas.wire.avro_schema import SCHEMA_FINGERPRINT

if TYPE_CHECKING:
    from seekpoint.schemas.config.limits import Limits

__all__ = ["HEADER", "MAGIC", "encode", "encode_within", "is_entry", "key_part"]

MAGIC = b"\xc3\x01"
HEADER = MAGIC + SCHEMA_FINGERPRINT
"""What every record of the current schema begins with."""

_put_optional_text = optional_put(avro.put_text)
_put_optional_id = optional_put(avro.put_id)


def encode(entry: Entry) -> bytes:
    """``entry`` in the single-object encoding of the current schema. The caller checks sizes against the limits.

    Raises ``InvalidName`` for an id that is none, ``UnserializableValue`` for a text that UTF-8 cannot carry, a number
    beyond 64 bits, or a value of another type than its field's.
    """
    entry_id, process_id, seq, epoch, claim_id, prev_offset, ts, actor, caused_by, correlation_id, body = entry
    out = bytearray(HEADER)
    try:
        avro.put_id(out, entry_id)
        out += _process_part(process_id)
        out += b"\0" if seq is None else b"\2" + _long_part(seq)
        out += _owner_part(epoch, claim_id)
        out += b"\0" if prev_offset is None else b"\2" + _long_part(prev_offset)
        out += _number_part(ts)
        if actor is None and caused_by is None and correlation_id is None:
            out += b"\0\0\0"  # the three branches "null": what most entries have
        else:
            _put_optional_text(out, actor)
            _put_optional_id(out, caused_by)
            _put_optional_text(out, correlation_id)
        _WRITERS[type(body)](out, body)
    except (ValueError, TypeError, AttributeError) as exc:
        kind = getattr(body, "KIND", None)
        raise UnserializableValue(f"an entry that cannot be written: {exc}", process_id=process_id, kind=kind) from exc
    return bytes(out)


def encode_within(entry: Entry, key: bytes, limits: Limits) -> bytes:
    """The same, for a record with ``key``. ``LimitExceeded`` if it is too large for the journal.

    Before anything is sent: the broker would refuse it, and all that left with it.
    """
    value = encode(entry)
    size = len(value) + len(key)
    if size > limits.record_bytes and not (entry.body.RESTORES and size <= limits.restoring_bytes):
        raise LimitExceeded(
            "the entry is larger than the journal's record limit", process_id=entry.process_id, kind=entry.kind,
            bytes=len(value), limit=limits.restoring_bytes if entry.body.RESTORES else limits.record_bytes,
        )  # fmt: skip
    return value


def is_entry(data: bytes | None, entry_id: bytes) -> bool:
    """Whether ``data`` is the entry with this id, as this code wrote it: its id comes first."""
    return data is not None and data.startswith(HEADER) and data.startswith(entry_id, len(HEADER))


_STAMP_MIN, _STAMP_END = 1 << 48, 1 << 55  # microseconds from 1978 to 3111: always eight bytes


def _number_part(value: int) -> bytes:
    return _stamp_part(value) if _STAMP_MIN <= value < _STAMP_END else _long_part(value)


def _stamp_part(ts: int) -> bytes:
    """A time stamp of our age, without the loop: half the time."""
    r = ts << 1
    return bytes(
        (
            r & 0x7F | 0x80,
            r >> 7 & 0x7F | 0x80,
            r >> 14 & 0x7F | 0x80,
            r >> 21 & 0x7F | 0x80,
            r >> 28 & 0x7F | 0x80,
            r >> 35 & 0x7F | 0x80,
            r >> 42 & 0x7F | 0x80,
            r >> 49,
        )
    )


def _any_long_part(value: int) -> bytes:
    out = bytearray()
    put_long(out, value)
    return bytes(out)


_SHORT_PARTS = tuple(map(_any_long_part, range(512)))


def _long_part(value: int) -> bytes:
    """A number: most lengths and seqs are small, most offsets have three or four bytes."""
    if 0 <= value < 512:
        return _SHORT_PARTS[value]
    if 0 <= value < 1 << 20:
        r = value << 1
        if r < 1 << 14:
            return bytes((r & 0x7F | 0x80, r >> 7))
        return bytes((r & 0x7F | 0x80, r >> 7 & 0x7F | 0x80, r >> 14))
    if 0 <= value < 1 << 27:
        r = value << 1
        return bytes((r & 0x7F | 0x80, r >> 7 & 0x7F | 0x80, r >> 14 & 0x7F | 0x80, r >> 21))
    return _any_long_part(value)


@lru_cache(maxsize=16_384)
def _owner_part(epoch: int, claim_id: bytes | None) -> bytes:
    """Epoch and claim: the same for all that an owner writes."""
    out = bytearray()
    put_long(out, epoch)
    _put_optional_id(out, claim_id)
    return bytes(out)


@lru_cache(maxsize=16_384)
def _process_part(process_id: str) -> bytes:
    key = process_key(process_id)
    out = bytearray()
    put_long(out, len(key))
    return bytes(out) + key


@lru_cache(maxsize=16_384)
def key_part(key: bytes) -> bytes:
    """A process's id, as its key has it, as an entry carries it."""
    return _process_part(key.decode())


# --- bodies -----------------------------------------------------------------------------------------------------------
WriteBody: TypeAlias = Callable[[bytearray, Any], None]

_PUTS: Mapping[str, Put] = {
    "bool": avro.put_bool,
    "bytes": avro.put_id,
    "bytes | None": _put_optional_id,
    "Mapping[str, Json]": avro.put_texts,
}
"""What is seldom in a body. Texts and numbers are written in place: a call a field would double the time."""

_TEXT = """
data = value.encode()
out += long_part(len(data))
out += data
"""

_NUMBER = """
out += number_part(value)
"""

_OPTIONAL = """
if value is None:
    out += b"\\0"
else:
    out += b"\\2"
"""


def _body_writer(branch: int, body: type[Body]) -> WriteBody:
    """A function that writes the number of the body's kind and its fields one after the other, compiled once."""
    names: dict[str, Any] = {"branch": _any_long_part(branch), "long_part": _long_part, "number_part": _number_part}
    lines = ["out += branch"]
    for field in fields(body):
        kind = str(field.type)
        lines.append(f"value = body.{field.name}")
        one, _, no = kind.partition(" | ")
        if one in ("str", "Json", "int"):
            put = _NUMBER if one == "int" else _TEXT
            lines += (_OPTIONAL + put.replace("\n", "\n    ").rstrip(" ") if no else put).splitlines()
        else:
            names[f"put_{field.name}"] = _PUTS[kind]
            lines.append(f"put_{field.name}(out, value)")
    exec("def write(out, body):\n    " + "\n    ".join(lines), names)  # as dataclasses does it
    found: WriteBody = names["write"]
    return found


def _first_writer(branch: int, body: type[Body]) -> WriteBody:
    """Made when the first such body is written: fifty of them would cost every start some milliseconds."""

    def first(out: bytearray, value: Any) -> None:
        _WRITERS[body] = _body_writer(branch, body)
        _WRITERS[body](out, value)

    return first


_WRITERS: dict[type[Body], WriteBody] = {body: _first_writer(branch, body) for branch, body in enumerate(BODIES)}
