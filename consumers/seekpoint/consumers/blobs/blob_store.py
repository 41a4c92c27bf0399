"""The port of blob stores: where the bytes of large attachments are.

A store keeps bytes in a folder, by their digest. It is never trusted: who reads compares the digest.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from seekpoint.schemas.state.process_state import Draft

__all__ = ["BlobStore", "folder_of"]


class BlobStore(Protocol):
    """Keeps the bytes of attachments. All calls block and are thread-safe.

    They raise ``BlobStoreUnavailable`` if the store does not answer, ``InvalidSetting`` if it refuses this program.
    """

    @property
    def name(self) -> str:
        """The name of the store in entries, without secrets."""
        ...

    def put(self, folder: str, digest: str, data: bytes) -> None:
        """Keep ``data``; return once it would survive a crash of the store. The same call again changes nothing."""
        ...

    def get(self, folder: str, digest: str) -> bytes | None:
        """Return the bytes; None if the store does not have them."""
        ...

    def erase(self, folder: str) -> int:
        """Delete a folder with all bytes in it; return how many attachments they were."""
        ...


def folder_of(process_id: str, state: Draft) -> str:
    """Return the folder of a process in a store. Ids may have characters that names of files may not.

    A process that begins anew after its deletion has another folder, so that what deletes the old one takes nothing of
    the new one.
    """
    folder = blake2b(process_id.encode(), digest_size=16).hexdigest()
    return f"{folder}-{state.deleted_seq}" if state.deleted_seq else folder
