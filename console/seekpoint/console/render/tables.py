"""Tables. On a terminal a table fits the window and breaks no word; in a pipe it is plain and complete."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from seekpoint.console.render.output import clean, report_incomplete, with_first

_GAP = "  "
_INDENT = "  "
_PAGE_ROWS = 500
_PAGE_CHARACTERS = 1_000_000
_CUT_MIN = 10
"""How many characters of a ``cut`` column have to fit beside the others."""
_WRAPPED_MIN = 20
_NOTHING = ("", "-")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    If the terminal is too narrow, ``cut`` columns are truncated and ``wraps`` columns go on in the next line, then both
    move below their row. If the others do not fit either, each row becomes a block with a line for each column. Titles,
    words and the cells of other columns stay complete.
    """

    title: str
    right: bool = False
    """Align it to the right."""
    cut: bool = False
    wraps: bool = False
    wide: bool = False
    """Show it only with ``--wide``."""
    width_min: int = 0
    """Keeps the columns of a table in place that is written in parts."""


def emit_table(columns: Sequence[Column], rows: Iterable[Sequence[object]], *, wide: bool) -> int:
    """Write a table and return the number of rows. Without rows nothing is written.

    Rows are read and written in pages, so memory does not grow with the table. Columns are as wide as the rows written
    so far need. ``wide`` shows all columns, and complete cells on a terminal too.
    """
    table = PrintedTable(columns, wide=wide)
    rows = with_first(rows)
    with report_incomplete(""):
        for page in _pages(map(table.cells, rows)):
            table.write(page)
    return table.count


class PrintedTable:
    """A table that is written in parts, with its titles above the first one."""

    def __init__(self, columns: Sequence[Column], *, wide: bool) -> None:
        self._shown = [index for index, column in enumerate(columns) if wide or not column.wide]
        self._columns = [replace(columns[index], title=clean(columns[index].title)) for index in self._shown]
        self._is_complete = wide or not sys.stdout.isatty()
        self._widths = [max(_width(column.title), column.width_min) for column in self._columns]
        self.count = 0

    def cells(self, row: Sequence[object]) -> list[str]:
        """Return the cells of a row that are shown, safe to print. The row has a cell for every column."""
        return [clean(row[index]) for index in self._shown]

    def write(self, rows: Sequence[Sequence[str]]) -> None:
        """Write rows that ``cells`` returned."""
        if not rows:
            return
        self._widths = [max(width, *map(_width, one)) for width, *one in zip(self._widths, *rows, strict=True)]
        room = None if self._is_complete else _room()
        for line in _lines(self._columns, rows, self._widths, room, has_titles=not self.count):
            sys.stdout.write(line + "\n")  # titles and cells are clean, and colours have to stay
        self.count += len(rows)


def wrapped(text: str, room: int) -> list[str]:
    """Return the lines of a text, broken at blanks. A longer word has a line of its own and stays whole.

    >>> wrapped("start a projector for it", 12)
    ['start a', 'projector', 'for it']
    """
    lines: list[str] = []
    for word in text.split(" "):
        if lines and _width(lines[-1]) + 1 + _width(word) <= room:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


# --- layout -----------------------------------------------------------------------------------------------------------
def _lines(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    widths: Sequence[int],
    room: int | None,
    *,
    has_titles: bool,
) -> Iterator[str]:
    """Yield the lines of a table that fits ``room`` characters; None: as many as it needs."""
    for below in _choices(columns):
        beside = [at for at in range(len(columns)) if at not in below]
        fitting = _fitting(columns, rows, widths, beside, room)
        if fitting is not None:
            if has_titles:
                yield _styled(_line(columns, [[column.title] for column in columns], fitting), _BOLD)
            for row in rows:
                yield from _row(columns, row, fitting)
                yield from _below(columns, row, below, room)
            return
    assert room is not None
    for number, row in enumerate(rows):
        yield from [""] if number or not has_titles else []
        yield from _block(columns, row, room)


def _choices(columns: Sequence[Column]) -> list[list[int]]:
    """Return which columns may stand below their rows: none, those that wrap, those that are cut too."""
    wrapping = [at for at, column in enumerate(columns) if column.wraps]
    return [[], wrapping, [at for at, column in enumerate(columns) if column.wraps or column.cut]]


def _fitting(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], widths: Sequence[int], beside: list[int], room: int | None
) -> dict[int, int] | None:
    """Return the width of each column of ``beside``, or None if they do not fit."""
    natural = {at: widths[at] for at in beside}
    spare = None if room is None else room - sum(natural.values()) - len(_GAP) * (len(beside) - 1)
    if spare is None or spare >= 0:
        return natural
    found = {at: min(natural[at], _width_min(columns[at], [row[at] for row in rows], natural[at])) for at in beside}
    spare += sum(natural.values()) - sum(found.values())
    if spare < 0 or not beside:
        return None
    while spare and (narrow := [at for at in beside if found[at] < natural[at]]):
        at = min(narrow, key=lambda one: found[one])
        found[at] += 1
        spare -= 1
    return found


def _width_min(column: Column, cells: Sequence[str], natural: int) -> int:
    title = _width(column.title)
    if column.cut:
        return max(title, _CUT_MIN)
    if column.wraps:
        return max(title, _WRAPPED_MIN, *(_width(word) for cell in cells for word in cell.split(" ")))
    return natural


def _row(columns: Sequence[Column], row: Sequence[str], widths: dict[int, int]) -> Iterator[str]:
    """Yield the lines of a row: several if a cell goes on in the next line."""
    cells = [wrapped(cell, widths[at]) if at in widths and columns[at].wraps else [cell] for at, cell in enumerate(row)]
    for number in range(max(len(cells[at]) for at in widths)):
        yield _line(columns, [each[number : number + 1] or [""] for each in cells], widths)


def _line(columns: Sequence[Column], cells: Sequence[Sequence[str]], widths: dict[int, int]) -> str:
    parts = []
    for at, width in widths.items():
        text = _cut(cells[at][0], width)
        blanks = " " * (width - _width(text))
        shown = _styled(text, _STYLES.get(text, ""))
        parts.append(blanks + shown if columns[at].right else shown + blanks)
    return _GAP.join(parts).rstrip()


def _below(columns: Sequence[Column], row: Sequence[str], below: Sequence[int], room: int | None) -> Iterator[str]:
    """Yield the lines below a row: title and cell of each column that does not fit beside the others."""
    for at in below:
        if row[at] not in _NOTHING and room is not None:
            yield from _indented(f"{columns[at].title}: ", row[at], room - len(_INDENT), columns[at])


def _indented(label: str, cell: str, room: int, column: Column) -> Iterator[str]:
    if column.cut:
        yield _INDENT + _cut(label + cell, room)
        return
    first, *more = wrapped(label + cell, room)
    yield _INDENT + first
    yield from (_INDENT * 2 + line for line in wrapped(" ".join(more), room - len(_INDENT)) if line)


def _block(columns: Sequence[Column], row: Sequence[str], room: int) -> Iterator[str]:
    """Yield a row as a block: a line for each column that has something."""
    label = max(_width(column.title) for column in columns)
    for column, cell in zip(columns, row, strict=True):
        if cell in _NOTHING:
            continue
        title = column.title + " " * (label - _width(column.title)) + _GAP
        left = room - _width(title)
        lines = [_cut(cell, left)] if column.cut else wrapped(cell, left)
        if max(map(_width, lines)) > left:  # a word that needs a line of its own, so that it can be copied
            yield _styled(column.title, _BOLD)
            yield from (_styled(line, _STYLES.get(cell, "")) for line in wrapped(cell, room))
            continue
        for number, line in enumerate(lines):
            head = " " * _width(title) if number else _styled(title, _BOLD)
            yield head + _styled(line, _STYLES.get(cell, ""))


# --- cells ------------------------------------------------------------------------------------------------------------
def _cut(text: str, width: int) -> str:
    if _width(text) <= width:
        return text
    text = text[:width]
    while text and _width(text) >= width:
        text = text[:-1]
    return f"{text}…"


def _width(text: str) -> int:
    """Return how many places of a terminal a text takes: some characters take two, some none."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _room() -> int:
    from shutil import get_terminal_size

    return get_terminal_size().columns


def _pages(rows: Iterable[list[str]]) -> Iterator[list[list[str]]]:
    """Yield pages of rows, limited by rows and by characters."""
    page: list[list[str]] = []
    size = 0
    for row in rows:
        page.append(row)
        size += sum(map(len, page[-1]))
        if len(page) == _PAGE_ROWS or size > _PAGE_CHARACTERS:
            yield page
            page, size = [], 0
    if page:
        yield page


# --- colours ----------------------------------------------------------------------------------------------------------
def _styled(text: str, style: str) -> str:
    """Return the text with a style of a terminal: none in a pipe, with ``NO_COLOR`` and on a dumb terminal."""
    if not (style and text and sys.stdout.isatty()) or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{style}m{text}\x1b[0m"


_BOLD, _GREEN, _YELLOW, _RED = "1", "32", "33", "31"
_STYLES = {
    "ok": _GREEN,
    "yes": _GREEN,
    "running": _GREEN,
    "warning": _YELLOW,
    "suspended": _YELLOW,
    "awaiting": _YELLOW,
    "error": _RED,
    "no": _RED,
    "failed": _RED,
    "degraded": _RED,
}
