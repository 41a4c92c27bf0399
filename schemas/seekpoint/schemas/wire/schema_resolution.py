"""Schema resolution: read entries of another schema, of an older release or of a newer one with the same format.

A writer schema is compiled once into a reader made of the bounded readers of ``avro_primitives``. A general schema
interpreter trusts the bytes: deep nesting crashes it, and it loops over empty items. Bodies only gain fields with
defaults (``compatibility`` checks it). So a field with the same name has the same type, a missing field gets its
default, and an unknown field is dropped.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields
from functools import partial
from typing import Any, TypeAlias

from seekpoint.schemas.bodies import BODIES, Body
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.errors import JournalMismatch, NewerFormat
from seekpoint.schemas.log.manifest import FORMAT
from seekpoint.schemas.wire.avro_primitives import Get, get_bool, get_long, get_text
from seekpoint.schemas.wire.avro_schema import schema_json

EntryReader: TypeAlias = Callable[[bytes, int, bool], tuple[Entry, int]]
"""(record, position, whether only a body that restores a state may be so large) -> (entry, next position)."""

_BODIES = {body.__name__: body for body in BODIES}
_ENVELOPE_DEFAULTS: Mapping[str, Any] = dict.fromkeys(Entry._fields) | {"epoch": 0, "ts": 0}
_REQUIRED = ("id", "process_id", "body")
_TEXT_MAX = 1 << 19
"""Fifteen times the length of this release's schema."""


def entry_reader(text: str, fingerprint: bytes) -> EntryReader:
    """Return a reader of entries written with the schema ``text``.

    Raises ``NewerFormat`` if the schema has a newer format or bodies that this code does not know, and
    ``JournalMismatch`` if it is no schema of entries.
    """
    try:
        if len(text) > _TEXT_MAX:
            raise ValueError(f"a schema of more than {_TEXT_MAX} characters")
        schema = json.loads(text)
        return _entry_reader(strip_metadata(schema), _known_format(schema))
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError) as exc:
        raise JournalMismatch(
            "a writer schema in the schemas topic cannot be used", fingerprint=fingerprint.hex(), cause=repr(exc)[:200]
        ) from exc


def _known_format(schema: Any) -> int:
    written = int(schema.get("format", 1))
    if written > FORMAT:
        raise NewerFormat("an entry of a newer format than this reader knows", format=written, known=FORMAT)
    return written


def refuse_newer_format(text: str) -> None:
    """Raise ``NewerFormat`` if the registered schema ``text`` has a newer format. Ignore a text that is no schema."""
    with suppress(ValueError, TypeError, AttributeError, RecursionError):
        _known_format(json.loads(text))


def _entry_reader(schema: Any, written: int) -> EntryReader:
    known, found = record_fields(strip_metadata(json.loads(schema_json()))), record_fields(schema)
    for name in found.keys() & known.keys():
        _check_same(name, found[name], known[name])
    if missing := [name for name in _REQUIRED if name not in found["Entry"]]:
        raise ValueError(f"Entry lacks {', '.join(missing)}")
    if unknown := {_short(body) for body in found["Entry"]["body"]} - _BODIES.keys():
        raise NewerFormat(
            "a writer has bodies that this reader does not know", bodies=", ".join(sorted(unknown)), format=written
        )
    return partial(_read_entry, compiled_reader(schema, {}), compiled_reader(_head(schema), {}), _restoring(schema))


def _head(schema: Any) -> Any:
    """Return ``schema`` up to the number of the body's kind, to read these fields before the body of a large record."""
    names = [field["name"] for field in schema["fields"]]
    return {**schema, "fields": [*schema["fields"][: names.index("body")], {"name": "body", "type": "long"}]}


def _restoring(schema: Any) -> frozenset[int]:
    """Return the branch numbers of the kinds that restore a state, in ``schema``."""
    [union] = [field["type"] for field in schema["fields"] if field["name"] == "body"]
    return frozenset(number for number, body in enumerate(union) if _BODIES[_short(body)].RESTORES)


def _read_entry(
    get: Get, get_head: Get, restoring: frozenset[int], data: bytes, at: int, is_large: bool
) -> tuple[Entry, int]:
    if is_large and get_head(data, at)[0]["body"] not in restoring:
        raise ValueError("larger than the journal's record limit")
    raw, at = get(data, at)
    found = {name: raw.get(name, default) for name, default in _ENVELOPE_DEFAULTS.items()}
    name, values = found["body"]
    return Entry(**found | {"body": _body(_BODIES[name], values)}), at


def _body(kind: type[Body], values: Mapping[str, Any]) -> Body:
    return kind(**{field.name: values[field.name] for field in fields(kind) if field.name in values})


# --- the structure of a schema ----------------------------------------------------------------------------------------
def strip_metadata(schema: Any) -> Any:
    """Return ``schema`` without what does not change the bytes: docs, defaults, orders, aliases, logical types.

    Without its logical type, a timestamp is read as the integer that it is.
    """
    if isinstance(schema, list):
        return [strip_metadata(member) for member in schema]
    if not isinstance(schema, dict):
        return schema
    stripped = {key: strip_metadata(schema[key]) for key in ("type", "items", "values", "fields") if key in schema}
    stripped |= {key: schema[key] for key in ("name", "namespace", "size", "symbols") if key in schema}
    # {"type": "long", "logicalType": …} is "long".
    return stripped["type"] if set(stripped) == {"type"} else stripped


def _short(schema: Any) -> str:
    name = schema["name"] if isinstance(schema, dict) else schema
    return str(name).rpartition(".")[2]


def record_fields(schema: Any) -> dict[str, dict[str, Any]]:
    """Return the types of all fields by record and field, for a schema without metadata; named types by name only."""
    found: dict[str, dict[str, Any]] = {}

    def walk(node: Any) -> Any:
        if isinstance(node, list):
            return [walk(member) for member in node]
        if not isinstance(node, dict):
            return _short(node)
        if node["type"] == "record":
            found[_short(node)] = types = {}
            types.update({field["name"]: walk(field["type"]) for field in node["fields"]})
        if "name" in node:
            return _short(node)
        return {key: walk(value) for key, value in node.items()}

    walk(schema)
    return found


def _check_same(record: str, written: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    for name in written.keys() & known.keys():
        if (record, name) != ("Entry", "body") and written[name] != known[name]:
            raise ValueError(f"{record}.{name} is {written[name]}, not {known[name]}")


# --- compiling a schema -----------------------------------------------------------------------------------------------
def compiled_reader(schema: Any, named: dict[str, Get | None]) -> Get:
    """Return the reader of ``schema``. A reference to an unfinished named type is a recursion, which is refused."""
    if isinstance(schema, list):
        return _union([(_short(member), compiled_reader(member, named)) for member in schema])
    if isinstance(schema, str):
        get = _PRIMITIVES.get(schema) or named.get(_short(schema))
        if get is None:
            raise ValueError(f"an unknown or recursive type: {schema[:80]!r}")
        return get
    if "name" in schema:
        named[_short(schema)] = None
    get = _COMPLEX[schema["type"]](schema, named)
    if "name" in schema:
        named[_short(schema)] = get
    return get


def _union(branches: list[tuple[str, Get]]) -> Get:
    nullable = any(name == "null" for name, _ in branches)

    def get_union(data: bytes, at: int) -> tuple[Any, int]:
        index, at = get_long(data, at)
        if not 0 <= index < len(branches):
            raise ValueError("a union has no such branch")
        name, get = branches[index]
        value, at = get(data, at)
        return (value, at) if nullable else ((name, value), at)

    return get_union


def _paid_reader(schema: Any, named: dict[str, Get | None]) -> Get:
    """Return the reader of a part of a value. Each part must cost a byte, so the record's length limits their number.

    Otherwise a small schema nests types that cost none, and one record has billions of parts.
    """
    get = compiled_reader(schema, named)
    if get in (_get_null, _get_empty):
        raise ValueError(f"a part that costs no byte: {str(schema)[:80]}")
    return get


def _record(schema: Any, named: dict[str, Get | None]) -> Get:
    members = [(str(field["name"]), _paid_reader(field["type"], named)) for field in schema["fields"]]
    if not members:
        return _get_empty

    def get_record(data: bytes, at: int) -> tuple[Any, int]:
        values = {}
        for name, get in members:
            values[name], at = get(data, at)
        return values, at

    return get_record


def _fixed(schema: Any, named: dict[str, Get | None]) -> Get:
    if (size := int(schema["size"])) < 1:
        raise ValueError("a fixed type without a byte")
    return _raw(size)


def _enum(schema: Any, named: dict[str, Get | None]) -> Get:
    symbols = [str(symbol) for symbol in schema["symbols"]]

    def get_enum(data: bytes, at: int) -> tuple[Any, int]:
        index, at = get_long(data, at)
        if not 0 <= index < len(symbols):
            raise ValueError("an enum has no such symbol")
        return symbols[index], at

    return get_enum


def _array(schema: Any, named: dict[str, Get | None]) -> Get:
    return partial(_blocks, _paid_reader(schema["items"], named))


def _map(schema: Any, named: dict[str, Get | None]) -> Get:
    get_value = _paid_reader(schema["values"], named)

    def get_member(data: bytes, at: int) -> tuple[Any, int]:
        key, at = get_text(data, at)
        value, at = get_value(data, at)
        return (key, value), at

    def get_map(data: bytes, at: int) -> tuple[Any, int]:
        members, at = _blocks(get_member, data, at)
        return dict(members), at

    return get_map


def _blocks(get: Get, data: bytes, at: int) -> tuple[Any, int]:
    """Read the items of an array or a map. Each takes a byte, so the record's length limits any count in it."""
    items: list[Any] = []
    while True:
        count, at = get_long(data, at)
        if count == 0:
            return items, at
        if count < 0:
            count = -count
            _, at = get_long(data, at)
        for _ in range(count):
            item, at = get(data, at)
            items.append(item)


def _raw(size: int) -> Get:
    def get_raw(data: bytes, at: int) -> tuple[Any, int]:
        end = at + size
        if end > len(data):
            raise ValueError("a value is longer than its record")
        return data[at:end], end

    return get_raw


def _number(layout: str) -> Get:
    packed = struct.Struct(layout)
    get_bytes = _raw(packed.size)

    def get_number(data: bytes, at: int) -> tuple[Any, int]:
        raw, at = get_bytes(data, at)
        return packed.unpack(raw)[0], at

    return get_number


def _get_null(data: bytes, at: int) -> tuple[Any, int]:
    return None, at


def _get_empty(data: bytes, at: int) -> tuple[Any, int]:
    return {}, at


def _get_bytes(data: bytes, at: int) -> tuple[Any, int]:
    size, at = get_long(data, at)
    if size < 0:
        raise ValueError("a value has a negative length")
    return _raw(size)(data, at)


_PRIMITIVES: Mapping[str, Get] = {
    "null": _get_null,
    "boolean": get_bool,
    "int": get_long,
    "long": get_long,
    "float": _number("<f"),
    "double": _number("<d"),
    "bytes": _get_bytes,
    "string": get_text,
}
_COMPLEX: Mapping[str, Callable[[Any, dict[str, Get | None]], Get]] = {
    "record": _record,
    "fixed": _fixed,
    "enum": _enum,
    "array": _array,
    "map": _map,
}
