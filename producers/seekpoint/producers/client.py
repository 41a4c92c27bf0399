"""A client: it submits runs, tells processes something and waits for results. It owns nothing and has no heartbeat.

async with Client.connect() as client:
    run = await client.submit("refund", "case-17", {"order": "4711"})
    print(await run.result(timeout=30))
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar, overload
from weakref import finalize

from seekpoint.consumers import Recovered, Recovery
from seekpoint.consumers.view.process_summary import waits_of
from seekpoint.producers.attachment_reads import AttachmentReads
from seekpoint.producers.client_runtime import ClientRuntime
from seekpoint.producers.durable.steps.agent import Agent, Input, Output, OutputT
from seekpoint.producers.durable.steps.cron_schedules import firing_id, moment_text
from seekpoint.producers.durable.waits.shared_values import check_ownable
from seekpoint.producers.durable.waits.timer_calls import microseconds
from seekpoint.producers.node_calls.control_calls import ControlCalls
from seekpoint.producers.runs.failed_runs import FailedRun, failed_runs
from seekpoint.producers.runs.late_results import hidden_submission, late_error
from seekpoint.producers.runs.requested_run import RequestedRun, result_rebuilder
from seekpoint.producers.runs.run_follower import RunFollower
from seekpoint.producers.runs.run_outcomes import is_over, run_result
from seekpoint.producers.runs.schedule_table import (
    TABLE_NAME,
    ScheduleStatus,
    ScheduleTable,
    change_table,
    schedule_statuses,
)
from seekpoint.producers.runs.submission_sender import check_submission, send_submission
from seekpoint.schemas.bodies.entry import new_id
from seekpoint.schemas.config.settings import Settings, local_settings
from seekpoint.schemas.errors import (
    JournalUnavailable,
    Refused,
    Retryable,
    SeekpointError,
)
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.log.log_ports import LogReader, LogWriter
from seekpoint.schemas.log.submissions import SubmissionRecord
from seekpoint.schemas.state.process_state import State
from seekpoint.schemas.values.clock import now_us
from seekpoint.schemas.values.process_ids import named_process_key

if TYPE_CHECKING:
    from typing import Unpack

    from seekpoint.schemas.log.memory_log import MemoryLog

__all__ = ["Client", "RunStatus", "SubmittedRun"]

logger = logging.getLogger("seekpoint.producers")

T = TypeVar("T")


class SubmitOptions(TypedDict, total=False):
    """The options of ``Client.submit``."""

    priority: int
    start_at: datetime | None
    delay: float | timedelta | None
    actor: str | None
    correlation_id: str | None


class RunStatus(FrozenStruct, frozen=True, kw_only=True):
    """The progress of a run."""

    process_id: str
    stage: str
    """``unknown``, ``submitted``, a lifecycle, ``suspended``, ``degraded`` or ``finished``."""
    agent: str | None = None
    node: str | None = None
    """The node that owns the process now; None if nobody does."""
    waits_for: tuple[str, ...] = ()
    """What it waits for: the keys of its timers, gates, children and effects in doubt; ``signal NAME`` (``receive``),
    ``start`` or ``retry``."""
    failure: str | None = None
    """The newest exception that left its code: class and message."""


class SubmittedRun(Generic[OutputT]):
    """A run that was submitted: ``await run.result()``.

    While you hold it and the run is not over, the client follows the partition of the run.
    """

    def __init__(self, client: Client, process_id: str, requested: RequestedRun, follower: RunFollower | None) -> None:
        self.id = process_id
        """The id of its process."""
        self._client = client
        self._requested = requested
        self._follower = follower
        if follower is not None:
            finalize(self, follower.release).atexit = False

    async def result(self, timeout: float | None = None) -> OutputT:
        """Return the result once there is one; see ``Client.result``. ``AgentMismatch``: another submission was first.

        ``timeout`` is in seconds.
        """
        state = None if self._follower is None else self._follower.finished
        if state is None:
            state = await self._client._ended(self.id, timeout)
        self._requested.refuse_other(self.id, state)
        result: OutputT = run_result(self.id, state, self._requested.rebuilt_result)
        return result

    async def status(self) -> RunStatus:
        """Return where the run stands."""
        return await self._client.status(self.id)

    async def cancel(self, reason: str | None = None, *, actor: str | None = None) -> bytes:
        """Ask the run to stop; see ``Client.cancel``."""
        return await self._client.cancel(self.id, reason, actor=actor)


class Client(ControlCalls, AttachmentReads):
    """Submits runs and waits for their results: ``async with Client.connect(settings) as client``.

    For programs that do not run agents. It makes no claim and no heartbeat. Besides the calls below it has those of a
    node that tell processes something: ``signal``, ``approve``, ``deny``, ``cancel``, ``suspend``, ``resume``.
    """

    def __init__(
        self, reader: LogReader, writer: LogWriter, inbox_writer: LogWriter, settings: Settings,
        recovery: Recovery | None = None,
    ) -> None:  # fmt: skip
        recovery = recovery or Recovery(reader, settings)
        self._runtime = ClientRuntime(reader, writer, inbox_writer, settings, recovery)
        super().__init__(self._runtime)

    @classmethod
    def connect(cls, settings: Settings | None = None, **overrides: Any) -> Client:
        """Return a client of the journal of ``settings``, by default from the environment and ``seekpoint.toml``."""
        from seekpoint.producers.journal_access import JournalAccess, inbox_writer

        settings = settings or Settings.load(**overrides)
        access = JournalAccess.of(settings)
        recovery = Recovery.over(access.reader, settings, is_starting=True)
        return cls(access.reader, access.writer, inbox_writer(settings, access.reader), settings, recovery)

    @classmethod
    def local(cls, path: str | PathLike[str], **settings: Any) -> Client:
        """Return a client of an embedded log, a journal in one file; see ``Node.local``."""
        return cls.connect(local_settings(path, settings))

    @classmethod
    def in_memory(cls, log: MemoryLog, **settings: Any) -> Client:
        """Return a client on a log in memory, for tutorials and tests."""
        return cls(log, log, log.topic("inbox"), Settings(**{"redis_url": None, **settings}))

    @property
    def settings(self) -> Settings:
        """The settings that the client was made with."""
        return self._runtime.settings

    # --- life
    async def start(self) -> Client:
        """Verify the journal. Raises ``JournalMismatch`` or ``JournalUnavailable``; idempotent."""
        await self._runtime.start()
        return self

    async def close(self) -> None:
        """Close all connections. Idempotent."""
        await self._runtime.close()

    async def __aenter__(self) -> Client:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __await__(self) -> Generator[Any, None, Client]:
        return self.start().__await__()

    # --- runs
    @overload
    async def submit(
        self, agent: Agent[Input, Output], process_id: str, input: Input, **how: Unpack[SubmitOptions]
    ) -> SubmittedRun[Output]: ...
    @overload
    async def submit(
        self, agent: Agent[None, Output], process_id: str, **how: Unpack[SubmitOptions]
    ) -> SubmittedRun[Output]: ...
    @overload
    async def submit(
        self, agent: str, process_id: str, input: Any = None, **how: Unpack[SubmitOptions]
    ) -> SubmittedRun[Any]: ...
    async def submit(
        self,
        agent: Agent | str,
        process_id: str,
        input: Any = None,  # the name that users expect
        *,
        priority: int = 0,
        start_at: datetime | None = None,
        delay: float | timedelta | None = None,
        actor: str | None = None,
        correlation_id: str | None = None,
    ) -> SubmittedRun:
        """Submit a run of ``agent`` as the process; return once the submission is in the log.

        A worker that has code for the agent begins it: the runs of the highest ``priority`` first, and not before
        ``start_at`` (a datetime with a time zone) or ``delay`` (seconds, or a timedelta). The same id with the same
        agent and input is the same run, however often it is submitted. The input is checked against the annotation of
        ``agent``, if that is an agent and not a name. ``AgentMismatch`` if the id is that of another
        agent or input; of two that are submitted at the same moment the first in the log counts, and the other one
        learns of it by ``result``. Raises ``InvalidName``, ``UnserializableValue``, ``InvalidValue``,
        ``LimitExceeded``, ``Refused``, ``AppendTimeout``.
        """
        name = _name_of(agent)
        named_process_key(process_id)
        check_ownable(process_id)
        await self.start()
        limits, code = self._runtime.reader.limits, agent if isinstance(agent, Agent) else None
        requested = RequestedRun(name, code, process_id, input, limits)
        submission = SubmissionRecord(
            id=new_id(), process_id=process_id, agent=name, input=requested.text, priority=priority,
            start_at_us=_start_us(start_at, delay), actor=actor, correlation_id=correlation_id, ts=now_us(),
        )  # fmt: skip
        check_submission(submission, self._runtime.reader)
        if await self._is_submitted(process_id, requested):
            return SubmittedRun(self, process_id, requested, None)
        run: SubmittedRun = SubmittedRun(self, process_id, requested, RunFollower(self._runtime.processes, process_id))
        await send_submission(submission, self._runtime.reader, self._runtime.inbox, self._runtime.tracer)
        return run

    async def _is_submitted(self, process_id: str, requested: RequestedRun) -> bool:
        """Return whether the journal is known to have the run already. Raises ``AgentMismatch`` if it has another one.

        An end that Kafka does not tell is healed by an append, so a submission is sent all the same: twice it is one.
        """
        try:
            state = (await self._runtime.recover(process_id, missing_ok=True)).state
        except JournalUnavailable as exc:
            logger.warning("%s: it is not known whether the run exists, submitting it: %s", process_id, exc)
            return False
        requested.refuse_other(process_id, state)
        return state.run_identity is not None

    @overload
    async def result(self, process_id: str, timeout: float | None = None) -> Any: ...
    @overload
    async def result(self, process_id: str, timeout: float | None = None, *, type: type[T] | Agent[Any, T]) -> T: ...
    @overload
    async def result(self, process_id: str, timeout: float | None = None, *, type: Any) -> Any: ...
    async def result(self, process_id: str, timeout: float | None = None, *, type: Any = None) -> Any:
        """Return the result of the process once it is finished; wait at most ``timeout`` seconds.

        It is rebuilt as a ``type``, or as the agent that is given as ``type`` returns it. Follows the log, and needs no
        Redis. A process that does not exist yet is waited for. Raises ``RecordedValueInvalid`` for a result that does
        not fit. Raises ``RunFailed`` once
        the run failed and is not tried again by itself, ``Cancelled`` once it was cancelled, and ``ResultTimeout``.
        """
        rebuilt = result_rebuilder(type, process_id)  # raises before it waits
        return run_result(process_id, await self._ended(process_id, timeout), rebuilt)

    async def _ended(self, process_id: str, timeout: float | None) -> State:
        """Return the state of the process once its run is over."""
        named_process_key(process_id)
        changed = asyncio.Event()
        followed = self._runtime.processes.begin(process_id, changed.set)
        try:
            async with asyncio.timeout(timeout):
                while True:
                    changed.clear()
                    now = followed.peek()
                    if now is not None and is_over(now):
                        return now.snapshot()
                    await changed.wait()
        except TimeoutError as exc:
            state = followed.state()
            if state is None:  # the time was too short even for one look
                with suppress(Retryable):
                    state = (await self._runtime.recover(process_id, missing_ok=True)).state
            if state is not None and is_over(state):
                return state
            stage = "unknown" if state is None else _stage(state)
            hidden = None
            if stage == "unknown":
                with suppress(SeekpointError):
                    hidden = await self._runtime.in_thread(lambda: hidden_submission(self._runtime.reader, process_id))
            raise late_error(process_id, timeout, stage, hidden) from exc
        finally:
            self._runtime.processes.end(followed, changed.set)

    async def status(self, process_id: str) -> RunStatus:
        """Return where the run of a process stands, as of now. One that does not exist yet is ``unknown``."""
        state = (await self._runtime.recover(process_id, missing_ok=True)).state
        identity = state.run_identity
        failure = None if state.failure is None else f"{state.failure.type}: {state.failure.message}"
        return RunStatus(
            process_id=process_id, stage=_stage(state), agent=None if identity is None else identity[0],
            node=state.owner_node, waits_for=tuple(wait.name for wait in waits_of(state)),
            failure=failure,
        )  # fmt: skip

    async def redrive_failed(
        self, agent: Agent | str | None = None, *, since: datetime | timedelta | None = None,
        reason: str | None = None, in_doubt: bool = False, actor: str | None = None, dry_run: bool = False,
    ) -> list[FailedRun]:  # fmt: skip
        """Ask for another attempt of all failed runs (of an agent, with an entry since then), as ``redrive`` does.

        Returns those runs once the requests are in the log; with ``dry_run`` it only returns them. ``since`` is a
        datetime with a time zone, or so long ago. The view tells which runs failed, without a view the log.
        """
        await self.start()
        since_us = None if since is None else _since_us(since)
        name, recoverer = None if agent is None else _name_of(agent), self._runtime.recovery.blocking
        found: list[FailedRun] = await self._runtime.in_thread(
            lambda: list(failed_runs(recoverer, name, since_us, _log_no_view))
        )
        if not dry_run:
            for one in found:
                with suppress(Refused):  # its run goes on since it was listed
                    await self.redrive(one.process_id, reason, in_doubt=in_doubt, actor=actor)
        return found

    # --- schedules
    async def schedules(self) -> list[ScheduleStatus]:
        """Return the schedules of the journal. One is known once a worker has had it."""
        table = ScheduleTable.of((await self._runtime.shared(TABLE_NAME).get()).value)
        return schedule_statuses(table)

    async def pause_schedule(self, agent: Agent | str, *, actor: str | None = None) -> None:
        """Let no run be submitted by the agent's schedule before ``resume_schedule``. Raises ``Refused``."""
        await self._change_table(lambda table: table.with_paused(_name_of(agent), actor or ""), actor)

    async def resume_schedule(self, agent: Agent | str, *, actor: str | None = None) -> None:
        """Let the agent's schedule go on from now: the firings of the pause are left out. Raises ``Refused``."""
        now = datetime.now(UTC).replace(microsecond=0)
        await self._change_table(lambda table: table.with_resumed(_name_of(agent), now), actor)

    async def trigger_schedule(self, agent: Agent | str, *, actor: str | None = None) -> SubmittedRun:
        """Submit a run as the agent's schedule would if it fired now, paused or not. Raises ``Refused``."""
        name, now = _name_of(agent), datetime.now(UTC)
        ScheduleTable.of((await self._runtime.shared(TABLE_NAME).get()).value).check(name)
        return await self.submit(name, firing_id(name, now), moment_text(now), actor=actor)

    async def _change_table(self, change: Callable[[ScheduleTable], ScheduleTable], actor: str | None) -> None:
        await self.start()
        await change_table(self._runtime.shared(TABLE_NAME), change, actor)

    async def recover(self, process_id: str, *, missing_ok: bool = False) -> Recovered:
        """Return the state of a process, read only; see ``Recovery.recover``."""
        return await self._runtime.recover(process_id, missing_ok=missing_ok)

    async def state(self, process_id: str) -> State:
        """Return the state of a process, as of now. Raises ``UnknownProcess``."""
        return (await self._runtime.recover(process_id)).state


def _since_us(since: datetime | timedelta) -> int:
    if isinstance(since, timedelta):
        return now_us() - microseconds(since, "since=")
    if since.utcoffset() is None:
        raise Refused("since= needs a datetime with a time zone", hint="datetime(..., tzinfo=timezone.utc)")
    return int(since.timestamp() * 1_000_000)


def _log_no_view(why: str) -> None:
    logger.info("failed runs are read from checkpoints and the log: %s", why)


def _name_of(agent: Agent | str) -> str:
    return agent.name if isinstance(agent, Agent) else agent


def _start_us(start_at: datetime | None, delay: float | timedelta | None) -> int | None:
    if start_at is not None and delay is not None:
        raise Refused("a run has a moment to start at or a delay, not both", hint="give start_at= or delay=")
    if delay is not None:
        return now_us() + microseconds(delay, "delay=")
    if start_at is None:
        return None
    if start_at.utcoffset() is None:
        raise Refused("start_at= needs a datetime with a time zone", hint="datetime(..., tzinfo=timezone.utc)")
    return int(start_at.timestamp() * 1_000_000)


def _stage(state: State) -> str:
    """Say in one word where a process stands."""
    if state.finished:
        return "finished"
    if state.degraded is not None:
        return "degraded"
    if state.is_on_hold and not is_over(state):
        return "suspended"
    if state.agent is None and state.submission is not None and not is_over(state):
        return "submitted"
    return str(state.lifecycle) if state.epoch else "unknown"
