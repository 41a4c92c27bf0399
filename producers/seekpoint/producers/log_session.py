"""The session of a process that this node owns: what its durable calls write goes to the log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from seekpoint.consumers.checkpoints.cadence import CHECKPOINT_REQUEST
from seekpoint.consumers.recovery.recovery_report import LastCheckpoint
from seekpoint.producers.durable.idempotency_keys import call_identity
from seekpoint.producers.durable.session import Acknowledged
from seekpoint.producers.durable.steps.agent_values import GivenInput
from seekpoint.producers.node_services import AgentNode, ChildRequest, NodeServices
from seekpoint.producers.tail.tailer import refuse_other_loop
from seekpoint.producers.writer.attachment_parts import detached, part, stored, windows_of
from seekpoint.producers.writer.handle import Handle
from seekpoint.producers.writer.pending import Cause
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import new_id
from seekpoint.schemas.errors import CheckpointTimeout, HandleLost, SeekpointError
from seekpoint.schemas.values.clock import now_us

if TYPE_CHECKING:
    from seekpoint.consumers.blobs.blob_store import BlobStore
    from seekpoint.producers.durable.decisions.prices import Prices
    from seekpoint.producers.durable.steps.agent import Agent
    from seekpoint.producers.writer.own_ids import OwnIds
    from seekpoint.producers.writer.pending import Pending
    from seekpoint.producers.writer.pipeline import Pipeline
    from seekpoint.schemas.state.budget_sums import Budget
    from seekpoint.schemas.state.lifecycle import Lifecycle
    from seekpoint.schemas.state.process_state import MailItem, State
    from seekpoint.schemas.values.attachment_ref import Ref

_HELD_CHARACTERS_MAX, _HELD_BYTES_MAX = 65_536, 16_384
"""The longest arguments of a start that is held back, and the room in the state that it must find."""
_SAVED_POLL_S = 0.02


class LogSession:
    """A ``durable.session.Session`` that writes to the log. Safe to use from many tasks of its event loop.

    Each call that writes raises ``Fenced`` once another owner has claimed the process, ``AppendTimeout`` when Kafka
    stayed silent for ``append_timeout_s`` and ``heal_timeout_s`` (the handle is closed then), ``LimitExceeded`` and
    ``UnserializableValue`` before anything is sent.
    """

    def __init__(
        self,
        handle: Handle,
        services: NodeServices,
        cause: Cause,
        on_abandon: Callable[[Handle], None],
        node: AgentNode,
    ) -> None:
        self._handle = handle
        self._services = services
        self._outbox = services.outbox
        self._confirmer = services.confirmer
        self._cause = cause
        self._on_abandon = on_abandon
        self._node = node
        self._loop = asyncio.get_running_loop()
        self._held: dict[str, Callable[[], b.StepStarted]] = {}
        self._ids: OwnIds | None = None
        self._pipeline: Pipeline | None = None
        self._attaching = asyncio.Lock()
        """Held while an attachment is written, so that its bytes are in memory for one at a time."""
        self.process_id = handle.process_id
        self.node_id = services.node_id
        self.limits = handle.limits
        self.settings = services.settings
        self.clock = services.clock
        self.tracer = services.tracer
        self.mail_changed = handle.mail_changed
        self.check_open = handle.check_open
        self.times_forgotten = handle.times_forgotten
        self.recover = services.recover
        self.entries = services.entries
        self.append_external = services.append_external
        self.in_thread = services.in_thread
        self.body_thread = services.body_thread
        self.shared_value = services.shared

    @property
    def prices(self) -> Prices | None:
        """The node's prices of model calls, which may be set late."""
        return self._services.prices

    # --- state
    @property
    def written(self) -> State:
        """The confirmed state plus every acknowledged entry. Frozen: it never changes under its holder."""
        return self._handle.state

    @property
    def ahead_lifecycle(self) -> Lifecycle:
        """The lifecycle once everything sent so far is in the log."""
        return self._handle.ahead_lifecycle

    @property
    def ahead_budget(self) -> Budget | None:
        """The budget once everything sent so far is in the log; None where none was set."""
        return self._handle.ahead_budget

    @property
    def is_open(self) -> bool:
        """Return False once the process was released, finished, fenced or given up."""
        return self._handle.is_open

    def check(self) -> None:
        """Raise what ended the process for this node (``Fenced``, ``AppendTimeout``, ...), if anything did."""
        if self._handle.error is not None:
            raise self._handle.error

    def newest(self) -> Acknowledged:
        """Return the newest entry that was acknowledged with all below it."""
        return Acknowledged(self._handle.acknowledged_seq, self._handle.last_offset)

    # --- writing
    async def append(self, body: b.Body) -> Acknowledged:
        """Write an entry of this owner and wait for its acknowledgement."""
        future: asyncio.Future[int] = self._loop.create_future()
        seq = self._push(body, future)
        return Acknowledged(seq, await future)

    async def append_once(self, body: b.Body, entry_id: bytes, *, wait: bool) -> Acknowledged:
        """Write an entry, unless the process has one with this id; return that one's place then."""
        if self._ids is None:
            from seekpoint.producers.writer.own_ids import OwnIds  # which few programs use

            self._ids = OwnIds(self._handle, self._services.reader, self.in_thread)
        found = await self._ids.find(entry_id)
        if found is not None:
            self._handle.check_open()  # what a fenced owner has written is not applied
            return Acknowledged(*found, is_repeated=True)
        future: asyncio.Future[int] = self._loop.create_future()
        pending = self._pushed(body, future, entry_id)
        self._ids.sent(pending, future)
        if wait:
            return Acknowledged(pending.seq, await asyncio.shield(future))
        await self._pipelined().make_room()
        return Acknowledged(pending.seq, -1)

    async def pipeline(self, body: b.Body) -> Acknowledged:
        """Write an entry; wait only while too many are under way."""
        seq = self._push(body, None)
        await self._pipelined().make_room()
        return Acknowledged(seq, -1)

    async def flush(self) -> None:
        """Return once all entries that were sent are acknowledged. Raises the first failure."""
        if self._handle.pending:
            await self._pipelined().flush()
        self.check()

    def _pipelined(self) -> Pipeline:
        if self._pipeline is None:
            from seekpoint.producers.writer.pipeline import Pipeline  # which few programs use

            self._pipeline = Pipeline(self._handle)
        return self._pipeline

    def send(self, body: b.Body) -> int:
        """Write an entry and do not wait; return its seq. A failure closes the handle: every later call raises it."""
        return self._push(body, None)

    def sent(self, body: b.Body) -> asyncio.Future[int]:
        """Write an entry now; return the future of its offset."""
        future: asyncio.Future[int] = self._loop.create_future()
        self._push(body, future)
        return future

    def hold(self, key: str, start: Callable[[], b.StepStarted], characters: int) -> bool:
        """Keep the start of the step ``key`` back until the event loop goes on, or anything else is written.

        Two records would be two requests to the broker: ``drop_held`` the start to write one entry for start and end.
        Return False if its arguments, of so many ``characters``, may not fit: then the caller sends it.
        """
        if characters > _HELD_CHARACTERS_MAX or not self._handle.has_room(_HELD_BYTES_MAX):
            return False
        refuse_other_loop(self._loop)
        self._handle.check_open()
        if not self._held:
            self._loop.call_soon(self._send_held)
        self._held[key] = start
        return True

    def drop_held(self, key: str) -> bool:
        """Return whether the start of ``key`` was still held; drop it."""
        return self._held.pop(key, None) is not None

    def _send_held(self) -> None:
        held, self._held = self._held, {}
        for key, start in held.items():
            try:
                self._push(start(), None)
            except HandleLost:
                return  # the next call on the process raises it
            except SeekpointError:
                self._held[key] = start  # the entry of its end records it, or is refused too

    def _push(self, body: b.Body, future: asyncio.Future[int] | None) -> int:
        return self._pushed(body, future, new_id()).seq

    def _pushed(self, body: b.Body, future: asyncio.Future[int] | None, entry_id: bytes) -> Pending:
        refuse_other_loop(self._loop)
        if self._held and not isinstance(body, b.StepStarted):
            self._send_held()
        pending = self._handle.prepare(entry_id, now_us(), body, self._cause, future)
        self._outbox.push(pending)
        self._services.metrics.note_call(body)
        if self.tracer is not None:
            self.tracer.note(body)
        return pending

    def caused_by(self, entry_id: bytes | None) -> None:
        """Name the entry that causes those written from here on."""
        self._cause = replace(self._cause, caused_by=entry_id)

    # --- attachments
    async def attach(self, ref: Ref, data: bytes) -> None:
        """Write what the log does not have yet of an attachment; return once all of it is acknowledged."""
        async with self._attaching:
            known, blobs = self._handle.ahead_attachment(ref.digest), self._services.blobs
            if known is None and blobs is not None and ref.size > self.limits.part_bytes:
                await self._attach_stored(blobs, ref, data)
                return
            windows = windows_of(ref, known, self.limits)
            for *others, last in windows:
                for start in others:
                    self.send(part(ref, data, start, self.limits))
                await self.append(part(ref, data, last, self.limits))
                if len(windows) > 1:
                    await self.confirm()  # the bytes of what is confirmed are not kept

    async def _attach_stored(self, blobs: BlobStore, ref: Ref, data: bytes) -> None:
        """Put the bytes into a blob store, then write their entry."""
        self._handle.check_open()  # the folder of a deletion that another owner wrote is not this handle's
        body = await stored(blobs, ref, data, self._handle.peek(), self._services.reader, self.in_thread)
        try:
            await self.append(body)
            await self.confirm()  # an entry behind a deletion is acknowledged, too
        except HandleLost:  # a deletion may have erased the folder before the bytes were there
            with suppress(SeekpointError):
                found = await self.recover(self.process_id, missing_ok=True)
                await self._services.erase_deleted(self.process_id, found.state.deleted_seq)
            raise

    async def read_attachment(self, ref: Ref) -> bytes:
        """Return the bytes of an attachment of this process, or of another one."""
        own = self._handle.ahead_attachment(ref.digest)
        if own is None and ref.process_id != self.process_id:
            return await self._services.read_attachment(ref)
        if self._handle.unconfirmed is not None:
            await self.confirm()  # where the parts are is known of entries that were read back
        return await self._services.read_attachment(ref, self.process_id, self._handle.peek().snapshot())

    async def detach(self, refs: Collection[Ref]) -> None:
        """Drop attachments of this process."""
        await self.append(detached(refs, self.process_id))

    # --- the end
    async def end(self, body: b.Released | b.Finished) -> None:
        """Write the entry that ends the process for this owner; return once it is confirmed. Closes the handle."""
        self._handle.check_open()
        self._send_held()
        future: asyncio.Future[int] = self._loop.create_future()
        pending = self._handle.prepare(new_id(), now_us(), body, self._cause, future)
        self._handle.ending = True
        self._outbox.push(pending)
        try:
            await self._confirm(await future)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Drop the handle on this node; the process stays claimed unless it was released.

        Calls still under way raise ``HandleClosed``: their entries may be in the log, or get there.
        """
        self._handle.abandon()
        self._on_abandon(self._handle)

    # --- the log's past
    async def confirm(self) -> None:
        """Return once everything acknowledged so far was seen applied. Raises ``Fenced``, ``ConfirmTimeout``."""
        if self._pipeline is not None:
            await self.flush()
        await self._confirm(self._handle.last_offset)

    async def _confirm(self, offset: int) -> None:
        await self._confirmer.confirm(self._handle, offset)
        self.check()

    async def checkpoint(self, timeout_s: float) -> int:
        """Ask for a checkpoint; return the offset it is as of once it is saved. Raises ``CheckpointTimeout``."""
        asked = await self.append(b.Custom(CHECKPOINT_REQUEST))
        try:
            async with asyncio.timeout(timeout_s):
                while not _covers(  # noqa: ASYNC110  # Kafka gives no event to wait for
                    saved := await self._services.recovery.last_checkpoint(self.process_id), asked.offset
                ):
                    await asyncio.sleep(_SAVED_POLL_S)
                assert saved is not None
        except TimeoutError as exc:
            raise CheckpointTimeout(
                "no checkpoint was saved in time", process_id=self.process_id, offset=asked.offset, timeout_s=timeout_s
            ) from exc
        return saved.offset

    async def past_content(self, to_seq: int) -> b.Json:
        """Return the content to rewind to: that after ``to_seq``, with the effects since then."""
        from seekpoint.producers.durable.effects.rewind_content import content_to_rewind_to

        past = (await self._services.recovery.recover(self.process_id, at_seq=to_seq)).state
        content: b.Json = await self.in_thread(
            lambda: content_to_rewind_to(self._services.reader, self.process_id, past, self.written)
        )
        return content

    async def before_unrecorded(self, name: str, kind: str) -> None:
        """Return at once: a session on a log carries everything out."""

    # --- mail
    @property
    def mail(self) -> list[MailItem]:
        """The external entries that nobody took yet, in log order."""
        return self._handle.mail

    def watching(self) -> AbstractAsyncContextManager[None]:
        """While inside, fold what comes into the partition as soon as it comes."""
        return self._confirmer.watching(self._handle)

    async def read_log(self, fresh_s: float = 0.0) -> None:
        """Fold what is in the log by now. Raises ``Retryable`` errors where it cannot be read."""
        await self._confirmer.to_end(self._handle, fresh_s)

    # --- other work of the node
    async def run_child(
        self, agent: Agent, child_id: str, input: Any, *, key: str, wait_s: float, retry_failed: bool
    ) -> Any:
        """Run ``agent`` as the process ``child_id``, the child of the call ``key``; return its result."""
        elsewhere = self._services.child_runs
        if elsewhere is not None and elsewhere.takes(agent.name):
            aside_seq = self.written.calls[key].seq if retry_failed else None
            request = ChildRequest(
                agent.name, child_id, input, call_identity(self, key), aside_seq, self._cause.correlation_id,
                self.process_id,
            )  # fmt: skip
            return await elsewhere.run(request)
        granted = self.written.calls[key].facts.get("limits")
        given = GivenInput(agent, child_id, input, is_journaled=True, granted=granted)
        return await self._node.run(
            agent, child_id, given, wait_s=wait_s, retry_failed=retry_failed, spawned_by=self.process_id
        )


def _covers(saved: LastCheckpoint | None, offset: int) -> bool:
    return saved is not None and saved.offset >= offset and saved.problem is None
