"""``seekpoint top``: its tables, keys and filter, in Textual's headless terminal and in a real one."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from rich.text import Text
from textual.pilot import Pilot
from textual.widgets import DataTable, Input, Static, TabbedContent

from consoles import file_settings, work_on
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.top.filter_words import query_of
from seekpoint.console.top.process_screen import ProcessScreen
from seekpoint.console.top.top_app import TopApp
from seekpoint.console.web.failures import BadRequest
from seekpoint.producers import Node
from seekpoint.schemas.config.settings import Settings
from shells import Shell

HOSTILE = "\x1b[31m\u202e<script>[red]x"
Settled = Callable[[], bool]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A journal in a file with three processes."""
    made = file_settings(tmp_path)

    async def work(node: Node) -> None:
        for name in ("case-1", "case-2", "other-1"):
            async with node.open(name) as process:
                await process.step("look", lambda: HOSTILE)

    work_on(made, work)
    return made


@asynccontextmanager
async def shown(settings: Settings) -> AsyncIterator[tuple[TopApp, Pilot[Any]]]:
    """The application, once it has its list."""
    with closing(CommandTarget(None, None, None, f"sqlite:///{settings.sqlite_path}")) as target:
        app = TopApp(target)
        async with app.run_test(size=(160, 40)) as pilot:
            await until(pilot, lambda: ids(app) != [])
            yield app, pilot


async def until(pilot: Pilot[Any], settled: Settled) -> None:
    """Wait for what the application does in the background."""
    deadline = time.monotonic() + 30
    while not settled():
        assert time.monotonic() < deadline, str(pilot.app.screen)
        await pilot.pause(0.05)


def table(app: TopApp, name: str = "process-table") -> DataTable[Text]:
    return app.screen_stack[0].query_one(f"#{name}", DataTable)


def tabs(app: TopApp) -> TabbedContent:
    return app.query_one(TabbedContent)


def ids(app: TopApp) -> list[str | None]:
    return [key.value for key in table(app).rows]


def cells(app: TopApp, name: str) -> str:
    found = table(app, name)
    return "\n".join(" | ".join(cell.plain for cell in found.get_row(key)) for key in found.rows)


async def test_it_lists_the_processes_and_follows_them(settings: Settings) -> None:
    """The newest first; a process that begins appears, and the cursor stays on its row."""
    async with shown(settings) as (app, pilot):
        assert ids(app) == ["other-1", "case-2", "case-1"]
        await pilot.press("j")
        assert table(app).cursor_row == 1

        async def begin(node: Node) -> None:
            async with node.open("new-1") as process:
                await process.update("n", 1)

        await asyncio.to_thread(work_on, settings, begin)
        await until(pilot, lambda: ids(app) == ["new-1", "other-1", "case-2", "case-1"])
        assert table(app).cursor_row == 2
        await pilot.press("k", "k")
        assert table(app).cursor_row == 0
        assert "| step look:1 |" in cells(app, "process-table")
        assert "4 processes" in str(app.query_one("#counts", Static).render())


async def test_a_filter_selects_and_a_wrong_one_changes_nothing(settings: Settings) -> None:
    """The list stays as it was, and a message says what is wrong."""
    async with shown(settings) as (app, pilot):
        await pilot.press("slash", *"case-", "enter")
        assert ids(app) == ["case-2", "case-1"]
        await pilot.press("slash")
        app.query_one("#filter", Input).value = "case- since:soon"
        await pilot.press("enter")
        assert ids(app) == ["case-2", "case-1"]
        assert [note.severity for note in app._notifications] == ["error"]
        app.query_one("#filter", Input).value = ""
        await pilot.press("enter")
        assert len(ids(app)) == 3


async def test_enter_shows_a_process_with_its_calls_and_hostile_text_as_text(settings: Settings) -> None:
    """No escape, no mark of direction and no markup of Rich leaves its cell."""
    async with shown(settings) as (app, pilot):
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, ProcessScreen) and _calls(app).row_count == 1)
        [key] = _calls(app).rows
        text = " ".join(cell.plain for cell in _calls(app).get_row(key))
        assert "look" in text
        assert "\\x1b[31m\\u202e<script>[red]x" in text
        assert not {"\x1b", "\u202e"} & set(text)

        async def begin(node: Node) -> None:
            async with node.open("new-1") as process:
                await process.update("n", 1)

        await asyncio.to_thread(work_on, settings, begin)  # the list below goes on
        await until(pilot, lambda: "new-1" in ids(app))
        await pilot.press("escape")
        assert not isinstance(app.screen, ProcessScreen)
        await pilot.press("enter", "2")
        assert not isinstance(app.screen, ProcessScreen)
        assert tabs(app).active == "pipeline"


def _calls(app: TopApp) -> DataTable[Text]:
    return app.screen.query_one("#calls", DataTable)


async def test_the_pipeline_has_partitions_and_nodes(settings: Settings) -> None:
    """Those of the journal, as ``seekpoint lag`` has them; they follow the log."""
    async with shown(settings) as (app, pilot):
        await pilot.press("2")
        assert tabs(app).active == "pipeline"
        await until(pilot, lambda: table(app, "partitions").row_count == settings.partitions)
        before = cells(app, "partitions")

        async def work(node: Node) -> None:
            async with node.open("case-1") as process:
                await process.update("n", 1)

        await asyncio.to_thread(work_on, settings, work)
        await until(pilot, lambda: cells(app, "partitions") != before)
        await pilot.press("1")
        assert tabs(app).active == "processes"


def test_words_of_a_filter() -> None:
    """They are those of the web console's list."""
    query = query_of("case- agent:refund status:failed open since:2h sort:id", 7)
    assert (query.prefix, query.agent, query.lifecycle, query.only, query.since, query.sort, query.limit) == (
        "case-", "refund", "failed", ("open",), "2h", "id", 7,
    )  # fmt: skip
    for wrong in ("a b", "status:sleepy", "sort:size", "since:soon"):
        with pytest.raises(BadRequest):
            query_of(wrong, 7)


def test_without_a_terminal_it_says_what_to_use(shell: Shell, settings: Settings) -> None:
    """And ``--json`` works everywhere."""
    url = f"sqlite:///{settings.sqlite_path}"
    ran = shell("top", "--journal-url", url)
    assert (ran.code, ran.out) == (4, "")
    assert "seekpoint top --json" in ran.err
    found = json.loads(shell("top", "--journal-url", url, "--json").out)
    assert found["counts"][0]["total"] == 3
    assert len(found["pipeline"]["partitions"]) == settings.partitions


def test_in_a_terminal_it_shows_the_list_and_ends_at_q(settings: Settings, tmp_path: Path) -> None:
    """Also at Ctrl-C's signal there is nothing left of it."""
    for end in (b"q", signal.SIGINT):
        own, other = pty.openpty()
        ours = {name: value for name, value in os.environ.items() if not name.startswith("SEEKPOINT_")}
        with subprocess.Popen(
            [sys.executable, "-m", "seekpoint", "top", "--journal-url", f"sqlite:///{settings.sqlite_path}"],
            stdin=other, stdout=other, stderr=other, cwd=tmp_path, env={**ours, "TERM": "xterm-256color"},
            start_new_session=True,
        ) as program:  # fmt: skip
            os.close(other)
            said = _read_until(own, b"case-1")
            if isinstance(end, bytes):
                os.write(own, end)
            else:
                program.send_signal(end)
            said += _read_until(own, None)
            code = program.wait(30)
        os.close(own)
        assert code in (0, 130), (end, code, said[-2000:])
        assert b"Traceback" not in said


def _read_until(terminal: int, text: bytes | None) -> bytes:
    """Read what the program writes, until it has written ``text``; None: until it ends."""
    found = b""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if text is not None and text in found:
            return found
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                part = os.read(terminal, 65536)
            except OSError:  # the program has ended
                part = b""
            if not part:
                return found
            found += part
    raise AssertionError(found[-3000:])
