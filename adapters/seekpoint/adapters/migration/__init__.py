"""Import what other systems have stored: ``seekpoint import --from KIND SOURCE`` uses this, and programs may, too.

    SqliteSaver, PostgresSaver of LangGraph     threads, as ``SeekpointSaver`` keeps them
    SQLiteEventStore of ActiveGraph             runs, as ``SeekpointRuns`` keeps them
    FileJournal of Promptise                    journals, as ``SeekpointJournal`` keeps them

A source is only read, never written to. Everything that is written is read back and compared. An import that was
interrupted is repeated: it goes on where it was.
"""

from seekpoint.adapters.migration.import_runner import ImportSource, Migrated, Order, chosen_ids, migrate
from seekpoint.adapters.migration.kinds import SOURCE_KINDS, open_source

__all__ = ["SOURCE_KINDS", "ImportSource", "Migrated", "Order", "chosen_ids", "migrate", "open_source"]
