"""The ports through which a session on a log uses the node that owns its process, and the node's other runs."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Protocol

from seekpoint.producers.durable.session import Journal
from seekpoint.schemas.frozen_struct import FrozenStruct

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from seekpoint.consumers.blobs.blob_store import BlobStore
    from seekpoint.consumers.recovery.process_history import Logged
    from seekpoint.consumers.recovery.recovery import Recovery
    from seekpoint.consumers.recovery.recovery_report import Recovered
    from seekpoint.producers.durable.decisions.prices import Prices
    from seekpoint.producers.durable.session import SharedValue
    from seekpoint.producers.durable.steps.agent import Agent
    from seekpoint.producers.durable.steps.body_threads import RunInThread
    from seekpoint.producers.tracing.tracer import Tracer
    from seekpoint.producers.writer.clocks import Clock
    from seekpoint.producers.writer.confirmer import Confirmer
    from seekpoint.producers.writer.node_metrics import NodeMetrics
    from seekpoint.producers.writer.outbox import Outbox
    from seekpoint.schemas.config.settings import Settings
    from seekpoint.schemas.log.log_ports import LogReader
    from seekpoint.schemas.state.process_state import State
    from seekpoint.schemas.values.attachment_ref import Ref


class AgentNode(Protocol):
    """The calls of a node that do not need an open process."""

    @property
    def node_id(self) -> str:
        """The node's name."""
        ...

    @property
    def settings(self) -> Settings:
        """The node's settings."""
        ...

    @property
    def clock(self) -> Clock:
        """The clock that the node's processes wait by."""
        ...

    async def recover(self, process_id: str, *, missing_ok: bool = False, at_offset: int | None = None) -> Recovered:
        """Return the state of a process as of now, or as of ``at_offset``."""
        ...

    def entries(self, process_id: str, *, kinds: Collection[str] | None = None) -> AsyncIterator[Logged]:
        """Yield the entries of a process in log order."""
        ...

    async def run(
        self, agent: Agent, process_id: str, input: Any, *, wait_s: float = 0.0,
        retry_failed: bool | Collection[str] = False, spawned_by: str | None = None,
    ) -> Any:  # fmt: skip
        """Run ``agent`` as the process, a child of ``spawned_by`` if that is given; return its result."""
        ...


class ChildRequest(FrozenStruct, frozen=True):
    """A request to run a child process, by the process that spawned it."""

    agent: str
    child_id: str
    input: Any
    idempotency_key: str
    """That of the call that spawned it: the same in each run of the parent."""
    aside_seq: int | None = None
    """The seq of the entry that asks to run a failed child again; None if none does."""
    correlation_id: str | None = None
    spawned_by: str | None = None


class ChildRuns(Protocol):
    """Runs children on any worker."""

    def takes(self, agent: str) -> bool:
        """Whether it runs children of this agent."""
        ...

    async def run(self, request: ChildRequest) -> Any:
        """Return the result of the child. Raises ``ChildFailure``, ``Cancelled``, ``AgentMismatch``."""
        ...


class NodeServices(Journal, Protocol):
    """The parts of the owning node that a session uses."""

    settings: Settings
    clock: Clock
    prices: Prices | None
    child_runs: ChildRuns | None
    reader: LogReader
    recovery: Recovery
    outbox: Outbox
    confirmer: Confirmer
    metrics: NodeMetrics
    tracer: Tracer | None

    @property
    def node_id(self) -> str:
        """The node's name."""
        ...

    def shared(self, name: str) -> SharedValue:
        """Return the shared value ``name`` of the journal."""
        ...

    @property
    def blobs(self) -> BlobStore | None:
        """The blob store for large attachments; None: they are in the journal."""
        ...

    async def read_attachment(self, ref: Ref, process_id: str | None = None, state: State | None = None) -> bytes:
        """Return the bytes of an attachment, of ``process_id`` if that is a copy of the process that ``ref`` names."""
        ...

    async def erase_deleted(self, process_id: str, deleted_seq: int) -> int:
        """Erase from the blob store what a process held before a deletion; return how many attachments that were."""
        ...

    async def body_thread(self, key: str) -> RunInThread:
        """Wait until a thread is free for a user's blocking function; return what runs it there."""
        ...
