"""Private files and folders: only their owner can read them, and no path to them follows a symbolic link.

They hold data of a journal. Other users may have write access to the place of such a file (a shared folder, a hostile
checkout) and may have created something there before. So no file is opened through a symbolic link; no file that
another user owns, or that has a second hard link, is written; new files are readable by their owner only. Windows has
neither these modes nor, for ordinary users, these links: there the checks are left out and the folder's access list
decides.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from pathlib import Path

_SAFE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_SAFE |= getattr(os, "O_NONBLOCK", 0)
"""O_NONBLOCK has no effect on a file; without it, opening a named pipe would wait for its other end."""
_LOCK_AT = 1 << 40
"""The position of the byte that is locked on Windows. It is beyond all content, because others cannot read it."""


def open_private(path: str | Path, flags: int) -> int:
    """Open a private file and return its descriptor. The file is created with mode 0600, or its mode is changed to it.

    Raises ``OSError`` for a link, for anything that is no file, and for a file that another user owns or that has a
    second hard link. ``O_TRUNC`` must not be among ``flags``, because the file is checked after it is opened.
    """
    if os.path.islink(path):  # for a clear message; O_NOFOLLOW is the real check
        raise OSError(errno.ELOOP, "is a symbolic link", str(path))
    descriptor = os.open(path, flags | _SAFE, 0o600)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or (_is_posix() and found.st_nlink > 1):
            raise OSError(errno.EEXIST, "is no file, or has a second hard link", str(path))
        _check_owner(found, str(path))
        if _is_posix() and found.st_mode & 0o077:
            os.fchmod(descriptor, 0o600)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def write_private(path: Path, content: str | bytes, *, sync: bool = False) -> None:
    """Replace a file atomically by a private one. The old file is not opened."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(open_private(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    os.replace(fresh, path)


def private_directory(path: Path) -> None:
    """Create a private folder, or make an existing one private. Raises ``OSError`` as ``open_private`` does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    check_own_directory(path)


def check_own_directory(path: Path) -> None:
    """Raise ``OSError`` if the folder is a link or another user's; remove the access rights of others."""
    _take_over(path, path.lstat())


def private_tree(path: Path) -> None:
    """Make a folder and all folders in it private. Raises ``OSError`` for a link or another user's file in it."""
    private_directory(path)
    waiting = [path]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                try:
                    found = entry.stat(follow_symlinks=False)
                except FileNotFoundError:  # a broker that stops removes files
                    continue
                if stat.S_ISDIR(found.st_mode):
                    _take_over(Path(entry.path), found)
                    waiting.append(Path(entry.path))
                else:
                    _refuse_link(Path(entry.path), found)
                    _check_owner(found, entry.path)


def take_lock(descriptor: int) -> bool:
    """Lock the open file for this process and return True; return False if another process holds the lock.

    The operating system releases the lock when its last holder closes the file or dies.
    """
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(descriptor, _LOCK_AT, os.SEEK_SET)
            try:
                msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            finally:
                os.lseek(descriptor, 0, os.SEEK_SET)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def free_lock(descriptor: int) -> None:
    """Release a lock at once, even if a fork of this process still has the file open."""
    if sys.platform == "win32":
        import msvcrt

        os.lseek(descriptor, _LOCK_AT, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_UN)


def _take_over(path: Path, found: os.stat_result) -> None:
    _refuse_link(path, found)
    if not stat.S_ISDIR(found.st_mode):
        raise OSError(errno.ENOTDIR, "is no folder", str(path))
    _check_owner(found, str(path))
    if _is_posix() and found.st_mode & 0o077:
        path.chmod(0o700)


def _refuse_link(path: Path, found: os.stat_result) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise OSError(errno.ELOOP, "is a symbolic link", str(path))


def _check_owner(found: os.stat_result, path: str) -> None:
    if _is_posix() and found.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "another user owns it", path)


def _is_posix() -> bool:
    return hasattr(os, "geteuid")
