"""The calls of a node that read processes, whoever owns them."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import aclosing
from typing import TYPE_CHECKING

from seekpoint.producers.node_runtime import NodeRuntime

if TYPE_CHECKING:
    from seekpoint.consumers.recovery.process_index import ProcessIndex
    from seekpoint.consumers.recovery.recovery_report import Recovered
    from seekpoint.consumers.view.process_summary import Summary
    from seekpoint.producers.history.process_records import ProcessRecord
    from seekpoint.producers.history.record_reads import RecordReads

logger = logging.getLogger("seekpoint.producers")


class ReadCalls:
    """Read processes. A node has ``_runtime``. What most nodes never use is loaded at first use."""

    _runtime: NodeRuntime
    _record_reads: RecordReads | None = None

    def records(
        self,
        process_id: str,
        *,
        after: str | None = None,
        after_offset: int | None = None,
        after_seq: int | None = None,
        applied: bool = True,
        through_forks: bool = True,
        kinds: Collection[str] | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[ProcessRecord]:
        """Yield the entries of a process in their order, decoded: those of its parents first, if it is a fork.

        Has every entry that was acknowledged before the call, by any node. A process that does not exist has none.
        ``applied``: leave out what the fold ignores (entries of fenced owners, lost claims, duplicates).
        ``through_forks``: begin with the parent's entries up to the fork, and with those of its parent. ``kinds``: only
        these; the kind that a program gave its record counts too. ``limit``: at most so many.

        ``after=record.cursor`` goes on behind a record. ``after_offset`` and ``after_seq`` name an entry of the process
        itself; no parent's entries follow. A call that goes on where one of the last 1,000 reads of this node ended
        (at the end, or at its ``limit``, with the same selection) reads only what is new. Any other call reads the
        partition from the process's first entry on.

        Raises ``UnknownPoint`` for a place that is not there, ``JournalGap`` where entries were trimmed or a parent is
        not in the journal, ``TransactionOpen``, ``LogTruncated``, ``Refused``, and what a recovery raises.
        """
        from seekpoint.producers.history.process_records import RecordSelection, place_of
        from seekpoint.producers.history.record_reads import RecordReads

        if self._record_reads is None:
            self._record_reads = RecordReads(self._runtime)
        place = place_of(process_id, after, after_offset, after_seq)
        selection = RecordSelection.of(kinds, applied, limit)
        return self._record_reads.read(process_id, place, selection, through_forks=through_forks)

    async def processes(self, *, prefix: str = "", after: str = "", limit: int | None = None) -> AsyncIterator[Summary]:
        """Yield the processes whose ids begin with ``prefix``, by id: their summaries, without content.

        Owned, shared and finished processes are among them, shared values are not. ``after``: only ids that come behind
        this one, for the next page. ``limit``: at most so many.

        As fresh as ``recover``: an entry that was acknowledged before the call is in the summary of its process. The
        processes are read from the view, a page at a time, together with the entries that the view does not have yet.
        Without a usable view the log is read: once for the ids of the processes, and once for each 500 to 2,000 of
        them. Raises ``Refused``, ``TransactionOpen`` and what a recovery raises.
        """
        from seekpoint.consumers.recovery.process_listing import list_processes
        from seekpoint.schemas.errors import Refused

        if limit is not None and limit < 1:
            raise Refused("a limit is at least 1", found=repr(limit)[:80])
        recovery = self._runtime.recovery
        batches = list_processes(recovery.blocking, prefix, after, limit, _log_no_view)
        async with aclosing(recovery.in_threads(batches)) as found:
            async for batch in found:
                for one in batch:
                    yield one

    def index(self, prefix: str) -> ProcessIndex:
        """Return an index of the processes whose ids begin with ``prefix``: those that were written last first.

        Keep it: its first read costs the ids of these processes, a later one what was written since. It belongs to the
        node's event loop.
        """
        from seekpoint.consumers.recovery.process_index import ProcessIndex

        return ProcessIndex(self._runtime.recovery, prefix)

    async def recover_many(self, process_ids: Iterable[str]) -> dict[str, Recovered]:
        """Return the states of many processes as of now, by id, with at most one scan of a partition.

        An unknown process is no error here: its ``known`` is False. Raises what a recovery raises.
        """
        return await self._runtime.recovery.recover_many(process_ids)


def _log_no_view(why: str) -> None:
    logger.info("the processes are read from the log: %s", why)
