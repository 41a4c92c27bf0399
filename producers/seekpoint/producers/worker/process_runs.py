"""The runs under way in a worker: each owns its process, and is released when it only waits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from contextvars import ContextVar

from seekpoint.producers.agent_run import RECORDED, mark_cut_off, move_up, run_opened
from seekpoint.producers.durable.replay.conduct import Detail, ReplayMode, conduct_of
from seekpoint.producers.durable.steps.agent import Agent
from seekpoint.producers.node_runtime import NodeRuntime
from seekpoint.producers.opening import Opener, OpenRequest
from seekpoint.producers.process import Process, durable_side
from seekpoint.producers.tail.partition_tail import PartitionTail
from seekpoint.producers.worker.assessment import Next, assess
from seekpoint.producers.worker.run_queue import ReadyRun
from seekpoint.producers.writer.pending import Cause
from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.error_texts import error_line
from seekpoint.schemas.errors import (
    AlreadyOpen,
    Cancelled,
    ClaimLost,
    EffectHeld,
    HandleLost,
    OwnerAlive,
    OwnersDied,
    ProcessSuspended,
    Retryable,
    SeekpointError,
)
from seekpoint.schemas.state.lifecycle import Lifecycle
from seekpoint.schemas.state.process_state import State

__all__ = ["ProcessRun", "ProcessRuns"]

logger = logging.getLogger("seekpoint.producers")
run_logger = logging.getLogger("seekpoint.runs")
"""Which runs begin: at the level INFO, which ``seekpoint worker`` shows."""
_running: ContextVar[ProcessRun | None] = ContextVar("seekpoint_running", default=None)
"""The run whose code runs: its tasks and threads inherit it."""

_AGAIN_S, _AGAIN_MAX_S = 1.0, 60.0
_STOPS_MAX = 8
"""After how many stops in a row a run fails: about two minutes."""
_OPENINGS_MAX = 32
"""How many processes are opened at once. After a crash the first of many runs goes on before the last one is open."""


class ProcessRun:
    """One run under way."""

    task: asyncio.Task[None]

    def __init__(self, ready: ReadyRun) -> None:
        self.ready = ready
        self.process: Process | None = None
        """The process once it is open."""
        self.found: State | None = None
        """The recovered state of a process that is not to be run now."""
        self.again_s: float | None = None
        """After how many seconds to look at the process again; None: its state tells."""
        self.pause_s: float | None = None
        """How many seconds to wait if its state asks for a run at once, since it ended with an error."""
        self.is_parked = False
        """Whether it is cancelled, to be released."""
        self.is_idle = False
        """Whether its code was known to wait when it was parked."""
        self.is_suspended = False
        self.idle_since_s: float | None = None
        self.idle_seq = -1
        self.idle_mail: frozenset[bytes] = frozenset()

    @property
    def state(self) -> State | None:
        """The newest state that is known of the process."""
        return self.found if self.process is None else self.process.written


class ProcessRuns:
    """The runs under way in one worker. ``on_over`` receives each run once its process is given up."""

    def __init__(
        self,
        runtime: NodeRuntime,
        opener: Opener,
        agents: Mapping[str, Agent],
        on_over: Callable[[ProcessRun], None],
    ) -> None:
        self._runtime = runtime
        self._opener = opener
        self._agents = agents
        self._on_over = on_over
        self.state_of: Callable[[str, PartitionTail], State | None] = _unknown
        """Returns the state of a process as of the tail's position, if it is known."""
        self._runs: dict[str, ProcessRun] = {}
        self._openings = asyncio.Semaphore(_OPENINGS_MAX)
        self._stopped_early: dict[str, int] = {}
        """How often in a row a process could not be run, although its state asks for it."""
        self._is_ending = False
        self._is_cut = False
        self.parked = 0
        """How many runs were parked here, since their owners had died again and again."""
        self.finished = self.failed = self.cancelled = 0
        """How many runs ended with a result, with an error of their code, and because somebody asked for it."""
        self.started = self.resumed = 0
        """How many runs began here for the first time, and how many that had begun before were continued here."""

    def __len__(self) -> int:
        return len(self._runs)

    # --- one run
    def begin(self, ready: ReadyRun) -> None:
        """Begin a run in a task of its own."""
        run = self._runs[ready.process_id] = ProcessRun(ready)
        run.task = asyncio.create_task(self._run(run), name=f"seekpoint-run-{ready.process_id}")

    async def _run(self, run: ProcessRun) -> None:
        process_id = run.ready.process_id
        try:
            await self._executed(run)
        finally:
            del self._runs[process_id]
            if run.pause_s is None and run.again_s is None:
                self._stopped_early.pop(process_id, None)
            self._on_over(run)

    async def _executed(self, run: ProcessRun) -> None:
        """Run the agent, and note in ``run`` how it ended."""
        process_id = run.ready.process_id
        try:
            await self._run_agent(run)
            self.finished += not run.is_suspended
        except _NotNowError as exc:
            run.found = exc.state
        except asyncio.CancelledError:
            if not run.is_parked and not self._is_ending:
                raise
        except (OwnerAlive, AlreadyOpen, ClaimLost, HandleLost) as exc:
            logger.info("%s runs elsewhere: %s", process_id, exc)
            run.again_s = 0.0
        except ProcessSuspended:  # since it was looked at
            logger.info("%s is suspended", process_id)
        except Cancelled:
            self.cancelled += 1
        except Exception as exc:
            self._note_error(run, exc)

    def _note_error(self, run: ProcessRun, error: Exception) -> None:
        """An error of the code is in the journal. Any other one lets the run go on later."""
        process_id, line = run.ready.process_id, error_line(error, self._runtime.settings)
        if run.process is not None and (not _is_outside(error) or run.process.written.lifecycle is Lifecycle.FAILED):
            logger.info("%s failed: %s", process_id, line)
            self.failed += 1
            if isinstance(error, OwnersDied):
                self.parked += 1
                logger.error("%s is parked: %s", process_id, line)
            if run.process.written.lifecycle is not Lifecycle.FAILED:  # the state of a failed run says when it is next
                run.pause_s = self._next_pause_s(process_id)
            return
        run.again_s = self._next_pause_s(process_id)
        logger.warning("%s stopped, and is looked at again in %.0f s: %s", process_id, run.again_s, line)

    def _next_pause_s(self, process_id: str) -> float:
        """Return how long to wait for the next run; each one that ends early in a row doubles it."""
        times = self._stopped_early.get(process_id, 0)
        self._stopped_early[process_id] = times + 1
        return min(_AGAIN_S * 2.0 ** min(times, 10), _AGAIN_MAX_S)

    async def _run_agent(self, run: ProcessRun) -> None:
        """Open the process, if it is to be run by now, and run its agent with the submitted or the recorded input."""
        process_id, agent = run.ready.process_id, self._agents[run.ready.agent]

        def check(state: State) -> None:
            now_us, ended = self._runtime.clock.now_us(), run.ready.ended
            if assess(state, self._agents, now_us, ended=ended).next is not Next.RUN:
                raise _NotNowError(state)

        request = OpenRequest(
            process_id=process_id, cause=Cause(), refuse=check, known=lambda tail: self.state_of(process_id, tail),
            options=conduct_of(agent, ReplayMode.STRICT, Detail.FULL),
        )  # fmt: skip
        async with AsyncExitStack() as stack:
            async with self._openings:
                process = await stack.enter_async_context(self._opener.opening(request))
            run.process = process
            _running.set(run)
            if run.is_suspended:  # while it was opened
                return
            if process.written.agent is None:
                self.started += 1
            else:
                self.resumed += 1
            # Said before the code runs: it may end the program without another word.
            if deaths := process.written.owner_deaths:
                logger.warning("run %s of agent %s goes on; owners that died: %d", process_id, agent.name, deaths)
            else:
                run_logger.info("run %s of agent %s begins here", process_id, agent.name)
            calls = len(process.written.calls)
            retry_failed = process.written.lifecycle is Lifecycle.FAILED or process.written.redrive is not None
            try:
                await run_opened(process, agent, RECORDED, retry_failed=retry_failed)
            except asyncio.CancelledError:
                await self._mark_cut_off(run, process)
                raise
            except Retryable as exc:
                self._count_stop(process, calls, exc)
                raise

    def _count_stop(self, process: Process, calls: int, error: Retryable) -> None:
        """Let a run fail that was stopped too often in a row by an error that may be tried again, without a new call.

        Its process could be opened each time, so the log is not what fails: trying for ever helps nobody.
        """
        if len(process.written.calls) > calls:
            self._stopped_early.pop(process.process_id, None)
        if self._stopped_early.get(process.process_id, 0) >= _STOPS_MAX - 1 and process.is_open and _is_outside(error):
            with suppress(SeekpointError):
                move_up(durable_side(process))  # it may not have begun: such a process cannot fail
                durable_side(process).send(b.LifecycleChanged(Lifecycle.FAILED))

    async def _mark_cut_off(self, run: ProcessRun, process: Process) -> None:
        """Write that the process is running if its code may have been cut off between two waits.

        The next owner runs it then. Before it, release its children: until then the end of one may be written.
        """
        durable, handle = durable_side(process), self._runtime.handles.get(process.process_id)
        if handle is None or not process.is_open:
            return
        was_idle, run.is_idle = run.is_idle, False
        try:
            await durable.release_children()
            run.is_idle = was_idle and not handle.pending and handle.acknowledged_seq == run.idle_seq
        finally:
            if not run.is_idle:
                await mark_cut_off(durable)

    def has_progressed(self, process_id: str) -> bool:
        """Whether a call of the process ended since its owners died."""
        run = self._runs.get(process_id)
        return run is not None and run.process is not None and not run.process.written.owner_deaths

    def fail_exited(self, error: BaseException) -> None:
        """Fail the run of the task that ``error`` left, an exit which ended the event loop until now."""
        run, name = run_of(error), type(error).__name__
        if run is None or run.process is None:
            logger.error("a task raised %s, and the worker goes on", name)
            return
        logger.error("a task of the run %s raised %s, and the run fails", run.ready.process_id, name)
        durable_side(run.process).fail(error)

    # --- parking
    def park_idle(self, grace_s: float) -> None:
        """Release the runs that only wait, and have for ``grace_s``: their code is cancelled as in a crash.

        A run that has not waited for a while may be about to go on: it is released as ``running``, so that the next
        worker runs it once.
        """
        for run in list(self._runs.values()):
            process = run.process
            if process is None or run.is_parked or not process.is_open:
                continue
            if durable_side(process).ahead_lifecycle is not Lifecycle.AWAITING:
                run.idle_since_s = None
            elif self._is_idle(run, process.written, grace_s):
                run.is_idle = grace_s > 0
                self._park(run, process.written)

    def stop(self, process_id: str) -> None:
        """Release a run whose process was suspended. One that is not open yet is released when it is."""
        run = self._runs.get(process_id)
        if run is not None:
            run.is_suspended = True
            if run.process is not None and not run.is_parked:
                self._park(run, run.process.written)

    @staticmethod
    def _park(run: ProcessRun, state: State) -> None:
        run.is_parked = True
        if run.process is not None:
            durable_side(run.process).mail_seen = frozenset(state.mailbox)
        run.task.cancel()

    def _is_idle(self, run: ProcessRun, state: State, grace_s: float) -> bool:
        """Whether the code has only waited for ``grace_s``, and the state alone says when it goes on."""
        assert run.process is not None
        now_s, handle = self._runtime.clock.monotonic(), self._runtime.handles.get(run.ready.process_id)
        if handle is None or handle.pending:  # an entry that changes what it waits for may be on its way
            run.idle_since_s = None
            return False
        mail = frozenset(state.mailbox)  # what has just come is still on its way to the code
        if run.idle_since_s is None or (run.idle_seq, run.idle_mail) != (state.seq, mail):
            run.idle_since_s, run.idle_seq, run.idle_mail = now_s, state.seq, mail
        if now_s - run.idle_since_s < grace_s:
            return False
        found = assess(state, self._agents, self._runtime.clock.now_us(), is_idle=True)
        waiting = durable_side(run.process).waiting
        if waiting.elsewhere and grace_s:
            return False
        # Also the moment of a receive with a limit counts, which no entry has.
        return found.next is Next.WAIT and waiting.due_us in (None, found.due_us)

    # --- the end
    def end_drain(self) -> None:
        """Let ``drain`` wait no longer."""
        self._is_cut = True

    async def drain(self, drain_s: float, look_s: float) -> None:
        """Wait for the runs at most ``drain_s``; release those that only wait at once, and the others then."""
        clock = self._runtime.clock
        deadline = clock.monotonic() + drain_s
        self._is_ending = True
        try:
            while self._runs and clock.monotonic() < deadline and not self._is_cut:
                self.park_idle(0.0)
                await asyncio.wait([run.task for run in self._runs.values()], timeout=min(look_s, drain_s))
        finally:  # also if the drain is cancelled
            tasks = [run.task for run in self._runs.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _is_outside(error: BaseException) -> bool:
    """Whether the run was stopped by what may be over soon, and did not fail."""
    return isinstance(error, Retryable) and not isinstance(error, EffectHeld)


class _NotNowError(Exception):
    """The process is not to be run now, as its recovered state says."""

    def __init__(self, state: State) -> None:
        super().__init__("not now")
        self.state = state


def run_of(error: BaseException) -> ProcessRun | None:
    """Return the run in whose task or callback ``error`` was raised; None if the event loop does not tell it."""
    trace = error.__traceback__
    while trace is not None:
        handle = trace.tb_frame.f_locals.get("self")
        if isinstance(handle, asyncio.Handle):
            context = getattr(handle, "_context", None)
            return None if context is None else context.get(_running)
        trace = trace.tb_next
    return None


def _unknown(process_id: str, tail: PartitionTail) -> State | None:
    return None
