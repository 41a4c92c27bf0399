"""Every state within its limit can be restored, and only entries that restore a state may exceed the record limit."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings

from entry_examples import claim, external, own
from folding import OWNED, folded
from histories import expected_states, steps, write_history
from outside_entries import WHOLE
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.config.limits import DEFAULT_LIMITS, Limits
from seekpoint.schemas.errors import LimitExceeded, UndecodableRecord
from seekpoint.schemas.folding.fold import try_apply
from seekpoint.schemas.log.memory_log import MemoryLog
from seekpoint.schemas.state.process_state import State
from seekpoint.schemas.wire.codec import Codec, encode, encode_within, schema_json

ENVELOPE_BYTES = 3_000
"""What an entry has beside the content of a state whose texts are short."""

RESTORING: Mapping[str, Callable[[str], Entry]] = {
    "rewound": lambda text: own(3, b.Rewound(1, text)),
    "forked": lambda text: own(3, b.Forked("parent", 1, text)),
    "seeded": lambda text: external(b.Seeded(text), 9),
}


def forked(state: State) -> b.Forked:
    """What a fork of the process with ``state`` begins with."""
    body = b.Forked("parent", state.seq, state.content_json())
    if (ran := state.agent) is None:
        return body
    return replace(body, agent=ran.name, version=ran.version, definition=ran.definition, input=ran.input_json)


def restorable(state: State) -> None:
    """In a journal whose states may just be as large as this one it is rewound to and forked."""
    limits = Limits(state_bytes=state.content_bytes)
    again, child = state.thaw(), folded(claim(1)).thaw()
    for draft, body in ((again, b.Rewound(max(state.seq, 1), state.content_json())), (child, forked(state))):
        assert len(encode(own(draft.seq + 1, body))) <= state.content_bytes + ENVELOPE_BYTES
        assert try_apply(draft, draft.seq + 1, body, limits) is None
        assert draft.content_bytes <= limits.state_bytes
    assert len(encode(external(b.Seeded(state.to_bytes().decode()), 9))) <= limits.restoring_bytes


@given(steps(40))
@settings(max_examples=150)
def test_every_state_within_its_limit_can_be_restored(history: list[object]) -> None:
    """For any history, the entry is little larger than the content, and the state fits again."""
    log = MemoryLog(partitions=2)
    for state in expected_states(write_history(history, log.append, log.partitions)).values():  # type: ignore[arg-type]
        if state.owner is not None and not state.content_dropped:
            restorable(state)


def test_a_state_with_all_fields_can_be_restored() -> None:
    """It has calls, an effect in doubt, an obligation, frames, and an agent with an input."""
    restorable(WHOLE)


@pytest.mark.parametrize("hard", ["x", '"', "\x01", "é", "\U0001f600"])
def test_a_full_state_of_any_characters_can_be_restored(hard: str) -> None:
    """It is filled to the default limit with texts that grow when they are encoded as JSON."""
    draft, seq = OWNED.thaw(), OWNED.seq
    while True:
        seq += 1
        room = DEFAULT_LIMITS.state_bytes - draft.content_bytes
        width = len(json.dumps(hard, ensure_ascii=False).encode()) - 2
        if try_apply(draft, seq, b.MessageSaid("user", hard * min(100_000, (room - 100) // width)), DEFAULT_LIMITS):
            break
        if room < 5_000:
            break
    state = draft.freeze()
    assert state.content_bytes > DEFAULT_LIMITS.state_bytes - 5_000
    for entry in (own(seq, b.Rewound(1, state.content_json())), own(2, forked(state))):
        assert Codec().decode(encode_within(entry, b"p" * 200, DEFAULT_LIMITS)) == entry
    seed = external(b.Seeded(state.to_bytes().decode()), 9)
    assert folded(Codec().decode(encode_within(seed, b"p" * 200, DEFAULT_LIMITS))).content_hash == state.content_hash


@pytest.mark.parametrize("kind", RESTORING)
def test_only_entries_that_restore_may_exceed_the_record_limit(kind: str) -> None:
    """Writer and readers agree to the byte; all other kinds have the record limit."""
    limits = Limits(record_bytes=1_000, state_bytes=3_000)
    entry = RESTORING[kind]("")
    room = limits.restoring_bytes - len(encode(entry)) - len(b"p") - 3  # a longer length takes three bytes more
    fits, over = RESTORING[kind]("x" * room), RESTORING[kind]("x" * (room + 1))
    assert len(encode_within(fits, b"p", limits)) + len(b"p") == limits.restoring_bytes
    with pytest.raises(LimitExceeded) as caught:
        encode_within(over, b"p", limits)
    assert caught.value.facts["limit"] == limits.restoring_bytes
    assert Codec(limits).decode(encode(fits)) == fits
    with pytest.raises(UndecodableRecord, match="limit"):
        Codec(limits).decode(encode(RESTORING[kind]("x" * (room + 2))))


def larger_than_a_record() -> Entry:
    return own(3, b.MessageSaid("user", "x" * 2_000))


def other_schema() -> tuple[bytes, str]:
    """A schema of another release, whose kinds have other numbers and whose envelope has one field more."""
    schema = json.loads(schema_json())
    schema["fields"].insert(2, {"name": "zone", "type": ["null", "string"], "default": None})
    return b"\x11" * 8, json.dumps(schema)


def in_the_other_schema(entry: Entry) -> bytes:
    """The same bytes under the other fingerprint, and a null where the other schema has its own field."""
    data, at = encode(entry), 10 + 16 + 1 + len(entry.process_id)
    return data[:2] + b"\x11" * 8 + data[10:at] + b"\0" + data[at:]


def test_a_large_entry_of_any_other_kind_is_poison() -> None:
    """This holds for the current schema and for another one; kinds that restore are read in both."""
    limits = Limits(record_bytes=1_000, state_bytes=3_000)
    codec = Codec(limits, dict([other_schema()]))
    large = larger_than_a_record()
    for data in (encode(large), in_the_other_schema(large)):
        assert Codec(schemas=dict([other_schema()])).decode(data) == large
        with pytest.raises(UndecodableRecord, match="limit"):
            codec.decode(data)
    for made in RESTORING.values():
        entry = made("x" * 2_000)
        assert codec.decode(encode(entry)) == codec.decode(in_the_other_schema(entry)) == entry


def test_a_large_record_of_another_kind_is_refused_before_its_body_is_read() -> None:
    """Ten megabytes of two-byte members would be five million objects."""
    many = bytearray(encode(own(1, b.ContextUpdatedMany({}))))[:-1]
    many += b"\x80\x80\x80\x04" + b"\x02a\x02" * 3_000_000
    codec = Codec(schemas=dict([other_schema()]))
    at = 10 + 16 + 1 + len("case-17")
    other = bytes(many[:2]) + b"\x11" * 8 + bytes(many[10:at]) + b"\0" + bytes(many[at:])
    for data in (bytes(many), other):
        tracemalloc.start()
        try:
            with pytest.raises(UndecodableRecord, match="limit"):
                codec.decode(data)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 1_048_576
