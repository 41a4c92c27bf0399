"""The folders of a process in a blob store: which bytes belong to what a process was before its deletion.

    PROCESS / JOURNAL-DELETED_SEQ / DIGEST

A process that begins anew after its deletion has another folder: the seq of the deletion is part of its name. So a
folder of a lower seq than that of the newest deletion holds nothing that anybody needs, whoever put it there and when.
A copy of the process in another journal has folders of its own, so a deletion there takes nothing of the original.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING

from seekpoint.schemas.frozen_struct import FrozenStruct

if TYPE_CHECKING:
    from seekpoint.consumers.blobs.blob_store import BlobStore


class BlobFolder(FrozenStruct, frozen=True):
    """A folder of a process."""

    path: str
    deleted_seq: int | None
    """The seq of the deletion behind which the process began, 0 for none; None: the folder is another journal's."""


def folder_of(process_id: str, topic_id: str, deleted_seq: int) -> str:
    """Return the folder of a process of the journal ``topic_id``, whose newest deletion has the seq ``deleted_seq``."""
    return f"{_process_folder(process_id)}/{_journal_name(topic_id)}-{deleted_seq}"


def folders_of(blobs: BlobStore, process_id: str, topic_id: str) -> list[BlobFolder]:
    """Return the folders that a store has of a process, the oldest first, those of other journals after them."""
    process, journal = _process_folder(process_id), _journal_name(topic_id)
    found = []
    for name in blobs.names(process):
        of, _, deleted_seq = name.rpartition("-")
        is_own = of == journal and deleted_seq.isdecimal()
        found.append(BlobFolder(f"{process}/{name}", int(deleted_seq) if is_own else None))
    return sorted(found, key=lambda one: (one.deleted_seq is None, one.deleted_seq or 0, one.path))


def erase_deleted(blobs: BlobStore, process_id: str, topic_id: str, deleted_seq: int) -> int:
    """Erase what the process held before the deletion ``deleted_seq``; return how many attachments that were.

    Nobody needs any of it, so the call can be repeated at any time, also if the process has begun anew.
    """
    folders = folders_of(blobs, process_id, topic_id)
    gone = [one for one in folders if one.deleted_seq is not None and one.deleted_seq < deleted_seq]
    return sum(blobs.erase(one.path) for one in gone)


def any_copy(blobs: BlobStore, process_id: str, digest: str) -> Iterator[bytes]:
    """Yield the bytes that any journal has put for the process under this digest. Each may be damaged."""
    process = _process_folder(process_id)
    for name in blobs.names(process):
        data = blobs.get(f"{process}/{name}", digest)
        if data is not None:
            yield data


def _process_folder(process_id: str) -> str:
    """Return a name that every store takes: ids may have characters that names of files may not."""
    return blake2b(process_id.encode(), digest_size=16).hexdigest()


def _journal_name(topic_id: str) -> str:
    return blake2b(topic_id.encode(), digest_size=8).hexdigest()
