"""Headers on the way: what is left behind, what says where a record came from, the guard against going in circles."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import NamedTuple

from seekpoint.consumers.staging.replay_ports import Headers
from seekpoint.schemas.errors import ReplayRefused

__all__ = [
    "JOB",
    "OFFSET",
    "PATH",
    "SEEDED",
    "SOURCE",
    "STRIPPED",
    "TIMESTAMP",
    "HeaderRules",
    "Origin",
    "Provenance",
    "without_ours",
]

_OURS = "seekpoint-replay-"
JOB = f"{_OURS}job"
SOURCE = f"{_OURS}source"
"""``CLUSTER_ID/TOPIC/PARTITION`` the record was read from."""
OFFSET = f"{_OURS}offset"
TIMESTAMP = f"{_OURS}timestamp"
PATH = f"{_OURS}path"
"""Of a record that had been replayed before: the topics it came through, the oldest first, with commas."""
SEEDED = f"{_OURS}seeded"
"""On an entry that no source has: it carries a process's state at the start of the range."""

STRIPPED = (
    *("traceparent", "tracestate", "baggage", "b3", "x-b3-*", "uber-trace-id", "uberctx-*", "sw8*", "x-datadog-*"),
    *(
        "dd-pathway-ctx*",
        "x-amzn-trace-id",
        "newrelic",
        "elastic-apm-traceparent",
        "sentry-trace",
        "x-cloud-trace-context",
    ),
    *(
        "__replicator_id",
        "__replicator_*",
        "__connect.*",
        "kcopy.*",
        "mm2-*",
        "kafka_replyTopic",
        "kafka_correlationId",
    ),
)
"""Left behind by default: a copied trace joins two systems in one, a replicator's mark stops the next replicator."""


class HeaderRules:
    """Which headers stay. ``strip`` are patterns (``x-b3-*``); a replay's own are always replaced."""

    def __init__(self, strip: Sequence[str] = STRIPPED, keep_only: Sequence[str] | None = None) -> None:
        self._strip = tuple(pattern.lower() for pattern in strip)
        self._keep_only = None if keep_only is None else tuple(pattern.lower() for pattern in keep_only)
        self.stays = lru_cache(maxsize=1_024)(self._stays)

    def _stays(self, name: str) -> bool:
        lower = name.lower()
        if lower.startswith(_OURS) or any(fnmatchcase(lower, pattern) for pattern in self._strip):
            return False
        return self._keep_only is None or any(fnmatchcase(lower, pattern) for pattern in self._keep_only)

    def kept(self, headers: Headers) -> list[tuple[str, bytes | None]]:
        """Those that stay, in order."""
        stays = self.stays
        return [header for header in headers if stays(header[0])]


def without_ours(headers: Headers) -> list[tuple[str, bytes | None]]:
    """What a record had before a replay added to it."""
    return [header for header in headers if not header[0].startswith(_OURS)]


class Origin(NamedTuple):
    """Where a replayed record came from, as its headers say."""

    job: str
    source: str
    """``CLUSTER_ID/TOPIC``."""
    partition: int
    offset: int
    timestamp_ms: int
    path: tuple[str, ...] = ()
    seeded: bool = False

    def headers(self) -> list[tuple[str, bytes]]:
        """What a record of no replay before it gets."""
        source = f"{self.source}/{self.partition}"
        told = {JOB: self.job, SOURCE: source, OFFSET: str(self.offset), TIMESTAMP: str(self.timestamp_ms)}
        return [(name, text.encode()) for name, text in told.items()]

    @classmethod
    def of(cls, headers: Headers | None) -> Origin | None:
        """None if no replay brought the record, or if the headers are nobody's."""
        if not headers:
            return None
        ours = {name: value or b"" for name, value in headers if name.startswith(_OURS)}
        if JOB not in ours:
            return None
        try:
            source, _, partition = ours[SOURCE].decode().rpartition("/")
            path = ours.get(PATH, b"").decode()
            return cls(
                ours[JOB].decode(),
                source,
                int(partition),
                int(ours[OFFSET]),
                int(ours[TIMESTAMP]),
                tuple(filter(None, path.split(","))),
                SEEDED in ours,
            )
        except (KeyError, ValueError):
            return None


class Provenance:
    """What a replay writes on each record, and refuses to read."""

    def __init__(self, job: str, source: str, target: str) -> None:
        """``source`` and ``target`` are ``CLUSTER_ID/TOPIC``."""
        self.job = job
        self._source = source
        self._target = target
        self.job_header = (JOB, job.encode())

    def source_header(self, partition: int) -> tuple[str, bytes]:
        """The same for all records of a partition."""
        return SOURCE, f"{self._source}/{partition}".encode()

    def path_headers(self, headers: Headers, partition: int, offset: int) -> list[tuple[str, bytes]]:
        """What is added if the record was replayed before. ``ReplayRefused`` if it came from the target."""
        origin = Origin.of(headers)
        if origin is None:
            return []
        path = (*origin.path, origin.source)
        if self._target in path:
            raise ReplayRefused(
                "a record came from the very topic it would be replayed into: a loop",
                source=self._source,
                partition=partition,
                offset=offset,
                job=origin.job,
                hint="replay from the topic the records were first written to, or select others",
            )
        return [(PATH, ",".join(path).encode())]
