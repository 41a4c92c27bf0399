"""Read as much of a damaged record as its schema explains: the fields before the first one that cannot be read.

This is for people who look at dead letters. Nothing that it returns is an entry: no reader applies it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.wire.avro_primitives import Get, get_long
from seekpoint.schemas.wire.avro_schema import schema_json
from seekpoint.schemas.wire.encoding import HEADER, MAGIC
from seekpoint.schemas.wire.schema_resolution import compiled_reader, strip_metadata

_BYTES_MAX = 1_048_576
_CHARS_MAX = 2_000
_TEXT_CHARS_MAX = 4_000


class PartialEntry(FrozenStruct, frozen=True, kw_only=True):
    """A guess at the entry that the bytes of a damaged record held."""

    form: str
    """In words: an entry of a known schema, of an unknown one, text, or bytes of no known form."""
    fields: tuple[tuple[str, str], ...] = ()
    """The fields that could be read, in their order, each as text and shortened."""
    read_bytes: int = 0
    """How many bytes they explain, the header included."""
    problem: str = ""
    """Why reading ended there; empty: all bytes are explained."""
    text: str | None = None
    """The bytes that no field explains, as text and shortened; None: there are none. What is no UTF-8 is escaped."""


def partial_entry(data: bytes | None, schemas: Mapping[bytes, str]) -> PartialEntry:
    """Return what can be read of ``data``. ``schemas`` are the journal's writer schemas by fingerprint.

    At most the first MiB is read, so time and memory are bounded. It never raises for any bytes.
    """
    if not data:
        return PartialEntry(form="a record without a value" if data is None else "an empty value")
    if not data.startswith(MAGIC):
        return _of_no_entry(data)
    fingerprint = data[len(MAGIC) : len(HEADER)]
    text = schemas.get(fingerprint)
    name = f"an entry of the schema {fingerprint.hex()}"
    is_current = data.startswith(HEADER)
    if text is None:
        name += "" if is_current else ", which the journal does not have; read as this version's own"
        text = schema_json()
    return _fields(name, data[:_BYTES_MAX], len(data), text)


def _of_no_entry(data: bytes) -> PartialEntry:
    text = _as_text(data)
    if data[0] == 0 and len(data) >= 5:
        number = int.from_bytes(data[1:5], "big")
        form = f"perhaps a record of a schema registry: a zero byte, then the schema id {number}"
        return PartialEntry(form=form, text=text)
    try:
        data[:_BYTES_MAX].decode()
    except UnicodeDecodeError as exc:
        if len(data) <= _BYTES_MAX or exc.start < _BYTES_MAX - 3:  # the end of the first MiB may cut a character
            return PartialEntry(form="bytes of no known form: neither the header of an entry nor UTF-8", text=text)
    return PartialEntry(form="text without the header of an entry", text=text)


def _as_text(data: bytes) -> str:
    text = data[: 4 * _TEXT_CHARS_MAX].decode(errors="backslashreplace")
    return text if len(text) <= _TEXT_CHARS_MAX else f"{text[:_TEXT_CHARS_MAX]}…"


def _fields(form: str, data: bytes, size: int, schema: str) -> PartialEntry:
    found: list[tuple[str, str]] = []
    at = len(HEADER)
    problem = ""
    try:
        for name, value, end in _read(data, at, strip_metadata(json.loads(schema))):
            found.append((name, _shown(value)))
            at = end
        if at < size:
            problem = f"{size - at} bytes are left over"
    except (ValueError, IndexError, TypeError, LookupError, RecursionError) as exc:
        problem = "the record ends here" if isinstance(exc, IndexError) else str(exc) or type(exc).__name__
    rest = _as_text(data[at:]) if problem else None
    return PartialEntry(form=form, fields=tuple(found), read_bytes=at, problem=problem, text=rest)


def _read(data: bytes, at: int, schema: Any) -> Iterator[tuple[str, Any, int]]:
    """Yield each field of an entry with the position behind it; those of its body one by one."""
    named: dict[str, Get | None] = {}
    for field in schema["fields"]:
        name, kind = str(field["name"]), field["type"]
        if name == "body" and isinstance(kind, list):
            branch, at = get_long(data, at)
            if not 0 <= branch < len(kind):
                raise ValueError(f"the union has no body with the number {branch}")
            yield "body", str(kind[branch]["name"]).rpartition(".")[2], at
            for _, member in zip(range(branch), kind, strict=False):
                compiled_reader(member, named)  # a later body may name a type that an earlier one defines
            for part in kind[branch]["fields"]:
                value, at = compiled_reader(part["type"], named)(data, at)
                yield f"body.{part['name']}", value, at
        else:
            value, at = compiled_reader(kind, named)(data, at)
            yield name, value, at


def _shown(value: Any) -> str:
    """Return a value as text: bytes in hex, the rest as JSON."""
    if isinstance(value, bytes):
        text = value.hex()
    elif isinstance(value, str):
        text = value
    else:
        text = json.dumps(value, ensure_ascii=False, default=lambda other: other.hex())
    return text if len(text) <= _CHARS_MAX else f"{text[:_CHARS_MAX]}…"
