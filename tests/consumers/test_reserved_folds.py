"""The place that checkpoints and views keep for folds of users: whoever knows none of them goes on all the same."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest

from owners import Owner
from seekpoint.consumers.checkpoints import Checkpoint, Partition, _digest, take
from seekpoint.consumers.view_rows import head_of, mail_of, state_of, summary_in
from seekpoint.schemas.errors import JournalMismatch
from seekpoint.schemas.fold import fold
from seekpoint.schemas.log import MemoryLog
from seekpoint.schemas.state import State, new_state

FOLDS = {"spent": (3, '{"usd":1.5}')}


@pytest.fixture
def state() -> State:
    log, found = MemoryLog(partitions=1), new_state()
    owner = Owner(log.append, 1, "case-17")
    owner.claim()
    for batch in log.read(0, 0, 1):
        for record in batch.records:
            found = fold(found, record.offset, log.codec.decode(record.value))
    return found


@pytest.fixture
def checkpoint(state: State) -> Checkpoint:
    made = Checkpoint.of("case-17", 0, state, "topic", -1)
    return replace(made, folds=FOLDS, digest=_digest(made.state, FOLDS))


def test_an_unknown_folds_state_comes_through_a_checkpoint(checkpoint: Checkpoint, state: State) -> None:
    """Name, version and text are kept; the process's own state is used as ever, its head read as ever."""
    data = checkpoint.to_bytes()
    found = Checkpoint.from_bytes(data)
    assert (found, found.folds) == (checkpoint, FOLDS)
    assert found.verified("case-17", "topic") == state
    partition = Partition({}, None, 0)
    take(partition, 7, b"case-17", data)
    assert partition.saved[b"case-17"].position == 7


def test_a_folds_state_is_part_of_the_checkpoints_hash(checkpoint: Checkpoint) -> None:
    """Damage there is damage."""
    data = checkpoint.to_bytes().replace(b"1.5", b"9.5", 1)
    with pytest.raises(JournalMismatch, match="hash"):
        Checkpoint.from_bytes(data).verified("case-17", "topic")


@pytest.mark.parametrize("folds", [[], {}, None])
def test_a_checkpoint_without_folds_has_none(state: State, folds: object) -> None:
    """An empty list, as the first ones were written, an empty map, or nothing at all."""
    made = Checkpoint.of("case-17", 0, state, "topic", -1)
    line, _, rest = made.to_bytes().partition(b"\n")
    head = {**orjson.loads(line), "folds": folds}
    if folds is None:
        del head["folds"]
    found = Checkpoint.from_bytes(orjson.dumps(head) + b"\n" + rest)
    assert found == made
    assert found.verified("case-17", "topic") == state


@pytest.mark.parametrize("folds", [3, {"spent": 3}, {"spent": []}, {"spent": ["x", "{}"]}])
def test_what_is_no_fold_there_is_no_checkpoint(state: State, folds: object) -> None:
    """Typed, as any other damage."""
    line, _, rest = Checkpoint.of("case-17", 0, state, "topic", -1).to_bytes().partition(b"\n")
    data = orjson.dumps({**orjson.loads(line), "folds": folds}) + b"\n" + rest
    with pytest.raises(JournalMismatch):
        Checkpoint.from_bytes(data)


def test_an_unknown_folds_state_in_a_views_head_is_passed_over(state: State) -> None:
    """The state and the list are what they are without it."""
    head = head_of(state)
    more = orjson.dumps({**orjson.loads(head), "folds": FOLDS})
    assert state_of(more, mail_of(state), [], []) == state
    assert summary_in(0, b"case-17", more) == summary_in(0, b"case-17", head)
