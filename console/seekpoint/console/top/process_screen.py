"""One process in ``seekpoint top``: its facts and its calls, as of when it was opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Static

from seekpoint.console.render.call_errors import error_text
from seekpoint.console.render.output import clean
from seekpoint.console.render.states import call_name
from seekpoint.console.top.table_rows import STYLES, short_text
from seekpoint.console.web.formats import call_class, span_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from seekpoint.console.web.data.board import ProcessRow
    from seekpoint.producers.durable.replay.call_records import CallRecord

_CALLS_MAX = 500


class ProcessScreen(Screen[None]):
    """Shows a row of the list in full, and the newest calls. ``read_calls`` blocks; it runs in a thread."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,q", "app.pop_screen", "Back"), ("r", "read", "Read again")]

    def __init__(self, row: ProcessRow, read_calls: Callable[[], Sequence[CallRecord]]) -> None:
        super().__init__()
        self._row = row
        self._read_calls = read_calls

    def compose(self) -> ComposeResult:
        """Make the widgets."""
        with VerticalScroll():
            yield Static(_facts(self._row), id="facts")
            yield Static("reading its calls…", id="calls-line")
            yield DataTable(id="calls", cursor_type="row", zebra_stripes=True)
        yield Footer()

    def on_mount(self) -> None:
        """Read the calls."""
        self.query_one("#calls", DataTable).add_columns("call", "kind", "status", "attempts", "took", "output")
        self.action_read()

    def action_read(self) -> None:
        """Read the calls again, in a thread."""
        self.run_worker(self._read, thread=True, exclusive=True, exit_on_error=False)

    def _read(self) -> None:
        from seekpoint.schemas.errors import SeekpointError

        try:
            found = self._read_calls()
        except SeekpointError as exc:
            self.app.call_from_thread(self._show_problem, f"{exc.message}; {exc.hint}")
        else:
            self.app.call_from_thread(self._show, found)

    def _show_problem(self, text: str) -> None:
        self.query_one("#calls-line", Static).update(Text(clean(text), "bold red"))

    def _show(self, found: Sequence[CallRecord]) -> None:
        table = self.query_one("#calls", DataTable)
        table.clear()
        table.add_rows(_call_row(one) for one in found[-_CALLS_MAX:])
        left = f", the newest {_CALLS_MAX:,}" if len(found) > _CALLS_MAX else ""
        self.query_one("#calls-line", Static).update(f"{len(found):,} calls{left}")


def _facts(row: ProcessRow) -> Text:
    shown = {
        "process": row.process_id, "status": row.status, "agent": row.agent, "version": row.version,
        "owner": row.owner_node, "epoch": row.epoch, "entries": row.seq,
        "last call": call_name(row.last_call_kind, row.last_call), "waits for": ", ".join(row.awaits),
        "since": row.since, "until": row.until, "error": row.error, "started": row.started, "changed": row.updated,
        "partition and offset": f"{row.partition}, {row.offset}",
    }  # fmt: skip
    text = Text()
    for name, value in shown.items():
        if value not in (None, ""):
            text.append(f"{name:<22}", "cyan").append(f"{clean(value)[:1000]}\n")
    return text


def _call_row(call: CallRecord) -> tuple[Text, ...]:
    facts = call.to_dict()
    has_failed = call.status == "failed" and facts["error"]
    output = error_text(facts["error"]) if has_failed else "" if facts["output"] is None else str(facts["output"])
    took = "-" if facts["duration_us"] is None else span_text(facts["duration_us"])
    return (
        short_text(call.key), short_text(call.kind), short_text(call.status, STYLES[call_class(call.status)]),
        Text(str(len(call.attempts)), justify="right"), Text(took, justify="right"), short_text(output),
    )  # fmt: skip
