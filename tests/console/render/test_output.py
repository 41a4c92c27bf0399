"""What is written where: aligned text in a pipe, frames on a terminal, nothing that steers one."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Iterator

import pytest

from seekpoint.console.render import output
from seekpoint.console.render.output import (
    Column,
    aligned,
    clean,
    emit,
    emit_json,
    emit_json_list,
    emit_table,
    fitted,
    is_abandoned,
    say,
    warn,
)
from seekpoint.console.render.progress import ReadingProgress
from seekpoint.schemas.errors import JournalUnavailable

COLUMNS = [Column("process"), Column("seq", right=True), Column("what")]


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """From here on stdout is a terminal. (A fixture cannot: pytest exchanges the streams after the set-up.)"""
    stream = Terminal()
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return stream


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    """Text stands left, numbers right, and no line ends in blanks."""
    assert aligned(COLUMNS, [["case-17", 4, "x"], ["a", 12345, ""]]) == [
        "process    seq  what",
        "case-17      4  x",
        "a        12345",
    ]


def test_a_narrow_terminal_cuts_long_cells_and_keeps_words_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty columns: a JSON value loses its end, advice goes on in the next line, and no word is broken."""
    stream = on_terminal(monkeypatch)
    columns = [Column("process"), Column("output", cut=True), Column("what to do", wraps=True)]
    emit_table(columns, [["order-4711", '{"receipt":"r-1","amount":"12.50"}', "start a projector for it"]])
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in stream.getvalue().splitlines()]
    assert max(map(len, lines)) <= 40
    assert "order-4711" in lines[2]
    assert "…" in lines[2]
    assert {"start", "a", "projector", "for", "it"} <= {word for line in lines for word in line.split()}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[2Jb", "a\\x1b[2Jb"),
        ("two\nlines\r", "two\\nlines\\r"),
        ("c1\x9b31m", "c1\\x9b31m"),
        ("right\u202eleft", "right\\u202eleft"),
        ("half \udcff", "half \\udcff"),
        ("case\u200b-17", "case\\u200b-17"),
        ("\u2066isolated\u2069", "\\u2066isolated\\u2069"),
        ("a\u200d\ufeff\xad\u3164\ufe0f", "a\\u200d\\ufeff\\xad\\u3164\\ufe0f"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("Grüße 漢字", "Grüße 漢字"),
    ],
)
def test_output_escapes_terminal_control_sequences(text: str, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Escapes, newlines, signs that turn the direction around or show nothing are shown as escapes; letters stay.

    In all that is said and printed, too: names of gates and keys of calls are an agent's to choose.
    """
    assert clean(text) == shown
    if "\n" not in text:
        emit(text)
        assert capsys.readouterr().out == f"{shown}\n"
    emit_json({"a": text}) if "\udcff" not in text else None
    printed = capsys.readouterr().out
    assert clean(printed.removesuffix("\n")) == printed.removesuffix("\n")
    assert not printed or json.loads(printed) == {"a": text}
    say(f"no gate x is open (open: {text})")
    assert capsys.readouterr().err == f"no gate x is open (open: {shown})\n"


def test_a_table_in_a_pipe_is_plain(capsys: pytest.CaptureFixture[str]) -> None:
    """No frame, no colour, nothing cut."""
    emit_table(COLUMNS, [["p" * 200, 1, "[bold]x[/bold]"]])
    out = capsys.readouterr().out
    assert "p" * 200 in out
    assert "[bold]x[/bold]" in out
    assert "\x1b" not in out
    assert "─" not in out


def test_a_table_on_a_terminal_is_framed_and_coloured(monkeypatch: pytest.MonkeyPatch) -> None:
    """And text in brackets is no markup."""
    terminal = on_terminal(monkeypatch)
    emit_table(COLUMNS, [["a", 1, "failed"], ["b", 2, "[bold]"]])
    assert "─" in terminal.getvalue()
    assert "\x1b[31mfailed" in terminal.getvalue()
    assert "[bold]" in terminal.getvalue()


def test_no_color_turns_colours_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR takes the colours away, from tables and from warnings."""
    terminal = on_terminal(monkeypatch)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "stderr", terminal)
    emit_table(COLUMNS, [["a", 1, "failed"]])
    warn("careful")
    assert "\x1b[31m" not in terminal.getvalue()
    assert "\x1b[1;33m" not in terminal.getvalue()
    assert "warning: careful" in terminal.getvalue()


def test_json_is_indented_for_people_and_one_line_for_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The document is the same."""
    terminal = on_terminal(monkeypatch)
    document = {"a": [1, 2], "b": "\x9b31m"}
    emit_json(document)
    people = terminal.getvalue()
    monkeypatch.setattr(sys, "stdout", program := io.StringIO())
    emit_json(document)
    assert people.count("\n") > 3
    assert program.getvalue().count("\n") == 1
    assert json.loads(people) == json.loads(program.getvalue()) == document
    assert "\x9b" not in people


def test_a_long_line_is_cut_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a pipe nothing may be lost."""
    on_terminal(monkeypatch)
    assert fitted("x" * 100) == "x" * 39 + "…"
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert fitted("x" * 100) == "x" * 100


def test_progress_is_shown_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bar with a rate and the time left."""
    with ReadingProgress("reading", 10) as progress:
        progress.advance(10)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with ReadingProgress("reading", 10) as progress:
        progress.advance(10)
    assert "reading" in terminal.getvalue()
    assert "10/10" in terminal.getvalue()


def test_a_progress_bar_disappears_before_data_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """``seekpoint ps --json > FILE`` on a terminal: nothing of the file is written to the terminal."""
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    monkeypatch.setattr(sys, "stdout", file := io.StringIO())
    monkeypatch.setenv("TERM", "xterm")
    with ReadingProgress("reading", 10) as progress:
        progress.advance(1)
        emit("data while there is a bar")
        progress.hide()
        shown = len(terminal.getvalue())
        emit("data while there is none")
        progress.hide()
        assert len(terminal.getvalue()) == shown
        progress.advance(9)
    assert file.getvalue().splitlines() == ["data while there is a bar", "data while there is none"]
    assert "data" not in terminal.getvalue()
    assert "10/10" in terminal.getvalue()[shown:]


def test_a_long_table_has_one_header_and_growing_columns(capsys: pytest.CaptureFixture[str]) -> None:
    """Rows are written page by page; a later page is never narrower than one before."""
    rows = [["a" * 30, 1, "x"], *([f"case-{number}", number, "x"] for number in range(1_200)), ["b" * 40, 1, "x"]]
    assert emit_table(COLUMNS, iter(rows)) == len(rows)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [
        ["process", "seq", "what"],
        *([str(cell) for cell in row] for row in rows),
    ]
    places = [line.rindex("x") for line in lines[1:]]
    assert places == sorted(places)
    assert emit_table(COLUMNS, []) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize(("told", "is_warned"), [(0, False), (2, True)])
def test_a_list_that_an_error_ends_is_marked_as_incomplete(
    capsys: pytest.CaptureFixture[str], as_json: bool, told: int, is_warned: bool
) -> None:
    """On stderr, where the error follows; one that comes before the first item leaves nothing on stdout."""

    def items() -> Iterator[list[int]]:
        yield from ([number] for number in range(told))
        raise JournalUnavailable("silent")

    with pytest.raises(JournalUnavailable):
        if as_json:
            emit_json_list({}, "numbers", items())
        else:
            emit_table([Column("number")], items())
    written = capsys.readouterr()
    assert ("list is incomplete" in written.err) is is_warned
    assert written.out == ('{"numbers":[[0],[1]\n' if as_json and told else "")


def test_the_pages_of_a_table_have_equal_columns_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """One head, and the widths of the first page for the second."""
    terminal = on_terminal(monkeypatch)
    emit_table(COLUMNS, ([f"case-{number:010}" if number < 500 else "c", 1, "x"] for number in range(600)))
    plain = [line for line in re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue()).splitlines() if line.strip(" ─")]
    assert sum("process" in line for line in plain) == 1
    assert len(plain) == 601
    assert {line.rindex("x") for line in plain[1:]} == {plain[1].rindex("x")}


def test_the_text_of_a_progress_bar_is_not_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does it steer the terminal: the name of a file or of a process may stand in it."""
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with ReadingProgress("[red]x[/red] \x1b[2J", 10) as progress:
        progress.describe("[/bold] a\u202eb")
    assert "[/bold] a\\u202eb" in terminal.getvalue()
    assert "\x1b[2J" not in terminal.getvalue()


def test_messages_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    """Data alone is on stdout."""
    say("hello")
    output.fail("no\x1b[31m")
    assert capsys.readouterr() == ("", "hello\nerror: no\\x1b[31m\n")


def test_a_pipe_without_a_reader_is_detected() -> None:
    """So that who follows a log ends with its reader, not at the next entry."""
    read, write = os.pipe()
    with os.fdopen(write, "w") as stream:
        assert not is_abandoned(stream)
        os.close(read)
        assert is_abandoned(stream)
    assert not is_abandoned(io.StringIO())
