"""A blob store in a folder, of this machine or of a file system that all nodes share."""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from seekpoint.schemas.errors import BlobStoreUnavailable

_TRIES_MAX = 100
"""How often a call is tried while others erase the same folder, or put bytes there."""

_ERASED_MEANWHILE = (FileNotFoundError, FileExistsError)
"""What ``put`` meets where its folder is erased: ``mkdir`` raises the second if the folder was there and is not."""

_FILLED_MEANWHILE = (errno.ENOTEMPTY, None)
"""The numbers of the errors that ``erase`` meets where somebody puts bytes. ``shutil.rmtree`` raises one without a
number if the folder is another one than it was a moment ago: erased by somebody else, and made again for new bytes."""


class FolderBlobs:
    """A ``BlobStore`` in a folder: a file for each attachment.

    A file appears at once and whole, after its bytes are on the disk. Only its owner may read it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path).absolute()  # the program may change its working directory
        self.name = f"file://{self._path}"

    def put(self, folder: str, digest: str, data: bytes) -> None:
        """Keep ``data``; return once it is on the disk."""
        file = self._file(folder, digest)
        for tries_left in reversed(range(_TRIES_MAX)):
            try:
                self._put(file, data)
            except OSError as exc:
                if not (tries_left and isinstance(exc, _ERASED_MEANWHILE)):
                    raise self._unavailable(exc) from exc
            else:
                return

    def _put(self, file: Path, data: bytes) -> None:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (file.exists() and file.stat().st_size == len(data) and file.read_bytes() == data):
            self._write(file, data)
        for changed in file.parents:  # also if the file was there: whoever put it may not have come to this yet
            _sync(changed)
            if changed == self._path:
                return

    @staticmethod
    def _write(file: Path, data: bytes) -> None:
        fresh = file.with_name(f".{file.name}.{uuid4().hex}")
        try:
            with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as written:
                written.write(data)
                written.flush()
                os.fsync(written.fileno())
            os.replace(fresh, file)
        finally:
            with suppress(FileNotFoundError):
                fresh.unlink()

    def get(self, folder: str, digest: str) -> bytes | None:
        """Return the bytes; None if the store does not have them."""
        try:
            return self._file(folder, digest).read_bytes()
        except FileNotFoundError:
            self._check_there()
            return None
        except OSError as exc:
            raise self._unavailable(exc) from exc

    def erase(self, folder: str) -> int:
        """Delete a folder with all bytes in it; return how many attachments they were."""
        gone = self._path / folder
        files = set[Path]()
        for tries_left in reversed(range(_TRIES_MAX)):
            try:
                files |= {one for one in gone.rglob("[!.]*") if one.is_file()}
                shutil.rmtree(gone)
            except FileNotFoundError:
                if not gone.exists():
                    break
            except OSError as exc:
                if not (tries_left and exc.errno in _FILLED_MEANWHILE):
                    raise self._unavailable(exc) from exc
        if gone.parent != self._path:
            with suppress(OSError):  # it has other folders, or is not there
                gone.parent.rmdir()
        return len(files)

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, of its folders and of the bytes in it, sorted; none if it is not there."""
        try:
            return sorted(one.name for one in (self._path / folder).iterdir() if not one.name.startswith("."))
        except FileNotFoundError:
            self._check_there()
            return []
        except OSError as exc:
            raise self._unavailable(exc) from exc

    def _file(self, folder: str, digest: str) -> Path:
        return self._path / folder / digest

    def _check_there(self) -> None:
        if not self._path.is_dir():
            raise BlobStoreUnavailable(
                "the folder of the blob store is not there", store=self.name,
                hint="mount its file system, or make the folder if the store is new, then make the same call again",
            )  # fmt: skip

    def _unavailable(self, error: OSError) -> BlobStoreUnavailable:
        return BlobStoreUnavailable(f"the blob store failed: {error.strerror or error}", store=self.name)


def _sync(folder: Path) -> None:
    """Have the names in a folder on the disk, where the system can."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
