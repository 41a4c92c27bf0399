"""The files that a replay writes: one writer at a time, and no file replaced without ``overwrite``."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from replay_topics import filled, staging
from seekpoint.consumers.staging.capture.capture_file import CaptureFile
from seekpoint.consumers.staging.capture.capture_target import CaptureTarget
from seekpoint.consumers.staging.capture.new_file import NewFile, part_path
from seekpoint.consumers.staging.copy.memory_topic import MemoryTopic
from seekpoint.consumers.staging.replay_ports import ReplayTarget
from seekpoint.consumers.staging.staging_replay import Replay
from seekpoint.schemas.errors import InvalidSetting, ReplayMismatch, ReplayRefused


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_second_capture_into_the_same_file_is_refused(tmp_path: Path, overwrite: bool) -> None:
    """With and without ``overwrite``; the first capture completes."""
    source, file = filled(), tmp_path / "run.spk"
    refused: list[ReplayRefused] = []

    def meanwhile(*_: object) -> None:
        target = CaptureTarget(file, source.facts(), overwrite=overwrite)
        with (
            Replay(filled(3), target) as second,
            pytest.raises(ReplayRefused, match="another process is writing") as caught,
        ):
            second.run()
        refused.append(caught.value)

    with Replay(source, CaptureTarget(file, source.facts(), overwrite=overwrite)) as first:
        assert first.run(meanwhile).checked
    assert {(one.path, one.hint) for one in refused} == {(str(file), "let it end, or name another file")}
    assert len(list(CaptureFile(file).rows())) == 40
    assert list(tmp_path.iterdir()) == [file]


def test_a_capture_completed_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    """The file appears between the creation and the start of the second capture."""
    source, file = filled(), tmp_path / "run.spk"
    late = Replay(filled(3), CaptureTarget(file, source.facts()))
    Replay(source, CaptureTarget(file, source.facts())).run()
    with late, pytest.raises(ReplayRefused, match="the file exists"):
        late.run()
    assert len(list(CaptureFile(file).rows())) == 40
    assert list(tmp_path.iterdir()) == [file]


KILLED = """
import os, signal, sys
from seekpoint.consumers.staging.capture.capture_target import CaptureTarget
from seekpoint.consumers.staging.replay_ports import ReplayTopicFacts
facts = ReplayTopicFacts(cluster_id="c", topic="t", topic_id="i", partitions=1)
CaptureTarget(sys.argv[1], facts).sender(linger_ms=0)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_part_file_of_a_killed_capture_is_reused(tmp_path: Path) -> None:
    """The next capture overwrites the part file."""
    source, file = filled(), tmp_path / "run.spk"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(file)], check=False, timeout=240)
    assert (killed.returncode, list(tmp_path.iterdir())) == (-9, [part_path(file)])
    with Replay(source, CaptureTarget(file, source.facts())) as replay:
        assert replay.run().checked
    assert len(list(CaptureFile(file).rows())) == 40
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("ends", ["finish", "abandon"])
def test_a_part_file_renamed_while_another_writer_opens_it_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    """A writer that opened the part file before and locked it after the rename opens a new one."""
    path, flock = tmp_path / "file", fcntl.flock
    first = NewFile("a file", path, overwrite=True)
    first.out.write(b"the first")

    def late(file: int, how: int) -> None:
        getattr(first, ends)()
        flock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    second = NewFile("a file", path, overwrite=True)
    assert path.exists() is (ends == "finish")
    assert not path.exists() or path.read_bytes() == b"the first"
    second.out.write(b"the second")
    second.finish()
    assert path.read_bytes() == b"the second"
    assert list(tmp_path.iterdir()) == [path]


def test_only_the_owner_can_read_the_files_of_a_replay(tmp_path: Path) -> None:
    """Capture, progress file and offset map have mode 0600, whatever the umask and the old mode."""
    before = os.umask(0)
    try:
        (tmp_path / "run.spk").write_text("old")
        (tmp_path / "run.spk.part").write_text("left behind")
        (tmp_path / "run.spk.part").chmod(0o666)
        source = filled()
        with Replay(source, CaptureTarget(tmp_path / "run.spk", source.facts(), overwrite=True)) as capturing:
            capturing.run()
        Replay(filled(), staging(), progress=tmp_path / "jobs" / "job", offset_map=tmp_path / "map").run()
    finally:
        os.umask(before)
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in tmp_path.rglob("*")}
    assert modes.pop("jobs") == 0o700
    assert {"run.spk", "job", "map"} <= set(modes)
    assert set(modes.values()) == {0o600}


@pytest.mark.parametrize("name", ["run.spk", "run.spk.part"])
def test_a_link_in_place_of_a_capture_is_not_followed(tmp_path: Path, name: str) -> None:
    """The linked file does not change: the link is replaced or refused."""
    victim, source = tmp_path / "victim", filled()
    victim.write_text("precious")
    (tmp_path / name).symlink_to(victim)
    with (
        contextlib.suppress(ReplayRefused),
        Replay(source, CaptureTarget(tmp_path / "run.spk", source.facts(), overwrite=True)) as replay,
    ):
        replay.run()
    assert victim.read_text() == "precious"


def test_a_file_system_without_locks_is_refused_with_the_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the cause, not another running replay."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(ReplayRefused, match="the progress file cannot be locked: No locks available"):
        Replay(filled(), staging(), progress=tmp_path / "job").run()
    with pytest.raises(ReplayRefused, match="the offset map cannot be written: No locks available"):
        Replay(filled(), staging(), offset_map=tmp_path / "map").run()


@pytest.mark.parametrize("dry_run", [False, True])
def test_an_existing_offset_map_is_replaced_only_with_overwrite(tmp_path: Path, dry_run: bool) -> None:
    """A dry run refuses it too, and never changes it."""
    source, target, file = filled(), staging(), tmp_path / "map"
    file.write_text("of another replay")
    with pytest.raises(ReplayRefused, match="the file exists") as caught:
        Replay(source, target, offset_map=file)
    assert (caught.value.path, "--overwrite" in caught.value.hint) == (str(file), True)
    with Replay(source, target, offset_map=file, overwrite=True) as replay:
        report = replay.dry_run() if dry_run else replay.run()
    assert (report.offset_map, "another" in file.read_text()) == ((None, True) if dry_run else (str(file), False))
    assert list(tmp_path.iterdir()) == [file]


def test_an_offset_map_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    """An offset map that cannot be written, or is being written, is refused at the start."""
    target, file = staging(), tmp_path / "map"
    with pytest.raises(ReplayRefused, match="the offset map cannot be written") as caught:
        Replay(filled(), target, offset_map=tmp_path / "nowhere" / "map").run()
    assert caught.value.path == str(tmp_path / "nowhere" / "map")

    def meanwhile(*_: object) -> None:
        with pytest.raises(ReplayRefused, match="another process is writing"):
            Replay(filled(), target, offset_map=file).run()

    Replay(filled(), staging(), offset_map=file).run(meanwhile)
    assert target.records() == []
    assert list(tmp_path.iterdir()) == [file]


def test_an_incomplete_replay_writes_no_offset_map(tmp_path: Path) -> None:
    """A replay that differs or was stopped writes no map, so the same command can be repeated."""
    source, topic, file = filled(), staging(), tmp_path / "map"

    def again(target: ReplayTarget) -> Replay:
        return Replay(source, target, progress=tmp_path / "job", offset_map=file)

    stopped = again(topic)
    stopped.stop()
    assert not stopped.run().complete
    assert not file.exists()
    with pytest.raises(ReplayMismatch):
        again(Losing(topic)).run()  # type: ignore[arg-type]  # the rest of it is the topic's
    assert not file.exists()
    assert not part_path(file).exists()
    assert again(topic).run().checked
    assert file.exists()


class Losing:
    """A topic that hides its last record."""

    def __init__(self, topic: MemoryTopic) -> None:
        self._topic = topic

    def __getattr__(self, name: str) -> object:
        return getattr(self._topic, name)

    def watermarks(self) -> object:
        watermarks = self._topic.watermarks()
        return {at: mark._replace(high=max(mark.low, mark.high - 1)) for at, mark in watermarks.items()}


def test_overwrite_with_a_topic_needs_an_offset_map(tmp_path: Path) -> None:
    """``overwrite`` replaces the map; without a map it is refused."""
    file = tmp_path / "run.spk"
    Replay(filled(), CaptureTarget(file, filled().facts())).run()
    with pytest.raises(ReplayRefused, match="never topics"):
        Replay.connect(str(file), "staging/t", clusters={}, overwrite=True)
    with pytest.raises(InvalidSetting, match="no cluster staging"):
        Replay.connect(str(file), "staging/t", clusters={}, overwrite=True, offset_map=tmp_path / "map")
