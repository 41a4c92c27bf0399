"""Users' folds have the value of a plain fold, or none, in every tier and whichever projector ran."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from histories import ACTIONS, PROCESS_IDS, Step, Written, expected_states, write_history
from owners import Owner
from projected_log import Projected
from seekpoint.consumers.recovery.points import Point
from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.consumers.recovery.tiers import Tier
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import FoldUnavailable, JournalGap, TierUnavailable
from seekpoint.schemas.folding.fold import Verdict, advance
from seekpoint.schemas.folds import UserFold, only
from seekpoint.schemas.log.memory_log import MemoryLog
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.state.process_state import Draft

PARTITIONS = 2
DELETED = [Step("case-17", "claim", 0), Step("case-17", "custom", 1), Step("case-17", "delete", 0)]
"""A history whose deletion must begin each fold of users anew."""


def _sum(value: int, kind: str, payload: Any) -> int:
    return (value * 31 + payload) % 100_003 if kind == "paid" else value


def _other(value: int, kind: str, payload: Any) -> int:
    return value - 1


SPENT, NEWER, COUNT = UserFold("spent", 1, "0", _sum), UserFold("spent", 2, "0", _other), UserFold("n", 1, "0", _other)
FLEETS = ((), (SPENT,), (NEWER,), (COUNT,), (SPENT, COUNT))


@pytest.fixture(autouse=True)
def no_folds() -> Iterator[None]:
    with only():
        yield


class Round(NamedTuple):
    """What a projector that knows ``folds`` did at some point of the history."""

    percent: int
    folds: tuple[UserFold, ...]
    saved: frozenset[str]
    projects: bool


def steps() -> st.SearchStrategy[list[Step]]:
    """Histories in which owners write custom entries more than anything else."""
    actions = st.sampled_from(("custom",) * len(ACTIONS) + ACTIONS)
    one = st.builds(Step, st.sampled_from(PROCESS_IDS), actions, st.integers(0, 30))
    claims = [Step(process_id, "claim", 0) for process_id in PROCESS_IDS]
    return st.lists(one, min_size=5, max_size=40).map(lambda found: claims + found)


def rounds() -> st.SearchStrategy[list[Round]]:
    saved = st.frozensets(st.sampled_from(PROCESS_IDS))
    one = st.builds(Round, st.integers(0, 100), st.sampled_from(FLEETS), saved, st.booleans())
    return st.lists(one, max_size=4).map(lambda found: sorted(found, key=lambda each: each.percent))


def kept(history: list[Step], plan: list[Round]) -> Projected:
    log = MemoryLog(partitions=PARTITIONS)
    projected = Projected(log, write_history(history, log.append, PARTITIONS))
    for one in plan:
        with only(*one.folds):
            for partition in range(PARTITIONS):
                stop = log.watermarks(partition).high * one.percent // 100
                projected.save(partition, stop, [process_id.encode() for process_id in one.saved])
                if one.projects:
                    projected.project(partition, stop)
    return projected


def plain(written: Sequence[Written], process_id: str) -> int | None:
    """Return what the function makes of the custom entries applied since the last deletion; None if it is finished."""
    draft, value = Draft(), 0
    for one in written:
        if one.entry is not None and one.entry.process_id == process_id:
            applied = advance(draft, one.offset, one.entry) is Verdict.APPLIED
            if applied and isinstance(one.entry.body, b.Deleted):
                value = 0
            elif applied and isinstance(one.entry.body, b.Custom):
                value = _sum(value, one.entry.body.kind, int(one.entry.body.payload))
    return None if draft.finished else value


@settings(deadline=None)
@given(steps(), rounds(), st.booleans())
def test_every_tier_gives_the_plain_folds_value_or_none(history: list[Step], plan: list[Round], trimmed: bool) -> None:
    """While the log is complete, a recovery without a forced tier always has the value. With a forced tier, or
    after a trim, it has the value or raises ``FoldUnavailable``. The rest of the state is right in any case.
    """
    projected = kept(history, plan)
    if trimmed:
        for partition, floor in projected.floors.items():
            projected.log.trim(partition, floor)
    recoverer = Recoverer(projected.log, view=projected.view, checkpoints=projected.checkpoints)
    for process_id, state in expected_states(projected.written).items():
        expected = plain(projected.written, process_id)
        whole = not projected.log.watermarks(partition_of(process_id.encode(), PARTITIONS)).low
        for tier in (None, *Tier):
            with only(SPENT, COUNT):
                try:
                    found = recoverer.recover(process_id, tier=tier, missing_ok=True)
                except (TierUnavailable, JournalGap):
                    assert tier is not None
                    continue
                assert found.state.hash == state.hash
                try:
                    assert found.state.folded("spent") == expected
                except FoldUnavailable:
                    assert expected is None or (tier in (Tier.VIEW, Tier.CHECKPOINT)) or not whole


@settings(deadline=None)
@given(steps(), rounds())
@example(DELETED, [])
def test_many_at_once_have_their_values_too(history: list[Step], plan: list[Round]) -> None:
    """One scan a partition starts where a process with stale folds needs it."""
    projected = kept(history, plan)
    recoverer = Recoverer(projected.log, view=projected.view, checkpoints=projected.checkpoints)
    with only(SPENT):
        for process_id, found in recoverer.recover_many(PROCESS_IDS).items():
            expected = plain(projected.written, process_id)
            if expected is not None:
                assert found.state.folded("spent") == expected


def paid(log: MemoryLog, *cents: int) -> Owner:
    owner = Owner(log.append, log.partitions, "case-17")
    owner.claim()
    for one in cents:
        owner.own(b.Custom("paid", str(one)))
    return owner


def test_a_report_says_why_a_base_was_passed_over() -> None:
    """It names the fold, its problem, and the tier that was not used."""
    log = MemoryLog(partitions=1)
    paid(log, 3, 4)
    projected = Projected(log, [])
    projected.written = _all_of(log)
    projected.project(0, 3)
    recoverer = Recoverer(log, view=projected.view)
    with only(SPENT):
        found = recoverer.recover("case-17")
        assert found.report.tier is Tier.SCAN
        assert found.report.notes == ("view: fold spent: it was not folded along",)
        past = recoverer.recover("case-17", point=Point(seq=1))
        assert past.state.folded("spent") == 3


def _all_of(log: MemoryLog) -> list[Written]:
    records = [record for batch in log.read(0, 0, log.watermarks(0).high) for record in batch.records]
    return [Written(0, one.offset, one.key, one.value, log.codec.decode(one.value)) for one in records]
