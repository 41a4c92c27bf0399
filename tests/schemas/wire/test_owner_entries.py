"""``decode_owner_entry`` agrees with ``decode``, and accepts nothing that ``decode`` refuses."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entry_examples import IDS, any_body, any_entry, own
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.wire.avro_primitives import get_long
from seekpoint.schemas.wire.codec import Codec, encode
from wire_examples import decode_or_none

OWNED = st.builds(
    Entry,
    id=IDS,
    process_id=st.just("case-17"),
    seq=st.integers(0, 1 << 26) | st.integers(-(1 << 14), 1 << 14),
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


def agree(data: bytes, key: bytes) -> bool:
    """Return whether the fast path decoded the entry, after checking that it agrees with ``decode``."""
    owned, entry = Codec().decode_owner_entry(data, key), decode_or_none(data)
    if owned is not None:
        assert entry is not None
        assert get_long(owned.encoded_ts, 0) == (entry.ts, len(owned.encoded_ts))
        assert owned._replace(encoded_ts=b"") == (entry.seq, entry.epoch, entry.claim_id, b"", entry.body)
        assert entry.process_id.encode() == key
    return owned is not None


@given(OWNED)
@settings(deadline=None)
def test_the_fast_path_agrees_with_decode(entry: Entry) -> None:
    """It reads an entry of the usual form, whatever its body, but not under another key."""
    assert agree(encode(entry), b"case-17")
    assert not agree(encode(entry), b"case-18")


@given(st.one_of(any_entry(), OWNED), st.data())
@settings(max_examples=300, deadline=None)
def test_the_fast_path_never_accepts_what_decode_refuses(entry: Entry, data: st.DataObject) -> None:
    """With flipped bits, truncated or trailing bytes it returns None or agrees with decode."""
    broken = bytearray(encode(entry))
    for _ in range(data.draw(st.integers(0, 3))):
        broken[data.draw(st.integers(0, len(broken) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    agree(bytes(broken), entry.process_id.encode())
    agree(bytes(broken[: data.draw(st.integers(0, len(broken)))]), entry.process_id.encode())
    agree(bytes(broken) + b"\0", entry.process_id.encode())


def test_the_fast_path_agrees_for_each_flipped_bit() -> None:
    """A flip may make a number negative, a branch unknown or the process id another one."""
    entry = own(1, b.MessageSaid("user", "x"))
    data, key = encode(entry), entry.process_id.encode()
    assert agree(data, key)
    for at in range(len(data)):
        for bit in range(8):
            broken = bytearray(data)
            broken[at] ^= 1 << bit
            agree(bytes(broken), key)


@pytest.mark.parametrize("ts", [0, 1, 63, 64, -1, 1 << 20, (1 << 48) - 1, 1 << 48, (1 << 55) - 1, 1 << 55, -(1 << 60)])
def test_a_timestamp_may_have_any_number_of_bytes(ts: int) -> None:
    """Present-day timestamps have eight bytes."""
    entry = own(1, b.MessageSaid("user", "x"))._replace(ts=ts)
    assert decode_or_none(encode(entry)) == entry


def test_the_fast_path_respects_the_limits() -> None:
    """A record that is too large or nested too deep is left to decode, which refuses it."""
    large = encode(own(1, b.MessageSaid("user", "x" * 2_000)))
    deep = encode(own(1, b.ContextUpdated("a", "[" * 70 + "]" * 70)))
    key = own(1, b.MessageSaid()).process_id.encode()
    assert Codec().decode_owner_entry(large, key) is not None
    assert Codec(Limits(record_bytes=1_000)).decode_owner_entry(large, key) is None
    assert Codec().decode_owner_entry(deep, key) is None
