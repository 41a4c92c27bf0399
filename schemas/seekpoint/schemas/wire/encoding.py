"""The encoder of entries: hand-written, for the current schema only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from seekpoint.schemas.bodies import BODIES, Body
from seekpoint.schemas.bodies.entry import Entry, process_key
from seekpoint.schemas.errors import LimitExceeded, UnserializableValue
from seekpoint.schemas.frozen_struct import field_types
from seekpoint.schemas.wire import avro_primitives as avro
from seekpoint.schemas.wire.avro_primitives import Put, optional_put, put_long
from seekpoint.schemas.wire.avro_schema import SCHEMA_FINGERPRINT

if TYPE_CHECKING:
    from seekpoint.schemas.config.limits import Limits

__all__ = ["HEADER", "MAGIC", "encode", "encode_within", "encoded_process_id", "is_entry"]

MAGIC = b"\xc3\x01"
HEADER = MAGIC + SCHEMA_FINGERPRINT
"""The first bytes of every record of the current schema."""

_put_optional_text = optional_put(avro.put_text)
_put_optional_id = optional_put(avro.put_id)


def encode(entry: Entry) -> bytes:
    """Encode ``entry`` as an Avro single object of the current schema. The caller checks sizes against the limits.

    Raises ``InvalidName`` for an illegal id, ``UnserializableValue`` for a text with a lone surrogate, a number
    beyond 64 bits, or a value of the wrong type.
    """
    entry_id, process_id, seq, epoch, claim_id, prev_offset, ts, actor, caused_by, correlation_id, body = entry
    out = bytearray(HEADER)
    try:
        avro.put_id(out, entry_id)
        out += _encode_process_id(process_id)
        out += b"\0" if seq is None else b"\2" + _encode_long(seq)
        out += _encode_owner(epoch, claim_id)
        out += b"\0" if prev_offset is None else b"\2" + _encode_long(prev_offset)
        out += _encode_number(ts)
        if actor is None and caused_by is None and correlation_id is None:
            out += b"\0\0\0"  # three times the branch "null", as in most entries
        else:
            _put_optional_text(out, actor)
            _put_optional_id(out, caused_by)
            _put_optional_text(out, correlation_id)
        _WRITERS[type(body)](out, body)
    except (ValueError, TypeError, AttributeError) as exc:
        facts: dict[str, Any] = {"process_id": process_id, "kind": getattr(body, "KIND", None)}
        if isinstance(exc, UnicodeEncodeError):
            message, hint = "a text with a lone surrogate cannot be journaled", "leave out what is no character"
            raise UnserializableValue(message, path=_surrogate_in(entry, "$"), hint=hint, **facts) from exc
        raise UnserializableValue(f"the entry cannot be encoded: {exc}", **facts) from exc
    return bytes(out)


def _surrogate_in(value: Any, path: str) -> str:
    """Return the path to a text that UTF-8 cannot carry, or an empty one. Fields of the body have no prefix."""
    if isinstance(value, str):
        return "" if value == value.encode("utf-8", "ignore").decode() else path
    names: tuple[str, ...] = getattr(value, "_fields", ()) or getattr(value, "__struct_fields__", ())
    items = [(f"{path}.{name}".replace("$.body", "$"), getattr(value, name)) for name in names]
    if isinstance(value, Mapping):
        items = [(f"{path}[{key!a}]", part) for key, item in value.items() for part in (key, item)]
    elif not names and isinstance(value, list | tuple):
        items = [(f"{path}[{at}]", item) for at, item in enumerate(value)]
    return next((found for name, item in items if (found := _surrogate_in(item, name))), "")


def encode_within(entry: Entry, key: bytes, limits: Limits) -> bytes:
    """Encode ``entry`` for a record with ``key``. Raises ``LimitExceeded`` if it is too large for the journal.

    Check this before sending: the broker would refuse the record, and with it the whole batch.
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
    """Return whether ``data`` is an entry of the current schema with this id, which is its first field."""
    return data is not None and data.startswith(HEADER) and data.startswith(entry_id, len(HEADER))


_TIMESTAMP_MIN, _TIMESTAMP_END = 1 << 48, 1 << 55  # microseconds from 1978 to 3111: always eight bytes


def _encode_number(value: int) -> bytes:
    return _encode_timestamp(value) if _TIMESTAMP_MIN <= value < _TIMESTAMP_END else _encode_long(value)


def _encode_timestamp(ts: int) -> bytes:
    """Encode a present-day timestamp without a loop, in half the time."""
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


def _encode_any_long(value: int) -> bytes:
    out = bytearray()
    put_long(out, value)
    return bytes(out)


_SHORT_LONGS = tuple(map(_encode_any_long, range(512)))


def _encode_long(value: int) -> bytes:
    """Encode a number fast: most lengths and seqs are small, most offsets have three or four bytes."""
    if 0 <= value < 512:
        return _SHORT_LONGS[value]
    if 0 <= value < 1 << 20:
        r = value << 1
        if r < 1 << 14:
            return bytes((r & 0x7F | 0x80, r >> 7))
        return bytes((r & 0x7F | 0x80, r >> 7 & 0x7F | 0x80, r >> 14))
    if 0 <= value < 1 << 27:
        r = value << 1
        return bytes((r & 0x7F | 0x80, r >> 7 & 0x7F | 0x80, r >> 14 & 0x7F | 0x80, r >> 21))
    return _encode_any_long(value)


@lru_cache(maxsize=16_384)
def _encode_owner(epoch: int, claim_id: bytes | None) -> bytes:
    """Encode epoch and claim, which are the same in all entries of an owner."""
    out = bytearray()
    put_long(out, epoch)
    _put_optional_id(out, claim_id)
    return bytes(out)


@lru_cache(maxsize=16_384)
def _encode_process_id(process_id: str) -> bytes:
    key = process_key(process_id)
    out = bytearray()
    put_long(out, len(key))
    return bytes(out) + key


@lru_cache(maxsize=16_384)
def encoded_process_id(key: bytes) -> bytes:
    """Return the encoding of a process id in an entry, given the Kafka key of the process."""
    return _encode_process_id(key.decode())


# --- bodies -----------------------------------------------------------------------------------------------------------
WriteBody: TypeAlias = Callable[[bytearray, Any], None]

_PUTS: Mapping[str, Put] = {
    "bool": avro.put_bool,
    "bytes": avro.put_id,
    "Data": avro.put_data,
    "bytes | None": _put_optional_id,
    "Mapping[str, Json]": avro.put_texts,
}
"""The writers of rare field types. Texts and numbers are written inline: a call per field would double the time."""

_TEXT = """
data = value.encode()
out += encode_long(len(data))
out += data
"""

_NUMBER = """
out += encode_number(value)
"""

_OPTIONAL = """
if value is None:
    out += b"\\0"
else:
    out += b"\\2"
"""


def _body_writer(branch: int, body: type[Body]) -> WriteBody:
    """Return a generated function that writes the number of the body's kind and then its fields in order."""
    names: dict[str, Any] = {
        "branch": _encode_any_long(branch),
        "encode_long": _encode_long,
        "encode_number": _encode_number,
    }
    lines = ["out += branch"]
    for name, kind in field_types(body).items():
        lines.append(f"value = body.{name}")
        type_name, _, optional = kind.partition(" | ")
        if type_name in ("str", "Json", "int"):
            put = _NUMBER if type_name == "int" else _TEXT
            lines += (_OPTIONAL + put.replace("\n", "\n    ").rstrip(" ") if optional else put).splitlines()
        else:
            names[f"put_{name}"] = _PUTS[kind]
            lines.append(f"put_{name}(out, value)")
    exec("def write(out, body):\n    " + "\n    ".join(lines), names)  # as dataclasses does it
    found: WriteBody = names["write"]
    return found


def _first_writer(branch: int, body: type[Body]) -> WriteBody:
    """Return a writer that compiles the real one when it is first called, to save milliseconds at import."""

    def first(out: bytearray, value: Any) -> None:
        _WRITERS[body] = _body_writer(branch, body)
        _WRITERS[body](out, value)

    return first


_WRITERS: dict[type[Body], WriteBody] = {body: _first_writer(branch, body) for branch, body in enumerate(BODIES)}
