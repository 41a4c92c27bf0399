"""Recompute checkpoints from the log, or from an older checkpoint and the log, and compare the states."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY, Checkpoint, CheckpointReader
from seekpoint.consumers.log_reading.scan import EntrySource, scan
from seekpoint.schemas.errors import CheckpointDiffers, JournalMismatch
from seekpoint.schemas.log.log_ports import Batch, LogReader
from seekpoint.schemas.state.process_state import Draft, State

_CHUNK = 20_000
"""The most states that one read of the log recomputes. All of them are in memory meanwhile."""


class Expected(NamedTuple):
    """The facts of the newest checkpoint of a process."""

    position: int
    """The checkpoint's position in its partition."""
    offset: int
    hash: str


def recompute(
    log: LogReader, checkpoints: CheckpointReader, partition: int, low: int, expected: Mapping[bytes, Expected]
) -> set[bytes]:
    """Recompute the states in ``expected`` and compare; return the keys of those that cannot be recomputed.

    The log begins at ``low``. If that is not 0, a process is folded from the oldest checkpoint that compaction left and
    that lacks no deleted entry. Raises ``CheckpointDiffers``. Reads the log once for each 20,000 processes.
    """
    bases = _older_states(checkpoints, partition, low, expected, log.topic_id) if low else {}
    unknown = set(expected) - bases.keys() if low else set()
    left = iter(sorted(expected.keys() - unknown))
    while chunk := list(islice(left, _CHUNK)):
        drafts = {key: bases[key][0].thaw() if key in bases else Draft() for key in chunk}
        stops = {key: expected[key].offset for key in chunk}
        scan(_StoppedLog(log, stops), partition, drafts, low, max(stops.values()) + 1)
        for key, draft in drafts.items():
            state, target = draft.freeze(), expected[key]
            if (state.offset, state.hash) == (target.offset, target.hash):
                continue
            if key in bases and not bases[key][1]:
                unknown.add(key)
                continue
            raise CheckpointDiffers(
                "a checkpoint differs from the state that the log gives: nothing is deleted",
                partition=partition,
                process_id=key.decode(errors="replace"),
                offset=target.offset,
            )
    return unknown


def _older_states(
    checkpoints: CheckpointReader, partition: int, low: int, expected: Mapping[bytes, Expected], topic_id: str
) -> dict[bytes, tuple[State, bool]]:
    """Return by key an older state to fold on, and whether no entry behind it was deleted.

    A state that is older than the log's beginning may not have been the newest one when the log was trimmed.
    """
    found: dict[bytes, tuple[State, bool]] = {}
    stop = max((one.position for one in expected.values()), default=0)
    for position, key, value in checkpoints.records(partition, 0, stop):
        target = expected.get(key)
        if key == FLOOR_KEY or value is None or target is None or position >= target.position:
            continue
        if key in found and found[key][1]:
            continue
        try:
            state = Checkpoint.from_bytes(value).verified(key.decode(), topic_id)
        except JournalMismatch:
            continue
        found[key] = state, state.offset + 1 >= low
    return found


class _StoppedLog:
    """A log in which each process ends at its own offset."""

    def __init__(self, log: EntrySource, stops: Mapping[bytes, int]) -> None:
        self._log = log
        self._stops = stops
        self.partitions, self.codec, self.limits = log.partitions, log.codec, log.limits

    def read(self, partition: int, start: int, stop: int, keys: Collection[bytes] | None = None) -> Iterator[Batch]:
        """Yield batches without the entries behind their process's end."""
        stops = self._stops
        for batch in self._log.read(partition, start, stop, keys):
            yield batch._replace(records=[one for one in batch.records if one.offset <= stops.get(one.key or b"", -1)])
