"""Masks of attachments: bytes become zeros, and no digest of them passes."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from masking_examples import CANARY, EVERYTHING, entry, rules, unkeyed
from seekpoint.consumers.staging.masks.mask_entries import EntryMasks
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import ReplayRefused
from seekpoint.schemas.folding.fold import try_apply
from seekpoint.schemas.state.process_state import State, new_state
from seekpoint.schemas.values.attachment_ref import Ref
from seekpoint.schemas.values.json_values import dump, load

PASSED: dict[str, Any] = {"pass": EVERYTHING}
BYTES = f"a scan of {CANARY}".encode()
DIGEST = sha256(BYTES).hexdigest()
FIRST = b.PartAttached(DIGEST, len(BYTES), 0, BYTES[:9], "text/plain")
SECOND = replace(FIRST, start=9, data=BYTES[9:])
REF = Ref(DIGEST, len(BYTES), "case-17", "text/plain")


def masked(masks: EntryMasks, body: b.Body) -> Any:
    return masks.entry(entry(body)).body


def state_of(*parts: b.Body) -> State:
    draft = new_state().thaw()
    for seq, part in enumerate(parts, 1):
        assert try_apply(draft, seq, part) is None
    return draft.freeze()


REACHING = [
    {"do": "redact"},
    {"do": "redact", "regex": "[a-z]+@[a-z]+"},
    {"do": "hash", "path": "data"},
    {"do": "drop", "path": "data"},
    {"do": "redact", "path": "digest"},
]


@pytest.mark.parametrize("rule", REACHING)
def test_a_rule_that_reaches_the_bytes_masks_all_of_them(rule: dict[str, Any]) -> None:
    """A regex too: what it looks for may be in another encoding, or on the edge of two parts. The copy still folds."""
    masks = EntryMasks(rules(rule, **PASSED))
    first, second = masked(masks, FIRST), masked(masks, SECOND)
    assert (first.data, second.data) == (bytes(9), bytes(len(BYTES) - 9))
    assert first.digest == second.digest != DIGEST
    assert state_of(first, second).attachments[first.digest].is_whole


def test_a_digest_is_the_same_pseudonym_wherever_it_stands() -> None:
    """In values, in states, in what is detached: a reference leads to its attachment in the copy too."""
    masks = EntryMasks(rules({"do": "redact", "path": "data"}, **PASSED))
    digest = masked(masks, FIRST).digest
    updated = masked(masks, b.ContextUpdated("scan", dump({"at": [REF]})))
    assert load(updated.value) == {"at": [replace(REF, digest=digest)]}
    assert json.loads(masked(masks, b.Detached(dump([DIGEST]))).digests) == [digest]
    seeded = masked(masks, b.Seeded(state_of(FIRST, SECOND).to_bytes().decode()))
    state = State.from_bytes(seeded.state.encode())
    assert [*state.attachments] == [*state.attached_at] == [digest]
    assert DIGEST not in seeded.state


def test_bytes_that_no_rule_reaches_pass_as_they_are() -> None:
    """Rules for other kinds, and for other paths."""
    masks = EntryMasks(unkeyed({"do": "redact", "path": "context", "kinds": ["context_updated"]}, **PASSED))
    assert masked(masks, FIRST) == FIRST
    assert masked(masks, b.Signal("scan", dump(REF))).payload == dump(REF)


def test_masked_digests_need_a_key() -> None:
    """Without one, two attachments would become one, or anybody could hash guesses."""
    masks = EntryMasks(unkeyed({"do": "redact", "path": "data"}, **PASSED))
    with pytest.raises(ReplayRefused, match="reaches attachments"):
        masked(masks, FIRST)


def test_a_reference_is_one_value() -> None:
    """A rule masks it as a whole, and a regex that matches anything in it too. A masked process has its pseudonym."""
    whole = EntryMasks(rules({"do": "redact", "path": "context.scan"}, **PASSED))
    assert masked(whole, b.ContextUpdated("scan", dump(REF))).value == '"***"'
    found = EntryMasks(rules({"do": "redact", "regex": "text/plain", "kinds": ["context_updated"]}, **PASSED))
    assert masked(found, b.ContextUpdated("scan", dump(REF))).value == '"***"'
    renamed = EntryMasks(rules({"do": "hash", "path": "process_id"}, **PASSED))
    ref = load(masked(renamed, b.ContextUpdated("scan", dump(REF))).value)
    assert ref == replace(REF, process_id=renamed.process_id("case-17"))


def test_what_only_looks_like_a_reference_is_masked_as_any_value() -> None:
    """Whoever wrote it."""
    masks = EntryMasks(rules({"do": "redact", "regex": CANARY}, **PASSED))
    value = masked(masks, b.Custom("note", json.dumps({"$attachment": ["x", CANARY]}))).payload
    assert CANARY not in value


def test_a_store_stays_a_store() -> None:
    """A masked name is still one, and no name none: the fold decides by it where the bytes are."""
    masks = EntryMasks(rules({"do": "redact"}, **PASSED))
    stored = masked(masks, b.PartAttached(DIGEST, 5, store="bucket"))
    assert (stored.store, masked(masks, FIRST).store) == ("***", "")
    assert state_of(stored).attachments[stored.digest].is_whole
