"""``seekpoint steps ID --live``: a tree on a terminal, lines in a pipe, objects with ``--json``."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from seekpoint import Node, Process, Retry, agent
from seekpoint.console.render.call_tree import call_tree
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.services.histories.live_calls import live_calls
from shells import Shell
from terminals import on_terminal

HOSTILE = "[red]no\x1b[31m\u202e answer"


class Flaky:
    """A function that fails twice."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> str:
        self.times += 1
        if self.times < 3:
            raise ConnectionError(HOSTILE)
        return "ok"


def journal(folder: Path) -> str:
    return f"sqlite:///{folder / 'runs.db'}"


def run(folder: Path, name: str, wait_s: float = 0.0) -> None:
    """Run an agent with branches, retries and a wait."""
    flaky = Flaky()

    @agent("shop")
    async def shop(process: Process, given: None) -> int:
        async def price(branch: Any, number: int) -> int:
            found: int = await branch.step("price", int, number)
            return found

        await process.gather(price(process, 1), price(process, 2))
        await process.step("flaky", flaky, retry=Retry(attempts=3, backoff_s=0.001))
        await process.sleep(wait_s)
        return 1

    async def main() -> None:
        async with Node.local(folder / "runs.db") as node:
            await node.run(shop, name, None)

    asyncio.run(main())


def test_in_a_pipe_each_change_of_a_call_is_a_line(shell: Shell, tmp_path: Path) -> None:
    """The command follows a run that goes on, and ends with it."""
    running = threading.Thread(target=run, args=(tmp_path, "case-1", 1.5))
    running.start()
    until = time.monotonic() + 30
    while shell("steps", "case-1", "--journal-url", journal(tmp_path)).out.count("flaky") == 0:
        assert time.monotonic() < until
        time.sleep(0.05)
    ran = shell("steps", "case-1", "--live", "--journal-url", journal(tmp_path))
    running.join()
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert [line.split()[:2] for line in lines if line.startswith("timer")] == [
        ["timer", "waits"],
        ["timer", "succeeded"],
    ]
    assert any("flaky:1  3 attempts" in line for line in lines)
    assert lines[-1] == "case-1  shop 1  finished"


def test_json_has_an_object_for_each_change(shell: Shell, tmp_path: Path) -> None:
    """As ``seekpoint steps --json`` has it."""
    run(tmp_path, "case-1")
    url = ("--journal-url", journal(tmp_path))
    found = [json.loads(line) for line in shell("steps", "case-1", "--live", "--json", *url).out.splitlines()]
    assert found == json.loads(shell("steps", "case-1", "--json", *url).out)["calls"]


def test_the_tree_has_branches_and_attempts_and_no_hostile_text(tmp_path: Path) -> None:
    """Attempts are shown where there were several; the newest calls where there is too little room."""
    run(tmp_path, "case-1")
    with closing(CommandTarget(None, None, None, journal(tmp_path))) as target:
        *_, last = [found for found in live_calls(target, "case-1") if found is not None]
    console = Console(width=120, record=True, markup=False)
    console.print(call_tree("case-1", last, 50))
    text = console.export_text()
    assert text.count("branch ~") >= 2
    assert "attempt 2 retry" in text
    assert "ConnectionError: [red]no\\x1b[31m\\u202e answer" in text
    assert not {"\x1b", "\u202e"} & set(text)
    console.print(call_tree("case-1", last, 1))
    assert f"{len(last.calls) - 1} earlier calls" in console.export_text()


def test_on_a_terminal_it_is_a_tree(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays when the run is over."""
    run(tmp_path, "case-1")
    terminal = on_terminal(monkeypatch, 100)
    assert shell("steps", "case-1", "--live", "--journal-url", journal(tmp_path)).code == 0
    assert "└── " in terminal.getvalue()
    assert "flaky:1" in terminal.getvalue()


def test_an_unknown_process_and_a_single_call_are_refused(shell: Shell, tmp_path: Path) -> None:
    """Nothing is waited for."""
    run(tmp_path, "case-1")
    url = ("--journal-url", journal(tmp_path))
    ran = shell("steps", "case-2", "--live", *url)
    assert (ran.code, "no such process" in ran.err) == (1, True)
    ran = shell("steps", "case-1", "flaky:1", "--live", *url)
    assert (ran.code, "follows all calls" in ran.err) == (2, True)
