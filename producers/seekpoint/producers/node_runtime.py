"""The runtime of a node: the parts by which it reads and follows the journal, writes to it and claims processes.

``Node`` is its public face. What opens, runs and dispatches processes on a node uses the runtime.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from seekpoint.consumers.recovery.threads import Threads
from seekpoint.producers.attachment_reads import blobs_of, read_attached
from seekpoint.producers.claims.heartbeater import Heartbeater
from seekpoint.producers.durable.steps.body_threads import BodyThreads, RunInThread
from seekpoint.producers.tail.process_reads import ProcessReads
from seekpoint.producers.tail.tailer import Tailer
from seekpoint.producers.tracing.tracing_setting import tracer_of
from seekpoint.producers.writer.closing import Closing
from seekpoint.producers.writer.confirmer import Confirmer
from seekpoint.producers.writer.externals import Externals
from seekpoint.producers.writer.healing import Healer
from seekpoint.producers.writer.identity import Identity
from seekpoint.producers.writer.node_metrics import NodeMetrics
from seekpoint.producers.writer.outbox import Outbox
from seekpoint.producers.writer.pending import HandleStatus
from seekpoint.schemas.errors import HandleClosed, SeekpointError
from seekpoint.schemas.log.manifest import refuse_older_format
from seekpoint.schemas.values.process_ids import named_process_key

if TYPE_CHECKING:
    from seekpoint.consumers.blobs.blob_store import BlobStore
    from seekpoint.consumers.blobs.process_blobs import BlobFolder
    from seekpoint.consumers.recovery.process_history import Logged
    from seekpoint.consumers.recovery.recovery import Recovery
    from seekpoint.consumers.recovery.recovery_report import Recovered
    from seekpoint.producers.durable.decisions.prices import Prices
    from seekpoint.producers.embedded_projector import EmbeddedProjector
    from seekpoint.producers.node_services import ChildRuns
    from seekpoint.producers.shared_client import Shared
    from seekpoint.producers.tail.followed_values import ValueFollower
    from seekpoint.producers.writer.clocks import Clock
    from seekpoint.producers.writer.handle import Handle
    from seekpoint.schemas.bodies import Body
    from seekpoint.schemas.config.settings import Settings
    from seekpoint.schemas.log.log_ports import LogReader, LogWriter
    from seekpoint.schemas.state.process_state import State
    from seekpoint.schemas.values.attachment_ref import Ref


class SharedClaims(Protocol):
    """The claims by which a node writes to shared processes."""

    async def let_go(self, process_id: str) -> None:
        """Drop the claim of a process once nothing of it is under way: this node opens the process for itself."""
        ...

    async def read_followed(self, process_id: str) -> State | None:
        """Return the state of a process as of now, if this node follows it; else None."""
        ...

    async def close(self) -> None:
        """Wait for a moment for the appends under way, then end them."""
        ...


class NodeRuntime:
    """The parts of one node, for one event loop. ``start`` before use, ``close`` after."""

    def __init__(
        self, reader: LogReader, writer: LogWriter, settings: Settings, recovery: Recovery, clock: Clock
    ) -> None:
        self.settings = settings
        self.identity = Identity.of(settings.node_id)
        self.reader = reader
        """The journal. It blocks: call it with ``in_thread``."""
        self.recovery = recovery
        self.clock = clock
        self.prices: Prices | None = None
        self.projector: EmbeddedProjector | None = None
        self.child_runs: ChildRuns | None = None
        """Runs the children of this node's processes on any worker; None: they run on this node."""
        self.handles: dict[str, Handle | None] = {}
        """The handle of each process of this node; None while the process is being claimed."""
        self.shared_handles: dict[str, Handle] = {}
        """The handles of the processes that several nodes write to. Heartbeats do not name their claims."""
        self.shared_writes: SharedClaims | None = None
        """What holds these claims, once this node has written so."""
        self.threads = Threads(max_workers=8, thread_name_prefix="seekpoint-node")
        self.body_threads = BodyThreads()
        self.metrics = NodeMetrics()
        self.tailer = Tailer(reader, recovery.blocking, self.threads, settings)
        self.outbox = Outbox(
            writer, settings, self._on_failing, self._on_retired, self.metrics.append_s, self.tailer.take_written
        )
        self.reads = ProcessReads(reader, recovery, self.tailer, self.threads, settings.confirm_timeout_s)
        self.confirmer = Confirmer(
            reader,
            self.threads,
            self.open_handles,
            self.tailer,
            settings.confirm_interval_s,
            settings.confirm_timeout_s,
            self.metrics.confirm_s,
            settings.owner_timeout_s,
        )
        self.healer = Healer(self.outbox, self.confirmer, self.identity, settings)
        self.tracer = tracer_of(settings)
        self.externals = Externals(reader, self.threads, self.outbox, self.tracer)
        self.heartbeater = Heartbeater(reader, self.threads, self._own_handles, self.identity, settings)
        self._closing = Closing(self._closing_steps)
        self._started = False

    @property
    def node_id(self) -> str:
        """The node's name."""
        return self.identity.node_id

    @property
    def is_started(self) -> bool:
        """Whether the node works: it was started, and not closed since."""
        return self._started

    # --- life
    async def start(self) -> bool:
        """Verify the journal and start all parts. Return False if they run already."""
        if self._started:
            return False
        # First of all: an idempotent producer gets its id some 50 ms after it was made, if it is left alone.
        self.outbox.start()
        try:
            refuse_older_format(self.reader.name, await self.in_thread(lambda: self.reader.journal_format))
        except BaseException:
            await self.close()
            raise
        self.tailer.start()
        self.confirmer.start()
        self.heartbeater.start()
        if self.projector is not None:
            self.projector.start()
        self._started = True
        return True

    async def close(self) -> None:
        """Close every part, whatever another one raises, also if this call is cancelled; then raise what failed."""
        await self._closing.run()

    def _closing_steps(self) -> Sequence[Callable[[], Any]]:
        return (
            *(() if self.shared_writes is None else (self.shared_writes.close,)),
            self.heartbeater.close,
            self.healer.close,
            self.confirmer.close,
            self.tailer.close,
            self.outbox.close,
            self._fail_handles,
            *(() if self.projector is None else (self.projector.close,)),
            self.recovery.close,
            lambda: asyncio.to_thread(self.reader.close),
            self.threads.close,
            self.body_threads.close,
        )

    def _fail_handles(self) -> None:
        for handle in self.open_handles():
            handle.fail(HandleClosed("the node was closed", process_id=handle.process_id))
        self.handles.clear()
        self.shared_handles.clear()
        self._started = False

    # --- the handles of its processes
    def open_handles(self) -> list[Handle]:
        """Return the handles that are not closed, the shared ones too."""
        return [*self._own_handles(), *(handle for handle in self.shared_handles.values() if handle.is_open)]

    def _own_handles(self) -> list[Handle]:
        """Return the open handles of the processes that only this node is to write to."""
        return [handle for handle in self.handles.values() if handle and handle.is_open]

    def forget(self, handle: Handle) -> None:
        """Remove a handle of this node, and stop delivering records to it."""
        for handles in (self.handles, self.shared_handles):
            if handles.get(handle.process_id) is handle:
                del handles[handle.process_id]
                self.metrics.fenced_entries += handle.fenced_entries
        self.tailer.detach(handle, handle.partition)

    def _on_failing(self) -> None:
        for handle in self.open_handles():
            if handle.pending:
                handle.begin_healing()

    async def _on_retired(self, reason: SeekpointError) -> None:
        for handle in self.open_handles():
            if handle.status is HandleStatus.HEALING:
                if handle.pending or handle.healing_claims:
                    self.healer.begin(handle, reason)
                else:
                    handle.status = HandleStatus.OPEN

    # --- the journal
    async def recover(self, process_id: str, *, missing_ok: bool = False, at_offset: int | None = None) -> Recovered:
        """Return the state of a process as of now, or as of ``at_offset``."""
        if at_offset is not None:
            return await self.recovery.recover(process_id, missing_ok=missing_ok, at_offset=at_offset)
        return await self.reads.recover(process_id, missing_ok=missing_ok)

    def entries(self, process_id: str, *, kinds: Collection[str] | None = None) -> AsyncIterator[Logged]:
        """Yield the entries of a process in log order."""
        return self.reads.entries(process_id, kinds=kinds)

    async def history(self, process_id: str) -> list[Logged]:
        """Return all entries of a process in log order, from one read. Raises as ``entries`` does."""
        from seekpoint.consumers.recovery.process_history import whole_history  # which most nodes never load

        named_process_key(process_id)
        found: list[Logged] = await self.in_thread(lambda: whole_history(self.recovery.blocking, process_id))
        return found

    @cached_property
    def blobs(self) -> BlobStore | None:
        """The blob store of the settings; None: the bytes of attachments are in the journal."""
        return blobs_of(self.settings)

    async def read_attachment(self, ref: Ref, process_id: str | None = None, state: State | None = None) -> bytes:
        """Return the bytes of an attachment, of ``process_id`` if that is a copy of the process that ``ref`` names."""
        return await read_attached(self, ref, process_id, state)

    async def blob_folders(self, process_id: str) -> list[BlobFolder]:
        """Return the folders that the blob store has of a process; none without a blob store."""
        if (blobs := self.blobs) is None:
            return []
        from seekpoint.consumers.blobs.process_blobs import folders_of  # which most nodes never load

        topic_id = self.reader.topic_id
        found: list[BlobFolder] = await self.in_thread(lambda: folders_of(blobs, process_id, topic_id))
        return found

    async def erase_deleted(self, process_id: str, deleted_seq: int) -> int:
        """Erase from the blob store what a process held before a deletion; return how many attachments that were."""
        if (blobs := self.blobs) is None or not deleted_seq:
            return 0
        from seekpoint.consumers.blobs.process_blobs import erase_deleted  # as above

        topic_id = self.reader.topic_id
        erased: int = await self.in_thread(lambda: erase_deleted(blobs, process_id, topic_id, deleted_seq))
        return erased

    async def append_external(
        self, process_id: str, body: Body, *, actor: str | None = None, entry_id: bytes | None = None
    ) -> bytes:
        """Append an external entry to a process; return its id once it is in the log."""
        return await self.externals.send(process_id, body, actor, entry_id)

    def append_records(self, partition: int, key: bytes, values: Iterable[bytes]) -> list[asyncio.Future[int]]:
        """Append records as they are, in this order; return the futures of their offsets. For imports."""
        return [self.outbox.push_external(partition, key, value) for value in values]

    @cached_property
    def values(self) -> ValueFollower:
        """Follows shared values, and the processes that other nodes own."""
        from seekpoint.producers.tail.followed_values import ValueFollower

        return ValueFollower(self.reader, self.recovery, self.tailer)

    def shared(self, name: str) -> Shared:
        """Return the shared value ``name`` of the journal."""
        from seekpoint.producers.shared_client import Shared

        return Shared(self, self.externals, self.values, name)

    # --- threads
    async def in_thread(self, call: Callable[[], Any]) -> Any:
        """Run a blocking call in the node's own threads."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, call)

    async def body_thread(self, key: str) -> RunInThread:
        """Wait until a thread is free for a user's blocking function; return what runs it there."""
        return await self.body_threads.take(key)
