"""docs/guides/why.md, followed as a reader does: each command prints what the page and its pictures show."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest

from agent_programs import environment
from followed_page import Command, FollowedPage, commands_of, files_of, same_words, with_outputs
from pages import ROOT
from seekpoint.schemas.config.settings import Settings

PAGE = ROOT / "docs" / "guides" / "why.md"
COMMANDS = commands_of(PAGE.read_text())
PICTURES = [one for one in COMMANDS if one.picture is not None]


def svg_of(command: Command) -> str:
    assert command.picture is not None
    return (PAGE.parent / command.picture).read_text()


def words_of(command: Command) -> list[str]:
    """The words in a command's picture, in no order, without the lines under titles."""
    texts = re.findall(r"<text [^>]*>(.*?)</text>", svg_of(command), re.DOTALL)
    return [word for text in texts for word in unescape(text).split() if set(word) != {"─"}]


@pytest.mark.cluster
@pytest.mark.timeout(300)
def test_each_command_of_the_page_prints_what_the_page_shows(journal: Settings, tmp_path: Path) -> None:
    """In order, on one journal. What differs in every run is left out: offsets, times, durations."""
    text = PAGE.read_text()
    assert len(COMMANDS) > 20
    for name, content in files_of(text).items():
        (tmp_path / name).write_text(content)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with FollowedPage(tmp_path, {**environment(journal), "PATH": path}) as followed:
        for command in COMMANDS:
            printed = followed.run(command)
            if command.picture is None:
                assert same_words(printed) == same_words(command.shown), command.text
            else:
                assert_pictured(command, printed)
    assert "ticket-2~large-1" in (tmp_path / "report.html").read_text()


def assert_pictured(command: Command, printed: str) -> None:
    """Assert that the picture has the words of the output, but for durations and what a narrow column cuts."""
    shown, complete = words_of(command), " ".join(["$", command.text, *same_words(printed)])
    for word in shown:
        assert word.rstrip("…") in complete or re.fullmatch(r"[\d.,]+|ms", word), (word, complete)
    for line in same_words(printed):
        assert not line or line.split()[0] in shown, (line, shown)


def test_the_page_has_pictures_of_a_terminal() -> None:
    """They show the command and colours, and load nothing from elsewhere."""
    assert len(PICTURES) == 3
    for command in PICTURES:
        svg, words = svg_of(command), words_of(command)
        assert [word for word in command.text.split() if word not in words] == []
        assert len(set(re.findall(r"fill: (#\w+)", svg))) > 1
        assert set(re.findall(r"https?://[^\s\"<]+", svg)) == {"http://www.w3.org/2000/svg"}
        assert "@font-face" not in svg


def test_no_picture_is_left_over() -> None:
    """Each file in the folder is on a page."""
    named = {
        name
        for page in (ROOT / "README.md", *ROOT.glob("docs/**/*.md"))
        for name in re.findall(r"pictures/([\w-]+\.(?:svg|png))", page.read_text())
    }
    assert {one.name for one in (ROOT / "docs" / "pictures").iterdir()} == named


def lines(*texts: str) -> Iterator[str]:
    return (f"{text}\n" for text in texts)


def test_a_page_is_taken_apart_and_put_together() -> None:
    """Files, commands with their outputs, and the picture behind a block, which then has no outputs."""
    page = "".join(
        lines(
            *("Write `a.toml`:", "", "```toml", "x = 1", "```", ""),
            *(
                "```console",
                "$ one",
                "old",
                "$ two &",
                "```",
                "",
                "```console",
                "$ three",
                "```",
                "",
                "![3](../p/t.svg)",
            ),
        )
    )
    assert files_of(page) == {"a.toml": "x = 1\n"}
    assert commands_of(page) == [
        Command("one", "old\n", None),
        Command("two &", "", None),
        Command("three", "", "../p/t.svg"),
    ]
    new = with_outputs(page, {"one": "new\nlines\n", "two &": ""})
    assert new == page.replace("old\n", "new\nlines\n")


def test_two_runs_that_differ_in_times_print_the_same_words() -> None:
    """And runs that differ in anything else do not."""
    one = "2026-11-24T00:12:56.789Z     4  decision_made  a: 1\nentries  6  7\nstep  0.1 ms  seq 4"
    two = "2027-01-01T10:12:56.001Z    11  decision_made  a: 1\nentries  16  9\nstep  1,210.4 ms  seq 5"
    assert same_words(one) == same_words(two)
    assert same_words(one) != same_words(two.replace("a: 1", "a: 2"))
