"""The cache of a local cluster's programs: one private folder for each version of Java, Kafka and their options.

It holds the list of Kafka's jars, the first metadata snapshot of a broker, and the recorded classes of Kafka. The
record of a checksum is written last, so an interrupted or damaged recording is never used. Where the folder cannot be
written, a start does without it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import tempfile
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path

from seekpoint.schemas.config.private_files import (
    check_own_directory,
    open_private,
    private_directory,
    take_lock,
    write_private,
)
from seekpoint.schemas.errors import ClusterFailed

_LOCK_INTERVAL_S = 0.02
_NOT_WRITABLE = {errno.EROFS, errno.EACCES, errno.ENOSPC, errno.EDQUOT}

_logger = logging.getLogger("seekpoint.compose")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """The files of a broker's start: its first metadata snapshot and, unless they could not be recorded, classes."""

    checkpoint: bytes
    classes: Path | None


class RuntimeCache:
    """An opened cache. ``is_kept`` tells whether later starts will find what is written now."""

    def __init__(self, path: Path, *, is_kept: bool) -> None:
        self.path = path
        self.is_kept = is_kept

    @classmethod
    @contextlib.contextmanager
    def opened(cls, name: str) -> Iterator[RuntimeCache]:
        """Open the cache, one process at a time: two downloads into one cache would damage each other.

        Use a folder that cannot be written if it is complete. Otherwise use a temporary one and log a warning. Raises
        ``ClusterFailed`` for a folder that is a link or another user's, because its content would be executed.
        """
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        path = root / "seekpoint" / name
        try:
            private_directory(path)
            descriptor = open_private(path / "lock", os.O_RDWR | os.O_CREAT)
        except OSError as exc:
            if exc.errno not in _NOT_WRITABLE:
                raise _unusable(path, exc) from exc
            reason = exc.strerror
        else:
            with os.fdopen(descriptor, "r+b") as lock:
                while not take_lock(lock.fileno()):
                    time.sleep(_LOCK_INTERVAL_S)
                yield cls(path, is_kept=True)
            return
        with _without_writing(path, reason) as cache:
            yield cache

    @property
    def recording(self) -> Path:
        """The file into which the JVM records classes. ``keep_prepared`` makes it the one that brokers use."""
        return self.path / "kafka.aot.new"

    @property
    def _classes(self) -> Path:
        return self.path / "kafka.aot"

    @property
    def _checkpoint(self) -> Path:
        return self.path / "bootstrap.checkpoint"

    @property
    def _record(self) -> Path:
        return self.path / "kafka.aot.json"

    def jars(self) -> list[str]:
        """Return the cached list of Kafka's jars, or an empty list if there is none or one of them is gone."""
        with contextlib.suppress(OSError, ValueError, TypeError):
            jars = [str(jar) for jar in json.loads((self.path / "class_path.json").read_text())]
            if all(map(os.path.exists, jars)):
                return jars
        return []

    def keep_jars(self, jars: list[str]) -> None:
        """Write the list of jars. What was prepared belongs to another class path, so it is removed."""
        with self._written():
            for stale in (self._record, self._classes, self._checkpoint):
                stale.unlink(missing_ok=True)
            write_private(self.path / "class_path.json", json.dumps(jars))

    def prepared(self) -> Prepared | None:
        """Return what was prepared. None if there is nothing, or if the recorded classes are damaged."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            record = json.loads(self._record.read_text())
            checkpoint = self._checkpoint.read_bytes()
            if record["crc32"] is None:  # they could not be recorded, and another try would take as long again
                return Prepared(checkpoint=checkpoint, classes=None)
            if checkpoint and record["crc32"] == _checksum(self._classes):
                return Prepared(checkpoint=checkpoint, classes=self._classes)
        return None

    def keep_prepared(self, checkpoint: bytes) -> Prepared:
        """Keep the snapshot and the recorded classes, if there are any, and return them."""
        classes, checksum = None, None
        with self._written():
            write_private(self._checkpoint, checkpoint)
            if self.recording.exists():
                checksum = _checksum(self.recording)
                self.recording.replace(self._classes)
                classes = self._classes
            else:
                self._classes.unlink(missing_ok=True)
            write_private(self._record, json.dumps({"crc32": checksum}))
        return Prepared(checkpoint=checkpoint, classes=classes)

    def discard_recording(self) -> None:
        """Remove what an interrupted recording left."""
        with contextlib.suppress(OSError):
            for left in self.path.glob(f"{self.recording.name}*"):
                left.unlink()

    @contextlib.contextmanager
    def _written(self) -> Iterator[None]:
        """Log a warning where something cannot be written: the next start is slow again, this one goes on."""
        try:
            yield
        except OSError as exc:
            if self.is_kept:
                _logger.warning("%s; the next start prepares Kafka again", _what_failed(self.path, exc.strerror))


def forget_classes(classes: Path) -> None:
    """Let no later broker use recorded classes with which one has crashed."""
    with contextlib.suppress(OSError):
        write_private(classes.with_name("kafka.aot.json"), json.dumps({"crc32": None}))
        classes.unlink()


@contextlib.contextmanager
def _without_writing(path: Path, reason: str | None) -> Iterator[RuntimeCache]:
    cache = RuntimeCache(path, is_kept=False)
    if _is_own(path) and cache.jars() and cache.prepared():
        yield cache
        return
    _logger.warning("%s; Kafka is prepared anew at each start", _what_failed(path, reason))
    with tempfile.TemporaryDirectory(prefix="seekpoint-cache-", ignore_cleanup_errors=True) as temporary:
        yield RuntimeCache(Path(temporary), is_kept=False)


def _is_own(path: Path) -> bool:
    try:
        check_own_directory(path)
    except OSError:
        return False
    return True


def _checksum(path: Path) -> int:
    """Return the CRC-32 of a file. It takes 30 ms; the JVM's own check of its classes is off, and takes 60 ms."""
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
        return zlib.crc32(content)


def _what_failed(path: Path, reason: str | None) -> str:
    return f"the cache {path} cannot be written ({reason}): set XDG_CACHE_HOME to a directory of your own"


def _unusable(path: Path, exc: OSError) -> ClusterFailed:
    return ClusterFailed(
        f"the cache cannot be used: {exc.strerror}",
        directory=str(path),
        hint="set XDG_CACHE_HOME to a directory of your own",
    )
