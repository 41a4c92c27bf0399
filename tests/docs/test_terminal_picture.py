"""What a command printed on a terminal, as a picture that loads nothing."""

from __future__ import annotations

import re
from html import unescape

from terminal_picture import COLUMNS, picture_of


def test_a_picture_has_the_colours_of_a_terminal_and_loads_nothing() -> None:
    """Command and output are texts in it; its name keeps the styles of two pictures on one page apart."""
    svg = picture_of("seekpoint ps", "case-17  \x1b[31mfailed\x1b[0m\nthe end\n", "p")
    texts = [unescape(text).split() for text in re.findall(r"<text [^>]*>(.*?)</text>", svg)]
    assert [word for text in texts for word in text] == ["$", "seekpoint", "ps", "case-17", "failed", "the", "end"]
    assert len(set(re.findall(r"fill: (#\w+)", svg))) == 3, "the prompt, the text, the failure"
    assert set(re.findall(r"https?://[^\s\"<]+", svg)) == {"http://www.w3.org/2000/svg"}
    assert "@font-face" not in svg
    assert ".p-r1" in svg


def test_a_long_command_is_wrapped_in_the_picture() -> None:
    """Nothing of it is cut."""
    words = [f"word-{number}" for number in range(40)]
    svg = picture_of(" ".join(words), "", "p")
    texts = re.findall(r"<text [^>]*>(.*?)</text>", svg)
    assert [word for text in texts for word in unescape(text).split()] == ["$", *words]
    assert max(len(unescape(text)) for text in texts) <= COLUMNS
