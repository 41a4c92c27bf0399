"""A worker: it runs what is submitted in the partitions assigned to it, and goes on with what stopped there.

    inbox ── submission ──> Submitted entry ──> ready ──> claim and run ──> finished, failed
    journal's tail ── mail, release, dead owner, due timer ──> recover ──> assess ──> ready

Assigned is not owned (design rule): the group's assignment says who looks after a process, and only a claim in the log
says who owns it. A run that waits leaves memory: its code is cancelled as in a crash, and the process is released.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from types import TracebackType
from typing import Any

from seekpoint.consumers.heartbeats.liveness import LivenessVerdict
from seekpoint.producers.agent_run import RECORDED, run_agent
from seekpoint.producers.durable.replay.conduct import Detail, ReplayMode, conduct_of
from seekpoint.producers.durable.steps.agent import Agent, check_is_agent
from seekpoint.producers.node import Node, opener_of, runtime_of
from seekpoint.producers.opening import OpenRequest
from seekpoint.producers.process import Process, durable_side
from seekpoint.producers.worker.assessment import Next, assess
from seekpoint.producers.worker.partition_watch import Owner, PartitionWatch
from seekpoint.producers.worker.run_queue import ReadyRun, RunQueue
from seekpoint.producers.worker.submission_intake import SubmissionIntake
from seekpoint.producers.writer.clocks import Clock
from seekpoint.producers.writer.pending import Cause
from seekpoint.schemas.bodies.entry import process_key
from seekpoint.schemas.config.error_texts import error_line, traceback_of
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import (
    AlreadyOpen,
    Cancelled,
    ClaimLost,
    HandleLost,
    InvalidSetting,
    OwnerAlive,
    Retryable,
    SeekpointError,
)
from seekpoint.schemas.log.inbox_ports import InboxMember
from seekpoint.schemas.log.memory_inbox import MemoryGroup
from seekpoint.schemas.log.memory_log import MemoryLog
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.log.submissions import SubmissionRecord
from seekpoint.schemas.state.lifecycle import Lifecycle
from seekpoint.schemas.state.process_state import State

__all__ = ["Worker"]

logger = logging.getLogger("seekpoint.producers")

_LOOK_S = 0.5
"""How often a worker looks at due moments, at runs that wait, and at the owners of processes that others run."""
_AGAIN_S = 1.0
_ASSESS_AT_ONCE = 64


class Worker:
    """Runs submitted agents: ``async with Worker([refund, triage], settings): ...``, or ``await worker.run()``.

    ``runs_max``: how many runs are in memory at once; ``concurrency``: how many of one agent, by its name. A run that
    only waits leaves memory after ``grace_s``. Leaving the block drains: nothing new begins, runs under way have
    ``drain_s`` to end, then they are released, and the next worker goes on with them at once.
    Workers with the same agents (names and versions) share the partitions; ``group`` names another group.
    """

    def __init__(
        self,
        agents: Iterable[Agent],
        settings: Settings | None = None,
        *,
        runs_max: int = 100,
        concurrency: Mapping[str, int] | None = None,
        grace_s: float = 2.0,
        drain_s: float = 30.0,
        group: str | None = None,
        node: Node | None = None,
        member: InboxMember | None = None,
    ) -> None:
        self.agents = _by_name(agents)
        """The agents that this worker runs, by name."""
        self.group = group or _group_of(self.agents.values())
        """The name of the group of workers that share the partitions."""
        self.drain_s = drain_s
        self.node = node or Node.connect(settings)
        """The node that owns the processes of this worker."""
        self._runtime = runtime_of(self.node)
        self._member = member
        self._grace_s = grace_s
        self._queue = RunQueue(runs_max, concurrency)
        self._runs: dict[str, _RunHere] = {}
        self._watches: dict[int, PartitionWatch] = {}
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._loading: dict[int, asyncio.Task[None]] = {}
        self._intake: SubmissionIntake | None = None
        self._is_draining = False
        self.failure: SeekpointError | None = None
        """The error that stopped the worker; None while it works."""
        self.finished = 0
        """How many runs ended with a result."""
        self.failed = 0
        """How many runs ended with an error of their code."""
        self.cancelled = 0
        """How many runs ended because somebody asked for it."""

    @classmethod
    def in_memory(
        cls, agents: Iterable[Agent], log: MemoryLog, group: MemoryGroup, *, clock: Clock | None = None, **options: Any
    ) -> Worker:
        """Return a worker on a log in memory, for tutorials and tests. Workers that share ``group`` share the work."""
        return cls(agents, node=Node.in_memory(log, clock=clock), member=group.join(), **options)

    @property
    def assigned(self) -> frozenset[int]:
        """The partitions that this worker looks after."""
        return frozenset(self._watches)

    @property
    def running(self) -> Collection[str]:
        """The processes that run in this worker."""
        return self._queue.running.keys()

    @property
    def ready(self) -> int:
        """How many processes wait for room in this worker."""
        return len(self._queue)

    @property
    def waiting(self) -> Collection[str]:
        """The processes that this worker looks after, and that wait for a moment or for mail."""
        return [one for watch in self._watches.values() for one in watch.waiting]

    @property
    def left(self) -> dict[str, str]:
        """The processes that this worker leaves alone, with the reasons."""
        return {one: found.reason for watch in self._watches.values() for one, found in watch.left.items()}

    # --- life
    async def start(self) -> Worker:
        """Connect, join the group and begin to work."""
        await self.node.start()
        try:
            member = self._member or await self._runtime.in_thread(
                partial(_kafka_member, self.node.settings, self.group)
            )
            self._intake = SubmissionIntake(self._runtime, member, self._on_assigned, self._on_submitted)
        except BaseException:
            await self.node.close()
            raise
        self._tasks = [
            asyncio.create_task(self._watched(self._intake.run()), name="seekpoint-inbox"),
            asyncio.create_task(self._watched(self._work()), name="seekpoint-worker"),
        ]
        return self

    async def run(self, stop: asyncio.Event | None = None) -> None:
        """Work until ``stop`` is set, or until an error stops the worker, which is raised; then drain."""
        async with self:
            ended = [asyncio.ensure_future((stop or asyncio.Event()).wait()), *self._tasks]
            await asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED)
            ended[0].cancel()

    async def __aenter__(self) -> Worker:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
        if self.failure is not None and error is None:
            raise self.failure

    async def close(self) -> None:
        """Drain, leave the group and close the node. Runs that are not over after ``drain_s`` are released."""
        self._is_draining = True
        for task in [*self._tasks, *self._loading.values()]:
            task.cancel()
        await asyncio.gather(*self._tasks, *self._loading.values(), return_exceptions=True)
        try:
            await self._drain()
            if self._intake is not None:
                await self._intake.close()
        finally:
            for partition in list(self._watches):
                self._unwatch(partition)
            await self.node.close()

    async def _drain(self) -> None:
        deadline = self._runtime.clock.monotonic() + self.drain_s
        while self._runs and self._runtime.clock.monotonic() < deadline:
            self._park_idle(0.0)
            await asyncio.wait([one.task for one in self._runs.values()], timeout=min(_LOOK_S, self.drain_s))
        for one in self._runs.values():
            one.task.cancel()
        await asyncio.gather(*(one.task for one in self._runs.values()), return_exceptions=True)

    async def _watched(self, work: Any) -> None:
        """Run a part of the worker. An error that ends it ends the worker."""
        try:
            await work
        except SeekpointError as exc:
            logger.error("the worker stops: %s", exc)
            self.failure = exc
        except Exception as exc:
            logger.error("the worker failed: %s", traceback_of(exc, self.node.settings))
            raise

    # --- partitions
    def _on_assigned(self, partitions: frozenset[int]) -> None:
        for partition in self._watches.keys() - partitions:
            self._unwatch(partition)
        for partition in partitions - self._watches.keys():
            self._watch(partition)

    def _watch(self, partition: int) -> None:
        watch = PartitionWatch(partition, self._runtime.reader.codec, self._runtime.identity.boot_id, self._wake.set)
        for process_id in self._queue.running:
            if self._partition(process_id) == partition:
                watch.begin(process_id)
        self._watches[partition] = watch
        self._loading[partition] = asyncio.create_task(self._load(watch), name="seekpoint-load")

    def _unwatch(self, partition: int) -> None:
        """Stop looking after a partition. What runs goes on: it is owned."""
        watch = self._watches.pop(partition)
        loading = self._loading.pop(partition, None)
        if loading is not None:
            loading.cancel()
        tail = self._runtime.tailer.tail(partition)
        if tail is not None and tail.observer is watch:
            tail.observer = None
            self._runtime.tailer.watch(tail, -1)
        for process_id in list(self._queue.ready):
            if self._partition(process_id) == partition:
                self._queue.remove(process_id)

    async def _load(self, watch: PartitionWatch) -> None:
        """Follow the partition, then assess every unfinished process in it."""
        partition, runtime = watch.partition, self._runtime
        while True:
            try:
                high = (await runtime.in_thread(partial(runtime.reader.watermarks, partition))).high
                tail = runtime.tailer.tail_from(partition, high)
                if tail.observer is not watch:
                    tail.observer = watch
                    runtime.tailer.watch(tail, 1)
                found = await runtime.in_thread(partial(runtime.recovery.blocking.recover_partition, partition, None))
                break
            except Retryable as exc:
                logger.warning("partition %d cannot be read: %s", partition, exc)
                await asyncio.sleep(_AGAIN_S)
        for process_id, one in found.items():
            if not process_id.startswith("shared:") and process_id not in watch.mail_at:
                self._file(watch, process_id, one.state)
        self._wake.set()

    def _partition(self, process_id: str) -> int:
        return partition_of(process_key(process_id), self._runtime.reader.partitions)

    # --- what comes
    def _on_submitted(self, submission: SubmissionRecord) -> None:
        """Begin a submitted run without a look: the open looks before it claims."""
        watch = self._watches.get(self._partition(submission.process_id))
        is_free = watch is not None and submission.process_id not in watch.owned
        if watch is None or not is_free or submission.agent not in self.agents or submission.start_at_us is not None:
            return  # the tail brings its entry, which has it assessed
        self._enqueue(submission.process_id, submission.agent, submission.priority)

    def _enqueue(self, process_id: str, agent: str, priority: int = 0) -> None:
        self._queue.add(ReadyRun(process_id, agent, priority, self._runtime.clock.monotonic()))
        self._wake.set()

    def _file(
        self, watch: PartitionWatch, process_id: str, state: State, seen: Collection[bytes] = frozenset()
    ) -> None:
        """Note what is to be done about a process, as of its recovered state."""
        if state.owner is not None and not self._is_free(state):
            watch.set_owner(process_id, Owner(state.owner_node or "", state.owner_boot or "", state.owner))
            return
        found = assess(state, self.agents, self._runtime.clock.now_us(), seen)
        watch.file(process_id, state, found)
        if found.next is Next.RUN:
            self._enqueue(process_id, found.agent, found.priority)

    def _is_free(self, state: State) -> bool:
        assert state.owner is not None
        if state.owner_boot == self._runtime.identity.boot_id:
            return True
        return self._judged_free(Owner(state.owner_node or "", state.owner_boot or "", state.owner))

    def _judged_free(self, owner: Owner) -> bool:
        return self._runtime.heartbeater.liveness.judge(*owner) in (LivenessVerdict.DEAD, LivenessVerdict.FREE)

    # --- the work
    async def _work(self) -> None:
        """Begin what is ready, whenever something came, and look around now and then."""
        looked_at = -_LOOK_S
        while True:
            now = self._runtime.clock.monotonic()
            if now - looked_at >= _LOOK_S:
                looked_at = now
                await self._look_around()
            await self._assess_stale()
            while not self._is_draining and (ready := self._queue.take()) is not None:
                self._begin(ready)
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await self._wake.wait()
            self._wake.clear()

    async def _look_around(self) -> None:
        """Find moments that have come, owners that have died, and runs that only wait."""
        now_us = self._runtime.clock.now_us()
        self._park_idle(self._grace_s)
        owned = [watch for watch in self._watches.values() if watch.owned]
        if owned:
            with suppress(SeekpointError):
                await self._runtime.heartbeater.look()
        for watch in owned:
            for process_id, owner in list(watch.owned.items()):
                if self._judged_free(owner):
                    del watch.owned[process_id]
                    watch.stale[process_id] = None
        for partition, watch in list(self._watches.items()):
            for process_id in watch.due(now_us):
                self._enqueue(process_id, watch.waiting[process_id].agent)
            if watch.error is not None:
                logger.error("partition %d is followed anew: %s", partition, watch.error)
                self._unwatch(partition)
                self._watch(partition)

    async def _assess_stale(self) -> None:
        """Recover the processes that something came for, and note what is to be done about them."""
        for watch in list(self._watches.values()):
            while watch.stale:
                some = [process_id for process_id, _ in zip(watch.stale, range(_ASSESS_AT_ONCE), strict=False)]
                for process_id in some:
                    del watch.stale[process_id]
                await asyncio.gather(*(self._assess(watch, process_id) for process_id in some))

    async def _assess(self, watch: PartitionWatch, process_id: str) -> None:
        waits = watch.waiting.get(process_id)
        if waits is not None and waits.agent in self.agents:
            self._enqueue(process_id, waits.agent, waits.priority)  # the open looks at what came
            return
        try:
            found = await self._runtime.recover(process_id, missing_ok=True)
        except Retryable as exc:
            logger.warning("%s cannot be assessed yet: %s", process_id, exc)
            self._runtime_later(partial(watch.stale.setdefault, process_id, None))
            return
        except SeekpointError as exc:
            logger.error("%s is left alone: %s", process_id, exc)
            return
        if process_id not in self._queue.running and self._watches.get(watch.partition) is watch:
            self._file(watch, process_id, found.state)

    def _runtime_later(self, call: Callable[[], object]) -> None:
        def later() -> None:
            call()
            self._wake.set()

        asyncio.get_running_loop().call_later(_AGAIN_S, later)

    # --- runs
    def _begin(self, ready: ReadyRun) -> None:
        watch = self._watches.get(self._partition(ready.process_id))
        if watch is None:
            self._queue.ended(ready.process_id)
            return
        watch.begin(ready.process_id)
        run = _RunHere(ready)
        run.task = asyncio.create_task(self._run(run), name=f"seekpoint-run-{ready.process_id}")
        self._runs[ready.process_id] = run

    async def _run(self, run: _RunHere) -> None:
        """Run one process, and note afterwards what is next for it."""
        process_id, again_s = run.ready.process_id, None
        try:
            again_s = await self._executed(run)
        finally:
            self._queue.ended(process_id)
            self._runs.pop(process_id, None)
            self._wake.set()
            self._over(run, again_s)

    async def _executed(self, run: _RunHere) -> float | None:
        """Run the agent. Return after how many seconds to look at the process again; None: its state tells."""
        process_id, agent = run.ready.process_id, self.agents[run.ready.agent]
        try:
            await self._run_agent(run, agent)
            self.finished += 1
        except _NotNowError as exc:
            run.state = exc.state
        except asyncio.CancelledError:
            if not run.is_parked and not self._is_draining:
                raise
        except (OwnerAlive, AlreadyOpen, ClaimLost, HandleLost):
            return 0.0  # somebody else has it: the owner stands in the log
        except Retryable as exc:
            logger.warning("%s stopped, and goes on soon: %s", process_id, exc)
            return _AGAIN_S
        except Cancelled:
            self.cancelled += 1
        except Exception as exc:
            if run.process is None:
                logger.error("%s was not run: %s", process_id, error_line(exc, self.node.settings))
                return _AGAIN_S
            logger.info("%s failed: %s", process_id, error_line(exc, self.node.settings))
            self.failed += 1
        return None

    async def _run_agent(self, run: _RunHere, agent: Agent) -> None:
        """Open the process, if it is to be run by now, and run ``agent`` with the submitted or the recorded input."""
        process_id = run.ready.process_id

        def check(state: State) -> None:
            if assess(state, self.agents, self._runtime.clock.now_us(), run.seen).next is not Next.RUN:
                raise _NotNowError(state)

        request = OpenRequest(
            process_id=process_id, cause=Cause(), refuse=check, must_exist=True,
            options=conduct_of(agent, ReplayMode.STRICT, Detail.FULL),
        )  # fmt: skip
        opening = opener_of(self.node).opening(request)
        await run_agent(self._runtime, opening, process_id, agent, RECORDED, on_open=run.opened)

    def _over(self, run: _RunHere, again_s: float | None) -> None:
        """Note what is next for a process that does not run here any more."""
        process_id = run.ready.process_id
        watch = self._watches.get(self._partition(process_id))
        if watch is None:
            return
        mail_at = watch.end(process_id)
        state = run.state if run.process is None else run.process.written
        if again_s is not None or state is None:
            self._runtime_later(partial(watch.stale.setdefault, process_id, None))
        elif mail_at > state.offset:
            watch.stale[process_id] = None
        else:
            self._file(watch, process_id, state, run.seen)

    # --- parking
    def _park_idle(self, grace_s: float) -> None:
        """Release the runs that only wait, and have for ``grace_s``."""
        now, now_us = self._runtime.clock.monotonic(), self._runtime.clock.now_us()
        for run in list(self._runs.values()):
            process = run.process
            if process is None or run.is_parked or not process.is_open:
                continue
            durable = durable_side(process)
            if durable.ahead_lifecycle is not Lifecycle.AWAITING:
                run.idle_since = None
                continue
            state = process.written
            if run.idle_since is None or run.idle_seq != state.seq:
                run.idle_since, run.idle_seq = now, state.seq
            if now - run.idle_since >= grace_s and self._only_waits(run, state, now_us):
                run.is_parked, run.seen = True, frozenset(state.mailbox)
                run.task.cancel()

    def _only_waits(self, run: _RunHere, state: State, now_us: int) -> bool:
        """Whether the state alone says when the process goes on. A receive with a limit is not in the state."""
        assert run.process is not None
        found = assess(state, self.agents, now_us, frozenset(state.mailbox))
        if found.next is Next.LEAVE:
            return state.is_on_hold
        due_us = durable_side(run.process).waiting.due_us
        return found.next is Next.WAIT and (due_us is None or found.due_us == due_us)


class _NotNowError(Exception):
    """The process is not to be run now, as its recovered state says."""

    def __init__(self, state: State) -> None:
        super().__init__("not now")
        self.state = state


class _RunHere:
    """One run under way in this worker."""

    task: asyncio.Task[None]

    def __init__(self, ready: ReadyRun) -> None:
        self.ready = ready
        self.process: Process | None = None
        self.state: State | None = None
        self.is_parked = False
        self.idle_since: float | None = None
        self.idle_seq = -1
        self.seen: frozenset[bytes] = frozenset()

    def opened(self, process: Process) -> None:
        """Note the process once it is open."""
        self.process = process


def _by_name(agents: Iterable[Agent]) -> dict[str, Agent]:
    found: dict[str, Agent] = {}
    for one in agents:
        check_is_agent(one)
        if one.name in found:
            raise InvalidSetting("two agents of a worker have one name", setting="agents", name=one.name)
        found[one.name] = one
    if not found:
        raise InvalidSetting("a worker needs at least one agent", setting="agents")
    return found


def _group_of(agents: Iterable[Agent]) -> str:
    """Name the group of the workers with these agents: workers that run the same can share the work."""
    text = "\0".join(sorted(f"{one.name} {one.version}" for one in agents))
    return blake2b(text.encode(), digest_size=6).hexdigest()


def _kafka_member(settings: Settings, group: str) -> InboxMember:
    from seekpoint.consumers.kafka.kafka_inbox import KafkaInbox  # a worker on a log in memory starts without

    return KafkaInbox(settings, group)
