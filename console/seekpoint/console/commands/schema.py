"""``seekpoint schema check``: whether what older releases wrote can still be read. Needs no Kafka."""

from __future__ import annotations

import typer

from seekpoint.console.command import AsJson, command, group
from seekpoint.console.exit_codes import EXIT_FAULT
from seekpoint.console.render.output import Column, emit_json, emit_table, say

__all__ = ["register"]

_COLUMNS = (Column("release"), Column("what is wrong", wraps=True))


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    schema = group(app, "schema", "Check the entries' schemas.")
    command(schema, "check")(check)


def check(json: AsJson = False) -> int:
    """Hold the schemas against those of every release. Exits with 1 if something written could not be read."""
    from seekpoint.schemas.wire.compatibility import check_compatibility

    findings = check_compatibility()
    if json:
        emit_json({"ok": not findings, "findings": [finding._asdict() for finding in findings]})
    elif findings:
        emit_table(_COLUMNS, findings)
    else:
        say("the schemas are compatible with every release")
    return EXIT_FAULT if findings else 0
