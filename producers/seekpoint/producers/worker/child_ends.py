"""Find out when children have ended whose parents wait for them, and are not in memory.

A child may run on any worker, and its end tells its parent nothing. So the worker that is responsible for the parent
follows the child's partition. It recovers the child when it begins to follow it, and whenever an entry came that may
end a run. So no end is missed, whoever died in between.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from seekpoint.consumers.log_reading.scan import entries_of
from seekpoint.producers.node_runtime import NodeRuntime
from seekpoint.producers.runs.run_outcomes import is_over
from seekpoint.producers.tail.partition_tail import PartitionTail
from seekpoint.producers.worker.assessment import Assessment
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import process_key
from seekpoint.schemas.errors import Retryable, SeekpointError
from seekpoint.schemas.log.log_ports import Record
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.state.lifecycle import Lifecycle
from seekpoint.schemas.state.process_state import State

logger = logging.getLogger("seekpoint.producers")

_AGAIN_S = 1.0
_AT_ONCE = 64
_ENDS = (Lifecycle.FAILED, Lifecycle.STOPPED)


class _FollowedChild:
    """A child that parents wait for. A follower at the tail of its partition."""

    def __init__(self, process_id: str, ends: ChildEnds) -> None:
        self.process_id = process_id
        self.key = process_key(process_id)
        self.parents: set[str] = set()
        self.tail: PartitionTail | None = None
        self.task: asyncio.Task[None] | None = None
        self.is_stale = False
        """Whether an entry came that may have ended its run, since it was recovered."""
        self._ends = ends

    def absorb(self, records: list[Record], position: int) -> None:
        """Look at the child if one of the records may end its run."""
        if any(_may_end(entry.body) for _, entry in entries_of(records, self._ends.reader)):
            self._ends.look(self)

    def fail(self, error: SeekpointError) -> None:
        """Follow the child anew: its partition is not followed any more."""
        self._ends.follow_anew(self)


class ChildEnds:
    """The children that the parents of one worker wait for.

    ``on_ended`` receives a parent and a child that it need not wait for any more: the child has ended, or it does not
    exist, since its submission was not sent or not taken yet.
    """

    def __init__(self, runtime: NodeRuntime, on_ended: Callable[[str, str], None]) -> None:
        self.reader = runtime.reader
        self._runtime = runtime
        self._on_ended = on_ended
        self._children: dict[str, _FollowedChild] = {}
        self._by_parent: dict[str, tuple[str, ...]] = {}
        self._room = asyncio.Semaphore(_AT_ONCE)

    def __len__(self) -> int:
        return len(self._children)

    # --- parents
    def follow(self, parent_id: str, assessment: Assessment | None) -> None:
        """Follow the children that a parent waits for; None: it waits for none any more."""
        for child_id in self._by_parent.pop(parent_id, ()):
            self._leave(parent_id, child_id)
        if assessment is not None:
            self._by_parent[parent_id] = assessment.children
            for child_id in assessment.children:
                child = self._children.get(child_id)
                if child is None:
                    child = self._children[child_id] = _FollowedChild(child_id, self)
                child.parents.add(parent_id)
                self.look(child)

    def _leave(self, parent_id: str, child_id: str) -> None:
        child = self._children[child_id]
        child.parents.discard(parent_id)
        if not child.parents:
            del self._children[child_id]
            self._detach(child)
            if child.task is not None:
                child.task.cancel()

    def close(self) -> None:
        """Follow nothing any more."""
        for parent_id in list(self._by_parent):
            self.follow(parent_id, None)

    # --- children
    def look(self, child: _FollowedChild) -> None:
        """Recover a child, and tell its parents if they need not wait for it."""
        child.is_stale = True
        if child.task is None or child.task.done():
            child.task = asyncio.create_task(self._look(child), name="seekpoint-child-end")

    def follow_anew(self, child: _FollowedChild) -> None:
        """Follow a child by a new tail of its partition."""
        self._detach(child)
        if child.parents:
            self.look(child)

    async def _look(self, child: _FollowedChild) -> None:
        while child.is_stale:
            child.is_stale = False
            try:
                async with self._room:
                    state = await self._recovered(child)
            except SeekpointError as exc:
                level = logging.WARNING if isinstance(exc, Retryable) else logging.ERROR
                logger.log(level, "the child %s cannot be looked at yet: %s", child.process_id, exc)
                child.is_stale = True
                await asyncio.sleep(_AGAIN_S)
                continue
            if is_over(state) or state.run_identity is None:
                for parent_id in list(child.parents):
                    self._on_ended(parent_id, child.process_id)

    async def _recovered(self, child: _FollowedChild) -> State:
        """Return the state of a child. It is followed first: what comes after the recovery's end makes it stale."""
        runtime, partition = self._runtime, partition_of(child.key, self.reader.partitions)
        while True:
            if child.tail is None:
                high = (await runtime.in_thread(partial(self.reader.watermarks, partition))).high
                child.tail = runtime.tailer.tail_from(partition, high)
                child.tail.attach_follower(child)
                runtime.tailer.watch(child.tail, 1)
            began = child.tail.position
            found = await runtime.recover(child.process_id, missing_ok=True)
            if began <= found.report.log_end:
                return found.state

    def _detach(self, child: _FollowedChild) -> None:
        tail, child.tail = child.tail, None
        if tail is not None:
            self._runtime.tailer.watch(tail, -1)
            tail.detach(child)


def _may_end(body: b.Body) -> bool:
    """Whether a run may be over with this entry: it is released before its failure is recorded, or after."""
    if isinstance(body, b.LifecycleChanged):
        return body.to in _ENDS
    return isinstance(body, b.Finished | b.ErrorRecorded | b.Released)
