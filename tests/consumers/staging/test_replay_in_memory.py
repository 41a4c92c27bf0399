"""The whole replay, on topics in memory: what arrives is what was there, whatever happened on the way."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seekpoint.consumers.staging.copying as copying
from histories import Step, steps, write_history
from owners import Owner
from seekpoint.consumers.staging.capture import CaptureFile, CaptureTarget
from seekpoint.consumers.staging.headers import Origin
from seekpoint.consumers.staging.mask_rules import MaskRules
from seekpoint.consumers.staging.memory_topic import Kept, MemoryTopic
from seekpoint.consumers.staging.pace import Pace
from seekpoint.consumers.staging.plan import Plan, ReplayReport
from seekpoint.consumers.staging.progress_file import ProgressFile
from seekpoint.consumers.staging.replay import Replay
from seekpoint.consumers.staging.selection import Selection
from seekpoint.consumers.staging.treatment import renamed
from seekpoint.schemas import bodies as b
from seekpoint.schemas import partition_of
from seekpoint.schemas.codec import Codec
from seekpoint.schemas.entry import Entry, new_id
from seekpoint.schemas.errors import ReplayMismatch, ReplayRefused, UndecodableRecord
from seekpoint.schemas.fold import advance
from seekpoint.schemas.limits import Limits
from seekpoint.schemas.manifest import MANIFEST_KEY, Manifest
from seekpoint.schemas.state import Draft, State

Seen = tuple[int, bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]


def prod(partitions: int = 4) -> MemoryTopic:
    return MemoryTopic(partitions, cluster_id="prod")


def staging(partitions: int = 4, config: dict[str, str] | None = None) -> MemoryTopic:
    return MemoryTopic(partitions, cluster_id="staging", config=config)


def seen(record: Any) -> Seen:
    """A record without what a replay adds to it."""
    headers = [each for each in record.headers() or [] if not each[0].startswith("seekpoint-replay-")]
    return record.partition(), record.key(), record.value(), record.timestamp()[1], headers


def assert_equal(source: MemoryTopic, target: MemoryTopic) -> None:
    """Record for record, partition for partition."""
    assert [seen(record) for record in target.records()] == [seen(record) for record in source.records()]


def filled(records: int = 40, partitions: int = 4) -> MemoryTopic:
    """Records of all sorts: nulls, empty texts, headers, doubles, times that go back, a tombstone."""
    topic = prod(partitions)
    for number in range(records):
        key = None if number % 11 == 0 else f"case-{number % 5}".encode()
        value = None if number % 7 == 0 else b"" if number % 13 == 0 else f"value {number}".encode()
        headers: Any = [("h", b"1"), ("h", None), ("e", b"")] if number % 3 == 0 else None
        topic.append(number % partitions, key, value, 1_700_000_000_000 + (number * 37) % 50, headers)
    return topic


def journal(topic: MemoryTopic, partitions: int) -> MemoryTopic:
    """The topic, with the manifest that makes it a journal."""
    manifest = Manifest(journal="memory", format=1, partitions=partitions, topic_ids={}, limits=Limits())
    topic.schema_records[MANIFEST_KEY] = manifest.to_bytes()
    return topic


def folded(topic: MemoryTopic) -> dict[str, State]:
    """Every process, by the plain fold."""
    codec, drafts = Codec(), dict[str, Draft]()
    for record in topic.records():
        try:
            entry = codec.decode(record.value())
        except UndecodableRecord:
            continue
        key, partitions = record.key() or b"", topic.facts().partitions
        if entry.process_id.encode() == key and partition_of(key, partitions) == record.partition():
            advance(drafts.setdefault(entry.process_id, Draft()), record.offset(), entry)
    return {process_id: draft.freeze() for process_id, draft in drafts.items()}


# --- fidelity
def test_a_copy_is_the_original() -> None:
    """Keys, values, nulls, headers in order and twice, times, partitions; and each record says where it came from."""
    source, target = filled(), staging()
    report = Replay(source, target, job="job-1").run()
    assert_equal(source, target)
    assert (report.replayed, report.sent, report.read, report.checked, report.complete) == (40, 40, 40, True, True)
    for before, after in zip(source.records(), target.records(), strict=True):
        origin = Origin.of(after.headers())
        assert origin is not None
        expected = ("job-1", "prod/memory.journal", before.partition(), before.offset(), before.timestamp()[1])
        assert origin[:5] == expected


def test_an_empty_topic_is_replayed() -> None:
    """It is no error, and nothing waits."""
    report = Replay(prod(), staging()).run()
    assert (report.replayed, report.checked, report.gaps) == (0, True, ())


def test_another_number_of_partitions_lays_records_by_their_keys() -> None:
    """As Java's partitioner does; each process keeps its order, nulls are spread by their partition."""
    source, target = filled(partitions=4), staging(3)
    Replay(source, target).run()
    for record in target.records():
        origin = Origin.of(record.headers())
        assert origin is not None
        key = record.key()
        assert record.partition() == (origin.partition % 3 if key is None else partition_of(key, 3))
    for partition in range(4):
        sent = [seen(each)[1:] for each in source.records(partition)]
        found = [(Origin.of(each.headers()), seen(each)[1:]) for each in target.records()]
        of_it = sorted((o.offset, s) for o, s in found if o is not None and o.partition == partition)
        assert [record for _, record in of_it] == sent


def test_times_that_the_client_cannot_carry_are_counted() -> None:
    """Zero means now to it: the record is there, and the report says so."""
    source, target = prod(), staging()
    source.append(0, b"k", b"v", 0)
    assert Replay(source, target).run().restamped == 1


# --- what it folds to
@given(steps())
@settings(max_examples=60, deadline=None)
def test_a_replayed_journal_folds_to_the_same_states(history: list[Step]) -> None:
    """Poison, forged entries and gaps included; also where another number of partitions lays it out anew."""
    source = journal(prod(4), 4)
    write_history(history, source.append, 4)
    expected = {process_id: state.hash for process_id, state in folded(source).items()}
    for partitions in (4, 7):
        target = staging(partitions)
        Replay(source, target).run()
        assert {process_id: state.hash for process_id, state in folded(target).items()} == expected


def test_a_prefix_renames_processes_and_their_parents() -> None:
    """Key and entry; the content stays, and what is no entry stays as it is."""
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
    """As many of them, as many messages, the same lifecycle; the secret is in none of them."""
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


# --- slices with their states
@given(steps(), st.integers(0, 12), st.integers(1, 2))
@settings(max_examples=60, deadline=None)
def test_a_seeded_slice_folds_to_the_same_states(history: list[Step], cut: int, target_partitions: int) -> None:
    """Processes with a record in it; wherever it begins, and however the target is laid out."""
    source, target = journal(prod(1), 1), staging(target_partitions)
    write_history(history, source.append, 1)
    report = Replay(source, target, Plan(selection=Selection(offsets={0: (cut, None)}), seeded=True)).run()
    expected, found = folded(source), folded(target)
    assert {process_id: state.hash for process_id, state in found.items()} == {
        process_id: expected[process_id].hash for process_id in found
    }
    assert report.not_foldable == ()
    in_slice = {each.key() for each in source.records() if each.offset() >= cut}
    known = {process_id for process_id, state in expected.items() if state.epoch > 0 or state.remembered}
    assert {process_id for process_id in known if process_id.encode() in in_slice} <= found.keys()


def test_a_seeded_slice_of_one_process_is_all_of_it() -> None:
    """Also where it has no record in the slice; masked and renamed as its entries are."""
    source, target = journal(prod(1), 1), staging(1)
    for name in ("case-1", "case-2"):
        owner = Owner(source.append, 1, name)
        owner.claim()
        owner.update("email", '"canary@example.org"')
    kinds = ["seeded", "claim", "context_updated"]
    masks = MaskRules.from_dict({"mask": [{"kinds": kinds, "path": "context.email", "do": "redact"}]})
    wanted = Selection(processes=frozenset({"case-1"}), offsets={0: (2, None)})
    plan = Plan(selection=wanted, seeded=True, masks=masks, prefix="s-")
    assert Replay(source, target, plan).dry_run().seeded == 1
    assert Replay(source, target, plan).run().seeded == 1
    assert folded(target)["s-case-1"].context == {"email": "***"}
    assert len(target.records()) == 1


@pytest.mark.parametrize("crash", range(12))
def test_a_seeded_replay_that_died_goes_on(crash: int, tmp_path: Path) -> None:
    """While it seeded, or after: no seed is lost or twice."""
    source, target = journal(prod(2), 2), staging(2)
    for number in range(4):
        owner = Owner(source.append, 2, f"case-{number}")
        owner.claim()
        for value in range(4):
            owner.update("n", str(value))
    plan = Plan(selection=Selection(offsets=dict.fromkeys(range(2), (3, None))), seeded=True)
    target.crash_after(crash)
    with pytest.raises(KeyboardInterrupt):
        Replay(source, target, plan, progress=tmp_path / "p", settle_s=0).run()
    target.crash_after(None)
    report = Replay(source, target, plan, progress=tmp_path / "p", settle_s=0).run()
    assert report.checked
    assert report.replayed == len(target.records())
    expected = folded(source)
    assert {each: state.hash for each, state in folded(target).items()} == {
        each: expected[each].hash for each in folded(target)
    }


def test_what_cannot_be_seeded_is_refused() -> None:
    """No journal, a log whose beginning is gone, a state that no entry can carry."""
    plan = Plan(selection=Selection(offsets={0: (3, None)}), seeded=True)
    assert "only processes of a journal" in refused_seeded(filled(), plan)
    trimmed = journal(prod(1), 1)
    owner = Owner(trimmed.append, 1, "case-1")
    owner.claim()
    for value in range(5):
        owner.update("n", str(value))
    trimmed.trim(0, 2)
    assert "beginning of the log is gone" in refused_seeded(trimmed, plan)
    large = journal(prod(1), 1)
    owner = Owner(large.append, 1, "case-1")
    owner.claim()
    for key in "abc":
        owner.update(key, json.dumps("x" * 400_000))
    owner.update("n", "1")
    assert "too large for one entry" in refused_seeded(
        large, Plan(selection=Selection(offsets={0: (4, None)}), seeded=True)
    )


def refused_seeded(source: MemoryTopic, plan: Plan) -> str:
    with pytest.raises(ReplayRefused) as caught:
        Replay(source, staging(source.facts().partitions), plan).run()
    return str(caught.value)


# --- selections
def test_a_selection_by_process_needs_no_entry_to_be_decoded() -> None:
    """Keys are enough: also of records that are no entries."""
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
def test_a_selection_entry_by_entry_is_marked_as_not_foldable(selection: Selection, count: int) -> None:
    """Whoever folds it must know."""
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


def test_a_slice_without_its_history_is_marked_as_not_foldable() -> None:
    """Unless its processes are seeded."""
    report = Replay(filled(), staging(), Plan(selection=Selection(offsets={0: (3, None)}))).run()
    assert report.not_foldable
    assert report.replayed == 7


def test_what_is_written_meanwhile_is_not_replayed() -> None:
    """The ends are those of the start: a replay of a live topic ends."""
    source, target = filled(), staging()
    replay = Replay(source, target)
    replay.run(lambda flow, stretches: None if len(source.records()) > 100 else fill_more(source))
    assert len(source.records()) > 40
    assert len(target.records()) == 40


def fill_more(topic: MemoryTopic) -> None:
    for number in range(100):
        topic.append(number % 4, b"late", b"x")


def test_gaps_are_reported() -> None:
    """What retention and compaction removed: which offsets, and how many."""
    source, target = filled(), staging()
    source.trim(0, 2)
    source.compact(1, [3, 4, 9])
    report = Replay(source, target).run()
    assert {(gap.partition, gap.start, gap.stop) for gap in report.gaps} == {(0, 0, 2), (1, 3, 5), (1, 9, 10)}
    assert report.missing_offsets == 3
    assert_equal(source, target)


# --- refusals
def refused(source: MemoryTopic, target: MemoryTopic, plan: Plan | None = None, **more: Any) -> str:
    """Why; and nothing was written."""
    with pytest.raises(ReplayRefused) as caught:
        Replay(source, target, plan, **more).run()
    assert target.records() == [] or target is source
    assert target.audits == []
    return str(caught.value)


def test_a_target_that_is_not_staging_is_refused() -> None:
    """Whatever it is called; the error says how to mark it."""
    said = refused(filled(), staging(), is_staging=False, names=("prod/a", "live/b"))
    assert "[clusters.live] staging = true" in said


def test_the_source_itself_is_refused() -> None:
    """By the ids of cluster and topic, not by what the profiles are called."""
    source = filled()
    before = len(source.records())
    assert "the target is the source" in refused(source, source, names=("a/t", "b/t"))
    assert len(source.records()) == before


def test_a_target_with_its_own_times_is_refused() -> None:
    """The original ones would be lost."""
    assert "time of their arrival" in refused(filled(), staging(config={"message.timestamp.type": "LogAppendTime"}))


def test_a_target_that_would_remove_the_records_is_refused() -> None:
    """Its retention, or its limits of time; one that keeps everything is taken."""
    week = str(7 * 24 * 3600 * 1000)
    assert "retention" in refused(filled(), staging(config={"retention.ms": week}))
    assert "before.max.ms" in refused(filled(), staging(config={"message.timestamp.before.max.ms": week}))
    Replay(filled(), staging(config={"retention.ms": "-1"})).run()
    Replay(filled(), staging(config={"retention.ms": week, "cleanup.policy": "compact"})).run()


def test_a_dry_run_writes_nothing_and_refuses_the_same() -> None:
    """Counts, bytes, an estimate; and samples before and after where values are masked."""
    source, target = journal(prod(), 4), staging()
    owner = Owner(source.append, 4, "case-1")
    owner.claim()
    owner.own(b.MessageSaid("user", "I am canary@example.org"))
    masks = MaskRules.from_dict({"mask": [{"kinds": ["message_said", "claim"], "regex": r"\S+@\S+", "do": "redact"}]})
    report = Replay(source, target, Plan(masks=masks, pace=Pace(rate=4))).dry_run()
    assert (report.dry_run, report.replayed, report.sent, report.checked) == (True, 2, 0, False)
    assert report.estimate_s == 0.5
    [sample] = report.samples
    assert "canary@example.org" in sample.before
    assert "canary@example.org" not in sample.after
    assert json.loads(sample.after)["body"]["content"] == "I am ***"
    assert (target.records(), target.audits) == ([], [])
    with pytest.raises(ReplayRefused):
        Replay(source, source).dry_run()


def test_what_is_kept_in_the_target_about_a_masked_replay_names_nobody() -> None:
    """The audit, of a topic or in a capture, lies where values are masked: no id, actor or predicate is in it."""
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


def test_a_prefix_is_put_before_children_too_and_a_shared_value_stays_one() -> None:
    """So a replayed parent finds its replayed child, and a shared value is folded."""
    made = Entry(new_id(), "shared:prices", None, 0, None, None, 5, None, None, None, b.SharedSet("prices", -1, "1"))
    spawned = made._replace(process_id="case-1", body=b.ChildSpawned("a", 1, "n", "d", "case-1-child"))
    assert renamed(made, "re-").process_id == "shared:re-prices"
    child = renamed(spawned, "re-").body
    assert isinstance(child, b.ChildSpawned)
    assert child.child_id == "re-case-1-child"


# --- exactly once
@pytest.fixture(params=[3, 200_000], ids=["settled often", "never settled"])
def generation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(copying, "_GENERATION_RECORDS", request.param)
    monkeypatch.setattr(copying, "_BATCH_RECORDS", 4)
    return int(request.param)


PLANS = {
    "plain": (Plan(), 4),
    "by key": (Plan(), 3),
    "prefix": (Plan(prefix="s-"), 4),
    "selected": (Plan(selection=Selection(processes=frozenset({"case-1", "case-2"}))), 4),
    "paced": (Plan(pace=Pace(speed=1000)), 4),
}


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("crash", [0, 1, 2, 7, 12, 13, 29, 39, 40])
def test_a_replay_that_died_goes_on_without_loss_or_double(
    generation: int, plan: str, crash: int, tmp_path: Path
) -> None:
    """Wherever it died; twice; the result is the one of a replay that never did, record for record."""
    asked, partitions = PLANS[plan]
    oracle, target, file = staging(partitions), staging(partitions), tmp_path / "progress.json"
    Replay(filled(), oracle, asked).run()
    for after in (crash, 5):
        target.crash_after(after)
        try:
            Replay(filled(), target, asked, progress=file, settle_s=0).run()
            break
        except KeyboardInterrupt:
            continue
    else:
        target.crash_after(None)
        report = Replay(filled(), target, asked, progress=file, settle_s=0).run()
        assert report.checked
        assert report.replayed == len(oracle.records())
    for partition in range(partitions):
        found, expected = ([seen(each) for each in each_of.records(partition)] for each_of in (target, oracle))
        if partitions == 4 and plan != "paced":
            assert found == expected
        assert sorted(map(repr, found)) == sorted(map(repr, expected))


def test_what_settled_is_not_read_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The second run starts where the first one's notes end, not at the beginning."""
    monkeypatch.setattr(copying, "_GENERATION_RECORDS", 3)
    monkeypatch.setattr(copying, "_BATCH_RECORDS", 4)
    target, file = staging(), tmp_path / "progress.json"
    target.crash_after(30)
    with pytest.raises(KeyboardInterrupt):
        Replay(filled(), target, progress=file).run()
    target.crash_after(None)
    report = Replay(filled(), target, progress=file, settle_s=0).run()
    assert report.sent == 10
    assert 0 < report.already_there < 30


def test_a_replay_that_is_done_is_not_done_again(tmp_path: Path) -> None:
    """The same command twice must not double the target."""
    target, file = staging(), tmp_path / "progress.json"
    Replay(filled(), target, progress=file).run()
    with pytest.raises(ReplayRefused, match="done before"):
        Replay(filled(), target, progress=file).run()
    assert len(target.records()) == 40


def test_a_progress_file_of_something_else_is_refused(tmp_path: Path) -> None:
    """Another plan, another topic, junk; another pace is the same job."""
    file, target = tmp_path / "progress.json", staging()
    target.crash_after(5)
    with pytest.raises(KeyboardInterrupt):
        Replay(filled(), target, progress=file).run()
    target.crash_after(None)
    with pytest.raises(ReplayRefused, match="another plan"):
        Replay(filled(), target, Plan(prefix="x-"), progress=file).run()
    with pytest.raises(ReplayRefused, match="other topics"):
        Replay(filled(), MemoryTopic(4, cluster_id="elsewhere"), progress=file).run()
    assert Replay(filled(), target, Plan(pace=Pace(rate=1e6)), progress=file, settle_s=0).run().checked
    file.write_text("junk")
    with pytest.raises(ReplayRefused, match="none of ours"):
        Replay(filled(), target, progress=file).run()


def test_two_at_once_do_not_share_a_progress_file(tmp_path: Path) -> None:
    """The second is refused while the first lives."""
    first = ProgressFile(tmp_path / "progress.json")
    first.load()
    with pytest.raises(ReplayRefused, match="running already"):
        Replay(filled(), staging(), progress=tmp_path / "progress.json").run()
    first.close()
    Replay(filled(), staging(), progress=tmp_path / "progress.json").run()


@pytest.mark.parametrize(
    "harm",
    [
        lambda record: None,
        lambda r: Kept(r.partition(), r.offset(), r.key(), b"altered", r.timestamp()[1], r.headers()),
        lambda r: Kept(r.partition(), r.offset(), b"altered", r.value(), r.timestamp()[1], r.headers()),
        lambda r: Kept(r.partition(), r.offset(), r.key(), r.value(), r.timestamp()[1] + 1, r.headers()),
        lambda r: Kept(r.partition(), r.offset(), r.key(), r.value(), r.timestamp()[1], [*r.headers(), ("x", b"")]),
        lambda r: Kept(r.partition(), r.offset(), r.key(), None, r.timestamp()[1], r.headers()),
    ],
    ids=["lost", "value", "key", "time", "header", "nulled"],
)
def test_the_comparison_finds_what_differs(harm: Any) -> None:
    """One record of forty, whatever of it was changed before it was read back."""
    target = staging()
    sender = target.sender

    class Harming:
        """Harms a record once everything was sent."""

        def __getattr__(self, name: str) -> Any:
            return getattr(target, name)

        def sender(self, *, linger_ms: float) -> Any:
            made = sender(linger_ms=linger_ms)
            close = made.close
            made.close = lambda: (close(), target.alter(2, 4, harm))  # type: ignore[method-assign, assignment, func-returns-value]
            return made

    with pytest.raises(ReplayMismatch):
        Replay(filled(), Harming()).run()


def test_a_double_is_found() -> None:
    """A record that is twice in the target is no success, though all are there."""
    target = staging()
    real = target._take
    twice = iter([True])

    def take(*record: Any) -> None:
        real(*record)
        if next(twice, False):
            real(*record)

    target._take = take  # type: ignore[method-assign]
    with pytest.raises(ReplayMismatch):
        Replay(filled(), target).run()


def test_what_others_write_meanwhile_is_not_counted() -> None:
    """A staging topic may be in use."""
    target = staging()
    target.append(0, b"k", b"before")
    source, other = filled(), list[int]()
    Replay(source, target).run(lambda flow, stretches: other.append(target.append(1, b"other", b"meanwhile")))
    assert other
    assert len([record for record in target.records() if Origin.of(record.headers())]) == 40


def test_the_offset_map_says_where_each_record_went(tmp_path: Path) -> None:
    """In runs; unfolded it is the map of all records."""
    source, target = filled(), staging(3)
    target.append(0, b"k", b"before")
    source.compact(1, [2])
    Replay(source, target, offset_map=tmp_path / "map.tsv").run()
    header, *lines = (tmp_path / "map.tsv").read_text().splitlines()
    assert header.split("\t") == ["source_partition", "source_offset", "target_partition", "target_offset", "records"]
    unfolded = {
        (p, o + step): (tp, to + step)
        for p, o, tp, to, count in (map(int, line.split("\t")) for line in lines)
        for step in range(count)
    }
    expected = {}
    for record in target.records():
        origin = Origin.of(record.headers())
        if origin is not None:
            expected[origin.partition, origin.offset] = record.partition(), record.offset()
    assert unfolded == expected
    assert len(unfolded) == 39


# --- control
def test_it_can_be_paused_resumed_and_stopped(tmp_path: Path) -> None:
    """Paused nothing is sent; stopped it says so, and goes on later."""
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
    thread.join(10)
    [report] = reports
    assert not report.complete
    assert not report.checked
    assert report.sent == len(target.records()) < 40
    again = Replay(source, target, progress=file, settle_s=0).run()
    assert again.complete
    assert_equal(source, target)


def wait_for(reached: Any) -> None:
    deadline = time.monotonic() + 10
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_original_timing_is_kept_over_partitions() -> None:
    """By time over all partitions, at the distances they had, twice as fast."""
    source, target = prod(2), staging(2)
    for number in range(20):
        source.append(number % 2, b"k", b"%d" % number, 1_700_000_000_000 + number * 20)
    began = time.monotonic()
    report = Replay(source, target, Plan(pace=Pace(speed=2))).run()
    assert time.monotonic() - began >= 0.19
    assert report.lateness["max_ms"] < 5_000
    order = sorted(target.records(), key=lambda record: record.timestamp())
    assert [record.value() for record in order] == [b"%d" % number for number in range(20)]


def test_an_audit_entry_is_kept_with_the_target_only() -> None:
    """Who, what, when: at the start and at the end. The source's cluster is never written to."""
    source, target = filled(), staging()
    Replay(source, target, Plan(prefix=""), names=("prod/a", "staging/b"), job="job-9").run()
    assert source.audits == []
    assert [key for key, _ in target.audits] == [b"job-9.started", b"job-9.finished"]
    last = json.loads(target.audits[-1][1])
    assert last["by"]
    assert last["source"] == {"name": "prod/a", "cluster_id": "prod", "topic": "memory.journal"}
    assert last["report"]["replayed"] == 40


def test_schemas_that_the_target_lacks_are_brought_along() -> None:
    """Entries keep their bytes, so whoever reads them there must know what they were written with."""
    source, target = journal(filled(), 4), journal(staging(), 4)
    source.schema_records[b"00112233445566ff"] = b"{}"
    before = target.schema_records[MANIFEST_KEY]
    Replay(source, target).run()
    assert target.schema_records == {MANIFEST_KEY: before, b"00112233445566ff": b"{}"}


# --- captures
def test_a_capture_gives_back_what_was_captured(tmp_path: Path) -> None:
    """Coordinates, times, headers, nulls; any Avro tool reads it, and it is replayed like a topic."""
    source, file = journal(filled(), 4), tmp_path / "run.spk"
    source.compact(1, [3])
    assert Replay(source, CaptureTarget(file, source.facts())).run().checked
    capture = CaptureFile(file)
    assert capture.facts().topic_id == source.facts().topic_id
    assert capture.schemas() == source.schemas()
    target = staging()
    report = Replay(capture, target).run()
    assert report.replayed == 39
    assert_equal(source, target)
    slices = Replay(capture, staging(), Plan(selection=Selection(offsets={1: (2, 5)}))).run()
    assert (slices.replayed, slices.missing_offsets) == (3, 1)
    late = Selection(since_ms=1_700_000_000_030)
    assert Replay(capture, staging(), Plan(selection=late)).run().replayed > 0


def test_a_masked_capture_can_be_replayed_and_folds(tmp_path: Path) -> None:
    """Keys that changed lie in other partitions there, in order."""
    source, file = journal(prod(), 4), tmp_path / "run.spk"
    for number in range(9):
        owner = Owner(source.append, 4, f"case-{number}")
        owner.claim()
        owner.update("n", str(number))
    masks = MaskRules.from_dict(
        {"mask": [{"kinds": ["claim", "context_updated"], "path": "process_id", "do": "hash"}]}, key=bytes(32)
    )
    assert Replay(source, CaptureTarget(file, source.facts()), Plan(masks=masks)).run().checked
    assert b"case-" not in file.read_bytes()
    target = staging(2)
    Replay(CaptureFile(file), target).run()
    assert {state.content_hash for state in folded(target).values()} == {
        state.content_hash for state in folded(source).values()
    }


def test_a_capture_that_did_not_become_whole_has_no_name(tmp_path: Path) -> None:
    """What was cut off is refused, and so is what is none."""
    source, file = filled(), tmp_path / "run.spk"
    replay = Replay(source, CaptureTarget(file, source.facts()), Plan(pace=Pace(rate=20)))
    replay.stop()
    replay.run()
    replay.close()
    assert list(tmp_path.iterdir()) == []
    Replay(source, CaptureTarget(file, source.facts())).run()
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(ReplayRefused, match="damaged or cut off"):
        Replay(CaptureFile(file), staging()).run()
    file.write_bytes(b"no capture")
    with pytest.raises(ReplayRefused, match="no capture"):
        CaptureFile(file)


@given(st.lists(st.tuples(st.integers(0, 2), st.binary(max_size=4), st.integers(1, 100)), max_size=30), st.data())
@settings(max_examples=40, deadline=None)
def test_any_slice_by_time_is_what_the_rule_says(records: list[tuple[int, bytes, int]], data: st.DataObject) -> None:
    """Every partition for itself, with what lies between."""
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
