"""The partitions that a worker is responsible for: it finds out what is to be run there.

A worker is responsible for what its group assigns to it. It also adopts the partitions of a worker of its group that
has died, until the group assigns them anew, which takes seconds. Two workers that look after one process do no harm:
the first claim in the log decides.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from random import sample

from seekpoint.consumers.heartbeats.liveness import LivenessVerdict
from seekpoint.consumers.heartbeats.progress_health import ProgressHealth
from seekpoint.consumers.recovery.open_processes import recover_open
from seekpoint.producers.durable.steps.agent import Agent
from seekpoint.producers.node_runtime import NodeRuntime
from seekpoint.producers.tail.partition_tail import PartitionTail
from seekpoint.producers.worker.assessment import Assessment, Next, assess
from seekpoint.producers.worker.child_ends import ChildEnds
from seekpoint.producers.worker.partition_watch import Owner, PartitionWatch
from seekpoint.producers.worker.process_runs import ProcessRun
from seekpoint.producers.worker.run_queue import ReadyRun, RunQueue
from seekpoint.producers.worker.take_overs import TakeOvers
from seekpoint.schemas.bodies.entry import process_key
from seekpoint.schemas.config.error_texts import traceback_of
from seekpoint.schemas.errors import Retryable, SeekpointError
from seekpoint.schemas.folding.fold import SHARED_PREFIX
from seekpoint.schemas.log.log_ports import LogReader
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.state.process_state import State

logger = logging.getLogger("seekpoint.producers")

_AGAIN_S = 1.0
_ERROR_S = 5.0
_ASSESS_AT_ONCE = 64
_TAIL_S = 5.0
"""How long a tail may take to reach the end that its partition had."""
_FREE = (LivenessVerdict.DEAD, LivenessVerdict.FREE)


class Responsibility:
    """One worker's share of the partitions. ``on_suspended`` receives a process that runs here and was suspended."""

    def __init__(
        self,
        runtime: NodeRuntime,
        agents: Mapping[str, Agent],
        queue: RunQueue,
        group: str,
        wake: Callable[[], None],
        on_suspended: Callable[[str], None],
    ) -> None:
        self._runtime = runtime
        self._agents = agents
        self._queue = queue
        self._group = group
        self._wake = wake
        self._on_suspended = on_suspended
        self._watches: dict[int, PartitionWatch] = {}
        self._tails: dict[int, ProgressHealth] = {}
        """Whether the tail of each partition follows the partition's end."""
        self._loading: dict[int, asyncio.Task[None]] = {}
        self.assigned: frozenset[int] = frozenset()
        """The partitions that the group has assigned to this worker."""
        self._adopted: frozenset[int] = frozenset()
        self._take_overs = TakeOvers(runtime.settings, runtime.clock)
        self._child_ends = ChildEnds(runtime, self._end_of_child)

    @property
    def watches(self) -> Collection[PartitionWatch]:
        """The state of each partition that this worker looks after."""
        return self._watches.values()

    def looks_after(self, partition: int) -> bool:
        """Whether this worker looks after a partition: it is assigned, or adopted from a worker that died."""
        return partition in self._watches

    # --- partitions
    def leave(self) -> None:
        """Note that the group assigns nothing to this worker any more. What runs here goes on, and is watched."""
        self.assigned = frozenset()
        self._runtime.heartbeater.publish_soon()

    def assign(self, partitions: frozenset[int]) -> None:
        """Look after these partitions, and those that were adopted."""
        self.assigned = partitions
        self._follow()
        self._runtime.heartbeater.publish_soon()

    def adopt_orphans(self) -> None:
        """Look after the partitions of the workers of the group that have died, shared among those that live."""
        dead: set[int] = set()
        living: list[tuple[str, frozenset[int]]] = [(self._runtime.node_id, self.assigned)]
        for heartbeat, verdict in self._runtime.heartbeater.liveness.nodes():
            worker = heartbeat.worker
            if worker is None or worker.group != self._group or heartbeat.node_id == self._runtime.node_id:
                continue
            if verdict in (LivenessVerdict.DEAD, LivenessVerdict.BLOCKED):
                dead |= {*worker.partitions}
            else:
                living.append((heartbeat.node_id, frozenset(worker.partitions)))
        orphans = dead.difference(*(partitions for _, partitions in living))
        names = sorted(name for name, _ in living)
        mine = names.index(self._runtime.node_id)
        adopted = frozenset(one for one in orphans if one % len(names) == mine)
        if adopted != self._adopted:
            self._adopted = adopted
            logger.info("partitions of dead workers looked after: %s", sorted(adopted))
            self._follow()

    def _follow(self) -> None:
        wanted = self.assigned | self._adopted
        for partition in self._watches.keys() - wanted:
            self._unwatch(partition)
        for partition in wanted - self._watches.keys():
            self._watch(partition)

    def _watch(self, partition: int) -> None:
        reader, boot_id = self._runtime.reader, self._runtime.identity.boot_id
        watch = PartitionWatch(partition, reader, boot_id, self._wake, self._on_suspended)
        for process_id in self._queue.running:
            if self.partition_of(process_id) == partition:
                watch.begin(process_id)
        self._watches[partition], self._tails[partition] = watch, ProgressHealth()
        self._loading[partition] = asyncio.create_task(self._load(watch), name="seekpoint-load")

    def _unwatch(self, partition: int) -> None:
        """Stop looking after a partition. What runs goes on: it is owned."""
        watch = self._watches.pop(partition)
        del self._tails[partition]
        self._loading.pop(partition).cancel()
        if watch.tail is not None and watch.tail.observer is watch:
            watch.tail.observer = None
            self._runtime.tailer.watch(watch.tail, -1)
        for process_id in watch.parents:
            self._child_ends.follow(process_id, None)
        for process_id in list(self._queue.ready):
            if self.partition_of(process_id) == partition:
                self._queue.remove(process_id)

    async def _load(self, watch: PartitionWatch) -> None:
        """Follow the partition, then assess every unfinished process in it."""
        runtime, partition = self._runtime, watch.partition
        while True:
            try:
                high = (await runtime.in_thread(partial(runtime.reader.watermarks, partition))).high
                tail = runtime.tailer.tail_from(partition, high)
                if tail.observer is not watch:
                    tail.observer, watch.tail = watch, tail
                    runtime.tailer.watch(tail, 1)
                runtime.tailer.want_proof(tail)
                await runtime.heartbeater.look()
                found = await runtime.in_thread(partial(recover_open, runtime.recovery.blocking, partition))
                break
            except Retryable as exc:
                logger.warning("partition %d cannot be read: %s", partition, exc)
                await asyncio.sleep(_AGAIN_S)
            except SeekpointError as exc:
                logger.error("partition %d cannot be looked after: %s", partition, exc)
                await asyncio.sleep(_ERROR_S)
                watch.error = exc
                return
            except Exception as exc:
                await asyncio.sleep(_AGAIN_S)
                watch.error = SeekpointError(f"loading failed: {type(exc).__name__}", partition=partition)
                watch.error.__cause__ = exc
                return
        watch.loaded_end = high
        for process_id, one in found.items():
            if not process_id.startswith(SHARED_PREFIX) and not watch.runs_here(process_id):
                self._file(watch, process_id, one.state)
        self._wake()

    def partition_of(self, process_id: str) -> int:
        """Return the partition of a process."""
        return partition_of(process_key(process_id), self._runtime.reader.partitions)

    def close(self) -> None:
        """Stop looking after anything."""
        self.assigned = self._adopted = frozenset()
        self._follow()
        self._child_ends.close()

    # --- what runs here
    def begin(self, process_id: str) -> bool:
        """Note that the process runs here from now on; False if this worker does not look after it any more."""
        watch = self._watches.get(self.partition_of(process_id))
        if watch is not None:
            watch.begin(process_id)
        return watch is not None

    def state_of(self, process_id: str, tail: PartitionTail) -> State | None:
        """Return the state, as of the tail's position, of a process that began while this worker looked after it."""
        watch = self._watches.get(self.partition_of(process_id))
        return watch.state_of(process_id) if watch is not None and watch.tail is tail else None

    def over(self, run: ProcessRun) -> None:
        """Note what is next for a process that does not run here any more."""
        process_id, state = run.ready.process_id, run.state
        watch = self._watches.get(self.partition_of(process_id))
        if watch is None:
            return
        mail_at = watch.end(process_id)
        if run.again_s is not None or state is None:
            self._assess_later(watch, process_id, run.again_s or _AGAIN_S)
        elif mail_at > state.offset:
            watch.stale[process_id] = mail_at
        else:
            self._file(watch, process_id, state, run.pause_s)

    def _enqueue(
        self, process_id: str, found: Assessment, ended: frozenset[str] = frozenset(), is_last_try: bool = False
    ) -> None:
        now_s = self._runtime.clock.monotonic()
        self._queue.add(ReadyRun(process_id, found.agent, found.priority, now_s, ended, found.begins, is_last_try))
        self._wake()

    # --- children
    def follow_children(self) -> None:
        """Follow the children that processes have begun to wait for, and leave those that none waits for any more."""
        for watch in self._watches.values():
            changed, watch.changed_parents = watch.changed_parents, set()
            for process_id in changed:
                self._child_ends.follow(process_id, watch.parents.get(process_id))

    def _end_of_child(self, parent_id: str, child_id: str) -> None:
        watch = self._watches.get(self.partition_of(parent_id))
        waits = None if watch is None else watch.waiting.get(parent_id)
        if waits is not None:
            self._enqueue(parent_id, waits, frozenset([child_id]))

    def _file(self, watch: PartitionWatch, process_id: str, state: State, pause_s: float | None = None) -> None:
        """Note what is to be done about a process, as of its recovered state. ``pause_s``: a run waits so long."""
        if watch.is_outdated(process_id, state):
            return  # what came is assessed next
        owner = None if state.owner is None else Owner(state.owner_node or "", state.owner_boot or "", state.owner)
        if owner is not None and not self._is_free(owner):
            watch.set_owner(process_id, owner)
            return
        found = assess(state, self._agents, self._runtime.clock.now_us())
        watch.file(process_id, found)
        if found.next is not Next.RUN:
            return
        deaths = state.owner_deaths + (owner is not None and owner.boot_id != self._runtime.identity.boot_id)
        pause_s = self._take_overs.wait_s(process_id, state.epoch, deaths) if pause_s is None else pause_s
        if pause_s is not None:
            self._assess_later(watch, process_id, pause_s)
        else:
            self._enqueue(process_id, found, is_last_try=self._take_overs.is_last(self._agents[found.agent], deaths))

    def _is_free(self, owner: Owner) -> bool:
        mine = owner.boot_id == self._runtime.identity.boot_id
        return mine or self._runtime.heartbeater.liveness.judge(*owner) in _FREE

    # --- looking
    @property
    def is_caught_up(self) -> bool:
        """Whether all assigned partitions are followed, and their unfinished processes are known."""
        watches = [self._watches.get(partition) for partition in self.assigned]
        return all(watch is not None and watch.is_caught_up for watch in watches)

    @property
    def tail_lag(self) -> int:
        """The offsets that the tails were behind the ends of their partitions when these were last looked at."""
        return sum(health.lag or 0 for health in self._tails.values())

    @property
    def tail_stalled_s(self) -> float:
        """The longest time in seconds that a tail has made no progress while its partition had more."""
        return max((health.stalled_s for health in self._tails.values()), default=0.0)

    async def look_at_tails(self) -> None:
        """Compare each tail with the end of its partition. A tail that is behind has some seconds to reach the end.

        A client may stop delivering without an error. A caller that waits makes the tailer read the partition directly.
        """
        watched = [(watch, self._tails[partition]) for partition, watch in self._watches.items()]
        followed = [watch.partition for watch, _ in watched if watch.tail is not None]
        ends: Mapping[int, int] = await self._runtime.in_thread(partial(_ends_of, self._runtime.reader, followed))
        looks = (self._look_at_tail(watch, health, ends.get(watch.partition)) for watch, health in watched)
        await asyncio.gather(*looks)

    async def _look_at_tail(self, watch: PartitionWatch, health: ProgressHealth, end: int | None) -> None:
        tail = watch.tail
        if tail is None or end is None:  # it is not loaded yet, or Kafka does not answer: nothing can be said of it
            health.progress()
            return
        was = tail.position
        try:
            async with asyncio.timeout(_TAIL_S):
                await self._runtime.tailer.wait_for(tail, end)
        except TimeoutError:
            health.observe(end - tail.position)
            if tail.position > was:
                health.progress()
        except SeekpointError:
            health.progress()
        else:
            health.observe(0)

    async def look_at_owners(self) -> None:
        """Find owners that have died, and the partitions of workers that have. May wait for Redis or Kafka.

        The node reads the heartbeats of others now and then, and the death of a program on this host shows without
        them. They are read here before an owner is believed to be free: its claim may be newer than what was read.
        """
        if any(self._is_free(owner) for watch in self._watches.values() for owner in watch.owned.values()):
            with suppress(SeekpointError):
                await self._runtime.heartbeater.look()
        self.adopt_orphans()
        for watch in self._watches.values():
            for process_id, owner in list(watch.owned.items()):
                if self._is_free(owner):
                    del watch.owned[process_id]
                    watch.stale[process_id] = -1
                    self._wake()

    def look_at_moments(self) -> None:
        """Find moments that have come, and partitions that have to be followed anew."""
        now_us = self._runtime.clock.now_us()
        for watch in list(self._watches.values()):
            for process_id in watch.due(now_us):
                self._enqueue(process_id, watch.waiting[process_id])
            if watch.error is not None:
                error = traceback_of(watch.error, self._runtime.settings)
                logger.error("partition %d is followed anew: %s", watch.partition, error)
                self._unwatch(watch.partition)
                self._watch(watch.partition)

    async def assess_stale(self) -> None:
        """Recover the processes that something came for, and note what is to be done about them."""
        for watch in list(self._watches.values()):
            while some := list(_first(watch.stale, _ASSESS_AT_ONCE)):
                for process_id in some:
                    del watch.stale[process_id]
                await asyncio.gather(*(self._assess(watch, process_id) for process_id in some))

    async def _assess(self, watch: PartitionWatch, process_id: str) -> None:
        waits = watch.waiting.get(process_id)
        if waits is not None:
            self._enqueue(process_id, waits)  # its open looks at what came
            return
        state = watch.state_of(process_id)
        if state is not None:
            self._file(watch, process_id, state)
            return
        try:
            found = await self._runtime.recover(process_id, missing_ok=True)
        except Retryable as exc:
            logger.warning("%s cannot be assessed yet: %s", process_id, exc)
            self._assess_later(watch, process_id, _AGAIN_S)
        except SeekpointError as exc:
            logger.error("%s is left alone: %s", process_id, exc)
        else:
            if not watch.runs_here(process_id):
                self._file(watch, process_id, found.state)

    def _assess_later(self, watch: PartitionWatch, process_id: str, seconds: float) -> None:
        def later() -> None:
            watch.stale[process_id] = -1
            self._wake()

        asyncio.get_running_loop().call_later(seconds, later)


def _ends_of(reader: LogReader, partitions: Sequence[int]) -> dict[int, int]:
    """Return the ends of the partitions that answer. One call in one thread costs an idle worker less than one each."""
    ends: dict[int, int] = {}
    for partition in sample(partitions, len(partitions)):  # one that does not answer hides others only now and then
        try:
            ends[partition] = reader.watermarks(partition).high
        except Retryable:
            break  # the next one may take as long
        except SeekpointError:
            continue
    return ends


def _first(table: Mapping[str, int], count: int) -> Iterator[str]:
    return (one for one, _ in zip(table, range(count), strict=False))
