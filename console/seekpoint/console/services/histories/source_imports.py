"""Imports of what another system has stored: the journal, the progress, the report."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from seekpoint.console.exit_codes import EXIT_FAULT, EXIT_REFUSED
from seekpoint.console.render.output import counted, emit_json, fail, say
from seekpoint.console.render.progress import ReadingProgress
from seekpoint.console.render.tables import Column, emit_table
from seekpoint.console.services.calls.send_and_confirm import with_node

if TYPE_CHECKING:
    from seekpoint.adapters.migration import ImportSource, Migrated, Order
    from seekpoint.console.services.arguments.target import CommandTarget
    from seekpoint.producers import Node

_WORDS = {
    "planned": "to be imported",
    "imported": "imported",
    "there": "there already",
    "differs": "differs",
    "refused": "refused",
}

_ONE = {"entries": "entry"}


class SourceImport:
    """One import of the command line."""

    def __init__(
        self, target: CommandTarget, kind: str, place: str, *, ids: Sequence[str], id_prefix: str, prefix: str | None,
        dry_run: bool, compare: bool,
    ) -> None:  # fmt: skip
        self._target = target
        self._kind = kind
        self._place = place
        self._ids = ids
        self._id_prefix = id_prefix
        self._prefix = prefix
        self._dry_run = dry_run
        self._compare = compare and not dry_run

    def run(self, *, json: bool) -> int | None:
        """Import, print the report, and return the exit code."""
        from seekpoint.adapters.migration import chosen_ids, open_source

        logging.getLogger("langgraph").setLevel(logging.ERROR)  # it warns of each type that it does not build
        source = open_source(self._kind, self._place)
        ids = chosen_ids(source, self._ids, self._id_prefix)
        units = sum(map(source.size, ids)) * (2 if self._compare else 1)
        with ReadingProgress("reading" if self._dry_run else "importing", units, source.unit) as progress:
            found = self._imported(source, ids, progress)
        places = {one_id: place for place, one_id in enumerate(ids)}
        found.sort(key=lambda one: places[one.id])
        return self._report(found, json=json)

    def _imported(self, source: ImportSource, ids: Sequence[str], progress: ReadingProgress) -> list[Migrated]:
        from seekpoint.adapters.migration import Order

        order = Order(
            prefix=self._prefix or source.default_prefix, dry_run=self._dry_run, compare=self._compare,
            advance=progress.advance,
        )  # fmt: skip
        if self._dry_run and not self._has_journal():
            import asyncio

            return asyncio.run(_all(None, source, ids, order))
        settings = self._target.reachable(may_create=not self._dry_run)
        return with_node(settings, lambda node: _all(node, source, ids, order))

    def _has_journal(self) -> bool:
        """Return whether there is a journal, because a dry run does not make one."""
        path = self._target.settings.sqlite_path
        return path is None or path.exists()

    def _report(self, found: Sequence[Migrated], *, json: bool) -> int | None:
        for one in found:
            for line in one.differences:
                fail(f"{one.id}: {line}")
            if one.difference_count > len(one.differences):
                fail(f"{one.id}: {one.difference_count - len(one.differences):,} more differences")
            if one.error is not None and not json:
                fail(f"{one.id}: {one.error}")
        if json:
            emit_json(
                {
                    "from": self._kind,
                    "dry_run": self._dry_run,
                    "compared": self._compare,
                    "total": _total(found),
                    "imported": [_document(one) for one in found],
                }
            )
        else:
            emit_table(_COLUMNS, map(_row, found), wide=False)
            self._say(found)
        if any(one.status == "differs" for one in found):
            return EXIT_FAULT
        return EXIT_REFUSED if any(one.status == "refused" for one in found) else None

    def _say(self, found: Sequence[Migrated]) -> None:
        by_status = {word: sum(one.status == status for one in found) for status, word in _WORDS.items()}
        parts = ", ".join(f"{count:,} {word}" for word, count in by_status.items() if count)
        compared = "; compared with the source" if self._compare and found else ""
        say(f"{self._kind}: {parts or 'nothing to import'}{compared}")
        if orphaned := sum(one.counts.get("orphaned_writes", 0) for one in found):
            say(f"{counted(orphaned, 'write')} of checkpoints that the source does not have: left out")


_COLUMNS = (
    Column("id"), Column("process"), Column("result"), Column("has", wraps=True), Column("new", wraps=True),
)  # fmt: skip


async def _all(node: Node | None, source: ImportSource, ids: Sequence[str], order: Order) -> list[Migrated]:
    from seekpoint.adapters.migration import migrate

    return [one async for one in migrate(node, source, ids, order)]


def _row(one: Migrated) -> list[object]:
    word = _WORDS[one.status] + (", has gone on since" if one.has_gone_on else "")
    return [one.id, one.process_id, word, _counts(one.counts), _counts(one.new)]


def _counts(counts: Any) -> str:
    return ", ".join(f"{count:,} {_named(name, count)}" for name, count in counts.items() if count) or "-"


def _named(name: str, count: int) -> str:
    words = name.replace("_", " ")
    return words if count > 1 or name == "archived" else _ONE.get(words, words.removesuffix("s"))


def _document(one: Migrated) -> dict[str, Any]:
    return {
        "id": one.id,
        "process_id": one.process_id,
        "status": one.status,
        "source": dict(one.counts),
        "new": dict(one.new),
        "has_gone_on": one.has_gone_on,
        "differences": list(one.differences),
        "difference_count": one.difference_count,
        "error": None if one.error is None else {"type": type(one.error).__name__, "message": str(one.error)},
    }


def _total(found: Sequence[Migrated]) -> dict[str, Any]:
    totals: dict[str, Any] = {status: sum(one.status == status for one in found) for status in _WORDS}
    names = sorted({name for one in found for name in one.counts})
    return totals | {
        "source": {name: sum(one.counts.get(name, 0) for one in found) for name in names},
        "new": {name: sum(one.new.get(name, 0) for one in found) for name in names if name != "orphaned_writes"},
    }
