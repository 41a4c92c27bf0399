"""Entries to bytes and back: exactly Avro, and safe against any bytes."""

from __future__ import annotations

import json
import struct
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import MISSING, asdict, fields, replace
from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from entry_examples import IDS, an_id, any_body, any_entry, claim, external, own
from seekpoint.schemas import bodies as b
from seekpoint.schemas.avro import get_long, put_long
from seekpoint.schemas.codec import SCHEMA_FINGERPRINT, Codec, encode, schema_json
from seekpoint.schemas.entry import Entry
from seekpoint.schemas.errors import (
    InvalidName,
    JournalMismatch,
    JournalUnavailable,
    NewerFormat,
    UndecodableRecord,
    UnserializableValue,
)
from seekpoint.schemas.limits import Limits
from seekpoint.schemas.resolution import plain

HEADER = b"\xc3\x01" + SCHEMA_FINGERPRINT
WHOLE = json.loads(schema_json())
ORACLE = fastavro.parse_schema(plain(WHOLE))
DECODE_SECONDS_MAX = 2.0
DECODE_BYTES_MAX = 64 * 1_048_576


OWNED = st.builds(
    Entry,
    id=IDS,
    process_id=st.just("case-17"),
    seq=st.integers(0, 1 << 26),
    epoch=st.integers(0, 63),
    claim_id=IDS,
    prev_offset=st.none() | st.integers(0, 1 << 54),
    ts=st.integers(0, 1 << 54),
    actor=st.none(),
    caused_by=st.none(),
    correlation_id=st.none(),
    body=any_body(),
)
"""Entries in the form that nearly all of an owner have."""


# --- as Avro says -----------------------------------------------------------------------------------------------------
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


@given(any_entry())
@settings(max_examples=400)
def test_any_entry_comes_back_as_it_was(entry: Entry) -> None:
    """decode is the inverse of encode, for every body and every field Avro can carry."""
    assert Codec().decode(encode(entry)) == entry


@pytest.mark.parametrize("kind", b.BODIES, ids=lambda kind: kind.KIND)
def test_every_body_comes_back_as_its_own_type(kind: type[b.Body]) -> None:
    """A body with its defaults comes back equal, of its type, and frozen."""
    found = Codec().decode(encode(own(1, kind())))
    assert type(found.body) is kind
    assert found == own(1, kind())
    for field in fields(kind):
        with pytest.raises(AttributeError):
            setattr(found.body, field.name, None)


@given(any_entry())
def test_what_is_written_is_what_fastavro_writes(entry: Entry) -> None:
    """The bytes after the header are those of fastavro with the same schema."""
    out = BytesIO()
    fastavro.schemaless_writer(out, ORACLE, as_fastavro(entry))
    assert encode(entry) == HEADER + out.getvalue()


@given(any_entry())
def test_fastavro_reads_what_is_written(entry: Entry) -> None:
    """Any Avro tool reads an entry with the schema in the schemas topic."""
    assert by_fastavro(encode(entry)[10:], ORACLE) == as_fastavro(entry)


def test_the_fingerprint_is_that_of_the_schema() -> None:
    """CRC-64-AVRO of the parsing canonical form, in little-endian order."""
    canonical = fastavro.schema.to_parsing_canonical_form(WHOLE)
    assert bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO")) == SCHEMA_FINGERPRINT


AVRO_TYPES: dict[str, Any] = {
    "str": "string",
    "Json": "string",
    "int": "long",
    "bool": "boolean",
    "bytes": "seekpoint.Uuid",
    "str | None": ["null", "string"],
    "Json | None": ["null", "string"],
    "int | None": ["null", "long"],
    "bytes | None": ["null", "seekpoint.Uuid"],
    "Mapping[str, Json]": {"type": "map", "values": "string"},
}


def record_of(name: str) -> dict[str, Any]:
    """The record ``name`` inside the whole schema."""
    (body,) = [field for field in WHOLE["fields"] if field["name"] == "body"]
    (found,) = [record for record in body["type"] if record["name"] == name]
    return dict(found)


@pytest.mark.parametrize("kind", b.BODIES, ids=lambda kind: kind.KIND)
def test_a_body_and_its_avsc_say_the_same(kind: type[b.Body]) -> None:
    """Field by field: name, order, type and default; and every field of every body is documented."""
    written = record_of(kind.__name__)["fields"]
    assert [field["name"] for field in written] == [field.name for field in fields(kind)]
    for field, ours in zip(written, fields(kind), strict=True):
        assert plain(field["type"]) == plain(AVRO_TYPES[str(ours.type)])
        default = ours.default_factory() if ours.default_factory is not MISSING else ours.default
        if isinstance(default, bytes):
            default = default.decode("latin-1")
        assert field["default"] == default
        assert field["doc"]


def test_the_union_has_the_bodies_in_their_order() -> None:
    """The branch number on the wire is the place in BODIES, and one byte still numbers them."""
    (union,) = [field["type"] for field in WHOLE["fields"] if field["name"] == "body"]
    assert [record["name"] for record in union] == [kind.__name__ for kind in b.BODIES]
    assert len(b.BODIES) <= 64


def test_the_envelope_and_the_entry_have_the_same_fields() -> None:
    """By name and order; all but id, process_id and body have a default."""
    assert tuple(field["name"] for field in WHOLE["fields"]) == Entry._fields
    assert [field["name"] for field in WHOLE["fields"] if "default" not in field] == ["id", "process_id", "body"]


@given(st.integers(-(2**63), 2**63 - 1))
@example(-(2**63))
@example(2**63 - 1)
@example(64)
@example(-65)
def test_every_long_comes_back(value: int) -> None:
    """Zigzag and seven bits a byte, over the whole range."""
    out = bytearray()
    put_long(out, value)
    assert get_long(bytes(out) + b"x", 0) == (value, len(out))


@pytest.mark.parametrize("data", [b"\xff" * 9 + b"\x02", b"\xff" * 10 + b"\x00", b"\x80" * 10 + b"\x00"])
def test_a_number_beyond_64_bits_is_none(data: bytes) -> None:
    """Neither by its value nor by its length; the largest one is still one."""
    with pytest.raises(ValueError, match="64 bits"):
        get_long(data, 0)
    assert get_long(b"\xff" * 9 + b"\x01", 0) == (-(2**63), 10)


# --- what cannot be written -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "entry",
    [
        own(1)._replace(actor="\ud800"),
        own(1, b.MessageSaid("user", "\udfff")),
        own(2**63),
        own(1)._replace(ts=-(2**63) - 1),
    ],
    ids=["surrogate", "surrogate in a body", "seq", "ts"],
)
def test_what_avro_cannot_carry_is_refused_by_the_writer(entry: Entry) -> None:
    """A typed error, not a codec's own."""
    with pytest.raises(UnserializableValue):
        encode(entry)


@pytest.mark.parametrize("entry_id", [b"", bytes(15), bytes(17)])
def test_an_id_of_another_length_is_refused(entry_id: bytes) -> None:
    """It would shift everything after it."""
    with pytest.raises(InvalidName):
        encode(own(1)._replace(id=entry_id))
    with pytest.raises(InvalidName):
        encode(own(1)._replace(caused_by=entry_id))


@pytest.mark.parametrize("process_id", ["", "x" * 201, "a\nb", "\x00floor"])
def test_a_process_id_that_is_none_is_neither_written_nor_read(process_id: str) -> None:
    """No process can collide with the keys that begin with a NUL byte, whoever wrote the record."""
    entry = own(1)._replace(process_id=process_id)
    with pytest.raises(InvalidName):
        encode(entry)
    out = BytesIO()
    fastavro.schemaless_writer(out, ORACLE, as_fastavro(entry))
    with pytest.raises(UndecodableRecord):
        Codec().decode(HEADER + out.getvalue())


# --- any bytes --------------------------------------------------------------------------------------------------------
def decode_or_none(data: bytes, codec: Codec | None = None) -> Entry | None:
    """The entry, or None where the bytes are none. Anything else that is raised fails the test."""
    try:
        return (codec or Codec()).decode(data)
    except UndecodableRecord:
        return None


@given(any_entry(), st.data())
@settings(max_examples=300)
def test_flipped_bits_give_an_entry_or_one_error(entry: Entry, data: st.DataObject) -> None:
    """Whatever a flip does to lengths, branches and texts, nothing else leaves."""
    broken = bytearray(encode(entry))
    for _ in range(data.draw(st.integers(1, 4))):
        broken[data.draw(st.integers(10, len(broken) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    found = decode_or_none(bytes(broken))
    assert found is None or decode_or_none(encode(found)) == found


def agree(data: bytes, key: bytes) -> bool:
    """Whether the skim gave something; then it has to be what decoding gives."""
    owned, entry = Codec().skim(data, key), decode_or_none(data)
    if owned is not None:
        assert entry is not None
        assert owned == (entry.seq, entry.epoch, entry.claim_id, entry.body)
        assert entry.process_id.encode() == key
    return owned is not None


@given(OWNED)
@settings(deadline=None)
def test_a_skim_says_of_an_owners_entry_what_decoding_says(entry: Entry) -> None:
    """In its usual form it is skimmed, whatever its body; under another key it is not."""
    assert agree(encode(entry), b"case-17")
    assert not agree(encode(entry), b"case-18")


@given(st.one_of(any_entry(), OWNED), st.data())
@settings(max_examples=300, deadline=None)
def test_a_skim_never_takes_what_decoding_refuses(entry: Entry, data: st.DataObject) -> None:
    """Flipped bits, truncated and trailing bytes: the skim gives nothing, or what decoding gives."""
    broken = bytearray(encode(entry))
    for _ in range(data.draw(st.integers(0, 3))):
        broken[data.draw(st.integers(0, len(broken) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    agree(bytes(broken), entry.process_id.encode())
    agree(bytes(broken[: data.draw(st.integers(0, len(broken)))]), entry.process_id.encode())
    agree(bytes(broken) + b"\0", entry.process_id.encode())


def test_a_skim_agrees_about_every_flipped_bit() -> None:
    """A number that became negative, a branch that is none, another's id: whichever bit it is."""
    entry = own(1, b.MessageSaid("user", "x"))
    data, key = encode(entry), entry.process_id.encode()
    assert agree(data, key)
    for at in range(len(data)):
        for bit in range(8):
            broken = bytearray(data)
            broken[at] ^= 1 << bit
            agree(bytes(broken), key)


@pytest.mark.parametrize("ts", [0, 1, 63, 64, -1, 1 << 20, (1 << 48) - 1, 1 << 48, (1 << 55) - 1, 1 << 55, -(1 << 60)])
def test_a_time_stamp_may_have_any_number_of_bytes(ts: int) -> None:
    """Those of our age have eight."""
    entry = own(1, b.MessageSaid("user", "x"))._replace(ts=ts)
    assert decode_or_none(encode(entry)) == entry


def test_a_skim_knows_the_limits() -> None:
    """What is larger than a record may be, or nested deeper, is left to decoding, which refuses it."""
    large = encode(own(1, b.MessageSaid("user", "x" * 2_000)))
    deep = encode(own(1, b.ContextUpdated("a", "[" * 70 + "]" * 70)))
    key = own(1, b.MessageSaid()).process_id.encode()
    assert Codec().skim(large, key) is not None
    assert Codec(Limits(record_bytes=1_000)).skim(large, key) is None
    assert Codec().skim(deep, key) is None


@given(any_entry(), st.data())
def test_a_truncated_record_is_no_entry(entry: Entry, data: st.DataObject) -> None:
    """No prefix of an entry is an entry."""
    whole = encode(entry)
    assert decode_or_none(whole[: data.draw(st.integers(0, len(whole) - 1))]) is None


@given(any_entry(), st.binary(min_size=1, max_size=20))
def test_trailing_bytes_are_no_entry(entry: Entry, more: bytes) -> None:
    """All bytes must be consumed."""
    assert decode_or_none(encode(entry) + more) is None


@given(st.binary(max_size=300))
def test_junk_behind_a_good_header_gives_an_entry_or_one_error(junk: bytes) -> None:
    """The fingerprint proves nothing about what follows."""
    decode_or_none(HEADER + junk)


@given(st.binary(max_size=60))
def test_junk_is_no_entry(junk: bytes) -> None:
    """Without the header nothing is looked at."""
    assert decode_or_none(junk) is None


def test_a_record_without_a_value_is_no_entry() -> None:
    """A tombstone in the journal is poison."""
    with pytest.raises(UndecodableRecord):
        Codec().decode(None)


def wire_long(value: int) -> bytes:
    """A number as Avro writes it."""
    out = bytearray()
    put_long(out, value)
    return bytes(out)


def envelope(body: bytes) -> bytes:
    """A record with a plain envelope and ``body`` as it is, branch included."""
    whole = encode(own(1, b.Released()))
    assert whole[-2:] == wire_long(b.BODIES.index(b.Released)) + b"\0"
    return whole[:-2] + body


UPDATE_MANY = wire_long(b.BODIES.index(b.ContextUpdatedMany))
UPDATE = wire_long(b.BODIES.index(b.ContextUpdated))
ENDLESS = b"\xff" * 1_000_000
HOSTILE: dict[str, bytes] = {
    "a branch beyond the union": envelope(wire_long(len(b.BODIES))),
    "a negative branch": envelope(wire_long(-1)),
    "a huge branch": envelope(wire_long(2**62)),
    "a huge block": envelope(UPDATE_MANY + wire_long(2**62)),
    "a huge negative block": envelope(UPDATE_MANY + wire_long(-(2**63)) + wire_long(0)),
    "a block one larger than its bytes": envelope(UPDATE_MANY + wire_long(2) + b"\x00\x00\x00"),
    "a negative length": envelope(UPDATE + wire_long(-5) + b"hello"),
    "a negative process id": HEADER + bytes(16) + wire_long(-1),
    "a long negative process id": HEADER + bytes(16) + wire_long(-1000) + bytes(2000),
    "a process id that wraps around": HEADER
    + bytes(16)
    + wire_long(-40)
    + b"case"
    + bytes(8)
    + wire_long(b.BODIES.index(b.ContextDeleted))
    + wire_long(47)
    + b"key",
    "a huge length": envelope(UPDATE + wire_long(2**62) + b"hello"),
    "an endless number": HEADER + bytes(16) + ENDLESS,
    "an endless number in a body": envelope(UPDATE + ENDLESS),
    "an eleven-byte number": envelope(UPDATE + b"\x80" * 10 + b"\x00"),
    "a number of 65 bits": envelope(UPDATE + b"\xff" * 9 + b"\x03"),
    "no UTF-8": envelope(UPDATE + b"\x02\xff\x02\x31"),
    "no JSON": envelope(UPDATE + b"\x02a\x04{]"),
    "JSON that is none yet short": envelope(UPDATE + b"\x02a\x02x"),
    "an empty JSON text": envelope(UPDATE + b"\x02a\x00"),
    "deep JSON": encode(own(1, b.ContextUpdated("a", "[" * 100_000 + "]" * 100_000))),
    "wide JSON": encode(own(1, b.ContextUpdated("a", "[" + "0," * 200_000 + "0]"))),
    "an unknown tag": encode(own(1, b.ContextUpdated("a", '{"$nope":"1"}'))),
    "a hidden tag": encode(own(1, b.ContextUpdated("a", '{"\\u0024int":"x"}'))),
    "too many values": encode(own(1, b.ContextUpdatedMany({str(n): "1" for n in range(100_001)}))),
    "a boolean of two": encode(claim(1))[:-3] + b"\x02\x00\x00",
    "too large": encode(own(1, b.ContextUpdated("a", '"' + "x" * 1_048_576 + '"'))),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_bytes_are_refused_in_bounded_time_and_memory(data: bytes) -> None:
    """Each is one UndecodableRecord, within seconds and a few times the record limit, whatever the bytes promise."""
    tracemalloc.start()
    started = time.process_time()
    try:
        with pytest.raises(UndecodableRecord):
            Codec().decode(data)
        seconds, peak = time.process_time() - started, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert seconds < DECODE_SECONDS_MAX
    assert peak < DECODE_BYTES_MAX


def test_limits_are_those_of_the_journal() -> None:
    """A codec with smaller limits refuses what one with larger ones reads."""
    nested = encode(own(1, b.ContextUpdated("a", "[[[1]]]")))
    assert decode_or_none(nested, Codec(Limits(depth=3))) is not None
    assert decode_or_none(nested, Codec(Limits(depth=2))) is None
    assert decode_or_none(nested, Codec(Limits(record_bytes=len(nested)))) is not None
    assert decode_or_none(nested, Codec(Limits(record_bytes=len(nested) - 1))) is None
    three = encode(own(1, b.ContextUpdated("a", "[1,2,3]")))
    assert decode_or_none(three, Codec(Limits(items=3))) is not None
    assert decode_or_none(three, Codec(Limits(items=2))) is None


def test_content_of_a_rewind_is_not_taken_for_a_dynamic_value() -> None:
    """A context whose only key looks like a tag can be rewound to: the fold reads the content itself."""
    entry = own(1, b.Rewound(3, '{"context":{"$price":"1"}}'))
    assert Codec().decode(encode(entry)) == entry


# --- other schemas ----------------------------------------------------------------------------------------------------
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
    """Same format, more fields: what is known reads the same, as fastavro's own resolution does."""
    fingerprint, schema = changed(newer_release)
    parsed = fastavro.parse_schema(plain(schema))
    raw = as_fastavro(entry) | {"zone": "eu"}
    if isinstance(entry.body, b.MessageSaid):
        raw["body"] = ("seekpoint.MessageSaid", raw["body"][1] | MORE)
    out = BytesIO()
    fastavro.schemaless_writer(out, parsed, raw)
    assert by_fastavro(out.getvalue(), parsed) == as_fastavro(entry)
    assert codec_for(fingerprint, schema).decode(b"\xc3\x01" + fingerprint + out.getvalue()) == entry


@given(any_entry(b.MessageSaid, b.Claim))
def test_fields_an_older_release_lacked_have_their_defaults(entry: Entry) -> None:
    """A body grew a field: entries from before have its default."""

    def older(schema: dict[str, Any]) -> None:
        for name in ("MessageSaid", "Claim"):
            del body_of(schema, name)["fields"][-1]
        del schema["fields"][-2]

    fingerprint, schema = changed(older)
    raw = as_fastavro(entry)
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(plain(schema)), raw)
    if isinstance(entry.body, b.MessageSaid):
        expected: b.Body = replace(entry.body, call=None)
    else:
        assert isinstance(entry.body, b.Claim)
        expected = replace(entry.body, definition=None)
    found = codec_for(fingerprint, schema).decode(b"\xc3\x01" + fingerprint + out.getvalue())
    assert found == entry._replace(correlation_id=None, body=expected)


@given(any_entry(), st.data())
@settings(max_examples=200)
def test_broken_bytes_of_another_schema_give_an_entry_or_one_error(entry: Entry, data: st.DataObject) -> None:
    """Resolution is as bounded as the straight way: flips, truncations and junk alike."""
    fingerprint, schema = changed(lambda schema: schema["fields"].insert(2, {"name": "zone", "type": "string"}))
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(plain(schema)), as_fastavro(entry) | {"zone": ""})
    broken = bytearray(out.getvalue())
    for _ in range(data.draw(st.integers(1, 4))):
        broken[data.draw(st.integers(0, len(broken) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    cut = data.draw(st.integers(len(broken) // 2, len(broken)))
    decode_or_none(b"\xc3\x01" + fingerprint + bytes(broken[:cut]), codec_for(fingerprint, schema))


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
def test_blocks_of_empty_items_are_refused(tail: bytes) -> None:
    """Five bytes do not become fifty million items: an item takes a byte, or the record is none."""
    nulls = {"name": "nulls", "type": {"type": "array", "items": "null"}, "default": []}
    fingerprint, schema = changed(lambda schema: body_of(schema, "ContextCleared")["fields"].append(nulls))
    data = b"\xc3\x01" + fingerprint + encode(own(1, b.ContextCleared()))[10:] + tail
    started = time.process_time()
    assert decode_or_none(data, codec_for(fingerprint, schema)) is None
    assert time.process_time() - started < DECODE_SECONDS_MAX


def test_an_unknown_fingerprint_is_asked_for_once_and_then_poison() -> None:
    """The schemas are read again to their end before a fingerprint is called unknown."""
    fingerprint, schema = changed(lambda schema: schema["fields"].insert(2, {"name": "zone", "type": "string"}))
    asked: list[int] = []
    known: dict[bytes, str] = {}

    def refresh() -> dict[bytes, str]:
        asked.append(1)
        return known

    codec = Codec(refresh=refresh)
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(plain(schema)), as_fastavro(own(1)) | {"zone": ""})
    data = b"\xc3\x01" + fingerprint + out.getvalue()
    assert decode_or_none(data, codec) is None
    known[fingerprint] = json.dumps(schema)
    assert decode_or_none(data, codec) == own(1)
    assert decode_or_none(data, codec) == own(1)
    assert len(asked) == 2


def test_schemas_that_cannot_be_read_stall_the_reader() -> None:
    """An unreadable schemas topic is no reason to call a record poison: its error leaves as it is."""

    def refresh() -> dict[bytes, str]:
        raise JournalUnavailable("Kafka is silent")

    with pytest.raises(JournalUnavailable):
        Codec(refresh=refresh).decode(b"\xc3\x01" + bytes(8) + b"rest")


def test_a_newer_format_stops_the_reader_before_anything_is_read() -> None:
    """Never skipped: whatever its bytes are."""
    fingerprint, schema = changed(lambda schema: schema["fields"].insert(2, {"name": "zone", "type": "string"}))
    schema["format"] = 2
    with pytest.raises(NewerFormat) as caught:
        codec_for(fingerprint, schema).decode(b"\xc3\x01" + fingerprint + b"whatever")
    assert (caught.value.format, caught.value.known) == (2, 1)


def test_a_body_nobody_here_knows_stops_the_reader_too() -> None:
    """A writer whose union grew is newer, whatever format it says."""

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
def test_a_registered_schema_that_is_none_of_entries_is_the_journals_fault(text: str) -> None:
    """Loud, and not the record's fault: the journal's schemas are broken."""
    with pytest.raises(JournalMismatch):
        Codec(schemas={b"12345678": text}).decode(b"\xc3\x0112345678rest")


@given(any_body())
def test_an_external_entry_needs_no_seq(body: b.Body) -> None:
    """The envelope says nothing about the body: admission does."""
    assert Codec().decode(encode(external(body, 9))) == external(body, 9)


def test_an_id_is_sixteen_bytes_on_the_wire() -> None:
    """The first field lies where anybody finds it, without Avro."""
    assert encode(own(7))[10:26] == an_id(1007)
    assert struct.unpack(">2B", encode(own(7))[:2]) == (0xC3, 0x01)
