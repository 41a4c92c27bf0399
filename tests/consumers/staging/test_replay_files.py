"""The files that a replay writes: each by one writer at a time, and none replaced that nobody meant."""

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
def test_of_two_captures_into_one_file_the_second_is_refused(tmp_path: Path, overwrite: bool) -> None:
    """While the first is under way, whether or not the file may be replaced; the first one becomes whole."""
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


def test_a_capture_that_became_whole_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    """It was not there when the second was made, and is when that begins."""
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


def test_what_a_killed_capture_left_is_in_nobodys_way(tmp_path: Path) -> None:
    """The next one begins there anew: nothing has to be removed first."""
    source, file = filled(), tmp_path / "run.spk"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(file)], check=False, timeout=240)
    assert (killed.returncode, list(tmp_path.iterdir())) == (-9, [part_path(file)])
    with Replay(source, CaptureTarget(file, source.facts())) as replay:
        assert replay.run().checked
    assert len(list(CaptureFile(file).rows())) == 40
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("ends", ["finish", "abandon"])
def test_a_file_that_gets_its_name_while_another_opens_it_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    """Opened before, locked after: that is the other's file by then, and the next one is another."""
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


def test_what_a_replay_writes_is_its_owners_alone(tmp_path: Path) -> None:
    """A capture, the file it goes on from, the map of offsets: whatever the umask, and what was there before."""
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
def test_a_link_that_lies_where_a_capture_is_written_is_not_followed(tmp_path: Path, name: str) -> None:
    """The file it leads to stays as it was: the link is replaced, or refused."""
    victim, source = tmp_path / "victim", filled()
    victim.write_text("precious")
    (tmp_path / name).symlink_to(victim)
    with (
        contextlib.suppress(ReplayRefused),
        Replay(source, CaptureTarget(tmp_path / "run.spk", source.facts(), overwrite=True)) as replay,
    ):
        replay.run()
    assert victim.read_text() == "precious"


def test_a_system_without_locks_is_a_refusal_that_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some file systems have none: that is no other replay which is running."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(ReplayRefused, match="the progress file cannot be locked: No locks available"):
        Replay(filled(), staging(), progress=tmp_path / "job").run()
    with pytest.raises(ReplayRefused, match="the offset map cannot be written: No locks available"):
        Replay(filled(), staging(), offset_map=tmp_path / "map").run()


@pytest.mark.parametrize("dry_run", [False, True])
def test_an_offset_map_that_is_there_is_not_replaced_unless_asked(tmp_path: Path, dry_run: bool) -> None:
    """As with captures; a dry run says so too, and never touches it."""
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
    """Where it cannot be written, or another replay is writing it: not when all the records are there."""
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


def test_there_is_no_map_of_a_replay_that_is_not_whole(tmp_path: Path) -> None:
    """Neither where records differ nor where it was stopped: the same command goes on, with no map in its way."""
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
    """A topic that hides its last record for as long as it is this."""

    def __init__(self, topic: MemoryTopic) -> None:
        self._topic = topic

    def __getattr__(self, name: str) -> object:
        return getattr(self._topic, name)

    def watermarks(self) -> object:
        watermarks = self._topic.watermarks()
        return {at: mark._replace(high=max(mark.low, mark.high - 1)) for at, mark in watermarks.items()}


def test_with_an_offset_map_a_replay_into_a_topic_may_overwrite(tmp_path: Path) -> None:
    """The map. Without one there is nothing to overwrite: a topic is never emptied."""
    file = tmp_path / "run.spk"
    Replay(filled(), CaptureTarget(file, filled().facts())).run()
    with pytest.raises(ReplayRefused, match="never topics"):
        Replay.connect(str(file), "staging/t", clusters={}, overwrite=True)
    with pytest.raises(InvalidSetting, match="no cluster staging"):
        Replay.connect(str(file), "staging/t", clusters={}, overwrite=True, offset_map=tmp_path / "map")
