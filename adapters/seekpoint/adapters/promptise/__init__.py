"""A journal for Promptise's agent processes. Needs ``seekpoint[promptise]``; see docs/adapters/promptise.md.

``SeekpointJournal`` is a ``JournalProvider``. ``use_journal`` gives it to an ``AgentProcess`` before its start.
"""

from seekpoint.adapters.promptise.agent_processes import use_journal
from seekpoint.adapters.promptise.journal import SeekpointJournal

__all__ = ["SeekpointJournal", "use_journal"]
