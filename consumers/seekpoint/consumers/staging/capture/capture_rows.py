"""The rows of a capture, from its Avro object container. A file may be anybody's: every length is checked first.

Only what Seekpoint writes is read: the schema of a capture, in blocks that are not compressed. So a file never takes
much more memory than its largest record, and never more than the bounds below allow.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from seekpoint.schemas.dataclass import dataclass
from seekpoint.schemas.errors import ReplayRefused
from seekpoint.schemas.wire.avro_primitives import get_long, get_text

__all__ = ["RECORD_BYTES_MAX", "SCHEMA", "Header", "read_header", "read_rows"]

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Captured",
    "namespace": "seekpoint",
    "doc": "One record of a Kafka topic, and where it lay.",
    "fields": [
        {"name": "partition", "type": "int"},
        {"name": "offset", "type": "long"},
        {"name": "source_partition", "type": "int", "doc": "Differs from partition where keys were masked or renamed."},
        {"name": "source_offset", "type": "long"},
        {"name": "timestamp_ms", "type": "long"},
        {"name": "key", "type": ["null", "bytes"]},
        {"name": "value", "type": ["null", "bytes"]},
        {
            "name": "headers",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Header",
                    "fields": [{"name": "name", "type": "string"}, {"name": "value", "type": ["null", "bytes"]}],
                },
            },
        },
    ],
}

RECORD_BYTES_MAX = 32 * 1_048_576
"""What a record's value takes at most, in a capture."""
_BLOCK_BYTES_MAX = 2 * RECORD_BYTES_MAX
"""A block is written once it has 16 kB: it is hardly larger than its last record."""
_META_BYTES_MAX = 16 * 1_048_576
_HEADERS_MAX = 100_000
_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_LONG_BYTES_MAX = 10


@dataclass(frozen=True, slots=True)
class Header:
    """What a container says before its first block."""

    meta: Mapping[str, bytes]
    sync: bytes


def read_header(file: BinaryIO) -> Header:
    """Read the header. Raises ``ValueError`` or ``IndexError`` for a file that is no capture, ``ReplayRefused`` for one
    whose blocks are compressed."""
    if file.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("it is no Avro object container")
    meta: dict[str, bytes] = {}
    left = _META_BYTES_MAX
    while count := _long(file):
        if count < 0:
            _long(file)  # the size of the block, for readers that skip it
        for _ in range(abs(count)):
            name, value = _bytes(file, left), _bytes(file, left)
            left -= len(name) + len(value) + 2
            meta[name.decode()] = value
    _check_codec(meta)
    _check_schema(meta)
    return Header(meta, _exactly(file, _SYNC_BYTES))


def read_rows(file: BinaryIO) -> Iterator[dict[str, Any]]:
    """Read the rows, one by one. Raises as ``read_header``."""
    sync = read_header(file).sync
    while (start := file.read(1)) != b"":
        file.seek(-len(start), 1)
        count, size = _long(file), _long(file)
        if not 0 <= size <= _BLOCK_BYTES_MAX:
            raise ValueError("a block is larger than any that is written")
        data, at = _exactly(file, size), 0
        for _ in range(count):
            row, at = _row(data, at)
            yield row
        if at != size or _exactly(file, _SYNC_BYTES) != sync:
            raise ValueError("a block does not end where it says")


def _check_codec(meta: Mapping[str, bytes]) -> None:
    codec = meta.get("avro.codec", b"null")
    if codec != b"null":
        raise ReplayRefused(
            "the blocks of the capture are compressed", codec=codec.decode(errors="replace")[:40],
            hint="write it anew without compression (Avro's codec null); compress the whole file to store it",
        )  # fmt: skip


def _check_schema(meta: Mapping[str, bytes]) -> None:
    from fastavro.schema import to_parsing_canonical_form  # 35 ms, for who has captures only

    if to_parsing_canonical_form(json.loads(meta["avro.schema"])) != to_parsing_canonical_form(SCHEMA):
        raise ValueError("its rows are not those of a capture")


def _row(data: bytes, at: int) -> tuple[dict[str, Any], int]:
    partition, at = get_long(data, at)
    offset, at = get_long(data, at)
    source_partition, at = get_long(data, at)
    source_offset, at = get_long(data, at)
    timestamp_ms, at = get_long(data, at)
    key, at = _optional(data, at)
    value, at = _optional(data, at)
    headers: list[dict[str, Any]] = []
    while data[at]:
        at = _add_headers(data, at, headers)
    row = {
        "partition": partition, "offset": offset, "source_partition": source_partition, "source_offset": source_offset,
        "timestamp_ms": timestamp_ms, "key": key, "value": value, "headers": headers,
    }  # fmt: skip
    return row, at + 1


def _add_headers(data: bytes, at: int, headers: list[dict[str, Any]]) -> int:
    """One block of the array; where the next one begins."""
    count, at = get_long(data, at)
    if count < 0:
        _, at = get_long(data, at)
    if len(headers) + abs(count) > _HEADERS_MAX:
        raise ValueError("a record has more headers than any that is read")
    for _ in range(abs(count)):
        name, at = get_text(data, at)
        value, at = _optional(data, at)
        headers.append({"name": name, "value": value})
    return at


def _optional(data: bytes, at: int) -> tuple[bytes | None, int]:
    if data[at] == 0:
        return None, at + 1
    if data[at] != 2:
        raise ValueError("neither bytes nor null")
    size, at = get_long(data, at + 1)
    end = at + size
    if size < 0 or end > len(data):
        raise ValueError("bytes are longer than their block")
    return data[at:end], end


def _long(file: BinaryIO) -> int:
    """A number: bytes are read up to the one that ends it."""
    data = b""
    while len(data) < _LONG_BYTES_MAX:
        byte = _exactly(file, 1)
        data += byte
        if byte < b"\x80":
            break
    return get_long(data, 0)[0]


def _bytes(file: BinaryIO, limit: int) -> bytes:
    size = _long(file)
    if not 0 <= size <= limit:
        raise ValueError("the header is larger than any that is written")
    return _exactly(file, size)


def _exactly(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) != size:
        raise ValueError("the file is cut off")
    return data
