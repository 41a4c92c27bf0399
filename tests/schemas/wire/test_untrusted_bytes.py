"""Untrusted bytes: decoding returns an entry or raises one typed error, in bounded time and memory."""

from __future__ import annotations

import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entry_examples import any_entry, claim, own
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.errors import UndecodableRecord
from seekpoint.schemas.wire.codec import Codec, encode
from wire_examples import DECODE_SECONDS_MAX, ENDLESS, HEADER, decode_or_none, wire_long

DECODE_BYTES_MAX = 64 * 1_048_576


@given(any_entry(), st.data())
@settings(max_examples=300)
def test_flipped_bits_give_an_entry_or_one_error(entry: Entry, data: st.DataObject) -> None:
    """Flips in lengths, branches and texts raise no other error."""
    broken = bytearray(encode(entry))
    for _ in range(data.draw(st.integers(1, 4))):
        broken[data.draw(st.integers(10, len(broken) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    found = decode_or_none(bytes(broken))
    assert found is None or decode_or_none(encode(found)) == found


@given(any_entry(), st.data())
def test_a_truncated_record_is_no_entry(entry: Entry, data: st.DataObject) -> None:
    """No proper prefix of an entry is an entry."""
    whole = encode(entry)
    assert decode_or_none(whole[: data.draw(st.integers(0, len(whole) - 1))]) is None


@given(any_entry(), st.binary(min_size=1, max_size=20))
def test_trailing_bytes_are_no_entry(entry: Entry, more: bytes) -> None:
    """All bytes must be consumed."""
    assert decode_or_none(encode(entry) + more) is None


@given(st.binary(max_size=300))
def test_junk_after_a_valid_header_gives_an_entry_or_one_error(junk: bytes) -> None:
    """A known fingerprint proves nothing about the bytes after it."""
    found = decode_or_none(HEADER + junk)
    assert found is None or decode_or_none(encode(found)) == found


@given(st.binary(max_size=60))
def test_junk_is_no_entry(junk: bytes) -> None:
    """Bytes without the header are refused at once."""
    assert decode_or_none(junk) is None


def test_a_record_without_a_value_is_no_entry() -> None:
    """A tombstone in the journal is poison."""
    with pytest.raises(UndecodableRecord):
        Codec().decode(None)


def envelope(body: bytes) -> bytes:
    """Return a record with a valid envelope, followed by ``body``, which includes the branch."""
    whole = encode(own(1, b.Released()))
    assert whole[-3:] == wire_long(b.BODIES.index(b.Released)) + b"\0\0"
    return whole[:-3] + body


UPDATE_MANY = wire_long(b.BODIES.index(b.ContextUpdatedMany))
UPDATE = wire_long(b.BODIES.index(b.ContextUpdated))
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
    + wire_long(b.BODIES.index(b.PatchMarked))  # a text is all it has: from the end it reads on to the end
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
    """Each raises UndecodableRecord within seconds and a few times the record limit."""
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


def test_the_limits_of_the_journal_apply() -> None:
    """A codec with smaller limits refuses a record that one with larger limits reads."""
    nested = encode(own(1, b.ContextUpdated("a", "[[[1]]]")))
    assert decode_or_none(nested, Codec(Limits(depth=3))) is not None
    assert decode_or_none(nested, Codec(Limits(depth=2))) is None
    assert decode_or_none(nested, Codec(Limits(record_bytes=len(nested)))) is not None
    assert decode_or_none(nested, Codec(Limits(record_bytes=len(nested) - 1))) is None
    three = encode(own(1, b.ContextUpdated("a", "[1,2,3]")))
    assert decode_or_none(three, Codec(Limits(items=3))) is not None
    assert decode_or_none(three, Codec(Limits(items=2))) is None
