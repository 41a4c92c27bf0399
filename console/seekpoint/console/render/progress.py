"""Progress bars on a terminal, with rate and remaining time; nothing in a pipe."""

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
    """A progress bar on stderr that disappears at the end: ``with ReadingProgress("reading", total) as progress``."""

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
        """Change the description of the bar."""
        if self._bar is not None:
            self._bar.update(self._task, description=clean(what))

    def hide(self) -> None:
        """Hide the bar until the next ``advance``, because data may go to the same terminal."""
        if self._bar is not None and not self._is_hidden:
            self._bar.stop()
            self._is_hidden = True

    def advance(self, count: int) -> None:
        """Add ``count`` to the progress."""
        if self._bar is None:
            return
        if self._is_hidden:
            self._bar.start()
            self._is_hidden = False
        self._bar.advance(self._task, count)


class Activity:
    """The progress of a starting local cluster: a bar on a terminal, one line per activity in a pipe."""

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
        """Show ``what`` once, and the ``share`` that is done."""
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
    """Return the log, wrapped so that each batch that is read calls ``advance`` with its number of offsets."""
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

    about = TextColumn("{task.description}", markup=False)  # without markup, because names come from users
    columns = (about, BarColumn(bar_width=20), TaskProgressColumn(), TimeRemainingColumn())
    bar = Bar(*columns, console=Console(stderr=True))
    return bar, bar.add_task(clean(what), total=1.0)


def _rich_bar(what: str, total: int, unit: str) -> tuple[Any, Any]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar
    from rich.text import Text

    class Rate(ProgressColumn):
        """The rate in units per second."""

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
