"""A seed: the first entry of a replayed process carries its state, and later entries fold on that state."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from histories import Step, steps, write_history
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry, new_id
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.errors import NewerFormat, UndecodableRecord
from seekpoint.schemas.folding.fold import Verdict, advance, fold
from seekpoint.schemas.log.manifest import FORMAT, MANIFEST_KEY, Manifest, newest_schemas, schema_key
from seekpoint.schemas.log.memory_log import MemoryLog
from seekpoint.schemas.state.process_state import FOLD_VERSION, Draft, State, new_state
from seekpoint.schemas.values.json_values import dump
from seekpoint.schemas.wire.codec import SCHEMA_FINGERPRINT, Codec, encode, schema_json


def seeded(state: State, process_id: str = "case-17") -> Entry:
    text = state.to_bytes().decode()
    return Entry(new_id(), process_id, None, 0, None, None, 0, None, None, None, b.Seeded(text))


def external(body: b.Body) -> Entry:
    return Entry(new_id(), "case-17", None, 0, None, None, 0, None, None, None, body)


def own(seq: int, claim: Entry, body: b.Body, epoch: int = 1) -> Entry:
    return Entry(new_id(), "case-17", seq, epoch, claim.id, None, 0, None, None, None, body)


def entries_of(history: list[Step], process_id: str) -> list[Entry]:
    log, codec, found = MemoryLog(1), Codec(), []
    write_history(history, log.append, 1)
    for batch in log.read(0, 0, log.watermarks(0).high):
        for record in batch.records:
            try:
                entry = codec.decode(record.value)
            except UndecodableRecord:
                continue
            if entry.process_id == process_id and record.key == process_id.encode():
                found.append(entry)
    return found


@given(steps(), st.integers(0, 40))
def test_entries_after_a_seed_fold_like_the_whole_history(history: list[Step], cut: int) -> None:
    """Wherever the history is cut, the hashes are equal; the offsets are those of the new log."""
    entries = entries_of(history, "case-17")
    cut = min(cut, len(entries))
    assume(cut or not entries or not isinstance(entries[0].body, b.Seeded))  # a process has one seed, its first entry
    before = new_state()
    for offset, entry in enumerate(entries[:cut]):
        before = fold(before, offset, entry)
    whole, slice_ = before, fold(new_state(), 100, seeded(before))
    assert slice_.hash == before.hash
    assert (slice_.offset, slice_.first_offset) == (100, 100)
    for offset, entry in enumerate(entries[cut:]):
        whole, slice_ = fold(whole, 1_000 + offset, entry), fold(slice_, 1_000 + offset, entry)
        assert slice_.hash == whole.hash


def test_a_seed_that_is_not_the_first_entry_is_forged() -> None:
    """Otherwise anybody could replace a process: a claim, even a lost one, a signal or a seed before it is enough."""
    claim = external(b.Claim(0, "node", "boot"))
    other = fold(fold(new_state(), 0, claim), 1, own(1, claim, b.ContextUpdated("a", "1")))
    for first in (claim, external(b.Signal("go", "1")), seeded(other), external(b.Claim(7, "n", "b"))):
        draft = Draft()
        advance(draft, 5, first)
        kept = draft.snapshot()
        assert advance(draft, 6, seeded(other)) is Verdict.FORGED
        assert draft.snapshot().hash == kept.hash
        assert draft.forged_entries == kept.forged_entries + 1


def test_a_seed_read_twice_is_skipped() -> None:
    """As with any entry, the offset shows that the seed was applied."""
    draft = Draft()
    assert advance(draft, 5, seeded(new_state())) is Verdict.APPLIED
    assert advance(draft, 5, seeded(new_state())) is Verdict.SKIPPED


@pytest.mark.parametrize("text", ["", "{}", "no JSON", "[1]", '{"fold_version":0}', "\ud800"])
def test_a_seed_that_holds_no_state_is_forged(text: str) -> None:
    """The state stays unchanged."""
    draft = Draft()
    assert advance(draft, 0, external(b.Seeded(text))) is Verdict.FORGED
    assert draft.snapshot().hash == new_state().hash


def test_a_seed_with_an_invalid_dynamic_value_is_forged() -> None:
    """The values of a seed are untrusted: their depth and syntax are checked before they are decoded."""
    draft = new_state().thaw()
    draft.values_json = {"deep": "[" * 100 + "]" * 100}
    target = Draft()
    assert advance(target, 0, seeded(draft.freeze())) is Verdict.FORGED
    assert target.values_json == {}


STATE = new_state().to_bytes().decode()
NEWER_FOLD = external(b.Seeded(STATE.replace(f'"fold_version":{FOLD_VERSION}', '"fold_version":99')))
NEWER_SCHEMA = json.dumps({**json.loads(schema_json()), "format": FORMAT + 1})


def test_a_seed_of_a_newer_fold_without_a_newer_format_is_forged() -> None:
    """Anybody can write such a version number, so it must not stop the readers of the partition."""
    codec = Codec(refresh=lambda: {SCHEMA_FINGERPRINT: schema_json(), b"junk....": "no schema"})
    entry = codec.decode(encode(NEWER_FOLD))
    draft = Draft()
    assert advance(draft, 0, entry) is Verdict.FORGED
    assert draft.snapshot().hash == new_state().hash
    assert Codec().decode(encode(NEWER_FOLD)) == entry


def test_a_seed_of_a_newer_fold_in_a_newer_format_stops_the_reader() -> None:
    """The reader re-reads the schemas and stops: later entries cannot be folded without the seed."""
    with pytest.raises(NewerFormat):
        Codec(refresh=lambda: {SCHEMA_FINGERPRINT: NEWER_SCHEMA}).decode(encode(NEWER_FOLD))
    with pytest.raises(NewerFormat):
        Codec(schemas={}, refresh=lambda: {b"another.": NEWER_SCHEMA}).decode(encode(NEWER_FOLD))


def test_a_seed_of_this_fold_does_not_re_read_the_schemas() -> None:
    """The schemas are read again only for an unknown fold version."""
    Codec(refresh=lambda: pytest.fail("asked")).decode(encode(seeded(new_state())))


def test_a_manifest_of_a_newer_format_stops_a_reader_of_the_schemas() -> None:
    """The manifest is decisive even if the newer writer schema is equal to this one."""
    manifest = Manifest(journal="j", format=FORMAT + 1, partitions=1, topic_ids={}, limits=Limits())
    with pytest.raises(NewerFormat):
        newest_schemas({MANIFEST_KEY: manifest.to_bytes()})
    old = replace(manifest, format=FORMAT).to_bytes()
    assert newest_schemas({MANIFEST_KEY: old, schema_key(SCHEMA_FINGERPRINT): b"{}"}) == {SCHEMA_FINGERPRINT: "{}"}


@pytest.mark.parametrize(
    ("name", "value"),
    [("seq", 2**62), ("epoch", 2**64 - 1), ("epoch", -1), ("shared_version", 2**63), ("forgotten", {"a:1": -1})],
    ids=lambda each: str(each)[:12],
)
def test_a_seed_with_counts_out_of_range_is_forged(name: str, value: object) -> None:
    """The fold would increment them beyond what JSON can carry."""
    whole = json.loads(new_state().to_bytes())
    whole["ownership"][name] = value
    assert advance(Draft(), 0, external(b.Seeded(json.dumps(whole)))) is Verdict.FORGED


@pytest.mark.parametrize("part", ["result", "agent", "obligations", "shared_json"])
def test_each_dynamic_value_of_a_seed_is_checked(part: str) -> None:
    """A malformed value in any field is refused when the seed is folded, not when the value is read."""
    bad = '{"$nope":"1"}'
    made = {
        "result": bad,
        "agent": ["a", "1", "d", bad],
        "obligations": [["e:1", "undo", bad, "open"]],
        "shared_json": bad,
    }
    whole = json.loads(new_state().to_bytes())
    whole["ownership"][part] = made[part]
    assert advance(Draft(), 0, external(b.Seeded(json.dumps(whole)))) is Verdict.FORGED


def test_a_seed_beyond_the_limits_of_its_journal_is_forged() -> None:
    """The limits are those of the journal, not the default ones."""
    state = fold(fold(new_state(), 0, external(b.Claim(0, "n", "b"))), 1, external(b.Signal("x", "[[[1]]]")))
    assert advance(Draft(), 0, seeded(state), Limits(depth=2)) is Verdict.FORGED
    assert advance(Draft(), 0, seeded(state), Limits(depth=3)) is Verdict.APPLIED
    draft = new_state().thaw()
    draft.values_json = {"large": dump("x" * 1_000)}
    large = State.from_bytes(draft.freeze().to_bytes())
    assert advance(Draft(), 0, seeded(large), Limits(state_bytes=999)) is Verdict.FORGED


def test_a_seed_is_an_ownership_entry() -> None:
    """A seed does not become the last kind: the state in it says what that is."""
    claim = external(b.Claim(0, "node", "boot"))
    before = fold(fold(new_state(), 0, claim), 1, own(1, claim, b.Custom("note", "1")))
    after = fold(new_state(), 9, Codec().decode(encode(seeded(before))))
    assert after.last_kind == "custom"
    assert (after.epoch, after.owner, after.seq) == (1, claim.id, 1)
