"""Who gets the records of a partition's tail."""

from __future__ import annotations

from seekpoint.producers.tail.partition_tail import PartitionTail, Taken
from seekpoint.schemas.errors import SeekpointError
from seekpoint.schemas.log.log_ports import Landmark, Record
from seekpoint.schemas.log.tail import TailBatch


class Got:
    """A listener that keeps what it got."""

    def __init__(self, process_id: str) -> None:
        self.process_id = process_id
        self.key = process_id.encode()
        self.offsets: list[int] = []

    def absorb(self, records: list[Record], position: int) -> None:
        self.offsets += [record.offset for record in records]

    def fail(self, error: SeekpointError) -> None:
        raise error


def deliver(tail: PartitionTail, *keys: str) -> None:
    """Deliver one record for each key."""
    start = tail.position
    records = [Record(0, start + number, 0, key.encode(), b"") for number, key in enumerate(keys)]
    tail.deliver(TailBatch(0, [record.key for record in records], records.__getitem__, start + len(keys)))


class Seen:
    """An observer that keeps the offsets of what it got."""

    def __init__(self) -> None:
        self.offsets: list[int] = []

    def observe(self, batch: TailBatch) -> None:
        self.offsets += [batch.record(index).offset for index in range(len(batch.keys))]

    def fail(self, error: SeekpointError) -> None:
        raise error


def test_what_was_delivered_before_is_left_out() -> None:
    """A node's own records may come twice: when they are acknowledged, and as the tail reads them."""
    tail, handle, seen = PartitionTail(0, 0), Got("p"), Seen()
    tail.attach(handle)
    tail.observer = seen
    log = [Record(0, offset, 0, b"p", b"") for offset in (0, 1, 3, 4)]  # offsets may have holes

    def read(first: int, last: int) -> TailBatch:
        part = [record for record in log if first <= record.offset <= last]
        ends = Landmark(part[0].offset, 0), Landmark(part[-1].offset, 0)
        return TailBatch(0, [record.key for record in part], part.__getitem__, last + 1, *ends)

    deliver(tail, "p", "p")
    tail.deliver(read(0, 1))
    assert (tail.position, tail.last) == (2, Landmark(1, 0))
    tail.deliver(read(1, 3))
    tail.deliver(read(0, 4))
    assert (tail.position, tail.last) == (5, Landmark(4, 0))
    assert handle.offsets == seen.offsets == [0, 1, 3, 4]


def test_all_who_follow_a_process_get_its_records_beside_its_handle() -> None:
    """In the order of the log, until they are detached."""
    tail = PartitionTail(0, 0)
    handle, one, two, other = Got("p"), Got("p"), Got("p"), Got("q")
    tail.attach(handle)
    for each in (one, two, other, one):
        tail.attach_follower(each)
    assert {*tail.all_listeners} == {handle, one, two, other}
    deliver(tail, "p", "q", "p")
    tail.detach(two)
    tail.detach(handle)
    deliver(tail, "p", "r")
    assert (handle.offsets, one.offsets, two.offsets, other.offsets) == ([0, 2], [0, 2, 3], [0, 2], [1])
    tail.detach(one)
    tail.detach(other)
    assert not tail.followers


def test_what_was_taken_ends_where_a_read_has_moved_the_position() -> None:
    """Records of others lie between: they are not among those whose checksum is compared."""
    tail = PartitionTail(0, 0)
    tail.take([Record(0, 0, 0, b"p", b"a"), Record(0, 1, 0, b"p", b"b")], 1.0)
    tail.take([Record(0, 2, 0, b"p", b"c")], 2.0)
    assert tail.taken is not None
    assert (tail.taken.start, tail.taken.newest.offset, tail.taken.since) == (0, 2, 1.0)
    deliver(tail, "other")
    tail.take([Record(0, 4, 0, b"p", b"d")], 3.0)
    assert tail.taken == Taken.of([Record(0, 4, 0, b"p", b"d")], 3.0)
