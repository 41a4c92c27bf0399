"""Entries to bytes and back: Avro single-object encoding (``C3 01``, CRC-64-AVRO fingerprint, body).

The envelope and the bodies of the current schema are read and written by hand, two to three times as fast as through a
schema interpreter (facts: 6 against 9 µs a write); fastavro reads what was written with another schema, and is the
oracle of the tests. Untrusted bytes cost at most the record limit in time and memory: every length is checked before
it is used, all bytes must be consumed, and every failure is one ``UndecodableRecord``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import lru_cache
from importlib import resources
from io import BytesIO
from typing import Any

from seekpoint.schemas.bodies import BODIES, Body
from seekpoint.schemas.entry import Entry
from seekpoint.schemas.errors import JournalMismatch, LimitExceeded, NewerFormat, UndecodableRecord
from seekpoint.schemas.limits import DEFAULT_LIMITS, Limits
from seekpoint.schemas.manifest import FORMAT
from seekpoint.schemas.values import check

__all__ = ["SCHEMA_FINGERPRINT", "Codec", "encode", "schema_json"]

MAGIC = b"\xc3\x01"
SCHEMA_FINGERPRINT = bytes.fromhex("62fb3bbcf40c1c06")
"""CRC-64-AVRO of the current schema's parsing canonical form, little-endian; a test compares it with fastavro's."""

_HEADER = MAGIC + SCHEMA_FINGERPRINT
_ID_BYTES = 16
_NAMESPACE = "seekpoint"


# --- writing ----------------------------------------------------------------------------------------------------------
def encode(entry: Entry) -> bytes:
    """``entry`` in the single-object encoding of the current schema. The caller checks sizes against the limits."""
    out = bytearray(_HEADER)
    out += entry.id
    _put_text(out, entry.process_id)
    _put_optional_long(out, entry.seq)
    _put_long(out, entry.epoch)
    _put_optional_id(out, entry.claim_id)
    _put_optional_long(out, entry.prev_offset)
    _put_long(out, entry.ts)
    _put_optional_text(out, entry.actor)
    _put_optional_id(out, entry.caused_by)
    _put_optional_text(out, entry.correlation_id)
    body = entry.body
    branch, writers = _WRITERS[type(body)]
    out += branch
    for name, put in writers:
        put(out, getattr(body, name))
    return bytes(out)


def _put_long(out: bytearray, value: int) -> None:
    rest = value << 1 if value >= 0 else (-value << 1) - 1
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)


def _put_text(out: bytearray, text: str) -> None:
    data = text.encode()
    _put_long(out, len(data))
    out += data


def _put_id(out: bytearray, value: bytes) -> None:
    out += value


def _put_bool(out: bytearray, value: bool) -> None:
    out.append(value)


def _put_texts(out: bytearray, texts: Mapping[str, str]) -> None:
    if texts:
        _put_long(out, len(texts))
        for key, text in texts.items():
            _put_text(out, key)
            _put_text(out, text)
    out.append(0)


def _optional(put: Callable[[bytearray, Any], None]) -> Callable[[bytearray, Any], None]:
    def put_optional(out: bytearray, value: Any) -> None:
        if value is None:
            out.append(0)
        else:
            out.append(2)
            put(out, value)

    return put_optional


_put_optional_long = _optional(_put_long)
_put_optional_text = _optional(_put_text)
_put_optional_id = _optional(_put_id)


# --- reading: every reader takes (data, position) and gives (value, next position) ------------------------------------
def _get_long(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    at += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at
    rest = byte & 0x7F
    shift = 7
    while byte > 0x7F:
        byte = data[at]
        at += 1
        rest |= (byte & 0x7F) << shift
        shift += 7
    if rest >> 64:
        raise ValueError("a number has more than 64 bits")
    return (rest >> 1) ^ -(rest & 1), at


def _get_text(data: bytes, at: int) -> tuple[str, int]:
    size, at = _get_long(data, at)
    end = at + size
    if size < 0 or end > len(data):
        raise ValueError("a text is longer than its record")
    return data[at:end].decode(), end


def _get_id(data: bytes, at: int) -> tuple[bytes, int]:
    end = at + _ID_BYTES
    if end > len(data):
        raise ValueError("an id is longer than its record")
    return data[at:end], end


def _get_bool(data: bytes, at: int) -> tuple[bool, int]:
    if data[at] > 1:
        raise ValueError("a boolean is neither 0 nor 1")
    return data[at] == 1, at + 1


def _get_texts(data: bytes, at: int) -> tuple[dict[str, str], int]:
    texts: dict[str, str] = {}
    while True:
        count, at = _get_long(data, at)
        if count == 0:
            return texts, at
        if count < 0:
            count = -count
            _, at = _get_long(data, at)
        if count > len(data) - at:
            raise ValueError("a map has more members than its record has bytes")
        for _ in range(count):
            key, at = _get_text(data, at)
            texts[key], at = _get_text(data, at)


def _optional_reader(get: Callable[[bytes, int], tuple[Any, int]]) -> Callable[[bytes, int], tuple[Any, int]]:
    def get_optional(data: bytes, at: int) -> tuple[Any, int]:
        branch = data[at]
        if branch == 0:
            return None, at + 1
        if branch == 2:
            return get(data, at + 1)
        raise ValueError("a union has no such branch")

    return get_optional


_get_optional_long = _optional_reader(_get_long)
_get_optional_text = _optional_reader(_get_text)
_get_optional_id = _optional_reader(_get_id)

_BY_TYPE: Mapping[str, tuple[Callable[[bytearray, Any], None], Callable[[bytes, int], tuple[Any, int]]]] = {
    "str": (_put_text, _get_text),
    "Json": (_put_text, _get_text),
    "int": (_put_long, _get_long),
    "bool": (_put_bool, _get_bool),
    "bytes": (_put_id, _get_id),
    "str | None": (_put_optional_text, _get_optional_text),
    "Json | None": (_put_optional_text, _get_optional_text),
    "int | None": (_put_optional_long, _get_optional_long),
    "bytes | None": (_put_optional_id, _get_optional_id),
    "Mapping[str, Json]": (_put_texts, _get_texts),
}


def _branch(index: int) -> bytes:
    out = bytearray()
    _put_long(out, index)
    return bytes(out)


_WRITERS = {
    body: (_branch(index), tuple((field.name, _BY_TYPE[str(field.type)][0]) for field in fields(body)))
    for index, body in enumerate(BODIES)
}
_READERS = tuple((body, tuple(_BY_TYPE[str(field.type)][1] for field in fields(body))) for body in BODIES)
_JSON_FIELDS = {
    body: tuple(index for index, field in enumerate(fields(body)) if "Json" in str(field.type)) for body in BODIES
}
_BY_NAME = {body.__name__: body for body in BODIES}


def _decode_current(data: bytes, limits: Limits) -> Entry:
    at = len(_HEADER)
    entry_id, at = _get_id(data, at)
    process_id, at = _get_text(data, at)
    seq, at = _get_optional_long(data, at)
    epoch, at = _get_long(data, at)
    claim_id, at = _get_optional_id(data, at)
    prev_offset, at = _get_optional_long(data, at)
    ts, at = _get_long(data, at)
    actor, at = _get_optional_text(data, at)
    caused_by, at = _get_optional_id(data, at)
    correlation_id, at = _get_optional_text(data, at)
    branch, at = _get_long(data, at)
    if not 0 <= branch < len(_READERS):
        raise ValueError("the union has no such body")
    body_type, readers = _READERS[branch]
    values = []
    for get in readers:
        value, at = get(data, at)
        values.append(value)
    if at != len(data):
        raise ValueError("bytes are left over")
    _check_json(body_type, values, limits)
    return Entry(
        entry_id, process_id, seq, epoch, claim_id, prev_offset, ts, actor, caused_by, correlation_id, body_type(*values)
    )


def _check_json(body_type: type[Body], values: list[Any], limits: Limits) -> None:
    for index in _JSON_FIELDS[body_type]:
        value = values[index]
        if type(value) is dict:
            for text in value.values():
                check(text, limits)
        elif value is not None:
            check(value, limits)


# --- the schema and its relatives -------------------------------------------------------------------------------------
@lru_cache(maxsize=1)
def schema_json() -> str:
    """The current schema, whole, as JSON: what is put into ``NAME.schemas`` and what any Avro tool reads."""
    folder = resources.files("seekpoint.schemas") / "avsc"
    seen: set[str] = set()

    def inline(node: Any) -> Any:
        if isinstance(node, list):
            return [inline(member) for member in node]
        if isinstance(node, dict):
            return {name: inline(value) if name in ("type", "fields") else value for name, value in node.items()}
        if isinstance(node, str) and node.startswith(f"{_NAMESPACE}.") and node not in seen:
            seen.add(node)
            return inline(json.loads((folder / f"{node}.avsc").read_text()))
        return node

    return json.dumps(inline(f"{_NAMESPACE}.Entry"), separators=(",", ":"))


class Codec:
    """Decodes entries of one journal: its limits, and every schema it was ever written with.

    ``refresh`` re-reads the journal's schemas to their end; it is asked before a fingerprint is called unknown.
    """

    def __init__(
        self,
        limits: Limits = DEFAULT_LIMITS,
        schemas: Mapping[bytes, str] | None = None,
        refresh: Callable[[], Mapping[bytes, str]] | None = None,
    ) -> None:
        self.limits = limits
        self._schemas = dict(schemas or {})
        self._parsed: dict[bytes, Any] = {}
        self._refresh = refresh

    def decode(self, data: bytes | None) -> Entry:
        """The entry in ``data``.

        Raises ``UndecodableRecord`` for anything that is none within the limits, ``NewerFormat`` for a registered
        schema of a newer format (the reader must stop, not skip), ``JournalUnavailable`` if the schemas cannot be read.
        """
        if data is None:
            raise UndecodableRecord("a record without a value")
        if len(data) > self.limits.record_bytes:
            raise UndecodableRecord("larger than the journal's record limit", bytes=len(data))
        try:
            if data.startswith(_HEADER):
                return _decode_current(data, self.limits)
            return self._decode_other(data)
        except (ValueError, IndexError, LimitExceeded) as exc:
            raise UndecodableRecord(f"not an entry: {exc or type(exc).__name__}") from exc

    def _decode_other(self, data: bytes) -> Entry:
        if not data.startswith(MAGIC):
            raise ValueError("no Avro single-object header")
        writer = self._schema_of(data[2:10])
        import fastavro  # only what was written with another schema needs the interpreter: 35 ms of import

        stream = BytesIO(data[10:])
        try:
            raw: Any = fastavro.schemaless_reader(stream, writer, _reader_schema(), return_record_name=True)
        except Exception as exc:  # fastavro raises whatever the bytes provoke; one error type leaves here
            raise ValueError(f"{type(exc).__name__}: {exc}") from exc
        if stream.tell() != len(data) - 10:
            raise ValueError("bytes are left over")
        return self._typed(raw)

    def _typed(self, raw: Any) -> Entry:
        body_name, body = raw.pop("body")
        body_type = _BY_NAME[body_name.rpartition(".")[2]]
        values = [body[field.name] for field in fields(body_type)]
        _check_json(body_type, values, self.limits)
        return Entry(body=body_type(*values), **raw)

    def _schema_of(self, fingerprint: bytes) -> Any:
        if fingerprint in self._parsed:
            return self._parsed[fingerprint]
        if fingerprint not in self._schemas and self._refresh is not None:
            self._schemas = dict(self._refresh())
        text = self._schemas.get(fingerprint)
        if text is None:
            raise ValueError(f"no schema with the fingerprint {fingerprint.hex()}")
        self._parsed[fingerprint] = _parse(text, fingerprint)
        return self._parsed[fingerprint]


def _parse(text: str, fingerprint: bytes) -> Any:
    import fastavro

    try:
        schema = json.loads(text)
        written = int(schema.get("format", 1))
        if written > FORMAT:
            raise NewerFormat("an entry of a newer format than this reader knows", format=written, known=FORMAT)
        return fastavro.parse_schema(_plain(schema))
    except (ValueError, TypeError, AttributeError, KeyError, fastavro.schema.SchemaParseException) as exc:
        raise JournalMismatch("a writer schema cannot be parsed", fingerprint=fingerprint.hex()) from exc


def _plain(schema: Any) -> Any:
    """``schema`` without logical types: a time stamp stays the integer it is, whatever a calendar thinks of it."""
    if isinstance(schema, list):
        return [_plain(member) for member in schema]
    if isinstance(schema, dict):
        return {name: _plain(value) for name, value in schema.items() if name != "logicalType"}
    return schema


@lru_cache(maxsize=1)
def _reader_schema() -> Any:
    import fastavro

    return fastavro.parse_schema(_plain(json.loads(schema_json())))
