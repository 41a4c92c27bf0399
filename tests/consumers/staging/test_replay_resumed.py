"""Resumed replays: no record is lost or duplicated."""

from __future__ import annotations

from pathlib import Path

import pytest

import seekpoint.consumers.staging.copy.ack_windows as windows
import seekpoint.consumers.staging.copy.copier as copying
from replay_topics import filled, seen, staging
from seekpoint.consumers.staging.copy.memory_topic import MemoryTopic
from seekpoint.consumers.staging.copy.pace import Pace
from seekpoint.consumers.staging.copy.selection import Selection
from seekpoint.consumers.staging.replay_plan import Plan
from seekpoint.consumers.staging.resume.progress_file import ProgressFile
from seekpoint.consumers.staging.staging_replay import Replay
from seekpoint.schemas.errors import ReplayRefused


@pytest.fixture(params=[3, 200_000], ids=["settled often", "never settled"])
def window(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(windows, "_WINDOW_RECORDS", request.param)
    monkeypatch.setattr(copying, "_BATCH_RECORDS", 4)
    return int(request.param)


PLANS = {
    "plain": (Plan(), 4),
    "by key": (Plan(), 3),
    "prefix": (Plan(prefix="s-"), 4),
    "selected": (Plan(selection=Selection(processes=frozenset({"case-1", "case-2"}))), 4),
    "paced": (Plan(pace=Pace(speed=1000)), 4),
}


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("crash", [0, 1, 2, 7, 12, 13, 29, 39, 40])
def test_a_crashed_replay_resumes_without_loss_or_duplicates(
    window: int, plan: str, crash: int, tmp_path: Path
) -> None:
    """After two crashes anywhere the target equals that of an uninterrupted replay."""
    selected, partitions = PLANS[plan]
    oracle, target, file = staging(partitions), staging(partitions), tmp_path / "progress.json"
    Replay(filled(), oracle, selected).run()
    for after in (crash, 5):
        target.crash_after(after)
        try:
            Replay(filled(), target, selected, progress=file, settle_s=0).run()
            break
        except KeyboardInterrupt:
            continue
    else:
        target.crash_after(None)
        report = Replay(filled(), target, selected, progress=file, settle_s=0).run()
        assert report.checked
        assert report.replayed == len(oracle.records())
    for partition in range(partitions):
        found, expected = ([seen(each) for each in each_of.records(partition)] for each_of in (target, oracle))
        if partitions == 4 and plan != "paced":
            assert found == expected
        assert sorted(map(repr, found)) == sorted(map(repr, expected))


def test_settled_records_are_not_read_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The second run starts at the settled offsets."""
    monkeypatch.setattr(windows, "_WINDOW_RECORDS", 3)
    monkeypatch.setattr(copying, "_BATCH_RECORDS", 4)
    target, file = staging(), tmp_path / "progress.json"
    target.crash_after(30)
    with pytest.raises(KeyboardInterrupt):
        Replay(filled(), target, progress=file).run()
    target.crash_after(None)
    report = Replay(filled(), target, progress=file, settle_s=0).run()
    assert report.sent == 10
    assert 0 < report.already_there < 30


def test_a_finished_replay_is_not_repeated(tmp_path: Path) -> None:
    """The second run is refused, and the target does not change."""
    target, file = staging(), tmp_path / "progress.json"
    Replay(filled(), target, progress=file).run()
    with pytest.raises(ReplayRefused, match="done before"):
        Replay(filled(), target, progress=file).run()
    assert len(target.records()) == 40


def test_a_progress_file_of_another_replay_is_refused(tmp_path: Path) -> None:
    """Another plan, another topic and junk are refused; another pace is accepted."""
    file, target = tmp_path / "progress.json", staging()
    target.crash_after(5)
    with pytest.raises(KeyboardInterrupt):
        Replay(filled(), target, progress=file).run()
    target.crash_after(None)
    with pytest.raises(ReplayRefused, match="another plan"):
        Replay(filled(), target, Plan(prefix="x-"), progress=file).run()
    with pytest.raises(ReplayRefused, match="other topics"):
        Replay(filled(), MemoryTopic(4, cluster_id="elsewhere"), progress=file).run()
    assert Replay(filled(), target, Plan(pace=Pace(rate=1e6)), progress=file, settle_s=0).run().checked
    file.write_text("junk")
    with pytest.raises(ReplayRefused, match="not a progress file"):
        Replay(filled(), target, progress=file).run()


def test_two_replays_cannot_share_a_progress_file(tmp_path: Path) -> None:
    """The second is refused while the first has the lock."""
    first = ProgressFile(tmp_path / "progress.json")
    first.load()
    with pytest.raises(ReplayRefused, match="running already"):
        Replay(filled(), staging(), progress=tmp_path / "progress.json").run()
    first.close()
    Replay(filled(), staging(), progress=tmp_path / "progress.json").run()
