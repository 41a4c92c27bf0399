"""Findings of the topic audit as table rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from seekpoint.console.render.tables import Column

if TYPE_CHECKING:
    from seekpoint.compose import TopicFinding

FINDING_COLUMNS = (
    Column("severity"),
    Column("topic"),
    Column("setting"),
    Column("expected"),
    Column("found"),
    Column("what to do", wraps=True),
)


def grouped(findings: Sequence[TopicFinding]) -> list[list[object]]:
    """Return rows of ``FINDING_COLUMNS``, errors first. Equal findings of several topics become one row."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for finding in findings:
        advice = finding.advice.replace(f"--topic {finding.topic} ", "--topic TOPIC ")
        key = (finding.severity, finding.setting, finding.expected, finding.found, advice)
        alike.setdefault(key, []).append(finding.topic)
    rows: list[list[object]] = []
    for (severity, setting, expected, found, advice), topics in alike.items():
        alone = len(topics) == 1
        where = topics[0] if alone else f"{len(topics)} topics"
        shown = advice.replace("--topic TOPIC ", f"--topic {topics[0]} ") if alone else advice
        rows.append([severity, where, setting, expected, found, shown])
    return sorted(rows, key=lambda row: row[0] != "error")
