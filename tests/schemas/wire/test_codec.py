"""The codec writes and reads exactly Avro, and refuses values that Avro cannot represent."""

from __future__ import annotations

import struct
from dataclasses import MISSING, fields
from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from entry_examples import an_id, any_body, any_entry, external, own
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.errors import InvalidName, UndecodableRecord, UnserializableValue
from seekpoint.schemas.wire.avro_primitives import get_long, get_timestamp, put_long
from seekpoint.schemas.wire.codec import SCHEMA_FINGERPRINT, Codec, encode
from seekpoint.schemas.wire.schema_resolution import strip_metadata
from wire_examples import HEADER, ORACLE, WHOLE, as_fastavro, by_fastavro


@given(any_entry())
@settings(max_examples=400)
def test_any_entry_survives_a_round_trip(entry: Entry) -> None:
    """decode is the inverse of encode, for every body and every field that Avro can represent."""
    assert Codec().decode(encode(entry)) == entry


@pytest.mark.parametrize("kind", b.BODIES, ids=lambda kind: kind.KIND)
def test_every_body_keeps_its_type_in_a_round_trip(kind: type[b.Body]) -> None:
    """A body with its defaults is decoded to an equal, frozen body of the same type."""
    found = Codec().decode(encode(own(1, kind())))
    assert type(found.body) is kind
    assert found == own(1, kind())
    for field in fields(kind):
        with pytest.raises(AttributeError):
            setattr(found.body, field.name, None)


@given(any_entry())
def test_encode_writes_the_bytes_of_fastavro(entry: Entry) -> None:
    """The bytes after the header are those of fastavro with the same schema."""
    out = BytesIO()
    fastavro.schemaless_writer(out, ORACLE, as_fastavro(entry))
    assert encode(entry) == HEADER + out.getvalue()


@given(any_entry())
def test_fastavro_reads_encoded_entries(entry: Entry) -> None:
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
    "Data": "bytes",
    "Mapping[str, Json]": {"type": "map", "values": "string"},
}


def record_of(name: str) -> dict[str, Any]:
    """The record ``name`` inside the whole schema."""
    (body,) = [field for field in WHOLE["fields"] if field["name"] == "body"]
    (found,) = [record for record in body["type"] if record["name"] == name]
    return dict(found)


@pytest.mark.parametrize("kind", b.BODIES, ids=lambda kind: kind.KIND)
def test_a_body_has_the_fields_of_its_avsc(kind: type[b.Body]) -> None:
    """Names, order, types and defaults are equal, and every field is documented."""
    written = record_of(kind.__name__)["fields"]
    assert [field["name"] for field in written] == [field.name for field in fields(kind)]
    for field, ours in zip(written, fields(kind), strict=True):
        assert strip_metadata(field["type"]) == strip_metadata(AVRO_TYPES[str(ours.type)])
        default = ours.default_factory() if ours.default_factory is not MISSING else ours.default
        if isinstance(default, bytes):
            default = default.decode("latin-1")
        assert field["default"] == default
        assert field["doc"]


def test_the_union_has_the_order_of_bodies() -> None:
    """The branch number is the index in BODIES, and one byte is enough for it."""
    (union,) = [field["type"] for field in WHOLE["fields"] if field["name"] == "body"]
    assert [record["name"] for record in union] == [kind.__name__ for kind in b.BODIES]
    assert len(b.BODIES) <= 64


def test_the_envelope_and_the_entry_have_the_same_fields() -> None:
    """Names and order are equal; all fields but id, process_id and body have a default."""
    assert tuple(field["name"] for field in WHOLE["fields"]) == Entry._fields
    assert [field["name"] for field in WHOLE["fields"] if "default" not in field] == ["id", "process_id", "body"]


@given(st.integers(-(2**63), 2**63 - 1))
@example(-(2**63))
@example(2**63 - 1)
@example(64)
@example(-65)
def test_every_long_survives_a_round_trip(value: int) -> None:
    """The zigzag varint works over the whole range."""
    out = bytearray()
    put_long(out, value)
    assert get_long(bytes(out) + b"x", 0) == (value, len(out))


@pytest.mark.parametrize("data", [b"\xff" * 9 + b"\x02", b"\xff" * 10 + b"\x00", b"\x80" * 10 + b"\x00"])
def test_a_number_beyond_64_bits_is_refused(data: bytes) -> None:
    """Its value or its length may be too large; the largest legal number is read."""
    with pytest.raises(ValueError, match="64 bits"):
        get_long(data, 0)
    assert get_long(b"\xff" * 9 + b"\x01", 0) == (-(2**63), 10)


WIDTHS = [at + by for bits in range(6, 64, 7) for at in (1 << bits, -1 << bits) for by in (-1, 0)]
"""The numbers beside which one has another byte on the wire."""


@pytest.mark.parametrize("value", [*WIDTHS, 511, 512, (1 << 27) - 1, 1 << 27, 1 << 49, 1 << 56, 2**63 - 1, -(2**63)])
def test_a_number_of_any_length_survives_a_round_trip_in_each_field(value: int) -> None:
    """Each field has its own fast path: seq, epoch, offset, timestamp, and numbers of bodies."""
    body = b.StepEnded(attempt=value, retry_at_us=value, ended_at_us=value, position=value, started_at_us=value)
    entry = own(1, body)._replace(seq=value, epoch=value, prev_offset=value, ts=value)
    out = BytesIO()
    fastavro.schemaless_writer(out, ORACLE, as_fastavro(entry))
    assert encode(entry) == HEADER + out.getvalue()
    assert Codec().decode(encode(entry)) == entry


@given(st.lists(st.sampled_from([0, 1, 0x7F, 0x80, 0x81, 0xFF]), max_size=11).map(bytes))
@example(b"\x81" * 7 + b"\x80\x01")
@example(b"\xff" * 7)
@example(b"\x80" * 7 + b"\x00")
def test_a_timestamp_is_read_like_any_number(data: bytes) -> None:
    """For any length, padding and truncation the result and the end, or the error, are the same."""
    found = []
    for get in (get_long, get_timestamp):
        try:
            found.append(get(data, 0))
        except (ValueError, IndexError) as exc:
            found.append(repr(exc))  # type: ignore[arg-type]
    assert found[0] == found[1]


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
def test_encode_refuses_values_that_avro_cannot_represent(entry: Entry) -> None:
    """The error is a typed one of Seekpoint."""
    with pytest.raises(UnserializableValue):
        encode(entry)


@pytest.mark.parametrize("entry_id", [b"", bytes(15), bytes(17)])
def test_an_id_of_a_wrong_length_is_refused(entry_id: bytes) -> None:
    """Such an id would shift all fields after it."""
    with pytest.raises(InvalidName):
        encode(own(1)._replace(id=entry_id))
    with pytest.raises(InvalidName):
        encode(own(1)._replace(caused_by=entry_id))


@pytest.mark.parametrize("process_id", ["", "x" * 201, "a\nb", "\x00floor"])
def test_an_illegal_process_id_is_neither_written_nor_read(process_id: str) -> None:
    """No process can collide with the keys that begin with a NUL byte."""
    entry = own(1)._replace(process_id=process_id)
    with pytest.raises(InvalidName):
        encode(entry)
    out = BytesIO()
    fastavro.schemaless_writer(out, ORACLE, as_fastavro(entry))
    with pytest.raises(UndecodableRecord):
        Codec().decode(HEADER + out.getvalue())


@given(any_body())
def test_an_external_entry_needs_no_seq(body: b.Body) -> None:
    """The envelope does not restrict the body: admission does."""
    assert Codec().decode(encode(external(body, 9))) == external(body, 9)


def test_an_id_is_sixteen_bytes_on_the_wire() -> None:
    """It is the first field, at a fixed position, so it can be read without Avro."""
    assert encode(own(7))[10:26] == an_id(1007)
    assert struct.unpack(">2B", encode(own(7))[:2]) == (0xC3, 0x01)


def test_the_content_of_a_rewind_is_no_dynamic_value() -> None:
    """A context whose only key looks like a tag can be restored: the fold decodes the content."""
    entry = own(1, b.Rewound(3, '{"context":{"$price":"1"}}'))
    assert Codec().decode(encode(entry)) == entry
