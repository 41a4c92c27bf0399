"""How states, entries, audits and dead letters are shown: the pure part of the commands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from owners import Owner
from seekpoint.compose import TopicFinding
from seekpoint.console.commands.journal.dlq import place_of
from seekpoint.console.commands.processes.log import EntryFilter
from seekpoint.console.render.entry_lines import ENTRY_COLUMNS, entry_facts, entry_row
from seekpoint.console.render.states import (
    PROCESS_COLUMNS,
    process_facts,
    process_row,
    report_lines,
    state_facts,
    state_lines,
)
from seekpoint.console.render.tables import PrintedTable
from seekpoint.console.render.topic_findings import grouped
from seekpoint.console.services.facts.dead_letter_facts import hex_lines, letter_facts
from seekpoint.consumers import DeadLetter, Recovered, Recoverer
from seekpoint.consumers.recovery.process_history import Logged, history
from seekpoint.producers import Node, Process, agent
from seekpoint.schemas import MemoryLog, bodies
from seekpoint.schemas.bodies import BODIES, Custom, Signal
from seekpoint.schemas.bodies.entry import Entry, new_id
from seekpoint.schemas.folding.fold import Verdict, advance
from seekpoint.schemas.folds import UserFold, only
from seekpoint.schemas.state.process_state import Draft, new_state

NIL = bytes(16)


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog(partitions=4)


@pytest.fixture
def owner(log: MemoryLog) -> Owner:
    return Owner(log.append, log.partitions, "case-17")


def entry(body: bodies.Body, seq: int | None = 1) -> Entry:
    return Entry(NIL, "case-17", seq, 1, None, None, 0, None, None, None, body)


def shown(body: bodies.Body, verdict: Verdict | None = Verdict.APPLIED) -> str:
    """What the row of an entry says of it."""
    return str(entry_row(entry_facts(Logged(7, 0, entry(body)), 0, verdict))[-1])


# --- states -----------------------------------------------------------------------------------------------------------
def test_a_process_is_one_row(log: MemoryLog, owner: Owner) -> None:
    """Its owner, its epoch, where it is, and what is wrong with it."""
    owner.claim("node-a")
    owner.update("status", '"checking"')
    state = Recoverer(log).recover("case-17").state
    facts = {**process_facts("case-17", owner.partition, state), "updated": datetime.now(UTC).isoformat()}
    row = dict(zip((column.title for column in PROCESS_COLUMNS), process_row(facts), strict=True))
    assert row == {
        "process": "case-17", "lifecycle": "created", "agent": "-", "updated": "0 s ago", "owner": "node-a",
        "owned for": "0 s", "seq": 1, "last call": "-", "waits since": "-", "epoch": 1, "mailbox": 0,
        "newest offset": 1, "behind": 0, "note": "-",
    }  # fmt: skip
    shown = [column.title for column in PROCESS_COLUMNS if not column.wide]
    assert shown == ["process", "lifecycle", "agent", "updated", "note"]


def test_a_row_ends_with_what_a_person_has_to_know(log: MemoryLog) -> None:
    """The missing worker, the error of a failed run, what it waits for; of a finished process nothing."""
    facts = {
        **process_facts("case-17", 0, new_state()), "agent": "refund", "has_worker": False, "on_hold": True,
        "lifecycle": "failed", "error": "KeyError: 'x'", "in_doubt": 2, "waits_for": ["gate", "timer"],
        "awaits": ["gate ok:1", "timer sleep:1"],
        "until": "2026-11-22T18:00:00+00:00",
    }  # fmt: skip
    called = {**facts, "last_call_kind": "step", "last_call": "refund:1", "since": datetime.now(UTC).isoformat()}
    assert process_row(called)[7:9] == ["step refund:1", "0 s ago"]
    waits = "waits for gate ok:1, timer sleep:1 until 2026-11-22T18:00:00+00:00"
    note = f"no worker; on hold; KeyError: 'x'; 2 in doubt; {waits}"
    assert (process_row(facts)[2], process_row(facts)[-1]) == ("refund", note)
    quiet: dict[str, Any] = {"has_worker": None, "on_hold": False, "error": None, "in_doubt": 0, "waits_for": []}
    assert process_row({**facts, **quiet})[-1] == process_row({**facts, "finished": True})[-1] == "-"


@pytest.mark.parametrize(("ending", "condition"), [("gap", "degraded"), ("finish", "finished")])
def test_a_row_shows_a_special_condition_of_a_process(
    log: MemoryLog, owner: Owner, ending: str, condition: str
) -> None:
    """Degraded, or finished."""
    owner.claim()
    if ending == "gap":
        owner.seq += 1
        owner.update("a", "1")
    else:
        owner.own(bodies.Finished('{"refund": 12}'))
    facts = process_facts("case-17", 0, Recoverer(log).recover("case-17").state)
    assert condition in process_row(facts)
    assert bool(facts[condition])


def test_state_shows_every_part_of_a_state(log: MemoryLog, owner: Owner) -> None:
    """Context, conversation, mailbox; and all of it as JSON that a JSON library takes."""
    owner.claim("node-a")
    owner.update("sum", '{"$decimal":"12.50"}')
    owner.own(bodies.MessageSaid("user", "Where is it?"))
    owner.own(bodies.MessageSaid("assistant", None, None, '[{"id":"c1","name":"lookup"}]'))
    owner.own(bodies.MessageSaid("tool", None, '{"state":"shipped"}', None, "c1", "lookup"))
    owner.external(Signal("approve", '{"by":"ann"}'))
    facts = state_facts("case-17", Recoverer(log).recover("case-17"))
    text = "\n".join(state_lines(facts))
    assert text.startswith("case-17: created, owned by node-a, seq 4\n")
    wide = state_lines(facts, wide=True)[0]
    assert wide == "case-17: created, owned by node-a, seq 4, epoch 1, offset 5, last kind signal"
    assert '  sum = {"$decimal":"12.50"}' in text
    assert "  user: Where is it?\n" in text
    assert '  assistant: calls [{"id":"c1","name":"lookup"}]\n' in text
    assert '  tool lookup: {"state":"shipped"} (for c1)\n' in text
    assert '  signal approve: {"by":"ann"}' in text
    assert orjson.loads(orjson.dumps(facts)) == facts
    assert facts["report"]["entries_applied"] == 5


def test_a_degraded_state_shows_what_is_missing(log: MemoryLog, owner: Owner) -> None:
    """The seqs, and what was left out since."""
    owner.claim()
    owner.seq += 2
    owner.update("a", "1")
    lines = state_lines(state_facts("case-17", Recoverer(log).recover("case-17")))
    assert lines[1:3] == ["degraded: gap (expected seq 1, found 3)", "noticed: 1 abandoned entries"]


def test_a_finished_state_shows_its_result(log: MemoryLog, owner: Owner) -> None:
    """The gravestone's one value."""
    owner.claim()
    owner.own(bodies.Finished('{"refund":12}'))
    facts = state_facts("case-17", Recoverer(log).recover("case-17"))
    assert facts["result"] == {"refund": 12}
    assert 'result  {"refund":12}' in state_lines(facts)


def _count(value: int, kind: str, payload: object) -> int:
    return value + 1


def test_a_state_shows_its_first_call_in_doubt(log: MemoryLog, owner: Owner) -> None:
    """In the order they began, not of their names; the recovery's report too."""
    owner.claim()
    for position, key in enumerate(("zebra:1", "apple:1", "done:1"), 1):
        owner.own(bodies.StepStarted(key, position, key[:-2], "d" * 32))
    owner.own(bodies.StepEnded("done:1", 1, "succeeded", "1"))
    found = Recoverer(log).recover("case-17")
    facts = state_facts("case-17", found)
    assert (facts["first_in_doubt"], facts["in_doubt"]) == ("zebra:1", ["zebra:1", "apple:1"])
    assert "in doubt: zebra:1 and 1 more, without an outcome: a resume goes on there" in state_lines(facts)
    assert found.report.to_dict()["first_in_doubt"] == "zebra:1"
    assert "in doubt    zebra:1" in report_lines(found.report, found.state)
    owner.own(bodies.StepEnded("zebra:1", 1, "succeeded", "1"))
    owner.own(bodies.StepEnded("apple:1", 1, "succeeded", "1"))
    assert Recoverer(log).recover("case-17").report.first_in_doubt is None


@agent("asking")
async def asking(process: Process, given: Any) -> bool:
    """Asks a person."""
    return (await process.gate("refund")).approved


async def recoveries(node: Node, process_id: str) -> AsyncIterator[Recovered]:
    """Recover again and again, with a moment for others in between."""
    while True:
        await asyncio.sleep(0)
        yield await node.recover(process_id, missing_ok=True)


async def test_a_gate_that_waits_is_not_in_doubt() -> None:
    """Nothing happened that anybody could doubt: a person is asked."""
    async with Node.in_memory() as node:
        running = asyncio.create_task(node.run(asking, "case-17", None))
        async for found in recoveries(node, "case-17"):
            if found.state.waits_for:
                break
        facts = state_facts("case-17", found)
        assert (facts["in_doubt"], facts["first_in_doubt"], facts["waits_for"]) == ([], None, {"refund:1": "gate"})
        assert "waits for: gate refund:1" in state_lines(facts)
        await node.approve("case-17", "refund")
        assert await running is True


def test_folds_are_shown_with_their_problems(log: MemoryLog, owner: Owner) -> None:
    """A value of somebody else's fold as of when it is; what is not current here, with the reason."""
    owner.claim()
    owner.own(Custom("note", "1"))
    with only(UserFold("count", 1, "0", _count), UserFold("theirs", 2, "0", _count)):
        found = Recoverer(log).recover("case-17")
        assert "  count = 1" in state_lines(state_facts("case-17", found))
    with only(UserFold("count", 2, "0", _count)):
        facts = state_facts("case-17", found)
    orjson.dumps(facts)
    assert facts["folds"]["theirs"]["value"] == 1
    lines = "\n".join(state_lines(facts))
    assert "count = (what is kept of the fold is not current: it is of version 1, not 2)" in lines
    assert "theirs = 1 (not registered here; as of 1 of 1 custom entries)" in lines


def test_a_report_shows_the_cost_of_the_recovery(log: MemoryLog, owner: Owner) -> None:
    """And names poison, where there was some."""
    owner.claim()
    owner.update("a", "1")
    owner.raw(b"junk")
    found = Recoverer(log).recover("case-17")
    text = "\n".join(report_lines(found.report, found.state))
    assert "hash" not in text
    assert f"hash        {found.state.hash}" in report_lines(found.report, found.state, wide=True)
    assert "tier        scan" in text
    assert "scanned     3 entries" in text
    assert "applied     1 entry\n" in text
    assert "poison      1 record: seekpoint dlq ls" in text


# --- entries ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.KIND)
def test_every_kind_of_entry_has_a_line_and_a_json_object(body: type[bodies.Body]) -> None:
    """Also with nothing but defaults in it; the object is JSON."""
    facts = entry_facts(Logged(0, 0, entry(body())), 0, Verdict.APPLIED)
    assert entry_row(facts)[4] == body.KIND
    assert len(entry_row(facts)) == len(ENTRY_COLUMNS)
    assert orjson.loads(orjson.dumps(facts)) == facts


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (bodies.Claim(2, "node-a", "b", True), "by node-a, expects epoch 2, accepts the loss"),
        (bodies.Claim(2, "n", "b", False, NIL, 5), "by n, expects epoch 2, abandons seq 5 and on"),
        (bodies.ContextUpdated("status", '"checking"'), 'status = "checking"'),
        (bodies.ContextUpdatedMany({"b": "2", "a": "[1]"}), "a = [1], b = 2"),
        (bodies.MessageSaid("user", "hi"), "user: hi"),
        (bodies.MessageSaid("assistant", "so", None, '[{"id":"1"}]'), 'assistant: so calls [{"id":"1"}]'),
        (bodies.LifecycleChanged("running"), "to running"),
        (bodies.LifecycleChanged("failed", "no money"), "to failed: no money"),
        (bodies.ErrorRecorded("ValueError", "boom", "Traceback ..."), "ValueError: boom"),
        (Custom("billing", '{"usd":0.02}'), 'billing: {"usd":0.02}'),
        (bodies.Forked("case-1", 4, "{}"), "from case-1 at seq 4"),
        (bodies.Promoted("case-2", 4, "{}", "why"), "what case-2 did until seq 4: why"),
        (bodies.Released(), ""),
    ],
    ids=lambda value: value.KIND if isinstance(value, bodies.Body) else None,
)
def test_an_entry_is_summarised_in_one_line(body: bodies.Body, what: str) -> None:
    """What matters of it, whatever its fields are called."""
    assert shown(body) == what


def test_a_line_about_a_fork_or_a_rewind_says_who_wanted_it() -> None:
    """Of other entries the actor is in JSON."""
    for body, end in ((bodies.Rewound(4, reason="late"), ", by ann: late"), (bodies.Released(), "")):
        told = entry(body)._replace(actor="ann")
        assert str(entry_row(entry_facts(Logged(7, 0, told), 0, Verdict.APPLIED))[-1]).endswith(end)
    assert "ann" not in str(entry_row(entry_facts(Logged(7, 0, told), 0, Verdict.APPLIED)))


def test_a_line_about_a_call_begins_with_its_key() -> None:
    """What only programs read is left out: digests, policies, positions, times in microseconds, a first attempt."""
    ended = bodies.StepEnded(key="a:1", output="7", name="a", digest="d", duration_us=1, ended_at_us=2)
    assert shown(ended).startswith("a:1: ")
    assert "output 7" in shown(ended)
    assert not [word for word in ("attempt", "digest", "_us", "name") if word in shown(ended)]
    assert "attempt 2" in shown(replace(ended, attempt=2))
    assert shown(bodies.GateOpened("go:1", name="go", prompt="null")) == "go:1"


def test_an_entry_that_was_not_applied_is_marked() -> None:
    """An entry that was applied needs no word; one that was not says why."""
    body = bodies.ContextDeleted("x")
    assert shown(body, Verdict.APPLIED) == "x"
    assert shown(body, Verdict.STALE) == "[stale]  x"
    assert shown(body, Verdict.CLAIM_LOST) == "[claim lost]  x"
    assert shown(body, None) == "x"


def test_columns_stay_in_place_while_a_log_is_followed(capsys: pytest.CaptureFixture[str]) -> None:
    """Each entry is written alone; kinds begin where the title does."""
    table = PrintedTable(ENTRY_COLUMNS, wide=False)
    for body in (bodies.ContextDeleted("x"), bodies.Released(), bodies.EffectIntended(key="a:1")):
        table.write([table.cells(entry_row(entry_facts(Logged(7, 0, entry(body)), 0, None)))])
    titles, *lines = capsys.readouterr().out.splitlines()
    assert titles.split() == ["time", "seq", "kind", "what"]
    assert [line[titles.index("kind") :].split()[0] for line in lines] == [
        "context_deleted",
        "released",
        "effect_intended",
    ]
    assert lines[0].startswith("1970-01-01T00:00:00.000Z")


def test_a_time_beyond_the_calendar_is_still_shown() -> None:
    """A clock gone wild must not hide the entry."""
    assert f"{2**62} ms" in entry_row(entry_facts(Logged(7, 2**62, entry(bodies.Released())), 0, None))


def test_ids_are_shown_as_uuids() -> None:
    """And JSON texts as what they say."""
    facts = entry_facts(Logged(7, 0, entry(bodies.Received(new_id()))), 3, Verdict.APPLIED)
    assert len(facts["body"]["external_id"]) == 36
    assert facts["partition"] == 3
    assert facts["verdict"] == "applied"
    assert entry_facts(Logged(7, 0, entry(Signal("a", '{"b":1}'))), 3, None)["body"]["payload"] == {"b": 1}


def selected(log: MemoryLog, *options: object) -> list[int]:
    """Return the offsets that an ``EntryFilter`` selects."""
    entry_filter = EntryFilter(*options)  # type: ignore[arg-type]
    draft = Draft()
    found = []
    for batch in history(Recoverer(log), "case-17"):
        found += entry_filter.select([(one, advance(draft, one.offset, one.entry)) for one in batch])
    return [logged.offset for logged, _ in found]


def test_entries_are_selected_by_seq_kind_and_number(log: MemoryLog, owner: Owner) -> None:
    """From a seq on, with the external entries behind it; a custom entry's own kind counts too."""
    owner.claim()  # 0
    owner.update("a", "1")  # 1
    owner.external(Signal("x"))  # 2
    owner.own(Custom("billing"))  # 3
    owner.external(Signal("y"))  # 4
    assert selected(log, None, None, None) == [0, 1, 2, 3, 4]
    assert selected(log, 2, None, None) == [3, 4]
    assert selected(log, None, frozenset({"signal"}), None) == [2, 4]
    assert selected(log, None, frozenset({"billing"}), None) == [3]
    assert selected(log, None, frozenset({"custom", "claim"}), None) == [0, 3]
    assert selected(log, 1, None, 2) == [1, 2]
    assert selected(log, 9, None, None) == []


# --- audits and dead letters ------------------------------------------------------------------------------------------
def finding(topic: str, severity: str = "warning", advice: str = "do it") -> TopicFinding:
    return TopicFinding(topic=topic, setting="s", expected="1", found="2", severity=severity, advice=advice)  # type: ignore[arg-type]


def test_equal_findings_of_several_topics_share_a_row() -> None:
    """Errors first; a command for one topic names it, one for several stands for each."""
    rows = grouped(
        [
            finding("a", advice="kafka-configs --alter --topic a --add-config s=1"),
            finding("b", advice="kafka-configs --alter --topic b --add-config s=1"),
            finding("c", "error", "kafka-configs --alter --topic c --add-config s=1"),
        ]
    )
    assert [row[:2] for row in rows] == [["error", "c"], ["warning", "2 topics"]]
    assert rows[0][-1] == "kafka-configs --alter --topic c --add-config s=1"
    assert rows[1][-1] == "kafka-configs --alter --topic TOPIC --add-config s=1"


def test_a_dead_letter_shows_its_original_bytes() -> None:
    """In base64 for programs, in hex for people."""
    letter = DeadLetter(
        topic="fleet.journal",
        partition=1,
        offset=4,
        timestamp_ms=0,
        key=b"k",
        value=b"\x00\xff",
        error="x",
        seen_at="t",
    )
    facts = letter_facts(letter)
    assert (facts["place"], facts["key"], facts["value"]) == ("fleet.journal:1:4", "aw==", "AP8=")
    assert hex_lines(b"\x00\xffA") == [f"0000  {'00 ff 41':<47}  ..A"]
    assert len(hex_lines(bytes(5_000))) == 4_096 // 16 + 1
    assert hex_lines(bytes(5_000))[-1] == "and 904 more bytes: --json prints them all"


def test_a_dead_letter_is_named_with_or_without_its_topic() -> None:
    """The journal's own topic is meant where none is named."""
    assert place_of("other.journal:1:4", "fleet.journal") == "other.journal:1:4"
    assert place_of("1:4", "fleet.journal") == "fleet.journal:1:4"
