"""Replay checks of many processes: which of them the code can go on with."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from seekpoint.console.render.listing import listed
from seekpoint.console.render.progress import ReadingProgress, watched
from seekpoint.console.services.arguments.process_query import ProcessQuery
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.services.histories.process_scan import without_view
from seekpoint.producers import Agent, ReplayCheck, check_replay
from seekpoint.schemas.config.limits import DEFAULT_LIMITS, Limits
from seekpoint.schemas.errors import SeekpointError
from seekpoint.schemas.frozen_struct import FrozenStruct

if TYPE_CHECKING:
    from seekpoint.consumers.recovery.process_history import Logged
    from seekpoint.consumers.view.process_summary import Summary

Outcome = Literal["same", "differs", "pinned", "unchecked"]
_STOPPED = "stopped"
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
    target: CommandTarget, agents: Mapping[str, Agent], query: ProcessQuery, limit: int | None, detail: str,
    timeout_s: float,
) -> Iterator[CheckedProcess]:  # fmt: skip
    """Check the processes of ``agents`` in the journal that ``query`` wants, at most ``limit``, by partition.

    The view says which processes there are. Without a view those that have not finished come from checkpoints or a
    scan, and all come from the log. Then each partition is read once for every 100 of them: from the first entry of
    the oldest on, or as a whole if finished ones are wanted. Nothing is written.
    """
    wanted = (_open_runs if query.unfinished else _listed_runs)(target, agents, query, limit)
    chunks = [chunk for _, some in sorted(wanted.items()) for chunk in _chunks(sorted(some, key=_begins_at))]
    ranges = [_range(target, chunk) for chunk in chunks]
    with ReadingProgress("checking", sum(stop - start for start, stop in ranges)) as progress:
        for chunk, offsets in zip(chunks, ranges, strict=True):
            yield from _check_chunk(target, chunk, offsets, agents, detail, timeout_s, progress)


class _CheckedRun(NamedTuple):
    """A run to be checked."""

    process_id: str
    partition: int
    agent: str
    offsets: tuple[int, int] | None = None
    """Of its first and its newest entry; None: they are not known."""
    degraded: str | None = None


def _begins_at(run: _CheckedRun) -> int:
    return 0 if run.offsets is None else run.offsets[0]


def _listed_runs(
    target: CommandTarget, agents: Mapping[str, Agent], query: ProcessQuery, limit: int | None
) -> dict[int, list[_CheckedRun]]:
    """Return the runs of ``agents`` that ``query`` wants, by partition; finished ones too."""
    wanted: dict[int, list[_CheckedRun]] = {}
    found = (one.summary for one in listed(target, query))
    for one in islice((one for one in found if one.agent in agents and one.version is not None), limit):
        assert one.agent is not None
        run = _CheckedRun(one.process_id, one.partition, one.agent, degraded=one.degraded)
        wanted.setdefault(one.partition, []).append(run)
    return wanted


def _open_runs(
    target: CommandTarget, agents: Mapping[str, Agent], query: ProcessQuery, limit: int | None
) -> dict[int, list[_CheckedRun]]:
    """Return the runs of ``agents`` that have begun and have not ended, by partition. Their states are not kept."""
    from seekpoint.consumers.recovery.open_processes import open_states

    def wants(one: Summary) -> bool:
        return one.agent in agents and one.version is not None and one.lifecycle != _STOPPED and query.wants(one)

    wanted: dict[int, list[_CheckedRun]] = {}
    count, partitions, say_why = 0, range(target.log.partitions), without_view()
    with ReadingProgress("finding open runs", len(partitions), "partitions") as progress:
        for partition in partitions:
            for process_id, state in open_states(target.recoverer, partition, wants, say_why):
                if count == limit:
                    return wanted
                assert state.agent is not None
                assert state.first_offset is not None
                offsets = state.first_offset, state.offset
                degraded = None if state.degraded is None else state.degraded.reason
                wanted.setdefault(partition, []).append(
                    _CheckedRun(process_id, partition, state.agent.name, offsets, degraded)
                )
                count += 1
            progress.advance(1)
    return wanted


def _range(target: CommandTarget, chunk: Sequence[_CheckedRun]) -> tuple[int, int]:
    """Return the part of the partition that has the histories of the chunk: from an offset to before another one."""
    marks = target.log.watermarks(chunk[0].partition)
    known = [run.offsets for run in chunk if run.offsets is not None]
    if len(known) < len(chunk):
        return marks.low, marks.high
    whole = [(first, newest) for first, newest in known if first >= marks.low]
    if not whole:
        return marks.low, marks.low
    return min(first for first, _ in whole), max(newest for _, newest in whole) + 1


def _check_chunk(
    target: CommandTarget, chunk: Sequence[_CheckedRun], offsets: tuple[int, int], agents: Mapping[str, Agent],
    detail: str, timeout_s: float, progress: ReadingProgress,
) -> Iterator[CheckedProcess]:  # fmt: skip
    from seekpoint.consumers.recovery.process_history import histories
    from seekpoint.consumers.recovery.recoverer import Recoverer

    recoverer = Recoverer(watched(target.log, progress.advance), target.dead_letters, checkpoints=target.checkpoints)
    start, stop = offsets
    entries = histories(recoverer, chunk[0].partition, {one.process_id.encode() for one in chunk}, start, stop)
    for one in chunk:
        history = entries.pop(one.process_id.encode(), [])
        why = f"degraded: {one.degraded}" if one.degraded else None
        if one.offsets is not None and one.offsets[0] < start:
            why = "the beginning of its history was trimmed"
        checked = (
            _unchecked(one.process_id, one.agent, why)
            if why is not None
            else asyncio.run(_checked(agents[one.agent], one.process_id, history, detail, target.log.limits, timeout_s))
        )
        progress.hide()
        yield checked


def check_captured(
    captured: Mapping[str, Iterable[Logged]], agents: Mapping[str, Agent], limit: int | None, detail: str,
    timeout_s: float,
) -> Iterator[CheckedProcess]:  # fmt: skip
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
        yield asyncio.run(_checked(agents[name], process_id, history, detail, DEFAULT_LIMITS, timeout_s))


async def _checked(
    agent: Agent, process_id: str, history: Sequence[Logged], detail: str, limits: Limits, timeout_s: float
) -> CheckedProcess:
    try:
        async with asyncio.timeout(timeout_s):
            found = await check_replay(agent, history, detail=detail, limits=limits)
    except SeekpointError as exc:  # the beginning was trimmed, or another agent began meanwhile
        return _unchecked(process_id, agent.name, exc.message)
    except TimeoutError:
        return _unchecked(process_id, agent.name, f"the code did not reach the end of the history in {timeout_s:g} s")
    outcome: Outcome = "same"
    if found.divergence is not None:
        outcome = "pinned" if found.divergence.kind == "definition" else "differs"
    return CheckedProcess(process_id=process_id, agent=agent.name, outcome=outcome, check=found)


def _unchecked(process_id: str, agent: str, why: str) -> CheckedProcess:
    return CheckedProcess(process_id=process_id, agent=agent, outcome="unchecked", why=why)


def _chunks(some: Sequence[_CheckedRun]) -> Iterator[Sequence[_CheckedRun]]:
    for start in range(0, len(some), _HISTORIES_MAX):
        yield some[start : start + _HISTORIES_MAX]
