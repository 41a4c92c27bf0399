"""A seed: the first entry of a replayed process carries its state, and those after it fold as if it had lived there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from histories import Step, steps, write_history
from seekpoint.schemas import bodies as b
from seekpoint.schemas.codec import Codec, encode
from seekpoint.schemas.entry import Entry, new_id
from seekpoint.schemas.errors import NewerFormat, UndecodableRecord
from seekpoint.schemas.fold import Verdict, advance, fold
from seekpoint.schemas.memory_log import MemoryLog
from seekpoint.schemas.state import Draft, State, new_state


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
def test_a_slice_behind_a_seed_folds_as_the_whole_history(history: list[Step], cut: int) -> None:
    """Wherever it is cut, whatever happens after it: the hashes are equal, offsets are the new log's."""
    entries = entries_of(history, "case-17")
    cut = min(cut, len(entries))
    before = new_state()
    for offset, entry in enumerate(entries[:cut]):
        before = fold(before, offset, entry)
    whole, slice_ = before, fold(new_state(), 100, seeded(before))
    assert slice_.hash == before.hash
    assert (slice_.offset, slice_.first_offset) == (100, 100)
    for offset, entry in enumerate(entries[cut:]):
        whole, slice_ = fold(whole, 1_000 + offset, entry), fold(slice_, 1_000 + offset, entry)
        assert slice_.hash == whole.hash


def test_a_seed_after_anything_else_is_forged() -> None:
    """Or anybody could take a process with its history: after a claim, a signal, another seed, even a lost claim."""
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
    """By its offset, as any entry."""
    draft = Draft()
    assert advance(draft, 5, seeded(new_state())) is Verdict.APPLIED
    assert advance(draft, 5, seeded(new_state())) is Verdict.SKIPPED


@pytest.mark.parametrize("text", ["", "{}", "no JSON", "[1]", '{"fold_version":0}', "\ud800"])
def test_what_is_no_state_is_forged(text: str) -> None:
    """And nothing of it stays."""
    draft = Draft()
    assert advance(draft, 0, external(b.Seeded(text))) is Verdict.FORGED
    assert draft.snapshot().hash == new_state().hash


def test_a_seed_with_a_text_that_may_not_be_loaded_is_forged() -> None:
    """Its values are as untrusted as any: depth and form are checked before anybody decodes them."""
    draft = new_state().thaw()
    draft.values_json = {"deep": "[" * 100 + "]" * 100}
    target = Draft()
    assert advance(target, 0, seeded(draft.freeze())) is Verdict.FORGED
    assert target.values_json == {}


def test_a_seed_of_a_newer_fold_stops_the_reader() -> None:
    """It is not skipped: what follows would be folded on nothing."""
    text = new_state().to_bytes().decode().replace('"fold_version":1', '"fold_version":99')
    with pytest.raises(NewerFormat):
        advance(Draft(), 0, external(b.Seeded(text)))


def test_a_seed_is_ownership_and_no_entry_of_the_agent() -> None:
    """It is not what last happened: that is what the state says."""
    claim = external(b.Claim(0, "node", "boot"))
    before = fold(fold(new_state(), 0, claim), 1, own(1, claim, b.Custom("note", "1")))
    after = fold(new_state(), 9, Codec().decode(encode(seeded(before))))
    assert after.last_kind == "custom"
    assert (after.epoch, after.owner, after.seq) == (1, claim.id, 1)
