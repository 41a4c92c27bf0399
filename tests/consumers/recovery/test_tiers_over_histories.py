"""Every tier gives the state of a scan, whatever view and checkpoints exist."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from histories import PROCESS_IDS, Step, expected_states, steps, write_history
from projected_log import Projected
from seekpoint.consumers.recovery.points import Point
from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.consumers.recovery.recovery_report import is_known
from seekpoint.consumers.recovery.tiers import Tier
from seekpoint.consumers.recovery.verification import verify, verify_all
from seekpoint.schemas.errors import JournalGap, TierUnavailable, UnknownPoint
from seekpoint.schemas.folding.fold import fold
from seekpoint.schemas.log.log_ports import Batch
from seekpoint.schemas.log.memory_log import MemoryLog
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.state.process_state import new_state

PARTITIONS = 2


class Round(NamedTuple):
    """What a projector did at some point of the history, in percent of each partition."""

    percent: int
    saved: frozenset[str]
    projects: bool
    compacts: bool


def rounds() -> st.SearchStrategy[list[Round]]:
    one = st.builds(
        Round, st.integers(0, 100), st.frozensets(st.sampled_from(PROCESS_IDS)), st.booleans(), st.booleans()
    )
    return st.lists(one, max_size=5).map(lambda found: sorted(found, key=lambda each: each.percent))


def kept(history: list[Step], plan: list[Round]) -> Projected:
    log = MemoryLog(partitions=PARTITIONS)
    projected = Projected(log, write_history(history, log.append, PARTITIONS))
    for one in plan:
        for partition in range(PARTITIONS):
            stop = log.watermarks(partition).high * one.percent // 100
            projected.save(partition, stop, [process_id.encode() for process_id in one.saved])
            if one.projects:
                projected.project(partition, stop)
            if one.compacts:
                projected.checkpoints.compact(partition)
    return projected


def recoverer_of(projected: Projected) -> Recoverer:
    return Recoverer(projected.log, view=projected.view, checkpoints=projected.checkpoints)


@settings(deadline=None)
@given(steps(), rounds())
def test_every_tier_equals_the_scan(history: list[Step], plan: list[Round]) -> None:
    """The states and ``known`` are equal. A tier is only missing where nothing was projected or saved."""
    projected = kept(history, plan)
    recoverer = recoverer_of(projected)
    for process_id, state in expected_states(projected.written).items():
        home = partition_of(process_id.encode(), PARTITIONS)
        there = {
            None: True,
            Tier.SCAN: True,
            Tier.VIEW: projected.view.meta(home) is not None,
            Tier.CHECKPOINT: bool(plan),
        }
        for tier, usable in there.items():
            try:
                found = recoverer.recover(process_id, tier=tier, missing_ok=True)
            except TierUnavailable:
                assert not usable
                continue
            assert usable
            assert found.state == state
            assert found.known == is_known(state)
            assert found.report.notes == () or (found.report.notes, tier) == (("view: there is none",), None)
            assert tier is None or found.report.tier is tier
            assert found.report.entries_scanned <= found.report.log_end - found.report.seek_point


@settings(deadline=None)
@given(steps(), rounds())
def test_many_at_once_are_what_they_are_one_by_one(history: list[Step], plan: list[Round]) -> None:
    """This holds for all processes too, and for every tier."""
    projected = kept(history, plan)
    recoverer = recoverer_of(projected)
    expected = expected_states(projected.written)
    assert {name: one.state for name, one in recoverer.recover_many(PROCESS_IDS).items()} == expected
    for tier in (None, *Tier):
        everyone = {}
        try:
            for partition in range(PARTITIONS):
                everyone.update(recoverer.recover_partition(partition, tier=tier))
        except TierUnavailable:
            assert tier in (Tier.VIEW, Tier.CHECKPOINT)
            continue
        found = {name: one.state for name, one in everyone.items()}
        assert found == {name: state for name, state in expected.items() if is_known(state)}


@settings(deadline=None)
@given(steps(), rounds())
def test_all_are_verified_as_one_by_one_and_read_no_partition_for_each(history: list[Step], plan: list[Round]) -> None:
    """The hashes and missing methods are equal. The beginning is read for all at once."""
    projected = kept(history, plan)
    recoverer = recoverer_of(projected)
    whole: list[int] = []
    read = projected.log.read

    def counted(partition: int, start: int, stop: int, keys: Collection[bytes] | None = None) -> Iterator[Batch]:
        whole.extend([partition] if start == 0 and keys is None and stop > 0 else [])
        return read(partition, start, stop, keys)

    projected.log.read = counted  # type: ignore[method-assign]
    found = {one.process_id: one for one in verify_all(recoverer)}
    assert all(whole.count(partition) <= 3 for partition in whole)
    known = {name for name, state in expected_states(projected.written).items() if is_known(state)}
    assert found.keys() == known
    for process_id, one in found.items():
        assert one == verify(recoverer, process_id)
        assert one.agrees


@settings(deadline=None)
@given(steps(), rounds())
def test_a_log_that_was_trimmed_to_its_floor_loses_nothing(history: list[Step], plan: list[Round]) -> None:
    """Checkpoints replace the deleted entries, and only the scan is a gap. A view that is behind is not used."""
    projected = kept(history, plan)
    recoverer = recoverer_of(projected)
    for partition, floor in projected.floors.items():
        projected.log.trim(partition, floor)
    for process_id, state in expected_states(projected.written).items():
        home = partition_of(process_id.encode(), PARTITIONS)
        low = projected.log.watermarks(home).low
        for tier in (None, *Tier):
            try:
                found = recoverer.recover(process_id, tier=tier, missing_ok=True)
            except JournalGap:
                assert (tier, low > 0) == (Tier.SCAN, True)
            except TierUnavailable:
                assert tier is Tier.VIEW or not plan
            else:
                assert found.state == state


@settings(deadline=None)
@given(steps(40), rounds(), st.booleans())
def test_every_point_in_the_past_is_the_same_from_any_base(
    history: list[Step], plan: list[Round], trimmed: bool
) -> None:
    """It is the scan's state, or a gap where the log was trimmed and no base is left, and never another state."""
    projected = kept(history, plan)
    recoverer = recoverer_of(projected)
    if trimmed:
        for partition, floor in projected.floors.items():
            projected.log.trim(partition, floor)
    for process_id in PROCESS_IDS:
        state = new_state()
        for one in projected.written:
            if one.entry is None or one.entry.process_id != process_id:
                continue
            before, state = state.seq, fold(state, one.offset, one.entry)
            points = [Point(offset=one.offset)] + ([Point(seq=state.seq)] if state.seq > before else [])
            for point in points:
                for tier in (None, *Tier):
                    try:
                        found = recoverer.recover(process_id, tier=tier, point=point, missing_ok=True)
                    except (JournalGap, TierUnavailable):
                        assert trimmed or tier is not None
                    except UnknownPoint:
                        raise AssertionError(f"{point} was there") from None
                    else:
                        assert found.state == state


@settings(deadline=None)
@given(steps(), rounds(), st.data())
def test_a_damaged_checkpoint_is_reported_and_the_next_tier_is_used(
    history: list[Step], plan: list[Round], data: st.DataObject
) -> None:
    """No older checkpoint replaces it."""
    projected = kept(history, plan)
    for partition in range(PARTITIONS):
        for position, _, _ in list(
            projected.checkpoints.records(partition, 0, projected.checkpoints.stable_end(partition))
        ):
            if data.draw(st.integers(0, 3)) == 0:
                projected.checkpoints.corrupt(partition, position, data.draw(st.sampled_from([None, b"junk"])))
    recoverer = Recoverer(projected.log, checkpoints=projected.checkpoints)
    for process_id, state in expected_states(projected.written).items():
        found = recoverer.recover(process_id, missing_ok=True)
        assert found.state == state
        assert found.report.tier is Tier.CHECKPOINT or found.report.notes or not plan


@settings(deadline=None)
@given(steps(), rounds())
def test_verify_compares_all_there_is(history: list[Step], plan: list[Round]) -> None:
    """Scan, audit, checkpoint and view have one hash."""
    projected = kept(history, plan)
    recoverer = recoverer_of(projected)
    for process_id, state in expected_states(projected.written).items():
        if is_known(state):
            found = verify(recoverer, process_id)
            assert set(found.hashes.values()) == {state.hash}
            assert set(found.hashes) | set(found.missing) == {"scan", "audit", "view", "checkpoint"}
            assert ("checkpoint" in found.missing) == (not plan)
