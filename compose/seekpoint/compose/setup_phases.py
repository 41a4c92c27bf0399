"""The phases of a local cluster's start, for those who show its progress."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Protocol

KAFKA_VERSION = "4.3.1"
KAFKA_BYTES = 44_000_000

_logger = logging.getLogger("seekpoint.compose")


@dataclass(frozen=True, slots=True)
class SetupPhase:
    """A phase of the start: what happens, and how long it takes on a usual machine."""

    text: str
    usual_s: float
    size_bytes: int = 0
    """How much is downloaded."""

    def __str__(self) -> str:
        return self.text


DOWNLOADING = SetupPhase(
    f"downloading Apache Kafka {KAFKA_VERSION} ({KAFKA_BYTES / 1e6:.0f} MB, once per machine)", 15.0, KAFKA_BYTES
)
PREPARING = SetupPhase("preparing Kafka to start fast (about ten seconds, once per machine)", 10.0)
STARTING = SetupPhase("starting Kafka and Valkey", 2.0)


class SetupProgress(Protocol):
    """A callback for the progress of a start."""

    def __call__(self, phase: SetupPhase, share: float | None = None, /) -> None:
        """Take the phase and, if known, the share of it (0 to 1) that is done. A phase may come repeatedly."""


def log_progress(phase: SetupPhase, share: float | None = None, /) -> None:
    """Write the start of each phase to the logger ``seekpoint.compose``."""
    if not share:
        _logger.info(phase.text)
