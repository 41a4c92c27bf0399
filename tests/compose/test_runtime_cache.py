"""What a local cluster keeps between starts: used while it is whole, replaced or done without otherwise."""

from __future__ import annotations

import errno
import json
import logging
import os
import stat
from pathlib import Path

import pytest

from seekpoint.compose import LocalCluster, runtime_cache
from seekpoint.compose.runtime import Runtime
from seekpoint.compose.runtime_cache import RuntimeCache, forget_classes
from seekpoint.schemas.errors import ClusterFailed


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the cache ``kafka``."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "seekpoint" / "kafka"


def fill(cache: RuntimeCache, jar: Path) -> None:
    """Prepare it, with one jar and recorded classes."""
    jar.touch()
    cache.keep_jars([str(jar)])
    cache.recording.write_bytes(b"classes" * 1000)
    cache.keep_prepared(b"snapshot")


def test_a_filled_cache_is_used_by_the_next_start(folder: Path, tmp_path: Path) -> None:
    """The jars, the snapshot and the classes are those that were kept; all files are their owner's alone."""
    with RuntimeCache.opened("kafka") as cache:
        assert (cache.jars(), cache.prepared()) == ([], None)
        fill(cache, tmp_path / "a.jar")
    with RuntimeCache.opened("kafka") as cache:
        found = cache.prepared()
        assert cache.jars() == [str(tmp_path / "a.jar")]
    assert found
    assert found.checkpoint == b"snapshot"
    assert found.classes == folder / "kafka.aot"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("damage", ["zeros", "truncated", "gone", "no record", "bad record", "no snapshot"])
def test_damaged_content_is_prepared_again(folder: Path, tmp_path: Path, damage: str) -> None:
    """A JVM crashes with damaged classes, so they are compared with their checksum at each start."""
    with RuntimeCache.opened("kafka") as cache:
        fill(cache, tmp_path / "a.jar")
        classes, record = folder / "kafka.aot", folder / "kafka.aot.json"
        if damage == "zeros":
            classes.write_bytes(b"classes" * 500 + bytes(3500))
        elif damage == "truncated":
            classes.write_bytes(b"classes" * 999)
        elif damage == "gone":
            classes.unlink()
        elif damage == "no record":
            record.unlink()
        elif damage == "bad record":
            record.write_text('{"crc32"')
        else:
            (folder / "bootstrap.checkpoint").unlink()
        assert cache.prepared() is None


def test_other_jars_make_what_was_prepared_useless(folder: Path, tmp_path: Path) -> None:
    """Classes and snapshot belong to their class path."""
    with RuntimeCache.opened("kafka") as cache:
        fill(cache, tmp_path / "a.jar")
        (tmp_path / "a.jar").unlink()
        assert cache.jars() == []
        cache.keep_jars([])
        assert cache.prepared() is None
        assert not (folder / "kafka.aot").exists()


def test_classes_that_crashed_or_failed_are_not_recorded_again(folder: Path, tmp_path: Path) -> None:
    """Another try would take ten seconds at each start."""
    with RuntimeCache.opened("kafka") as cache:
        fill(cache, tmp_path / "a.jar")
        forget_classes(folder / "kafka.aot")
        found = cache.prepared()
        assert found
        assert (found.checkpoint, found.classes) == (b"snapshot", None)
        assert not (folder / "kafka.aot").exists()
        assert cache.keep_prepared(b"other").classes is None
        again = cache.prepared()
        assert again
        assert (again.checkpoint, again.classes) == (b"other", None)


def refuse_writing(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """The folder's lock cannot be opened. (The tests may run as root, who ignores modes.)"""

    def refused(path: Path, flags: int) -> int:
        raise OSError(code, os.strerror(code), str(path))

    monkeypatch.setattr(runtime_cache, "open_private", refused)


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_a_cache_that_cannot_be_written_is_done_without(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    """A complete one is used as it is, silently; an incomplete one is replaced for this start, with one line."""
    with RuntimeCache.opened("kafka") as cache:
        fill(cache, tmp_path / "a.jar")
    refuse_writing(monkeypatch, code)
    with caplog.at_level(logging.WARNING, "seekpoint.compose"):
        with RuntimeCache.opened("kafka") as cache:
            assert cache.path == folder
            assert cache.prepared()
        assert caplog.messages == []
        (folder / "bootstrap.checkpoint").unlink()
        with RuntimeCache.opened("kafka") as cache:
            assert not cache.is_kept
            temporary = cache.path
            assert cache.keep_prepared(b"snapshot").checkpoint == b"snapshot"
    assert temporary != folder
    assert not temporary.exists()
    assert len(caplog.messages) == 1
    assert "XDG_CACHE_HOME" in caplog.text


def test_a_cache_of_somebody_else_is_refused(folder: Path, tmp_path: Path) -> None:
    """What lies in it would be executed."""
    folder.parent.mkdir()
    folder.symlink_to(tmp_path)
    with pytest.raises(ClusterFailed, match="symbolic link"), RuntimeCache.opened("kafka"):
        pass


def test_a_full_disk_costs_the_next_start_only(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """This one has the snapshot, and goes on with one line."""

    def full(path: Path, content: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    with RuntimeCache.opened("kafka") as cache, caplog.at_level(logging.WARNING, "seekpoint.compose"):
        monkeypatch.setattr(runtime_cache, "write_private", full)
        assert cache.keep_prepared(b"snapshot").checkpoint == b"snapshot"
    assert len(caplog.messages) == 1
    assert "No space left" in caplog.text


@pytest.mark.own_cluster
def test_a_jvm_that_crashes_with_its_classes_starts_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The checksum fits, Java dies all the same: the cluster comes up, and the classes are not used again."""
    whole = Runtime.prepared()
    assert whole.classes
    cached = tmp_path / "kafka.aot"
    content = bytearray(whole.classes.read_bytes())
    content[len(content) * 2 // 3 :] = bytes(len(content) - len(content) * 2 // 3)
    cached.write_bytes(content)
    damaged = Runtime(java=whole.java, class_path=whole.class_path, checkpoint=whole.checkpoint, classes=cached)
    monkeypatch.setattr(Runtime, "prepared", lambda *_: damaged)
    with caplog.at_level(logging.WARNING, "seekpoint.compose"), LocalCluster() as cluster:
        assert all(part.answers for part in cluster.status())
    assert "Java crashed" in caplog.text
    assert json.loads(cached.with_name("kafka.aot.json").read_text()) == {"crc32": None}
    assert not cached.exists()
