"""Promptise's ``AgentProcess`` on a ``SeekpointJournal``: it recovers from the newest state, without its history."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from promptise.runtime import AgentProcess
from promptise.runtime.journal import JournalEntry, JournalProvider
from promptise.runtime.journal.redact import RedactingJournal

from seekpoint.adapters.promptise.entry_reading import shortest_replay
from seekpoint.adapters.promptise.journal import SeekpointJournal
from seekpoint.errors import Refused


def use_journal(process: AgentProcess, journal: SeekpointJournal) -> None:
    """Let ``process`` keep its journal in ``journal``. Call it before its start.

    Its configuration still says what is recorded: ``JournalConfig(level="checkpoint", backend="memory")``. Secrets are
    redacted as before. At its start it recovers as ``SeekpointJournal.recover`` does. Raises ``Refused`` for a process
    without a journal, and for one that was started.
    """
    before: Any = process._journal
    if before is None:
        raise Refused(
            "the process keeps no journal", process_id=process.name,
            hint='give its ProcessConfig a journal=JournalConfig(level="checkpoint", backend="memory")',
        )  # fmt: skip
    if process._recovery_attempted:
        raise Refused(
            "the process was started with another journal", process_id=process.name,
            hint="call use_journal before start",
        )  # fmt: skip
    if isinstance(before, RedactingJournal):
        before._inner = journal
    else:
        process._journal = journal
    for part in (process._secrets, process._mission):  # they have a view of the journal of their own
        if part is not None and part._journal is not None and part._journal._journal is before:
            part._journal._journal = process._journal
    recover = process._recover_from_journal
    setattr(process, "_recover_from_journal", _recovering(process, journal, recover))  # noqa: B010  # mypy takes no other


def _recovering(
    process: AgentProcess, journal: SeekpointJournal, recover: Callable[[], Awaitable[None]]
) -> Callable[[], Awaitable[None]]:
    async def recover_from_state() -> None:
        """Let Promptise replay the fewest entries that lead to the newest state."""
        used: Any = process._journal
        process._journal = _StateView(used, journal)
        try:
            await recover()
        finally:
            process._journal = used

    return recover_from_state


class _StateView:
    """The journal as a recovery reads it; what it writes goes to ``used``."""

    def __init__(self, used: JournalProvider, journal: SeekpointJournal) -> None:
        self._used = used
        self._journal = journal

    async def last_checkpoint(self, process_id: str) -> dict[str, Any] | None:
        """Return the newest checkpoint."""
        self._found = await self._journal._recovered(process_id, None)
        checkpoint: dict[str, Any] | None = self._found.checkpoint
        return checkpoint

    async def read(self, process_id: str) -> list[JournalEntry]:
        """Return the fewest entries that replay to the state, as of the call before."""
        return shortest_replay(process_id, self._found, datetime.now(UTC))

    async def append(self, entry: JournalEntry) -> None:
        """Append an entry."""
        await self._used.append(entry)
