"""The port of blob stores: where the bytes of large attachments are.

A store keeps bytes in a folder, by their digest. It is never trusted: who reads compares the digest. ``process_blobs``
says which folders a process has.
"""

from __future__ import annotations

from typing import Protocol


class BlobStore(Protocol):
    """Keeps the bytes of attachments. All calls block and are thread-safe. A folder is a path, as ``first/second``.

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

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, of its folders and of the bytes in it, sorted; none if it is not there."""
        ...

    def erase(self, folder: str) -> int:
        """Delete a folder with all bytes in it; return how many attachments they were."""
        ...
