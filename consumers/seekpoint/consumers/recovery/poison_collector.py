"""Collects what a recovery has to say about poison that it met."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from seekpoint.schemas.errors import SeekpointError, UndecodableRecord
from seekpoint.schemas.log.log_ports import Record

__all__ = ["PoisonCollector"]


class PoisonCollector:
    """Writes a dead letter for each poison record of a scan. ``notes`` says which could not be written."""

    def __init__(
        self,
        add_dead_letter: Callable[[Record, UndecodableRecord], SeekpointError | None],
        notes: Iterable[str] = (),
    ) -> None:
        self._add_dead_letter = add_dead_letter
        self.notes: dict[str, None] = dict.fromkeys(notes)

    def add(self, record: Record, error: UndecodableRecord) -> None:
        """Write a dead letter for ``record``, or a note if that fails. Raises ``TooManyDeadLetters``."""
        failure = self._add_dead_letter(record, error)
        if failure is not None:
            self.notes[f"dead letters could not be written: {failure.message}"] = None
