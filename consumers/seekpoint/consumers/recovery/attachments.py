"""Read the bytes of attachments: the state of their process says where the parts are, their digest proves them.

Nothing is read before somebody asks for the bytes. Only the entries that hold them are read, one read for parts that
lie close together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Protocol

from seekpoint.consumers.blobs.blob_store import BlobStore
from seekpoint.consumers.blobs.process_blobs import any_copy, folder_of
from seekpoint.consumers.log_reading.scan import EntrySource, entry_of
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import process_key
from seekpoint.schemas.errors import (
    AttachmentDamaged,
    InvalidSetting,
    JournalGap,
    LogTruncated,
    UndecodableRecord,
    UnknownAttachment,
)
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.state.process_state import State
from seekpoint.schemas.state.state_parts import Attachment
from seekpoint.schemas.values.attachment_ref import Ref

_APART_MAX = 256
"""How many offsets may lie between two parts that are read at once."""


class AttachmentSource(EntrySource, Protocol):
    """The part of ``LogReader`` that reading an attachment uses."""

    @property
    def topic_id(self) -> str:
        """The id of the journal's topic, by which its folders in a blob store are named."""


def whole_attachment(state: State, ref: Ref) -> Attachment:
    """Return what the state has of an attachment. Raises ``UnknownAttachment`` if it cannot be read."""
    found = state.attachments.get(ref.digest)
    if found is not None and found.is_whole:
        return found
    if found is None:
        raise UnknownAttachment(
            "the process has no such attachment", process_id=ref.process_id, digest=ref.digest, size=ref.size
        )
    raise UnknownAttachment(
        "the attachment is not whole: its writer has not written the rest", process_id=ref.process_id,
        digest=ref.digest, size=found.size, received=found.received,
        hint="attach the same bytes again: what is missing is written",
    )  # fmt: skip


def read_attachment(
    log: AttachmentSource, state: State, ref: Ref, *, process_id: str | None = None, blobs: BlobStore | None = None
) -> bytes:
    """Return the bytes of an attachment of the process that ``state`` is of. Blocking.

    ``process_id`` is the name of that process, if it is a copy of the one that the reference names. Raises
    ``UnknownAttachment``, ``AttachmentDamaged`` if the bytes are not what was attached, ``InvalidSetting`` if they are
    in a blob store that is not ``blobs``, ``JournalUnavailable``, ``BlobStoreUnavailable``.
    """
    attachment, offsets = whole_attachment(state, ref), state.attached_at.get(ref.digest, ())
    if attachment.store:
        data = _stored(log.topic_id, blobs, attachment.store, state, ref, process_id)
    elif len(offsets) < attachment.parts:
        raise AttachmentDamaged(
            "the journal has the attachment's reference and not its bytes: the process was seeded by a replay",
            process_id=ref.process_id, digest=ref.digest,
            hint="replay the process from its beginning, without --seeded, or read it in the replay's source",
        )  # fmt: skip
    else:
        data = b"".join(_parts(log, ref if process_id is None else replace(ref, process_id=process_id), offsets))
    if sha256(data).hexdigest() != ref.digest:
        raise _damaged("the bytes of an attachment are not those that were attached", ref, attachment.store)
    return data


def _stored(
    topic_id: str, blobs: BlobStore | None, store: str, state: State, ref: Ref, process_id: str | None
) -> bytes:
    """Return what a blob store has, of the process or of the one that it is a copy of."""
    if blobs is None or blobs.name != store:
        raise InvalidSetting(
            "the bytes of the attachment are in a blob store that is not this program's", setting="blob_store",
            value=None if blobs is None else blobs.name, hint=f"set blob_store to {store}",
        )  # fmt: skip
    data = blobs.get(folder_of(process_id or ref.process_id, topic_id, state.deleted_seq), ref.digest)
    if data is not None:
        return data
    found: bytes | None = None
    for found in any_copy(blobs, ref.process_id, ref.digest):
        if sha256(found).hexdigest() == ref.digest:
            return found
    if found is not None:
        return found  # for whoever compares
    raise _damaged("the blob store does not have the bytes of an attachment", ref, store)


def _parts(log: EntrySource, ref: Ref, offsets: Sequence[int]) -> Iterator[bytes]:
    key = process_key(ref.process_id)
    partition = partition_of(key, log.partitions)
    for run in _runs(offsets):
        wanted = dict.fromkeys(run, b"")
        found = 0
        try:
            for batch in log.read(partition, run[0], run[-1] + 1, [key]):
                for record in batch.records:
                    if record.offset in wanted:
                        body = entry_of(record, log.codec, log.partitions).body
                        if isinstance(body, b.PartAttached) and body.digest == ref.digest:
                            wanted[record.offset] = body.data
                            found += 1
        except (JournalGap, LogTruncated, UndecodableRecord) as exc:
            raise _damaged("parts of an attachment are no longer in the log", ref) from exc
        if found < len(wanted):
            raise _damaged("parts of an attachment are not where the process has them", ref)
        yield from wanted.values()


def _runs(offsets: Sequence[int]) -> Iterator[list[int]]:
    """Yield the offsets in runs that are worth one read."""
    run: list[int] = []
    for offset in offsets:
        if run and offset - run[-1] > _APART_MAX:
            yield run
            run = []
        run.append(offset)
    if run:
        yield run


def _damaged(message: str, ref: Ref, store: str = "") -> AttachmentDamaged:
    return AttachmentDamaged(message, process_id=ref.process_id, digest=ref.digest, store=store or None)
