"""Attach large values to a process: their bytes are in entries of their own, and values have references to them."""

from __future__ import annotations

from seekpoint.producers.durable.durable_process import DurableCalls
from seekpoint.producers.writer.attachment_parts import own_bytes, ref_to
from seekpoint.schemas.values.attachment_ref import DEFAULT_MEDIA_TYPE, Ref


class AttachmentCalls(DurableCalls):
    """The calls of a process for values that are too large for a state. They are no calls of an agent's code: a run
    that is repeated gets the same references, and writes nothing that is there."""

    async def attach(self, data: bytes | bytearray | memoryview, *, media_type: str = DEFAULT_MEDIA_TYPE) -> Ref:
        """Keep ``data`` in the journal as an attachment of the process; return the reference to put into values.

        The bytes are in entries of their own, so neither the limit of an entry nor that of a state counts. The same
        bytes again cost nothing. Until the last part is in the log nothing can be read; the same call goes on there.
        Raises ``LimitExceeded`` if the process has too many bytes attached: nothing was written then.
        """
        session = self._durable.session
        found = own_bytes(data, session.process_id)
        ref = await ref_to(found, session.process_id, media_type)
        await session.attach(ref, found)
        return ref

    async def read_attachment(self, ref: Ref) -> bytes:
        """Return the bytes of an attachment, of this process or of another one, checked against their digest.

        Raises ``UnknownAttachment``, ``UnknownProcess``, ``AttachmentDamaged``, ``JournalUnavailable``.
        """
        return await self._durable.session.read_attachment(ref)

    async def detach(self, *refs: Ref) -> None:
        """Drop attachments of the process that no value needs any more: a trim may delete their bytes then.

        One that the process does not have changes nothing.
        """
        if refs:
            await self._durable.session.detach(refs)
