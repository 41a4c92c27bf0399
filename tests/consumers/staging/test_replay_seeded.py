"""Seeded ranges, on topics in memory: they fold to the states of the source."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from histories import Step, steps, write_history
from owners import Owner
from replay_topics import filled, folded, journal, prod, staging
from seekpoint.consumers.staging.copy.memory_topic import MemoryTopic
from seekpoint.consumers.staging.copy.selection import Selection
from seekpoint.consumers.staging.masks.mask_rules import MaskRules
from seekpoint.consumers.staging.replay_plan import Plan
from seekpoint.consumers.staging.staging_replay import Replay
from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.errors import ReplayRefused


@given(steps(), st.integers(0, 12), st.integers(1, 2))
@example([Step("case-17", "forged", 0), Step("case-17", "seed", 0)], 1, 1)
@settings(max_examples=60, deadline=None)
def test_a_seeded_range_folds_to_the_same_states(history: list[Step], cut: int, target_partitions: int) -> None:
    """For any start of the range and any number of partitions of the target."""
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


def test_a_selected_process_is_seeded_without_records_in_the_range() -> None:
    """A selected process without a record in the range is seeded too, masked and renamed."""
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
def test_a_crashed_seeded_replay_resumes(crash: int, tmp_path: Path) -> None:
    """After a crash during or after seeding, each seed is there once."""
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
    """No journal, a trimmed log, and a state that masks made too large are refused."""
    plan = Plan(selection=Selection(offsets={0: (3, None)}), seeded=True)
    assert "only processes of a journal" in refused_seeded(filled(), plan)
    trimmed = journal(prod(1), 1)
    owner = Owner(trimmed.append, 1, "case-1")
    owner.claim()
    for value in range(5):
        owner.update("n", str(value))
    trimmed.trim(0, 2)
    assert "beginning of the log is gone" in refused_seeded(trimmed, plan)
    large = journal(prod(1), 1, Limits(state_bytes=1_000_000))
    owner = Owner(large.append, 1, "case-1")
    owner.claim()
    for key in "ab":
        owner.update(key, json.dumps([""] * 80_000, separators=(",", ":")))
    owner.update("n", "1")
    rule = {"kinds": ["claim", "context_updated", "seeded"], "path": "context", "do": "hash"}
    masks = MaskRules.from_dict({"mask": [rule]}, key=bytes(32))
    slice_ = Selection(offsets={0: (3, None)})
    assert "too large for one entry" in refused_seeded(large, Plan(selection=slice_, seeded=True, masks=masks))


def test_a_process_with_attachments_before_the_range_is_refused() -> None:
    """Its copy would have references without bytes. What is in a blob store is read there."""
    source = journal(prod(1), 1)
    owner = Owner(source.append, 1, "case-1")
    owner.claim()
    owner.own(b.PartAttached("a" * 64, 5, 0, b"bytes"))
    owner.update("n", "1")
    plan = Plan(selection=Selection(offsets={0: (2, None)}), seeded=True)
    refusal = refused_seeded(source, plan)
    for text in ("attachments before the range (1)", "process_id=case-1", "bytes=5", "without --seeded"):
        assert text in refusal
    owner.own(b.Detached(f'["{"a" * 64}"]'))
    owner.own(b.PartAttached("b" * 64, 5_000_000, store="s3://bucket"))
    owner.update("n", "2")
    target = staging(1)
    Replay(source, target, Plan(selection=Selection(offsets={0: (5, None)}), seeded=True)).run()
    assert folded(target)["case-1"].attachments["b" * 64].store == "s3://bucket"


def test_a_state_larger_than_a_record_is_seeded() -> None:
    """A state up to its limit fits into a seeded entry."""
    source, target = journal(prod(1), 1), staging(1)
    owner = Owner(source.append, 1, "case-1")
    owner.claim()
    for key in "abcdefgh":
        owner.update(key, json.dumps("x" * 1_040_000))
    owner.update("n", "1")
    Replay(source, target, Plan(selection=Selection(offsets={0: (9, None)}), seeded=True)).run()
    assert folded(target)["case-1"].hash == folded(source)["case-1"].hash


def refused_seeded(source: MemoryTopic, plan: Plan) -> str:
    with pytest.raises(ReplayRefused) as caught:
        Replay(source, staging(source.facts().partitions), plan).run()
    return str(caught.value)
