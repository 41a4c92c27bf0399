"""The pipeline of a journal: partitions, projectors, checkpoints, workers, and the services beside them, as of now.

The web console's page and ``seekpoint top`` show it. ``PipelineReader.read`` blocks, so call it in a thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from seekpoint.console.services.facts.node_facts import NodeFacts, WorkerFacts, watched_nodes
from seekpoint.console.services.facts.partition_lag import LagReader
from seekpoint.consumers.log_reading.group_members import GroupMember
from seekpoint.schemas.frozen_struct import FrozenStruct

if TYPE_CHECKING:
    from seekpoint.console.services.arguments.target import CommandTarget

_NODES_INTERVAL_S = 3.0
_MEMBERS_INTERVAL_S = 5.0
_LETTERS_INTERVAL_S = 10.0


class PartitionFacts(FrozenStruct, frozen=True, kw_only=True):
    """A partition: the fields of ``seekpoint lag --json``, and the projector that has it."""

    partition: int
    log_start: int
    log_end: int
    applied: int | None
    """The newest offset that the view has applied; None: there is no usable view. -1: it has applied nothing yet."""
    behind: int | None
    """Offsets that the view has not applied."""
    behind_s: float | None
    """How long ago the oldest of them was appended."""
    floor: int | None
    """Every entry below it is in a checkpoint; None: no projector has published a floor."""
    unsaved: int | None
    """Offsets from the floor on: the most that a recovery from a checkpoint reads."""
    unsaved_s: float | None
    """How long ago the oldest of them was appended: the age of the checkpoints."""
    projector: str | None
    """The member of the group of projectors that has the partition; None: no projector has it."""
    projector_host: str | None
    problem: str | None
    """Why the view is unusable; None if it is usable."""


class PipelineFacts(FrozenStruct, frozen=True, kw_only=True):
    """All parts of a journal's pipeline."""

    journal: str
    is_embedded: bool
    """Whether the journal is in a file. Then it has no recovery services and no reactors."""
    no_view: str | None
    """Why there is no place for a view; None: there is one."""
    behind: int | None
    """Offsets that the view has not applied, in all partitions; None: some partition has no usable view."""
    partitions: tuple[PartitionFacts, ...]
    members: tuple[GroupMember, ...]
    """The members of the groups of projectors, recovery services, reactors and workers."""
    no_members: str | None
    """Why the members are not known; None: they are."""
    workers: tuple[WorkerFacts, ...]
    nodes: tuple[NodeFacts, ...]
    """The nodes that are no workers: dispatchers, and programs that run agents themselves."""
    dead_letters: int

    def of_role(self, role: str) -> tuple[GroupMember, ...]:
        """Return the members with this role."""
        return tuple(one for one in self.members if one.role == role)

    @property
    def dispatchers(self) -> tuple[NodeFacts, ...]:
        """Return the nodes of ``seekpoint serve dispatcher``."""
        return tuple(one for one in self.nodes if one.is_dispatcher)


class PipelineReader:
    """Reads the pipeline again and again. Every call blocks. For one thread at a time.

    Nodes, members and dead letters are read at most every few seconds, however often somebody asks.
    """

    def __init__(self, target: CommandTarget, clock: Callable[[], float] = time.monotonic) -> None:
        from seekpoint.consumers.heartbeats.liveness import Heartbeats, Liveness

        self._target = target
        self._clock = clock
        self._lags = LagReader(target)
        # Redis may be away, and the topic has the same heartbeats.
        store = Heartbeats(target.log, replace(target.settings, redis_url=None))
        self._liveness = Liveness(store, target.settings.owner_timeout_s, loop_timeout_s=target.settings.loop_timeout_s)
        self._members: tuple[GroupMember, ...] = ()
        self._no_members: str | None = None
        self._letters = 0
        self._read_at_s: dict[str, float] = {}

    def read(self) -> PipelineFacts:
        """Return the pipeline. Raises ``JournalUnavailable`` and ``JournalMismatch``."""
        target = self._target
        if self._is_due("nodes", _NODES_INTERVAL_S):
            self._liveness.observe()
        if self._is_due("members", _MEMBERS_INTERVAL_S):
            self._read_members()
        if self._is_due("letters", _LETTERS_INTERVAL_S):
            self._letters = target.dead_letters.count()
        lags = self._lags.read()
        workers, nodes = watched_nodes(self._liveness)
        owners = {at: one for one in self._members if one.role == "projector" for at in one.partitions}
        partitions = tuple(PartitionFacts(**asdict(lag), **_owner(owners.get(lag.partition))) for lag in lags)
        return PipelineFacts(
            journal=target.settings.journal,
            is_embedded=target.settings.sqlite_path is not None,
            no_view=None if target.settings.has_view else "the settings name no Redis",
            behind=None if any(one.behind is None for one in lags) else sum(one.behind or 0 for one in lags),
            partitions=partitions,
            members=self._members,
            no_members=self._no_members,
            workers=tuple(workers),
            nodes=tuple(nodes),
            dead_letters=self._letters,
        )

    def _read_members(self) -> None:
        """Read the members. The credentials may not be allowed to see them; the rest is worth showing anyway."""
        from seekpoint.schemas.errors import JournalUnavailable

        try:
            self._members, self._no_members = tuple(self._target.log.group_members()), None
        except JournalUnavailable as exc:
            self._members, self._no_members = (), self._target.scrub(exc.message)

    def _is_due(self, what: str, interval_s: float) -> bool:
        now_s = self._clock()
        if now_s - self._read_at_s.get(what, float("-inf")) < interval_s:
            return False
        self._read_at_s[what] = now_s
        return True


def _owner(member: GroupMember | None) -> dict[str, Any]:
    if member is None:
        return {"projector": None, "projector_host": None}
    return {"projector": member.member, "projector_host": member.host}
