"""The audit entries of a replay: who replayed what, when and how. They are stored in the target's cluster only."""

from __future__ import annotations

import json
import time
from typing import Any

from seekpoint.consumers.staging.replay_plan import Plan
from seekpoint.consumers.staging.replay_report import ReplayReport
from seekpoint.consumers.staging.replay_run import ReplayRun


def audit_entry(
    run: ReplayRun,
    names: tuple[str, str],
    event: str,
    report: ReplayReport | None,
    asked_by: tuple[str | None, str | None] = (None, None),
) -> tuple[bytes, bytes]:
    """Return the key and value of an audit entry. ``event`` is started, resumed, stopped or finished.

    ``asked_by`` is who asked for the replay, and why, if it is not the user of this program.
    """
    source, target = run.source_facts, run.target_facts
    entry = {
        "what": event,
        "at_ms": time.time_ns() // 1_000_000,
        "by": _user_and_host(),
        "actor": asked_by[0],
        "reason": asked_by[1],
        "job": run.progress.job,
        "source": {"name": names[0], "cluster_id": source.cluster_id, "topic": source.topic},
        "target": {"name": names[1], "cluster_id": target.cluster_id, "topic": target.topic},
        "plan": run.plan.to_audit_dict(),
        "ranges": [list(each) for each in run.ranges],
        "report": None if report is None else _report_facts(run.plan, report),
    }
    return f"{run.progress.job}.{event}".encode(), json.dumps(entry).encode()


def _report_facts(plan: Plan, report: ReplayReport) -> dict[str, Any]:
    """Leave out the notes of a masked replay: a note may quote a record."""
    return report.to_dict() if plan.masks is None else {**report.to_dict(), "notes": []}


def _user_and_host() -> str:
    import getpass
    import socket

    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a container without a passwd entry
        user = "unknown"
    return f"{user}@{socket.gethostname()}"
