"""Files and folders that hold what a journal holds: for their owner alone, and never by way of somebody's link.

Others may be able to write where such a file is to be (a shared folder, a hostile checkout), and may have put something
there first. So nothing is opened through a symbolic link, nothing that another user owns or that has a second name is
written to, and what is made is readable by its owner only. Windows has neither these modes nor these links for ordinary
users: there a folder's own access list decides, and the checks are left out.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from pathlib import Path

__all__ = [
    "check_own_directory",
    "free_lock",
    "open_private",
    "private_directory",
    "private_tree",
    "take_lock",
    "write_private",
]

_SAFE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_SAFE |= getattr(os, "O_NONBLOCK", 0)
"""Not blocking means nothing for a file; a named pipe would else keep whoever opens it waiting for its other end."""
_LOCK_AT = 1 << 40
"""Where Windows locks a byte: behind all content, as a locked byte cannot be read by others there."""


def open_private(path: str | Path, flags: int) -> int:
    """A descriptor of a file that is its owner's alone: made with 0600, or there already and made so.

    Raises ``OSError`` for a link, for what is no file, and for a file that another user owns or that has another name
    too. ``O_TRUNC`` must not be among ``flags``: the checks come first.
    """
    if os.path.islink(path):  # said in words; O_NOFOLLOW is what makes sure
        raise OSError(errno.ELOOP, "it is a symbolic link", str(path))
    descriptor = os.open(path, flags | _SAFE, 0o600)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or (_is_posix() and found.st_nlink > 1):
            raise OSError(errno.EEXIST, "it is no file, or a file with another name too", str(path))
        _check_owner(found, str(path))
        if _is_posix() and found.st_mode & 0o077:
            os.fchmod(descriptor, 0o600)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def write_private(path: Path, content: str | bytes, *, sync: bool = False) -> None:
    """Replace a file in one step by one that only its owner can read. The old file is not opened."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(open_private(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    os.replace(fresh, path)


def private_directory(path: Path) -> None:
    """Make a folder for its owner alone, or make the one that is there so. Raises ``OSError`` as ``open_private``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    check_own_directory(path)


def check_own_directory(path: Path) -> None:
    """Raise ``OSError`` unless the folder is no link and this user's own; close it to others."""
    _take_over(path, path.lstat())


def private_tree(path: Path) -> None:
    """The same for a folder and all in it: no link anywhere, nothing of another user."""
    private_directory(path)
    waiting = [path]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                try:
                    found = entry.stat(follow_symlinks=False)
                except FileNotFoundError:  # what a broker that is ending removes
                    continue
                if stat.S_ISDIR(found.st_mode):
                    _take_over(Path(entry.path), found)
                    waiting.append(Path(entry.path))
                else:
                    _refuse_link(Path(entry.path), found)
                    _check_owner(found, entry.path)


def take_lock(descriptor: int) -> bool:
    """Whether the open file is this process's alone from now on; False if it is another's.

    The system gives it back when its last holder closes it or dies, however it dies.
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
        raise OSError(errno.ENOTDIR, "it is no folder", str(path))
    _check_owner(found, str(path))
    if _is_posix() and found.st_mode & 0o077:
        path.chmod(0o700)


def _refuse_link(path: Path, found: os.stat_result) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise OSError(errno.ELOOP, "it is a symbolic link", str(path))


def _check_owner(found: os.stat_result, path: str) -> None:
    if _is_posix() and found.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "another user owns it", path)


def _is_posix() -> bool:
    return hasattr(os, "geteuid")
