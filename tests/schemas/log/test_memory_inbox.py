"""The group of workers in memory: assignment, positions and commits."""

from __future__ import annotations

import pytest

from seekpoint.schemas.log.memory_inbox import MemoryGroup
from seekpoint.schemas.log.memory_log import MemoryLog


@pytest.fixture
def group() -> MemoryGroup:
    """A group over a log with four partitions."""
    return MemoryGroup(MemoryLog(4))


def test_members_share_all_partitions_and_keep_what_they_have(group: MemoryGroup) -> None:
    """A rebalance moves no more than it has to."""
    one = group.join()
    one.poll(0)
    assert one.assigned == {0, 1, 2, 3}
    two = group.join()
    one.poll(0)
    two.poll(0)
    assert one.assigned | two.assigned == {0, 1, 2, 3}
    assert len(one.assigned) == len(two.assigned) == 2
    before = one.assigned
    two.close()
    two.close()
    one.poll(0)
    assert before < one.assigned == {0, 1, 2, 3}


def test_a_member_reads_from_what_was_committed(group: MemoryGroup) -> None:
    """What was read and not committed is read again by the next member."""
    for number in range(3):
        group.log.append(1, b"p", b"%d" % number)
    one = group.join()
    assert [record.value for record in one.poll(0)] == [b"0", b"1", b"2"]
    assert one.poll(0) == []
    one.commit(1, 2)
    one.close()
    assert [record.value for record in group.join().poll(0)] == [b"2"]


def test_a_former_member_commits_nothing(group: MemoryGroup) -> None:
    """The partition is another one's by then."""
    one = group.join()
    one.poll(0)
    group.leave(one)
    group.join()
    one.commit(0, 7)
    assert group.committed == {}
