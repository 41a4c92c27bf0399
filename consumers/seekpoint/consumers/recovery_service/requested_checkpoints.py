"""Requested checkpoints: the projector checkpoints each process whose recovery was requested.

That makes the next recovery of the process short. Only a projector writes checkpoints, and only an owner writes entries
of a process. A node that owns neither requests a recovery on ``NAME.recover``. That topic has the journal's partitions
and keys, so the projector of the process's partition reads the request there.
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

_logger = logging.getLogger("seekpoint.consumers")

_POLL_INTERVAL_S = 0.5
_SHARE_MAX = 0.1
"""The largest share of time that polling may take, however many partitions there are."""
_RETRY_S = 30.0
_STOP_TIMEOUT_S = 1.0
_LOOK_BACK = 100
"""Earlier requests that the first poll reads: one may have arrived while the partition had no projector."""
_REQUESTS_MAX = 10_000


class CheckpointRequests(Protocol):
    """The port through which a projector learns which checkpoints are requested."""

    def follow(self, partitions: Iterable[int]) -> None:
        """Follow these partitions from now on, and no others."""

    def take(self, partition: int) -> Mapping[bytes, int]:
        """Return and remove the requested keys, each with the journal's end at the time of the request."""


class RequestedCheckpoints:
    """Follows ``NAME.recover`` in its own thread, so that the projector's loop never waits for it.

    If the topic cannot be read, it logs a warning and tries again every half minute. Meanwhile processes are
    checkpointed at the cadence.
    """

    def __init__(self, exchange: Exchange, log: LogReader) -> None:
        self._exchange = exchange
        self._log = log
        self._lock = threading.Lock()
        self._next: dict[int, int | None] = {}
        self._requested: dict[int, dict[bytes, int]] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> RequestedCheckpoints:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="seekpoint-checkpoint-requests", daemon=True)
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop the thread. A read that it has begun ends when its reader is closed."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_STOP_TIMEOUT_S)

    def follow(self, partitions: Iterable[int]) -> None:
        """Follow these partitions from now on, and no others."""
        with self._lock:
            self._next = {partition: self._next.get(partition) for partition in partitions}
            self._requested = {}

    def take(self, partition: int) -> Mapping[bytes, int]:
        """Return and remove the requested keys, each with the journal's end at the time of the request."""
        if not self._requested:
            return {}
        with self._lock:
            return self._requested.pop(partition, {})

    def poll(self) -> None:
        """Read new requests. Blocks; raises as the exchange does."""
        for partition, start in [*self._next.items()]:
            if start is None:
                start = max(0, self._exchange.end("recover", partition) - _LOOK_BACK)
            records, stop = self._exchange.read("recover", partition, start)
            keys = {key for record in records if (key := self._key(record)) is not None}
            end = self._log.watermarks(partition).high if keys else 0
            with self._lock:
                if partition in self._next:
                    self._next[partition] = stop
                    requested = self._requested.setdefault(partition, {})
                    requested.update(dict.fromkeys(keys, end))
                    while len(requested) > _REQUESTS_MAX:
                        requested.pop(next(iter(requested)))

    def _key(self, record: Record) -> bytes | None:
        """Return the key of the requested process; None for a point in the past and for an undecodable record."""
        with contextlib.suppress(UndecodableRecord):
            request = decode_request(record.value, self._exchange.limits)
            if is_now(request):
                return process_key(request.process_id)
        return None

    def _run(self) -> None:
        pause_s = _POLL_INTERVAL_S
        while not self._stop.wait(pause_s):
            began = time.monotonic()
            try:
                self.poll()
                pause_s = max(_POLL_INTERVAL_S, (time.monotonic() - began) / _SHARE_MAX)
            except SeekpointError as exc:
                if not self._stop.is_set():
                    _logger.warning("requested checkpoints cannot be read, trying again in %.0f s: %s", _RETRY_S, exc)
                pause_s = _RETRY_S
