"""Which agents the workers of a journal have code for, as their heartbeats say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seekpoint.consumers.heartbeats.heartbeat import WorkerStatus
    from seekpoint.consumers.view.process_summary import Summary
    from seekpoint.schemas.log.log_ports import LogReader


class WorkerCode:
    """The code of a journal's workers, to be asked for each process."""

    def __init__(self, workers: Iterable[WorkerStatus]) -> None:
        self._workers = tuple(workers)

    def has(self, agent: str) -> bool:
        """Return whether a worker that takes new runs has the agent."""
        return any(agent in worker.agents and not worker.draining for worker in self._workers)

    def should_run(self, one: Summary) -> bool:
        """Return whether the worker of the process's partition has the code for it, and no run waits for room there."""
        if self.can_run(one) is None:
            return False
        here = (each for each in self._workers if one.partition in each.partitions)
        return any(_has_code(each, one) and each.ready == 0 for each in here)

    def can_run(self, one: Summary) -> bool | None:
        """Return whether a worker has the code for the process; None: the process needs none now.

        A process needs a worker if it runs an agent or was submitted, nobody owns it, it is not on hold and it has not
        ended. A failed one has ended, unless it is tried again or somebody has just asked to redrive or to cancel it.
        An agent that is pinned resumes only processes that began with its own definition.
        """
        if one.agent is None or one.owner is not None or one.finished or one.on_hold or one.degraded:
            return None
        if one.lifecycle in ("stopping", "stopped"):
            return None
        if one.lifecycle == "failed" and not one.waits_for and one.last_kind not in _REVIVING:
            return None
        return any(_has_code(worker, one) for worker in self._workers)


_REVIVING = ("redrive_requested", "cancel_requested")


def _has_code(worker: WorkerStatus, one: Summary) -> bool:
    if one.agent not in worker.agents or worker.draining:
        return False
    pinned = worker.pinned.get(one.agent)
    return pinned is None or one.definition is None or pinned == one.definition


def worker_code(log: LogReader) -> WorkerCode:
    """Read the heartbeats of the journal's workers. A worker whose program has ended on this host is left out."""
    from seekpoint.consumers.heartbeats.heartbeat import from_records
    from seekpoint.consumers.heartbeats.host import has_died

    found = from_records(log.table("nodes").items()).values()
    return WorkerCode(one.worker for one in found if one.worker is not None and not has_died(one.process))
