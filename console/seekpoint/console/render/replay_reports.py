"""What a replay did, or would do, as text. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from seekpoint.console.render.output import counted

if TYPE_CHECKING:
    from seekpoint.consumers.staging import ReplayReport

_GAPS_MAX = 20


def replay_summary(report: ReplayReport) -> str:
    """Return what was copied, and how fast; of a dry run, what would be."""
    records = f"{counted(report.replayed, 'record')}, {report.bytes:,} bytes"
    if report.dry_run:
        return f"{records} would be replayed, in about {report.estimate_s:,.0f} s; nothing was written"
    late = f", 99 of 100 not later than {report.lateness['p99_ms']:g} ms" if report.lateness["max_ms"] else ""
    checked = "; source and target match" if report.checked else ""
    return f"{records} replayed as {report.job}, {report.records_per_s:,.0f} a second{late}{checked}"


def replay_warnings(report: ReplayReport) -> Iterator[str]:
    """Yield what is missing in the target, and what differs there."""
    for gap in report.gaps[:_GAPS_MAX]:
        yield f"partition {gap.partition}, offsets {gap.start} to {gap.stop - 1}: {gap.why}"
    if len(report.gaps) > _GAPS_MAX:
        yield f"and {len(report.gaps) - _GAPS_MAX} more gaps; --json lists all"
    for why, count in report.left_out.items():
        yield f"{counted(count, 'record')} {why}"
    yield from report.notes
    for reason in report.not_foldable:
        yield f"states will differ: {reason}"
