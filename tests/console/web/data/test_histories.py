"""What the console keeps of the histories of processes. On a log in a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from consoles import file_settings, work_on
from entry_examples import an_id, claim, own
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.web.data import entry_index
from seekpoint.console.web.data.histories import Histories, ProcessHistory
from seekpoint.producers import HistoryPoint, Node, Process, agent
from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.settings import Settings
from written_journals import CASE_BEGAN_US, a_case, many_steps, write_entries


@pytest.fixture
def journal(tmp_path: Path) -> Settings:
    """A journal without entries."""
    return file_settings(tmp_path)


@pytest.fixture
def target(journal: Settings) -> Iterator[CommandTarget]:
    """The journal as a command has it."""
    with closing(CommandTarget(None, None, None, f"sqlite:///{journal.sqlite_path}")) as found:
        yield found


def test_those_not_looked_at_go_first(journal: Settings, target: CommandTarget) -> None:
    """When all take too many bytes. The one that is looked at stays, however large it is."""
    write_entries(journal, [entry for name in "abc" for entry in many_steps(name, 100)])
    alone = Histories(target).of("a")
    alone.read()
    histories = Histories(target, bytes_max=alone.bytes * 5 // 2)
    first: dict[str, ProcessHistory] = {}
    for name in ("a", "b", "a", "c"):
        first.setdefault(name, one := histories.of(name))
        one.read()
    assert histories.bytes > alone.bytes * 5 // 2
    assert histories.of("c") is first["c"]
    assert histories.bytes == alone.bytes * 2
    assert histories.of("a") is first["a"]
    assert histories.of("b") is not first["b"]
    tiny = Histories(target, bytes_max=1)
    tiny.of("a").read()
    assert tiny.of("a").calls_read == 49


def test_long_values_are_read_again(journal: Settings, target: CommandTarget) -> None:
    """A call keeps the beginning of a value of 1 MiB, and shows the whole value when somebody asks."""
    large = "x" * 1_000_000
    step = [
        b.StepStarted("big:1", 1, "big", "1" * 32, f'["{large}"]', 1, "", CASE_BEGAN_US),
        b.StepEnded("big:1", 1, "retry", "null", None, CASE_BEGAN_US + 20, CASE_BEGAN_US + 10, 10),
        b.StepStarted("big:1", 1, "big", "1" * 32, f'["{large}"]', 2, "", CASE_BEGAN_US + 20),
        b.StepEnded("big:1", 2, "succeeded", f'{{"answer":"{large}"}}', None, None, CASE_BEGAN_US + 30, 10),
    ]
    entries = [claim(1), own(1, b.AgentStarted("long", "1", "d" * 32, "null"))]
    entries += [own(seq, body)._replace(id=an_id(100 + seq)) for seq, body in enumerate(step, 2)]
    filler = [own(seq, b.ContextUpdated("a", str(seq)))._replace(id=an_id(100 + seq)) for seq in range(6, 700)]
    write_entries(journal, [one._replace(process_id="large", ts=CASE_BEGAN_US) for one in [*entries, *filler]])
    history = Histories(target).of("large")
    history.read()
    [call] = history.calls()
    assert history.bytes < len(large)
    assert str(call.input).startswith('["xxx')
    assert len(str(call.output)) < 1_000
    whole = history.whole_call(0)
    assert (whole.input, whole.output) == ([large], {"answer": large})
    assert [one.outcome for one in whole.attempts] == ["retry", "succeeded"]


def test_the_calls_are_those_of_steps(journal: Settings, target: CommandTarget) -> None:
    """A history that is read in slices has the calls, costs and rows of one that is read at once."""
    from seekpoint.console.services.histories.process_scan import entries_of
    from seekpoint.console.web.data.timeline import timeline_of
    from seekpoint.producers.durable.replay.call_records import total_cost
    from seekpoint.producers.history.inherited_calls import calls_of

    write_entries(journal, a_case())
    history = Histories(target).of("case-17")
    while not history.read_on(0):
        pass
    expected = calls_of(lambda name: entries_of(target, name), "case-17", target.log.limits)
    assert [one.to_dict() for one in history.calls()] == [one.to_dict() for one in expected]
    assert history.cost_usd == total_cost(expected)
    assert history.timeline() == timeline_of(expected, history.index.marks)
    told = history.summary()
    assert told is not None
    assert (told.process_id, told.epoch) == ("case-17", 2)


@agent("clerk")
async def clerk(process: Process, order: str) -> str:
    """Three steps and a message."""
    price = await process.step("price", len, order)
    await process.say("user", f"Where is {order}?")
    await process.step("double", int.__mul__, price, 2)
    return await process.step("answer", str, price)


async def _forked_and_promoted(node: Node) -> None:
    """A fork before the second step that goes on and is promoted, a fork of it, and a rewind of the parent."""
    await node.run(clerk, "parent", "order-17")
    async with node.open("other") as process:
        await process.update("a", 1)
    async with node.fork("parent", "fork", at=HistoryPoint.before("double:1")):
        pass
    await node.run(clerk, "fork")
    async with node.fork("parent", "unfinished", at=HistoryPoint.before("answer:1")):
        pass
    async with node.fork("unfinished", "second"):
        pass
    async with node.open("second") as process:
        await process.update("answer", 42)
    await node.run(clerk, "second")
    await node.promote("second")
    async with node.open("other") as process:
        await process.update("a", 2)
        await process.rewind(1)


@pytest.mark.parametrize("process_id", ["parent", "fork", "unfinished", "second", "other"])
def test_forks_and_promotions_are_as_in_one_read(
    journal: Settings, target: CommandTarget, process_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever slice their entries are in, calls and rows are those of ``seekpoint steps``."""
    from seekpoint.console.services.histories.process_scan import entries_of
    from seekpoint.console.web.data.timeline import timeline_of
    from seekpoint.producers.history.inherited_calls import calls_of

    work_on(journal, _forked_and_promoted)
    monkeypatch.setattr(entry_index, "_SLICE_ENTRIES", 1)
    history, at_once = Histories(target).of(process_id), Histories(target).of(process_id)
    slices = 1
    while not history.read_on(0):
        slices += 1
    at_once.read()
    assert slices > 3
    expected = calls_of(lambda name: entries_of(target, name), process_id, target.log.limits)
    assert [one.to_dict() for one in history.calls()] == [one.to_dict() for one in expected]
    assert len(expected) == {"parent": 3, "fork": 3, "unfinished": 3, "second": 3, "other": 0}[process_id]
    assert history.timeline() == timeline_of(expected, history.index.marks) == at_once.timeline()
    assert (history.index.marks, history.story) == (at_once.index.marks, at_once.story)
    assert history.summary() == at_once.summary()
