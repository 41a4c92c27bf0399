"""Progress bars on a terminal, with rate and remaining time; nothing in a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from seekpoint.console.render.output import clean

if TYPE_CHECKING:
    from seekpoint.compose.setup_phases import SetupPhase
    from seekpoint.schemas.log.log_ports import Batch, LogReader

_SHARE_BY_TIME_MAX = 0.95
_BAR_COLUMNS_MIN = 72


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

    def __exit__(self, *_: object) -> None:
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


class SetupBar:
    """One progress bar on stderr for all phases of a starting local cluster; nothing in a pipe.

    The bar is full at the end of the last phase. A phase that does not report its share counts by the time it usually
    takes.
    """

    def __init__(self, phases: Sequence[SetupPhase]) -> None:
        self._phases = phases
        self._first = self._current = -1
        self._share: float | None = None
        self._began = 0.0
        self._bar: Any = None

    def __enter__(self) -> SetupBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, phase: SetupPhase, share: float | None = None, /) -> None:
        """Show the phase, and the ``share`` of it that is done."""
        self._share = share
        if phase == self._phases[self._current] and self._first >= 0:
            return
        self._current, self._began = self._phases.index(phase), time.monotonic()
        if self._first < 0:
            self._first = self._current
            if sys.stderr.isatty():
                self._bar = _rich_phases(self)
                self._bar.start()

    @property
    def text(self) -> str:
        """Return the sentence about the present phase."""
        return self._phases[self._current].text

    @property
    def rate(self) -> str:
        """Return how fast the present phase downloads; empty for another one."""
        elapsed_s, size = time.monotonic() - self._began, self._phases[self._current].size_bytes
        return f"{size * self._share / elapsed_s / 1e6:.1f} MB/s" if size and self._share and elapsed_s else ""

    @property
    def done(self) -> float:
        """The share of all phases that is done."""
        now = self._phases[self._current]
        share = min(_SHARE_BY_TIME_MAX, (time.monotonic() - self._began) / now.usual_s)
        if self._share is not None:
            share = self._share
        before_s = sum(phase.usual_s for phase in self._phases[self._first : self._current])
        return (before_s + share * now.usual_s) / sum(phase.usual_s for phase in self._phases[self._first :])


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


def _rich_phases(setup: SetupBar) -> Any:
    """Return a bar that asks ``setup`` each time it is drawn, because most phases do not report anything."""
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import ProgressColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        """The rate of a download."""

        def render(self, task: Any) -> Text:
            return Text(setup.rate)

    class Watching(Bar):
        """Updates its task before it is drawn."""

        def get_renderables(self) -> Any:
            for task_id in self.task_ids:
                self.update(task_id, description=setup.text.partition(" (")[0], completed=setup.done)
            yield from super().get_renderables()

    console = Console(stderr=True)
    about = TextColumn("{task.description}", markup=False)
    columns = (about, *_bar_column(console.width), TaskProgressColumn(), Rate(), TimeRemainingColumn())
    bar = Watching(*columns, console=console, transient=True, redirect_stdout=False)
    bar.add_task(setup.text, total=1.0)
    return bar


def _bar_column(width: int) -> list[Any]:
    """Return the bar that leaves room for text and numbers: none on a narrow terminal."""
    from rich.progress import BarColumn

    return [] if width < _BAR_COLUMNS_MIN else [BarColumn(bar_width=min(40, width - _BAR_COLUMNS_MIN + 4))]


def _rich_bar(what: str, total: int, unit: str) -> tuple[Any, Any]:
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, ProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar
    from rich.text import Text

    class Rate(ProgressColumn):
        """The rate in units per second."""

        def render(self, task: Any) -> Text:
            return Text(f"{task.speed:,.0f} {unit}/s" if task.speed else "")

    console = Console(stderr=True)
    about = TextColumn("{task.description}", markup=False)
    numbers = (MofNCompleteColumn(), Rate(), TimeRemainingColumn())
    columns = (about, *_bar_column(console.width), *numbers)
    # Rich would write stdout's data to the bar's console, which is stderr.
    bar = Bar(*columns, console=console, transient=True, redirect_stdout=False)
    return bar, bar.add_task(clean(what), total=total)
