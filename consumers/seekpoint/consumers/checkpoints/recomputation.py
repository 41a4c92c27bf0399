"""Checkpoints folded anew: from the log, or from an older checkpoint and the log, up to the entry each is as of."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple, cast

from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY, Checkpoint, CheckpointReader
from seekpoint.consumers.log_reading.scan import scan
from seekpoint.schemas.errors import CheckpointDiffers, JournalMismatch
from seekpoint.schemas.log.log_ports import Batch, LogReader
from seekpoint.schemas.state.state import Draft, State

__all__ = ["Expected", "recompute"]

_CHUNK = 20_000
"""So many states at most are folded with one read of the log: they are all in memory meanwhile."""


class Expected(NamedTuple):
    """What a process's newest checkpoint says."""

    position: int
    """Of the checkpoint in its partition."""
    offset: int
    hash: str


def recompute(
    log: LogReader, checkpoints: CheckpointReader, partition: int, low: int, expected: Mapping[bytes, Expected]
) -> set[bytes]:
    """Fold the processes of ``expected`` anew and compare their states; the keys of those for which nothing is left.

    The log begins at ``low``. If that is not 0, a process is folded from the oldest checkpoint that compaction left and
    that lacks no deleted entry. Raises ``CheckpointDiffers``. Reads the log once for each 20,000 processes.
    """
    bases = _older(checkpoints, partition, low, expected, log.topic_id) if low else {}
    unknown = set(expected) - bases.keys() if low else set()
    left = iter(sorted(expected.keys() - unknown))
    while chunk := list(islice(left, _CHUNK)):
        drafts = {key: bases[key][0].thaw() if key in bases else Draft() for key in chunk}
        stops = {key: expected[key].offset for key in chunk}
        reader = cast(LogReader, _UpTo(log, stops))
        scan(reader, partition, drafts, low, max(stops.values()) + 1, lambda record, error: None)
        for key, draft in drafts.items():
            state, wanted = draft.freeze(), expected[key]
            if (state.offset, state.hash) == (wanted.offset, wanted.hash):
                continue
            if key in bases and not bases[key][1]:
                unknown.add(key)
                continue
            raise CheckpointDiffers(
                "a checkpoint is not what the log says: nothing is deleted",
                partition=partition,
                process_id=key.decode(errors="replace"),
                offset=wanted.offset,
            )
    return unknown


def _older(
    checkpoints: CheckpointReader, partition: int, low: int, expected: Mapping[bytes, Expected], topic_id: str
) -> dict[bytes, tuple[State, bool]]:
    """By key: an older state to fold on, and whether no entry behind it is gone.

    Of a state that is older than the log's beginning nobody knows whether it was the newest when the log was trimmed.
    """
    found: dict[bytes, tuple[State, bool]] = {}
    stop = max((one.position for one in expected.values()), default=0)
    for position, key, value in checkpoints.records(partition, 0, stop):
        wanted = expected.get(key)
        if key == FLOOR_KEY or value is None or wanted is None or position >= wanted.position:
            continue
        if key in found and found[key][1]:
            continue
        try:
            state = Checkpoint.from_bytes(value).verified(key.decode(), topic_id)
        except JournalMismatch:
            continue
        found[key] = state, state.offset + 1 >= low
    return found


class _UpTo:
    """A log of which each process ends at its own offset."""

    def __init__(self, log: LogReader, stops: Mapping[bytes, int]) -> None:
        self._log = log
        self._stops = stops

    def read(self, partition: int, start: int, stop: int, keys: Collection[bytes] | None = None) -> Iterator[Batch]:
        stops = self._stops
        for batch in self._log.read(partition, start, stop, keys):
            yield batch._replace(records=[one for one in batch.records if one.offset <= stops.get(one.key or b"", -1)])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)
