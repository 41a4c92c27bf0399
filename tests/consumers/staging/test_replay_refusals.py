"""Refusals before anything is written, on topics in memory."""

from __future__ import annotations

import json
from typing import Any

import pytest

from owners import Owner
from replay_topics import filled, journal, prod, staging
from seekpoint.consumers.staging.copy.memory_topic import MemoryTopic
from seekpoint.consumers.staging.copy.pace import Pace
from seekpoint.consumers.staging.masks.mask_rules import MaskRules
from seekpoint.consumers.staging.replay_plan import Plan
from seekpoint.consumers.staging.staging_replay import Replay
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import ReplayRefused


def refused(source: MemoryTopic, target: MemoryTopic, plan: Plan | None = None, **more: Any) -> str:
    """Return the error of a refused replay, which wrote nothing."""
    with pytest.raises(ReplayRefused) as caught:
        Replay(source, target, plan, **more).run()
    assert target.records() == [] or target is source
    assert target.audits == []
    return str(caught.value)


def test_a_target_that_is_not_staging_is_refused() -> None:
    """The error names the setting that marks a cluster as staging."""
    said = refused(filled(), staging(), is_staging=False, names=("prod/a", "live/b"))
    assert "[clusters.live] staging = true" in said


def test_the_source_itself_is_refused() -> None:
    """Ids of cluster and topic are compared, not the names of profiles."""
    source = filled()
    before = len(source.records())
    assert "the target is the source" in refused(source, source, names=("a/t", "b/t"))
    assert len(source.records()) == before


def test_a_target_with_its_own_times_is_refused() -> None:
    """``LogAppendTime`` would replace the original times."""
    assert "time of their arrival" in refused(filled(), staging(config={"message.timestamp.type": "LogAppendTime"}))


def test_a_target_that_would_delete_the_records_is_refused() -> None:
    """Short retention and limits of timestamps are refused; unlimited retention is accepted."""
    week = str(7 * 24 * 3600 * 1000)
    assert "retention" in refused(filled(), staging(config={"retention.ms": week}))
    assert "before.max.ms" in refused(filled(), staging(config={"message.timestamp.before.max.ms": week}))
    Replay(filled(), staging(config={"retention.ms": "-1"})).run()
    Replay(filled(), staging(config={"retention.ms": week, "cleanup.policy": "compact"})).run()


def test_a_dry_run_writes_nothing_and_refuses_the_same() -> None:
    """The report has counts, bytes, an estimate, and samples before and after masking."""
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
