"""Replay checks of many processes: which of them the code can go on with."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from seekpoint.console.render.listing import listed
from seekpoint.console.render.progress import ReadingProgress, watched
from seekpoint.console.services.process_query import ProcessQuery
from seekpoint.console.services.target import CommandTarget
from seekpoint.producers import Agent, ReplayCheck, check_replay
from seekpoint.schemas.config.limits import DEFAULT_LIMITS, Limits
from seekpoint.schemas.errors import SeekpointError
from seekpoint.schemas.frozen_struct import FrozenStruct

if TYPE_CHECKING:
    from seekpoint.consumers.recovery.process_history import Logged
    from seekpoint.consumers.view.process_summary import Summary

__all__ = ["CheckedProcess", "Outcome", "check_captured", "check_journal"]

Outcome = Literal["same", "differs", "pinned", "unchecked"]
_HISTORIES_MAX = 100
"""The number of processes whose entries are in memory at once."""


class CheckedProcess(FrozenStruct, frozen=True, kw_only=True):
    """The outcome of one process."""

    process_id: str
    agent: str
    outcome: Outcome
    """``pinned``: its agent is pinned to another definition, so only workers with that one go on with it.
    ``unchecked``: there is no answer, see ``why``."""
    why: str | None = None
    check: ReplayCheck | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return an object of ``seekpoint replay-check --all --json``."""
        facts = {"process_id": self.process_id, "agent": self.agent, "outcome": self.outcome, "why": self.why}
        return {**facts, "check": None if self.check is None else self.check.to_dict()}


def check_journal(
    target: CommandTarget, agents: Mapping[str, Agent], query: ProcessQuery, limit: int | None, detail: str
) -> Iterator[CheckedProcess]:
    """Check the processes of ``agents`` in the journal that ``query`` wants, at most ``limit``, by partition.

    The view says which processes there are, without a view the log. Then each partition is read once for every
    100 of them. Nothing is written.
    """
    wanted: dict[int, list[Summary]] = {}
    found = (one.summary for one in listed(target, query))
    for one in islice((one for one in found if one.agent in agents and one.version is not None), limit):
        wanted.setdefault(one.partition, []).append(one)
    chunks = [(partition, chunk) for partition, some in sorted(wanted.items()) for chunk in _chunks(some)]
    total = 0
    for partition, _ in chunks:
        marks = target.log.watermarks(partition)
        total += marks.high - marks.low
    with ReadingProgress("checking", total) as progress:
        for partition, chunk in chunks:
            yield from _check_chunk(target, partition, chunk, agents, detail, progress)


def _check_chunk(
    target: CommandTarget, partition: int, chunk: Sequence[Summary], agents: Mapping[str, Agent], detail: str,
    progress: ReadingProgress,
) -> Iterator[CheckedProcess]:  # fmt: skip
    from seekpoint.consumers.recovery.process_history import histories
    from seekpoint.consumers.recovery.recoverer import Recoverer

    recoverer = Recoverer(watched(target.log, progress.advance), target.dead_letters, checkpoints=target.checkpoints)
    entries = histories(recoverer, partition, {one.process_id.encode() for one in chunk})
    for one in chunk:
        assert one.agent is not None
        history = entries.pop(one.process_id.encode(), [])
        checked = asyncio.run(_checked(agents[one.agent], one.process_id, history, detail, target.log.limits))
        progress.hide()
        yield checked


def check_captured(
    captured: Mapping[str, Iterable[Logged]], agents: Mapping[str, Agent], limit: int | None, detail: str
) -> Iterator[CheckedProcess]:
    """Check the processes of a capture that began with one of ``agents``, at most ``limit``, by id."""
    from seekpoint.schemas.bodies import AgentStarted

    count = 0
    for process_id, entries in sorted(captured.items()):
        history = list(entries)
        name = next((one.entry.body.agent for one in history if isinstance(one.entry.body, AgentStarted)), None)
        if name is None or name not in agents:
            continue
        if count == limit:
            return
        count += 1
        yield asyncio.run(_checked(agents[name], process_id, history, detail, DEFAULT_LIMITS))


async def _checked(
    agent: Agent, process_id: str, history: Sequence[Logged], detail: str, limits: Limits
) -> CheckedProcess:
    try:
        found = await check_replay(agent, history, detail=detail, limits=limits)
    except SeekpointError as exc:  # the beginning was trimmed, or another agent began meanwhile
        return CheckedProcess(process_id=process_id, agent=agent.name, outcome="unchecked", why=exc.message)
    outcome: Outcome = "same"
    if found.divergence is not None:
        outcome = "pinned" if found.divergence.kind == "definition" else "differs"
    return CheckedProcess(process_id=process_id, agent=agent.name, outcome=outcome, check=found)


def _chunks(some: Sequence[Summary]) -> Iterator[Sequence[Summary]]:
    for start in range(0, len(some), _HISTORIES_MAX):
        yield some[start : start + _HISTORIES_MAX]
