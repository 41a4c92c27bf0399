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
    from seekpoint.schemas.values.attachment_ref import Ref

__all__ = ["AppendCalls"]


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
        """Append one entry to a process that any node may write to; return once it was read back as applied.

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

    async def read_attachment(self, ref: Ref) -> bytes:
        """Return the bytes of an attachment of any process, checked against their digest.

        They are read from the journal now, and only they: a recovery gives the reference alone. Raises
        ``UnknownAttachment``, ``UnknownProcess``, ``AttachmentDamaged``, ``JournalUnavailable``.
        """
        return await self._runtime.read_attachment(ref)

    def _shared_opening(self, process_id: str, cause: Cause) -> SharedOpening:
        from seekpoint.producers.shared_writing.shared_process import SharedOpening  # which most nodes never load

        return SharedOpening(process_id, self._shared_writes(), self._runtime, cause)

    def _shared_writes(self) -> SharedWrites:
        if self._writes is None:
            from seekpoint.producers.shared_writing.shared_writes import SharedWrites  # as above

            self._writes = self._runtime.shared_writes = SharedWrites(self._runtime, self._opener)
        return self._writes
