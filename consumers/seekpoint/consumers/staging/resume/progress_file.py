"""What a replay needs to go on after a crash, in one file that is replaced as a whole.

    settled   offsets of the source below which everything was acknowledged
    tail      offsets of the target from which on there may be records that are not settled

Whoever goes on reads the target from ``tail``, learns which records of which partition arrived, and sends the others.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seekpoint.consumers.staging.capture.files import writing
from seekpoint.consumers.staging.copy.tallies import Tallies
from seekpoint.consumers.staging.replay_ports import OffsetRange
from seekpoint.schemas.config.private_files import open_private, private_directory, take_lock, write_private
from seekpoint.schemas.errors import ReplayRefused

__all__ = ["ProgressFile", "ReplayProgress"]

_VERSION = 1


@dataclass(slots=True, kw_only=True)
class ReplayProgress:
    """How far a job is."""

    job: str
    plan: Mapping[str, Any]
    source: str
    """Cluster id, topic and topic id: another topic's offsets mean nothing here."""
    target: str
    stretches: list[OffsetRange]
    gaps: list[list[Any]] = field(default_factory=list)
    target_start: dict[int, int]
    """Where the target ended before the job began."""
    settled: dict[int, int] = field(default_factory=dict)
    tail: dict[int, int] = field(default_factory=dict)
    tallies: Tallies = field(default_factory=Tallies)
    counters: dict[str, int] = field(default_factory=dict)
    seeded: bool = False
    """Whether all seeded entries were acknowledged, or none was asked for."""
    copied: bool = False
    """Whether all records were acknowledged."""
    done: bool = False
    """Whether source and target were compared, and are equal."""

    def to_json(self) -> str:
        """As JSON."""
        data = {
            "version": _VERSION,
            **{name: getattr(self, name) for name in ("job", "plan", "source", "target", "gaps", "counters")},
            **{name: getattr(self, name) for name in ("seeded", "copied", "done")},
            "stretches": [list(stretch) for stretch in self.stretches],
            **{name: _texts(getattr(self, name)) for name in ("target_start", "settled", "tail")},
            "tallies": self.tallies.to_dict(),
        }
        return json.dumps(data, indent=1)

    @classmethod
    def from_json(cls, text: str) -> ReplayProgress:
        """What ``to_json`` gave. Raises ``ValueError``, ``KeyError`` or ``TypeError`` if it is none."""
        data = json.loads(text)
        if data["version"] != _VERSION:
            raise ValueError("another version's")
        return cls(
            **{name: data[name] for name in ("job", "plan", "source", "target", "gaps", "counters")},
            **{name: data[name] for name in ("seeded", "copied", "done")},
            stretches=[OffsetRange(*map(int, stretch)) for stretch in data["stretches"]],
            target_start=_numbers(data["target_start"]),
            settled=_numbers(data["settled"]),
            tail=_numbers(data["tail"]),
            tallies=Tallies.from_dict(data["tallies"]),
        )


class ProgressFile:
    """The file of one job, held by one process at a time. ``None`` as path: nothing is kept."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._lock: int | None = None

    def load(self) -> ReplayProgress | None:
        """Take the file, and give what is in it; None if there is none yet. Raises ``ReplayRefused``."""
        if self.path is None:
            return None
        self._take()
        try:
            return ReplayProgress.from_json(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise ReplayRefused(f"the progress file cannot be read: {exc.strerror}", path=str(self.path)) from exc
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            hint = "remove it to start anew, or name another: --progress"
            raise ReplayRefused("the progress file is none of ours", path=str(self.path), hint=hint) from exc

    def save(self, progress: ReplayProgress) -> None:
        """Replace what the file says: a crash leaves the former or the new one."""
        if self.path is None:
            return
        with writing("the progress file", self.path):
            write_private(self.path, progress.to_json(), sync=True)

    def close(self) -> None:
        """Let others have it."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _take(self) -> None:
        """By a file beside it, since it is replaced itself."""
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
            raise ReplayRefused(f"the progress file cannot be kept: {exc.strerror}", path=str(self.path)) from exc
        if not taken:
            self.close()
            hint = "let it end, or stop it; this one can go on then"
            raise ReplayRefused("this replay is running already", path=str(self.path), hint=hint)


def _texts(offsets: Mapping[int, int]) -> dict[str, int]:
    return {str(partition): offset for partition, offset in sorted(offsets.items())}


def _numbers(offsets: Mapping[str, int]) -> dict[int, int]:
    return {int(partition): int(offset) for partition, offset in offsets.items()}
