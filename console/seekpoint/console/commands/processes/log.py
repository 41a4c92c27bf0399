"""``seekpoint log``: show the entries of a process in log order, each with the verdict of the fold."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from seekpoint.console.render.output import emit, emit_json, fitted, is_abandoned, say, warn
from seekpoint.console.services.target import CommandTarget

if TYPE_CHECKING:
    from seekpoint.consumers.recovery.process_history import Logged
    from seekpoint.schemas.folding.fold import Verdict

from seekpoint.console.services.options import AsJson, ProcessId

__all__ = ["Chosen"]

_FOLLOW_INTERVAL_S = 0.2

Judged = tuple["Logged", "Verdict | None"]


def log(
    target: CommandTarget,
    process_id: ProcessId,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is appended.")] = False,
    from_seq: Annotated[int | None, typer.Option("--from", metavar="SEQ", help="Start with this seq.")] = None,
    kinds: Annotated[
        list[str] | None, typer.Option("--kind", metavar="KIND", help="Only this kind; may be repeated.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="At most so many entries.")] = None,
    json: AsJson = False,
) -> None:
    """Show a process's entries. With --json one object a line."""
    from seekpoint.console.render.entry_lines import HEADER, entry_facts, entry_line
    from seekpoint.schemas.bodies.entry import process_key
    from seekpoint.schemas.log.partition import partition_of

    partition = partition_of(process_key(process_id), target.log.partitions)
    _warn_of_unknown_kinds(kinds)
    chosen = Chosen(from_seq, frozenset(kinds) if kinds else None, limit)
    for batch in _judged(target, process_id, partition, follow):
        first = not chosen.any
        for logged, verdict in chosen.of(batch):
            facts = entry_facts(logged, partition, verdict)
            if json:
                emit_json(facts, line=True)
                continue
            if first:
                emit(HEADER)
                first = False
            emit(fitted(entry_line(facts)))
        if chosen.enough:
            return
        _wait(follow and not batch)
    if not chosen.any:
        say("no entry fits" if from_seq or kinds else "no entries")


def _judged(target: CommandTarget, process_id: str, partition: int, follow: bool) -> Iterator[list[Judged]]:
    """Batches of the process's entries, each with its verdict; None where the log's beginning is gone."""
    from seekpoint.consumers.recovery.process_history import history
    from seekpoint.schemas.folding.fold import advance
    from seekpoint.schemas.state.state import Draft

    low = target.log.watermarks(partition).low
    if low > 0:
        warn(f"the log begins at offset {low}: what was before it is gone, and with it what the fold made of the rest")
    draft, limits = Draft(), target.log.limits
    for batch in history(target.recoverer, process_id, follow=follow):
        yield [(one, None if low > 0 else advance(draft, one.offset, one.entry, limits)) for one in batch]


def _wait(idle: bool) -> None:
    """Between two looks for something new. Raises ``BrokenPipeError`` once nobody reads what is written any more."""
    if idle:
        sys.stdout.flush()
        if is_abandoned(sys.stdout):
            raise BrokenPipeError
        time.sleep(_FOLLOW_INTERVAL_S)


def _warn_of_unknown_kinds(kinds: list[str] | None) -> None:
    """A misspelt kind finds nothing; it may also be the kind of a custom entry, so it is no error."""
    from difflib import get_close_matches

    from seekpoint.schemas.bodies import KINDS

    for kind in kinds or ():
        near = get_close_matches(kind, KINDS, n=1)
        if kind not in KINDS and near:
            warn(f"{kind} is no kind of Seekpoint's own; did you mean {near[0]}?")


@dataclass(slots=True)
class Chosen:
    """The entries that were asked for: from a seq on, of some kinds, not more than a limit."""

    from_seq: int | None
    kinds: frozenset[str] | None
    limit: int | None
    any: bool = False
    _begun: bool = False

    @property
    def enough(self) -> bool:
        """Whether nothing more is wanted."""
        return self.limit == 0

    def of(self, batch: list[Judged]) -> list[Judged]:
        """Those of ``batch`` that are wanted."""
        found = [one for one in batch if self._begins(one[0]) and self._fits(one[0])][: self.limit]
        if self.limit is not None:
            self.limit -= len(found)
        self.any = self.any or bool(found)
        return found

    def _begins(self, logged: Logged) -> bool:
        """Whether the first owner's entry of at least ``from_seq`` was met: external entries have no seq."""
        seq = logged.entry.seq
        self._begun = self._begun or self.from_seq is None or (seq is not None and seq >= self.from_seq)
        return self._begun

    def _fits(self, logged: Logged) -> bool:
        body = logged.entry.body
        return self.kinds is None or not self.kinds.isdisjoint((body.KIND, getattr(body, "kind", body.KIND)))
