"""Ids of entries and process ids."""

from __future__ import annotations

import time
import uuid

import pytest
from hypothesis import given

from entry_examples import PROCESS_IDS, claim, own
from seekpoint.schemas.bodies.entry import id_text, new_id, process_key
from seekpoint.schemas.errors import InvalidName


def test_a_new_id_is_a_uuid_of_version_7() -> None:
    """It has the version, the variant, and the present milliseconds of RFC 9562."""
    before = time.time_ns() // 1_000_000
    made = new_id()
    after = time.time_ns() // 1_000_000
    found = uuid.UUID(bytes=made)
    assert (type(made), len(made)) == (bytes, 16)
    assert (found.version, found.variant) == (7, uuid.RFC_4122)
    assert before <= int.from_bytes(made[:6], "big") <= after


def test_new_ids_differ_and_sort_by_time() -> None:
    """Ten thousand ids are all different; an id of a later millisecond sorts after them."""
    first = new_id()
    assert len({new_id() for _ in range(10_000)}) == 10_000
    deadline = time.monotonic() + 60
    while (later := new_id())[:6] == first[:6]:
        assert time.monotonic() < deadline
    assert later > first


def test_an_id_is_shown_as_a_uuid() -> None:
    """The text of None is None."""
    made = new_id()
    assert uuid.UUID(id_text(made)).bytes == made
    assert id_text(None) is None


@given(PROCESS_IDS)
def test_a_process_key_is_its_id_in_utf8(process_id: str) -> None:
    """Any text of 1 to 200 bytes without control characters is legal."""
    assert process_key(process_id) == process_id.encode()


@pytest.mark.parametrize("process_id", ["x", "x" * 200, "ü" * 100, "case 17/a:b", "👩‍💻"])
def test_allowed_process_ids(process_id: str) -> None:
    """The limit counts bytes, not characters; joiners are no control characters."""
    assert process_key(process_id).decode() == process_id


@pytest.mark.parametrize(
    "process_id", ["", "x" * 201, "ü" * 101, "a\nb", "\x00floor", "a\x7f", "a\x85", "\ud800", 17, None]
)
def test_refused_process_ids(process_id: object) -> None:
    """An empty or too long id, a control character and a non-text raise a typed error."""
    with pytest.raises(InvalidName):
        process_key(process_id)  # type: ignore[arg-type]


def test_the_kind_of_an_entry_is_that_of_its_body() -> None:
    """The property returns the body's KIND."""
    assert (claim(1).kind, own(1).kind) == ("claim", "context_updated")
