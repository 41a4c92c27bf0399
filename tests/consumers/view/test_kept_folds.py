"""What checkpoints and views keep of folds of users: whoever knows none of them goes on all the same."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from owners import Owner
from seekpoint.consumers.checkpoints.checkpoint import Checkpoint, PartitionHeads
from seekpoint.consumers.view.view_rows import head_of, mail_of, state_of
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import JournalMismatch
from seekpoint.schemas.folding.fold import fold
from seekpoint.schemas.folds import UserFold, only
from seekpoint.schemas.log.memory_log import MemoryLog
from seekpoint.schemas.state.process_state import State, new_state

MORE = {"spent": (3, '{"usd":1.5}')}


def _usd(value: dict[str, float], kind: str, payload: Any) -> dict[str, float]:
    return {"usd": value["usd"] + payload}


def _written(*customs: b.Custom) -> State:
    log, found = MemoryLog(partitions=1), new_state()
    owner = Owner(log.append, 1, "case-17")
    owner.claim()
    for custom in customs:
        owner.own(custom)
    for batch in log.read(0, 0, 1 + len(customs)):
        for record in batch.records:
            found = fold(found, record.offset, log.codec.decode(record.value))
    return found


@pytest.fixture
def state() -> State:
    """A checkpoint has the result of a fold that is not registered any more."""
    with only(UserFold("spent", 3, '{"usd":0.0}', _usd)):
        return _written(b.Custom("paid", "1.5"))


@pytest.fixture
def checkpoint(state: State) -> Checkpoint:
    return Checkpoint.of("case-17", 0, state, "topic", -1)


def test_an_unknown_folds_state_comes_through_a_checkpoint(checkpoint: Checkpoint, state: State) -> None:
    """Name, version and text stay; the process's own state and its head are read as before."""
    data = checkpoint.to_bytes()
    found = Checkpoint.from_bytes(data)
    assert found == checkpoint
    recovered = found.verified("case-17", "topic")
    assert (recovered, recovered.folds) == (state, state.folds)
    assert (recovered.folds["spent"].version, recovered.folds["spent"].value_json) == MORE["spent"]
    partition = PartitionHeads({}, None, 0)
    partition.apply(7, b"case-17", data)
    assert partition.heads[b"case-17"].position == 7


def test_a_folds_state_is_part_of_the_checkpoints_hash(checkpoint: Checkpoint) -> None:
    """A changed result is damage."""
    data = checkpoint.to_bytes()
    damaged = data.replace(b'usd\\":1.5', b'usd\\":9.5', 1)
    assert damaged != data
    with pytest.raises(JournalMismatch, match="hash"):
        Checkpoint.from_bytes(damaged).verified("case-17", "topic")


@pytest.mark.parametrize("more", [[], {}, None, 3, MORE])
def test_what_a_checkpoints_head_says_besides_is_passed_over(
    checkpoint: Checkpoint, state: State, more: object
) -> None:
    """The first ones had a place for folds there, mostly an empty one; a later format may add something."""
    line, _, rest = checkpoint.to_bytes().partition(b"\n")
    head = {**orjson.loads(line), "folds": more}
    found = Checkpoint.from_bytes(orjson.dumps(head) + b"\n" + rest)
    assert found == checkpoint
    assert found.verified("case-17", "topic") == state


def test_an_unknown_folds_state_in_a_views_head_is_passed_over() -> None:
    """The state is what it is without it."""
    state = _written()
    head = head_of(state)
    more = orjson.dumps({**orjson.loads(head), "folds": MORE})
    assert state_of(more, mail_of(state), [], []) == state
