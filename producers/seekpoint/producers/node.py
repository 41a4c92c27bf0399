"""A node: one member of the fleet. It opens processes, writes for all of them, and publishes heartbeats."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Generator
from concurrent.futures import Executor
from datetime import datetime
from functools import partial
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, overload

from seekpoint.consumers.projector.heap import spare_collections
from seekpoint.consumers.recovery.recovery import Recovery
from seekpoint.producers.agent_run import RECORDED, Recorded, refuse_mismatch, run_agent
from seekpoint.producers.attachment_reads import AttachmentReads
from seekpoint.producers.durable.replay.conduct import Detail, ReplayMode, conduct_of
from seekpoint.producers.durable.steps.agent import Agent, Input, Output, check_is_agent
from seekpoint.producers.durable.steps.agent_values import GivenInput
from seekpoint.producers.node_calls.append_calls import AppendCalls
from seekpoint.producers.node_calls.control_calls import ControlCalls
from seekpoint.producers.node_calls.history_calls import HistoryCalls
from seekpoint.producers.node_calls.read_calls import ReadCalls
from seekpoint.producers.node_runtime import NodeRuntime
from seekpoint.producers.opening import Opener, Opening, OpenRequest
from seekpoint.producers.writer.clocks import Clock, SystemClock
from seekpoint.producers.writer.pending import Cause
from seekpoint.schemas.config.settings import Settings, local_settings
from seekpoint.schemas.errors import Refused

if TYPE_CHECKING:
    from seekpoint.consumers.heartbeats.liveness import Liveness
    from seekpoint.consumers.recovery.process_history import Logged
    from seekpoint.consumers.recovery.recovery_report import Recovered
    from seekpoint.consumers.recovery.tiers import Tier
    from seekpoint.consumers.recovery_service.answering import Answered
    from seekpoint.producers.durable.decisions.prices import Prices
    from seekpoint.producers.embedded_projector import EmbeddedProjector
    from seekpoint.producers.process_pool import ProcessPool
    from seekpoint.producers.recovery_client import Requests
    from seekpoint.producers.shared_client import Shared
    from seekpoint.producers.shared_writing.shared_process import SharedOpening
    from seekpoint.schemas.log.log_ports import LogReader, LogWriter
    from seekpoint.schemas.log.memory_log import MemoryLog


class Node(ControlCalls, HistoryCalls, AppendCalls, ReadCalls, AttachmentReads):
    """One member of the fleet, for one event loop: ``async with Node.connect(settings) as node``.

    ``open`` or ``run`` a process to own it, ``recover`` to only read it, ``signal`` or ``cancel`` one from outside.
    """

    def __init__(
        self,
        reader: LogReader,
        writer: LogWriter,
        settings: Settings,
        recovery: Recovery | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._runtime = NodeRuntime(
            reader, writer, settings, recovery or Recovery(reader, settings), clock or SystemClock()
        )
        super().__init__(self._runtime)
        self._opener = Opener(self._runtime, self)
        self._requests: Requests | None = None
        self._make_requests: Callable[[], Requests] | None = None
        self._spare_gc = False

    @property
    def node_id(self) -> str:
        """This node's name, as claims and heartbeats show it."""
        return self._runtime.node_id

    @property
    def settings(self) -> Settings:
        """The settings that the node was made with."""
        return self._runtime.settings

    @property
    def clock(self) -> Clock:
        """The clock that the node's processes wait by."""
        return self._runtime.clock

    @property
    def prices(self) -> Prices | None:
        """The prices of model calls. Set them before the first decision; without them its costs are unknown."""
        return self._runtime.prices

    @prices.setter
    def prices(self, prices: Prices | None) -> None:
        self._runtime.prices = prices

    @property
    def liveness(self) -> Liveness:
        """The heartbeats of other nodes, as this node has observed them."""
        return self._runtime.heartbeater.liveness

    @property
    def projector_failure(self) -> BaseException | None:
        """The error that ended this node's own projector; None while it runs, and on a node without one."""
        projector = self._runtime.projector
        return None if projector is None else projector.failure

    @classmethod
    def connect(
        cls, settings: Settings | None = None, *, projector: bool = False, spare_gc: bool = True, **overrides: Any
    ) -> Node:
        """Return a node on the journal of ``settings``, by default from the environment and ``seekpoint.toml``.

        The node connects when it starts. With ``projector`` it also keeps view and checkpoints, and shares the
        partitions with all other projectors; ``InvalidSetting`` if there is no Redis. This is an argument and no
        setting: programs share settings, and one that opens a node for a moment must not move partitions.

        The first node of an interpreter makes the garbage collector run less often (``spare_gc``): it freezes the
        objects that exist when it starts, and collects the youngest generation every 50,000 allocations.
        """
        from seekpoint.producers.journal_access import JournalAccess

        settings = settings or Settings.load(**overrides)
        embedded = _embedded(settings) if projector else None
        access = JournalAccess.of(settings)
        recovery = Recovery.over(access.reader, settings, is_starting=True)
        node = cls(access.reader, access.writer, settings, recovery)
        if settings.sqlite_path is None:
            node._make_requests = partial(_requests_over, access.reader, node._runtime.threads)
        node._runtime.projector = embedded
        node._spare_gc = spare_gc
        return node

    @classmethod
    def local(cls, path: str | PathLike[str], **settings: Any) -> Node:
        """Return a node on an embedded log: a journal in one file, without a server. The file is created if needed.

        For the programs of one machine, any number at once. ``settings`` are those of ``Settings``.
        """
        return cls.connect(local_settings(path, settings))

    @classmethod
    def in_memory(cls, log: MemoryLog | None = None, *, clock: Clock | None = None, **settings: Any) -> Node:
        """Return a node on a log in memory, for tutorials and tests. Nodes that share ``log`` share the journal."""
        from seekpoint.schemas.log.memory_log import MemoryLog  # a node on Kafka starts without

        log = log or MemoryLog()
        return cls(log, log, Settings(**{"redis_url": None, **settings}), clock=clock)

    # --- life
    async def start(self) -> Node:
        """Verify the journal and begin to work. Raises ``JournalMismatch`` or ``JournalUnavailable``; idempotent."""
        if await self._runtime.start() and self._spare_gc:
            spare_collections()
        return self

    async def close(self) -> None:
        """Wait for pending entries, close every handle and all connections. Processes left open stay claimed.

        Every part is closed, whatever another one raises, and also if this call is cancelled. Errors are raised at the
        end. Idempotent.
        """
        await self._runtime.close()

    async def __aenter__(self) -> Node:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __await__(self) -> Generator[Any, None, Node]:
        return self.start().__await__()

    # --- processes
    @overload
    def open(
        self, process_id: str, *, shared: Literal[False] = False, take_over: bool = False,
        accept_degraded: bool = False, wait_s: float = 0.0, actor: str | None = None,
        correlation_id: str | None = None, replay: str = ReplayMode.STRICT, detail: str = Detail.FULL,
    ) -> Opening: ...  # fmt: skip
    @overload
    def open(
        self, process_id: str, *, shared: Literal[True], actor: str | None = None, correlation_id: str | None = None
    ) -> SharedOpening: ...
    def open(
        self,
        process_id: str,
        *,
        shared: bool = False,
        take_over: bool = False,
        accept_degraded: bool = False,
        wait_s: float = 0.0,
        actor: str | None = None,
        correlation_id: str | None = None,
        replay: str = ReplayMode.STRICT,
        detail: str = Detail.FULL,
    ) -> Opening | SharedOpening:
        """Own a process: create it, or claim it and recover. ``async with node.open(id) as process``; leaving releases.

        ``take_over`` claims it though its owner looks alive (the owner is fenced); ``wait_s`` keeps trying that long
        while it looks alive, or another claim comes first; ``accept_degraded`` accepts that missing entries are lost.
        ``actor`` and ``correlation_id`` go into every entry written. ``replay`` says how calls are held to what is
        remembered (``strict``, ``permissive``), ``detail`` how much content is journaled (``full``, ``checkpoint``,
        ``none``).

        ``shared``: do not own it, but write to it beside other nodes, one confirmed entry a call (``SharedProcess``).
        The options about owners do not go with it.

        Raises ``OwnerAlive``, ``AlreadyOpen``, ``ProcessDegraded``, ``ProcessFinished``, ``ClaimLost``,
        ``InvalidName``, ``JournalUnavailable``, ``AppendTimeout``.
        """
        cause = Cause(actor=actor, correlation_id=correlation_id)
        if shared:
            if take_over or accept_degraded or wait_s or (replay, detail) != (ReplayMode.STRICT, Detail.FULL):
                hint = "leave take_over, accept_degraded, wait_s, replay and detail out"
                raise Refused("a shared process has no owner to choose", process_id=process_id, hint=hint)
            return self._shared_opening(process_id, cause)
        return self._opener.opening(
            OpenRequest(
                process_id=process_id, take_over=take_over, accept_degraded=accept_degraded, wait_s=wait_s, cause=cause,
                options=conduct_of(None, replay, detail),
            )
        )  # fmt: skip

    def pool(
        self, *, open_max: int = 100, idle_s: float = 60.0, take_over: bool = False, wait_s: float = 0.0,
        actor: str | None = None, correlation_id: str | None = None,
    ) -> ProcessPool:  # fmt: skip
        """Keep processes open between uses: ``async with node.pool() as pool``, ``async with pool.process(id) as p``.

        A process is opened, with the options of ``open``, by its first use. Uses at the same time share it. It is
        released when nobody has used it for ``idle_s``, or when more than ``open_max`` are open and it was used least
        recently; one in use stays. A process that was fenced or finished is dropped, and the next use opens it anew.
        Closing the pool releases all.
        """
        from seekpoint.producers.process_pool import ProcessPool

        def opening(process_id: str) -> Opening:
            return self.open(
                process_id, take_over=take_over, wait_s=wait_s, actor=actor, correlation_id=correlation_id
            )  # fmt: skip

        return ProcessPool(opening, open_max, idle_s)

    async def run(
        self,
        agent: Agent[Input, Output],
        process_id: str,
        input: Input | Recorded = RECORDED,  # the name that users expect
        *,
        take_over: bool = False,
        wait_s: float = 0.0,
        actor: str | None = None,
        correlation_id: str | None = None,
        replay: str = ReplayMode.STRICT,
        detail: str = Detail.FULL,
        retry_failed: bool | Collection[str] = False,
        new: bool | None = None,
        spawned_by: str | None = None,
    ) -> Output:
        """Run ``agent`` as the process, here and now, from its beginning or from where it was; its result, confirmed.

        A process that is finished answers its result, and nothing runs; another version of its agent gets the same
        result. An exception is recorded and raised, the process is ``failed``; run it again to resume. A call that
        failed stays failed: ``retry_failed`` makes the steps, decisions and children again whose failure ended the last
        run, or those whose keys it names. What succeeded is not run again; a failed effect is only made again if it is
        named, and did nothing (``client.redrive`` has the rule).
        Cancelled, the process is released as it stands. ``input`` may be left out to resume. ``new=True`` only begins a
        process, ``new=False`` only resumes one; else ``Refused`` or ``UnknownProcess``, and no agent begins.
        ``spawned_by`` names the process whose child it is, for ``seekpoint lineage``.

        Input and result are rebuilt by the annotations of the agent's function, if they name models.

        Raises what ``open`` raises, ``InvalidValue`` for an input that does not fit the agent's annotation,
        ``AgentMismatch`` for a process of another agent or input, ``Refused`` for a key in
        ``retry_failed`` that names no such call, ``ReplayDivergence``, and whatever the agent raises; an error of
        Seekpoint's that ends the run (``Fenced``, ``EffectUnknown``, ...) as itself, also out of a task group's.
        """
        check_is_agent(agent)
        given = input if isinstance(input, Recorded | GivenInput) else GivenInput(agent, process_id, input)
        request = OpenRequest(
            process_id=process_id, take_over=take_over, wait_s=wait_s,
            cause=Cause(actor=actor, correlation_id=correlation_id),
            options=conduct_of(agent, replay, detail, spawned_by),
            refuse=lambda state: refuse_mismatch(process_id, state, agent, given, self._runtime.reader.limits, new),
            must_exist=new is False,
        )  # fmt: skip
        opening = self._opener.opening(request)
        result: Output = await run_agent(self._runtime, opening, process_id, agent, given, retry_failed, new)
        return result

    async def recover(
        self,
        process_id: str,
        *,
        tier: Tier | None = None,
        at_seq: int | None = None,
        at_offset: int | None = None,
        at_time: datetime | float | None = None,
        missing_ok: bool = False,
        must_be_current: bool = False,
    ) -> Recovered:
        """Return the state of a process, read only; see ``Recovery.recover``."""
        runtime = self._runtime
        if tier is None and at_seq is None and at_offset is None and at_time is None:
            return await runtime.reads.recover(process_id, missing_ok=missing_ok, must_be_current=must_be_current)
        return await runtime.recovery.recover(
            process_id, tier=tier, at_seq=at_seq, at_offset=at_offset, at_time=at_time, missing_ok=missing_ok,
            must_be_current=must_be_current,
        )  # fmt: skip

    def entries(
        self, process_id: str, *, from_seq: int | None = None, kinds: Collection[str] | None = None,
        limit: int | None = None, follow: bool = False,
    ) -> AsyncIterator[Logged]:  # fmt: skip
        """Yield the entries of a process in log order; see ``Recovery.entries``."""
        return self._runtime.reads.entries(process_id, from_seq=from_seq, kinds=kinds, limit=limit, follow=follow)

    async def request_recovery(
        self,
        process_id: str,
        *,
        at_seq: int | None = None,
        at_offset: int | None = None,
        at_time: datetime | float | None = None,
        must_be_current: bool = False,
        timeout_s: float = 30.0,
    ) -> Answered:
        """Return state, hash and report of a process from a recovery consumer (``seekpoint serve recovery``).

        Needs no right to read the journal, only ``NAME.recover`` (write) and ``NAME.recovered`` (read). Asked at least
        once, answered once. ``must_be_current`` as with ``recover``; without it ``report["hidden"]`` says whether the
        state may be an old one. Raises what the recovery raised there (``UnknownProcess``, ``UnknownPoint``, ...), and
        ``RequestTimeout``; ``Refused`` on an embedded log and on one in memory.
        """
        if self._make_requests is None:
            raise Refused("only a journal on Kafka has a recovery service", hint="use recover()")
        self._requests = self._requests or self._make_requests()
        return await self._requests.recover(
            process_id, at_seq=at_seq, at_offset=at_offset, at_time=at_time, must_be_current=must_be_current,
            timeout_s=timeout_s,
        )  # fmt: skip

    def shared(self, name: str) -> Shared:
        """Return a value that all processes of the journal share: ``get``, ``set``, ``watch``.

        In an agent's code use ``process.shared``, whose calls are recorded.
        """
        return self._runtime.shared(name)


def runtime_of(node: Node) -> NodeRuntime:
    """Return the runtime of a node: for what works on it, not for agents."""
    return node._runtime


def opener_of(node: Node) -> Opener:
    """Return what opens the processes of a node: for what runs agents on it."""
    return node._opener


def _embedded(settings: Settings) -> EmbeddedProjector:
    from seekpoint.consumers.projector.projector import Projector  # which most nodes never load
    from seekpoint.producers.embedded_projector import EmbeddedProjector

    return EmbeddedProjector(Projector(settings), settings)


def _requests_over(reader: object, threads: Executor) -> Requests:
    from seekpoint.consumers.kafka.kafka_reader import KafkaReader
    from seekpoint.consumers.recovery_service.exchange import KafkaExchange  # which most nodes never load
    from seekpoint.producers.recovery_client import Requests

    assert isinstance(reader, KafkaReader)
    return Requests(KafkaExchange(reader), threads)
