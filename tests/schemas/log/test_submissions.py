"""Submissions: as fastavro reads them, and nothing else is accepted."""

from __future__ import annotations

import io
import json
from dataclasses import asdict
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.errors import InvalidName, UndecodableRecord
from seekpoint.schemas.log.submissions import (
    SUBMISSION,
    SubmissionRecord,
    decode_submission,
    encode_submission,
    submitted_entry,
)
from seekpoint.schemas.wire.avro_schema import schema_json
from seekpoint.schemas.wire.codec import encode

LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
SUBMISSIONS = st.builds(
    SubmissionRecord,
    id=st.binary(min_size=16, max_size=16),
    process_id=st.text("abc-é", min_size=1, max_size=20),
    agent=TEXTS,
    input=st.sampled_from(["null", "1", '{"order":"4711"}']),
    priority=LONGS,
    start_at_us=st.none() | LONGS,
    actor=st.none() | TEXTS,
    correlation_id=st.none() | TEXTS,
    trace_parent=st.none() | TEXTS,
    spawned_by=st.none() | TEXTS,
    ts=LONGS,
)
ONE = SubmissionRecord(id=bytes(16), process_id="case-17", agent="refund", ts=4)


def test_the_fingerprint_is_that_of_the_file() -> None:
    """An .avsc that changed without the constant would make our own records unreadable."""
    canonical = fastavro.schema.to_parsing_canonical_form(json.loads(schema_json("Submission")))
    assert fastavro.schema.fingerprint(canonical, "CRC-64-AVRO") == SUBMISSION.fingerprint.hex()


@given(SUBMISSIONS)
def test_a_submission_comes_back(submission: SubmissionRecord) -> None:
    """Our reader returns an equal one, and any Avro reader the same values."""
    data = encode_submission(submission)
    assert decode_submission(data) == submission
    schema = json.loads(schema_json("Submission").replace(',"logicalType":"timestamp-micros"', ""))
    read: Any = fastavro.schemaless_reader(io.BytesIO(data[10:]), schema, None)
    assert (read["process_id"], read["input"]) == (submission.process_id, submission.input)
    assert {*read} == {*asdict(submission)}


@pytest.mark.parametrize(
    "data",
    [None, b"", encode_submission(ONE)[:-1], encode_submission(ONE) + b"\0", b"\xc3\x01" + bytes(40)],
    ids=["none", "empty", "cut", "longer", "another schema"],
)
def test_other_bytes_are_refused(data: bytes | None) -> None:
    """Each with one kind of error, so that the reader can make a dead letter of it."""
    with pytest.raises(UndecodableRecord):
        decode_submission(data)


@pytest.mark.parametrize("text", ["{", "[[[[1]]]]"], ids=["no JSON", "too deep"])
def test_an_input_that_cannot_be_loaded_is_refused(text: str) -> None:
    """The worker would otherwise fail at it again and again."""
    data = encode_submission(SubmissionRecord(id=bytes(16), process_id="p", agent="a", input=text, ts=1))
    with pytest.raises(UndecodableRecord):
        decode_submission(data, Limits(depth=2))


def test_an_id_that_no_process_can_have_is_refused() -> None:
    """The key of the record would be refused anyway."""
    with pytest.raises(InvalidName):
        encode_submission(SubmissionRecord(id=bytes(16), process_id="", agent="a", ts=1))


def test_the_entry_has_the_id_and_the_facts_of_the_submission() -> None:
    """Two workers that both handle it write the same entry, and the fold applies it once."""
    one = SubmissionRecord(
        id=bytes(15) + b"\1", process_id="p", agent="refund", input="[1]", priority=3, start_at_us=9, actor="ann",
        correlation_id="thread", ts=7,
    )  # fmt: skip
    entry = submitted_entry(one)
    assert (entry.id, entry.process_id, entry.seq, entry.actor, entry.correlation_id) == (
        one.id, "p", None, "ann", "thread"
    )  # fmt: skip
    assert entry.body == b.Submitted("refund", "[1]", 3, 9, "thread")
    assert encode(entry) == encode(submitted_entry(one))
