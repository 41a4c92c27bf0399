"""Recovery of a process whose later records a node then receives from the tail of its partition."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from seekpoint.producers.tail.partition_tail import Listener
from seekpoint.schemas.errors import JournalGap, SeekpointError
from seekpoint.schemas.log.partition import partition_of

if TYPE_CHECKING:
    from seekpoint.consumers.recovery.recovery_report import Recovered, Report
    from seekpoint.producers.tail.partition_tail import PartitionTail
    from seekpoint.producers.tail.tailer import Tailer


class RecoveringListener(Listener, Protocol):
    """A listener that keeps the error that a tail failed it with."""

    error: SeekpointError | None


class FollowedRecovery(NamedTuple):
    """A recovered process, and the tail that delivers all that the state does not have."""

    tail: PartitionTail
    recovered: Recovered
    is_presumed: bool = False
    """Whether it comes from what the tail knows: nothing was read from the log."""


async def recover_and_follow(
    listener: RecoveringListener,
    tailer: Tailer,
    partitions: int,
    recover: Callable[[], Awaitable[Recovered]],
    presume: Callable[[PartitionTail], Recovered | None],
    *,
    is_owner: bool,
) -> FollowedRecovery:
    """Attach ``listener`` to the tail of its partition, and return the process as of now. The caller detaches it.

    The listener is attached before the recovery: everything below the tail's position then also lies below the end
    that the recovery reads to. The first recovery in a partition starts the tail there. ``presume`` returns the process
    as of the tail's position, if that is known without reading the log. A process has one listener that is its owner,
    and any number of followers. If the tail is ended meanwhile, the process is recovered by a new one: what was wrong
    with the old one is no error of the listener.
    """
    partition = partition_of(listener.key, partitions)
    tail, began = tailer.tail(partition), 0
    while True:
        if tail is not None:
            began = _attach(listener, tail, is_owner)
            presumed = presume(tail)
            if presumed is not None:
                return FollowedRecovery(tail, presumed, is_presumed=True)
        recovered = await recover()
        if tail is not None and tail.position < recovered.report.log_start:
            tail.detach(listener)
            tailer.stop_following(tail, _trimmed(tail, recovered.report))
            tail = listener.error = None
        was, tail = tail, tailer.tail_from(partition, recovered.report.log_end)
        if was is None:
            began = _attach(listener, tail, is_owner)
        tailer.want_proof(tail)
        if was in (None, tail) and began <= recovered.report.log_end:
            return FollowedRecovery(tail, recovered)
        if was is tail:
            tail.detach(listener)
            await tailer.check_end(tail)
            tail = tailer.tail(partition)
        elif was is not None:  # another caller has ended it, and failed its listeners
            was.detach(listener)
            listener.error = None


def _attach(listener: Listener, tail: PartitionTail, is_owner: bool) -> int:
    if is_owner:
        tail.attach(listener)
    else:
        tail.attach_follower(listener)
    return tail.position


def _trimmed(tail: PartitionTail, report: Report) -> JournalGap:
    return JournalGap(
        "entries that were not confirmed yet are gone from the log",
        partition=tail.partition, offset=tail.position, low=report.log_start, high=report.log_end,
    )  # fmt: skip
