"""Files of rows: JSON lines, or Parquet for a name that ends with ``.parquet``."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import orjson

from seekpoint.console.render.output import emit_json
from seekpoint.schemas.errors import InvalidSetting

PARQUET = ".parquet"
_ROWS_AT_ONCE = 5_000
_NUMBERS = frozenset({"turn", "seq", "attempts", "started_at_us", "ended_at_us", "duration_us"})
_VALUES = frozenset({"request", "response", "error", "usage", "facts"})
"""Columns with JSON values, which a Parquet file has as JSON text."""
_COLUMNS = (
    *("process", "key", "kind", "name", "turn", "seq", "status", "request", "response", "error", "attempts"),
    *("started_at_us", "ended_at_us", "duration_us", "usage", "cost_usd", "model", "facts"),
)


class _RowWriter(Protocol):
    def write(self, row: dict[str, Any]) -> None: ...
    def close(self) -> None: ...


def write_stdout(rows: Iterable[dict[str, Any]]) -> int:
    """Write JSON lines to stdout. Return the number of rows."""
    count = 0
    for count, row in enumerate(rows, start=1):  # noqa: B007
        emit_json(_ordered(row), line=True)
    return count


def write_file(file: Path, rows: Iterable[dict[str, Any]], *, overwrite: bool) -> int:
    """Write a file that appears once it is complete. Return the number of rows.

    Raises ``ReplayRefused`` if the file exists or cannot be written, ``InvalidSetting`` if Parquet is not installed.
    """
    from seekpoint.consumers.staging.capture.new_file import NewFile

    make = _parquet() if file.suffix == PARQUET else _JsonLines
    new = NewFile("the data set", file, overwrite=overwrite)
    try:
        with new.writing():
            count = _write(rows, make(new.out))
        new.finish()
    finally:
        new.abandon()
    return count


def _write(rows: Iterable[dict[str, Any]], writer: _RowWriter) -> int:
    count = 0
    try:
        for count, row in enumerate(rows, start=1):  # noqa: B007
            writer.write(row)
    except BaseException:
        with suppress(Exception):  # it would close itself later, when the file is closed
            writer.close()
        raise
    writer.close()
    return count


def _ordered(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in _COLUMNS}


class _JsonLines:
    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    def write(self, row: dict[str, Any]) -> None:
        self._out.write(orjson.dumps(_ordered(row), option=orjson.OPT_APPEND_NEWLINE))

    def close(self) -> None:
        self._out.flush()


def _parquet() -> Any:
    """Return a maker of writers of Parquet files, which needs the extra ``parquet``."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise InvalidSetting(
            "a Parquet file needs the package pyarrow",
            setting="--dataset", hint="pip install 'seekpoint[parquet]', or name a file that ends with .jsonl",
        ) from None  # fmt: skip
    types = {name: pyarrow.int64() if name in _NUMBERS else pyarrow.string() for name in _COLUMNS}
    schema = pyarrow.schema(types)

    class ParquetRows:
        def __init__(self, out: BinaryIO) -> None:
            self._file = parquet.ParquetWriter(out, schema, compression="zstd")
            self._rows: list[dict[str, Any]] = []

        def write(self, row: dict[str, Any]) -> None:
            texts = {name: None if row[name] is None else orjson.dumps(row[name]).decode() for name in _VALUES}
            self._rows.append({**row, **texts})
            if len(self._rows) == _ROWS_AT_ONCE:
                self._end_group()

        def close(self) -> None:
            self._end_group()
            self._file.close()

        def _end_group(self) -> None:
            self._file.write_table(pyarrow.Table.from_pylist(self._rows, schema=schema))
            self._rows.clear()

    return ParquetRows
