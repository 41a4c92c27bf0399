"""Complete replays between topics in memory."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from histories import Step, steps, write_history
from owners import Owner
from replay_topics import assert_equal, filled, folded, journal, prod, seen, staging
from seekpoint.consumers.staging.copy.headers import ReplayOrigin
from seekpoint.consumers.staging.copy.memory_topic import MemoryTopic
from seekpoint.consumers.staging.copy.pace import Pace
from seekpoint.consumers.staging.copy.selection import Selection
from seekpoint.consumers.staging.copy.transform import with_prefix
from seekpoint.consumers.staging.masks.mask_rules import MaskRules
from seekpoint.consumers.staging.replay_plan import Plan
from seekpoint.consumers.staging.replay_report import ReplayReport
from seekpoint.consumers.staging.staging_replay import Replay
from seekpoint.schemas import bodies as b
from seekpoint.schemas import partition_of
from seekpoint.schemas.bodies.entry import Entry, new_id
from seekpoint.schemas.log.manifest import MANIFEST_KEY
from seekpoint.schemas.state.process_state import Draft


# --- fidelity
def test_a_copy_equals_the_source() -> None:
    """Keys, values, nulls, headers, times and partitions are equal, and each record names its origin."""
    source, target = filled(), staging()
    report = Replay(source, target, job="job-1").run()
    assert_equal(source, target)
    assert (report.replayed, report.sent, report.read, report.checked, report.complete) == (40, 40, 40, True, True)
    for before, after in zip(source.records(), target.records(), strict=True):
        origin = ReplayOrigin.from_headers(after.headers())
        assert origin is not None
        expected = ("job-1", "prod/memory.journal", before.partition(), before.offset(), before.timestamp()[1])
        assert origin[:5] == expected


def test_an_empty_topic_is_replayed() -> None:
    """An empty topic is no error."""
    report = Replay(prod(), staging()).run()
    assert (report.replayed, report.checked, report.gaps) == (0, True, ())


def test_another_number_of_partitions_assigns_records_by_key() -> None:
    """Keys decide as in Java's partitioner, each process keeps its order, and null keys go by partition."""
    source, target = filled(partitions=4), staging(3)
    Replay(source, target).run()
    for record in target.records():
        origin = ReplayOrigin.from_headers(record.headers())
        assert origin is not None
        key = record.key()
        assert record.partition() == (origin.partition % 3 if key is None else partition_of(key, 3))
    for partition in range(4):
        sent = [seen(each)[1:] for each in source.records(partition)]
        found = [(ReplayOrigin.from_headers(each.headers()), seen(each)[1:]) for each in target.records()]
        of_it = sorted((o.offset, s) for o, s in found if o is not None and o.partition == partition)
        assert [record for _, record in of_it] == sent


def test_times_that_the_client_cannot_send_are_counted() -> None:
    """The client replaces a time of 0 by the current time; the report counts such records."""
    source, target = prod(), staging()
    source.append(0, b"k", b"v", 0)
    assert Replay(source, target).run().restamped == 1


# --- what it folds to
@given(steps())
@settings(max_examples=60, deadline=None)
def test_a_replayed_journal_folds_to_the_same_states(history: list[Step]) -> None:
    """With poison, forged entries and gaps, and with another number of partitions."""
    source = journal(prod(4), 4)
    write_history(history, source.append, 4)
    expected = {process_id: state.hash for process_id, state in folded(source).items()}
    for partitions in (4, 7):
        target = staging(partitions)
        Replay(source, target).run()
        assert {process_id: state.hash for process_id, state in folded(target).items()} == expected


def test_a_prefix_renames_processes_and_their_parents() -> None:
    """The prefix is in key and entry; content and records that are no entries do not change."""
    source, target = journal(prod(), 4), staging()
    owner = Owner(source.append, 4, "case-17")
    owner.claim()
    owner.own(b.Forked("case-1", 3, folded_content()))
    owner.update("status", '"open"')
    source.append(owner.partition, b"case-17", b"poison")
    report = Replay(source, target, Plan(prefix="staging-")).run()
    assert report.left_out == {"not renamed: no entry": 1}
    [(process_id, state)] = folded(target).items()
    assert process_id == "staging-case-17"
    assert state.lineage.parent_id == "staging-case-1"
    assert state.content_hash == folded(source)["case-17"].content_hash
    assert b"poison" in [record.value() for record in target.records()]


def folded_content() -> str:
    return Draft().freeze().content_json()


def test_masked_processes_have_the_same_structure() -> None:
    """Processes, messages and lifecycles are the same, without the secret."""
    source, target = journal(prod(), 4), staging()
    for number in range(5):
        owner = Owner(source.append, 4, f"case-{number}")
        owner.claim()
        owner.own(b.LifecycleChanged("starting"))
        owner.own(b.MessageSaid("user", "I am canary@example.org"))
        owner.update("email", '"canary@example.org"')
    kinds = ["claim", "lifecycle_changed", "message_said", "context_updated"]
    masks = MaskRules.from_dict(
        {"mask": [{"kinds": kinds, "regex": r"\S+@\S+", "do": "hash"}, {"path": "process_id", "do": "hash"}]},
        key=bytes(32),
    )
    report = Replay(source, target, Plan(masks=masks)).run()
    before, after = folded(source), folded(target)
    assert len(after) == len(before) == 5
    assert not before.keys() & after.keys()
    assert {(len(state.conversation), state.lifecycle, state.seq) for state in after.values()} == {(1, "starting", 3)}
    assert len({json.dumps(state.context) for state in after.values()}) == 1  # the pseudonym is stable
    assert all(b"canary" not in (record.value() or b"") for record in target.records())
    assert "canary" not in json.dumps(report.to_dict())


# --- selections
def test_a_selection_by_process_needs_no_entry_to_be_decoded() -> None:
    """The key is enough, also for records that are no entries."""
    source, target = filled(), staging()
    report = Replay(source, target, Plan(selection=Selection(processes=frozenset({"case-1", "case-3"})))).run()
    assert {record.key() for record in target.records()} == {b"case-1", b"case-3"}
    assert report.not_foldable == ()
    assert report.read == 40


@pytest.mark.parametrize(
    ("selection", "count"),
    [
        (Selection(kinds=frozenset({"message_said"})), 1),
        (Selection(kinds=frozenset({"note"})), 1),  # a custom entry's own kind
        (Selection(actors=frozenset({"ann"})), 1),
        (Selection(headers={"tenant": "acme"}), 1),
        (Selection(headers={"tenant": None}), 2),
        (Selection(kinds=frozenset({"message_said"}), actors=frozenset({"bob"})), 0),
    ],
)
def test_a_selection_of_single_entries_is_not_foldable(selection: Selection, count: int) -> None:
    """The report names the reason."""
    source, target = journal(prod(), 4), staging()
    owner = Owner(source.append, 4, "case-1")
    owner.claim()
    owner.own(b.MessageSaid("user", "x"))
    owner.own(b.Custom("note", "1"))
    owner.put(owner.entry(b.Signal("go"))._replace(actor="ann"))
    source.append(0, b"k", b"no entry", 1, [("tenant", b"acme")])
    source.append(0, b"k", b"no entry", 1, [("tenant", b"other")])
    report = Replay(source, target, Plan(selection=selection)).run()
    assert len(target.records()) == report.replayed == count
    assert report.not_foldable


def test_a_range_without_its_history_is_not_foldable() -> None:
    """The report names the reason, unless processes are seeded."""
    report = Replay(filled(), staging(), Plan(selection=Selection(offsets={0: (3, None)}))).run()
    assert report.not_foldable
    assert report.replayed == 7


def test_records_written_meanwhile_are_not_replayed() -> None:
    """The end offsets are fixed at the start, so the replay of a live topic ends."""
    source, target = filled(), staging()
    replay = Replay(source, target)
    replay.run(lambda stats, ranges: None if len(source.records()) > 100 else fill_more(source))
    assert len(source.records()) > 40
    assert len(target.records()) == 40


def fill_more(topic: MemoryTopic) -> None:
    for number in range(100):
        topic.append(number % 4, b"late", b"x")


def test_gaps_are_reported() -> None:
    """The report names the offsets that retention and compaction removed."""
    source, target = filled(), staging()
    source.trim(0, 2)
    source.compact(1, [3, 4, 9])
    report = Replay(source, target).run()
    assert {(gap.partition, gap.start, gap.stop) for gap in report.gaps} == {(0, 0, 2), (1, 3, 5), (1, 9, 10)}
    assert report.missing_offsets == 3
    assert_equal(source, target)


@given(st.lists(st.tuples(st.integers(0, 2), st.binary(max_size=4), st.integers(1, 100)), max_size=30), st.data())
@settings(max_examples=40, deadline=None)
def test_any_time_range_follows_the_rule(records: list[tuple[int, bytes, int]], data: st.DataObject) -> None:
    """The range is found in each partition, and has all records between its ends."""
    source, target = prod(3), staging(3)
    for partition, value, stamp in records:
        source.append(partition, b"k", value, stamp)
    since, until = data.draw(st.integers(0, 101)), data.draw(st.integers(0, 101))
    Replay(source, target, Plan(selection=Selection(since_ms=since, until_ms=until))).run()
    for partition in range(3):
        stamps = [stamp for p, _, stamp in records if p == partition]
        first = next((n for n, stamp in enumerate(stamps) if stamp >= since), len(stamps))
        end = next((n for n, stamp in enumerate(stamps) if stamp >= until), len(stamps))
        assert [record.timestamp()[1] for record in target.records(partition)] == stamps[first:end]


def test_the_audit_of_a_masked_replay_hides_the_selection() -> None:
    """The audit of a masked replay has no id, actor or predicate, in a topic and in a capture."""
    source, target = journal(prod(), 4), staging()
    selection = Selection(
        processes=frozenset({"case-canary"}), actors=frozenset({"canary"}), headers={"h": "canary"}, since_ms=1
    )
    masks = MaskRules.from_dict({"mask": [{"kinds": ["message_said"], "regex": "canary", "do": "redact"}]})
    report = Replay(source, target, Plan(selection=selection, masks=masks)).run()
    assert "nothing was selected" in report.notes[0]
    assert "canary" not in json.dumps([value.decode() for _, value in target.audits])
    unmasked = staging()
    Replay(source, unmasked, Plan(selection=selection)).run()
    assert "case-canary" in str(unmasked.audits)


def test_a_prefix_renames_children_and_shared_values() -> None:
    """A replayed parent finds its replayed child, and a shared value remains one."""
    made = Entry(new_id(), "shared:prices", None, 0, None, None, 5, None, None, None, b.SharedSet("prices", -1, "1"))
    spawned = made._replace(process_id="case-1", body=b.ChildSpawned("a", 1, "n", "d", "case-1-child"))
    assert with_prefix(made, "re-").process_id == "shared:re-prices"
    child = with_prefix(spawned, "re-").body
    assert isinstance(child, b.ChildSpawned)
    assert child.child_id == "re-case-1-child"


# --- control
def test_a_replay_can_be_paused_resumed_and_stopped(tmp_path: Path) -> None:
    """A paused replay sends nothing; a stopped one can be resumed."""
    source, target, file = filled(), staging(), tmp_path / "progress.json"
    replay = Replay(source, target, Plan(pace=Pace(rate=200)), progress=file)
    replay.pause()
    reports: list[ReplayReport] = []
    thread = threading.Thread(target=lambda: reports.append(replay.run()))
    thread.start()
    time.sleep(0.1)
    assert target.records() == []
    replay.resume()
    wait_for(lambda: len(target.records()) >= 5)
    replay.stop()
    thread.join(60)
    [report] = reports
    assert not report.complete
    assert not report.checked
    assert report.sent == len(target.records()) < 40
    again = Replay(source, target, progress=file, settle_s=0).run()
    assert again.complete
    assert_equal(source, target)


def wait_for(reached: Any) -> None:
    deadline = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_original_timing_is_kept_across_partitions() -> None:
    """Records are sent in the order of time, with their original distances divided by the speed."""
    source, target = prod(2), staging(2)
    for number in range(20):
        source.append(number % 2, b"k", b"%d" % number, 1_700_000_000_000 + number * 20)
    began = time.monotonic()
    report = Replay(source, target, Plan(pace=Pace(speed=2))).run()
    assert time.monotonic() - began >= 0.19
    assert report.lateness["max_ms"] < 5_000
    order = sorted(target.records(), key=lambda record: record.timestamp())
    assert [record.value() for record in order] == [b"%d" % number for number in range(20)]


def test_audit_entries_are_written_to_the_target_only() -> None:
    """Audit entries are written at the start and the end, never to the source's cluster."""
    source, target = filled(), staging()
    names = ("prod/a", "staging/b")
    Replay(source, target, Plan(prefix=""), names=names, job="job-9", actor="ann", reason="a drill").run()
    assert source.audits == []
    assert [key for key, _ in target.audits] == [b"job-9.started", b"job-9.finished"]
    last = json.loads(target.audits[-1][1])
    assert last["by"]
    assert (last["actor"], last["reason"]) == ("ann", "a drill")
    assert last["source"] == {"name": "prod/a", "cluster_id": "prod", "topic": "memory.journal"}
    assert last["report"]["replayed"] == 40


def test_schemas_that_the_target_lacks_are_copied() -> None:
    """Readers of the target need the writer schemas of the copied entries."""
    source, target = journal(filled(), 4), journal(staging(), 4)
    source.schema_records[b"00112233445566ff"] = b"{}"
    before = target.schema_records[MANIFEST_KEY]
    Replay(source, target).run()
    assert target.schema_records == {MANIFEST_KEY: before, b"00112233445566ff": b"{}"}
