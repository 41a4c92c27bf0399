"""The log of the journal that settings name: on Kafka, or embedded in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seekpoint.schemas.config.settings import Settings

if TYPE_CHECKING:
    from seekpoint.consumers.kafka.kafka_reader import KafkaReader
    from seekpoint.consumers.sqlite.sqlite_log import SqliteLog
    from seekpoint.consumers.view.view_store import ViewBrowser


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


def journal_view(settings: Settings, journal: object = None) -> ViewBrowser:
    """Return the view of the journal, which connects when it is first used. Check ``settings.has_view`` before.

    ``journal`` is the reader whose file the view of an embedded log shares; without it the view opens the file itself.
    """
    if settings.sqlite_path is None:
        from seekpoint.consumers.view.redis_view import RedisView

        return RedisView(settings)
    from seekpoint.consumers.sqlite.sqlite_log import SqliteLog
    from seekpoint.consumers.sqlite.sqlite_view import SqliteView

    if isinstance(journal, SqliteLog):
        return SqliteView(journal.file)
    own = embedded_log(settings, must_exist=True)
    assert own is not None
    return SqliteView(own.file, owns_file=True)
