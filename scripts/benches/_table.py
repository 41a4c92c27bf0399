"""What every benchmark shares: rows to print, bars to hold, percentiles, a progress line.

A benchmark is a plain script in this folder, run by ``scripts/bench NAME``:

    from _table import Table, arguments, p50, progress, times_raw

    def main() -> int:
        options = arguments(__doc__).parse_args()
        table = Table("append")
        progress("500 processes at once")
        table.row(what="serial", p50_ms=0.61, raw_p50_ms=0.5, times_raw=times_raw(0.61, 0.5))
        table.at_most("serial append, p50, times raw", bar=1.5, value=times_raw(0.61, 0.5))
        return table.finish(json=options.json)

    if __name__ == "__main__":
        sys.exit(main())
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from json import dumps

__all__ = ["Bar", "Cell", "Table", "arguments", "p50", "p99", "percentile", "progress", "times_raw"]

Cell = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Bar:
    """A number that has to hold: what was measured, the bar, the value, and whether it held."""

    what: str
    bar: float
    value: float
    held: bool


class Table:
    """The rows and bars of one benchmark. Units go into the column's name: ``p50_ms``, ``entries_per_s``."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows: list[dict[str, Cell]] = []
        self.bars: list[Bar] = []

    def row(self, **cells: Cell) -> None:
        """Add a row. Rows need not have the same columns: a missing cell stays empty."""
        self.rows.append(cells)

    def at_most(self, what: str, *, bar: float, value: float) -> None:
        """A bar from above. A value that is not a number never holds."""
        self.bars.append(Bar(f"{what}, at most", bar, value, value <= bar))

    def at_least(self, what: str, *, bar: float, value: float) -> None:
        """A bar from below. A value that is not a number never holds."""
        self.bars.append(Bar(f"{what}, at least", bar, value, value >= bar))

    def finish(self, *, json: bool = False) -> int:
        """Print it on stdout, as a table or as exactly one line of JSON; the exit code: 1 if a bar was not held."""
        progress("")
        print(self.to_json() if json else self.to_text(), flush=True)
        return 0 if all(bar.held for bar in self.bars) else 1

    def to_json(self) -> str:
        """One line, ``{"name", "rows", "bars"}``; NaN and infinities become null."""
        rows = [{name: _finite(cell) for name, cell in row.items()} for row in self.rows]
        bars = [{name: _finite(cell) for name, cell in asdict(bar).items()} for bar in self.bars]
        return dumps({"name": self.name, "rows": rows, "bars": bars}, ensure_ascii=False, allow_nan=False)

    def to_text(self) -> str:
        """The rows, then the bars, each aligned: text to the left, numbers to the right."""
        bars: list[dict[str, Cell]] = [
            {"bar": bar.what, "must be": bar.bar, "is": bar.value, "": "held" if bar.held else "NOT HELD"}
            for bar in self.bars
        ]
        parts = [self.name, _aligned(self.rows), _aligned(bars)]
        return "\n\n".join(part for part in parts if part)


def arguments(description: str | None) -> argparse.ArgumentParser:
    """The parser every benchmark starts from: it knows ``--json``."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    return parser


def percentile(values: Sequence[float], percent: float) -> float:
    """The nearest rank: a value that was measured, never one in between.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 50)
    2.0
    """
    if not values:
        raise ValueError("a percentile of no values")
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


def p50(values: Sequence[float]) -> float:
    """The median, as `percentile`."""
    return percentile(values, 50)


def p99(values: Sequence[float]) -> float:
    """The value that 99 of 100 do not exceed, as `percentile`."""
    return percentile(values, 99)


def times_raw(ours: float, raw: float) -> float:
    """Ours as a multiple of the raw client's figure from the same run; NaN, which holds no bar, if there was none."""
    return ours / raw if raw else math.nan


def progress(text: str) -> None:
    """Say on stderr what is being measured, in one line that the next one replaces; silent where nobody watches."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def _finite(cell: Cell) -> Cell:
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def _aligned(rows: Sequence[dict[str, Cell]]) -> str:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    numbers = {name for name in columns if all(_is_number(row.get(name)) for row in rows)}
    lines = [columns, *([_text(row.get(name)) for name in columns] for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(columns))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if name in numbers else cell.ljust(width)
            for name, cell, width in zip(columns, line, widths, strict=True)
        ).rstrip()
        for line in (lines if rows else [])
    )


def _is_number(cell: Cell) -> bool:
    return cell is None or (isinstance(cell, int | float) and not isinstance(cell, bool))


def _text(cell: Cell) -> str:
    """Four significant digits, thousands apart, so that a column can be read down."""
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 1000 else f"{cell:.4g}"
    return f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else str(cell)
