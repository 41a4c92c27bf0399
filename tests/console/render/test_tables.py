"""Tables: whole words and whole titles on a terminal of any width, everything in a pipe."""

from __future__ import annotations

import re
import sys

import pytest

from seekpoint.console.render.tables import Column, emit_table, wrapped
from terminals import Terminal, on_terminal

COLUMNS = [Column("process"), Column("seq", right=True), Column("what")]
ADVICE = [Column("process"), Column("output", cut=True), Column("what to do", wraps=True)]
UUID = "550e8400-e29b-41d4-a716-446655440000"


def lines_of(terminal: Terminal) -> list[str]:
    """What a person sees: without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue()).splitlines()


def test_a_table_in_a_pipe_is_plain_and_complete(capsys: pytest.CaptureFixture[str]) -> None:
    """No colour, nothing cut; text stands left, numbers right, and no line ends in blanks."""
    emit_table(COLUMNS, [["case-17", 4, "[bold]x[/bold]"], ["p" * 200, 12345, ""]], wide=False)
    titles, first, second = capsys.readouterr().out.splitlines()
    assert titles.split() == ["process", "seq", "what"]
    assert (first.split(), first.index("[bold]")) == (["case-17", "4", "[bold]x[/bold]"], titles.index("what"))
    assert second == "p" * 200 + "  12345"


@pytest.mark.parametrize("columns", [120, 90, 80, 70, 60, 40, 28])
def test_a_terminal_of_any_width_shows_whole_words(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """And whole titles. A word that is longer than a line has one of its own."""
    terminal = on_terminal(monkeypatch, columns)
    advice = "add replicas to the topics: kafka-reassign-partitions"
    emit_table(ADVICE, [[UUID, '{"receipt":"r-1","amount":"12.50"}', advice], ["case-17", "7", "-"]], wide=False)
    lines = lines_of(terminal)
    text = "\n".join(lines)
    assert [line for line in lines if len(line) > columns and line != UUID] == []
    assert {UUID, "case-17", *advice.split()} <= set(text.split())
    assert all(title in text for title in ("process", "output", "what to do"))
    assert all(line == line.rstrip() for line in lines)


def test_what_does_not_fit_moves_below_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """First the columns that wrap, then those that are cut; an empty cell takes no line."""
    rows = [[UUID, "o" * 60, "look at the log"], ["case-17", "o", "-"]]
    terminal = on_terminal(monkeypatch, 60)
    emit_table(ADVICE, rows, wide=False)
    assert lines_of(terminal) == [
        "process                               output",
        f"{UUID}  {'o' * 21}…",
        "  what to do: look at the log",
        "case-17                               o",
    ]
    terminal = on_terminal(monkeypatch, 40)
    emit_table(ADVICE, rows, wide=False)
    assert lines_of(terminal) == [
        "process",
        UUID,
        f"  output: {'o' * 29}…",
        "  what to do: look at the log",
        "case-17",
        "  output: o",
    ]


def test_rows_become_blocks_where_no_columns_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """An id that is longer than the rest of its line begins a line, so that it can be copied."""
    terminal = on_terminal(monkeypatch, 40)
    columns = [Column("process"), Column("lifecycle"), Column("seq", right=True)]
    emit_table(columns, [[UUID, "running", 4], ["case-17", "-", 5]], wide=False)
    assert lines_of(terminal) == [
        "process",
        UUID,
        "lifecycle  running",
        "seq        4",
        "",
        "process    case-17",
        "seq        5",
    ]


def test_internals_are_shown_with_wide_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """And then nothing is cut, on a terminal either."""
    columns = [Column("process"), Column("epoch", right=True, wide=True), Column("output", cut=True)]
    for wide, titles, output in (
        (False, ["process", "output"], "o" * 30 + "…"),
        (True, ["process", "epoch", "output"], "o" * 90),
    ):
        terminal = on_terminal(monkeypatch, 40)
        emit_table(columns, [["case-17", 3, "o" * 90]], wide=wide)
        assert lines_of(terminal)[0].split() == titles
        assert lines_of(terminal)[1].endswith(f"  {output}")


def test_characters_of_two_places_are_counted_as_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where columns begin and where cells are cut."""
    terminal = on_terminal(monkeypatch, 20)
    emit_table([Column("a"), Column("b", cut=True)], [["漢字", "漢" * 20], ["x", "y"]], wide=False)
    assert lines_of(terminal) == ["a     b", "漢字  漢漢漢漢漢漢…", "x     y"]


def test_a_terminal_has_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Titles and some words; neither a title nor a cell steers the terminal."""
    terminal = on_terminal(monkeypatch, 40)
    emit_table([Column("\x1b[2J"), *COLUMNS[1:]], [["a", 1, "failed"], ["b\x1b[2J", 2, "[bold]"]], wide=False)
    written = terminal.getvalue()
    assert "\x1b[31mfailed\x1b[0m" in written
    assert "[bold]" in written
    assert "\x1b[2J" not in written
    assert written.startswith("\x1b[1m\\x1b[2J")


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colours_are_turned_off(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    """By NO_COLOR, and for a terminal without any."""
    terminal = on_terminal(monkeypatch, 40)
    monkeypatch.setenv(name, value)
    emit_table(COLUMNS, [["a", 1, "failed"]], wide=False)
    assert terminal.getvalue().splitlines() == ["process  seq  what", "a          1  failed"]


def test_a_long_table_has_one_header_and_growing_columns(capsys: pytest.CaptureFixture[str]) -> None:
    """Rows are written page by page; a later page is never narrower than one before."""
    rows = [["a" * 30, 1, "x"], *([f"case-{number}", number, "x"] for number in range(1_200)), ["b" * 40, 1, "x"]]
    assert emit_table(COLUMNS, iter(rows), wide=False) == len(rows)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [
        ["process", "seq", "what"],
        *([str(cell) for cell in row] for row in rows),
    ]
    places = [line.rindex("x") for line in lines[1:]]
    assert places == sorted(places)
    assert emit_table(COLUMNS, [], wide=False) == 0
    assert capsys.readouterr().out == ""


def test_the_pages_of_a_table_have_equal_columns_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """One head, and the widths of the first page for the second."""
    terminal = on_terminal(monkeypatch, 40)
    rows = ([f"case-{number:010}" if number < 500 else "c", 1, "x"] for number in range(600))
    emit_table(COLUMNS, rows, wide=False)
    titles, *lines = lines_of(terminal)
    assert titles.split() == ["process", "seq", "what"]
    assert len(lines) == 600
    assert {line.rindex("x") for line in lines} == {lines[0].rindex("x")}


@pytest.mark.parametrize("text", ["", "a", "one two three", "a  b", "long-words-stay-whole and others"])
def test_a_wrapped_text_loses_nothing(text: str) -> None:
    """Not even two blanks in a row."""
    assert " ".join(wrapped(text, 7)) == text


def test_the_width_is_that_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where COLUMNS says nothing; without any terminal it is 80."""
    terminal = on_terminal(monkeypatch, 0)
    monkeypatch.setattr(sys, "__stdout__", None)
    emit_table([Column("output", cut=True)], [["o" * 200]], wide=False)
    assert len(lines_of(terminal)[1]) == 80
