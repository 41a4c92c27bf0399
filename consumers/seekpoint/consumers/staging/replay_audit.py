"""The audit of a replay: who, what, when, how. Kept in the target's cluster, never in the source's."""

from __future__ import annotations

import json
import time
from typing import Any

from seekpoint.consumers.staging.replay_plan import Plan
from seekpoint.consumers.staging.replay_report import ReplayReport
from seekpoint.consumers.staging.replay_run import ReplayRun

__all__ = ["audit_entry"]


def audit_entry(trip: ReplayRun, names: tuple[str, str], what: str, report: ReplayReport | None) -> tuple[bytes, bytes]:
    """Its key and value: that a job was started, resumed, stopped or finished, and with which result."""
    entry = {
        "what": what,
        "at_ms": time.time_ns() // 1_000_000,
        "by": _who(),
        "job": trip.progress.job,
        "source": {"name": names[0], "cluster_id": trip.facts.cluster_id, "topic": trip.facts.topic},
        "target": {"name": names[1], "cluster_id": trip.to.cluster_id, "topic": trip.to.topic},
        "plan": trip.plan.told(),
        "stretches": [list(each) for each in trip.stretches],
        "report": None if report is None else _told(trip.plan, report),
    }
    return f"{trip.progress.job}.{what}".encode(), json.dumps(entry).encode()


def _told(plan: Plan, report: ReplayReport) -> dict[str, Any]:
    """A note may say what is in a record."""
    return report.to_dict() if plan.masks is None else {**report.to_dict(), "notes": []}


def _who() -> str:
    import getpass
    import socket

    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a container without a passwd entry
        user = "unknown"
    return f"{user}@{socket.gethostname()}"
