"""What is written where: data, messages, progress; nothing that steers a terminal."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator

import pytest

from seekpoint.console.render import output
from seekpoint.console.render.output import (
    clean,
    emit,
    emit_json,
    emit_json_list,
    is_abandoned,
    say,
    warn,
)
from seekpoint.console.render.progress import ReadingProgress
from seekpoint.console.render.tables import Column, emit_table
from seekpoint.schemas.errors import JournalUnavailable
from terminals import Terminal, on_terminal

COLUMNS = [Column("process"), Column("seq", right=True), Column("what")]


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


def test_no_color_turns_colours_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR takes the colours away, from tables and from warnings."""
    terminal = on_terminal(monkeypatch)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "stderr", terminal)
    emit_table(COLUMNS, [["a", 1, "failed"]], wide=False)
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
            emit_table([Column("number")], items(), wide=False)
    written = capsys.readouterr()
    assert ("list is incomplete" in written.err) is is_warned
    assert written.out == ('{"numbers":[[0],[1]\n' if as_json and told else "")


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
