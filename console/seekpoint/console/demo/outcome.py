"""The outcome of a demo: the verdict, the kill and the take-overs, for the story and for the JSON line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from seekpoint.console.demo.aftermath import Aftermath
from seekpoint.console.demo.checker import DemoVerdict
from seekpoint.console.demo.journal_reading import Placed
from seekpoint.console.demo.outside_ledger import Opened
from seekpoint.schemas import bodies as b


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """The killed worker, the time (seconds since 1970), and the work that was in progress."""

    node: str
    pid: int
    at: float
    held: Mapping[str, int]
    """The number of answered model calls of each open case."""
    under_way: int
    """The number of model calls without an acknowledged answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeOver:
    """One case that another worker took over."""

    case: str
    from_node: str
    node: str
    model_calls_done: int
    after_kill_s: float | None
    """The time from the kill until the new owner opened the case."""
    report: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOutcome:
    """The results of a demo."""

    journal: str
    nodes: int
    cases: int
    verdict: DemoVerdict
    kill: Kill | None
    take_overs: Sequence[TakeOver]
    duration_s: float
    aftermath: Aftermath | None = None
    """None without Redis, because then there is no projector."""

    @property
    def ok(self) -> bool:
        """Whether the demo succeeded: nothing lost or repeated, and the work of a killed worker taken over."""
        well = self.verdict.all_well and self.kill is not None and bool(self.take_overs)
        return well and (self.aftermath is None or self.aftermath.ok)

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as the object of ``seekpoint demo --json``."""
        verdict, kill = self.verdict, self.kill
        return {
            "ok": self.ok,
            "journal": self.journal,
            "nodes": self.nodes,
            "cases": self.cases,
            "entries": verdict.entries,
            "processes": verdict.processes,
            "killed_node": kill and kill.node,
            "killed_at": kill and datetime.fromtimestamp(kill.at, UTC).isoformat(timespec="milliseconds"),
            "recoveries": [_row(take_over) for take_over in self.take_overs],
            "acknowledged": verdict.acknowledged,
            "acknowledged_lost": verdict.acknowledged_lost,
            "fenced": verdict.fenced,
            "model_calls": verdict.model_calls,
            "in_doubt_calls": verdict.in_doubt_calls,
            "duplicate_calls": verdict.duplicate_calls,
            "hash_mismatches": verdict.hash_mismatches,
            "complaints": list(verdict.complaints),
            "flush": None if self.aftermath is None else self.aftermath.flush.to_dict(),
            "tiers": [] if self.aftermath is None else [row.to_dict() for row in self.aftermath.tiers],
            "duration_s": round(self.duration_s, 3),
        }


def _row(take_over: TakeOver) -> dict[str, Any]:
    return {
        "process": take_over.case,
        "from_node": take_over.from_node,
        "node": take_over.node,
        "after_kill_s": take_over.after_kill_s,
        **take_over.report,
    }


def take_overs(opened: Sequence[Opened], log: Sequence[Placed], kill: Kill | None) -> list[TakeOver]:
    """Return the take-overs. The former owner of each case is read from the log."""
    nodes = owners(log)
    return [
        TakeOver(
            case=note.case,
            from_node=nodes.get((note.case, note.epoch - 1), "?"),
            node=note.node,
            model_calls_done=note.model_calls_done,
            after_kill_s=round(note.at - kill.at, 3) if kill is not None and note.at >= kill.at else None,
            report=note.report,
        )
        for note in opened
    ]


def owners(log: Sequence[Placed]) -> dict[tuple[str, int], str]:
    """Return the owner of each case in each epoch."""
    epochs: dict[str, int] = {}
    nodes: dict[tuple[str, int], str] = {}
    for _, _, entry in log:
        case, body = entry.process_id, entry.body
        if isinstance(body, b.Claim) and body.expected_epoch == epochs.get(case, 0):
            epochs[case] = body.expected_epoch + 1
            nodes[case, epochs[case]] = body.node_id
    return nodes
