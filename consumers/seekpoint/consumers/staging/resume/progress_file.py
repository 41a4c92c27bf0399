"""The progress of a replay, in one file that is replaced atomically.

    settled   offsets of the source below which all records are acknowledged
    tail      offsets of the target from which on there may be records that are not settled

A resumed replay reads the target from ``tail``, learns which records were delivered, and sends the others.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seekpoint.consumers.staging.capture.new_file import writing
from seekpoint.consumers.staging.copy.tallies import Tallies
from seekpoint.consumers.staging.replay_ports import OffsetRange
from seekpoint.schemas.config.private_files import open_private, private_directory, take_lock, write_private
from seekpoint.schemas.errors import ReplayRefused

_VERSION = 1


@dataclass(slots=True, kw_only=True)
class ReplayProgress:
    """The saved progress of a job."""

    job: str
    plan: Mapping[str, Any]
    source: str
    """Cluster id, topic and topic id, because offsets of another topic mean nothing here."""
    target: str
    ranges: list[OffsetRange]
    gaps: list[list[Any]] = field(default_factory=list)
    target_start: dict[int, int]
    """The end offsets of the target before the job began."""
    settled: dict[int, int] = field(default_factory=dict)
    tail: dict[int, int] = field(default_factory=dict)
    tallies: Tallies = field(default_factory=Tallies)
    counters: dict[str, int] = field(default_factory=dict)
    seeded: bool = False
    """Whether all seeded entries were acknowledged."""
    copied: bool = False
    """Whether all records were acknowledged."""
    done: bool = False
    """Whether source and target were compared and are equal."""

    def to_json(self) -> str:
        """Return JSON."""
        data = {
            "version": _VERSION,
            **{name: getattr(self, name) for name in ("job", "plan", "source", "target", "gaps", "counters")},
            **{name: getattr(self, name) for name in ("seeded", "copied", "done")},
            "ranges": [list(each) for each in self.ranges],
            **{name: _texts(getattr(self, name)) for name in ("target_start", "settled", "tail")},
            "tallies": self.tallies.to_dict(),
        }
        return json.dumps(data, indent=1)

    @classmethod
    def from_json(cls, text: str) -> ReplayProgress:
        """Parse what ``to_json`` returned. Raises ``ValueError``, ``KeyError`` or ``TypeError`` for other text."""
        data = json.loads(text)
        if data["version"] != _VERSION:
            raise ValueError("another version")
        return cls(
            **{name: data[name] for name in ("job", "plan", "source", "target", "gaps", "counters")},
            **{name: data[name] for name in ("seeded", "copied", "done")},
            ranges=[OffsetRange(*map(int, each)) for each in data["ranges"]],
            target_start=_numbers(data["target_start"]),
            settled=_numbers(data["settled"]),
            tail=_numbers(data["tail"]),
            tallies=Tallies.from_dict(data["tallies"]),
        )


class ProgressFile:
    """The progress file of one job, locked by one process at a time. Without a ``path`` nothing is saved."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._lock: int | None = None

    def load(self) -> ReplayProgress | None:
        """Lock the file and return its progress; None if it does not exist. Raises ``ReplayRefused``."""
        if self.path is None:
            return None
        self._acquire()
        try:
            return ReplayProgress.from_json(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise ReplayRefused(f"the progress file cannot be read: {exc.strerror}", path=str(self.path)) from exc
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            hint = "remove it to start over, or name another: --progress"
            raise ReplayRefused("the file is not a progress file", path=str(self.path), hint=hint) from exc

    def save(self, progress: ReplayProgress) -> None:
        """Replace the file atomically."""
        if self.path is None:
            return
        with writing("the progress file", self.path):
            write_private(self.path, progress.to_json(), sync=True)

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _acquire(self) -> None:
        """Lock a second file, because the progress file itself is replaced."""
        assert self.path is not None
        if self._lock is not None:
            return
        try:
            if not self.path.parent.is_dir():
                private_directory(self.path.parent)
            self._lock = open_private(f"{self.path}.lock", os.O_RDWR | os.O_CREAT)
            taken = take_lock(self._lock)
        except OSError as exc:
            self.close()
            raise ReplayRefused(f"the progress file cannot be locked: {exc.strerror}", path=str(self.path)) from exc
        if not taken:
            self.close()
            hint = "let it end, or stop it and run the same command again"
            raise ReplayRefused("this replay is running already", path=str(self.path), hint=hint)


def _texts(offsets: Mapping[int, int]) -> dict[str, int]:
    return {str(partition): offset for partition, offset in sorted(offsets.items())}


def _numbers(offsets: Mapping[str, int]) -> dict[int, int]:
    return {int(partition): int(offset) for partition, offset in offsets.items()}
