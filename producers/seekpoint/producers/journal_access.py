"""The log of a journal for those who write: its reader, its writers, the group of workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from seekpoint.consumers.journal_log import embedded_log

if TYPE_CHECKING:
    from seekpoint.consumers.kafka.kafka_reader import KafkaReader
    from seekpoint.consumers.sqlite.sqlite_log import SqliteLog
    from seekpoint.schemas.config.settings import Settings
    from seekpoint.schemas.log.inbox_ports import InboxMember
    from seekpoint.schemas.log.log_ports import LogWriter


@dataclass(frozen=True, slots=True)
class JournalAccess:
    """The access of one program to a journal. Nothing is connected before its first use."""

    settings: Settings
    reader: KafkaReader | SqliteLog
    writer: LogWriter

    @classmethod
    def of(cls, settings: Settings) -> JournalAccess:
        """Return the access to the journal that ``settings`` name."""
        embedded = embedded_log(settings)
        if embedded is not None:
            return cls(settings, embedded, embedded)
        from seekpoint.consumers.kafka.kafka_reader import KafkaReader
        from seekpoint.producers.writer.kafka_writer import KafkaWriter

        return cls(settings, KafkaReader(settings), KafkaWriter(settings))


def inbox_writer(settings: Settings, journal: object) -> LogWriter:
    """Return the writer of submissions. ``journal`` is the reader, whose file an embedded log shares."""
    if settings.sqlite_path is not None:
        return _embedded(journal).inbox()
    from seekpoint.producers.writer.kafka_writer import KafkaWriter

    return KafkaWriter(settings, "inbox")


def group_member(settings: Settings, journal: object, group: str) -> InboxMember:
    """Return a new member of a group of workers. Blocks."""
    if settings.sqlite_path is not None:
        from seekpoint.consumers.sqlite.sqlite_inbox import SqliteInboxMember

        return SqliteInboxMember(_embedded(journal), group)
    from seekpoint.consumers.kafka.kafka_inbox import KafkaInbox

    return KafkaInbox(settings, group)


def _embedded(journal: object) -> SqliteLog:
    from seekpoint.consumers.sqlite.sqlite_log import SqliteLog

    assert isinstance(journal, SqliteLog)
    return journal
