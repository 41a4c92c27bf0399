"""The unfinished processes of a partition, and that the finished ones do not make them slower to find."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from histories import PROCESS_IDS, Step, Written, expected_states, steps, write_history
from projected_log import Projected
from seekpoint.consumers.checkpoints.checkpoint import Checkpoint
from seekpoint.consumers.recovery import open_processes
from seekpoint.consumers.recovery.open_processes import open_states, recover_open
from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.consumers.recovery.recovery_report import is_known
from seekpoint.consumers.view.process_summary import Summary
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry, new_id
from seekpoint.schemas.folding.fold import SHARED_PREFIX
from seekpoint.schemas.log.log_ports import Batch
from seekpoint.schemas.log.memory_log import MemoryLog
from seekpoint.schemas.state.process_state import State
from seekpoint.schemas.wire.codec import encode

PARTITIONS = 2
FINISHED, OPEN = 400, 5


def is_shared(process_id: str) -> bool:
    return process_id.startswith(SHARED_PREFIX)


@settings(deadline=None)
@given(
    steps(),
    st.integers(0, 100),
    st.integers(0, 100),
    st.frozensets(st.sampled_from(PROCESS_IDS)),
    st.sampled_from(["view", "checkpoints", "both", "neither"]),
)
def test_they_are_those_of_a_plain_fold(
    history: list[Step], view: int, stop: int, saved: frozenset[str], tiers: str
) -> None:
    """Whatever view and checkpoints exist, and however far behind they are."""
    log = MemoryLog(partitions=PARTITIONS)
    projected = Projected(log, write_history(history, log.append, PARTITIONS))
    for partition in range(PARTITIONS):
        high = log.watermarks(partition).high
        projected.save(partition, high * stop // 100, [process_id.encode() for process_id in saved])
        projected.project(partition, high * view // 100)
    recoverer = Recoverer(
        log,
        view=projected.view if tiers in ("view", "both") else None,
        checkpoints=projected.checkpoints if tiers in ("checkpoints", "both") else None,
    )
    expected = {one: state for one, state in expected_states(projected.written).items() if is_known(state)}
    found: dict[str, State] = {}
    for partition in range(PARTITIONS):
        found.update({one: recovered.state for one, recovered in recover_open(recoverer, partition).items()})
    assert {one: state for one, state in found.items() if not is_shared(one)} == {
        one: state for one, state in expected.items() if not state.finished and not is_shared(one)
    }
    assert not [one for one, state in found.items() if state.finished]


class Counted(Recoverer):
    """Counts how many processes were recovered."""

    def __init__(self, projected: Projected, *, with_view: bool) -> None:
        super().__init__(projected.log, view=projected.view if with_view else None, checkpoints=projected.checkpoints)
        self.recovered = 0

    def recover_partition(self, partition, process_ids=None, **options):  # type: ignore[no-untyped-def]
        found = super().recover_partition(partition, process_ids, **options)
        self.recovered += len(found)
        return found


def many() -> Projected:
    """Return a log with many finished processes, all saved and projected, and a few unfinished ones."""
    log = MemoryLog(partitions=1)
    written: list[Written] = []
    for number in range(FINISHED + OPEN):
        process_id, claim = f"p{number}", new_id()
        own = (b.ContextUpdated("finished", "true"), *((b.Finished("1"),) if number < FINISHED else ()))
        entries = [Entry(claim, process_id, None, 0, None, None, 0, None, None, None, b.Claim(0, "n", "b"))]
        entries += [
            Entry(new_id(), process_id, seq, 1, claim, None, 0, None, None, None, body)
            for seq, body in enumerate(own, 1)
        ]
        for entry in entries:
            value, key = encode(entry), process_id.encode()
            written.append(Written(0, log.append(0, key, value), key, value, entry))
    projected = Projected(log, written)
    high = log.watermarks(0).high
    projected.save(0, high, [f"p{number}".encode() for number in range(FINISHED + OPEN)])
    projected.project(0, high)
    return projected


@pytest.mark.parametrize("with_view", [True, False])
def test_finished_ones_are_not_read(with_view: bool) -> None:
    """Neither their states nor their entries: the view's index, or the heads of the checkpoints, leave them out."""
    projected = many()
    recoverer = Counted(projected, with_view=with_view)
    read: list[int] = []
    of_log = projected.log.read

    def counted(*arguments, **named):  # type: ignore[no-untyped-def]
        for batch in of_log(*arguments, **named):
            assert isinstance(batch, Batch)
            read.append(batch.scanned)
            yield batch

    projected.log.read = counted  # type: ignore[method-assign]
    assert recover_open(recoverer, 0).keys() == {f"p{FINISHED + number}" for number in range(OPEN)}
    assert recoverer.recovered == OPEN
    assert sum(read) == 0


def test_a_finished_state_without_its_hash_is_not_believed() -> None:
    """Else a damaged checkpoint would hide a process from every worker."""
    state = expected_states([]).popitem()[1]
    draft = state.thaw()
    draft.finished = True
    checkpoint = Checkpoint.of("p", 0, draft.freeze(), "topic", 0)
    assert checkpoint.head_at(0).is_finished
    damaged = checkpoint.to_bytes().replace(b'"epoch":0,"finished"', b'"epoch":7,"finished"')
    assert damaged != checkpoint.to_bytes()
    assert not Checkpoint.from_bytes(damaged).head_at(0).is_finished


def test_a_context_value_named_finished_ends_nothing() -> None:
    """The flag is read where it is."""
    draft = expected_states([]).popitem()[1].thaw()
    draft.values_json = {"finished": "true"}
    assert not Checkpoint.of("p", 0, draft.freeze(), "topic", 0).head_at(0).is_finished


@settings(deadline=None)
@given(steps(), st.integers(0, 100), st.sampled_from(["view", "checkpoints", "neither"]), st.integers(1, 3))
def test_the_wanted_ones_are_those_of_a_plain_fold(history: list[Step], view: int, tiers: str, at_once: int) -> None:
    """By id, as of now, however far the view is behind; and it is said whether the view was read."""
    log = MemoryLog(partitions=1)
    projected = Projected(log, write_history(history, log.append, 1))
    high = log.watermarks(0).high
    projected.save(0, high * view // 100, [process_id.encode() for process_id in PROCESS_IDS])
    projected.project(0, high * view // 100)
    recoverer = Recoverer(
        log,
        view=projected.view if tiers == "view" else None,
        checkpoints=projected.checkpoints if tiers == "checkpoints" else None,
    )

    def wants(one: Summary) -> bool:
        return one.lifecycle == "running"

    why: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(open_processes, "_STATES_MAX", at_once)
        found = list(open_states(recoverer, 0, wants, why.append))
    assert dict(found) == {
        one: state
        for one, state in expected_states(projected.written).items()
        if is_known(state) and not state.finished and state.lifecycle == "running" and not is_shared(one)
    }
    assert [one for one, _ in found] == sorted(one for one, _ in found)
    assert why == ([] if tiers == "view" else ["the settings name no Redis"])


@pytest.mark.parametrize("with_view", [True, False])
def test_only_wanted_ones_are_recovered_from_the_view(with_view: bool) -> None:
    """Its summaries tell which; checkpoints tell only which are unfinished."""
    recoverer, why = Counted(many(), with_view=with_view), list[str]()
    wanted = f"p{FINISHED + 1}"
    found = [name for name, _ in open_states(recoverer, 0, lambda one: one.process_id == wanted, why.append)]
    assert found == [wanted]
    assert recoverer.recovered == (1 if with_view else OPEN)
    assert bool(why) is not with_view


def test_a_view_that_cannot_be_used_is_told() -> None:
    """With the reason: there is none, it is being rebuilt, or it is of another log."""
    projected, why = many(), list[str]()
    recoverer = Counted(projected, with_view=True)
    projected.view.install(0, projected.log.topic_id)
    assert len(list(open_states(recoverer, 0, lambda one: True, why.append))) == OPEN
    projected.view.ready(0, projected.view.install(0, "other"), 3, -1)
    assert len(list(open_states(recoverer, 0, lambda one: True, why.append))) == OPEN
    assert ["being rebuilt" in why[0], "another journal topic" in why[1]] == [True, True], why
