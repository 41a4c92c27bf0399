"""Entries on the wire: as the Avro library writes them, and pieces of bytes that are none."""

from __future__ import annotations

import json
from dataclasses import asdict
from io import BytesIO
from typing import Any

import fastavro

from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.errors import UndecodableRecord
from seekpoint.schemas.wire.avro_primitives import put_long
from seekpoint.schemas.wire.codec import SCHEMA_FINGERPRINT, Codec, schema_json
from seekpoint.schemas.wire.schema_resolution import strip_metadata

__all__ = [
    "DECODE_SECONDS_MAX",
    "ENDLESS",
    "HEADER",
    "ORACLE",
    "WHOLE",
    "as_fastavro",
    "by_fastavro",
    "decode_or_none",
    "wire_long",
]

WHOLE = json.loads(schema_json())
ORACLE = fastavro.parse_schema(strip_metadata(WHOLE))
HEADER = b"\xc3\x01" + SCHEMA_FINGERPRINT
ENDLESS = b"\xff" * 1_000_000
"""A number that does not end."""
DECODE_SECONDS_MAX = 2.0
"""What decoding anything may take."""


def as_fastavro(entry: Entry) -> dict[str, Any]:
    """The entry as fastavro's values."""
    body = (f"seekpoint.{type(entry.body).__name__}", asdict(entry.body))
    return {**entry._asdict(), "body": body}


def by_fastavro(data: bytes, writer: Any) -> Any:
    """What fastavro reads of it with our schema; its way to name the types of ids in unions undone."""
    found: Any = fastavro.schemaless_reader(BytesIO(data), writer, ORACLE, return_record_name=True)
    name, body = found["body"]
    return {**_without_names(found), "body": (name, _without_names(body))}


def _without_names(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value[1] if type(value) is tuple else value for name, value in record.items()}


def decode_or_none(data: bytes, codec: Codec | None = None) -> Entry | None:
    """The entry, or None where the bytes are none. Anything else that is raised fails the test."""
    try:
        return (codec or Codec()).decode(data)
    except UndecodableRecord:
        return None


def wire_long(value: int) -> bytes:
    """A number as Avro writes it."""
    out = bytearray()
    put_long(out, value)
    return bytes(out)
