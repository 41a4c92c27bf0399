"""Read the rows of a capture. The file may come from anybody, so each length is checked before it is used.

Only the schema of a capture is read, in uncompressed blocks. So reading takes little more memory than the largest
record, and never more than the bounds below.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from seekpoint.schemas.errors import ReplayRefused
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.wire.avro_primitives import get_long, get_text

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Captured",
    "namespace": "seekpoint",
    "doc": "One record of a Kafka topic, with its coordinates.",
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
"""The largest value of a record in a capture."""
_BLOCK_BYTES_MAX = 2 * RECORD_BYTES_MAX
"""A block is written once it has 16 kB, so it is hardly larger than its last record."""
_META_BYTES_MAX = 16 * 1_048_576
_HEADERS_MAX = 100_000
_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_LONG_BYTES_MAX = 10


class Header(FrozenStruct, frozen=True):
    """The header of a container."""

    meta: Mapping[str, bytes]
    sync: bytes


def read_header(file: BinaryIO) -> Header:
    """Read the header.

    Raises ``ValueError`` or ``IndexError`` if the file is not a capture, ``ReplayRefused`` if it is compressed.
    """
    if file.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("not an Avro object container")
    meta: dict[str, bytes] = {}
    left = _META_BYTES_MAX
    while count := _read_long(file):
        if count < 0:
            _read_long(file)  # the size of the block, for readers that skip it
        for _ in range(abs(count)):
            name, value = _read_bytes(file, left), _read_bytes(file, left)
            left -= len(name) + len(value) + 2
            meta[name.decode()] = value
    _check_codec(meta)
    _check_schema(meta)
    return Header(meta, _read_exactly(file, _SYNC_BYTES))


def read_rows(file: BinaryIO) -> Iterator[dict[str, Any]]:
    """Read the rows, one by one. Raises as ``read_header``."""
    sync = read_header(file).sync
    while (start := file.read(1)) != b"":
        file.seek(-len(start), 1)
        count, size = _read_long(file), _read_long(file)
        if not 0 <= size <= _BLOCK_BYTES_MAX:
            raise ValueError("a block is larger than Seekpoint writes")
        data, at = _read_exactly(file, size), 0
        for _ in range(count):
            row, at = _row(data, at)
            yield row
        if at != size or _read_exactly(file, _SYNC_BYTES) != sync:
            raise ValueError("a block does not have the size in its header")


def _check_codec(meta: Mapping[str, bytes]) -> None:
    codec = meta.get("avro.codec", b"null")
    if codec != b"null":
        raise ReplayRefused(
            "the blocks of the capture are compressed", codec=codec.decode(errors="replace")[:40],
            hint="write it again without compression (Avro's codec null); compress the whole file to store it",
        )  # fmt: skip


def _check_schema(meta: Mapping[str, bytes]) -> None:
    from fastavro.schema import to_parsing_canonical_form  # late: the import takes 35 ms

    if to_parsing_canonical_form(json.loads(meta["avro.schema"])) != to_parsing_canonical_form(SCHEMA):
        raise ValueError("the schema is not that of a capture")


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
    """Read one block of the array; return the position of the next one."""
    count, at = get_long(data, at)
    if count < 0:
        _, at = get_long(data, at)
    if len(headers) + abs(count) > _HEADERS_MAX:
        raise ValueError("a record has too many headers")
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


def _read_long(file: BinaryIO) -> int:
    """Read a number, byte by byte up to its last one."""
    data = b""
    while len(data) < _LONG_BYTES_MAX:
        byte = _read_exactly(file, 1)
        data += byte
        if byte < b"\x80":
            break
    return get_long(data, 0)[0]


def _read_bytes(file: BinaryIO, limit: int) -> bytes:
    size = _read_long(file)
    if not 0 <= size <= limit:
        raise ValueError("the header is larger than Seekpoint writes")
    return _read_exactly(file, size)


def _read_exactly(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) != size:
        raise ValueError("the file is cut off")
    return data
