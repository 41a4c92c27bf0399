"""Write data to stdout and messages to stderr. Tables are framed and coloured on a terminal, plain in a pipe."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice
from typing import Any, TextIO, TypeVar

__all__ = [
    "Column",
    "aligned",
    "clean",
    "counted",
    "emit",
    "emit_json",
    "emit_json_list",
    "emit_table",
    "fail",
    "fitted",
    "is_abandoned",
    "say",
    "set_json_errors",
    "warn",
]

_T = TypeVar("_T")

_GAP = "  "
_PAGE_ROWS = 500
_PAGE_CHARACTERS = 1_000_000
_has_json_errors = False


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; ``right`` aligns it to the right.

    On a narrow terminal ``cut`` columns are truncated and ``wraps`` columns continue on the next line. The other
    columns stay complete as long as those can shrink.
    """

    title: str
    right: bool = False
    cut: bool = False
    wraps: bool = False


def clean(text: object) -> str:
    """Return ``text`` as one line that is safe to print: text of agents is not trusted.

    Control characters, bidirectional marks and invisible characters become escapes.

    >>> clean("a\\x1b[31m\\nb")
    'a\\\\x1b[31m\\\\nb'
    """
    line = str(text)
    if line.isascii() and line.isprintable():
        return line
    return _unsafe_characters().sub(lambda match: match[0].encode("unicode_escape").decode(), line)


@cache
def _unsafe_characters() -> re.Pattern[str]:
    from seekpoint.schemas.values.process_ids import INVISIBLE  # importing it takes half of the time of --help

    return re.compile(f"[\x00-\x1f\x7f-\x9f\ud800-\udfff{INVISIBLE}]")


def emit(line: str = "") -> None:
    """Write lines of data to stdout, made safe by ``clean``."""
    sys.stdout.write("\n".join(map(clean, line.split("\n"))) + "\n")


def emit_json(document: Any, *, line: bool = False) -> None:
    """Write a JSON document: indented on a terminal, as one line in a pipe or with ``line``."""
    import orjson

    pretty = sys.stdout.isatty() and not line
    text = orjson.dumps(document, option=orjson.OPT_INDENT_2 if pretty else 0).decode()
    sys.stdout.write(_json_escaped(text) + "\n")
    if line:
        sys.stdout.flush()


def emit_json_list(
    head: Mapping[str, Any], name: str, items: Iterable[Any], tail: Mapping[str, Any] | None = None
) -> None:
    """Write the document ``{**head, name: [*items], **tail}`` item by item, without keeping items in memory.

    ``tail`` is read after the last item, so the iterator of items may fill it. If the first item raises, nothing is
    written.
    """
    import orjson

    pretty = sys.stdout.isatty()
    option, first, more = (orjson.OPT_INDENT_2, "\n    ", ",\n    ") if pretty else (0, "", ",")
    empty = orjson.dumps({**head, name: []}, option=option).decode()
    begin = empty[: empty.rindex("[") + 1]
    items = _with_first(items)
    sys.stdout.write(_json_escaped(begin))
    between, end = first, ""
    with _report_incomplete("\n"):
        for item in items:
            text = _json_escaped(orjson.dumps(item, option=option).decode())
            sys.stdout.write(between + (text.replace("\n", "\n    ") if pretty else text))
            between, end = more, "\n  " if pretty else ""
    rest = orjson.dumps({name: [], **(tail or {})}, option=option).decode()
    sys.stdout.write(_json_escaped(f"{end}{rest[rest.index('[') + 1 :]}\n"))


def _with_first(items: Iterable[_T]) -> Iterator[_T]:
    """Compute the first item now, so that its error is raised before anything is written. Return all items."""
    items = iter(items)
    return chain(list(islice(items, 1)), items)


@contextmanager
def _report_incomplete(end: str) -> Iterator[None]:
    """If an error interrupts a list, write ``end`` and warn that the list is incomplete."""
    try:
        yield
    except OSError:  # stdout is full or closed
        raise
    except Exception:
        sys.stdout.write(end)
        warn("the list is incomplete: the error below ended it")
        raise


def _json_escaped(text: str) -> str:
    """Return the JSON with unsafe characters as JSON escapes, which loses nothing."""
    if text.isascii() and "\x7f" not in text:
        return text
    return _unsafe_characters().sub(lambda match: match[0] if match[0] == "\n" else _json_escape(match[0]), text)


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def counted(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "entry"), counted(2, "entry"), counted(0, "record"), counted(3, "process")
    ('1 entry', '2 entries', '0 records', '3 processes')
    """
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def fitted(text: str) -> str:
    """Return ``clean(text)``, truncated to the width of a terminal; in a pipe it is complete."""
    line = clean(text)
    if not sys.stdout.isatty():
        return line
    from shutil import get_terminal_size

    width = get_terminal_size().columns
    return line if len(line) <= width else line[: width - 1] + "…"


def is_abandoned(stream: TextIO) -> bool:
    """Whether the reader of a pipe has closed it, so that ``--follow`` can end before the next entry."""
    import select

    if not hasattr(select, "poll"):  # Windows: the next write fails, which ends the command too
        return False
    watch = select.poll()
    try:
        watch.register(stream, 0)
        return any(event & select.POLLERR for _, event in watch.poll(0))
    except (OSError, ValueError):  # not a file, such as a test's buffer
        return False


def emit_table(columns: Sequence[Column], rows: Iterable[Sequence[object]]) -> int:
    """Write a table and return the number of rows. It fits the terminal and has colours; in a pipe it is complete.

    Rows are read and written in pages, so memory does not grow with the table. Columns are as wide as the rows written
    so far need. Without rows nothing is written.
    """
    write = _emit_rich if sys.stdout.isatty() else _emit_plain
    widths = [len(column.title) for column in columns]
    count, rows = 0, _with_first(rows)
    with _report_incomplete(""):
        for page in _pages(rows):
            widths = [max(width, *map(len, cells)) for width, *cells in zip(widths, *page, strict=True)]
            write(columns, page, widths, not count)
            count += len(page)
    return count


def _pages(rows: Iterable[Sequence[object]]) -> Iterator[list[list[str]]]:
    """Yield pages of rows as text, limited by rows and by characters."""
    page: list[list[str]] = []
    size = 0
    for row in rows:
        page.append([clean(cell) for cell in row])
        size += sum(map(len, page[-1]))
        if len(page) == _PAGE_ROWS or size > _PAGE_CHARACTERS:
            yield page
            page, size = [], 0
    if page:
        yield page


def _emit_plain(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], widths: Sequence[int], has_titles: bool
) -> None:
    titles = [[column.title for column in columns]] if has_titles else []
    emit("\n".join(_line(columns, row, widths) for row in [*titles, *rows]))


def aligned(columns: Sequence[Column], rows: Sequence[Sequence[object]]) -> list[str]:
    """Return the table as plain lines, with the titles first.

    >>> aligned([Column("process"), Column("seq", right=True)], [["case-17", 4]])
    ['process  seq', 'case-17    4']
    """
    cells = [[column.title for column in columns], *([clean(cell) for cell in row] for row in rows)]
    widths = [max(len(row[index]) for row in cells) for index in range(len(columns))]
    return [_line(columns, row, widths) for row in cells]


def _line(columns: Sequence[Column], row: Sequence[str], widths: Sequence[int]) -> str:
    return _GAP.join(
        cell.rjust(width) if column.right else cell.ljust(width)
        for column, cell, width in zip(columns, row, widths, strict=True)
    ).rstrip()


def say(message: str) -> None:
    """Print a message to stderr as one line, made safe by ``clean``."""
    _write_stderr(clean(message))


def _write_stderr(message: str) -> None:
    sys.stdout.flush()  # keep the order of data and messages, also with 2>&1
    sys.stderr.write(message + "\n")
    sys.stderr.flush()


def warn(message: str) -> None:
    """Print a warning to stderr."""
    _write_stderr(f"{_tinted('warning:', '33')} {clean(message)}")


def set_json_errors(is_requested: bool) -> None:
    """Remember whether ``--json`` was given, so that an error is a JSON document too."""
    global _has_json_errors
    _has_json_errors = is_requested


def fail(message: str, *, code: str = "Failed", about: Mapping[str, Any] | None = None) -> None:
    """Print an error to stderr. A log excerpt in the message keeps its lines.

    After ``--json`` it is one line of JSON: ``{"error": {"code": ..., "message": ..., "advice": ...}}``. ``about`` has
    what differs from the line for people, such as the advice on its own.
    """
    if _has_json_errors:
        import orjson

        document = {"error": {"code": code, "message": message, "advice": "", **(about or {})}}
        _write_stderr(_json_escaped(orjson.dumps(document).decode()))
        return
    _write_stderr(f"{_tinted('error:', '31')} {chr(10).join(map(clean, message.splitlines()))}")


def _tinted(word: str, colour: str) -> str:
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not sys.stderr.isatty()
    return word if plain else f"\x1b[1;{colour}m{word}\x1b[0m"


def _emit_rich(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], widths: Sequence[int], has_titles: bool
) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, header_style="bold", pad_edge=False, show_edge=False, show_header=has_titles)
    for column, width in zip(columns, widths, strict=True):
        gives_way = column.cut or column.wraps
        table.add_column(
            column.title,
            justify="right" if column.right else "left",
            no_wrap=not gives_way,
            min_width=None if gives_way or has_titles else width,
        )
    for row in rows:
        cells = zip(columns, row, strict=True)
        table.add_row(
            *(Text(cell, _style(cell), no_wrap=not column.wraps, overflow="ellipsis") for column, cell in cells)
        )
    Console().print(table)


def _style(cell: str) -> str:
    return _STYLES.get(cell, "")


_STYLES = {
    "ok": "green",
    "yes": "green",
    "running": "green",
    "warning": "yellow",
    "suspended": "yellow",
    "awaiting": "yellow",
    "error": "red",
    "no": "red",
    "failed": "red",
    "degraded": "red",
}
