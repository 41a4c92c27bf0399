"""``seekpoint log``: show the entries of a process in log order, each with the verdict of the fold."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from seekpoint.console.render.output import emit_json, is_abandoned, say, warn
from seekpoint.console.render.tables import PrintedTable
from seekpoint.console.services.arguments.target import CommandTarget

if TYPE_CHECKING:
    from seekpoint.console.services.histories.judged_entries import JudgedEntry
    from seekpoint.consumers.recovery.process_history import Logged

from seekpoint.console.services.arguments.options import AsJson, ProcessId, Wide

_FOLLOW_INTERVAL_S = 0.2


def log(
    target: CommandTarget,
    process_id: ProcessId,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep showing entries as they are appended.")] = False,
    from_seq: Annotated[int | None, typer.Option("--from", metavar="SEQ", help="Start at this seq.")] = None,
    kinds: Annotated[
        list[str] | None, typer.Option("--kind", metavar="KIND", help="Show only this kind; may be repeated.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Show at most this many entries.")] = None,
    wide: Wide = False,
    json: AsJson = False,
) -> None:
    """Show a process's entries. With --json, print one object per line."""
    from seekpoint.console.render.entry_lines import ENTRY_COLUMNS, entry_facts, entry_row
    from seekpoint.console.services.histories.judged_entries import judged_entries
    from seekpoint.schemas.bodies.entry import process_key
    from seekpoint.schemas.log.partition import partition_of

    partition = partition_of(process_key(process_id), target.log.partitions)
    _warn_of_unknown_kinds(kinds)
    entry_filter = EntryFilter(from_seq, frozenset(kinds) if kinds else None, limit)
    table = PrintedTable(ENTRY_COLUMNS, wide=wide)
    for batch in judged_entries(target, process_id, partition, follow=follow):
        found = [entry_facts(logged, partition, verdict) for logged, verdict in entry_filter.select(batch)]
        if json:
            for facts in found:
                emit_json(facts, line=True)
        else:
            table.write([table.cells(entry_row(facts)) for facts in found])
        if entry_filter.is_full:
            return
        _wait(follow and not batch)
    if not entry_filter.has_matched:
        say("no entry matches" if from_seq or kinds else "no entries")


def _wait(idle: bool) -> None:
    """Wait before the next poll. Raises ``BrokenPipeError`` if the reader of stdout is gone."""
    if idle:
        sys.stdout.flush()
        if is_abandoned(sys.stdout):
            raise BrokenPipeError
        time.sleep(_FOLLOW_INTERVAL_S)


def _warn_of_unknown_kinds(kinds: list[str] | None) -> None:
    """Warn of a kind that looks misspelt. It is not an error, because a custom entry may have any kind."""
    from seekpoint.schemas.bodies import KINDS
    from seekpoint.schemas.values.near_names import nearest

    for kind in kinds or ():
        if kind not in KINDS and (near := nearest(kind, KINDS)):
            warn(f"{kind} is not a kind of Seekpoint; did you mean {near}?")


@dataclass(slots=True)
class EntryFilter:
    """A filter of entries by first seq, kind and number."""

    from_seq: int | None
    kinds: frozenset[str] | None
    limit: int | None
    has_matched: bool = False
    _has_begun: bool = False

    @property
    def is_full(self) -> bool:
        """Whether the limit is reached."""
        return self.limit == 0

    def select(self, batch: list[JudgedEntry]) -> list[JudgedEntry]:
        """Return the entries of ``batch`` that pass the filter."""
        found = [one for one in batch if self._begins(one[0]) and self._matches(one[0])][: self.limit]
        if self.limit is not None:
            self.limit -= len(found)
        self.has_matched = self.has_matched or bool(found)
        return found

    def _begins(self, logged: Logged) -> bool:
        """Whether an owner's entry with at least ``from_seq`` was read. External entries have no seq."""
        seq = logged.entry.seq
        self._has_begun = self._has_begun or self.from_seq is None or (seq is not None and seq >= self.from_seq)
        return self._has_begun

    def _matches(self, logged: Logged) -> bool:
        body = logged.entry.body
        return self.kinds is None or not self.kinds.isdisjoint((body.KIND, getattr(body, "kind", body.KIND)))
