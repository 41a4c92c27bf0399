"""Leader epochs: detect that a partition was truncated and grew again.

A record is identified by its offset and the epoch of the leader that took it. Epochs rise along a log, and one leader
writes one log. So a record of an epoch proves every earlier record of that epoch, and the log is seldom asked.
"""

from __future__ import annotations

from collections.abc import Iterable

from seekpoint.schemas.log.log_ports import Landmark, LogReader

_SPANS_MAX = 64


class LeaderEpochs:
    """The leader epochs of the records that a reader of one partition of ``log`` has read. For one thread."""

    def __init__(self, log: LogReader, partition: int) -> None:
        self._log = log
        self._partition = partition
        self._spans: dict[int, tuple[int, int]] = {}
        """By epoch: the first and the last offset that is known to have it."""
        self.newest = Landmark(-1, -1)
        """The last record that was read."""

    def record(self, offset: int, leader_epoch: int) -> None:
        """Remember a record that was read. An epoch of -1 is unknown."""
        if offset >= self.newest.offset:
            self.newest = Landmark(offset, leader_epoch)
        if leader_epoch < 0:
            return
        first, last = self._spans.get(leader_epoch, (offset, offset))
        self._spans[leader_epoch] = min(first, offset), max(last, offset)
        if len(self._spans) > _SPANS_MAX:
            del self._spans[min(self._spans)]

    def epoch_at(self, offset: int) -> int:
        """Return the epoch of the record at ``offset`` when it was read; -1 if there is none. May ask the log."""
        if offset < 0:
            return -1
        for epoch, (first, last) in self._spans.items():
            if first <= offset <= last:
                return epoch
        found = self._log.leader_epoch_at(self._partition, offset)
        # If the log was truncated since, an older leader's record was there: a later comparison has to fail.
        found = min([found, *(epoch for epoch, (_, last) in self._spans.items() if last > offset)])
        self.record(offset, found)
        return found

    def is_truncated_before(self, leader_epoch: int) -> bool:
        """Return whether the newest record that was read is gone, now that records of ``leader_epoch`` follow."""
        newest = self.newest
        if leader_epoch < 0 or leader_epoch == newest.leader_epoch:
            return False
        return not is_intact(self._log, self._partition, newest)


def is_intact(log: LogReader, partition: int, landmark: Landmark) -> bool:
    """Return whether the log still has this record at its offset.

    A record that was trimmed, or whose epoch is unknown, counts as intact. One beyond the log's end does not.
    """
    offset, epoch = landmark
    low, high = log.watermarks(partition)
    if offset >= high:
        return False
    if epoch < 0 or offset < low:
        return True
    return log.leader_epoch_at(partition, offset) in (-1, epoch)


def lost_landmarks(log: LogReader, partition: int, landmarks: Iterable[Landmark]) -> set[Landmark]:
    """Return the landmarks that are not intact. If all are, the log is asked once for each epoch."""
    lost, proven = set[Landmark](), set[int]()
    for landmark in sorted(set(landmarks), reverse=True):
        if landmark.leader_epoch in proven:
            continue
        if is_intact(log, partition, landmark):
            proven.add(landmark.leader_epoch)
        else:
            lost.add(landmark)
    return lost
