"""Choose and sort the processes of a listing. Pure: it decides from summaries alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import nlargest, nsmallest
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seekpoint.consumers.view.process_summary import Summary

SORTS = ("id", "updated", "started", "cost")
STATUSES = (
    *("created", "starting", "running", "suspended", "awaiting", "stopping", "stopped", "failed"),
    *("finished", "degraded", "deleted"),
)
"""What the column ``lifecycle`` shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessQuery:
    """The processes that a listing wants. By default all runs and plain processes, by id."""

    agent: str | None = None
    status: str | None = None
    failed: bool = False
    waiting: bool = False
    unfinished: bool = False
    since_us: int | None = None
    """Only processes with an entry at or after this time."""
    sort: str = "id"
    """``id`` sorts upwards; ``updated``, ``started`` and ``cost`` sort the newest or the greatest first."""
    limit: int | None = None
    after: str | None = None
    """Only processes whose id sorts after this one."""
    shared: bool = False
    """Shared values, too, among them the keys of settled effects. Nobody runs them, so none of them is unfinished."""

    @property
    def everything(self) -> bool:
        """Return whether it has no filter, no limit and no order of its own."""
        return self == ProcessQuery(shared=self.shared)

    @property
    def open_only(self) -> bool:
        """Return whether no finished process is wanted, so that an index can leave them out."""
        is_open = self.status not in (None, "finished", "degraded", "deleted")
        return self.unfinished or self.failed or self.waiting or is_open

    @property
    def newest_first(self) -> bool:
        """Return whether it is best to read the processes with the newest entries first, and to stop early."""
        return not self.open_only and (self.since_us is not None or (self.sort == "updated" and self.limit is not None))

    def wants(self, one: Summary) -> bool:
        """Return whether the listing has this process."""
        return (
            not (one.is_shared and (not self.shared or self.open_only))
            and (self.agent is None or one.agent == self.agent)
            and (one.status == self.status if self.status else not one.is_deleted)
            and not (self.failed and (one.finished or one.lifecycle != "failed"))
            and not (self.waiting and not one.waits_for)
            and not (self.unfinished and one.finished)
            and (self.since_us is None or one.updated_us >= self.since_us)
            and (self.after is None or one.process_id > self.after)
        )

    def ordered(self, found: Iterable[Summary]) -> Iterable[Summary]:
        """Return the wanted processes of ``found`` in the order of the listing, at most ``limit``."""
        wanted = filter(self.wants, found)
        key = _KEYS[self.sort]
        if self.sort == "id":
            return sorted(wanted, key=key) if self.limit is None else nsmallest(self.limit, wanted, key=key)
        return sorted(wanted, key=key, reverse=True) if self.limit is None else nlargest(self.limit, wanted, key=key)


def _usd(one: Summary) -> float:
    return float((one.spent or {}).get("usd", 0))


_KEYS: dict[str, Callable[[Summary], tuple[float, str]]] = {
    "id": lambda one: (0, one.process_id),
    "updated": lambda one: (one.updated_us, one.process_id),
    "started": lambda one: (one.started_us, one.process_id),
    "cost": lambda one: (_usd(one), one.process_id),
}
