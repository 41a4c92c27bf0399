"""``seekpoint import --from``: threads of LangGraph's saver for SQLite, on the command line."""

from __future__ import annotations

import json
import os
import pty
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from console_on_memory import on
from langgraph_sources import Store, imported, sqlite_store
from seekpoint.adapters.langgraph import SeekpointSaver
from seekpoint.producers import Node
from seekpoint.schemas import MemoryLog
from shells import Shell


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with the threads t-1, t-2 and u."""
    made = sqlite_store(tmp_path)
    with made.saver() as saver:
        for name in ("t-1", "t-2", "u"):
            put(saver, name, 1, {"a": name})
    return made


def put(saver: Any, name: str, number: int, values: dict[str, Any]) -> None:
    """Store a checkpoint with the values."""
    versions = dict.fromkeys(values, f"{number}.0")
    one = {
        "v": 4, "id": f"1ef{number:05}", "ts": "", "channel_values": values, "channel_versions": versions,
        "versions_seen": {}, "updated_channels": None,
    }  # fmt: skip
    saver.put({"configurable": {"thread_id": name, "checkpoint_ns": ""}}, one, {"step": number}, versions)


def value_of(log: MemoryLog, name: str, prefix: str = "langgraph") -> Any:
    """Return what the newest checkpoint of a thread has in the channel ``a``; None without a checkpoint."""

    async def read(node: Node) -> Any:
        found = await SeekpointSaver(node, prefix=prefix).aget_tuple({"configurable": {"thread_id": name}})
        return None if found is None else found.checkpoint["channel_values"]["a"]

    return on(log, read)


def test_threads_are_imported_and_reported(seekpoint: Shell, log: MemoryLog, store: Store) -> None:
    """A row for each on stdout, a sentence on stderr; the second time all of it is there already."""
    ran = seekpoint("import", "--from", "langgraph-sqlite", store.place)
    assert ran.code == 0, ran.err
    assert [line.split()[:3] for line in ran.out.splitlines()[1:]] == [
        [name, f"langgraph/{name}", "imported"] for name in ("t-1", "t-2", "u")
    ]
    assert "3 imported; compared with the source" in ran.err
    assert [value_of(log, name) for name in ("t-1", "t-2", "u")] == ["t-1", "t-2", "u"]
    again = seekpoint("import", "--from", "langgraph-sqlite", store.place, "--json")
    assert (again.code, again.err) == (0, "")
    assert again.json["total"]["there"] == 3
    assert [one["new"]["checkpoints"] for one in again.json["imported"]] == [0, 0, 0]


def test_ids_and_prefixes_choose(seekpoint: Shell, log: MemoryLog, store: Store) -> None:
    """``--id`` and ``--thread`` name them, ``--id-prefix`` takes those that begin so; ``--prefix`` is for processes."""
    ran = seekpoint(
        "import", "--from", "langgraph-sqlite", store.place, "--id-prefix", "t-", "--prefix", "old", "--json"
    )
    assert [one["process_id"] for one in ran.json["imported"]] == ["old/t-1", "old/t-2"]
    assert [value_of(log, name, "old") for name in ("t-1", "t-2", "u")] == ["t-1", "t-2", None]
    words = ("import", "--from", "langgraph-sqlite", store.place, "--json")
    chosen = seekpoint(*words, "--thread", "u", "--id", "t-2").json["imported"]
    assert [one["id"] for one in chosen] == ["u", "t-2"]
    unknown = seekpoint(*words, "--id", "nobody")
    assert (unknown.code, "the source has no such id" in unknown.err) == (4, True)


def test_a_dry_run_says_what_is_new(seekpoint: Shell, log: MemoryLog, store: Store) -> None:
    """It reads the journal, and writes nothing to it."""
    assert seekpoint("import", "--from", "langgraph-sqlite", store.place, "--id", "t-1").code == 0
    ran = seekpoint("import", "--from", "langgraph-sqlite", store.place, "--dry-run", "--json")
    assert (ran.code, ran.json["dry_run"], ran.json["compared"]) == (0, True, False)
    assert [(one["status"], one["new"]["checkpoints"]) for one in ran.json["imported"]] == [
        ("there", 0), ("planned", 1), ("planned", 1),
    ]  # fmt: skip
    assert value_of(log, "t-2") is None


def test_what_is_refused_or_differs_has_its_exit_code(seekpoint: Shell, log: MemoryLog, store: Store) -> None:
    """4 for a refused thread, 1 for a difference; the others are imported, and stderr names the reason."""
    with sqlite3.connect(store.place) as file:
        file.execute("UPDATE checkpoints SET type = 'pickle' WHERE thread_id = 'u'")
    file.close()
    ran = seekpoint("import", "--from", "langgraph-sqlite", store.place)
    assert ran.code == 4
    assert "u: pickles are never loaded or copied: the checkpoint at 1ef00001" in ran.err
    assert "2 imported, 1 refused" in ran.err
    with store.saver() as saver:
        put(saver, "t-1", 1, {"a": "another"})
    ran = seekpoint("import", "--from", "langgraph-sqlite", store.place)
    assert ran.code == 1
    assert "t-1: 1ef00001: another value of a" in ran.err
    document = seekpoint("import", "--from", "langgraph-sqlite", store.place, "--json").json["imported"]
    assert [one["status"] for one in document] == ["differs", "there", "refused"]
    assert document[2]["error"]["type"] == "Refused"
    assert seekpoint("import", "--from", "langgraph-sqlite", store.place, "--no-compare", "--id", "t-1").code == 0


def test_options_of_the_two_sorts_do_not_mix(seekpoint: Shell, store: Store) -> None:
    """A file of ``export`` has no threads, and a store no one new id."""
    for words in (("--from", "langgraph-sqlite", "--as", "x"), ("--dry-run",), ("--id", "t"), ("--no-compare",)):
        assert seekpoint("import", store.place, *words).code == 2
    assert seekpoint("import", "--from", "langgraph", store.place).code == 4


def test_a_dry_run_makes_no_journal(tmp_path: Path, store: Store) -> None:
    """A program of its own: without a journal everything is new, and there is none afterwards."""
    journal = tmp_path / "journal.db"
    words = [
        "seekpoint",
        "import",
        "--from",
        store.kind,
        store.place,
        "--journal-url",
        f"sqlite:///{journal}",
        "--json",
    ]
    ran = subprocess.run([*words, "--dry-run"], capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout)["total"]["planned"] == 3
    assert not journal.exists()


def test_progress_is_shown_on_a_terminal_only(tmp_path: Path, store: Store) -> None:
    """A bar with the share, the rate and the time left on stderr, if that is a terminal; stdout has only the data."""
    words = ["seekpoint", "import", "--from", store.kind, store.place, "--json", "--journal-url"]
    with store.saver() as saver:
        for number in range(2, 60):
            put(saver, "u", number, {"a": number})
    terminal, side = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    ran = subprocess.run(
        [*words, f"sqlite:///{tmp_path / 'a.db'}"], stdout=subprocess.PIPE, stderr=side, env=environment, check=True
    )
    os.close(side)
    shown = b""
    while chunk := _read(terminal):
        shown += chunk
    os.close(terminal)
    assert json.loads(ran.stdout)["total"]["imported"] == 3
    assert b"importing" in shown
    assert b"122/122" in shown
    assert b" checkpoints/s" in shown
    piped = subprocess.run([*words, f"sqlite:///{tmp_path / 'b.db'}"], capture_output=True, check=True)
    assert piped.stderr == b""


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # Linux says so at the end
        return b""


def test_the_command_line_starts_without_frameworks(tmp_path: Path) -> None:
    """``seekpoint import FILE`` loads neither an adapter nor LangGraph."""
    program = (
        "import sys; from seekpoint.console.entry_point import main\n"
        "try: main()\n"
        "finally: print([name for name in sys.modules if name.startswith(('langgraph', 'seekpoint.adapters'))])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, "import", "none.spk"], capture_output=True, text=True, cwd=tmp_path
    )
    assert ran.stdout.splitlines()[-1] == "[]", ran.stderr


def test_a_program_imports_as_the_command_does(store: Store, log: MemoryLog) -> None:
    """The same calls, from Python."""
    reports = on(log, lambda node: imported(node, store))
    assert {one.status for one in reports.values()} == {"imported"}
    assert value_of(log, "u") == "u"
