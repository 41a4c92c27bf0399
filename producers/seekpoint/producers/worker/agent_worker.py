"""A worker: it runs what is submitted in the partitions assigned to it, and goes on with what stopped there.

    inbox ── submission ──> Submitted entry ──> ready ──> claim and run ──> finished, failed
    journal's tail ── mail, release, dead owner, due timer ──> recover ──> assess ──> ready

Assigned is not owned: the group's assignment says who looks after a process, and only a claim in the log says who owns
it. A run that waits leaves memory: its code is cancelled as in a crash, and the process is released.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from functools import partial
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any

from seekpoint.consumers.heartbeats.liveness import WorkerStatus
from seekpoint.producers import journal_access
from seekpoint.producers.durable.steps.agent import Agent
from seekpoint.producers.node import Node, opener_of, runtime_of
from seekpoint.producers.runs.schedule_table import TABLE_NAME
from seekpoint.producers.runs.submission_sender import send_submission
from seekpoint.producers.worker.process_runs import ProcessRun, ProcessRuns
from seekpoint.producers.worker.responsibility import Responsibility
from seekpoint.producers.worker.run_queue import RunQueue
from seekpoint.producers.worker.scheduler import Scheduler
from seekpoint.producers.worker.submission_intake import SubmissionIntake
from seekpoint.producers.worker.submitted_children import SubmittedChildren
from seekpoint.producers.worker.worker_agents import agents_by_name, group_of
from seekpoint.producers.worker.worker_progress import WorkerProgress
from seekpoint.producers.writer.outbox import Outbox
from seekpoint.schemas.config.error_texts import traceback_of
from seekpoint.schemas.config.settings import Settings, local_settings
from seekpoint.schemas.errors import SeekpointError

if TYPE_CHECKING:
    from seekpoint.consumers.recovery.tiers import Tier
    from seekpoint.producers.writer.clocks import Clock
    from seekpoint.producers.writer.node_metrics import NodeMetrics
    from seekpoint.schemas.log.inbox_ports import InboxMember
    from seekpoint.schemas.log.log_ports import LogWriter
    from seekpoint.schemas.log.memory_log import MemoryLog
    from seekpoint.schemas.log.submissions import SubmissionRecord

logger = logging.getLogger("seekpoint.producers")

_GRACE_MIN_S = 0.01
"""A run that has waited for a moment is known to wait. Without that, its next owner would run it at once."""
_LOOK_S = 0.5
"""How often a worker looks at due moments, at runs that wait, and at the owners of processes that others run."""
_LOOK_AT_TAILS_S = 5.0


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
        inbox_writer: LogWriter | None = None,
    ) -> None:
        self.agents = agents_by_name(agents)
        """The agents that this worker runs, by name."""
        self.group = group or group_of(self.agents.values())
        """The name of the group of workers that share the partitions."""
        self.node = node or _own_node(settings)
        """The node that owns the processes of this worker."""
        self._runtime = runtime_of(self.node)
        self._runtime.tailer.expect_steady()  # the group rarely moves partitions
        self._member = member
        writer = inbox_writer or journal_access.inbox_writer(self.node.settings, self._runtime.reader)
        self._inbox = Outbox.without_handles(writer, self.node.settings)
        schedules = {name: one.schedule for name, one in self.agents.items() if one.schedule is not None}
        self._scheduler = Scheduler(schedules, self._runtime.shared(TABLE_NAME), self._send, self._runtime.clock.now_us)
        self._runtime.child_runs = SubmittedChildren(self._runtime, self._inbox, self.agents.keys())
        self._grace_s, self._drain_s = max(grace_s, _GRACE_MIN_S), drain_s
        self._wake = asyncio.Event()
        rates = {name: one.rate for name, one in self.agents.items() if one.rate is not None}
        self._queue = RunQueue(runs_max, concurrency, rates)
        self._runs = ProcessRuns(self._runtime, opener_of(self.node), self.agents, self._over)
        self._duty = Responsibility(
            self._runtime, self.agents, self._queue, self.group, self._wake.set, self._runs.stop
        )
        self._runs.state_of = self._duty.state_of
        self._tasks: list[asyncio.Task[None]] = []
        self._intake: SubmissionIntake | None = None
        self._is_draining = False
        self._closing: asyncio.Task[None] | None = None
        self.failure: Exception | None = None
        """The error that stopped the worker; None while it works."""

    @classmethod
    def local(cls, agents: Iterable[Agent], path: str | PathLike[str], **options: Any) -> Worker:
        """Return a worker on an embedded log, a journal in one file; see ``Node.local``. ``options`` as above."""
        return cls(agents, local_settings(path, {}), **options)

    @classmethod
    def in_memory(
        cls,
        agents: Iterable[Agent],
        log: MemoryLog,
        *,
        clock: Clock | None = None,
        group: str = "workers",
        **options: Any,
    ) -> Worker:
        """Return a worker on a log in memory, for tutorials and tests. Workers of one ``group`` share the work."""
        from seekpoint.schemas.log.memory_inbox import MemoryGroup

        member = MemoryGroup.of(log, group).join()
        node, inbox = Node.in_memory(log, clock=clock), log.topic("inbox")
        return cls(agents, node=node, member=member, inbox_writer=inbox, group=group, **options)

    # --- looking
    @property
    def assigned(self) -> frozenset[int]:
        """The partitions that the group has assigned to this worker."""
        return self._duty.assigned

    @property
    def running(self) -> Collection[str]:
        """The processes that run in this worker."""
        return self._queue.running.keys()

    @property
    def ready(self) -> Collection[str]:
        """The processes that wait for room in this worker."""
        return self._queue.ready

    @property
    def waiting(self) -> Collection[str]:
        """The processes that this worker looks after, and that wait for a moment or for mail."""
        return [one for watch in self._duty.watches for one in watch.waiting]

    @property
    def left(self) -> dict[str, str]:
        """The processes that this worker leaves alone, with the reasons."""
        return {one: found.reason for watch in self._duty.watches for one, found in watch.left.items()}

    @property
    def started(self) -> int:
        """The number of runs that began here for the first time."""
        return self._runs.started

    @property
    def resumed(self) -> int:
        """The number of runs that had begun before, here or elsewhere, and went on here."""
        return self._runs.resumed

    @property
    def finished(self) -> int:
        """The number of runs that ended here with a result."""
        return self._runs.finished

    @property
    def failed(self) -> int:
        """The number of runs that ended here with an error of their code."""
        return self._runs.failed

    @property
    def cancelled(self) -> int:
        """The number of runs that ended here because somebody asked for it."""
        return self._runs.cancelled

    @property
    def parked(self) -> int:
        """The number of runs that were parked here, since their owners had died again and again."""
        return self._runs.parked

    @property
    def polls(self) -> int:
        """The number of times that the worker read the inbox. A worker whose number stands still does not work."""
        return 0 if self._intake is None else self._intake.polls

    def status(self) -> WorkerStatus:
        """Return what the node's heartbeat says of this worker."""
        return WorkerStatus(
            group=self.group, agents=tuple(sorted(self.agents)),
            pinned={name: one.definition for name, one in sorted(self.agents.items()) if one.pinned},
            partitions=tuple(sorted(self.assigned)), running=len(self.running), ready=len(self.ready),
            waiting=sum(len(watch.waiting) for watch in self._duty.watches), draining=self._is_draining,
        )  # fmt: skip

    @property
    def metrics(self) -> NodeMetrics:
        """The times and counts of the worker's node."""
        return self._runtime.metrics

    @property
    def recoveries(self) -> Mapping[Tier, int]:
        """The number of states that were recovered here, by tier."""
        return self._runtime.recovery.blocking.recoveries.now()

    @property
    def queue_age_s(self) -> float:
        """The seconds that the oldest ready process has waited for room. Any thread may ask; looks at each of them."""
        oldest_s = self._queue.oldest_s
        return 0.0 if oldest_s is None else self._runtime.clock.monotonic() - oldest_s

    def progress(self) -> WorkerProgress:
        """Return what shows whether the worker makes progress. Call it from the worker's event loop."""
        intake, tailer = self._intake, self._runtime.tailer
        return WorkerProgress(
            inbox_rounds=0 if intake is None else intake.rounds,
            is_writing=intake is not None and intake.is_writing,
            tail_rounds=tailer.rounds,
            tail_is_idle=tailer.is_idle,
            tail_lag=self._duty.tail_lag,
            tail_stalled_s=self._duty.tail_stalled_s,
            is_joined=intake is not None and intake.is_joined,
            is_caught_up=self._duty.is_caught_up,
            is_draining=self._is_draining,
            submissions=0 if intake is None else intake.taken,
        )

    # --- life
    async def start(self) -> Worker:
        """Connect, join the group and begin to work."""
        self._runtime.heartbeater.worker = self.status
        await self.node.start()
        try:
            member = self._member or await self._runtime.in_thread(
                partial(journal_access.group_member, self.node.settings, self._runtime.reader, self.group)
            )
        except BaseException:
            await self.node.close()
            raise
        self._inbox.start()
        self._intake = SubmissionIntake(self._runtime, member, self._duty.assign, self.group)
        self._tasks = [
            asyncio.create_task(self._part(self._intake.run), name="seekpoint-inbox"),
            asyncio.create_task(self._part(self._work), name="seekpoint-worker"),
            asyncio.create_task(self._part(self._look_at_owners), name="seekpoint-owners"),
            asyncio.create_task(self._part(self._look_at_tails), name="seekpoint-tails"),
        ]
        if self._scheduler.schedules:
            self._tasks.append(asyncio.create_task(self._part(self._fire_schedules), name="seekpoint-schedules"))
        return self

    async def run(self, stop: asyncio.Event | None = None) -> None:
        """Work until ``stop`` is set, then drain. Raises the error that stopped the worker, if one did."""
        async with self:
            stopped = asyncio.ensure_future((stop or asyncio.Event()).wait())
            try:
                await asyncio.wait([stopped, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
            finally:
                stopped.cancel()

    async def __aenter__(self) -> Worker:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
        if self.failure is not None and error is None:
            raise self.failure

    def fail_exited(self, error: BaseException) -> None:
        """Fail the run one of whose tasks ended the event loop by ``error`` (``SystemExit``), once it runs again."""
        self._runs.fail_exited(error)

    def end_drain(self) -> None:
        """Release the runs that are under way, instead of waiting for them until ``drain_s`` is over."""
        self._drain_s = 0.0
        self._runs.end_drain()

    async def close(self) -> None:
        """Leave the group, drain and close the node. Runs that are not over after ``drain_s`` are released.

        Idempotent: a second call waits for the first one, and does nothing after it. A call that is cancelled releases
        the runs at once, and ends once the worker is closed.
        """
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(), name="seekpoint-worker-close")
        elif self._closing.done():
            return
        try:
            await self._closing
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if caller is None or caller.cancelling():
                raise  # else another call was cancelled, and the worker is closed all the same

    async def _close(self) -> None:
        self._is_draining = True
        self._runtime.heartbeater.publish_soon()
        for task in self._tasks:
            task.cancel()
        async with AsyncExitStack() as last_first:
            last_first.push_async_callback(self.node.close)
            last_first.push_async_callback(self._inbox.close)
            last_first.callback(self._duty.close)
            last_first.push_async_callback(lambda: self._runs.drain(self._drain_s, _LOOK_S))
            last_first.callback(self._duty.leave)
            try:
                await asyncio.gather(*self._tasks, return_exceptions=True)
                if self._intake is not None:  # first: others take the partitions over, with what is submitted meanwhile
                    await self._intake.close()
            except asyncio.CancelledError:
                self.end_drain()
                raise

    async def _part(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a part of the worker. An error that ends it ends the worker."""
        try:
            await work()
        except SeekpointError as exc:
            logger.error("the worker stops: %s", exc)
            self.failure = exc
        except Exception as exc:
            logger.error("the worker failed: %s", traceback_of(exc, self.node.settings))
            self.failure = exc

    # --- the work
    async def _work(self) -> None:
        """Begin what is ready whenever something came, and look around now and then."""
        clock, looked_at_s = self._runtime.clock, float("-inf")
        while True:
            if clock.monotonic() - looked_at_s >= _LOOK_S:
                looked_at_s = clock.monotonic()
                self._runs.park_idle(self._grace_s)
                self._duty.look_at_moments()
            await self._duty.assess_stale()
            self._duty.follow_children()
            if self._queue.last_try is not None and self._runs.has_progressed(self._queue.last_try):
                self._queue.last_try = None
            self._begin_ready()
            with suppress(TimeoutError):
                async with asyncio.timeout(min(_LOOK_S, self._queue.wait_s(clock.monotonic()) or _LOOK_S)):
                    await self._wake.wait()
            self._wake.clear()

    async def _look_at_owners(self) -> None:
        """Look at other nodes' heartbeats, in a task of its own: a Redis that hangs must not delay runs."""
        while True:
            await self._duty.look_at_owners()
            await asyncio.sleep(_LOOK_S)

    async def _look_at_tails(self) -> None:
        while True:
            await self._duty.look_at_tails()
            if self._intake is not None:
                await self._intake.look_for_transactions()
            await asyncio.sleep(_LOOK_AT_TAILS_S)

    async def _fire_schedules(self) -> None:
        """Submit scheduled runs while this worker looks after the first partition: one worker of the group does."""
        while True:
            if self._duty.looks_after(0):
                await self._scheduler.look()
            else:
                self._scheduler.forget()
            await asyncio.sleep(_LOOK_S)

    async def _send(self, submission: SubmissionRecord) -> None:
        await send_submission(submission, self._runtime.reader, self._inbox, self._runtime.tracer)

    def _begin_ready(self) -> None:
        while (ready := self._queue.take(self._runtime.clock.monotonic())) is not None:
            if self._duty.begin(ready.process_id):
                self._runs.begin(ready)
            else:
                self._queue.ended(ready.process_id)

    def _over(self, run: ProcessRun) -> None:
        self._queue.ended(run.ready.process_id)
        self._duty.over(run)
        self._wake.set()


def _own_node(settings: Settings | None) -> Node:
    """Return the node of a worker. On an embedded log it also keeps the view, as no other program does."""
    settings = settings or Settings.load()
    return Node.connect(settings, projector=settings.journal_url is not None)
