"""The librdkafka settings of readers, and of the writer of tables: good defaults, the user's, what guarantees need."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from seekpoint.schemas.config.settings import Settings

__all__ = ["LOGGED", "point_config", "reader_config", "tail_config", "writer_config"]

LOGGED: Mapping[str, Any] = {"logger": logging.getLogger("seekpoint.consumers.kafka.kafka_reader")}
"""Where a client says what it has to say."""

_FAST: Mapping[str, Any] = {
    # An empty fetch holds the connection: the next assignment waits for it.
    "fetch.wait.max.ms": 1,
    "fetch.queue.backoff.ms": 1,
    "fetch.error.backoff.ms": 50,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 1000,
}


def reader_config(settings: Settings) -> dict[str, Any]:
    """For a consumer that is assigned by hand and never joins a group."""
    return {**_FAST, **settings.consumer_config(), "group.id": f"{settings.journal}.reader"}


def point_config(settings: Settings) -> dict[str, Any]:
    """For a consumer of single records: a fetch brings little more than the one that is wanted, whatever its size."""
    return {**reader_config(settings), "max.partition.fetch.bytes": 65_536}


def tail_config(settings: Settings) -> dict[str, Any]:
    """For the consumer that follows. It waits at the broker for what comes, but no longer than a new partition waits.

    What it fetches ahead of a busy event loop is bounded: 16 MiB for all partitions together.
    """
    bounded = {"fetch.wait.max.ms": 10, "queued.max.messages.kbytes": 16_384, "queued.min.messages": 10_000}
    return {**reader_config(settings), **bounded}


def writer_config(settings: Settings) -> dict[str, Any]:
    """For the writer of tables. Unlike with entries the newest value counts: a record may be written twice or given up.

    Not idempotent: that client asks for its id half a second after its start (500 ms a first write, against 5).
    """
    return {
        **settings.producer_config(),
        "acks": "all",
        "enable.idempotence": False,
        "max.in.flight.requests.per.connection": 1,
        "linger.ms": 0,
        "message.timeout.ms": int(settings.start_timeout_s * 1000),
        "message.max.bytes": 67_108_864,  # the topics hold the limits
    }
