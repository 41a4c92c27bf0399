"""What a person is told of a record that is no entry: bounded, whatever its bytes are."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entry_examples import PROCESS_ID, any_entry, own
from seekpoint.schemas import bodies as b
from seekpoint.schemas.wire.avro_schema import SCHEMA_FINGERPRINT, schema_json
from seekpoint.schemas.wire.encoding import HEADER, MAGIC, encode
from seekpoint.schemas.wire.partial_entry import partial_entry

ENTRY = own(7, b.MessageSaid(role="user", content="Where is order 4711?"))
DATA = encode(ENTRY)
OWN = {SCHEMA_FINGERPRINT: schema_json()}


def test_a_whole_entry_is_read_to_its_end() -> None:
    """Each field of the envelope and of the body, by name."""
    found = partial_entry(DATA, OWN)
    fields = dict(found.fields)
    assert (found.problem, found.read_bytes) == ("", len(DATA))
    assert (fields["process_id"], fields["seq"], fields["body"]) == (PROCESS_ID, "7", "MessageSaid")
    assert fields["body.content"] == "Where is order 4711?"


@pytest.mark.parametrize("cut", range(len(HEADER), len(DATA)))
def test_a_torn_entry_shows_what_precedes_the_tear(cut: int) -> None:
    """A prefix of its fields, as they are; never one more than the bytes have."""
    whole, torn = partial_entry(DATA, OWN), partial_entry(DATA[:cut], OWN)
    assert torn.fields == whole.fields[: len(torn.fields)]
    assert torn.problem
    assert torn.read_bytes <= cut


def test_what_is_left_over_is_told() -> None:
    """With the number of bytes."""
    found = partial_entry(DATA + b"abc", OWN)
    assert (found.problem, found.read_bytes) == ("3 bytes are left over", len(DATA))


def test_an_unknown_schema_is_tried_as_this_version() -> None:
    """And named; a schema that the journal has is used."""
    data = MAGIC + b"\x01" * 8 + DATA[len(HEADER) :]
    guessed = partial_entry(data, OWN)
    assert guessed.form.startswith("an entry of the schema 0101010101010101, which the journal does not have")
    assert dict(guessed.fields)["process_id"] == PROCESS_ID
    assert partial_entry(data, {b"\x01" * 8: schema_json()}).form == "an entry of the schema 0101010101010101"
    assert partial_entry(data, {b"\x01" * 8: "no schema"}).problem


def test_other_forms_are_named() -> None:
    """Text, a schema registry's records, nothing."""
    assert partial_entry(None, OWN).form == "a record without a value"
    assert partial_entry(b"", OWN).form == "an empty value"
    assert partial_entry(b'{"a": 1}', OWN).text == '{"a": 1}'
    assert partial_entry(b"\0\0\0\x01\x02rest", OWN).form.endswith("the schema id 258")
    assert partial_entry(b"\xff\xfe", OWN).form.startswith("bytes of no known form")


def test_a_large_record_is_bounded() -> None:
    """Long texts are shortened, and a count that no record can have costs nothing."""
    long = encode(own(1, b.MessageSaid(role="user", content="x" * 900_000)))
    began = time.monotonic()
    found = partial_entry(long, OWN)
    assert max(len(value) for _, value in found.fields) <= 2_001
    text = partial_entry(b"y" * 5_000_000, OWN).text
    assert text is not None
    assert len(text) == 4_001
    assert time.monotonic() - began < 5


@given(st.binary(max_size=400), st.booleans(), st.sampled_from([DATA[len(HEADER) : at] for at in (0, 24, 60, 90)]))
def test_no_bytes_raise(data: bytes, is_known: bool, start: bytes) -> None:
    """Whatever follows the header."""
    found = partial_entry(HEADER + start + data, OWN if is_known else {})
    assert found.read_bytes <= len(HEADER) + len(start) + len(data)


@pytest.mark.parametrize("kind", b.BODIES, ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(max_examples=5)
def test_each_body_is_read_to_its_end(kind: type[b.Body], data: st.DataObject) -> None:
    """Also one that uses a type which an earlier one defines."""
    written = encode(data.draw(any_entry(kind)))
    found = partial_entry(written, OWN)
    assert (found.problem, found.read_bytes, dict(found.fields)["body"]) == ("", len(written), kind.__name__)
