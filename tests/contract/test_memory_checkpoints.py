"""Checkpoints in memory keep the promises of a ``CheckpointReader``, and break where a test says so."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from checkpoints_contract import CheckpointsContract, OpenTransaction, RawCheckpoint
from seekpoint.consumers.checkpoints.memory_checkpoints import MemoryCheckpoints


class MemoryBench:
    """``MemoryCheckpoints``."""

    def __init__(self) -> None:
        self.reader = self.impatient = MemoryCheckpoints(4)

    def write(self, partition: int, records: Sequence[RawCheckpoint]) -> list[int]:
        return self.reader.write(partition, records)

    def begin(self) -> OpenTransaction:
        return self.reader.begin()

    def wait_for_stable_end(self, partition: int, position: int) -> None:
        assert self.reader.stable_end(partition) == position


@pytest.fixture
def kept() -> MemoryBench:
    return MemoryBench()


class TestMemoryCheckpoints(CheckpointsContract):
    """Inherited."""


def test_compaction_keeps_the_newest_of_each_key_below_the_stable_end() -> None:
    """What is aborted goes; an open transaction, and what is behind it, stays."""
    kept = MemoryCheckpoints(1)
    kept.write(0, [(b"a", b"1"), (b"b", b"1")])
    aborted = kept.begin()
    aborted.put(0, b"b", b"aborted")
    aborted.abort()
    kept.write(0, [(b"a", b"2")])
    undecided = kept.begin()
    undecided.put(0, b"a", b"3")
    kept.compact(0)
    assert list(kept.records(0, 0, kept.stable_end(0))) == [(1, b"b", b"1"), (4, b"a", b"2")]
    assert kept.at(0, 0, b"a") is None
    assert kept.at(0, 2, b"a") is None, "the next record is the same process's, but another checkpoint"
    undecided.commit()
    assert list(kept.records(0, 0, kept.stable_end(0)))[-1] == (5, b"a", b"3")
    assert kept.end(0) == 7


def test_a_corrupted_value_is_another_one() -> None:
    """At the same place, under the same key."""
    kept = MemoryCheckpoints(1)
    kept.write(0, [(b"a", b"1"), (b"a", b"2")])
    kept.corrupt(0, 0)
    kept.corrupt(0, 1, b"junk")
    assert [value for _, _, value in kept.records(0, 0, 2)] == [b"0", b"junk"]


def test_a_decided_transaction_takes_nothing_more() -> None:
    """Neither records nor another decision."""
    kept = MemoryCheckpoints(1)
    transaction = kept.begin()
    transaction.commit()
    with pytest.raises(ValueError, match="decided"):
        transaction.put(0, b"a", b"1")
    with pytest.raises(ValueError, match="decided"):
        transaction.abort()


def test_recreated_checkpoints_start_empty() -> None:
    """Empty, at position 0."""
    kept = MemoryCheckpoints(2)
    kept.write(0, [(b"a", b"1")])
    kept.recreate()
    assert (kept.end(0), kept.at(0, 0, b"a")) == (0, None)
