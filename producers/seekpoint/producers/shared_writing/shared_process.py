"""A process that several nodes write to, as ``node.open(process_id, shared=True)`` gives it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from seekpoint.producers.durable.content.content_calls import ContentCalls
from seekpoint.producers.durable.durable_process import DurableProcess
from seekpoint.producers.node_runtime import NodeRuntime
from seekpoint.producers.shared_writing.append_request import AppendOptions
from seekpoint.producers.shared_writing.shared_writes import SharedWrites
from seekpoint.producers.writer.attachment_parts import detached, own_bytes, part, ref_to, stored, windows_of
from seekpoint.producers.writer.pending import Cause
from seekpoint.schemas.errors import AppendConflict
from seekpoint.schemas.values.attachment_ref import DEFAULT_MEDIA_TYPE

if TYPE_CHECKING:
    from typing import Unpack

    from seekpoint.consumers.blobs.blob_store import BlobStore
    from seekpoint.producers.shared_writing.append_request import Appended
    from seekpoint.schemas.bodies import Body
    from seekpoint.schemas.config.limits import Limits
    from seekpoint.schemas.state.process_state import State
    from seekpoint.schemas.values.attachment_ref import Ref


class SharedProcess:
    """A process that several nodes write to. Every node may have it open, and every task may use it.

    Each call that writes appends one entry and returns once the entry is confirmed: see ``Node.append``
    for ``expected_seq``, ``entry_id``, ``actor`` and ``correlation_id``, which each of them takes, and for what they
    raise.
    """

    def __init__(self, process_id: str, writes: SharedWrites, runtime: NodeRuntime, cause: Cause, state: State) -> None:
        self._writes = writes
        self._runtime = runtime
        self._cause = cause
        self._state = state
        self._bodies = _BodyCalls(process_id, runtime.reader.limits)
        self.process_id = process_id

    @property
    def state(self) -> State:
        """The newest state that this node has read, without a look at the log: ``read`` has it as of now."""
        newest = self._writes.known(self.process_id)
        if newest is not None and newest.offset >= self._state.offset:
            self._state = newest
        return self._state

    async def read(self) -> State:
        """Return the state as of now: with every append, of any node, that has returned before this call.

        Costs one request for the end of the partition, and what was not read of the partition yet. Raises
        ``JournalUnavailable``, ``ConfirmTimeout``, and what a recovery raises.
        """
        self._state = await self._writes.read(self.process_id)
        return self._state

    # --- writing
    async def append(self, body: Body, **how: Unpack[AppendOptions]) -> Appended:
        """Append an entry with ``body``; see ``Node.append``."""
        return await self._append(body, how)

    async def _append(self, body: Body, how: AppendOptions, *, is_checked: bool = False) -> Appended:
        actor, correlation_id = how.get("actor"), how.get("correlation_id")
        cause = self._cause
        if actor or correlation_id:
            cause = Cause(actor=actor or cause.actor, correlation_id=correlation_id or cause.correlation_id)
        expected_seq, entry_id = how.get("expected_seq"), how.get("entry_id")
        return await self._writes.append(self.process_id, body, expected_seq, entry_id, cause, is_checked=is_checked)

    async def record(self, kind: str, payload: Any = None, **how: Unpack[AppendOptions]) -> Appended:
        """Write a custom entry of a ``kind`` of your own; the fold only keeps its kind."""
        return await self._append(self._bodies.of(self._bodies.record(kind, payload)), how, is_checked=True)

    async def update(self, key: str, value: Any, **how: Unpack[AppendOptions]) -> Appended:
        """Set one context value."""
        return await self._append(self._bodies.of(self._bodies.update(key, value)), how, is_checked=True)

    async def update_many(self, values: Mapping[str, Any], **how: Unpack[AppendOptions]) -> Appended:
        """Set several context values in one entry, all or none."""
        return await self._append(self._bodies.of(self._bodies.update_many(values)), how, is_checked=True)

    async def change(
        self, *, set: Mapping[str, Any] | None = None, delete: Collection[str] = (), **how: Unpack[AppendOptions]
    ) -> Appended:
        """Set and remove context values in one entry, all or none; see ``Process.change``."""
        return await self._append(self._bodies.of(self._bodies.change(set=set, delete=delete)), how, is_checked=True)

    async def delete(self, key: str, **how: Unpack[AppendOptions]) -> Appended:
        """Remove one context value, if it exists."""
        return await self._append(self._bodies.of(self._bodies.delete(key)), how, is_checked=True)

    async def patch(self, patch: Mapping[str, Any], **how: Unpack[AppendOptions]) -> Appended:
        """Change the context by an RFC 7386 merge patch: None removes, objects merge, everything else replaces."""
        return await self._append(self._bodies.of(self._bodies.patch(patch)), how, is_checked=True)

    async def clear(self, **how: Unpack[AppendOptions]) -> Appended:
        """Remove all context values."""
        return await self._append(self._bodies.of(self._bodies.clear()), how, is_checked=True)

    async def say(
        self,
        role: str,
        content: str | Sequence[Any] | Mapping[str, Any] | None = None,
        *,
        tool_calls: Sequence[Mapping[str, Any]] | None = None,
        tool_call_id: str | None = None,
        name: str | None = None,
        **how: Unpack[AppendOptions],
    ) -> Appended:
        """Add a message to the conversation; see ``Process.say``."""
        said = self._bodies.say(role, content, tool_calls=tool_calls, tool_call_id=tool_call_id, name=name)
        return await self._append(self._bodies.of(said), how, is_checked=True)

    # --- attachments
    async def attach(
        self, data: bytes | bytearray | memoryview, *, media_type: str = DEFAULT_MEDIA_TYPE, actor: str | None = None,
        correlation_id: str | None = None,
    ) -> Ref:  # fmt: skip
        """Keep ``data`` in the journal as an attachment of the process; return the reference to put into values.

        Nodes that attach the same bytes at once may write them twice; they count once. See
        ``Process.attach``.
        """
        found = own_bytes(data, self.process_id)
        ref = await ref_to(found, self.process_id, media_type)
        how = AppendOptions(actor=actor, correlation_id=correlation_id)
        limits, state, blobs = self._bodies.limits, self.state, self._runtime.blobs
        if ref.digest in state.attachments:
            state = await self.read()  # another node may have detached it
        known = state.attachments.get(ref.digest)
        if known is None and blobs is not None and ref.size > limits.part_bytes:
            await self._attach_stored(blobs, ref, found, state, how)
            return ref
        for starts in windows_of(ref, known, limits):
            # Each is an entry of its own, and they keep their order: appends that wait are sent as they came.
            parts = [self.append(part(ref, found, start, limits), **how) for start in starts]
            for done in await asyncio.gather(*parts, return_exceptions=True):
                if isinstance(done, BaseException):
                    raise done
        return ref

    async def _attach_stored(self, blobs: BlobStore, ref: Ref, data: bytes, state: State, how: AppendOptions) -> None:
        """Put the bytes into a blob store, then write their entry, unless the process was deleted in between."""
        put: tuple[int, Body] | None = None
        while not (ref.digest in state.attachments and state.attachments[ref.digest].is_whole):
            if put is None or put[0] != state.deleted_seq:
                reader, in_thread = self._runtime.reader, self._runtime.in_thread
                put = state.deleted_seq, await stored(blobs, ref, data, state, reader, in_thread)
            try:
                await self.append(put[1], **AppendOptions(**how, expected_seq=state.seq))
            except AppendConflict as exc:
                state = exc.state
                if state.deleted_seq != put[0]:  # the deletion may have erased the folder before the bytes were there
                    await self._runtime.erase_deleted(self.process_id, state.deleted_seq)
            else:
                return

    async def read_attachment(self, ref: Ref) -> bytes:
        """Return the bytes of an attachment, of this process or of another one; see ``Node.read_attachment``."""
        known = self.state.attachments.get(ref.digest)
        if known is None and ref.process_id != self.process_id:
            return await self._runtime.read_attachment(ref)
        state = await self.read()  # another node may have written, detached or deleted it
        return await self._runtime.read_attachment(ref, self.process_id, state)

    async def detach(self, *refs: Ref, **how: Unpack[AppendOptions]) -> Appended:
        """Drop attachments of the process that no value needs any more; see ``Process.detach``."""
        return await self.append(detached(refs, self.process_id), **how)


class _BodyCalls(ContentCalls):
    """The content calls of a process, which return the body instead of writing it."""

    def __init__(self, process_id: str, limits: Limits) -> None:
        super().__init__(cast(DurableProcess, _Unwritten(process_id, limits)))
        self.limits = limits

    @staticmethod
    def of(written: Any) -> Body:
        """Return the body that a content call has made."""
        return cast("Body", written)


class _Unwritten:
    """Stands in for the process of the content calls, which only make bodies here."""

    def __init__(self, process_id: str, limits: Limits) -> None:
        self.process_id = process_id
        self.limits = limits

    def write(self, body: Body) -> Body:
        """Return ``body``."""
        return body


class SharedOpening:
    """A shared process about to be read: ``async with`` it, or ``await`` it. Leaving changes nothing."""

    def __init__(self, process_id: str, writes: SharedWrites, runtime: NodeRuntime, cause: Cause) -> None:
        self._process_id = process_id
        self._writes = writes
        self._runtime = runtime
        self._cause = cause

    async def _opened(self) -> SharedProcess:
        state = await self._writes.read(self._process_id)
        return SharedProcess(self._process_id, self._writes, self._runtime, self._cause, state)

    def __await__(self) -> Generator[Any, None, SharedProcess]:
        return self._opened().__await__()

    async def __aenter__(self) -> SharedProcess:
        return await self._opened()

    async def __aexit__(self, *_: object) -> None:
        """Do nothing: the claim, if this node has it, stays until another node writes."""
