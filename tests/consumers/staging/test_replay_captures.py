"""Captures: a replay into a file, and out of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from owners import Owner
from replay_topics import assert_equal, filled, folded, journal, prod, staging
from seekpoint.consumers.staging.capture.capture_file import CaptureFile
from seekpoint.consumers.staging.capture.capture_target import CaptureTarget
from seekpoint.consumers.staging.copy.pace import Pace
from seekpoint.consumers.staging.copy.selection import Selection
from seekpoint.consumers.staging.masks.mask_rules import MaskRules
from seekpoint.consumers.staging.replay_plan import Plan
from seekpoint.consumers.staging.replay_ports import OffsetRange
from seekpoint.consumers.staging.staging_replay import Replay
from seekpoint.schemas.errors import ReplayRefused


def test_a_replayed_capture_equals_its_source(tmp_path: Path) -> None:
    """Coordinates, times, headers and nulls are equal, for any Avro tool and in a replay of the file."""
    source, file = journal(filled(), 4), tmp_path / "run.spk"
    source.compact(1, [3])
    assert Replay(source, CaptureTarget(file, source.facts())).run().checked
    capture = CaptureFile(file)
    assert capture.facts().topic_id == source.facts().topic_id
    assert capture.schemas() == source.schemas()
    target = staging()
    report = Replay(capture, target).run()
    assert report.replayed == 39
    assert_equal(source, target)
    slices = Replay(capture, staging(), Plan(selection=Selection(offsets={1: (2, 5)}))).run()
    assert (slices.replayed, slices.missing_offsets) == (3, 1)
    late = Selection(since_ms=1_700_000_000_030)
    assert Replay(capture, staging(), Plan(selection=late)).run().replayed > 0


def test_a_masked_capture_can_be_replayed_and_folds(tmp_path: Path) -> None:
    """Records whose keys changed are in the partitions of their new keys, in order."""
    source, file = journal(prod(), 4), tmp_path / "run.spk"
    for number in range(9):
        owner = Owner(source.append, 4, f"case-{number}")
        owner.claim()
        owner.update("n", str(number))
    masks = MaskRules.from_dict(
        {"mask": [{"kinds": ["claim", "context_updated"], "path": "process_id", "do": "hash"}]}, key=bytes(32)
    )
    assert Replay(source, CaptureTarget(file, source.facts()), Plan(masks=masks)).run().checked
    assert b"case-" not in file.read_bytes()
    target = staging(2)
    Replay(CaptureFile(file), target).run()
    assert {state.content_hash for state in folded(target).values()} == {
        state.content_hash for state in folded(source).values()
    }


def test_an_incomplete_capture_is_no_capture(tmp_path: Path) -> None:
    """A stopped capture leaves no file; a truncated file and other bytes are refused."""
    source, file = filled(), tmp_path / "run.spk"
    replay = Replay(source, CaptureTarget(file, source.facts()), Plan(pace=Pace(rate=20)))
    replay.stop()
    replay.run()
    replay.close()
    assert list(tmp_path.iterdir()) == []
    Replay(source, CaptureTarget(file, source.facts())).run()
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(ReplayRefused, match="damaged or cut off"):
        Replay(CaptureFile(file), staging()).run()
    file.write_bytes(b"no capture")
    with pytest.raises(ReplayRefused, match="not a capture"):
        CaptureFile(file)


@pytest.mark.parametrize("dry_run", [False, True])
def test_an_existing_capture_is_replaced_only_with_overwrite(tmp_path: Path, dry_run: bool) -> None:
    """Without ``overwrite`` the file stays. With it, the old file stays until the new one is complete."""
    source, file = filled(), tmp_path / "run.spk"
    file.write_bytes(b"an incident")
    with pytest.raises(ReplayRefused, match="the file exists") as caught:
        Replay(source, CaptureTarget(file, source.facts())).run()
    assert (caught.value.path, "--overwrite" in caught.value.hint) == (str(file), True)
    with Replay(source, CaptureTarget(file, source.facts(), overwrite=True)) as replay:
        replay.dry_run() if dry_run else replay.run(lambda *_: check(file))
    if dry_run:
        check(file)
    else:
        assert len(list(CaptureFile(file).rows())) == 40
    assert list(tmp_path.iterdir()) == [file]


def check(file: Path) -> None:
    assert file.read_bytes() == b"an incident"


def test_overwrite_is_refused_for_a_topic(tmp_path: Path) -> None:
    """``overwrite`` with a topic is refused before anything is connected."""
    source, file = filled(), tmp_path / "run.spk"
    Replay(source, CaptureTarget(file, source.facts())).run()
    with pytest.raises(ReplayRefused, match="the file exists"):
        Replay.connect(str(tmp_path / "run.spk"), str(copied(file)), clusters={})
    with Replay.connect(str(file), str(copied(file)), clusters={}, overwrite=True) as again:
        assert again.run().replayed == 40
    with pytest.raises(ReplayRefused, match="never topics"):
        Replay.connect(str(file), "staging/t", clusters={}, overwrite=True)


def copied(file: Path) -> Path:
    other = file.with_name("other.spk")
    other.write_bytes(file.read_bytes())
    return other


@pytest.mark.parametrize("fails", ["fsync", "replace"])
def test_a_full_disk_is_refused_with_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    """The incomplete file is removed."""
    source, file = filled(), tmp_path / "run.spk"

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, fails, full)
    with (
        Replay(source, CaptureTarget(file, source.facts())) as replay,
        pytest.raises(ReplayRefused, match="No space left") as caught,
    ):
        replay.run()
    assert caught.value.path == str(file)
    assert list(tmp_path.iterdir()) == []


def test_a_paused_capture_is_not_read(tmp_path: Path) -> None:
    """A slow replay does not buffer the whole file."""
    source, file = filled(partitions=1), tmp_path / "run.spk"
    Replay(source, CaptureTarget(file, source.facts())).run()
    reader = CaptureFile(file).read([OffsetRange(0, 0, 40)])
    first = reader.take(10, 0)
    reader.pause(0)
    assert [reader.take(10, 0) for _ in range(5)] == [[]] * 5
    assert reader._buffered == []
    assert reader.unfinished() == {0}
    reader.resume(0)
    assert [each.offset() for each in [*first, *reader.take(40, 0)]] == list(range(40))
