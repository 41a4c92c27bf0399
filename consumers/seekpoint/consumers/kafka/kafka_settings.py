"""The librdkafka settings of readers and of the tables' producer: defaults, the user's settings, guarantees."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from seekpoint.schemas.config.settings import Settings

LOGGED: Mapping[str, Any] = {"logger": logging.getLogger("seekpoint.consumers.kafka.kafka_reader")}
"""The logger of every client."""

_FAST: Mapping[str, Any] = {
    # An empty fetch holds the connection: the next assignment waits for it.
    "fetch.wait.max.ms": 1,
    "fetch.queue.backoff.ms": 1,
    "fetch.error.backoff.ms": 50,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 1000,
}


def reader_config(settings: Settings) -> dict[str, Any]:
    """Return the settings of a consumer that never joins a group."""
    return {**_FAST, **settings.consumer_config(), "group.id": f"{settings.journal}.reader"}


def point_config(settings: Settings) -> dict[str, Any]:
    """Return the settings of a consumer of single records: a fetch returns little more than the requested one."""
    return {**reader_config(settings), "max.partition.fetch.bytes": 65_536}


def tail_config(settings: Settings, *, is_steady: bool = False) -> dict[str, Any]:
    """Return the settings of the consumer of a tail. ``is_steady``: its partitions rarely change.

    A fetch waits at the broker for new records, but only 10 ms, so that a new partition need not wait longer; for a
    steady tail 120 ms, which takes a tenth of the processor time while nothing comes. The records fetched ahead of a
    busy event loop are bounded: 16 MiB for all partitions together.
    """
    wait_ms = 120 if is_steady else 10
    bounded = {"fetch.wait.max.ms": wait_ms, "queued.max.messages.kbytes": 16_384, "queued.min.messages": 10_000}
    return {**reader_config(settings), **bounded}


def writer_config(settings: Settings) -> dict[str, Any]:
    """Return the settings of the tables' producer. Only the newest value counts, so a record may be written twice.

    The producer is not idempotent: an idempotent one requests its id half a second after its start, so that the first
    write takes 500 ms instead of 5.
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
