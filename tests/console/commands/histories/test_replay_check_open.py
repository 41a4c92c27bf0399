"""``seekpoint replay-check --open``: what has to go on with new code."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from console_on_memory import on
from kafka_checkpoints import project, save
from owners import Owner
from seekpoint.console.services.arguments.process_query import ProcessQuery
from seekpoint.console.services.histories.replay_checks import check_journal
from seekpoint.consumers.checkpoints.memory_checkpoints import MemoryCheckpoints
from seekpoint.consumers.kafka.kafka_reader import KafkaReader
from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.consumers.view.memory_view import MemoryView
from seekpoint.consumers.view.view_store import Pointer
from seekpoint.producers import Agent, Node, Process, agent
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.log.log_ports import LogReader
from shells import Ran, Shell

CODE = """
import asyncio
from pathlib import Path
from seekpoint.producers import agent


def touch(name):
    Path("touched").touch()


@agent("refund", 2)
async def refund(process, order):
    await process.step("look up", touch, "LARGE" if order == "large" else order)
    await process.gate("approve")
    await process.step("pay", touch, order)


@agent("mail", 1, pinned=True)
async def mail(process, order):
    await process.step("send", touch, order)
    await process.gate("again")


@agent("slow", 1)
async def slow(process, order):
    await process.step("wait", touch, order)
    await asyncio.sleep(3600)
"""


def touch(name: Any) -> None:
    """Do nothing; the new code does something."""


@agent("refund", 1)
async def refund(process: Process, order: Any) -> None:
    await process.step("look up", touch, order)
    await process.gate("approve")


@agent("refund", 1)
async def short(process: Process, order: Any) -> None:
    await process.step("look up", touch, order)


@agent("mail", 1, pinned=True)
async def mail(process: Process, order: Any) -> None:
    await process.step("send", touch, order)
    await process.gate("again")
    await process.step("send", touch, "another definition")


@agent("slow", 1)
async def slow(process: Process, order: Any) -> None:
    await process.step("wait", touch, order)
    await process.gate("go on")


@agent("other", 1)
async def other(process: Process, order: Any) -> None:
    await process.gate("stay")


async def leave(node: Node, which: Agent, process_id: str, order: Any = None) -> None:
    """Run it until it waits for a person, and leave it so."""
    run = asyncio.create_task(node.run(which, process_id, order))
    async with asyncio.timeout(60):
        while not (await node.recover(process_id, missing_ok=True)).state.open_calls:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    run.cancel()
    await asyncio.wait([run])


async def fill(node: Node) -> None:
    """Runs that agree, one that diverges, one of another definition, one that does not end; ended and unknown ones."""
    for number in range(3):
        await leave(node, refund, f"case-{number}", "small")
    await leave(node, refund, "case-3", "large")
    await leave(node, mail, "mail-1", "hello")
    await leave(node, slow, "slow-1", 1)
    await leave(node, other, "other-1")
    await node.run(short, "case-done", "large")
    await leave(node, refund, "case-cancelled", "large")
    await node.cancel("case-cancelled")
    with pytest.raises(Exception, match="asked to stop"):
        await node.run(refund, "case-cancelled", "large")


WANTED = {
    "case-3": "differs",
    "mail-1": "pinned",
    "slow-1": "unchecked",
    "case-0": "same",
    "case-1": "same",
    "case-2": "same",
}
CHECK = ("replay-check", "--open", "-m", "shop", "--timeout", "2")


def end_of(log: LogReader) -> list[int]:
    return [log.watermarks(partition).high for partition in range(log.partitions)]


def check_report(found: Ran) -> None:
    """The report in JSON says what became of each, and where it first differs."""
    assert found.code == 1, found.err
    runs = {one["process_id"]: one for one in found.json["processes"]}
    assert {name: one["outcome"] for name, one in runs.items()} == WANTED
    assert [found.json[name] for name in ("differs", "pinned", "unchecked", "same")] == [1, 1, 1, 3]
    divergence = runs["case-3"]["check"]["divergence"]
    assert (divergence["key"], divergence["kind"]) == ("look up:1", "input")
    assert divergence["difference"] == '$.arguments[0]: "large" is now "LARGE"'
    assert runs["slow-1"]["why"] == "the code did not reach the end of the history in 2 s"
    assert not Path("touched").exists()


def test_all_open_runs_are_checked(seekpoint: Shell, log: MemoryLog, write_module: Callable[[str, str], None]) -> None:
    """Ended and cancelled runs and those of other agents are left out; nothing is executed, nothing is written."""
    write_module("shop", CODE)
    on(log, fill)
    end = end_of(log)
    found = seekpoint(*CHECK, "--json")
    check_report(found)
    assert "reading checkpoints and the log: the settings name no Redis" in found.err
    assert end_of(log) == end


def test_the_agents_and_the_number_of_runs_can_be_chosen(
    seekpoint: Shell, log: MemoryLog, write_module: Callable[[str, str], None]
) -> None:
    """By the names of a module's agents, or by the import path of one; without a difference it exits with 0."""
    write_module("shop", CODE)
    on(log, fill)
    for chosen in (("--agent", "mail", "-m", "shop"), ("--agent", "shop:mail")):
        found = seekpoint("replay-check", "--open", *chosen, "--json")
        assert (found.code, [one["process_id"] for one in found.json["processes"]]) == (0, ["mail-1"])
    found = seekpoint("replay-check", "--open", "--agent", "shop:refund", "--limit", "2", "--json")
    assert len(found.json["processes"]) == 2


def test_a_degraded_run_is_not_checked(
    seekpoint: Shell, log: MemoryLog, write_module: Callable[[str, str], None]
) -> None:
    """No worker runs it. The others are checked."""
    write_module("shop", CODE)

    async def work(node: Node) -> None:
        for process_id in ("case-gap", "case-1"):
            await leave(node, refund, process_id, "small")
        owner, state = Owner(log.append, log.partitions, "case-gap"), (await node.recover("case-gap")).state
        owner.epoch, owner.seq = state.epoch, state.seq
        owner.claim("node-gone")
        owner.seq += 2
        owner.update("a", "1")

    on(log, work)
    found = seekpoint(*CHECK, "--json")
    reasons = {one["process_id"]: (one["outcome"], one["why"]) for one in found.json["processes"]}
    assert reasons == {"case-gap": ("unchecked", "degraded: gap"), "case-1": ("same", None)}
    assert found.code == 0


def test_a_run_whose_beginning_was_trimmed_is_not_checked() -> None:
    """Its first calls are not known. The others are checked, and nothing below the log's beginning is read."""
    log = MemoryLog(partitions=1)
    on(log, lambda node: leave(node, refund, "old", "small"))
    low = log.watermarks(0).high
    on(log, lambda node: leave(node, refund, "new", "small"))
    view = MemoryView(1)
    token = view.install(0, log.topic_id)
    states = Recoverer(log).recover_partition(0)
    view.put(0, token, {name.encode(): (one.state, Pointer(0, 0)) for name, one in states.items()})
    view.ready(0, token, log.watermarks(0).high - 1, -1)
    log.trim(0, low)
    target: Any = SimpleNamespace(
        log=log, recoverer=Recoverer(log, view=view), dead_letters=None, checkpoints=MemoryCheckpoints(1)
    )
    found = check_journal(target, {"refund": refund}, ProcessQuery(unfinished=True), None, "full", 60)
    assert {one.process_id: (one.outcome, one.why) for one in found} == {
        "old": ("unchecked", "the beginning of its history was trimmed"),
        "new": ("same", None),
    }


def test_only_the_part_of_the_log_with_open_runs_is_read(
    seekpoint: Shell, log: MemoryLog, write_module: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the first entry of the oldest one to the newest entry of any, by partition and a hundred at a time."""
    write_module("shop", CODE)

    async def work(node: Node) -> None:
        for number in range(8):
            await node.run(short, f"before-{number}", "small")
        for number in range(8):
            await leave(node, refund, f"open-{number}", "small")
        for number in range(8):
            await node.run(short, f"after-{number}", "small")

    on(log, work)
    reads: list[tuple[int, int, int]] = []
    read = MemoryLog.read

    def noted(self: MemoryLog, partition: int, start: int, stop: int, keys: Any = None) -> Any:
        if keys is not None:
            reads.append((partition, start, stop))
        return read(self, partition, start, stop, keys)

    monkeypatch.setattr(MemoryLog, "read", noted)
    assert seekpoint("replay-check", "--open", "--agent", "shop:refund", "--json").json["same"] == 8
    expected = []
    for partition in range(2):
        found = Recoverer(log).recover_partition(partition).items()
        states = [one.state for process_id, one in found if process_id.startswith("open-")]
        expected += [(partition, min(one.first_offset or 0 for one in states), max(one.offset for one in states) + 1)]
    assert reads[: len(expected)] == expected


@pytest.mark.cluster
def test_open_runs_of_a_real_journal_are_checked(
    shell: Shell, journal: Settings, point_at: Callable[[Settings], None], write_module: Callable[[str, str], None]
) -> None:
    """From the view without reading the whole journal, from checkpoints without Redis, and from a capture."""
    write_module("shop", CODE)

    async def work() -> None:
        async with Node.connect(journal) as node:
            for number in range(40):
                await node.run(short, f"done-{number}", "large")
            await fill(node)

    asyncio.run(work())
    reader = KafkaReader(journal)
    end = end_of(reader)
    point_at(journal)
    bare = shell(*CHECK, "--json")
    assert "reading checkpoints and the log: " in bare.err
    check_report(bare)
    save(journal)
    project(journal)
    by_view = shell(*CHECK, "--json")
    assert "reading checkpoints" not in by_view.err
    check_report(by_view)
    assert end_of(reader) == end
    reader.close()
    one_file(shell, journal)


def one_file(shell: Shell, journal: Settings) -> None:
    """A capture of the whole journal is checked as the journal is, with the runs that have ended."""
    Path("clusters.toml").write_text(f'[clusters.prod]\nbootstrap_servers = "{journal.bootstrap_servers}"\n')
    source = f"prod/{journal.journal}.journal"
    assert shell("replay", "--from", source, "--into", "all.spk", "--config", "clusters.toml").code == 0
    everything = shell("replay-check", "--history", "all.spk", *CHECK[2:], "--json")
    assert everything.json["differs"] == 1 + 41 + 1
    short_list = shell("replay-check", "--history", "all.spk", "--agent", "shop:mail", "--json")
    assert [one["process_id"] for one in short_list.json["processes"]] == ["mail-1"]
