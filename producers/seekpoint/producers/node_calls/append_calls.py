"""The calls of a node that write to processes to which other nodes write too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seekpoint.producers.node_runtime import NodeRuntime
from seekpoint.producers.opening import Opener
from seekpoint.producers.writer.pending import Cause

if TYPE_CHECKING:
    from seekpoint.producers.shared_writing.append_request import Appended
    from seekpoint.producers.shared_writing.shared_process import SharedOpening
    from seekpoint.producers.shared_writing.shared_writes import SharedWrites
    from seekpoint.schemas.bodies import Body


class AppendCalls:
    """Write to shared processes. A node has ``_runtime`` and ``_opener``."""

    _runtime: NodeRuntime
    _opener: Opener
    _writes: SharedWrites | None = None

    async def append(
        self,
        process_id: str,
        body: Body,
        *,
        expected_seq: int | None = None,
        entry_id: bytes | None = None,
        actor: str | None = None,
        correlation_id: str | None = None,
    ) -> Appended:
        """Append one entry to a process that any node may write to; return once it is confirmed.

        ``body`` is content: a record, a message, or a change of context values. ``open(process_id, shared=True)`` has
        a call for each. Without ``expected_seq`` the entry comes after whatever is newest. With it, the entry is
        written only if the process's newest entry has that seq (0: the process has none); of several such appends one
        succeeds. An append that has returned is in every later read of any node. The claim stays with this node until
        another one writes; that one then claims the process, and each write is still applied once.

        After an error that leaves open whether the entry was written (``AppendTimeout``, ``ConfirmTimeout``,
        ``HandleClosed``, a crash), repeat the call with the same ``entry_id`` (16 bytes of your choice): what was
        written before is returned, with ``is_repeated``. An id that comes without ``expected_seq`` makes the first
        append of a node read the process's history once. An id is known as long as the log has its entry.

        Raises ``AppendConflict`` with the newer state. ``AlreadyOpen`` and ``OwnerAlive`` where one owner has the
        process open, ``Refused`` where an agent runs as it, ``ProcessFinished``, ``ProcessDegraded``,
        ``LimitExceeded``, ``ClaimLost``, ``JournalUnavailable``: nothing was written then.
        """
        cause = Cause(actor=actor, correlation_id=correlation_id)
        return await self._shared_writes().append(process_id, body, expected_seq, entry_id, cause)

    async def delete(
        self,
        process_id: str,
        *,
        expected_seq: int | None = None,
        entry_id: bytes | None = None,
        reason: str | None = None,
        actor: str | None = None,
        correlation_id: str | None = None,
    ) -> Appended | None:
        """Drop all that a process holds; return the entry that says so, or None if there is no such process.

        From then on each read of any node finds no such process: ``UnknownProcess``. Whoever writes to the id next
        begins a new process, whose entries have the next seqs. View and checkpoints drop the content as soon as a
        projector has read the entry. The log has the old entries until ``seekpoint trim`` deletes them. Bytes of
        attachments in this node's blob store are deleted before the call returns. A store that does not answer raises
        ``BlobStoreUnavailable`` before the entry is written. If it stops answering behind that, the same error says
        that the process is deleted, and the same call again deletes the rest.

        It writes one entry, as ``append`` does, with the same options and errors; ``reason`` goes into it. Only a
        process that holds content alone is deleted. ``Refused`` where an agent runs as it, ``IllegalTransition`` where
        its code has made calls: an effect that has happened must not happen again under the same id.
        """
        from seekpoint.producers.shared_writing.append_request import append_conflict, check_options  # as above
        from seekpoint.schemas.bodies import Deleted

        check_options(process_id, expected_seq, entry_id)
        state = await self._shared_writes().read(process_id)
        exists = state.epoch > 0 or bool(state.remembered)
        if not exists or (state.is_deleted and entry_id is None):
            if expected_seq is not None and expected_seq != state.seq:
                raise append_conflict(process_id, expected_seq, state)
            await self._erase_blobs(process_id, state.deleted_seq)
            return None
        await self._check_blobs(process_id)
        text = None if reason is None else self._runtime.settings.scrub(reason)
        done = await self.append(
            process_id, Deleted(text), expected_seq=expected_seq, entry_id=entry_id, actor=actor,
            correlation_id=correlation_id,
        )  # fmt: skip
        await self._erase_blobs(process_id, done.seq)
        return done

    async def _check_blobs(self, process_id: str) -> None:
        """Raise ``BlobStoreUnavailable`` if this node's blob store could not erase what the process has there."""
        from seekpoint.schemas.errors import BlobStoreUnavailable

        try:
            await self._runtime.blob_folders(process_id)
        except BlobStoreUnavailable as exc:
            raise BlobStoreUnavailable(
                f"the call deleted nothing: {exc.message}", process_id=process_id, store=exc.store, hint=exc.hint
            ) from exc

    async def _erase_blobs(self, process_id: str, deleted_seq: int) -> None:
        """Erase from this node's blob store what the process held before the deletion ``deleted_seq``."""
        from seekpoint.schemas.errors import BlobStoreUnavailable

        try:
            await self._runtime.erase_deleted(process_id, deleted_seq)
        except BlobStoreUnavailable as exc:
            raise BlobStoreUnavailable(
                f"the process is deleted, any bytes of it in the blob store are not: {exc.message}",
                process_id=process_id, store=exc.store, hint=f"{exc.hint}: it erases what is left",
            ) from exc  # fmt: skip

    def _shared_opening(self, process_id: str, cause: Cause) -> SharedOpening:
        from seekpoint.producers.shared_writing.shared_process import SharedOpening  # which most nodes never load

        return SharedOpening(process_id, self._shared_writes(), self._runtime, cause)

    def _shared_writes(self) -> SharedWrites:
        if self._writes is None:
            from seekpoint.producers.shared_writing.shared_writes import SharedWrites  # as above

            self._writes = self._runtime.shared_writes = SharedWrites(self._runtime, self._opener)
        return self._writes
