"""The rules for attachments: parts in their order, once each, within the limits of the process."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import pytest

from entry_examples import claim, own
from owner_histories import after
from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.limits import DEFAULT_LIMITS, Limits
from seekpoint.schemas.folding.attachment_rules import ATTACHMENTS_MAX
from seekpoint.schemas.folding.fold import fold, try_apply
from seekpoint.schemas.state.process_state import State, content_width, new_state

BYTES = b"a large value"
DIGEST = sha256(BYTES).hexdigest()


def part(start: int, stop: int) -> b.PartAttached:
    """A part of the attachment of ``BYTES``."""
    return b.PartAttached(DIGEST, len(BYTES), start, BYTES[start:stop], "text/plain")


def fits(state: State, body: b.Body) -> bool:
    """Whether ``body`` fits as the owner's next entry; if not, it changes nothing."""
    draft = state.thaw()
    misfit = try_apply(draft, state.seq + 1, body)
    if misfit is not None:
        assert misfit[0] == "illegal_attachment"
        assert draft.freeze() == state
    return misfit is None


FIRST, SECOND = part(0, 7), part(7, len(BYTES))


def test_an_attachment_is_whole_with_its_last_part() -> None:
    """Before that, nobody may read it. The state has the offset of each part, and none of the bytes."""
    begun, whole = after(FIRST), after(FIRST, SECOND)
    assert not begun.attachments[DIGEST].is_whole
    found = whole.attachments[DIGEST]
    assert found.is_whole
    assert (found.size, found.media_type, found.received, found.parts) == (len(BYTES), "text/plain", len(BYTES), 2)
    first, second = whole.attached_at[DIGEST]
    assert second == first + 1 == whole.offset
    assert whole.attached_bytes == len(BYTES)
    assert BYTES[:7].decode() not in whole.to_bytes().decode()


def test_a_part_that_is_there_changes_nothing() -> None:
    """Two nodes that write the same bytes at once do not disturb each other; the seq goes on."""
    twice = after(FIRST, FIRST, SECOND, FIRST, SECOND)
    assert twice.attachments == after(FIRST, SECOND).attachments
    assert len(twice.attached_at[DIGEST]) == 2
    assert twice.degraded is None


@pytest.mark.parametrize(
    "body",
    [
        SECOND,
        part(0, 0),
        replace(FIRST, digest="x" * 64),
        replace(FIRST, digest=DIGEST.upper()),
        replace(FIRST, size=-1),
        replace(FIRST, size=6),
        replace(FIRST, start=-1),
        replace(FIRST, store="bucket"),
    ],
)
def test_a_first_part_begins_at_the_first_byte_of_a_sha_256(body: b.PartAttached) -> None:
    """Anything else is refused, and changes nothing."""
    assert not fits(after(), body)


@pytest.mark.parametrize("body", [part(8, 9), replace(SECOND, size=14), replace(SECOND, store="bucket")])
def test_a_later_part_follows_the_one_before_it(body: b.PartAttached) -> None:
    """A hole, another size and another place are refused: the bytes would not be those of the digest."""
    assert not fits(after(FIRST), body)


def test_an_attachment_without_bytes_has_one_part() -> None:
    """So its entry says that it was attached."""
    nothing = b.PartAttached(sha256().hexdigest())
    assert after(nothing).attachments[nothing.digest].is_whole


def test_a_blob_store_needs_one_entry() -> None:
    """The entry names the store. The bytes count towards the limit all the same."""
    state = after(b.PartAttached(DIGEST, 5_000, store="bucket"))
    assert state.attachments[DIGEST].is_whole
    assert state.attachments[DIGEST].store == "bucket"
    assert (state.attached_bytes, dict(state.attached_at)) == (5_000, {})


def test_a_process_has_a_limit_of_attached_bytes() -> None:
    """The size that the first part names counts at once. Detached bytes do not count."""
    draft, limits = after(FIRST).thaw(), Limits(attached_bytes=20)
    other = b.PartAttached("0" * 64, 8, 0, b"12345678")
    misfit = try_apply(draft, draft.seq + 1, other, limits)
    assert misfit == ("attachment_limit", "the process would have 21 bytes of attachments, 20 are allowed")
    assert try_apply(draft, draft.seq + 1, b.Detached(f'["{DIGEST}"]'), limits) is None
    assert try_apply(draft, draft.seq + 1, other, limits) is None


def test_a_process_has_a_limit_of_attachments() -> None:
    """Every view of a state lists them."""
    draft = after().thaw()
    for number in range(ATTACHMENTS_MAX):
        assert try_apply(draft, draft.seq + 1, b.PartAttached(f"{number:064}", 1, 0, b"1")) is None
    misfit = try_apply(draft, draft.seq + 1, FIRST)
    assert misfit is not None
    assert misfit[0] == "attachment_limit"


def test_what_a_state_has_of_attachments_counts_as_content() -> None:
    """Not their bytes, but each of their parts, so that a state stays within its limit."""
    state = after(FIRST, SECOND)
    assert 200 < state.content_bytes == content_width(state) < 400
    assert State.from_bytes(state.to_bytes()).content_bytes == state.content_bytes
    draft, limits = after(FIRST).thaw(), replace(DEFAULT_LIMITS, state_bytes=state.content_bytes - 1)
    assert (try_apply(draft, draft.seq + 1, SECOND, limits) or ("",))[0] == "state_limit"


def test_what_is_detached_is_gone() -> None:
    """An unknown digest changes nothing. The same bytes may be attached again."""
    gone = after(FIRST, SECOND, b.Detached(f'["{DIGEST}","{"0" * 64}"]'))
    assert (dict(gone.attachments), dict(gone.attached_at), gone.attached_bytes) == ({}, {}, 0)
    assert gone.content_bytes == after().content_bytes
    assert fits(gone, FIRST)


@pytest.mark.parametrize("digests", ["[1]", "{}", "null"])
def test_a_list_of_digests_is_a_list_of_texts(digests: str) -> None:
    """The codec has checked only that it is JSON."""
    assert not fits(after(), b.Detached(digests))


def test_a_rewind_and_a_fork_keep_the_attachments_of_the_process() -> None:
    """They belong to the process, as its owner does; a restored content may refer to any of them."""
    past = after()
    rewound = after(FIRST, SECOND, b.Rewound(0, past.content_json()))
    assert rewound.attachments[DIGEST].is_whole
    assert rewound.attached_at[DIGEST]
    forked = after(b.Forked("parent", 3, after(FIRST, SECOND).content_json()))
    assert dict(forked.attachments) == {}


def test_a_finished_process_keeps_them_as_long_as_its_content() -> None:
    """The gravestone has none: a trim may delete them."""
    state = fold(after(FIRST, SECOND), 9, own(3, b.Finished("1")))
    assert state.attachments[DIGEST].is_whole
    bare = state.without_content()
    assert (dict(bare.attachments), dict(bare.attached_at), bare.attached_bytes) == ({}, {}, 0)
    assert bare.hash == state.hash


def test_no_hash_depends_on_where_the_parts_are() -> None:
    """A copy of a journal has other offsets and the same states."""
    states = []
    for gap in (1, 7):
        state = fold(new_state(), 0, claim(1))
        for number, body in enumerate((FIRST, SECOND), 1):
            state = fold(state, number * gap, own(number, body))
        states.append(state)
    assert states[0].hash == states[1].hash
    assert states[0].attached_at != states[1].attached_at


def test_a_state_has_its_attachments_in_its_bytes() -> None:
    """A checkpoint and a view have what a reader needs to find them."""
    state = after(FIRST, SECOND)
    restored = State.from_bytes(state.to_bytes())
    assert restored == state
    assert restored.attached_bytes == len(BYTES)
    assert restored.attached_at == state.attached_at
    with pytest.raises(TypeError):
        restored.attachments["x"] = None  # type: ignore[index]  # a state is read-only
