"""What every ``CheckpointReader`` promises: a test of an implementation inherits it and brings ``kept``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pytest

from seekpoint.consumers.checkpoints.checkpoint import (
    FLOOR_KEY,
    Checkpoint,
    CheckpointHead,
    CheckpointReader,
    Floor,
    digest_of,
    read_heads,
)
from seekpoint.schemas.errors import JournalUnavailable, LogTruncated
from seekpoint.schemas.state.process_state import new_state

__all__ = ["CheckpointsBench", "CheckpointsContract", "OpenTransaction", "RawCheckpoint"]

RawCheckpoint = tuple[bytes, bytes | None]
"""Key and value."""


class OpenTransaction(Protocol):
    """One that is not decided yet."""

    def put(self, partition: int, key: bytes, value: bytes | None) -> int:
        """Write within it; the position."""

    def commit(self) -> None:
        """All of it, at once."""

    def abort(self) -> None:
        """Nothing of it."""


class CheckpointsBench(Protocol):
    """Checkpoints on the bench: read through the port, written behind its back."""

    reader: CheckpointReader
    impatient: CheckpointReader
    """One that does not wait long for an open transaction."""

    def write(self, partition: int, records: Sequence[RawCheckpoint]) -> list[int]:
        """Append; the positions."""

    def begin(self) -> OpenTransaction:
        """A transaction."""

    def wait_for_stable_end(self, partition: int, position: int) -> None:
        """Until the last stable position is this one: markers may come after their answer."""


def _all(reader: CheckpointReader, partition: int, start: int = 0) -> list[tuple[int, bytes, bytes | None]]:
    return list(reader.records(partition, start, reader.stable_end(partition)))


class CheckpointsContract:
    """The promises."""

    def test_records_come_back_with_their_positions(self, kept: CheckpointsBench) -> None:
        """In order, tombstones too; partitions are apart."""
        assert (kept.reader.end(1), kept.reader.stable_end(1), _all(kept.reader, 1)) == (0, 0, [])
        assert kept.write(1, [(b"a", b"1"), (b"b", b"2"), (b"a", None)]) == [0, 1, 2]
        assert _all(kept.reader, 1) == [(0, b"a", b"1"), (1, b"b", b"2"), (2, b"a", None)]
        assert (kept.reader.end(1), kept.reader.stable_end(1)) == (3, 3)
        assert _all(kept.reader, 0) == []

    def test_a_stretch_is_from_start_to_before_stop(self, kept: CheckpointsBench) -> None:
        """[start, stop)."""
        kept.write(1, [(b"a", b"%d" % number) for number in range(5)])
        assert [position for position, _, _ in kept.reader.records(1, 1, 3)] == [1, 2]
        assert list(kept.reader.records(1, 3, 3)) == []

    def test_a_stretch_beyond_the_end_is_truncated(self, kept: CheckpointsBench) -> None:
        """Whoever names a position was told of it."""
        kept.write(1, [(b"a", b"1")])
        with pytest.raises(LogTruncated):
            list(kept.reader.records(1, 0, 3))

    def test_a_point_read_gives_the_record_at_exactly_that_position(self, kept: CheckpointsBench) -> None:
        """Under exactly that key; anything else, the end too, is None."""
        kept.write(1, [(b"a", b"1"), (b"b", b"2")])
        assert kept.reader.at(1, 0, b"a") == b"1"
        assert kept.reader.at(1, 1, b"b") == b"2"
        assert kept.reader.at(1, 0, b"b") is None
        assert kept.reader.at(1, 2, b"a") is None
        assert kept.reader.at(1, 9, b"a") is None

    def test_a_large_record_is_read_whole(self, kept: CheckpointsBench) -> None:
        """However little a point read fetches at a time."""
        kept.write(1, [(b"a", b"x" * 700_000), (b"a", b"y")])
        assert kept.reader.at(1, 0, b"a") == b"x" * 700_000
        assert kept.reader.at(1, 1, b"a") == b"y"

    def test_a_committed_transaction_is_there_at_once(self, kept: CheckpointsBench) -> None:
        """All its records; the marker behind them takes a position and is no record."""
        transaction = kept.begin()
        assert [transaction.put(1, key, b"1") for key in (b"a", b"b")] == [0, 1]
        transaction.commit()
        kept.wait_for_stable_end(1, 3)
        assert _all(kept.reader, 1) == [(0, b"a", b"1"), (1, b"b", b"1")]
        assert kept.reader.at(1, 1, b"b") == b"1"
        assert kept.write(1, [(b"c", b"1")]) == [3]
        assert kept.reader.at(1, 2, b"c") is None

    def test_an_aborted_transaction_never_was(self, kept: CheckpointsBench) -> None:
        """Neither in a stretch nor by position."""
        kept.write(1, [(b"a", b"1")])
        transaction = kept.begin()
        position = transaction.put(1, b"a", b"2")
        transaction.abort()
        kept.wait_for_stable_end(1, 3)
        kept.write(1, [(b"a", b"3")])
        assert _all(kept.reader, 1) == [(0, b"a", b"1"), (3, b"a", b"3")]
        assert kept.reader.at(1, position, b"a") is None

    def test_an_open_transaction_holds_back_the_stable_end(self, kept: CheckpointsBench) -> None:
        """Also of what others wrote behind it; the end counts it."""
        kept.write(1, [(b"a", b"1")])
        transaction = kept.begin()
        position = transaction.put(1, b"a", b"2")
        kept.write(1, [(b"b", b"1")])
        assert (kept.reader.end(1), kept.reader.stable_end(1)) == (3, 1)
        assert _all(kept.reader, 1) == [(0, b"a", b"1")]
        assert kept.reader.at(1, position, b"a") is None
        with pytest.raises(JournalUnavailable):
            list(kept.impatient.records(1, 0, 3))
        transaction.commit()
        kept.wait_for_stable_end(1, 4)
        assert [key for _, key, _ in _all(kept.reader, 1)] == [b"a", b"a", b"b"]
        assert kept.reader.at(1, position, b"a") == b"2"

    def test_a_partition_is_read_on_from_where_it_was_known(self, kept: CheckpointsBench) -> None:
        """The newest checkpoint of each process, and the newest floor; only what is new is read."""
        kept.write(1, [(b"a", snapshot("a")), (b"b", snapshot("b")), (FLOOR_KEY, floor(3)), (b"a", snapshot("a"))])
        known = read_heads(kept.reader, 1)
        assert known.heads == {b"a": head(3), b"b": head(1)}
        assert known.floor is not None
        assert (known.floor.offset, known.position) == (3, 4)
        kept.write(1, [(b"b", None), (FLOOR_KEY, floor(7))])
        assert read_heads(kept.reader, 1, known) is known
        assert known.heads == {b"a": head(3)}
        assert (known.floor.offset, known.position) == (7, 6)


def head(position: int) -> CheckpointHead:
    """What is known of the checkpoint of a new process, written at ``position``."""
    return CheckpointHead(-1, position, -1, digest_of(new_state()))


def snapshot(process_id: str) -> bytes:
    """The checkpoint of a new process."""
    return Checkpoint.of(process_id, 1, new_state(), "topic", -1).to_bytes()


def floor(offset: int) -> bytes:
    """A floor there."""
    return Floor(offset=offset, leader_epoch=-1, topic_id="topic", since=0).to_bytes()
