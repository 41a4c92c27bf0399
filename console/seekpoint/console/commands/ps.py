"""``seekpoint ps | state | verify``: processes as the journal has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seekpoint.console.command import AsJson, command
from seekpoint.console.exit_codes import EXIT_FAULT
from seekpoint.console.render.output import Column, clean, emit, emit_json, emit_json_list, emit_table, fail, say
from seekpoint.console.render.progress import ReadingProgress, watched
from seekpoint.console.services.target import CommandTarget

if TYPE_CHECKING:
    from seekpoint.consumers.recovery.points import Point
    from seekpoint.consumers.recovery.verification import Verification
    from seekpoint.schemas.state.state import State

__all__ = ["ProcessId", "register", "scan_processes", "states_of"]

_REASONS_MAX = 20

ProcessId = Annotated[str, typer.Argument(metavar="ID", help="The process.", show_default=False)]


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    command(app, "ps")(ps)
    command(app, "state")(state)
    command(app, "verify")(verify)


def ps(
    target: CommandTarget,
    from_log: Annotated[bool, typer.Option("--from-log", help="Read the whole log, though there is a view.")] = False,
    wide: Annotated[bool, typer.Option("--wide", "-w", help="With epoch, mailbox, newest offset and lag.")] = False,
    json: AsJson = False,
) -> None:
    """List the journal's processes: from the view by id, or else from the log by partition and id."""
    from seekpoint.console.render import states

    target.require_kafka()
    found = _from_log(target, "as asked") if from_log else _from_view_or_log(target)
    columns, row = (
        (states.WIDE_PROCESS_COLUMNS, states.wide_process_row) if wide else (states.PROCESS_COLUMNS, states.process_row)
    )
    if json:
        emit_json_list({"journal": target.settings.journal}, "processes", found)
    elif not emit_table(columns, map(row, found)):
        say(f"the journal {target.settings.journal} has no processes yet")


def _from_view_or_log(target: CommandTarget) -> Iterator[dict[str, Any]]:
    """By the view as far as it can be used; the processes after that by the log."""
    from seekpoint.console.render.listing import ViewGone, from_view

    last = ""
    try:
        for facts in from_view(target):
            last = facts["process_id"]
            yield facts
    except ViewGone as gone:
        yield from _from_log(target, gone.why, after=last)


def _from_log(target: CommandTarget, why: str, after: str = "") -> Iterator[dict[str, Any]]:
    """By the log, those whose id comes after ``after``."""
    from seekpoint.console.render.states import process_facts

    say(f"reading from the log: {why}")
    for process_id, partition, state in scan_processes(target):
        if process_id > after:
            yield process_facts(process_id, partition, state) | {"behind": 0}


def scan_processes(target: CommandTarget) -> Iterator[tuple[str, int, State]]:
    """Each process, its partition and its state, by one read of the whole log; with progress on a terminal.

    In the order of partitions, and of ids within one. The states of one partition are in memory at a time. What was
    trimmed from a partition comes from its checkpoints.
    """
    from seekpoint.consumers.recovery.recoverer import Recoverer
    from seekpoint.consumers.recovery.tiers import Tier

    partitions = range(target.log.partitions)
    marks = [target.log.watermarks(partition) for partition in partitions]
    with ReadingProgress("reading", sum(mark.high - mark.low for mark in marks)) as progress:
        log = watched(target.log, progress.advance)
        recoverer = Recoverer(log, target.dead_letters, checkpoints=target.checkpoints)
        for partition in partitions:
            tier = Tier.CHECKPOINT if marks[partition].low > 0 else Tier.SCAN
            states = recoverer.recover_partition(partition, tier=tier)
            progress.hide()
            for process_id in sorted(states):
                yield process_id, partition, states.pop(process_id).state


def states_of(target: CommandTarget, process_id: str | None) -> Iterator[tuple[str, State]]:
    """The state of one process; of each, by one read of the whole log, where none is named."""
    if process_id is not None:
        yield process_id, target.recoverer.recover(process_id).state
        return
    for name, _, state in scan_processes(target):
        yield name, state


def state(
    target: CommandTarget,
    process_id: ProcessId,
    at_seq: Annotated[int | None, typer.Option("--at-seq", help="Right after this seq was applied.")] = None,
    at_offset: Annotated[int | None, typer.Option("--at-offset", help="As of this offset, inclusive.")] = None,
    at_time: Annotated[
        str | None, typer.Option("--at-time", metavar="TIME", help="Before this time: ISO 8601, or seconds since 1970.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Show a process's state, now or at a point in its past."""
    from seekpoint.console.render.states import state_facts, state_lines

    wanted = point(at_seq, at_offset, at_time)
    found = target.recoverer.recover(process_id, point=wanted)
    facts = state_facts(process_id, found)
    if json:
        emit_json(facts)
    else:
        for line in state_lines(facts):
            emit(clean(line))


def point(at_seq: int | None, at_offset: int | None, at_time: str | None) -> Point:
    """The point in the past that was asked for; now if none was. Raises ``BadParameter`` for two, or for no time."""
    from seekpoint.consumers.recovery.points import Point

    if sum(each is not None for each in (at_seq, at_offset, at_time)) > 1:
        raise typer.BadParameter("one of --at-seq, --at-offset and --at-time", param_hint="--at-…")
    if at_seq is not None and at_seq < 1:
        raise typer.BadParameter("a seq is a number from 1 on", param_hint="--at-seq")
    if at_offset is not None and at_offset < 0:
        raise typer.BadParameter("an offset is a number from 0 on", param_hint="--at-offset")
    return Point(seq=at_seq, offset=at_offset, time=None if at_time is None else moment(at_time))


def moment(text: str) -> datetime | float:
    """Seconds since 1970, or an ISO 8601 time; local where it names no zone.

    >>> moment("1790000000.5"), moment("2026-11-22T00:00:00Z").isoformat()
    (1790000000.5, '2026-11-22T00:00:00+00:00')
    """
    from math import isfinite

    try:
        seconds = float(text)
        if isfinite(seconds):
            return seconds
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        example = "2026-11-22T14:30:00+01:00, or 1790000000"
        raise typer.BadParameter(f"{text!r} is no time: {example}", param_hint="--at-time") from None


def verify(
    target: CommandTarget,
    process_ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID...]", help="One or more.", show_default=False)
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every process of the journal.")] = False,
    json: AsJson = False,
) -> int:
    """Find processes in every way there is, and compare. Through independent readers; exits with 1 if they differ."""
    if bool(process_ids) == everything:
        raise typer.BadParameter("either process ids, or --all", param_hint="ID...")
    faults = _Faults()
    found = _verify_all(target) if everything else _verify_some(target, process_ids or [], faults)
    _show_verified(target, faults.watch(found), json)
    for way, reason in faults.missing:
        say(f"not by {way}: {reason}")
    return EXIT_FAULT if faults.found else 0


class _Faults:
    """What is wrong with verified processes, as they go by."""

    def __init__(self) -> None:
        self.found = False
        self.missing: dict[tuple[str, str], None] = {}
        """The ways that could not be gone, and why: the first reasons, each once."""

    def watch(self, verified: Iterable[Verification]) -> Iterator[Verification]:
        for one in verified:
            self.found |= not one.agrees
            for way in one.missing.items():
                if len(self.missing) < _REASONS_MAX:
                    self.missing[way] = None
            yield one


def _verify_all(target: CommandTarget) -> Iterator[Verification]:
    from seekpoint.consumers.recovery.verification import verify_all

    marks = [target.log.watermarks(partition) for partition in range(target.log.partitions)]
    with ReadingProgress("verifying", sum(mark.high - mark.low for mark in marks)) as progress:
        for one in verify_all(target.recoverer, progress.advance):
            progress.hide()
            yield one


def _verify_some(target: CommandTarget, process_ids: list[str], faults: _Faults) -> Iterator[Verification]:
    """Those that there are; one that there is not is a fault."""
    from seekpoint.consumers.recovery.verification import verify as verify_one
    from seekpoint.schemas.errors import UnknownProcess

    wanted = list(dict.fromkeys(process_ids))
    with ReadingProgress("verifying", len(wanted) if len(wanted) > 1 else 0, "processes") as progress:
        for process_id in wanted:
            try:
                found = verify_one(target.recoverer, process_id)
            except UnknownProcess as error:
                fail(str(error))
                faults.found = True
            else:
                progress.hide()
                yield found
            progress.advance(1)


def _show_verified(target: CommandTarget, found: Iterable[Verification], json: bool) -> None:
    if json:
        emit_json_list({}, "processes", map(_verified, found))
        return
    from seekpoint.consumers.recovery.verification import methods_of

    ways = methods_of(target.recoverer)
    columns = [Column("process"), Column("agrees"), Column("seq", right=True), *map(Column, ways)]
    rows = (
        [one.process_id, "yes" if one.agrees else "no", one.seq, *(one.hashes.get(way, "-") for way in ways)]
        for one in found
    )
    emit_table(columns, rows)


def _verified(one: Verification) -> dict[str, Any]:
    facts = {"process_id": one.process_id, "agrees": one.agrees, "seq": one.seq, "epoch": one.epoch}
    return {**facts, "offset": one.offset, "hashes": one.hashes, "missing": one.missing}
