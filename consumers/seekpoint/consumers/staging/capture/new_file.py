"""New files that appear once they are complete, with errors of the system as ``ReplayRefused``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from seekpoint.schemas.config.private_files import open_private, take_lock
from seekpoint.schemas.errors import ReplayRefused


class NewFile:
    """A file that gets its name once it is complete. Until then one writer at a time writes ``NAME.part``.

    Raises ``ReplayRefused`` if another process writes the file, if it exists (unless ``overwrite``), or if the system
    refuses. The part file of a killed writer is written again, because its lock was released.
    """

    def __init__(self, what: str, path: Path, *, overwrite: bool) -> None:
        self.path = path
        self._what = what
        self._part = part_path(path)
        with self.writing():
            self.out = self._open_part()
        try:
            refuse_existing(path, overwrite=overwrite)  # another writer may have finished meanwhile
        except ReplayRefused:
            self.abandon()
            raise

    def writing(self) -> AbstractContextManager[None]:
        """Return a context that translates the errors of writing to ``out``."""
        return writing(self._what, self.path)

    def finish(self) -> None:
        """Give the complete file its name. Idempotent."""
        if self.out.closed:
            return
        with self.writing():
            self.out.flush()
            os.fsync(self.out.fileno())
            if sys.platform == "win32":
                self.out.close()  # Windows cannot rename or remove an open file
            os.replace(self._part, self.path)
            self.out.close()  # the lock goes last: another writer then finds a new part file, or none

    def abandon(self) -> None:
        """Remove an incomplete file. Idempotent; a complete file remains."""
        if not self.out.closed:
            if sys.platform != "win32":
                self._part.unlink(missing_ok=True)
            with suppress(OSError):  # a full disk may refuse the last bytes; the file is removed anyway
                self.out.close()
            if sys.platform == "win32":
                self._part.unlink(missing_ok=True)

    def _open_part(self) -> BinaryIO:
        """Open, lock and empty the part file."""
        while True:
            with ExitStack() as on_failure:
                file = on_failure.enter_context(os.fdopen(open_private(self._part, os.O_RDWR | os.O_CREAT), "r+b"))
                if not take_lock(file.fileno()):
                    hint = "let it end, or name another file"
                    raise ReplayRefused("another process is writing this file", path=str(self.path), hint=hint)
                if self._is_part(file):  # else its writer finished, or gave up, just before the lock was taken
                    file.truncate()
                    on_failure.pop_all()
                    return file

    def _is_part(self, file: BinaryIO) -> bool:
        with suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(file.fileno()), os.stat(self._part))
        return False


def refuse_existing(path: Path, *, overwrite: bool) -> None:
    """Raise ``ReplayRefused`` for an existing file, unless ``overwrite``: it may be the only copy."""
    with writing("the file", path):  # a name that no file can have
        exists = path.exists()
    if exists and not overwrite:
        hint = "name another file, or replace this one: --overwrite"
        raise ReplayRefused("the file exists", path=str(path), hint=hint)


@contextmanager
def writing(what: str, path: Path) -> Iterator[None]:
    """Raise ``ReplayRefused`` with the path if the system refuses (no such folder, no space, no permission)."""
    try:
        yield
    except OSError as exc:
        raise write_error(what, path, exc) from exc


def write_error(what: str, path: Path, error: OSError) -> ReplayRefused:
    """Return the error of ``writing``, for code that writes too often for a ``with`` around each write."""
    return ReplayRefused(f"{what} cannot be written: {error.strerror}", path=str(path))


def part_path(path: Path) -> Path:
    """Return the name of an incomplete file."""
    return path.with_name(path.name + ".part")
