"""``seekpoint workers``: list the workers of a journal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import to_builtins

from seekpoint.console.render.output import emit_json_list, ranges, say
from seekpoint.console.render.tables import Column, emit_table
from seekpoint.console.services.arguments.options import AsJson, Wide
from seekpoint.console.services.arguments.target import CommandTarget

_COLUMNS = (
    Column("node"), Column("group", wide=True), Column("state"), Column("running", right=True),
    Column("ready", right=True), Column("waiting", right=True), Column("partitions", wraps=True),
    Column("agents", wraps=True),
)  # fmt: skip


def workers(target: CommandTarget, wide: Wide = False, json: AsJson = False) -> None:
    """List the workers, as their last heartbeats say: what they look after and how much runs there.

    ``dead`` is a worker whose program has ended on this host. Of a worker on another host, wait some seconds and look
    whether its heartbeat still moves: ``seekpoint doctor``.
    """
    target.reachable()
    found = list(_facts(target))
    if json:
        emit_json_list({"journal": target.settings.journal}, "workers", found)
    elif not emit_table(_COLUMNS, map(_row, found), wide=wide):
        say("no worker runs: seekpoint worker MODULE")


def _facts(target: CommandTarget) -> Iterator[dict[str, Any]]:
    from seekpoint.console.services.facts.node_facts import worker_facts
    from seekpoint.consumers.heartbeats.heartbeat import from_records

    for one in worker_facts(from_records(target.log.table("nodes").items()).values()):
        yield to_builtins(one)


def _row(facts: dict[str, Any]) -> list[object]:
    return [
        facts["node_id"], facts["group"], facts["state"], facts["running"], facts["ready"], facts["waiting"],
        ranges(facts["partitions"]), ", ".join(facts["agents"]),
    ]  # fmt: skip
