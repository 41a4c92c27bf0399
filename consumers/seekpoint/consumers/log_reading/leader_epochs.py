"""Which leader took which records of a partition: what tells a log that lost its end, and grew again, from itself.

Epochs rise along a log, and one leader writes one log: two records of one epoch prove all between them, and a later one
of an epoch proves the earlier. So what is known of a few records is known of nearly all, and the log is seldom asked.
"""

from __future__ import annotations

from collections.abc import Iterable

from seekpoint.schemas.log.log_ports import Landmark, LogReader

__all__ = ["Epochs", "stands", "untrue"]

_SPANS_MAX = 64


class Epochs:
    """What is known of one partition of ``log`` by whoever reads it from some place on. One thread's."""

    def __init__(self, log: LogReader, partition: int) -> None:
        self._log = log
        self._partition = partition
        self._spans: dict[int, tuple[int, int]] = {}
        self.newest = Landmark(-1, -1)
        """The last record that was read."""

    def saw(self, offset: int, leader_epoch: int) -> None:
        """A record was read; an epoch of -1 says nothing."""
        if offset >= self.newest.offset:
            self.newest = Landmark(offset, leader_epoch)
        if leader_epoch < 0:
            return
        first, last = self._spans.get(leader_epoch, (offset, offset))
        self._spans[leader_epoch] = min(first, offset), max(last, offset)
        if len(self._spans) > _SPANS_MAX:
            del self._spans[min(self._spans)]

    def of(self, offset: int) -> int:
        """The epoch of the record at ``offset`` as it was when it was read; -1 if there is none. Asks where it must."""
        if offset < 0:
            return -1
        for epoch, (first, last) in self._spans.items():
            if first <= offset <= last:
                return epoch
        found = self._log.leader_epoch_at(self._partition, offset)
        # Where the log was cut since, an older leader's record was there: the comparison to come has to fail.
        found = min([found, *(epoch for epoch, (_, last) in self._spans.items() if last > offset)])
        self.saw(offset, found)
        return found

    def is_cut(self, leader_epoch: int) -> bool:
        """Whether records of ``leader_epoch``, which come next, are of another log than the newest that was read."""
        known = self.newest
        if leader_epoch < 0 or leader_epoch == known.leader_epoch:
            return False
        return not stands(self._log, self._partition, known)


def stands(log: LogReader, partition: int, landmark: Landmark) -> bool:
    """Whether the record is still that one. What was trimmed, or is not known, is taken for it; what lies beyond the
    log's end is not."""
    offset, epoch = landmark
    low, high = log.watermarks(partition)
    if offset >= high:
        return False
    if epoch < 0 or offset < low:
        return True
    return log.leader_epoch_at(partition, offset) in (-1, epoch)


def untrue(log: LogReader, partition: int, landmarks: Iterable[Landmark]) -> set[Landmark]:
    """Those that do not stand any more. Asks the log once an epoch where nothing is wrong."""
    found, proven = set[Landmark](), set[int]()
    for landmark in sorted(set(landmarks), reverse=True):
        if landmark.leader_epoch in proven:
            continue
        if stands(log, partition, landmark):
            proven.add(landmark.leader_epoch)
        else:
            found.add(landmark)
    return found
