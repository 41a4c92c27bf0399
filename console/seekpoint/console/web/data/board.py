"""The board: all processes of the journal in memory, and the lists, counts and pages that viewers ask of it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

import typer
from msgspec import Meta

from seekpoint.console.render.states import summary_facts
from seekpoint.console.services.arguments.process_query import SORTS, STATUSES, ProcessQuery
from seekpoint.console.services.arguments.time_option import since_us
from seekpoint.console.web.failures import BadRequest
from seekpoint.schemas.frozen_struct import FrozenStruct

if TYPE_CHECKING:
    from seekpoint.consumers.heartbeats.worker_code import WorkerCode
    from seekpoint.consumers.view.process_summary import Summary

__all__ = ["AgentCount", "Board", "ListQuery", "ListSource", "ProcessList", "ProcessRow"]

ROWS_MAX = 300
ONLY = ("open", "failed", "waiting", "on_hold", "in_doubt", "no_worker")


def _one_of(words: tuple[str, ...]) -> Meta:
    return Meta(extra_json_schema={"enum": list(words)})


class ListQuery(FrozenStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request for a list of processes. The address of the page has the same parameters."""

    prefix: str | None = None
    """Only ids that begin so."""
    agent: str | None = None
    lifecycle: Annotated[str | None, _one_of(STATUSES)] = None
    only: tuple[Annotated[str, _one_of(ONLY)], ...] = ()
    since: str | None = None
    """So long ago (``2h``), or a date."""
    sort: Annotated[str, _one_of(SORTS)] = "updated"
    shared: bool = False
    """Also shared values, which nobody runs."""
    skip: Annotated[int, Meta(ge=0, le=100_000_000)] = 0
    """So many of them are left out: those of the pages before."""
    limit: Annotated[int, Meta(ge=1, le=ROWS_MAX)] = 100

    def address(self, skip: int) -> str:
        """Return the address of another page of the same list.

        >>> ListQuery(agent="a b", only=("open", "failed"), skip=100).address(200)
        '/processes?agent=a+b&only=open&only=failed&skip=200'
        """
        fresh = ListQuery()
        given = {name: getattr(self, name) for name in self.__struct_fields__ if name != "skip"}
        changed = {name: value for name, value in given.items() if value != getattr(fresh, name)}
        return "/processes?" + urlencode({**changed, "skip": skip}, doseq=True)

    def process_query(self) -> ProcessQuery:
        """Return the query of ``seekpoint ps`` that this is. Raises ``BadRequest``."""
        _check("lifecycle", self.lifecycle, (None, *STATUSES))
        _check("sort", self.sort, SORTS)
        for one in self.only:
            _check("only", one, ONLY)
        try:
            since = since_us(self.since)
        except (typer.BadParameter, ValueError, OverflowError, OSError) as exc:
            raise BadRequest(
                400, "BadQuery", "since is so long ago (30s, 2h, 7d), a date, or seconds since 1970"
            ) from exc
        return ProcessQuery(
            agent=self.agent, status=self.lifecycle, failed="failed" in self.only, waiting="waiting" in self.only,
            unfinished="open" in self.only, since_us=since, sort=self.sort, shared=self.shared,
        )  # fmt: skip


class ProcessRow(FrozenStruct, frozen=True, kw_only=True):
    """One process in a list, as ``seekpoint ps --json`` has it."""

    process_id: str
    status: str
    lifecycle: str
    agent: str | None
    version: str | None
    owner_node: str | None
    owned_since: float | None
    """By the owner's clock, in seconds since 1970."""
    epoch: int
    waits_for: list[str]
    awaits: list[str]
    """The same with the names."""
    since: str | None
    """When the oldest of these waits began; None: the journal does not say."""
    until: str | None
    on_hold: bool
    has_worker: bool | None
    """False: it needs a worker, and none has its code."""
    in_doubt: int
    error: str | None
    degraded: dict[str, Any] | None
    spent: dict[str, str] | None
    last_kind: str | None
    last_call: str | None
    """The key of the newest call that began or ended; None: there is none, or only the gravestone is left."""
    last_call_kind: str | None
    """None: the turn of the call has ended."""
    seq: int
    """How many entries its owners wrote."""
    mailbox: int
    started: str
    updated: str
    deleted: bool
    """Whether it was deleted, and nothing was written to it since."""
    finished: bool
    partition: int
    offset: int
    behind: int
    """How many offsets of its partition the view has not applied."""


class AgentCount(FrozenStruct, frozen=True, kw_only=True):
    """The number of an agent's processes, by what ``lifecycle`` shows."""

    agent: str | None
    by_status: dict[str, int]
    total: int


class ListSource(FrozenStruct, frozen=True, kw_only=True):
    """The place from which the list was read."""

    name: str
    """``view`` or ``log``."""
    why: str | None = None
    """Why not the view."""
    loading: bool = False
    """The first read has not ended, so processes are missing."""
    problem: str | None = None
    """Why the journal cannot be read now; None: it can."""
    behind: int = 0
    """The offsets that the view has not applied, of all partitions."""


class ProcessList(FrozenStruct, frozen=True, kw_only=True):
    """A page of processes."""

    journal: str
    revision: int
    """It grows with each change of any process."""
    source: ListSource
    total: int
    """How many processes the query matches."""
    skip: int = 0
    """How many of them come before this page."""
    processes: list[ProcessRow]
    counts: list[AgentCount]
    """By agent, of all processes of the journal but shared values."""


class Board:
    """All processes of a journal by id."""

    def __init__(self, journal: str) -> None:
        self.journal = journal
        self.summaries: dict[str, Summary] = {}
        self.revision = 0
        self.behind: Mapping[int, int] = {}
        self.source = ListSource(name="view", loading=True)
        self.code: WorkerCode | None = None
        self._counts: dict[str | None, Counter[str]] = {}

    def replace(self, found: dict[str, Summary]) -> None:
        """Take these processes as all there are."""
        self.summaries, self._counts = {}, {}
        self.revision += not found
        self.update(found)

    def update(self, changed: Mapping[str, Summary]) -> None:
        """Take these processes in. A revision begins if there are any."""
        self.revision += bool(changed)
        for process_id, one in changed.items():
            old = self.summaries.get(process_id)
            self.summaries[process_id] = one
            if one.is_shared:
                continue
            if old is not None:
                self._counts[old.agent][old.status] -= 1
            self._counts.setdefault(one.agent, Counter())[one.status] += 1

    def listed(self, query: ListQuery) -> ProcessList:
        """Return the page that ``query`` asks for. Raises ``BadRequest``."""
        matching = self.matching(query)
        ordered = query.process_query().ordered(matching)
        rows = [self.row(one) for one in islice(ordered, query.skip, query.skip + query.limit)]
        return ProcessList(
            journal=self.journal, revision=self.revision, source=self.source, total=len(matching), skip=query.skip,
            processes=rows, counts=self.counts(),
        )  # fmt: skip

    def matching(self, query: ListQuery) -> list[Summary]:
        """Return all processes that ``query`` selects, in no order. Raises ``BadRequest``."""
        wanted = query.process_query()
        return [one for one in self.summaries.values() if wanted.wants(one) and self._wants(query, one)]

    def counts(self) -> list[AgentCount]:
        """Return how many processes each agent has, the largest first."""
        found = [
            AgentCount(agent=agent, by_status={name: n for name, n in by.items() if n}, total=by.total())
            for agent, by in self._counts.items()
        ]
        return sorted(found, key=lambda one: (-one.total, one.agent or ""))

    def row(self, one: Summary) -> ProcessRow:
        """Return the row of a process."""
        has_worker = None if self.code is None else self.code.can_run(one)
        facts = summary_facts(one, None, self.behind.get(one.partition, 0), has_worker)
        return ProcessRow(status=one.status, **facts)

    def _wants(self, query: ListQuery, one: Summary) -> bool:
        return (query.prefix is None or one.process_id.startswith(query.prefix)) and (
            not query.only
            or all(
                {
                    "on_hold": one.on_hold,
                    "in_doubt": one.in_doubt > 0,
                    "no_worker": self.code is not None and self.code.can_run(one) is False,
                }.get(name, True)
                for name in query.only
            )
        )


def _check(name: str, value: str | None, allowed: tuple[str | None, ...]) -> None:
    if value not in allowed:
        raise BadRequest(400, "BadQuery", f"{name} is one of {', '.join(filter(None, allowed))}")
