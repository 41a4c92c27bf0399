"""Recovery requests and answers: fastavro reads the same values, and the decoders refuse all other bytes."""

from __future__ import annotations

import io
import json
from dataclasses import asdict
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.errors import InvalidName, UndecodableRecord, UnserializableValue
from seekpoint.schemas.log.recovery_requests import (
    ANSWER,
    RecoveryAnswer,
    RecoveryRequest,
    decode_answer,
    decode_request,
    encode_answer,
    encode_request,
)
from seekpoint.schemas.log.recovery_requests import (
    REQUEST as REQUEST_FORM,
)
from seekpoint.schemas.wire.avro_schema import schema_json

LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
IDS = st.binary(min_size=16, max_size=16)
NAMES = st.text("abc-é", min_size=1, max_size=20)
REQUESTS = st.builds(
    RecoveryRequest,
    id=IDS,
    process_id=NAMES,
    at_seq=st.none() | LONGS,
    at_offset=st.none() | LONGS,
    at_time=st.none() | LONGS,
    deadline=LONGS,
    must_be_current=st.booleans(),
    reply_partition=st.none() | LONGS,
    ts=LONGS,
)
ANSWERS = st.builds(
    RecoveryAnswer,
    id=IDS,
    process_id=NAMES,
    report=st.none() | TEXTS,
    hash=st.none() | TEXTS,
    state=st.none() | TEXTS,
    place=st.none() | TEXTS,
    error=st.none() | TEXTS,
    message=TEXTS,
    hint=TEXTS,
    facts=TEXTS,
    answered_by=TEXTS,
    ts=LONGS,
)
REQUEST = RecoveryRequest(id=bytes(16), process_id="case-17", at_seq=3, deadline=5, ts=4)


def without_logical_types(node: Any) -> Any:
    """Return the schema without logical types, which fastavro would turn into dates."""
    if isinstance(node, list):
        return [without_logical_types(each) for each in node]
    if isinstance(node, dict):
        return {name: without_logical_types(each) for name, each in node.items() if name != "logicalType"}
    return node


def by_fastavro(name: str, data: bytes) -> Any:
    stream = io.BytesIO(data[10:])
    read = fastavro.schemaless_reader(stream, without_logical_types(json.loads(schema_json(name))), None)
    assert not stream.read()
    return read


@pytest.mark.parametrize(
    ("name", "ours"), [("RecoveryRequest", REQUEST_FORM.fingerprint), ("RecoveryAnswer", ANSWER.fingerprint)]
)
def test_the_fingerprint_constant_is_that_of_the_schema_file(name: str, ours: bytes) -> None:
    """With an outdated constant our own records would be unreadable."""
    canonical = fastavro.schema.to_parsing_canonical_form(json.loads(schema_json(name)))
    assert fastavro.schema.fingerprint(canonical, "CRC-64-AVRO") == ours.hex()


@given(REQUESTS)
def test_a_request_survives_a_round_trip(request: RecoveryRequest) -> None:
    """Our decoder returns an equal request, and fastavro reads the same values."""
    data = encode_request(request)
    assert decode_request(data) == request
    assert by_fastavro("RecoveryRequest", data) == asdict(request)


@given(ANSWERS)
def test_an_answer_survives_a_round_trip(answer: RecoveryAnswer) -> None:
    """Our decoder returns an equal answer, and fastavro reads the same values."""
    data = encode_answer(answer)
    assert decode_answer(data) == answer
    assert by_fastavro("RecoveryAnswer", data) == asdict(answer)


@given(st.binary(max_size=200), st.booleans())
def test_arbitrary_bytes_raise_one_typed_error(data: bytes, framed: bool) -> None:
    """Only framed bytes can be a request by chance; all others raise ``UndecodableRecord``."""
    framed_data = b"\xc3\x01" + REQUEST_FORM.fingerprint + data if framed else data
    try:
        decode_request(framed_data)
    except UndecodableRecord:
        return
    assert framed


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        encode_request(REQUEST)[:-1],
        encode_request(REQUEST) + b"\x00",
        encode_answer(RecoveryAnswer(id=bytes(16), process_id="p", ts=0)),
        b"\xc3\x01" + REQUEST_FORM.fingerprint + bytes(16) + b"\xfe\xff\xff\xff\x0fabc",
        b"\xc3\x01" + REQUEST_FORM.fingerprint + bytes(16) + b"\x02\x00" + bytes(6),
    ],
    ids=["none", "empty", "cut", "left over", "another schema", "a huge length", "a control character"],
)
def test_a_malformed_request_is_refused(data: bytes | None) -> None:
    """Truncated and trailing bytes, another schema, a length beyond the end and an illegal process id are refused."""
    with pytest.raises(UndecodableRecord):
        decode_request(data)


def test_a_request_beyond_the_record_limit_is_refused() -> None:
    """A request of exactly the limit is decoded, one byte more is refused."""
    data = encode_request(REQUEST)
    assert decode_request(data, Limits(record_bytes=len(data))) == REQUEST
    with pytest.raises(UndecodableRecord):
        decode_request(data, Limits(record_bytes=len(data) - 1))


def test_a_message_that_cannot_be_encoded_is_refused() -> None:
    """An illegal process id, a number beyond 64 bits and a lone surrogate raise typed errors."""
    with pytest.raises(InvalidName):
        encode_request(RecoveryRequest(id=bytes(16), process_id="", deadline=0, ts=0))
    with pytest.raises(UnserializableValue):
        encode_request(RecoveryRequest(id=bytes(16), process_id="p", deadline=1 << 64, ts=0))
    with pytest.raises(UnserializableValue):
        encode_answer(RecoveryAnswer(id=bytes(16), process_id="p", message="\ud800", ts=0))
