"""The call of nodes and clients that reads attachments."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from seekpoint.consumers.blobs.blob_store import BlobStore
    from seekpoint.consumers.recovery.recovery_report import Recovered
    from seekpoint.schemas.config.settings import Settings
    from seekpoint.schemas.log.log_ports import LogReader
    from seekpoint.schemas.state.process_state import State
    from seekpoint.schemas.values.attachment_ref import Ref


class AttachmentPort(Protocol):
    """The parts of a node that reading an attachment needs: the journal, and the blob store."""

    reader: LogReader

    @property
    def blobs(self) -> BlobStore | None:
        """The blob store of the settings; None: the bytes of attachments are in the journal."""
        ...

    async def recover(self, process_id: str, *, missing_ok: bool = False, at_offset: int | None = None) -> Recovered:
        """Return the state of a process."""
        ...

    async def in_thread(self, call: Callable[[], Any]) -> Any:
        """Run a blocking call in a thread."""
        ...


class AttachmentReads:
    """Read attachments. A node and a client have ``_port``."""

    _port: Any

    async def read_attachment(self, ref: Ref, *, process_id: str | None = None) -> bytes:
        """Return the bytes of an attachment of any process, checked against their digest.

        ``process_id`` names a copy of the process that the reference names, imported under another id.

        They are read now, and only they: a recovery gives the reference alone. Raises ``UnknownAttachment``,
        ``UnknownProcess``, ``AttachmentDamaged``, ``JournalUnavailable``, and of a blob store ``BlobStoreUnavailable``.
        """
        return await read_attached(self._port, ref, process_id)


def blobs_of(settings: Settings) -> BlobStore | None:
    """Return the blob store of the settings; None if they name none. Connects to nothing."""
    if settings.blob_store is None:
        return None
    from seekpoint.consumers.blobs.configured_store import blob_store_at  # which most programs never load

    return blob_store_at(settings.blob_store)


async def read_attached(
    port: AttachmentPort, ref: Ref, process_id: str | None = None, state: State | None = None
) -> bytes:
    """Return the bytes of an attachment, of ``process_id`` if that is a copy of the process that ``ref`` names.

    ``state`` is that of the process, if the caller has it.
    """
    from seekpoint.consumers.recovery.attachments import read_attachment  # as above

    of = (await port.recover(process_id or ref.process_id)).state if state is None else state
    found: bytes = await port.in_thread(
        lambda: read_attachment(port.reader, of, ref, process_id=process_id, blobs=port.blobs)
    )
    return found
