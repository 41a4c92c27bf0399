"""A result never has more bytes than it may, and whatever was cut can be read."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seekpoint.console.mcp.bounded import bounded, part_at
from seekpoint.console.mcp.tool_declarations import ToolFailed

TEXTS = st.text(alphabet="ab/~é\n😀", max_size=40) | st.integers(1, 20_000).map(lambda size: "é" * size)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(TEXTS, inner, max_size=10),
    max_leaves=60,
)


def size(value: Any) -> int:
    return len(orjson.dumps(value))


@given(VALUES.filter(lambda value: isinstance(value, str | list | dict)), st.integers(100, 20_000))
def test_a_value_fits_and_is_whole_if_it_can_be(value: Any, bytes_max: int) -> None:
    """Nothing is cut of a value that fits; a value that does not says where it was cut."""
    shown, cuts = bounded(value, bytes_max)
    assert size(shown) <= bytes_max
    assert (shown == value) == (not cuts)
    if size(value) <= bytes_max:
        assert not cuts


@given(st.dictionaries(st.text(alphabet="ab/~", max_size=5), st.lists(TEXTS, max_size=8), max_size=5))
def test_each_cut_names_a_value_that_is_there(value: Any) -> None:
    """With its whole length."""
    _, cuts = bounded(value, 500)
    for cut in cuts:
        assert len(part_at(value, cut.path)) == cut.length
        assert cut.start + cut.shown < cut.length


@given(TEXTS.filter(bool), st.integers(20, 5_000))
def test_a_long_text_is_read_in_pieces(text: str, bytes_max: int) -> None:
    """``start`` goes on where the last piece ended, and the pieces are the text."""
    pieces: list[str] = []
    while (start := sum(map(len, pieces))) < len(text):
        shown, cuts = bounded(text, bytes_max, path="/a", start=start)
        assert shown
        assert size(shown) <= bytes_max
        if cuts:
            [cut] = cuts
            assert (cut.path, cut.length, cut.start, cut.shown) == ("/a", len(text), start, len(shown))
        pieces.append(shown)
    assert "".join(pieces) == text


def test_a_long_list_is_read_in_pieces() -> None:
    """Its items keep their order, and none is left out."""
    items = [{"n": number, "text": "y" * 200} for number in range(300)]
    read: list[Any] = []
    while len(read) < len(items):
        shown, cuts = bounded(items, 10_000, path="/items", start=len(read))
        whole = [one for one in shown if len(one["text"]) == 200]
        assert shown
        read += whole or [items[len(read)]]
        assert {cut.path for cut in cuts if cut.path == "/items"} or len(read) == len(items)
    assert read == items


def test_the_fields_of_a_document_stay() -> None:
    """However little room there is for what they hold."""
    document = {f"field-{number}": "z" * 10_000 for number in range(30)}
    shown, cuts = bounded(document, 4_000)
    assert shown.keys() == document.keys()
    assert len(cuts) == 30


@pytest.mark.parametrize("path", ["a", "/a/9", "/a/x", "/a/0/b", "/a/-1", "/a/٣"])
def test_a_path_that_leads_nowhere_is_refused(path: str) -> None:
    """With what there is instead."""
    with pytest.raises(ToolFailed) as refused:
        part_at({"a": [1]}, path)
    assert refused.value.code == "InvalidArgument"
    assert refused.value.advice
