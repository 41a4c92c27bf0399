"""The lost end of a partition: what is stored of entries that the log no longer has, and who accepted that.

After an unclean election or a restored volume, a view, a checkpoint or a floor stands on entries that are gone. Whoever
went on without them could make an effect again that was made. So every reader stops with ``LogTruncated``, until an
operator accepts the loss. Then nothing that stands on the lost entries is used, and the rest is derived from the log.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

import msgspec
import orjson

from seekpoint.consumers.log_reading.leader_epochs import is_intact
from seekpoint.schemas.errors import LogTruncated, Refused
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.log.log_ports import Landmark, LogReader, Watermarks

_logger = logging.getLogger("seekpoint.consumers")

_PREFIX = b"\x00loss:"
"""The keys of the records in ``NAME.schemas``, beside the manifest: no schema has such a key."""


class AcceptedLoss(FrozenStruct, frozen=True, kw_only=True):
    """An operator's decision to go on with what the log of one partition holds."""

    topic_id: str
    partition: int
    lost_to: int
    """The offset behind the last lost entry that anything stood on."""
    leader_epoch: int
    """The newest leader epoch of these entries. A later loss has a newer one."""
    high: int
    """The log's end when the loss was accepted."""
    actor: str
    reason: str
    accepted_us: int

    def covers(self, topic_id: str, partition: int, landmark: Landmark) -> bool:
        """Return whether the decision is about this entry."""
        is_older = landmark.offset < self.lost_to and landmark.leader_epoch <= self.leader_epoch
        return is_older and (topic_id, partition) == (self.topic_id, self.partition)


def accepted_losses(log: LogReader) -> list[AcceptedLoss]:
    """Return all decisions, the oldest first. Blocks."""
    losses = []
    for key, value in log.table("schemas").items().items():
        if key.startswith(_PREFIX):
            try:
                losses.append(msgspec.json.decode(value, type=AcceptedLoss))
            except msgspec.MsgspecError as exc:  # accepting the loss again leads on
                _logger.error("the record of an accepted loss cannot be read and does not count: %s", exc)
    return sorted(losses, key=lambda loss: loss.accepted_us)


def highest(landmarks: Iterable[Landmark]) -> list[Landmark]:
    """Return the highest landmark of each leader epoch, which proves the others."""
    found: dict[int, Landmark] = {}
    for landmark in landmarks:
        found[landmark.leader_epoch] = max(landmark, found.get(landmark.leader_epoch, landmark))
    return [*found.values()]


def refuse_lost(log: LogReader, partition: int, landmarks: Iterable[Landmark]) -> set[Landmark]:
    """Return those ``landmarks`` that the log lost and whose loss was accepted. Raises ``LogTruncated`` for others."""
    lost = {landmark for landmark in landmarks if not is_intact(log, partition, landmark)}
    losses = accepted_losses(log) if lost else []
    for landmark in sorted(lost, reverse=True):
        if not any(loss.covers(log.topic_id, partition, landmark) for loss in losses):
            low, high = log.watermarks(partition)
            raise LogTruncated(
                "the log lost its end: it has no longer an entry that a view, a checkpoint or a floor stands on",
                journal=log.name, partition=partition, offset=landmark.offset, expected=landmark.leader_epoch,
                low=low, high=high,
            )  # fmt: skip
    return lost


def stands_on_lost(
    log: LogReader, partition: int, landmarks: Iterable[Landmark], first: Landmark | None, marks: Watermarks
) -> bool:
    """Return whether the log lost one of ``landmarks``, and an operator accepted that. Raises as ``refuse_lost`` does.

    ``first`` is the first record that was read. It proves a landmark of its epoch that lies before it; otherwise the
    log is asked. With nothing read there is nothing that could have been written over them.
    """
    if first is None:
        return False
    proven = (-1, first.leader_epoch) if first.leader_epoch >= 0 else range(-1, 2**31)
    doubtful = (one for one in landmarks if one.offset >= first.offset or one.leader_epoch not in proven)
    return bool(
        refuse_lost(log, partition, [one for one in doubtful if marks.low <= one.offset and one.leader_epoch >= 0])
    )


def accept_loss(log: LogReader, partition: int, landmarks: Iterable[Landmark], actor: str, reason: str) -> AcceptedLoss:
    """Record that an operator goes on without the lost entries among ``landmarks``. Blocks.

    Raises ``Refused`` if none is lost, or all of this was accepted before.
    """
    losses = accepted_losses(log)
    lost = [
        landmark for landmark in landmarks
        if not any(loss.covers(log.topic_id, partition, landmark) for loss in losses)
        and not is_intact(log, partition, landmark)
    ]  # fmt: skip
    if not lost:
        raise Refused(f"partition {partition} has lost nothing that is not accepted", partition=partition)
    made = AcceptedLoss(
        topic_id=log.topic_id,
        partition=partition,
        lost_to=max(landmark.offset for landmark in lost) + 1,
        leader_epoch=max(landmark.leader_epoch for landmark in lost),
        high=log.watermarks(partition).high,
        actor=actor,
        reason=reason,
        accepted_us=time.time_ns() // 1_000,
    )
    fields = {name: getattr(made, name) for name in made.__struct_fields__}
    log.table("schemas").put(b"%s%d:%d" % (_PREFIX, partition, made.accepted_us), orjson.dumps(fields))
    return made
