"""``seekpoint replay-check`` of many processes: those of a journal, and those of a capture. On a log in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from console_on_memory import on
from replay_topics import journal, prod
from seekpoint.console.services.histories import replay_checks
from seekpoint.consumers.staging.capture.capture_target import CaptureTarget
from seekpoint.consumers.staging.staging_replay import Replay
from seekpoint.producers import Agent, Process, agent, check_replay
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import SeekpointError
from shells import Shell

CODE = """
from seekpoint.producers import agent


def never(order):
    raise AssertionError("a check runs nothing")


@agent("refund", 2, pinned=PINNED)
async def refund(process, order):
    paid = await process.step("pay", never, CHANGED)
    return await process.gate("go") if order > 2 else paid


@agent("other")
async def other(process, order):
    return await process.step("other", never, order)
"""


Write = Callable[..., None]


@pytest.fixture
def write_code(write_module: Callable[[str, str], None]) -> Write:
    """``write_code("shop", "-order")``: the code of a new version, with that argument of its step."""

    def write(name: str, changed: str, *, pinned: bool = False) -> None:
        write_module(name, CODE.replace("CHANGED", changed).replace("PINNED", str(pinned)))

    return write


def capture(log: MemoryLog, file: Path) -> None:
    """Write a capture with all records of the log."""
    source = journal(prod(1), 1)
    for batch in log.read(0, 0, log.watermarks(0).high):
        for one in batch.records:
            assert one.key is not None
            assert one.value is not None
            source.append(0, one.key, one.value)
    with Replay(source, CaptureTarget(file, source.facts())) as capturing:
        capturing.run()


def refund(pinned: bool = False) -> Agent:
    """What production ran: runs 1 and 2 finish, the later ones wait."""

    @agent("refund", 1, pinned=pinned)
    async def run(process: Process, order: int) -> Any:
        paid = await process.step("pay", lambda order: order, order)
        return await process.gate("go") if order > 2 else paid

    return run


def run_orders(log: MemoryLog, code: Agent, count: int = 5, name: str = "case") -> None:
    async def some(node: Any) -> None:
        runs = [asyncio.ensure_future(node.run(code, f"{name}-{order}", order)) for order in range(1, count + 1)]
        while True:
            states = [(await node.recover(f"{name}-{order}", missing_ok=True)).state for order in range(1, count + 1)]
            if all(state.finished or state.waits_for for state in states):
                break
            await asyncio.sleep(0.01)
        for run in runs:
            run.cancel()
        await asyncio.gather(*runs, return_exceptions=True)

    on(log, some)


def outcomes(found: Any) -> dict[str, str]:
    return {one["process_id"]: one["outcome"] for one in found.json["processes"]}


def test_all_runs_of_a_journal_are_checked(seekpoint: Shell, log: MemoryLog, write_code: Write) -> None:
    """One report for all; 1 if the code of any differs; nothing is run and nothing is written."""
    run_orders(log, refund())
    write_code("same", "order")
    write_code("shop", "order if order < 4 else -order")
    ends = [log.watermarks(partition) for partition in range(log.partitions)]
    same = seekpoint("replay-check", "--all", "-m", "same")
    assert (same.code, same.out) == (0, "")
    assert "5 runs: 5 the same" in same.err
    found = seekpoint("replay-check", "--all", "-m", "shop")
    assert found.code == 1
    assert "5 runs: 3 the same, 2 different" in found.err
    rows = [line.split() for line in found.out.splitlines()[1:]]
    assert sorted(row[:4] for row in rows) == [
        ["case-4", "refund", "differs", "pay:1"], ["case-5", "refund", "differs", "pay:1"]
    ]  # fmt: skip
    assert "$.arguments[0]: 4 is now -4" in found.out
    data = seekpoint("replay-check", "--all", "-m", "shop", "--json")
    assert data.code == 1
    assert outcomes(data) == {f"case-{order}": "same" if order < 4 else "differs" for order in range(1, 6)}
    assert (data.json["differs"], data.json["same"], data.json["unchecked"]) == (2, 3, 0)
    divergences = [one["check"]["divergence"] for one in data.json["processes"] if one["outcome"] == "differs"]
    assert [one["key"] for one in divergences] == ["pay:1", "pay:1"]
    assert [log.watermarks(partition) for partition in range(log.partitions)] == ends


def test_runs_are_selected(seekpoint: Shell, log: MemoryLog, write_code: Write) -> None:
    """Unfinished ones, those of one agent, at most so many; a process of another program's agent is left out."""
    run_orders(log, refund())

    @agent("elsewhere")
    async def elsewhere(process: Process, order: int) -> int:
        return order

    @agent("other")
    async def other(process: Process, order: int) -> Any:
        return await process.step("other", lambda order: order, order)

    on(log, lambda node: node.run(elsewhere, "far-1", 1))
    on(log, lambda node: node.run(other, "other-1", 1))
    write_code("shop", "order")
    journal = ("replay-check", "--all", "-m", "shop", "--json")
    assert outcomes(seekpoint(*journal)).keys() == {*(f"case-{order}" for order in range(1, 6)), "other-1"}
    assert outcomes(seekpoint(*journal, "--open")).keys() == {"case-3", "case-4", "case-5"}
    assert outcomes(seekpoint(*journal, "--agent", "other")).keys() == {"other-1"}
    assert len(outcomes(seekpoint(*journal, "--open", "--limit", "2"))) == 2
    assert outcomes(seekpoint(*journal, "--since", "1h")).keys() == outcomes(seekpoint(*journal)).keys()
    assert outcomes(seekpoint("replay-check", "--all", "--agent", "shop:refund", "--open", "--json"))
    opened = ("replay-check", "--open", "-m", "shop", "--json")
    assert outcomes(seekpoint(*opened)).keys() == {"case-3", "case-4", "case-5"}
    none = seekpoint("replay-check", "--all", "--agent", "other", "-m", "shop", "--open")
    assert (none.code, none.out) == (0, "")
    assert "no run of these agents" in none.err


def test_a_pinned_run_is_not_held_against_other_code(seekpoint: Shell, log: MemoryLog, write_code: Write) -> None:
    """Workers with the other code leave it alone; the report says so."""
    run_orders(log, refund(pinned=True))
    write_code("shop", "-order", pinned=True)
    found = seekpoint("replay-check", "--all", "--open", "-m", "shop")
    assert (found.code, "3 runs: 3 pinned to other code" in found.err) == (0, True)


def test_each_partition_is_read_once_for_many_runs(
    seekpoint: Shell, log: MemoryLog, write_code: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no more than some histories are in memory at once."""
    run_orders(log, refund(), 12)
    write_code("shop", "order")
    reads: list[tuple[int, int]] = []
    read = MemoryLog.read

    def counted(self: MemoryLog, partition: int, start: int, stop: int, keys: Any = None) -> Any:
        if keys is not None:
            reads.append((partition, len(keys)))
        return read(self, partition, start, stop, keys)

    monkeypatch.setattr(MemoryLog, "read", counted)
    assert len(outcomes(seekpoint("replay-check", "--all", "-m", "shop", "--json"))) == 12
    assert sum(count for _, count in reads) == 12
    assert len({partition for partition, _ in reads}) == len(reads)
    reads.clear()
    monkeypatch.setattr(replay_checks, "_HISTORIES_MAX", 1)
    assert len(outcomes(seekpoint("replay-check", "--all", "-m", "shop", "--json"))) == 12
    assert [count for _, count in reads] == [1] * 12


def test_a_run_that_cannot_be_checked_is_told(
    seekpoint: Shell, log: MemoryLog, write_code: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is neither the same nor different."""
    run_orders(log, refund())
    write_code("shop", "order")

    async def refused(agent: Agent, history: Any, **options: Any) -> Any:
        if history[0].entry.process_id == "case-3":
            raise SeekpointError("the beginning of the history is gone")
        return await check_replay(agent, history, **options)

    monkeypatch.setattr(replay_checks, "check_replay", refused)
    found = seekpoint("replay-check", "--all", "-m", "shop")
    assert (found.code, "4 the same, 1 not checked" in found.err) == (0, True)
    assert found.out.splitlines()[1].split(maxsplit=3) == [
        "case-3", "refund", "unchecked", "the beginning of the history is gone"
    ]  # fmt: skip


def test_a_capture_of_many_processes_is_checked(
    seekpoint: Shell, write_code: Write, move_to: Callable[[MemoryLog], None]
) -> None:
    """As the journal is, and without one."""
    small = MemoryLog(partitions=1)
    run_orders(small, refund())
    capture(small, Path("many.spk"))
    move_to(MemoryLog(partitions=1))
    write_code("shop", "order if order != 2 else -2")
    found = seekpoint("replay-check", "--history", "many.spk", "-m", "shop", "--json")
    assert found.code == 1
    assert outcomes(found) == {f"case-{order}": "differs" if order == 2 else "same" for order in range(1, 6)}
    assert (
        len(outcomes(seekpoint("replay-check", "--history", "many.spk", "-m", "shop", "--limit", "3", "--json"))) == 3
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("--all",),
        ("--all", "case-1", "-m", "shop"),
        ("--all", "-m", "shop", "--agent", "nobody"),
        ("--all", "-m", "nowhere"),
        ("case-1", "-m", "shop", "--open"),
        ("case-1", "-m", "shop", "--since", "1h"),
        ("-m", "shop"),
    ],
)
def test_mistakes_in_the_arguments_are_told(seekpoint: Shell, write_code: Write, arguments: tuple[str, ...]) -> None:
    """Before anything is read."""
    write_code("shop", "order")
    assert seekpoint("replay-check", *arguments).code == 2


def test_the_agent_of_one_process_is_found_in_a_module(seekpoint: Shell, log: MemoryLog, write_code: Write) -> None:
    """Which has several; a process of none of them is refused."""
    run_orders(log, refund(), 1)
    write_code("shop", "order")
    assert seekpoint("replay-check", "case-1", "-m", "shop").code == 0

    @agent("elsewhere")
    async def elsewhere(process: Process, order: int) -> int:
        return order

    on(log, lambda node: node.run(elsewhere, "far-1", 1))
    refused = seekpoint("replay-check", "far-1", "-m", "shop")
    assert (refused.code, "none of these agents began the process" in refused.err) == (4, True)
