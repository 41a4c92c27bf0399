"""Files that are written: what is there already stays, and what the system says is said in our words."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from seekpoint.schemas.config.private_files import open_private, take_lock
from seekpoint.schemas.errors import ReplayRefused

__all__ = ["NewFile", "beside", "refuse_existing", "unwritable", "writing"]


class NewFile:
    """A file that appears when it is whole: until then it is written beside its name, by one writer at a time.

    Raises ``ReplayRefused`` for one that another is writing, or that is there, unless it may be replaced; and if the
    system refuses. What a killed writer left there is begun anew: the system gave its lock back.
    """

    def __init__(self, what: str, path: Path, *, overwrite: bool) -> None:
        self.path = path
        self._what = what
        self._part = beside(path)
        with self.writing():
            self.out = self._taken()
        try:
            refuse_existing(path, overwrite=overwrite)  # by a writer who finished before this one began
        except ReplayRefused:
            self.abandon()
            raise

    def writing(self) -> AbstractContextManager[None]:
        """Around what is written to ``out``."""
        return writing(self._what, self.path)

    def finish(self) -> None:
        """All is there: give it its name. Idempotent."""
        if self.out.closed:
            return
        with self.writing():
            self.out.flush()
            os.fsync(self.out.fileno())
            if sys.platform == "win32":
                self.out.close()  # no open file can be renamed or removed there
            os.replace(self._part, self.path)
            self.out.close()  # the lock goes last: who waited for the name beside finds another file there, or none

    def abandon(self) -> None:
        """Remove what did not become whole. Idempotent, and of what is whole nothing."""
        if not self.out.closed:
            if sys.platform != "win32":
                self._part.unlink(missing_ok=True)
            with suppress(OSError):  # what a full disk did not take is dropped with the rest
                self.out.close()
            if sys.platform == "win32":
                self._part.unlink(missing_ok=True)

    def _taken(self) -> BinaryIO:
        """The file beside, empty and locked."""
        while True:
            with ExitStack() as given_up:
                file = given_up.enter_context(os.fdopen(open_private(self._part, os.O_RDWR | os.O_CREAT), "r+b"))
                if not take_lock(file.fileno()):
                    hint = "let it end, or name another file"
                    raise ReplayRefused("another is writing this file", path=str(self.path), hint=hint)
                if self._is_beside(file):  # else its writer finished, or gave up, just before it was locked here
                    file.truncate()
                    given_up.pop_all()
                    return file

    def _is_beside(self, file: BinaryIO) -> bool:
        with suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(file.fileno()), os.stat(self._part))
        return False


def refuse_existing(path: Path, *, overwrite: bool) -> None:
    """Raise ``ReplayRefused`` for a file that is there, unless it may be replaced: it may be the only copy."""
    with writing("the file", path):  # a name that no file can have
        is_there = path.exists()
    if is_there and not overwrite:
        hint = "name another file, or replace this one: --overwrite"
        raise ReplayRefused("there is a file of this name", path=str(path), hint=hint)


@contextmanager
def writing(what: str, path: Path) -> Iterator[None]:
    """Raises ``ReplayRefused`` with the path, if the system refuses (no such folder, no space, no right)."""
    try:
        yield
    except OSError as exc:
        raise unwritable(what, path, exc) from exc


def unwritable(what: str, path: Path, error: OSError) -> ReplayRefused:
    """The same, for who writes so often that a ``with`` around it costs."""
    return ReplayRefused(f"{what} cannot be written: {error.strerror}", path=str(path))


def beside(path: Path) -> Path:
    """What a file is called until it is whole."""
    return path.with_name(path.name + ".part")
