"""The messages that the Kafka client returns for a partition, and how long it may return none."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from operator import lt
from typing import Any

from seekpoint.schemas.errors import LogDamaged, SeekpointError
from seekpoint.schemas.log.log_ports import Landmark, Record

_new = tuple.__new__  # half the time of the named tuple's own


class IdleTimeout:
    """The time since the last message of a read, and its limit."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self.reached_end = False
        """Whether the client reported the partition's end."""
        self.is_diagnosed = False
        """Whether the cause was looked up since the last message."""
        self.cause: SeekpointError | None = None
        """Why no message comes, if the cause is known."""
        self.restart()

    @property
    def waited_s(self) -> float:
        """The time since the last message."""
        return time.monotonic() - self._since

    def restart(self) -> None:
        """Start the time again: a message came."""
        self._since = time.monotonic()
        self.is_diagnosed, self.cause = False, None

    def check(self, error: Callable[[], SeekpointError]) -> None:
        """Raise ``error()`` if the limit is exceeded."""
        if self.waited_s > self._timeout_s:
            raise error()


def offset_of(message: Any) -> int:
    """Return the message's offset; 0 for an event that has none."""
    return message.offset() or 0


def are_ascending(messages: Sequence[Any]) -> bool:
    """Return whether the offsets of messages of one partition rise.

    No checksum covers a batch's first offset. If it is damaged, the following records seem to be read already.
    """
    offsets = [one.offset() for one in messages]
    return all(map(lt, offsets, islice(offsets, 1, None)))


def disorder_error(topic: str, partition: int, messages: Sequence[Any]) -> LogDamaged:
    """Return the error for messages whose offsets do not rise."""
    message = "the offsets of these records do not rise: the head of a batch is damaged"
    return LogDamaged(message, topic=topic, partition=partition, offset=offset_of(messages[0]))


def is_of_assignment(message: Any, topic: str, partition: int, start: int) -> bool:
    """Return whether the message is of this assignment, and not a late one of the consumer's last assignment."""
    if message.topic() not in (topic, None) or message.partition() not in (partition, -1, None):
        return False
    return message.error() is not None or offset_of(message) >= start


def record_of(partition: int, message: Any) -> Record:
    """Return the message as a record of the log."""
    return Record(partition, offset_of(message), message.timestamp()[1], message.key(), message.value())


def records_of(partition: int, messages: Iterable[Any]) -> list[Record]:
    """Return messages, none of which is an event, as records. It takes a third of the time of ``record_of``."""
    return [_new(Record, (partition, one.offset(), one.timestamp()[1], one.key(), one.value())) for one in messages]


def landmark_of(message: Any) -> Landmark:
    """Return the message's offset and leader epoch."""
    epoch = message.leader_epoch()
    return Landmark(offset_of(message), -1 if epoch is None else epoch)
