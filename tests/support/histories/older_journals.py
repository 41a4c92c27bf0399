"""Journals of format 1, as the release 0.1.0 left them: its schema, its golden history, its manifest."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace

from raw_kafka import RawKafka
from seekpoint.compose import create_topics_sync
from seekpoint.consumers.sqlite.sqlite_file import SqliteFile
from seekpoint.consumers.sqlite.sqlite_log import SqliteLog
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.log.manifest import MANIFEST_KEY, schema_key
from seekpoint.schemas.log.memory_log import MemoryLog
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.state.process_state import State
from seekpoint.schemas.wire.golden import load_goldens
from written_journals import write_records

__all__ = ["OLD_PROCESS", "OLD_STATE", "old_file", "old_kafka_journal", "old_memory_log"]

[_OLD] = [golden for golden in load_goldens() if golden.release == "0.1.0"]
OLD_PROCESS = str(_OLD.entries[0]["values"]["process_id"])
OLD_STATE = State.from_bytes(_OLD.state.encode())
_KEY = OLD_PROCESS.encode()
_RECORDS = [bytes.fromhex(record) for record in _OLD.history]
_FINGERPRINT, _SCHEMA = bytes.fromhex(_OLD.fingerprint), json.dumps(_OLD.schema)


def old_memory_log() -> MemoryLog:
    """Return such a journal in memory."""
    log = MemoryLog(1, journal_format=1, schemas={_FINGERPRINT: _SCHEMA})
    for record in _RECORDS:
        log.append(0, _KEY, record)
    return log


def old_file(settings: Settings) -> None:
    """Make such a journal in the file that ``settings`` name."""
    assert settings.sqlite_path is not None
    log = SqliteLog(SqliteFile(settings.sqlite_path, settings), settings)
    older = replace(log.connect(), format=1)

    def work(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM tables WHERE name = 'schemas'")
        add = "INSERT INTO tables (name, key, value) VALUES ('schemas', ?, ?)"
        connection.execute(add, (schema_key(_FINGERPRINT), _SCHEMA.encode()))
        connection.execute("UPDATE manifest SET value = ?", (older.to_bytes(),))

    log.file.write(work)
    log.close()
    write_records(settings, [(_KEY, record) for record in _RECORDS])


def old_kafka_journal(settings: Settings) -> None:
    """Make such a journal on Kafka. The schema of this code is registered: what matters is the manifest."""
    manifest = create_topics_sync(settings)
    raw = RawKafka(settings)
    facts = [(schema_key(_FINGERPRINT), _SCHEMA.encode()), (MANIFEST_KEY, replace(manifest, format=1).to_bytes())]
    raw.write(0, [(key, value, 1_000) for key, value in facts], settings.topic_name("schemas"))
    raw.write(partition_of(_KEY, manifest.partitions), [(_KEY, record, 1_000) for record in _RECORDS])
