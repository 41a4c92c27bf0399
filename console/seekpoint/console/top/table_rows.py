"""The rows of the tables of ``seekpoint top``. Pure. Texts that an agent wrote are made safe here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.text import Text

from seekpoint.console.render.output import clean
from seekpoint.console.render.states import call_name
from seekpoint.console.web.formats import amount, short_error, short_time, span_text, status_class

if TYPE_CHECKING:
    from seekpoint.console.services.facts.pipeline_facts import PartitionFacts, PipelineFacts
    from seekpoint.console.web.data.board import AgentCount, ListSource, ProcessRow

PROCESS_COLUMNS = (
    "process",
    "status",
    "agent",
    "owner",
    "epoch",
    "waits for",
    "last call",
    "entries",
    "behind",
    "USD",
    "changed",
)
PARTITION_COLUMNS = (
    "partition",
    "log start",
    "log end",
    "applied",
    "behind",
    "behind for",
    "floor",
    "unsaved",
    "oldest",
    "projector",
)
SERVICE_COLUMNS = ("kind", "name", "state", "partitions", "detail")
STYLES = {"bad": "bold red", "good": "green", "wait": "yellow", "done": "dim", "quiet": ""}
_CELL_MAX = 60
_AGENTS_MAX = 5


def process_row(one: ProcessRow) -> tuple[Text, ...]:
    """Return the cells of a process."""
    waits = ", ".join(one.awaits)
    waits += f" since {short_time(one.since)}" if one.since else ""
    waits += f" until {short_time(one.until)}" if one.until else ""
    if one.error and one.status in ("failed", "degraded"):
        waits = short_error(one.error)
    elif one.has_worker is False:
        waits = "no worker has its code"
    agent = (one.agent or "-") + (f" {one.version}" if one.version else "")
    status = one.status + (", on hold" if one.on_hold else "")
    usd = amount((one.spent or {}).get("usd"))
    return (
        short_text(one.process_id), short_text(status, STYLES[status_class(one.status)]), short_text(agent),
        short_text(one.owner_node or "-"), _number(one.epoch), short_text(waits),
        short_text(call_name(one.last_call_kind, one.last_call) or "-"), _number(one.seq), _number(one.behind),
        Text(usd, justify="right"), short_text(short_time(one.updated)),
    )  # fmt: skip


def counts_line(counts: list[AgentCount]) -> Text:
    """Return how many processes there are, by agent and status; the largest agents only."""
    line = Text.assemble((f"{sum(one.total for one in counts):,} processes", "bold"))
    for one in counts[:_AGENTS_MAX]:
        statuses = ", ".join(f"{number:,} {status}" for status, number in sorted(one.by_status.items()))
        line.append(f"   {clean(one.agent or 'no agent')[:_CELL_MAX]}: ", "cyan").append(statuses)
    if len(counts) > _AGENTS_MAX:
        line.append(f"   and {len(counts) - _AGENTS_MAX} more agents", "dim")
    return line


def source_line(journal: str, source: ListSource) -> Text:
    """Return where the list comes from, and what is wrong with it."""
    line = Text.assemble((f"journal {clean(journal)}", "dim"))
    if source.problem is not None:
        return line.append(f"   cannot be read: {clean(source.problem)}", "bold red")
    if source.name == "log":
        line.append(f"   reading from the log: {clean(source.why or 'there is no view')}", "yellow")
    elif source.behind:
        line.append(f"   the view is {source.behind:,} entries behind", "yellow")
    return line.append("   loading…" if source.loading else "", "yellow")


def partition_rows(found: PipelineFacts) -> Iterator[tuple[Text, ...]]:
    """Yield the cells of each partition."""
    for one in found.partitions:
        yield (
            _number(one.partition), _number(one.log_start), _number(one.log_end), _applied(one), _number(one.behind),
            _age(one.behind_s), _number(one.floor), _number(one.unsaved), _age(one.unsaved_s),
            short_text(one.problem or one.projector or "-", "yellow" if one.problem else ""),
        )  # fmt: skip


def service_rows(found: PipelineFacts) -> Iterator[tuple[Text, ...]]:
    """Yield the cells of each worker, service and other node."""
    for one in found.workers:
        facts = f"{one.running} running, {one.ready} ready, {one.waiting} waiting; {', '.join(one.agents)}"
        yield _service("worker", one.node_id, one.state, one.partitions, facts)
    for member in found.members:
        if member.role != "worker":
            yield _service(member.role, member.member, "member", member.partitions, member.host or "")
    for node in found.nodes:
        kind = "dispatcher" if node.is_dispatcher else "node"
        yield _service(kind, node.node_id, node.state, (), f"owns {node.claims:,}")


def _service(kind: str, name: str, state: str, partitions: tuple[int, ...], facts: str) -> tuple[Text, ...]:
    style = {"dead": "bold red", "silent": "yellow", "draining": "yellow"}.get(state, "green")
    return (
        short_text(kind),
        short_text(name),
        short_text(state, style),
        short_text(", ".join(map(str, partitions)) or "-"),
        short_text(facts),
    )


def _applied(one: PartitionFacts) -> Text:
    return Text("nothing", justify="right") if one.applied == -1 else _number(one.applied)


def short_text(value: str, style: str = "") -> Text:
    shown = clean(value[: _CELL_MAX * 4])
    return Text(shown if len(shown) <= _CELL_MAX else shown[: _CELL_MAX - 1] + "…", style, no_wrap=True)


def _number(value: int | None) -> Text:
    return Text("-" if value is None else f"{value:,}", justify="right")


def _age(seconds: float | None) -> Text:
    return Text("-" if seconds is None else span_text(seconds * 1_000_000), justify="right")
