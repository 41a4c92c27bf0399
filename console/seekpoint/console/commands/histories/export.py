"""``seekpoint export``: write a process to a file, or calls to a data set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from seekpoint.console.render.output import counted, emit_json, say
from seekpoint.console.services.arguments.completion import complete_process_ids
from seekpoint.console.services.arguments.options import AsJson
from seekpoint.console.services.arguments.target import CommandTarget

_STDOUT = Path("-")


def export(
    target: CommandTarget,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PROCESS_ID FILE",
            help="Process and file; with --dataset processes.",
            show_default=False,
            autocompletion=complete_process_ids,
        ),
    ] = None,
    dataset: Annotated[
        Path | None,
        typer.Option(
            "--dataset",
            metavar="FILE",
            help="Write calls as JSON lines (- is stdout), or as Parquet if FILE ends so; the arguments are ids.",
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Export the calls of every process.")] = False,
    kinds: Annotated[
        list[str] | None, typer.Option("--kind", metavar="KIND", help="Only calls of this kind: step, decision, …")
    ] = None,
    masks: Annotated[
        Path | None, typer.Option("--masks", metavar="FILE", help="Mask the calls with the rules in this file.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace FILE if it exists.")] = False,
    json: AsJson = False,
) -> None:
    """Write a process to a file, or calls to a data set.

    A data set has a row for each call: request, response, status, attempts, usage and cost.
    """
    given = names or []
    if dataset is not None:
        if every is bool(given):
            raise typer.BadParameter("name processes, or give --all", param_hint="PROCESS_ID")
        if json and dataset == _STDOUT:
            raise typer.BadParameter("stdout has the data set: leave out --json", param_hint="--json")
        facts = _dataset(target, dataset, None if every else given, kinds or [], masks, overwrite)
    elif every or kinds or masks or len(given) != 2:
        raise typer.BadParameter("give a process and a file", param_hint="PROCESS_ID FILE")
    else:
        facts = _export(target, given[0], Path(given[1]), overwrite)
    if json:
        emit_json(facts)
    else:
        what = "call" if dataset is not None else "record"
        say(f"{counted(facts[f'{what}s'], what)} in {facts['file']}")


def _export(target: CommandTarget, process_id: str, file: Path, overwrite: bool) -> dict[str, Any]:
    from seekpoint.consumers.staging.capture.process_file import ProcessFile

    count = ProcessFile.write(target.log, process_id, file, overwrite=overwrite)
    return {"process_id": process_id, "file": str(file), "records": count}


def _dataset(
    target: CommandTarget,
    file: Path,
    process_ids: list[str] | None,
    kinds: list[str],
    masks: Path | None,
    overwrite: bool,
) -> dict[str, Any]:
    from seekpoint.console.datasets.call_rows import CallRows
    from seekpoint.console.datasets.row_files import write_file, write_stdout
    from seekpoint.consumers.staging.masks.mask_rules import MaskRules
    from seekpoint.producers.durable.replay.call_records import CALL_KINDS

    for kind in kinds:
        if kind not in CALL_KINDS:
            raise typer.BadParameter(f"{kind!r} is none of {', '.join(CALL_KINDS)}", param_hint="--kind")
    calls = CallRows(target, kinds, None if masks is None else MaskRules.load(masks))
    rows = calls.of_all() if process_ids is None else calls.of(process_ids)
    count = write_stdout(rows) if file == _STDOUT else write_file(file, rows, overwrite=overwrite)
    dropped = dict(calls.dropped)
    return {"file": "stdout" if file == _STDOUT else str(file), "calls": count, "dropped": dropped}
