"""Process files: the history of one process, read from a capture."""

from __future__ import annotations

from pathlib import Path

import pytest

from owners import Owner
from replay_topics import journal, prod
from seekpoint.consumers.staging.capture.capture_target import CaptureTarget
from seekpoint.consumers.staging.capture.process_file import ProcessFile
from seekpoint.consumers.staging.staging_replay import Replay
from seekpoint.schemas.errors import ReplayRefused


def written(file: Path, *, other_process: bool) -> Path:
    """Capture a process of two entries, and an entry of another process under the key of the first or its own."""
    source = journal(prod(1), 1)
    owner = Owner(source.append, 1, "case-1")
    owner.claim()
    owner.update("n", "1")
    Owner(lambda at, key, *record: source.append(at, key if other_process else b"case-1", *record), 1, "case-2").claim()
    with Replay(source, CaptureTarget(file, source.facts())) as capturing:
        capturing.run()
    return file


def test_a_process_file_skips_poison(tmp_path: Path) -> None:
    """An entry under the key of another process is poison, as for every reader of the journal."""
    found = ProcessFile(written(tmp_path / "run.spk", other_process=False))
    assert found.process_id == "case-1"
    assert [one.offset for one in found.entries] == [0, 1]


def test_a_file_with_two_processes_is_refused(tmp_path: Path) -> None:
    """The error names how to export one process."""
    with pytest.raises(ReplayRefused, match=r"more than one process.*seekpoint export"):
        ProcessFile(written(tmp_path / "run.spk", other_process=True))
