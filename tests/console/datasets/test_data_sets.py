"""``seekpoint export --dataset``: calls of every kind as rows, masked or not. On a log in memory."""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from console_on_memory import ask, chatter, on
from seekpoint.producers import Node, Process, agent
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.log.partition import partition_of
from shells import Shell

EVERYTHING_MASKED = """
key_file = "key"
unknown = "drop"

[[mask]]
do = "hash"
kinds = ["step_started", "step_ended", "decision_started", "decision_made", "effect_intended", "effect_settled",
    "sampled", "timer_set", "timer_fired", "gate_opened", "gate_resolved", "child_spawned", "child_ended", "received",
    "signal"]
"""


@agent("helper")
async def helper(process: Process, input: Any) -> Any:
    return input


@agent("all_kinds")
async def all_kinds(process: Process, input: Any) -> Any:
    """Make a call of each kind, two of them at once."""
    await asyncio.gather(process.step("left", str.upper, "secret-a"), process.step("right", str.upper, "secret-b"))
    await process.decide("ask", ask, {"model": "m", "messages": [{"role": "user", "content": "secret-q"}]})
    await process.effect("pay", str.lower, "SECRET-PAY")
    await process.now()
    await process.sleep(timedelta(milliseconds=1))
    await process.gate("sure?")
    await process.receive("news")
    return await process.spawn(helper, f"{process.process_id}-child", "secret-c").result()


def run_all_kinds(log: MemoryLog, *process_ids: str) -> None:
    async def work(node: Node) -> None:
        for process_id in process_ids:
            await node.approve(process_id, "sure?", in_advance=True)
            await node.signal(process_id, "news", "secret-n")
            await node.run(all_kinds, process_id)

    on(log, work)


def read(file: str = "d.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(file).read_text().splitlines()]


KINDS = ["step", "step", "decision", "effect", "sample", "timer", "gate", "receive", "child"]


def test_a_data_set_has_a_row_for_each_call_of_each_kind(seekpoint: Shell, log: MemoryLog) -> None:
    """With the same columns in all rows."""
    run_all_kinds(log, "p")
    assert seekpoint("export", "--dataset", "d.jsonl", "p", "--json").json["calls"] == 9
    rows = read()
    assert [row["kind"] for row in rows] == KINDS
    assert len({tuple(row) for row in rows}) == 1
    left, _, decision, effect, *_ = rows
    assert (left["process"], left["key"], left["request"], left["response"]) == (
        "p",
        "left:1",
        ["secret-a"],
        "SECRET-A",
    )
    assert (decision["model"], decision["cost_usd"], decision["response"]["content"]) == ("m", "3", "yes")
    assert effect["facts"]["idempotency_key"]
    assert {row["status"] for row in rows} == {"succeeded", "approved"}, [row["status"] for row in rows]


def test_a_data_set_has_only_the_kinds_that_were_asked_for(seekpoint: Shell, log: MemoryLog) -> None:
    """An option for each; an unknown one is refused, with those that there are."""
    run_all_kinds(log, "p")
    assert seekpoint("export", "--dataset", "d.jsonl", "p", "--kind", "effect", "--kind", "decision").code == 0
    assert [row["kind"] for row in read()] == ["decision", "effect"]
    refused = seekpoint("export", "--dataset", "x.jsonl", "p", "--kind", "effects")
    assert (refused.code, "decision" in refused.err, Path("x.jsonl").exists()) == (2, True, False)
    assert seekpoint("export", "p", "p.spk", "--kind", "effect").code == 2


def test_masks_reach_every_row(seekpoint: Shell, log: MemoryLog) -> None:
    """With the rules of a staging replay: no value passes, equal values stay equal, and each call keeps its own end."""
    run_all_kinds(log, "p")
    Path("key").write_text("k" * 32)
    Path("masks.toml").write_text(EVERYTHING_MASKED)
    assert seekpoint("export", "--dataset", "d.jsonl", "p", "--masks", "masks.toml").code == 0
    rows = read()
    assert [row["kind"] for row in rows] == KINDS
    text = Path("d.jsonl").read_text().lower()
    assert "secret" not in text
    assert '"p"' not in text
    left, right = rows[:2]
    assert (left["status"], right["status"]) == ("succeeded", "succeeded")
    assert left["response"] != right["response"]
    assert seekpoint("export", "--dataset", "e.jsonl", "--all", "--masks", "masks.toml").code == 0
    assert [row for row in read("e.jsonl") if row["process"] == left["process"]] == rows


def test_calls_whose_keys_are_masked_alike_stay_apart(seekpoint: Shell, log: MemoryLog) -> None:
    """All keys read ***, and still the end of a call goes to the call that it ends."""
    run_all_kinds(log, "p")
    kinds = '["step_started", "step_ended"]'
    Path("masks.toml").write_text(f'unknown = "drop"\n[[mask]]\nkinds = {kinds}\npath = "key"\ndo = "redact"\n')
    run = seekpoint("export", "--dataset", "d.jsonl", "p", "--masks", "masks.toml", "--json")
    assert run.json["dropped"]["dropped: unknown kind"] > 0
    told = [(row["key"], row["request"], row["response"], row["status"]) for row in read()]
    assert told == [
        ("***", ["secret-a"], "SECRET-A", "succeeded"),
        ("***", ["secret-b"], "SECRET-B", "succeeded"),
    ]


def test_what_no_rule_covers_stops_the_data_set(seekpoint: Shell, log: MemoryLog) -> None:
    """Nothing is written: masks are closed by default."""
    run_all_kinds(log, "p")
    Path("masks.toml").write_text('[[mask]]\nkinds = ["step_started"]\ndo = "redact"\n')
    for file in ("d.jsonl", "d.parquet"):
        refused = seekpoint("export", "--dataset", file, "p", "--masks", "masks.toml")
        assert (refused.code, "no mask rule covers" in refused.err) == (4, True)
        assert not list(Path().glob(f"{file}*"))


def test_a_parquet_file_has_the_same_rows(seekpoint: Shell, log: MemoryLog) -> None:
    """JSON values are JSON text there, so that each column has one type."""
    run_all_kinds(log, "p", "q")
    for file in ("d.jsonl", "d.parquet"):
        assert seekpoint("export", "--dataset", file, "--all").code == 0
    found = parquet.read_table("d.parquet").to_pylist()
    for row in found:
        row |= {
            name: None if row[name] is None else json.loads(row[name])
            for name in ("request", "response", "error", "usage", "facts")
        }
    assert found == read()
    assert len({row["process"] for row in found}) > 1


def test_a_parquet_file_of_many_rows_has_all_of_them(
    seekpoint: Shell, log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are written in groups, the last one too."""
    monkeypatch.setattr("seekpoint.console.datasets.row_files._ROWS_AT_ONCE", 4)
    run_all_kinds(log, "p")
    assert seekpoint("export", "--dataset", "d.parquet", "p").code == 0
    assert [row["kind"] for row in parquet.read_table("d.parquet").to_pylist()] == KINDS


def test_a_parquet_file_needs_its_package(seekpoint: Shell, log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names what to install."""
    run_all_kinds(log, "p")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    refused = seekpoint("export", "--dataset", "d.parquet", "p")
    assert (refused.code, "pip install 'seekpoint[parquet]'" in refused.err) == (2, True), refused
    assert not list(Path().glob("d.parquet*"))


def test_stdout_has_json_lines_and_nothing_else(seekpoint: Shell, log: MemoryLog) -> None:
    """So that another program can follow; what was done is said on stderr."""
    on(log, lambda node: node.run(chatter(), "p"))
    ran = seekpoint("export", "--dataset", "-", "p")
    assert (ran.code, ran.err) == (0, "8 calls in stdout\n")
    assert [json.loads(line)["key"] for line in ran.out.splitlines()][-1] == "2/pay:1"
    assert seekpoint("export", "--dataset", "-", "p", "--json").code == 2


def test_a_process_without_its_beginning_is_left_out_of_all(seekpoint: Shell, log: MemoryLog) -> None:
    """With a warning; the others are exported."""
    run_all_kinds(log, "p", "q")
    log.trim(partition_of(b"p", 2), 3)
    ran = seekpoint("export", "--dataset", "d.jsonl", "--all")
    assert (ran.code, "p is left out: the beginning of the history is gone" in ran.err) == (0, True), ran.err
    assert "q" in {row["process"] for row in read()} - {"p"}
