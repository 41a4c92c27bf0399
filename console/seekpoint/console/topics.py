"""``seekpoint topics create | check`` and ``seekpoint upgrade``: what a journal is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seekpoint.console.commands import AsJson, command, group
from seekpoint.console.output import Column, emit, emit_json, emit_table, say
from seekpoint.console.target import Target

if TYPE_CHECKING:
    from seekpoint.compose import Finding
    from seekpoint.schemas.manifest import Manifest

__all__ = ["grouped", "register"]

FINDING_COLUMNS = (
    Column("severity"),
    Column("topic"),
    Column("setting"),
    Column("expected"),
    Column("found"),
    Column("what to do", wraps=True),
)


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    topics = group(app, "topics", "Create and audit a journal's topics.")
    command(topics, "create")(create)
    command(topics, "check")(check)
    command(app, "upgrade")(upgrade)


def create(target: Target, json: AsJson = False) -> None:
    """Create the journal's topics; those that are there and right are left alone."""
    from seekpoint.compose import create_topics_sync

    manifest = create_topics_sync(target.require_kafka())
    if json:
        emit_json(manifest_facts(manifest))
    else:
        emit(f"journal {manifest.journal}: {manifest.partitions} partitions, format {manifest.format}")


def check(target: Target, json: AsJson = False) -> int:
    """Compare the journal's topics with what they have to be. Exits with 1 if a guarantee is missing."""
    from seekpoint.compose import check_topics_sync
    from seekpoint.schemas.errors import EXIT_FAULT

    findings = check_topics_sync(target.require_kafka())
    wrong = any(finding.severity == "error" for finding in findings)
    if json:
        plain = [asdict(finding) for finding in findings]
        emit_json({"journal": target.settings.journal, "ok": not wrong, "findings": plain})
    elif findings:
        emit_table(FINDING_COLUMNS, grouped(findings))
    else:
        say(f"the topics of journal {target.settings.journal} are as they have to be")
    return EXIT_FAULT if wrong else 0


def upgrade(
    target: Target,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    json: AsJson = False,
) -> None:
    """Raise the journal's format to the newest. There is one so far."""
    from seekpoint.schemas.manifest import FORMAT

    manifest = target.log.connect()  # a format this code does not know is a NewerFormat here
    if json:
        facts = {"journal": manifest.journal, "format": manifest.format, "newest": FORMAT}
        emit_json({**facts, "raised": False, "dry_run": dry_run})
    else:
        emit(f"journal {manifest.journal}: format {manifest.format} is current, nothing to do")


def grouped(findings: Sequence[Finding]) -> list[list[object]]:
    """Rows of ``FINDING_COLUMNS``: what is alike for several topics is one row; errors first."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for finding in findings:
        advice = finding.advice.replace(f"--topic {finding.topic} ", "--topic TOPIC ")
        key = (finding.severity, finding.setting, finding.expected, finding.found, advice)
        alike.setdefault(key, []).append(finding.topic)
    rows: list[list[object]] = []
    for (severity, setting, expected, found, advice), topics in alike.items():
        alone = len(topics) == 1
        where = topics[0] if alone else f"{len(topics)} topics"
        said = advice.replace("--topic TOPIC ", f"--topic {topics[0]} ") if alone else advice
        rows.append([severity, where, setting, expected, found, said])
    return sorted(rows, key=lambda row: row[0] != "error")


def manifest_facts(manifest: Manifest) -> dict[str, Any]:
    """The manifest as plain data, for JSON."""
    return {
        "journal": manifest.journal,
        "format": manifest.format,
        "partitions": manifest.partitions,
        "topic_ids": dict(manifest.topic_ids),
        "limits": asdict(manifest.limits),
    }
