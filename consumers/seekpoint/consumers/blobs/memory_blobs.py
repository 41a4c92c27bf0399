"""A blob store in memory, for tests and tutorials."""

from __future__ import annotations

import threading


class MemoryBlobs:
    """A ``BlobStore`` in memory."""

    def __init__(self, name: str = "memory") -> None:
        self.name = name
        self.blobs: dict[tuple[str, str], bytes] = {}
        """The bytes, by folder and digest. A test may change them."""
        self._lock = threading.Lock()

    def put(self, folder: str, digest: str, data: bytes) -> None:
        """Keep ``data``."""
        with self._lock:
            self.blobs[folder, digest] = data

    def get(self, folder: str, digest: str) -> bytes | None:
        """Return the bytes; None if the store does not have them."""
        with self._lock:
            return self.blobs.get((folder, digest))

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, of its folders and of the bytes in it, sorted; none if it is not there."""
        with self._lock:
            paths = [f"{parent}/{digest}" for parent, digest in self.blobs]
        inside = f"{folder}/"
        return sorted({path.removeprefix(inside).split("/")[0] for path in paths if path.startswith(inside)})

    def erase(self, folder: str) -> int:
        """Delete a folder with all bytes in it; return how many attachments they were."""
        with self._lock:
            gone = [key for key in self.blobs if f"{key[0]}/".startswith(f"{folder}/")]
            for key in gone:
                del self.blobs[key]
            return len(gone)
