"""Journals of Promptise's ``FileJournal`` become journals of ``SeekpointJournal``, entry by entry."""

from __future__ import annotations

import asyncio
import json
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from promptise.runtime.journal import FileJournal, JournalEntry, ReplayEngine, RewindEngine, RewindMode

from import_kills import import_with_kills
from seekpoint import MemoryLog, Node
from seekpoint.adapters.migration import Migrated, Order, chosen_ids, migrate, open_source
from seekpoint.adapters.migration.promptise_source import PromptiseSource
from seekpoint.adapters.promptise import SeekpointJournal
from seekpoint.errors import Refused

T0 = datetime(2026, 1, 1, tzinfo=UTC)
NAME = "team/clerk~1"


def entry(number: int, kind: str, name: str = NAME, **data: Any) -> JournalEntry:
    """Return an entry."""
    return JournalEntry(f"e-{number}", name, T0 + timedelta(seconds=number), kind, data)


async def worked(journal: FileJournal, name: str = NAME, begin: int = 0, rounds: int = 3) -> None:
    """Write what a process writes in some runs."""
    for number in range(begin, begin + 10 * rounds, 10):
        await journal.append(entry(number, "state_transition", name, from_state="created", to_state="running"))
        await journal.append(entry(number + 1, "trigger_event", name, payload={"order": number}))
        await journal.append(entry(number + 2, "context_update", name, key="done", value=[number]))
        await journal.checkpoint(name, {"context_state": {"done": [number]}, "lifecycle_state": "running"})
        await journal.append(entry(number + 3, "context_update", name, key=f"note {number}", value={"é": None}))


async def imported(node: Node | None, folder: Path, *ids: str, **how: Any) -> dict[str, Migrated]:
    """Import processes of a folder; return the reports by id."""
    source = open_source("promptise", str(folder))
    order = Order(prefix="promptise", **how)
    return {one.id: one async for one in migrate(node, source, chosen_ids(source, ids), order)}


async def read_alike(folder: Path, node: Node, name: str) -> int:
    """Compare what both journals read and recover; return how many entries there are."""
    files, mine = FileJournal(str(folder)), SeekpointJournal(node)
    theirs = await files.read(name)
    assert await mine.read(name) == theirs
    assert await mine.last_checkpoint(name) == await files.last_checkpoint(name)
    assert await mine.recover(name) == await ReplayEngine(files).recover(name)
    assert await ReplayEngine(mine).recover(name) == await ReplayEngine(files).recover(name)
    return len(theirs)


def bytes_in(folder: Path) -> dict[str, bytes]:
    """Return what the files of a folder have."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


async def test_a_journal_is_the_same_and_goes_on(tmp_path: Path) -> None:
    """Entries with their ids and times, the newest checkpoint, what is recovered; and a rewind finds its place."""
    files = FileJournal(str(tmp_path))
    await worked(files)
    await worked(files, "other", rounds=1)
    before = bytes_in(tmp_path)
    async with Node.in_memory() as node:
        reports = await imported(node, tmp_path)
        assert {name: one.status for name, one in reports.items()} == {NAME: "imported", "other": "imported"}
        assert {name: one.counts["entries"] for name, one in reports.items()} == {
            name: await read_alike(tmp_path, node, name) for name in (NAME, "other")
        }
        assert {one.process_id for one in reports.values()} == {
            SeekpointJournal(node).process_id_of(name) for name in (NAME, "other")
        }
        assert bytes_in(tmp_path) == before
        again = (await imported(node, tmp_path))[NAME]
        assert (again.status, again.new["entries"]) == ("there", 0)
        engine = RewindEngine(SeekpointJournal(node))
        await engine.apply(process_id=NAME, target_entry_id="e-12", mode=RewindMode.BOTH)
        gone_on = (await imported(node, tmp_path))[NAME]
        assert (gone_on.status, gone_on.has_gone_on, gone_on.difference_count) == ("there", True, 0)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
).filter(lambda value: not isinstance(value, float) or abs(value) != float("inf"))
FINITE = JSON.filter(lambda value: "Infinity" not in json.dumps(value))
WRITES = st.lists(
    st.tuples(st.just("context_update"), st.fixed_dictionaries({"key": st.sampled_from("ab"), "value": FINITE}))
    | st.tuples(st.just("state_transition"), st.fixed_dictionaries({"to_state": st.sampled_from(["running", ""])}))
    | st.tuples(st.just("checkpoint"), st.fixed_dictionaries({"context_state": st.just({"a": 1})}))
    | st.tuples(st.just("tool_result"), st.dictionaries(st.text(max_size=3), FINITE, max_size=2)),
    min_size=1, max_size=20,
)  # fmt: skip


@settings(max_examples=25, deadline=None, derandomize=True)
@given(WRITES, st.integers(0, 20))
async def test_random_journals_are_imported_as_they_are(writes: Any, first: int) -> None:
    """In one import, or in two with a part of the entries written between them."""
    with tempfile.TemporaryDirectory() as folder:
        files = FileJournal(folder)
        async with Node.in_memory() as node:
            for number, (kind, data) in enumerate(writes):
                if kind == "checkpoint":
                    await files.checkpoint("p", {**data, "number": number})
                else:
                    await files.append(entry(number, kind, "p", **data))
                if number == first:
                    assert (await imported(node, Path(folder)))["p"].status == "imported"
            report = (await imported(node, Path(folder)))["p"]
            assert (report.status in ("imported", "there"), report.difference_count) == (True, 0)
            await read_alike(Path(folder), node, "p")


async def test_a_checkpoint_whose_entry_is_missing_is_completed(tmp_path: Path) -> None:
    """A program was killed between the file and the line: the journal has both, and later entries follow it."""
    files = FileJournal(str(tmp_path))
    await worked(files, "p", rounds=1)
    newest = {"context_state": {"done": ["new"], "note 0": {"é": None}}, "lifecycle_state": "suspended"}
    (tmp_path / "p.checkpoint.json").write_text(json.dumps(newest))
    async with Node.in_memory() as node:
        report = (await imported(node, tmp_path))["p"]
        assert (report.status, report.counts["entries"]) == ("imported", 6), report.differences
        assert (await imported(node, tmp_path))["p"].status == "there"
        recovered = await SeekpointJournal(node).recover("p")
        assert (recovered["lifecycle_state"], recovered["context_state"]["done"]) == ("suspended", ["new"])
        await worked(files, "p", begin=100, rounds=1)
        report = (await imported(node, tmp_path))["p"]
        assert (report.status, report.new["entries"]) == ("imported", 5), report.error
        assert (await SeekpointJournal(node).recover("p"))["context_state"]["done"] == [100]


async def test_a_checkpoint_that_is_as_an_older_one_is_completed(tmp_path: Path) -> None:
    """A rewind was killed between the file and the line: the newest checkpoint is the file's, not the last line's."""
    files = FileJournal(str(tmp_path))
    for number in (1, 2):
        await files.checkpoint("p", {"context_state": {"number": number}})
    (tmp_path / "p.checkpoint.json").write_text(json.dumps({"context_state": {"number": 1}}))
    async with Node.in_memory() as node:
        report = (await imported(node, tmp_path))["p"]
        assert (report.status, report.counts["entries"]) == ("imported", 3), report.differences
        assert (await SeekpointJournal(node).recover("p"))["context_state"] == {"number": 1}


@pytest.mark.parametrize("place", ["between the files", "before the comparison"])
async def test_a_journal_is_imported_while_its_process_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """What is read is as of one moment: what is written meanwhile is no difference, and the next import has it."""
    files = FileJournal(str(tmp_path))
    await worked(files, "p", rounds=1)
    with monkeypatch.context() as patched:
        name = "_checkpoint" if place == "between the files" else "_recovered"
        original, began = getattr(PromptiseSource, name), False

        def write() -> None:
            nonlocal began
            began = True
            asyncio.run(worked(files, "p", begin=100, rounds=1))

        def checkpoint(self: PromptiseSource, one_id: str) -> Any:
            found = original(self, one_id)
            if not began:
                write()
            return found

        async def recovered(self: PromptiseSource, one_id: str) -> Any:
            await asyncio.to_thread(write)
            return await original(self, one_id)

        patched.setattr(PromptiseSource, name, checkpoint if place == "between the files" else recovered)
        async with Node.in_memory() as node:
            report = (await imported(node, tmp_path))["p"]
            assert (report.status, list(report.differences)) == ("imported", [])
            assert began
            patched.undo()
            assert not (await imported(node, tmp_path))["p"].differences
            await read_alike(tmp_path, node, "p")


@pytest.mark.parametrize(
    "line",
    [
        b'{"process_id": "p", "timestamp": "2026-01-01T00:00:00", "entry_type": "context_update", "data": {"key": 5}}',
        b'{"process_id": 5, "timestamp": "2026-01-01T00:00:00", "entry_type": "e", "data": {}}',
        b'{"process_id": "p", "timestamp": "2026-01-01T00:00:00", "entry_type": null, "data": {}}',
        b"\xff", b'{"a":' + b"[" * 100_000,
    ],
    ids=["key", "process", "type", "bytes", "depth"],
)  # fmt: skip
async def test_a_line_that_cannot_be_kept_is_refused_and_the_others_go_on(tmp_path: Path, line: bytes) -> None:
    """With its number."""
    await worked(FileJournal(str(tmp_path)), "good", rounds=1)
    (tmp_path / "p.jsonl").write_bytes(b"\n" + line + b"\n")
    async with Node.in_memory() as node:
        reports = await imported(node, tmp_path)
        assert {name: one.status for name, one in reports.items()} == {"good": "imported", "p": "refused"}
        assert "line 2 " in str(reports["p"].error)


async def test_torn_lines_are_counted_and_left_out(tmp_path: Path) -> None:
    """As ``FileJournal`` leaves them out: the last line of a program that was killed."""
    await worked(FileJournal(str(tmp_path)), "p", rounds=1)
    with (tmp_path / "p.jsonl").open("a") as file:
        file.write('{"entry_id": "x", "proc')
    async with Node.in_memory() as node:
        report = (await imported(node, tmp_path))["p"]
        assert (report.status, report.counts["malformed_lines"]) == ("imported", 1)
        assert await read_alike(tmp_path, node, "p") == 5


async def test_what_cannot_be_imported_is_refused(tmp_path: Path) -> None:
    """Another history, two processes in one file, an id twice, no entry: the error names file and line."""
    files = FileJournal(str(tmp_path))
    for name in ("changed", "twice", "broken", "good", "a/b"):
        await worked(files, name, rounds=1)
    await files.append(entry(50, "tool_call", "a_b"))
    await files.append(entry(1, "tool_call", "twice"))
    async with Node.in_memory() as node:
        await imported(node, tmp_path, "changed")
        path = tmp_path / "changed.jsonl"
        path.write_text(path.read_text().replace('"note 0"', '"note 1"'))
        broken = tmp_path / "broken.jsonl"
        broken.write_text(broken.read_text() + '{"timestamp": "yesterday"}\n')
        reports = await imported(node, tmp_path)
        assert {name: one.status for name, one in reports.items()} == {
            "changed": "refused", "twice": "refused", "broken": "refused", "good": "imported", "a/b": "refused",
        }  # fmt: skip
        words = {"changed": "number 5 on", "twice": "the id e-1", "broken": "line 6", "a/b": "a/b and a_b (line 6)"}
        assert all(text in str(reports[name].error) for name, text in words.items())
    with pytest.raises(Refused, match="no such folder"):
        open_source("promptise", str(tmp_path / "none"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(Refused, match="no journals of Promptise"):
        open_source("promptise", str(tmp_path / "empty"))


@pytest.mark.long  # each program that imports Promptise takes some seconds for that
async def test_a_killed_import_of_journals_is_repeated(tmp_path: Path) -> None:
    """No entry is lost, and none is there twice."""
    files = FileJournal(str(tmp_path / "files"))
    for name in ("one", "two"):
        await worked(files, name, rounds=1)
        for number in range(20, 1_500):
            await files.append(entry(number, "tool_result", name, result="x" * 200))
    run = import_with_kills(["--from", "promptise", str(tmp_path / "files")], tmp_path / "journal.db", kills=1, seed=1)
    assert {one["status"] for one in run.report["imported"]} <= {"imported", "there"}
    async with Node.local(tmp_path / "journal.db") as node:
        assert [await read_alike(tmp_path / "files", node, name) for name in ("one", "two")] == [1_485, 1_485]
    assert run.kills == 1


async def test_a_dry_run_of_journals_writes_nothing(tmp_path: Path) -> None:
    """It counts what is new."""
    await worked(FileJournal(str(tmp_path)), "p")
    log = MemoryLog()
    async with Node.in_memory(log) as node:
        planned = (await imported(node, tmp_path, dry_run=True))["p"]
        assert (planned.status, planned.new["entries"]) == ("planned", 15)
        assert sum(log.watermarks(partition).high for partition in range(log.partitions)) == 0
        assert planned == (await imported(None, tmp_path, dry_run=True))["p"]


async def test_the_comparison_of_journals_finds_differences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry that the journal returns otherwise, and another checkpoint: each is named."""
    await worked(FileJournal(str(tmp_path)), "p", rounds=1)
    async with Node.in_memory() as node:
        await imported(node, tmp_path)
        reading = SeekpointJournal.read

        async def other(self: SeekpointJournal, process_id: str, **how: Any) -> list[JournalEntry]:
            return [*(await reading(self, process_id, **how))[:3]]

        async def none(*_: Any) -> None:
            return None

        monkeypatch.setattr(SeekpointJournal, "read", other)
        monkeypatch.setattr(SeekpointJournal, "_append", none)
        monkeypatch.setattr(SeekpointJournal, "last_checkpoint", none)
        report = (await imported(node, tmp_path))["p"]
        assert report.status == "differs"
        assert "entry 4 (" in report.differences[0]
        assert "another newest checkpoint" in report.differences
