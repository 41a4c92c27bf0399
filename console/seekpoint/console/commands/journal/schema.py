"""``seekpoint schema check``: check that entries written by older releases can be read. Needs no Kafka."""

from __future__ import annotations

from seekpoint.console.exit_codes import EXIT_FAULT
from seekpoint.console.render.output import emit_json, say
from seekpoint.console.render.tables import Column, emit_table
from seekpoint.console.services.arguments.options import AsJson, Wide

__all__ = []

_COLUMNS = (Column("release"), Column("what is wrong", wraps=True))


def check(wide: Wide = False, json: AsJson = False) -> int:
    """Compare the schemas with those of every release. Exits with 1 if written entries could not be read."""
    from seekpoint.schemas.wire.compatibility import check_compatibility

    findings = check_compatibility()
    if json:
        emit_json({"ok": not findings, "findings": [finding._asdict() for finding in findings]})
    elif findings:
        emit_table(_COLUMNS, findings, wide=wide)
    else:
        say("the schemas are compatible with every release")
    return EXIT_FAULT if findings else 0
