"""Entries of other schemas: older ones, newer ones and invalid ones."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entry_examples import any_entry, own
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.errors import JournalMismatch, JournalUnavailable, NewerFormat
from seekpoint.schemas.log.manifest import FORMAT
from seekpoint.schemas.wire.codec import Codec, encode, schema_json
from seekpoint.schemas.wire.schema_resolution import strip_metadata
from wire_examples import DECODE_SECONDS_MAX, ENDLESS, as_fastavro, by_fastavro, decode_or_none, wire_long


def changed(change: Callable[[dict[str, Any]], None]) -> tuple[bytes, dict[str, Any]]:
    """Another writer's schema and its fingerprint."""
    schema = json.loads(schema_json())
    change(schema)
    canonical = fastavro.schema.to_parsing_canonical_form(schema)
    return bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO")), schema


def body_of(schema: dict[str, Any], name: str) -> dict[str, Any]:
    """The record of a body inside ``schema``, to be changed."""
    (union,) = [field["type"] for field in schema["fields"] if field["name"] == "body"]
    (found,) = [record for record in union if record["name"] == name]
    return found  # type: ignore[no-any-return]


def codec_for(fingerprint: bytes, schema: dict[str, Any]) -> Codec:
    """A codec of a journal that was also written with ``schema``."""
    return Codec(schemas={fingerprint: json.dumps(schema)})


def newer_release(schema: dict[str, Any]) -> None:
    """Fields that this code does not know yet, of every Avro type, in a body and in the envelope."""
    more = [
        {"name": "weight", "type": "double", "default": 0.0},
        {"name": "ratio", "type": "float", "default": 0.0},
        {"name": "blob", "type": "bytes", "default": ""},
        {"name": "small", "type": "int", "default": 0},
        {"name": "mood", "type": {"type": "enum", "name": "Mood", "symbols": ["CALM", "TENSE"]}, "default": "CALM"},
        {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}, "default": []},
        {"name": "sub", "type": {"type": "record", "name": "Sub", "fields": [{"name": "mood", "type": "Mood"}]}},
    ]
    body_of(schema, "MessageSaid")["fields"][1:1] = more
    schema["fields"].insert(2, {"name": "zone", "type": ["null", "string"], "default": None})


MORE = {
    "weight": 1.5,
    "ratio": 0.25,
    "blob": b"\x00\xff",
    "small": -3,
    "mood": "TENSE",
    "tags": [None, "a"],
    "sub": {"mood": "CALM"},
}


@given(any_entry(b.MessageSaid, b.ContextUpdatedMany))
def test_fields_of_a_newer_release_are_dropped(entry: Entry) -> None:
    """With the same format, the known fields have the values that fastavro's resolution gives."""
    fingerprint, schema = changed(newer_release)
    parsed = fastavro.parse_schema(strip_metadata(schema))
    raw = as_fastavro(entry) | {"zone": "eu"}
    if isinstance(entry.body, b.MessageSaid):
        raw["body"] = ("seekpoint.MessageSaid", raw["body"][1] | MORE)
    out = BytesIO()
    fastavro.schemaless_writer(out, parsed, raw)
    assert by_fastavro(out.getvalue(), parsed) == as_fastavro(entry)
    assert codec_for(fingerprint, schema).decode(b"\xc3\x01" + fingerprint + out.getvalue()) == entry


@given(any_entry(b.MessageSaid, b.Claim))
def test_fields_that_an_older_release_lacked_get_their_defaults(entry: Entry) -> None:
    """Entries from before a field was added have its default."""

    def older(schema: dict[str, Any]) -> None:
        for name in ("MessageSaid", "Claim"):
            del body_of(schema, name)["fields"][-1]
        del schema["fields"][-2]

    fingerprint, schema = changed(older)
    raw = as_fastavro(entry)
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(strip_metadata(schema)), raw)
    if isinstance(entry.body, b.MessageSaid):
        expected: b.Body = replace(entry.body, call=None)
    else:
        assert isinstance(entry.body, b.Claim)
        expected = replace(entry.body, definition=None)
    found = codec_for(fingerprint, schema).decode(b"\xc3\x01" + fingerprint + out.getvalue())
    assert found == entry._replace(correlation_id=None, body=expected)


def test_the_content_of_a_rewind_in_another_schema_is_no_dynamic_value() -> None:
    """A key of the context that looks like a tag is a key."""
    fingerprint, schema = changed(lambda schema: schema["fields"].insert(2, {"name": "zone", "type": "string"}))
    entry, out = own(1, b.Rewound(3, '{"context":{"$price":"1"}}')), BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(strip_metadata(schema)), as_fastavro(entry) | {"zone": ""})
    assert codec_for(fingerprint, schema).decode(b"\xc3\x01" + fingerprint + out.getvalue()) == entry


@given(any_entry(), st.data())
@settings(max_examples=200)
def test_broken_bytes_of_another_schema_give_an_entry_or_one_error(entry: Entry, data: st.DataObject) -> None:
    """Resolution is as bounded as the fast path: for flips, truncations and junk."""
    fingerprint, schema = changed(lambda schema: schema["fields"].insert(2, {"name": "zone", "type": "string"}))
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(strip_metadata(schema)), as_fastavro(entry) | {"zone": ""})
    broken = bytearray(out.getvalue())
    for _ in range(data.draw(st.integers(1, 4))):
        broken[data.draw(st.integers(0, len(broken) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    cut = data.draw(st.integers(len(broken) // 2, len(broken)))
    found = decode_or_none(b"\xc3\x01" + fingerprint + bytes(broken[:cut]), codec_for(fingerprint, schema))
    assert found is None or decode_or_none(encode(found)) == found


@pytest.mark.parametrize(
    "tail",
    [
        wire_long(2**62),
        wire_long(-(2**62)) + wire_long(0),
        wire_long(100) + wire_long(0),
        ENDLESS,
        wire_long(50_000_000),
    ],
    ids=["huge", "huge negative", "empty items", "endless", "fifty million"],
)
def test_blocks_of_missing_items_are_refused(tail: bytes) -> None:
    """An item takes at least a byte, so five bytes never become fifty million items."""
    flags = {"name": "flags", "type": {"type": "array", "items": "boolean"}, "default": []}
    fingerprint, schema = changed(lambda schema: body_of(schema, "ContextCleared")["fields"].append(flags))
    data = b"\xc3\x01" + fingerprint + encode(own(1, b.ContextCleared()))[10:] + tail
    started = time.process_time()
    assert decode_or_none(data, codec_for(fingerprint, schema)) is None
    assert time.process_time() - started < DECODE_SECONDS_MAX


def nested_records(width: int, depth: int) -> dict[str, Any]:
    """Return a type of ``width ** depth`` parts: each record has another one ``width`` times."""
    kind: Any = {"type": "record", "name": "L0", "fields": []}
    for level in range(1, depth):
        parts = [{"name": f"f{at}", "type": f"L{level - 1}" if at else kind} for at in range(width)]
        kind = {"type": "record", "name": f"L{level}", "fields": parts}
    return {"name": "free", "type": kind, "default": {}}


@pytest.mark.parametrize(
    "kind",
    [
        {"type": "array", "items": "null"},
        {"type": "map", "values": "null"},
        {"type": "array", "items": {"type": "record", "name": "Empty", "fields": []}},
        {"type": "fixed", "name": "None", "size": 0},
        {"type": "fixed", "name": "Back", "size": -2},
        "null",
        nested_records(10, 9)["type"],
    ],
    ids=["nulls", "map", "empty records", "nothing", "backwards", "null", "billions"],
)
def test_a_schema_with_parts_that_cost_no_byte_is_refused(kind: Any) -> None:
    """The bytes of a record bound its parts. Such a schema would have billions of them in no bytes."""
    fingerprint, schema = changed(
        lambda schema: body_of(schema, "ContextCleared")["fields"].append({"name": "free", "type": kind})
    )
    started = time.process_time()
    with pytest.raises(JournalMismatch, match="byte"):
        codec_for(fingerprint, schema).decode(b"\xc3\x01" + fingerprint + encode(own(1, b.ContextCleared()))[10:])
    assert time.process_time() - started < DECODE_SECONDS_MAX


def test_a_schema_of_half_a_million_characters_is_refused() -> None:
    """Compiling it would take longer than reading thousands of entries."""
    fingerprint, schema = changed(lambda schema: body_of(schema, "ContextCleared").update(name="x" * (1 << 19)))
    with pytest.raises(JournalMismatch, match="characters"):
        codec_for(fingerprint, schema).decode(b"\xc3\x01" + fingerprint + encode(own(1))[10:])


def test_a_chain_of_records_does_not_overflow_the_stack() -> None:
    """A record names the one before it, thousands of times: its value is deeper than any reader may go."""
    chain: list[Any] = [{"type": "record", "name": "C0", "fields": [{"name": "f", "type": "int"}]}]
    chain += [
        {"type": "record", "name": f"C{level}", "fields": [{"name": "f", "type": f"C{level - 1}"}]}
        for level in range(1, 3_000)
    ]
    fingerprint, schema = changed(
        lambda schema: body_of(schema, "ContextCleared")["fields"].append({"name": "chain", "type": chain})
    )
    data = b"\xc3\x01" + fingerprint + encode(own(1, b.ContextCleared()))[10:] + wire_long(2_999) + b"\0"
    assert decode_or_none(data, codec_for(fingerprint, schema)) is None


def test_an_unknown_fingerprint_re_reads_the_schemas_and_is_then_poison() -> None:
    """The schemas are read again to their end before the record is refused."""
    fingerprint, schema = changed(lambda schema: schema["fields"].insert(2, {"name": "zone", "type": "string"}))
    asked: list[int] = []
    known: dict[bytes, str] = {}

    def refresh() -> dict[bytes, str]:
        asked.append(1)
        return known

    codec = Codec(refresh=refresh)
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(strip_metadata(schema)), as_fastavro(own(1)) | {"zone": ""})
    data = b"\xc3\x01" + fingerprint + out.getvalue()
    assert decode_or_none(data, codec) is None
    known[fingerprint] = json.dumps(schema)
    assert decode_or_none(data, codec) == own(1)
    assert decode_or_none(data, codec) == own(1)
    assert len(asked) == 2


def test_an_unreadable_schemas_topic_does_not_make_a_record_poison() -> None:
    """The error of reading the schemas passes through."""

    def refresh() -> dict[bytes, str]:
        raise JournalUnavailable("Kafka is silent")

    with pytest.raises(JournalUnavailable):
        Codec(refresh=refresh).decode(b"\xc3\x01" + bytes(8) + b"rest")


def test_a_newer_format_stops_the_reader_before_anything_is_read() -> None:
    """Such an entry is never skipped."""
    fingerprint, schema = changed(lambda schema: schema["fields"].insert(2, {"name": "zone", "type": "string"}))
    schema["format"] = FORMAT + 1
    with pytest.raises(NewerFormat) as caught:
        codec_for(fingerprint, schema).decode(b"\xc3\x01" + fingerprint + b"whatever")
    assert (caught.value.format, caught.value.known) == (FORMAT + 1, FORMAT)


def test_an_unknown_body_stops_the_reader() -> None:
    """A writer whose union has more bodies is newer, whatever its format."""

    def grow(schema: dict[str, Any]) -> None:
        (union,) = [field["type"] for field in schema["fields"] if field["name"] == "body"]
        union.append({"type": "record", "name": "Effect", "namespace": "seekpoint", "fields": []})

    fingerprint, schema = changed(grow)
    with pytest.raises(NewerFormat):
        codec_for(fingerprint, schema).decode(b"\xc3\x01" + fingerprint + encode(own(1))[10:])


def recursive(schema: dict[str, Any]) -> None:
    """A schema that could nest without end."""
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    schema["fields"].insert(2, {"name": "node", "type": node})


def retyped(schema: dict[str, Any]) -> None:
    """A field changed its type: no release may do that."""
    body_of(schema, "ContextUpdated")["fields"][1] |= {"type": "long", "default": 0}


BAD_SCHEMAS: dict[str, str] = {
    "no JSON": "{",
    "no object": "[]",
    "no record": '{"type":"fixed","name":"Entry","size":3}',
    "no body": '{"type":"record","name":"Entry","fields":[]}',
    "deep JSON": "[" * 100_000,
    "recursive": json.dumps(changed(recursive)[1]),
    "retyped": json.dumps(changed(retyped)[1]),
    "format of text": json.dumps(changed(lambda schema: schema.update(format="x"))[1]),
}


@pytest.mark.parametrize("text", BAD_SCHEMAS.values(), ids=BAD_SCHEMAS.keys())
def test_a_registered_schema_that_is_not_of_entries_is_a_journal_mismatch(text: str) -> None:
    """The journal's schemas are broken, not the record."""
    with pytest.raises(JournalMismatch):
        Codec(schemas={b"12345678": text}).decode(b"\xc3\x0112345678rest")
