"""``seekpoint copy``: move a journal from an embedded log to Kafka."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated

import typer

from seekpoint.console.render.output import counted, emit_json, say
from seekpoint.console.render.progress import ReadingProgress
from seekpoint.console.services.arguments.options import AsJson
from seekpoint.console.services.arguments.target import CommandTarget


def copy(
    target: CommandTarget,
    source: Annotated[str, typer.Argument(metavar="sqlite:///FILE", help="The embedded log.", show_default=False)],
    into: Annotated[str, typer.Option("--into", metavar="HOST:PORT", help="The address of Kafka.")],
    name: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="The journal's name on Kafka, if it shall be another.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Copy the journal of an embedded log to Kafka, with its ids and offsets, and compare both.

    Creates the topics if there are none. Run it again after an interruption: it goes on.
    """
    from seekpoint.compose import create_topics_sync
    from seekpoint.consumers.journal_log import embedded_log
    from seekpoint.consumers.kafka.reach import reach
    from seekpoint.consumers.staging.move.journal_move import JournalMove
    from seekpoint.schemas.errors import JournalUnavailable

    own = replace(target.settings, journal_url=source)
    log = embedded_log(own, must_exist=True)
    assert log is not None
    try:
        manifest = log.connect()
        there = replace(
            own, journal_url=None, bootstrap_servers=into, journal=name or manifest.journal, redis_url=None,
            partitions=manifest.partitions,
        )  # fmt: skip
        if failures := reach(into):
            raise JournalUnavailable("no Kafka accepts connections", tried=target.scrub("; ".join(failures)))
        create_topics_sync(there, limits=manifest.limits)
        total = sum(log.watermarks(partition).high for partition in range(manifest.partitions))
        with ReadingProgress("copying", total) as progress:
            moved = JournalMove(log, there, progress.advance).run()
    finally:
        log.close()
    if json:
        emit_json(asdict(moved))
    else:
        records = counted(moved.records, "record")
        say(f"{records} in journal {moved.journal} at {into}, all compared; {moved.sent} sent now")
