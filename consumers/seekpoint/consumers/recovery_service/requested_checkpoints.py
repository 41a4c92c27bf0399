"""Processes that somebody asked to have recovered: the projector saves them, so that the next recovery is short.

Only a projector writes checkpoints, and only an owner writes a process's entries. So whoever wants a checkpoint of a
process that is another's, or nobody's, has nothing to write: the request on ``NAME.recover`` says it already, and the
projector of the process's partition reads it there (the topic has the journal's partitions and keys).
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Protocol

from seekpoint.consumers.recovery_service.answering import is_now
from seekpoint.consumers.recovery_service.exchange import Exchange
from seekpoint.schemas.bodies.entry import process_key
from seekpoint.schemas.errors import SeekpointError, UndecodableRecord
from seekpoint.schemas.log.log_ports import LogReader, Record
from seekpoint.schemas.log.recovery_requests import decode_request

__all__ = ["CheckpointRequests", "RequestedCheckpoints"]

_logger = logging.getLogger("seekpoint.consumers")

_LOOK_INTERVAL_S = 0.5
_SHARE_MAX = 0.1
"""Of its time spent looking, however many partitions there are."""
_RETRY_S = 30.0
_STOP_TIMEOUT_S = 1.0
_LOOK_BACK = 100
"""Requests before the first look: one that came while the partition changed hands is still meant."""
_KEPT_MAX = 10_000


class CheckpointRequests(Protocol):
    """What a projector asks: which processes of a partition are wanted."""

    def follow(self, partitions: Iterable[int]) -> None:
        """Look at these partitions from now on, and at no others."""

    def take(self, partition: int) -> Mapping[bytes, int]:
        """Keys that were wanted since it was last asked, and where the journal ended then."""


class RequestedCheckpoints:
    """Follows ``NAME.recover`` in a thread of its own: the projector's loop never waits for it.

    A topic that cannot be read costs a warning, and is tried again every half minute: without it processes are saved
    at the cadence.
    """

    def __init__(self, exchange: Exchange, log: LogReader) -> None:
        self._exchange = exchange
        self._log = log
        self._lock = threading.Lock()
        self._next: dict[int, int | None] = {}
        self._wanted: dict[int, dict[bytes, int]] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> RequestedCheckpoints:
        """Begin to look."""
        self._thread = threading.Thread(target=self._work, name="seekpoint-wishes", daemon=True)
        self._thread.start()
        return self

    def close(self) -> None:
        """Look no more. What is under way ends with its reader."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_STOP_TIMEOUT_S)

    def follow(self, partitions: Iterable[int]) -> None:
        """Look at these partitions from now on, and at no others."""
        with self._lock:
            self._next = {partition: self._next.get(partition) for partition in partitions}
            self._wanted = {}

    def take(self, partition: int) -> Mapping[bytes, int]:
        """Keys that were wanted since it was last asked, and where the journal ended then."""
        if not self._wanted:
            return {}
        with self._lock:
            return self._wanted.pop(partition, {})

    def look(self) -> None:
        """Read what is new. Blocks; raises as the exchange does."""
        for partition, start in [*self._next.items()]:
            if start is None:
                start = max(0, self._exchange.end("recover", partition) - _LOOK_BACK)
            records, stop = self._exchange.read("recover", partition, start)
            keys = {key for record in records if (key := self._key(record)) is not None}
            end = self._log.watermarks(partition).high if keys else 0
            with self._lock:
                if partition in self._next:
                    self._next[partition] = stop
                    wanted = self._wanted.setdefault(partition, {})
                    wanted.update(dict.fromkeys(keys, end))
                    while len(wanted) > _KEPT_MAX:
                        wanted.pop(next(iter(wanted)))

    def _key(self, record: Record) -> bytes | None:
        """Whose recovery it asks for; None for the past, which has no checkpoint of its own, and for junk."""
        with contextlib.suppress(UndecodableRecord):
            request = decode_request(record.value, self._exchange.limits)
            if is_now(request):
                return process_key(request.process_id)
        return None

    def _work(self) -> None:
        pause_s = _LOOK_INTERVAL_S
        while not self._stop.wait(pause_s):
            began = time.monotonic()
            try:
                self.look()
                pause_s = max(_LOOK_INTERVAL_S, (time.monotonic() - began) / _SHARE_MAX)
            except SeekpointError as exc:
                if not self._stop.is_set():
                    _logger.warning("which processes are wanted is not known for %.0f s: %s", _RETRY_S, exc)
                pause_s = _RETRY_S
