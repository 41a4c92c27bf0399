"""Facts about nodes, from a journal's heartbeats: workers, dispatchers, and programs that run agents themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from seekpoint.schemas.frozen_struct import FrozenStruct

if TYPE_CHECKING:
    from seekpoint.consumers.heartbeats.heartbeat import Heartbeat
    from seekpoint.consumers.heartbeats.liveness import Liveness

DISPATCHER_PREFIX = "dispatcher-"
"""How the ids of the nodes of ``seekpoint serve dispatcher`` begin."""


class WorkerFacts(FrozenStruct, frozen=True, kw_only=True):
    """A worker, as its last heartbeat says: an object of ``seekpoint workers --json``."""

    node_id: str
    group: str
    agents: tuple[str, ...]
    partitions: tuple[int, ...]
    running: int
    """How many runs are in memory."""
    ready: int
    """How many runs wait for room."""
    waiting: int
    """How many processes wait for a moment or for mail."""
    state: str
    """``working``, ``draining``, ``dead``: its program has ended; or ``silent``: its heartbeat stands still."""


class NodeFacts(FrozenStruct, frozen=True, kw_only=True):
    """A node that is no worker, as its last heartbeat says."""

    node_id: str
    claims: int
    """How many processes it owns."""
    is_dispatcher: bool
    state: str
    """``alive``, ``silent``, ``dead``, or ``unknown`` until its heartbeat was watched for a while."""


def worker_facts(heartbeats: Iterable[Heartbeat], silent: frozenset[str] = frozenset()) -> Iterator[WorkerFacts]:
    """Yield the workers among the nodes, by id. ``silent`` are the nodes whose heartbeats stand still."""
    from seekpoint.consumers.heartbeats.host import has_died

    for one in sorted(heartbeats, key=lambda each: each.node_id):
        worker = one.worker
        if worker is None:
            continue
        is_silent = one.node_id in silent
        state = "dead" if has_died(one.process) else "silent" if is_silent else "working"
        if state == "working" and worker.draining:
            state = "draining"
        yield WorkerFacts(
            node_id=one.node_id, group=worker.group, agents=worker.agents, partitions=worker.partitions,
            running=worker.running, ready=worker.ready, waiting=worker.waiting, state=state,
        )  # fmt: skip


def node_facts(heartbeats: Iterable[Heartbeat], states: dict[str, str]) -> Iterator[NodeFacts]:
    """Yield the nodes that are no workers, by id, with their ``states``."""
    for one in sorted(heartbeats, key=lambda each: each.node_id):
        if one.worker is None:
            yield NodeFacts(
                node_id=one.node_id, claims=len(one.claim_ids), state=states.get(one.node_id, "unknown"),
                is_dispatcher=one.node_id.startswith(DISPATCHER_PREFIX),
            )  # fmt: skip


def watched_nodes(liveness: Liveness) -> tuple[list[WorkerFacts], list[NodeFacts]]:
    """Return the workers and the other nodes as they were observed."""
    from seekpoint.consumers.heartbeats.host import has_died
    from seekpoint.consumers.heartbeats.liveness import LivenessVerdict

    words = {LivenessVerdict.ALIVE: "alive", LivenessVerdict.BLOCKED: "blocked", LivenessVerdict.DEAD: "silent"}
    found = liveness.nodes()
    states = {one.node_id: "dead" if has_died(one.process) else words.get(verdict, "unknown") for one, verdict in found}
    silent = frozenset(node_id for node_id, state in states.items() if state == "silent")
    heartbeats = [one for one, _ in found]
    return list(worker_facts(heartbeats, silent)), list(node_facts(heartbeats, states))
