"""The application of ``seekpoint top``: two tables that follow the journal."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Input, Static, TabbedContent, TabPane

from seekpoint.console.render.output import clean
from seekpoint.console.services.facts.pipeline_facts import PipelineReader
from seekpoint.console.services.histories.process_scan import entries_of
from seekpoint.console.top.filter_words import FILTER_HELP, query_of
from seekpoint.console.top.process_screen import ProcessScreen
from seekpoint.console.top.table_rows import (
    PARTITION_COLUMNS,
    PROCESS_COLUMNS,
    SERVICE_COLUMNS,
    counts_line,
    partition_rows,
    process_row,
    service_rows,
    source_line,
)
from seekpoint.console.web.data.board_poller import BoardPoller
from seekpoint.console.web.failures import BadRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from seekpoint.console.services.arguments.target import CommandTarget
    from seekpoint.console.services.facts.pipeline_facts import PipelineFacts
    from seekpoint.console.web.data.board import ListQuery, ProcessRow

_ROWS_MAX = 500
_PIPELINE_INTERVAL_S = 2.0


class TopApp(App[None]):
    """The processes of a journal, and its pipeline. It reads as the web console does, and changes nothing."""

    TITLE = "seekpoint top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #filter { display: none; }
    #filter.shown { display: block; }
    TabbedContent, DataTable { height: 1fr; }
    TabPane { padding: 0; }
    #services { height: 40%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1", "tab('processes')", "Processes"),
        Binding("2", "tab('pipeline')", "Pipeline"),
        Binding("slash", "filter", "Filter"),
        Binding("j", "cursor(1)", "Down", show=False),
        Binding("k", "cursor(-1)", "Up", show=False),
        Binding("q", "quit", "Quit"),
    ]

    def __init__(self, target: CommandTarget) -> None:
        super().__init__()
        self._target = target
        self._threads = ThreadPoolExecutor(3, thread_name_prefix="seekpoint-top")
        self._poller = BoardPoller(target, self._threads)
        self._pipeline: PipelineReader | None = None
        self._query: ListQuery = query_of("", _ROWS_MAX)
        self._rows: dict[str, ProcessRow] = {}

    def compose(self) -> ComposeResult:
        """Make the widgets."""
        yield Static(id="source")
        yield Static(id="counts")
        yield Input(id="filter", placeholder=FILTER_HELP)
        with TabbedContent(initial="processes"):
            with TabPane("Processes", id="processes"):
                yield DataTable(id="process-table", cursor_type="row", zebra_stripes=True, fixed_columns=1)
            with TabPane("Pipeline", id="pipeline"):
                yield Static(id="pipeline-line")
                yield DataTable(id="partitions", cursor_type="row", zebra_stripes=True)
                yield DataTable(id="services", cursor_type="row", zebra_stripes=True)
        yield Footer()

    def on_mount(self) -> None:
        """Begin to follow the journal."""
        for name, columns in (
            ("process-table", PROCESS_COLUMNS), ("partitions", PARTITION_COLUMNS), ("services", SERVICE_COLUMNS)
        ):  # fmt: skip
            table = self._table(name)
            for column in columns:
                table.add_column(column, key=column)
        self._table("process-table").focus()
        self._poller.on_change(self.show_processes)
        self._poller.start()
        self._poller.watch()
        self.show_processes()
        self.set_interval(_PIPELINE_INTERVAL_S, self._follow_pipeline)

    async def on_unmount(self) -> None:
        """End what reads the journal."""
        await self._poller.stop()
        self._threads.shutdown(wait=True, cancel_futures=True)

    # --- processes
    def show_processes(self) -> None:
        """Show the list as it is now."""
        page = self._poller.board.listed(self._query)
        shown = f"   {len(page.processes):,} of {page.total:,} shown" if len(page.processes) < page.total else ""
        self._lists.query_one("#source", Static).update(source_line(page.journal, page.source))
        self._lists.query_one("#counts", Static).update(counts_line(page.counts).append(shown, "dim"))
        self._rows = {one.process_id: one for one in page.processes}
        _fill(self._table("process-table"), ((one.process_id, process_row(one)) for one in page.processes))

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Show the process of the row."""
        row = self._rows.get(event.row_key.value or "")
        if event.data_table.id == "process-table" and row is not None:
            self.push_screen(ProcessScreen(row, partial(self._calls, row.process_id)))

    def _calls(self, process_id: str) -> Any:
        from seekpoint.producers.history.inherited_calls import calls_of

        return calls_of(partial(entries_of, self._target), process_id, self._target.log.limits)

    # --- keys
    def action_tab(self, name: str) -> None:
        """Show one of the two tables."""
        while len(self.screen_stack) > 1:
            self.pop_screen()
        self._lists.query_one(TabbedContent).active = name
        self._table({"processes": "process-table", "pipeline": "partitions"}[name]).focus()
        if name == "pipeline":
            self._follow_pipeline()

    def action_cursor(self, step: int) -> None:
        """Move a row up or down."""
        if isinstance(self.focused, DataTable):
            (self.focused.action_cursor_down if step > 0 else self.focused.action_cursor_up)()

    def action_filter(self) -> None:
        """Begin to write a filter."""
        self.action_tab("processes")
        field = self._lists.query_one("#filter", Input)
        field.add_class("shown")
        field.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Take the filter; an empty one shows everything again."""
        try:
            self._query = query_of(event.value, _ROWS_MAX)
        except BadRequest as exc:
            self.notify(clean(exc.answer.message), severity="error", markup=False)
            return
        event.input.set_class(bool(event.value), "shown")
        self._table("process-table").focus()
        self.show_processes()

    # --- the pipeline
    def _follow_pipeline(self) -> None:
        if self._lists.query_one(TabbedContent).active == "pipeline":
            self.run_worker(self._read_pipeline, thread=True, group="pipeline", exclusive=True, exit_on_error=False)

    def _read_pipeline(self) -> None:
        from seekpoint.schemas.errors import SeekpointError

        try:
            self._pipeline = self._pipeline or PipelineReader(self._target)
            found = self._pipeline.read()
        except SeekpointError as exc:
            self.call_from_thread(self._show_problem, f"{exc.message}; {exc.hint}")
        else:
            self.call_from_thread(self._show_pipeline, found)

    def _show_problem(self, text: str) -> None:
        self._lists.query_one("#pipeline-line", Static).update(Text(clean(self._target.scrub(text)), "bold red"))

    def _show_pipeline(self, found: PipelineFacts) -> None:
        notes = [f"no view: {found.no_view}"] if found.no_view else []
        notes += [f"members are not known: {found.no_members}"] if found.no_members else []
        notes += [f"{found.dead_letters:,} dead letters"] if found.dead_letters else []
        self._lists.query_one("#pipeline-line", Static).update(Text(clean("   ".join(notes)), "yellow"))
        _fill(self._table("partitions"), ((str(at), row) for at, row in enumerate(partition_rows(found))))
        _fill(self._table("services"), ((str(at), row) for at, row in enumerate(service_rows(found))))

    @property
    def _lists(self) -> Screen[Any]:
        """The screen with the tables, which may lie below that of a process."""
        return self.screen_stack[0]

    def _table(self, name: str) -> DataTable[Text]:
        return self._lists.query_one(f"#{name}", DataTable)


def _fill(table: DataTable[Text], rows: Iterable[tuple[str, tuple[Text, ...]]]) -> None:
    """Show ``rows``, and leave the cursor on its row. Cells that are the same are not drawn again."""
    wanted = dict(rows)
    names = [key.value for key in table.rows]
    if names == list(wanted):
        columns = list(table.columns)
        for name, cells in wanted.items():
            for column, old, new in zip(columns, table.get_row(name), cells, strict=True):
                if old != new or old.style != new.style:
                    table.update_cell(name, column, new, update_width=True)
        return
    at = table.cursor_row
    under = names[at] if 0 <= at < len(names) else None
    table.clear()
    for name, cells in wanted.items():
        table.add_row(*cells, key=name)
    if under in wanted:
        table.move_cursor(row=list(wanted).index(under), animate=False, scroll=True)
    elif wanted:
        table.move_cursor(row=min(max(at, 0), len(wanted) - 1), animate=False)
