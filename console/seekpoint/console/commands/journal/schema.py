"""``seekpoint schema check``: check that entries written by older releases can be read. Needs no Kafka."""

from __future__ import annotations

from seekpoint.console.exit_codes import EXIT_FAULT
from seekpoint.console.render.output import Column, emit_json, emit_table, say
from seekpoint.console.services.options import (
    AsJson,
)

__all__ = []

_COLUMNS = (Column("release"), Column("what is wrong", wraps=True))


def check(json: AsJson = False) -> int:
    """Compare the schemas with those of every release. Exits with 1 if written entries could not be read."""
    from seekpoint.schemas.wire.compatibility import check_compatibility

    findings = check_compatibility()
    if json:
        emit_json({"ok": not findings, "findings": [finding._asdict() for finding in findings]})
    elif findings:
        emit_table(_COLUMNS, findings)
    else:
        say("the schemas are compatible with every release")
    return EXIT_FAULT if findings else 0
