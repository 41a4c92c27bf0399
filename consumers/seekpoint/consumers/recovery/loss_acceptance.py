"""An operator accepts that a partition lost its end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from seekpoint.consumers.log_reading.lost_ends import AcceptedLoss, accept_loss, refuse_lost
from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.schemas.errors import JournalMismatch, LogTruncated, ViewRefused, ViewUnavailable
from seekpoint.schemas.log.log_ports import Landmark


def accept_partition_loss(recoverer: Recoverer, partition: int, *, actor: str, reason: str) -> AcceptedLoss:
    """Record in the journal that the lost end of ``partition`` is accepted. Blocks.

    From then on nothing is used that stands on lost entries: all tiers are derived from what the log holds. Raises
    ``Refused`` if there is no loss to accept.
    """
    return accept_loss(recoverer.log, partition, _stored(recoverer, partition), actor, reason)


def lost_partitions(recoverer: Recoverer) -> Iterator[LogTruncated]:
    """Yield the error of each partition whose loss nobody has accepted. Blocks."""
    for partition in range(recoverer.log.partitions):
        try:
            refuse_lost(recoverer.log, partition, _stored(recoverer, partition))
        except LogTruncated as error:
            yield error


def _stored(recoverer: Recoverer, partition: int) -> list[Landmark]:
    """Return the newest entries on which view, checkpoints and floor stand."""
    finder = recoverer.base_finder
    found = [] if finder.index is None else finder.index.landmarks(partition)
    if finder.view is not None:
        with suppress(ViewUnavailable, ViewRefused, JournalMismatch):
            meta = finder.view.meta(partition)
            if meta is not None and meta.applied is not None and meta.topic_id == recoverer.log.topic_id:
                found.append(Landmark(meta.applied, meta.leader_epoch))
    return found
