"""The runtime of a client: it reads the journal, and appends to the inbox and to mailboxes. It owns nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from seekpoint.consumers import Recovered, Recovery
from seekpoint.consumers.recovery.process_history import Logged
from seekpoint.consumers.recovery.threads import Threads
from seekpoint.producers.attachment_reads import blobs_of
from seekpoint.producers.shared_client import Shared
from seekpoint.producers.tail.followed_values import ValueFollower
from seekpoint.producers.tail.process_reads import ProcessReads
from seekpoint.producers.tail.tailer import Tailer
from seekpoint.producers.tracing.tracing_setting import tracer_of
from seekpoint.producers.writer.closing import Closing
from seekpoint.producers.writer.externals import Externals
from seekpoint.producers.writer.outbox import Outbox
from seekpoint.schemas.bodies import Body
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.log.log_ports import LogReader, LogWriter

if TYPE_CHECKING:
    from seekpoint.consumers.blobs.blob_store import BlobStore


class ClientRuntime:
    """The parts of one client, for one event loop. ``start`` before use, ``close`` after."""

    def __init__(
        self, reader: LogReader, writer: LogWriter, inbox_writer: LogWriter, settings: Settings, recovery: Recovery
    ) -> None:
        self.settings = settings
        self.reader = reader
        """The journal. It blocks: call it with ``in_thread``."""
        self.recovery = recovery
        self.threads = Threads(max_workers=8, thread_name_prefix="seekpoint-client")
        self.outbox = Outbox.without_handles(writer, settings)
        self.inbox = Outbox.without_handles(inbox_writer, settings)
        self.tracer = tracer_of(settings)
        self.externals = Externals(reader, self.threads, self.outbox, self.tracer)
        self.tailer = Tailer(reader, recovery.blocking, self.threads, settings)
        self.reads = ProcessReads(reader, recovery, self.tailer, self.threads, settings.confirm_timeout_s)
        self.processes = ValueFollower(reader, recovery, self.tailer)
        self._closing = Closing(self._closing_steps)
        self._is_started = False

    async def start(self) -> None:
        """Verify the journal and start all parts. Idempotent."""
        if self._is_started:
            return
        self.outbox.start()
        self.inbox.start()
        try:
            await self.in_thread(lambda: self.reader.partitions)
        except BaseException:
            await self.close()
            raise
        self.tailer.start()
        self._is_started = True

    async def close(self) -> None:
        """Close every part, whatever another one raises."""
        await self._closing.run()

    def _closing_steps(self) -> Sequence[Callable[[], Any]]:
        return (
            self.tailer.close,
            self.inbox.close,
            self.outbox.close,
            self.recovery.close,
            lambda: asyncio.to_thread(self.reader.close),
            self.threads.close,
        )

    async def recover(self, process_id: str, *, missing_ok: bool = False, at_offset: int | None = None) -> Recovered:
        """Return the state of a process as of now, or as of ``at_offset``."""
        if at_offset is not None:
            return await self.recovery.recover(process_id, missing_ok=missing_ok, at_offset=at_offset)
        return await self.reads.recover(process_id, missing_ok=missing_ok)

    @cached_property
    def blobs(self) -> BlobStore | None:
        """The blob store of the settings; None: the bytes of attachments are in the journal."""
        return blobs_of(self.settings)

    async def append_external(
        self, process_id: str, body: Body, *, actor: str | None = None, entry_id: bytes | None = None
    ) -> bytes:
        """Append an external entry to a process; return its id once it is in the log."""
        return await self.externals.send(process_id, body, actor, entry_id)

    def shared(self, name: str) -> Shared:
        """Return the shared value ``name`` of the journal."""
        return Shared(self, self.externals, self.processes, name)

    def entries(self, process_id: str, *, kinds: Collection[str] | None = None) -> AsyncIterator[Logged]:
        """Yield the entries of a process in log order."""
        return self.reads.entries(process_id, kinds=kinds)

    async def in_thread(self, call: Callable[[], Any]) -> Any:
        """Run a blocking call in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, call)
