"""Process ids in the public API: no two legal ids look alike."""

from __future__ import annotations

import re
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from owners import Owner
from seekpoint.consumers import Recovery
from seekpoint.producers import Node
from seekpoint.schemas import MemoryLog, process_key
from seekpoint.schemas.errors import InvalidName, UnknownProcess
from seekpoint.schemas.values.process_ids import INVISIBLE, named_process_key

ALIKE = [
    "case\u200b-17",
    "\u200b",
    "\u202ecase",
    "case\ufeff",
    "\u3164",
    "case\u00a017",
    "case\ufe0f",
    "c\U000e0061",
    "\u2800",
]


@pytest.mark.parametrize("process_id", ["case-17", "case 17/a:b", "x" * 200, "Grüße", "漢字", "מקרה-7", "🤖"])
def test_visible_characters_are_allowed(process_id: str) -> None:
    """Letters of any script, spaces between them and pictures are legal."""
    assert named_process_key(process_id) == process_id.encode()


@pytest.mark.parametrize("process_id", [*ALIKE, " ", "   ", "a\n", "", "x" * 201, "\ud800"])
def test_invisible_characters_are_refused(process_id: str) -> None:
    """The error shows the character as an escape."""
    with pytest.raises(InvalidName) as caught:
        named_process_key(process_id)
    assert not re.search(f"[{INVISIBLE}]", str(caught.value))


def test_an_id_in_another_normal_form_is_refused_with_the_one_to_use() -> None:
    """macOS types decomposed characters; the error has the composed id."""
    composed, decomposed = "Gr\u00fc\u00dfe", "Gru\u0308\u00dfe"
    assert named_process_key(composed)
    with pytest.raises(InvalidName, match="normal form C") as caught:
        named_process_key(decomposed)
    assert caught.value.hint == f"use {composed}"


@given(st.text(max_size=40))
def test_every_id_that_the_api_allows_is_legal_in_the_format(text: str) -> None:
    """A legal id is in normal form and visible; any other raises InvalidName."""
    try:
        key = named_process_key(text)
    except InvalidName:
        return
    assert key == process_key(text)
    assert unicodedata.is_normalized("NFC", text)
    assert any(unicodedata.category(sign)[0] not in "CZ" or unicodedata.category(sign) in ("Cn", "Co") for sign in text)


def test_every_format_character_of_unicode_is_invisible() -> None:
    """The test covers the characters that this Python knows."""
    hidden = re.compile(f"[{INVISIBLE}]")
    known = [chr(at) for at in range(sys.maxunicode + 1) if unicodedata.category(chr(at)) in ("Cf", "Zl", "Zp")]
    assert len(known) > 150
    assert [sign for sign in known if not hidden.match(sign)] == []
    assert not hidden.search("".join(map(chr, range(0x20, 0x7F))) + "äöüßéñ漢字かな한글абвאבג")


@pytest.mark.parametrize("wrong", ["case\u200b-17", "Gru\u0308n"])
async def test_every_public_call_refuses_an_illegal_id(wrong: str) -> None:
    """Owning, forking, signalling, sharing and reading refuse it and write nothing."""
    log = MemoryLog()
    async with Node.in_memory(log) as node, Recovery.in_memory(log) as recovery:
        async with node.open("case-17") as process:
            await process.update("a", 1)
        before = [log.watermarks(partition).high for partition in range(log.partitions)]
        for call in (
            lambda: node.open(wrong),
            lambda: node.fork("case-17", wrong),
            lambda: node.signal(wrong, "go"),
            lambda: node.cancel(wrong),
            lambda: node.shared(wrong).set(1),
            lambda: node.recover(wrong),
            lambda: recovery.recover(wrong),
            lambda: recovery.recover_many([wrong]),
            lambda: recovery.verify(wrong),
            lambda: recovery.last_checkpoint(wrong),
            lambda: anext(recovery.entries(wrong)),
        ):
            with pytest.raises(InvalidName):
                await call()
        assert [log.watermarks(partition).high for partition in range(log.partitions)] == before
        with pytest.raises(UnknownProcess):
            await recovery.recover("case-18")


async def test_a_record_of_another_client_with_such_an_id_is_still_read() -> None:
    """The format allows the id, so readers list and fold the process, and its neighbours too."""
    log = MemoryLog()
    owner = Owner(log.append, log.partitions, "case\u200b-17")
    owner.claim("node-a")
    owner.update("a", "1")
    async with Recovery.in_memory(log) as recovery:
        assert {name: found.state.seq for name, found in (await recovery.processes()).items()} == {"case\u200b-17": 1}
        assert await recovery.verify_all()
