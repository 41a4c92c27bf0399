"""How far a long read is: a bar, a rate and the time left on a terminal; nothing in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from seekpoint.console.render.output import clean, say

if TYPE_CHECKING:
    from seekpoint.schemas.log.log_ports import Batch, LogReader

__all__ = ["Activity", "ReadingProgress", "watched"]


class ReadingProgress:
    """``with Progress("reading", total) as progress: progress.advance(n)``; on stderr, and gone at the end."""

    def __init__(self, what: str, total: int, unit: str = "entries") -> None:
        self._what = what
        self._total = total
        self._unit = unit
        self._bar: Any = None
        self._is_hidden = False

    def __enter__(self) -> ReadingProgress:
        if sys.stderr.isatty() and self._total:
            self._bar, self._task = _rich_bar(self._what, self._total, self._unit)
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def describe(self, what: str) -> None:
        """Say what is being done now."""
        if self._bar is not None:
            self._bar.update(self._task, description=clean(what))

    def hide(self) -> None:
        """Take the bar away until the next ``advance``: data may be written to the same terminal."""
        if self._bar is not None and not self._is_hidden:
            self._bar.stop()
            self._is_hidden = True

    def advance(self, count: int) -> None:
        """``count`` more are done."""
        if self._bar is None:
            return
        if self._is_hidden:
            self._bar.start()
            self._is_hidden = False
        self._bar.advance(self._task, count)


class Activity:
    """What the local cluster tells while it starts: one bar on a terminal; in a pipe one line for each activity."""

    def __init__(self) -> None:
        self._what = ""
        self._bar: Any = None

    def __enter__(self) -> Activity:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def __call__(self, what: str, share: float | None = None, /) -> None:
        """Show ``what`` once, and the ``share`` of it that is done."""
        if what != self._what:
            self._stop()
            self._what = what
            if share is None or not sys.stderr.isatty():
                say(what)
            else:
                self._bar, self._task = _rich_share(what)
                self._bar.start()
        if self._bar is not None:
            self._bar.update(self._task, completed=share)

    def _stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def watched(log: LogReader, advance: Callable[[int], None]) -> LogReader:
    """The same log; ``advance`` is told how many offsets each batch of a read brought."""
    return cast("LogReader", _WatchedReading(log, advance))


class _WatchedReading:
    def __init__(self, log: LogReader, advance: Callable[[int], None]) -> None:
        self._log = log
        self._advance = advance

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def read(self, partition: int, start: int, stop: int, keys: Collection[bytes] | None = None) -> Iterator[Batch]:
        for batch in self._log.read(partition, start, stop, keys):
            self._advance(batch.next_offset - start)
            start = batch.next_offset
            yield batch


def _rich_share(what: str) -> tuple[Any, Any]:
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    about = TextColumn("{task.description}", markup=False)  # no markup: it may hold names of others
    columns = (about, BarColumn(bar_width=20), TaskProgressColumn(), TimeRemainingColumn())
    bar = Bar(*columns, console=Console(stderr=True))
    return bar, bar.add_task(clean(what), total=1.0)


def _rich_bar(what: str, total: int, unit: str) -> tuple[Any, Any]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar
    from rich.text import Text

    class Rate(ProgressColumn):
        """Units a second."""

        def render(self, task: Any) -> Text:
            return Text(f"{task.speed:,.0f} {unit}/s" if task.speed else "")

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        Rate(),
        TimeRemainingColumn(),
    )
    # Rich would write stdout's data to the bar's console, which is stderr.
    bar = Bar(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
    return bar, bar.add_task(clean(what), total=total)
