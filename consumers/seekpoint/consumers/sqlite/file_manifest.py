"""The manifest in a journal's file, the schema of the entries that this code writes, and how a format is raised."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

from seekpoint.schemas.log.manifest import Manifest, schema_key
from seekpoint.schemas.wire.avro_schema import SCHEMA_FINGERPRINT, schema_json

_OWN_SCHEMA = schema_key(SCHEMA_FINGERPRINT)


def manifest_in(connection: sqlite3.Connection) -> Manifest | None:
    """Return the manifest in a file; None if it has none. Raises what ``Manifest.from_bytes`` raises."""
    if not connection.execute("PRAGMA user_version").fetchone()[0]:
        return None
    row = connection.execute("SELECT value FROM manifest").fetchone()
    return None if row is None else Manifest.from_bytes(row[0])


def is_same_journal(manifest: Manifest | None, opened: Manifest) -> bool:
    """Return whether it is the journal that was opened: ``seekpoint upgrade`` may have raised its format since."""
    return manifest is not None and replace(manifest, format=opened.format) == opened


def lacks_schema(connection: sqlite3.Connection) -> bool:
    """Return whether the file lacks the schema that this code writes entries with."""
    query = "SELECT 1 FROM tables WHERE name = 'schemas' AND key = ?"
    return connection.execute(query, (_OWN_SCHEMA,)).fetchone() is None


def add_schema(connection: sqlite3.Connection) -> None:
    """Store the schema that this code writes entries with, so that every other version can read them."""
    add = "INSERT OR IGNORE INTO tables (name, key, value) VALUES ('schemas', ?, ?)"
    connection.execute(add, (_OWN_SCHEMA, schema_json().encode()))


def write_format(newer: Manifest, connection: sqlite3.Connection) -> None:
    """Replace the manifest by one of this code's format, and store the schema of that format."""
    add_schema(connection)
    connection.execute("UPDATE manifest SET value = ?", (newer.to_bytes(),))
