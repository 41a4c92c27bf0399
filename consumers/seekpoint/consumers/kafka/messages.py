"""What the client hands over while a partition is read: messages, and how long a silence between them may last."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from operator import lt
from typing import Any

from seekpoint.schemas.errors import LogDamaged, SeekpointError
from seekpoint.schemas.log.log_ports import Landmark, Record

__all__ = ["Patience", "ascend", "belongs", "disorder", "landmark_of", "offset_of", "record_of", "records_of"]

_new = tuple.__new__  # half the time of the named tuple's own


class Patience:
    """How long a silence may last."""

    def __init__(self, silence_max_s: float) -> None:
        self._silence_max_s = silence_max_s
        self.ended = False
        """Whether the client said that this is the partition's end."""
        self.explained = False
        self.cause: SeekpointError | None = None
        """Why nothing comes, if somebody found out."""
        self.renew()

    @property
    def waited_s(self) -> float:
        """How long the silence has lasted."""
        return time.monotonic() - self._since

    def renew(self) -> None:
        """Something came."""
        self._since = time.monotonic()
        self.explained, self.cause = False, None

    def spend(self, error: Callable[[], SeekpointError]) -> None:
        """Nothing came: raise ``error()`` if that lasts too long."""
        if self.waited_s > self._silence_max_s:
            raise error()


def offset_of(message: Any) -> int:
    """Its offset; of an event that has none, 0."""
    return message.offset() or 0


def ascend(messages: Sequence[Any]) -> bool:
    """Whether the offsets of messages of one partition rise. No checksum covers a batch's first offset: where it was
    damaged, whatever follows would look as if it had been read before."""
    offsets = [one.offset() for one in messages]
    return all(map(lt, offsets, islice(offsets, 1, None)))


def disorder(topic: str, partition: int, messages: Sequence[Any]) -> LogDamaged:
    """The error for messages whose offsets do not rise."""
    facts: dict[str, Any] = {"topic": topic, "partition": partition, "offset": offset_of(messages[0])}
    return LogDamaged("the offsets of these records do not rise: the head of a batch is damaged", **facts)


def belongs(message: Any, topic: str, partition: int, start: int) -> bool:
    """Whether it is of this assignment, not a late arrival of the consumer's last job."""
    if message.topic() not in (topic, None) or message.partition() not in (partition, -1, None):
        return False
    return message.error() is not None or offset_of(message) >= start


def record_of(partition: int, message: Any) -> Record:
    """The message as a record of the log."""
    return Record(partition, offset_of(message), message.timestamp()[1], message.key(), message.value())


def records_of(partition: int, messages: Iterable[Any]) -> list[Record]:
    """The messages, none of which is an event, as records: a third of the time of one after the other."""
    return [_new(Record, (partition, one.offset(), one.timestamp()[1], one.key(), one.value())) for one in messages]


def landmark_of(message: Any) -> Landmark:
    """Where it lies, and which leader took it."""
    epoch = message.leader_epoch()
    return Landmark(offset_of(message), -1 if epoch is None else epoch)
