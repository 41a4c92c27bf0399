"""The log of the journal that settings name: on Kafka, or embedded in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seekpoint.schemas.config.settings import Settings

if TYPE_CHECKING:
    from seekpoint.consumers.kafka.kafka_reader import KafkaReader
    from seekpoint.consumers.sqlite.sqlite_log import SqliteLog

__all__ = ["embedded_log", "journal_log"]


def journal_log(settings: Settings, *, must_exist: bool = False) -> KafkaReader | SqliteLog:
    """Return the reader of the journal, which connects when it is first used.

    The file of an embedded log is created then, unless it ``must_exist``.
    """
    embedded = embedded_log(settings, must_exist=must_exist)
    if embedded is not None:
        return embedded
    from seekpoint.consumers.kafka.kafka_reader import KafkaReader  # 65 ms, which an embedded log need not pay

    return KafkaReader(settings)


def embedded_log(settings: Settings, *, must_exist: bool = False) -> SqliteLog | None:
    """Return the embedded log that settings name; None for a journal on Kafka."""
    path = settings.sqlite_path
    if path is None:
        return None
    from seekpoint.consumers.sqlite.sqlite_file import SqliteFile
    from seekpoint.consumers.sqlite.sqlite_log import SqliteLog

    return SqliteLog(SqliteFile(path, settings, must_exist=must_exist), settings)
