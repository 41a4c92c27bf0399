"""A ``JournalProvider`` of Promptise whose entries are in a journal of Seekpoint."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from promptise.runtime.journal import JournalEntry

from seekpoint import Node, SyncNode, Tier
from seekpoint.adapters.cross_thread_calls import NodeCalls
from seekpoint.adapters.promptise.entry_reading import JournalReading
from seekpoint.adapters.promptise.json_data import as_json
from seekpoint.adapters.promptise.process_log import ProcessLog
from seekpoint.adapters.promptise.stored_entries import NewEntry, RecoveredFacts, checked_key
from seekpoint.errors import Refused, UnserializableValue

_KEPT_MAX = 1_000
_ID_BYTES_MAX, _HASH_BYTES = 200, 16


class SeekpointJournal:
    """Keep the entries and checkpoints of Promptise's processes in a journal: a ``JournalProvider``.

    Give it to an ``AgentProcess`` with ``use_journal``, or use it with ``ReplayEngine``, ``RewindEngine`` and
    ``RedactingJournal`` as every other. Any number of nodes may serve the same processes. A call that has returned is
    written: every later read of any node has it. With a ``Node``, make it in the node's event loop. ``actor`` is named
    in every entry.

    Calls raise ``JournalUnavailable`` where the log cannot be read, and those that write what ``Node.append`` raises.
    """

    def __init__(self, node: Node | SyncNode, *, prefix: str = "promptise", actor: str | None = None) -> None:
        self._calls = NodeCalls(node)
        self._prefix = prefix
        self._actor = actor
        self._logs: OrderedDict[str, ProcessLog] = OrderedDict()
        """The processes, the one used last at the end."""

    def process_id_of(self, process_id: str) -> str:
        """Return the id of Seekpoint's process that has the entries of a Promptise process.

        It is ``PREFIX/NAME``. What is no letter, digit or ``_.-:@+,;=`` is percent-encoded. A long name is cut, and has
        a hash at its end.
        """
        return journal_process_id(process_id, self._prefix)

    # --- JournalProvider
    async def append(self, entry: JournalEntry) -> None:
        """Append an entry; return once it is written. One whose id is among the newest 100 is written once.

        Its data is copied before the call waits. Raises ``UnserializableValue`` for data that is not JSON.
        """
        data, width = as_json(entry.data)
        if entry.entry_type == "context_update":
            checked_key(data)
        new = NewEntry(str(entry.entry_id), str(entry.entry_type), entry.timestamp.isoformat(), data, width)
        await self._append(entry.process_id, new)

    async def read(
        self,
        process_id: str,
        *,
        since: datetime | None = None,
        entry_type: str | None = None,
        limit: int | None = None,
    ) -> list[JournalEntry]:
        """Return the entries of a process, oldest first: of those that match, the oldest ``limit``.

        Reads the history of the process from its beginning; ``recover`` and ``last_checkpoint`` do not.
        """
        if limit is not None and limit < 0:
            raise Refused("a limit is not negative", found=limit)
        reading = JournalReading(self._calls.node, self._log(process_id), process_id, since, entry_type, limit)
        return await self._calls.awaited(reading.entries())

    async def checkpoint(self, process_id: str, state: Mapping[str, Any]) -> None:
        """Store a checkpoint, together with its entry: both are written, or none is."""
        if not isinstance(state, Mapping):
            raise UnserializableValue("a checkpoint is a dict", path="$")
        data, width = as_json({"state": dict(state)})
        new = NewEntry(str(uuid4()), "checkpoint", datetime.now(UTC).isoformat(), data, width, is_checkpoint_call=True)
        await self._append(process_id, new)

    async def last_checkpoint(self, process_id: str) -> dict[str, Any] | None:
        """Return the newest checkpoint of a process, a copy; None if it has none. Reads no history."""
        found: dict[str, Any] | None = (await self._recovered(process_id, None)).checkpoint
        return found

    async def close(self) -> None:
        """Do nothing: the node stays open."""

    # --- recovery
    async def recover(self, process_id: str, *, tier: Tier | None = None) -> dict[str, Any]:
        """Return what Promptise's ``ReplayEngine.recover`` returns, from the newest state instead of the history.

        The state comes from the view, or a checkpoint, or a scan of the log: see ``Node.recover``, which also says what
        ``tier`` forces and what is raised.
        """
        return (await self._recovered(process_id, tier)).as_replayed()

    async def _recovered(self, process_id: str, tier: Tier | None) -> RecoveredFacts:
        return await self._calls.awaited(self._log(process_id).recovered(tier))

    # --- processes
    async def _append(self, process_id: str, new: NewEntry) -> None:
        await self._calls.awaited(self._log(process_id).append(new))

    def _log(self, process_id: str) -> ProcessLog:
        log = self._logs.get(process_id)
        if log is None:
            for name, one in list(self._logs.items()) if len(self._logs) >= _KEPT_MAX else ():
                if one.is_idle:
                    del self._logs[name]
                    break
            log = self._logs[process_id] = ProcessLog(self._calls.node, self.process_id_of(process_id), self._actor)
        self._logs.move_to_end(process_id)
        return log

    def __repr__(self) -> str:
        return f"SeekpointJournal(prefix={self._prefix!r})"


def journal_process_id(name: str, prefix: str) -> str:
    """Return the id of the process that a ``SeekpointJournal`` with this prefix has for a Promptise process."""
    quoted = quote(name, safe=":@+,;=", errors="surrogatepass").replace("~", "%7E")
    whole = f"{prefix}/{quoted}"
    if len(whole.encode()) <= _ID_BYTES_MAX:
        return whole
    digest = blake2b(quoted.encode(), digest_size=_HASH_BYTES).hexdigest()
    return f"{whole[: _ID_BYTES_MAX - 2 * _HASH_BYTES - 1]}~{digest}"
