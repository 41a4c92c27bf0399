"""The headers of replayed records: which are dropped, which name the origin, and the check against loops."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import NamedTuple

from seekpoint.consumers.staging.replay_ports import Headers
from seekpoint.schemas.errors import ReplayRefused

_REPLAY_PREFIX = "seekpoint-replay-"
JOB = f"{_REPLAY_PREFIX}job"
SOURCE = f"{_REPLAY_PREFIX}source"
"""The ``CLUSTER_ID/TOPIC/PARTITION`` that the record was read from."""
OFFSET = f"{_REPLAY_PREFIX}offset"
TIMESTAMP = f"{_REPLAY_PREFIX}timestamp"
PATH = f"{_REPLAY_PREFIX}path"
"""The topics of earlier replays of the record, oldest first, separated by commas."""
SEEDED = f"{_REPLAY_PREFIX}seeded"
"""Marks an entry that the source does not have: it holds a process's state at the start of the range."""

STRIPPED = (
    "traceparent", "tracestate", "baggage", "b3", "x-b3-*", "uber-trace-id", "uberctx-*", "sw8*", "x-datadog-*",
    "dd-pathway-ctx*", "x-amzn-trace-id", "newrelic", "elastic-apm-traceparent", "sentry-trace",
    "x-cloud-trace-context", "__replicator_id", "__replicator_*", "__connect.*", "kcopy.*", "mm2-*",
    "kafka_replyTopic", "kafka_correlationId",
)  # fmt: skip
"""Headers dropped by default: a copied trace would join two systems, a replicator's mark would stop the next one."""


class HeaderRules:
    """The choice of headers to copy. ``strip`` are patterns (``x-b3-*``). A replay always replaces its own headers."""

    def __init__(self, strip: Sequence[str] = STRIPPED, keep_only: Sequence[str] | None = None) -> None:
        self._strip = tuple(pattern.lower() for pattern in strip)
        self._keep_only = None if keep_only is None else tuple(pattern.lower() for pattern in keep_only)
        self._keeps = lru_cache(maxsize=1_024)(self._matches)

    def _matches(self, name: str) -> bool:
        lower = name.lower()
        if lower.startswith(_REPLAY_PREFIX) or any(fnmatchcase(lower, pattern) for pattern in self._strip):
            return False
        return self._keep_only is None or any(fnmatchcase(lower, pattern) for pattern in self._keep_only)

    def filtered(self, headers: Headers) -> list[tuple[str, bytes | None]]:
        """Return the headers to copy, in order."""
        keeps = self._keeps
        return [header for header in headers if keeps(header[0])]


def without_replay_headers(headers: Headers) -> list[tuple[str, bytes | None]]:
    """Return the headers that no replay added."""
    return [header for header in headers if not header[0].startswith(_REPLAY_PREFIX)]


class ReplayOrigin(NamedTuple):
    """The origin of a replayed record, as its headers name it."""

    job: str
    source: str
    """The ``CLUSTER_ID/TOPIC``."""
    partition: int
    offset: int
    timestamp_ms: int
    path: tuple[str, ...] = ()
    seeded: bool = False

    def headers(self) -> list[tuple[str, bytes]]:
        """Return the headers of a record that was not replayed before."""
        source = f"{self.source}/{self.partition}"
        headers = {JOB: self.job, SOURCE: source, OFFSET: str(self.offset), TIMESTAMP: str(self.timestamp_ms)}
        return [(name, text.encode()) for name, text in headers.items()]

    @classmethod
    def from_headers(cls, headers: Headers | None) -> ReplayOrigin | None:
        """Parse headers. Return None if no replay wrote them, or if they are invalid."""
        if not headers:
            return None
        found = {name: value or b"" for name, value in headers if name.startswith(_REPLAY_PREFIX)}
        if JOB not in found:
            return None
        try:
            source, _, partition = found[SOURCE].decode().rpartition("/")
            path = found.get(PATH, b"").decode()
            return cls(
                found[JOB].decode(),
                source,
                int(partition),
                int(found[OFFSET]),
                int(found[TIMESTAMP]),
                tuple(filter(None, path.split(","))),
                SEEDED in found,
            )
        except (KeyError, ValueError):
            return None


class Provenance:
    """The origin headers that a replay writes, and the loops that it refuses."""

    def __init__(self, job: str, source: str, target: str) -> None:
        """``source`` and ``target`` are ``CLUSTER_ID/TOPIC``."""
        self.job = job
        self._source = source
        self._target = target
        self.job_header = (JOB, job.encode())

    def source_header(self, partition: int) -> tuple[str, bytes]:
        """Return the source header, which all records of a partition share."""
        return SOURCE, f"{self._source}/{partition}".encode()

    def path_headers(self, headers: Headers, partition: int, offset: int) -> list[tuple[str, bytes]]:
        """Return the path header of a record that was replayed before.

        Raises ``ReplayRefused`` if the record came from the target.
        """
        origin = ReplayOrigin.from_headers(headers)
        if origin is None:
            return []
        path = (*origin.path, origin.source)
        if self._target in path:
            raise ReplayRefused(
                "a record came from the target of this replay: a loop",
                source=self._source,
                partition=partition,
                offset=offset,
                job=origin.job,
                hint="replay from the topic to which the records were first written, or select other records",
            )
        return [(PATH, ",".join(path).encode())]
