"""``seekpoint replay``: copy records of a topic to a staging topic, or to and from a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from seekpoint.console.exit_codes import EXIT_INTERRUPTED
from seekpoint.console.render.output import clean, emit, emit_json, say, warn
from seekpoint.console.render.progress import ReadingProgress
from seekpoint.console.render.replay_reports import replay_summary, replay_warnings
from seekpoint.console.render.tables import Column, emit_table
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.services.histories.staging_replays import offsets_copied, replay_clusters, replay_progress_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from seekpoint.consumers.staging import Replay, ReplayReport, Selection
    from seekpoint.consumers.staging.copy.copy_stats import CopyStats
    from seekpoint.consumers.staging.replay_ports import OffsetRange

from seekpoint.console.services.arguments.completion import complete_process_ids
from seekpoint.console.services.arguments.options import AsJson, Wide
from seekpoint.console.services.arguments.time_option import parse_time

__all__ = []

_COLUMNS = (Column("partition", right=True), Column("records", right=True), Column("bytes", right=True))

PartitionsName: TypeAlias = Literal["auto", "keep", "by-key"]

_SELECT, _CHANGE, _PACE, _FILES = "Selection", "Changes", "Speed", "Files"


def _option(*names: str, panel: str, help_text: str, metavar: str | None = None) -> Any:
    return typer.Option(*names, metavar=metavar, help=help_text, rich_help_panel=panel)


_TIME = "2h (ago), or 2026-11-22T17:00+00:00."
Since = Annotated[
    str | None, _option("--since", panel=_SELECT, metavar="TIME", help_text=f"From this time on: {_TIME}")
]
Until = Annotated[str | None, _option("--until", panel=_SELECT, metavar="TIME", help_text=f"Before this time: {_TIME}")]
Offsets = Annotated[
    list[str] | None,
    _option(
        "--offsets", panel=_SELECT, metavar="P:FIRST-LAST", help_text="Only these offsets of partition P, inclusive."
    ),
]
Processes = Annotated[
    list[str] | None,
    typer.Option(
        "--process",
        metavar="PROCESS_ID",
        help="Only this one; may be repeated.",
        rich_help_panel=_SELECT,
        autocompletion=complete_process_ids,
    ),
]
ProcessesFrom = Annotated[
    Path | None,
    _option("--processes-from", panel=_SELECT, metavar="FILE", help_text="Only these processes, one id per line."),
]
Kinds = Annotated[
    list[str] | None, _option("--kind", panel=_SELECT, metavar="KIND", help_text="Only entries of this kind.")
]
Actors = Annotated[
    list[str] | None, _option("--actor", panel=_SELECT, metavar="NAME", help_text="Only entries of this actor.")
]
HeadersOf = Annotated[
    list[str] | None,
    _option("--header", panel=_SELECT, metavar="NAME[=TEXT]", help_text="Only records with this header."),
]
Where = Annotated[
    str | None,
    _option("--where", panel=_SELECT, metavar="CEL", help_text="Only records for which this expression is true."),
]
Prefix = Annotated[str, _option("--prefix", panel=_CHANGE, metavar="TEXT", help_text="Prefix each process id.")]
Masks = Annotated[
    Path | None, _option("--masks", panel=_CHANGE, metavar="FILE", help_text="Mask with the rules in this file.")
]
Seeded = Annotated[
    bool, _option("--seeded", panel=_CHANGE, help_text="Start each process from its state at that time.")
]
PartitionChoice = Annotated[
    PartitionsName, _option("--partitions", panel=_CHANGE, help_text="Keep partitions, or assign by key.")
]
KeepHeaders = Annotated[
    bool, _option("--keep-headers", panel=_CHANGE, help_text="Keep tracing and replication headers.")
]
Speed = Annotated[float | None, _option("--speed", panel=_PACE, metavar="X", help_text="X times the original speed.")]
Rate = Annotated[float | None, _option("--rate", panel=_PACE, metavar="N", help_text="N records per second.")]
ProgressPath = Annotated[
    Path | None,
    _option("--progress", panel=_FILES, metavar="FILE", help_text="Save progress here, to resume after a crash."),
]
MapPath = Annotated[
    Path | None, _option("--offset-map", panel=_FILES, metavar="FILE", help_text="Write the new offset of each record.")
]

Overwrite = Annotated[bool, _option("--overwrite", panel=_FILES, help_text="Replace existing files.")]


def replay(
    target: CommandTarget,
    source: Annotated[str, typer.Option("--from", metavar="CLUSTER/TOPIC", help="The source, or FILE.spk.")],
    into: Annotated[str, typer.Option("--into", metavar="CLUSTER/TOPIC", help="The target, or FILE.spk.")],
    since: Since = None,
    until: Until = None,
    offsets: Offsets = None,
    process: Processes = None,
    processes_from: ProcessesFrom = None,
    kind: Kinds = None,
    actor: Actors = None,
    header: HeadersOf = None,
    where: Where = None,
    prefix: Prefix = "",
    masks: Masks = None,
    seeded: Seeded = False,
    partitions: PartitionChoice = "auto",
    keep_headers: KeepHeaders = False,
    speed: Speed = None,
    rate: Rate = None,
    progress: ProgressPath = None,
    offset_map: MapPath = None,
    overwrite: Overwrite = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read, select and mask; write nothing.")] = False,
    wide: Wide = False,
    json: AsJson = False,
) -> int:
    """Replay a topic into staging. Repeat the command to resume after a crash. Exits with 130 if interrupted."""
    from seekpoint.consumers.staging import MaskRules, Pace, Partitions, Plan, Replay
    from seekpoint.consumers.staging.copy.headers import STRIPPED

    plan = Plan(
        selection=_selection(since, until, offsets, process, processes_from, kind, actor, header, where),
        pace=Pace(speed=speed, rate=rate),
        partitions=Partitions(partitions),
        prefix=prefix,
        masks=None if masks is None else MaskRules.load(masks),
        seeded=seeded,
        strip_headers=() if keep_headers else STRIPPED,
    )
    file = None if dry_run else progress or replay_progress_file(plan, source, into)
    files: dict[str, Any] = {"progress": file, "offset_map": offset_map, "overwrite": overwrite}
    with Replay.connect(source, into, plan, clusters=replay_clusters(target), **files) as staged:
        report = _run_with_progress(staged, dry_run)
    if json:
        emit_json(report.to_dict())
    else:
        _show(report, wide=wide)
    if not report.complete:
        say(f"stopped; repeat the command to resume from {file}" if file else "stopped")
    return 0 if report.complete else EXIT_INTERRUPTED


def _selection(
    since: str | None,
    until: str | None,
    offsets: list[str] | None,
    process: list[str] | None,
    processes_from: Path | None,
    kind: list[str] | None,
    actor: list[str] | None,
    header: list[str] | None,
    where: str | None,
) -> Selection:
    from seekpoint.consumers.staging import Selection, parse_offsets

    ids = [*(process or ()), *(() if processes_from is None else _ids(processes_from))]
    return Selection(
        since_ms=_milliseconds(since, "--since"),
        until_ms=_milliseconds(until, "--until"),
        offsets=dict(map(parse_offsets, offsets or ())),
        processes=frozenset(ids) if process or processes_from is not None else None,
        kinds=frozenset(kind or ()),
        actors=frozenset(actor or ()),
        headers=dict(_header(text) for text in header or ()),
        where=where,
    )


def _milliseconds(text: str | None, option: str) -> int | None:
    if text is None:
        return None
    from seekpoint.consumers.recovery.points import timestamp_ms

    try:
        return timestamp_ms(parse_time(text))
    except typer.BadParameter as exc:
        raise typer.BadParameter(exc.message, param_hint=option) from None


def _header(text: str) -> tuple[str, str | None]:
    name, equals, value = text.partition("=")
    return name, value if equals else None


def _ids(path: Path) -> Iterator[str]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        reason = getattr(exc, "strerror", None) or "it is not text"
        raise typer.BadParameter(f"{path} cannot be read: {reason}", param_hint="--processes-from") from None
    return (line for line in lines if line)


def _run_with_progress(staged: Replay, dry_run: bool) -> ReplayReport:
    """Run the replay with a progress bar. Ctrl-C stops it cleanly; a second Ctrl-C at once."""
    import signal
    import threading

    def stop(number: int, frame: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        say("stopping: waiting for the records that were sent")
        staged.stop()

    in_main = threading.current_thread() is threading.main_thread()
    before = {each: signal.signal(each, stop) for each in (signal.SIGINT, signal.SIGTERM)} if in_main else {}
    bar = _ReplayProgress("reading" if dry_run else "replaying")
    try:
        return staged.dry_run(bar.show) if dry_run else staged.run(bar.show)
    finally:
        bar.close()
        for each, handler in before.items():
            signal.signal(each, handler)


class _ReplayProgress:
    """The progress of a replay in offsets, the only total known in advance."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._bar: ReadingProgress | None = None
        self._done = 0

    def show(self, stats: CopyStats, ranges: Sequence[OffsetRange]) -> None:
        """Update the bar."""
        done, total = offsets_copied(stats, ranges)
        if self._bar is None:
            self._bar = ReadingProgress(self._what, total, "records").__enter__()
        self._bar.describe(self._what + (f", {stats.behind_s:.1f} s late" if stats.behind_s >= 0.1 else ""))
        self._bar.advance(done - self._done)
        self._done = done

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.__exit__(None, None, None)


def _show(report: ReplayReport, *, wide: bool) -> None:
    if report.by_partition:
        emit_table(_COLUMNS, [[at, *counts] for at, counts in report.by_partition.items()], wide=wide)
    for sample in report.samples:
        emit(f"{sample.partition}:{sample.offset}")
        emit(clean(f"  before  {sample.before}"))
        emit(clean(f"  after   {sample.after}"))
    for text in replay_warnings(report):
        warn(text)
    say(replay_summary(report))
