"""Masks of what stands in several texts: the chunks of a stream, the parts of a message. And of texts without end."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masking_examples import mask
from seekpoint.adapters.models.stream_coding import EventDecoder, EventEncoder
from seekpoint.consumers.staging.masks.mask_matching import Matching

EMAIL = r"[\w.+-]+@[\w-]+\.\w+"
IBAN = r"DE\d{20}"
SAID = "Write to alice@example.com - IBAN DE89370400440532013000."
HASHING = mask({"regex": EMAIL, "do": "hash"})
MASK = mask({"regex": EMAIL, "do": "hash"}, {"regex": IBAN, "do": "redact"})
MASKED = f"Write to {HASHING.pseudonym('alice@example.com')} - IBAN ***."


def texts_in(value: Any) -> str:
    """Return all texts of a value, joined."""
    if isinstance(value, dict):
        return "".join(texts_in(one) for one in value.values())
    return "".join(map(texts_in, value)) if isinstance(value, list) else str(value) if isinstance(value, str) else ""


SHAPES: dict[str, Callable[[str], Any]] = {
    "texts": lambda word: word,
    "openai": lambda word: {"choices": [{"index": 0, "delta": {"content": word}}]},
    "anthropic": lambda word: {"index": 1, "delta": {"text": word}},
    "gemini": lambda word: {"candidates": [{"content": {"parts": [{"text": word}]}}]},
    "json texts": lambda word: json.dumps({"delta": {"text": word}}),
}


@pytest.mark.parametrize("shape", SHAPES)
@given(cuts=st.lists(st.integers(0, len(SAID)), max_size=12))
def test_a_match_in_pieces_is_masked(shape: str, cuts: list[int]) -> None:
    """However a model cuts its answer, nothing of a match is left, and no piece is lost."""
    ends = [0, *sorted(cuts), len(SAID)]
    pieces = [SHAPES[shape](SAID[start:end]) for start, end in pairwise(ends)]
    masked = MASK.value(pieces, ("response",))
    opened = [json.loads(one) if shape == "json texts" else one for one in masked]
    assert len(masked) == len(pieces)
    assert re.fullmatch(r"Write to [0-9a-f]{16} - IBAN \*{3}\.", texts_in(opened))


def test_an_answer_in_recorded_events_is_masked() -> None:
    """The adapters for models write of an event only what differs, which is at another path of the value."""
    words = [
        "Write to ",
        "ali",
        "ce",
        "@",
        "exam",
        "ple",
        ".com",
        " - IBAN DE89",
        "3704",
        "0044",
        "0532",
        "0130",
        "00.",
    ]
    encoder, decoder = EventEncoder(), EventDecoder()
    events = [{"n": at, "delta": {"text": word}} for at, word in enumerate(words)]
    coded = [encoder.encoded(event) for event in events]
    masked = MASK.value([{"head": {}}, *coded, {"summary": {}}], ("response",))
    assert "".join(decoder.decoded(one)["delta"]["text"] for one in masked[1:-1]) == MASKED
    by_path = mask({"path": "response.event.delta.text", "do": "redact"}).value(coded, ("response",))
    decoder = EventDecoder()
    assert {decoder.decoded(one)["delta"]["text"] for one in by_path} == {"***"}


def test_answers_side_by_side_are_masked_each() -> None:
    """The pieces of two choices alternate: their index tells them apart."""
    words = ["to alice@", "to bob@", "example", "example", ".com", ".org"]
    chunks = [{"choices": [{"index": at % 2, "delta": word}]} for at, word in enumerate(words)]
    masked = texts_in(HASHING.value(chunks, ("response",)))
    assert ("alice" in masked, "bob" in masked, "example" in masked) == (False, False, False)


def test_arguments_in_pieces_are_opened() -> None:
    """The arguments of a tool are JSON in pieces: paths reach into it, and escapes hide nothing."""
    pieces = ['{"to": {"em', 'ail": "alice', "\\\\u0040example".replace("\\\\", "\\"), '.com"}, "n": 1}']
    chunks = [{"delta": {"arguments": piece}} for piece in pieces]
    assert json.loads(texts_in(MASK.value(chunks, ("response",)))) == {
        "to": {"email": HASHING.pseudonym("alice@example.com")}, "n": 1,
    }  # fmt: skip
    by_path = mask({"path": "response.delta.arguments.to.email", "do": "redact"}).value(chunks, ("response",))
    assert json.loads(texts_in(by_path)) == {"to": {"email": "***"}, "n": 1}


def test_neighbouring_parts_of_a_message_are_joined() -> None:
    """An address that begins in one part and ends in the next one is in neither."""
    parts = [{"type": "text", "text": "ask ali"}, {"type": "text", "text": "ce@example.com"}]
    message = {"messages": [{"role": "user", "content": parts}]}
    assert "ce@" not in json.dumps(MASK.value(message, ("request",)))
    assert "ali" not in json.dumps(MASK.json(json.dumps(message), ("request",)))


def test_whole_matches_beside_each_other_keep_their_pseudonyms() -> None:
    """A list of addresses is no text in pieces: each one has the pseudonym that it has everywhere."""
    addresses = ["a@x.com", "b@x.com", "c@x.org"]
    assert HASHING.value(addresses, ("context",)) == [HASHING.pseudonym(one) for one in addresses]
    assert HASHING.value(["to a@x.com", "b@x.com now"], ("context",)) == [
        f"to {HASHING.pseudonym('a@x.com')}", f"{HASHING.pseudonym('b@x.com')} now",
    ]  # fmt: skip
    assert MASK.value(["DE893", "70400", "x"], ("context",)) == ["DE893", "70400", "x"]


def test_a_match_that_goes_on_in_the_next_piece_leaves_nothing() -> None:
    """A piece may match already, with the rest in the next one."""
    assert mask({"regex": r"DE\d{2,20}", "do": "redact"}).value(["DE8937", "0400440532"], ("context",)) == ["***", ""]


def test_the_callers_value_stays_as_it_is() -> None:
    """A masked copy is returned."""
    pieces = ["alice@", "example.com"]
    assert MASK.value(pieces, ("context",)) != pieces
    assert pieces == ["alice@", "example.com"]


@pytest.mark.parametrize("tail", ["", "\\"])
@pytest.mark.parametrize("regex", [EMAIL + "x", r"(\w+\s?)+@", r"(a|aa)+$b"])
def test_a_text_on_which_a_search_takes_too_long_is_masked_whole(regex: str, tail: str) -> None:
    """Anybody may send such a text: it costs a part of a second, and nothing of it passes."""
    hostile = "a" * 100_000 + "!@" + tail
    masking = mask({"regex": regex, "do": "redact"})
    started = time.process_time()
    masked = masking.value([hostile, {"more": [hostile] * 50}], ("context",))
    assert time.process_time() - started < 2.0
    assert "aaa" not in json.dumps(masked)
    assert masking.text("an honest text", ("context",)) == "an honest text"


@pytest.mark.filterwarnings("ignore:Possible nested set")
def test_a_pattern_means_what_it_means_to_re() -> None:
    """The package regex has other numbers for the flags, and a newer syntax of its own."""
    matching = Matching()
    for pattern in ("(?a)[[a-z]+", r"(?a)\w+", "(?i)STRASSE", "(?s)a.b", "(?x) a b"):
        for text in ("[abc", "jürgen", "strasse straße", "a\nb", "ab"):
            expected = [match.span() for match in re.finditer(pattern, text)]
            assert matching.spans(re.compile(pattern), text) == expected, (pattern, text)
