"""``seekpoint export``: write a process to a file, or decisions to a data set."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seekpoint.console.render.output import counted, emit_json, say, warn
from seekpoint.console.services.target import CommandTarget

if TYPE_CHECKING:
    from seekpoint.console.render.progress import ReadingProgress
    from seekpoint.schemas.bodies.entry import Entry
    from seekpoint.schemas.errors import SeekpointError
from seekpoint.console.services.options import AsJson
from seekpoint.console.services.process_scan import entries_of

__all__ = ["export"]


def export(
    target: CommandTarget,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="ID FILE", help="The process and the file.", show_default=False)
    ] = None,
    dataset: Annotated[
        Path | None,
        typer.Option("--dataset", metavar="FILE", help="Write decisions as JSON lines; the arguments are process ids."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Export the decisions of every process.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace FILE if it exists.")] = False,
    json: AsJson = False,
) -> None:
    """Write a process to a file, or decisions to a data set.

    Each decision is a line of JSON with request, response, usage and cost.
    """
    given = names or []
    if dataset is not None:
        if every is bool(given):
            raise typer.BadParameter("name processes, or give --all", param_hint="ID")
        facts = _dataset(target, dataset, None if every else given, overwrite)
    elif every or len(given) != 2:
        raise typer.BadParameter("give a process and a file: seekpoint export ID FILE", param_hint="ID FILE")
    else:
        facts = _export(target, given[0], Path(given[1]), overwrite)
    if json:
        emit_json(facts)
    else:
        what = "decision" if dataset is not None else "record"
        say(f"{counted(facts[f'{what}s'], what)} in {facts['file']}")


def _export(target: CommandTarget, process_id: str, file: Path, overwrite: bool) -> dict[str, Any]:
    from seekpoint.consumers.staging.capture.process_file import ProcessFile

    count = ProcessFile.write(target.log, process_id, file, overwrite=overwrite)
    return {"process_id": process_id, "file": str(file), "records": count}


def _dataset(target: CommandTarget, file: Path, process_ids: list[str] | None, overwrite: bool) -> dict[str, Any]:
    """Write the data set to a temporary file that takes its name once it is complete."""
    import orjson

    from seekpoint.consumers.staging.capture.new_file import NewFile

    rows = _all_decisions(target) if process_ids is None else _decisions_of(target, process_ids)
    count, new = 0, NewFile("the data set", file, overwrite=overwrite)
    try:
        for row in rows:
            with new.writing():
                new.out.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
            count += 1
        new.finish()
    finally:
        new.abandon()
    return {"file": str(file), "decisions": count}


def _decisions_of(target: CommandTarget, process_ids: list[str]) -> Iterator[dict[str, Any]]:
    from seekpoint.producers.durable.replay.call_records import decisions

    for process_id in process_ids:
        yield from decisions(entries_of(target, process_id))


def _all_decisions(target: CommandTarget) -> Iterator[dict[str, Any]]:
    """Yield the decisions of all processes, reading each partition once."""
    from seekpoint.console.render.progress import ReadingProgress

    marks = [target.log.watermarks(partition) for partition in range(target.log.partitions)]
    with ReadingProgress("reading", sum(mark.high - mark.low for mark in marks)) as progress:
        for partition, mark in enumerate(marks):
            yield from _PartitionDecisions(target).decisions(partition, mark.low, mark.high, progress)


class _PartitionDecisions:
    """The decisions of all processes of one partition."""

    def __init__(self, target: CommandTarget) -> None:
        self._log = target.log
        self._found: dict[str, Any] = {}
        self._left_out: set[str] = set()

    def decisions(self, partition: int, low: int, high: int, progress: ReadingProgress) -> Iterator[dict[str, Any]]:
        """Yield the decisions in log order."""
        from seekpoint.consumers.log_reading import scan
        from seekpoint.schemas.errors import JournalGap

        for batch in self._log.read(partition, low, high):
            for record, entry in scan.entries_of(batch.records, self._log):
                try:
                    found = self._decision(record.offset, entry)
                except JournalGap as exc:
                    self._leave_out(exc)
                    continue
                if found is not None:
                    yield found
            progress.advance(batch.scanned)

    def _decision(self, offset: int, entry: Entry) -> dict[str, Any] | None:
        from seekpoint.producers.durable.replay.call_records import Decisions
        from seekpoint.producers.durable.replay.recorded_run import Admission

        process_id = entry.process_id
        if process_id in self._left_out:
            return None
        if process_id not in self._found:
            self._found[process_id] = Admission(self._log.limits), Decisions()
        admission, decisions = self._found[process_id]
        found: dict[str, Any] | None = decisions.take(entry) if admission.admits(offset, entry) else None
        return found

    def _leave_out(self, error: SeekpointError) -> None:
        process_id = str(error.process_id)
        warn(f"{process_id} is left out: {error.message}")
        self._left_out.add(process_id)
