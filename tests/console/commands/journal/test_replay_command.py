"""seekpoint replay, as it is typed."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from seekpoint.compose import LocalCluster
from staging_world import StagingWorld

pytestmark = pytest.mark.cluster

START_S = int(time.time()) - 3_600


@pytest.fixture
def world(cluster: LocalCluster, tmp_path: Path) -> StagingWorld:
    return StagingWorld(cluster.bootstrap_servers, tmp_path)


def test_replay_copies_a_topic_to_a_file_and_to_staging(world: StagingWorld) -> None:
    """Dry first; then by process, by time and by a predicate; the numbers on stdout, the talk on stderr."""
    topic, target, file = world.topic(2), world.topic(2), str(world.directory / "run.spk")
    world.write(
        topic,
        [(n % 2, b"case-%d" % (n % 4), b'{"n":%d}' % n, (START_S + n) * 1000, [("tenant", b"a")]) for n in range(40)],
    )
    dry = world.run("replay", "--from", f"prod/{topic}", "--into", file, "--dry-run")
    assert (dry.returncode, Path(file).exists()) == (0, False)
    assert "40 records, " in dry.stderr
    assert "nothing was written" in dry.stderr
    (world.directory / "ids").write_text("case-3\n")
    chosen = ("--process", "case-1", "--processes-from", str(world.directory / "ids"), "--header", "tenant=a")
    since = ("--since", str(START_S + 10))
    captured = world.run("replay", "--from", f"prod/{topic}", "--into", file, *chosen, *since)
    assert captured.returncode == 0, captured.stderr
    assert "source and target match" in captured.stderr
    assert captured.stdout.split()[:3] == ["partition", "records", "bytes"]
    assert "states will differ" in captured.stderr
    here = world.run("replay", "--from", f"prod/{topic}", "--into", file, "--json")
    assert (here.returncode, "the file exists" in here.stderr) == (4, True)
    once_more = world.run("replay", "--from", f"prod/{topic}", "--into", file, *chosen, "--overwrite", "--json")
    assert json.loads(once_more.stdout)["replayed"] == 20
    assert (
        world.run("replay", "--from", f"prod/{topic}", "--into", file, *chosen, "--overwrite", *since).returncode == 0
    )
    again = world.run("replay", "--from", file, "--into", file)
    assert (again.returncode, "the target is the source" in again.stderr) == (4, True)
    other = str(world.directory / "other.spk")
    nothing = world.run("replay", "--from", file, "--into", other, "--process", "nobody")
    assert (nothing.returncode, "nothing was selected" in nothing.stderr) == (0, True)
    wanted = ("--where", "value.n % 3 == 0", "--json", "--offset-map", str(world.directory / "map"))
    done = world.run("replay", "--from", file, "--into", f"staging/{target}", *wanted)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    expected = [n for n in range(10, 40) if n % 4 in (1, 3) and n % 3 == 0]
    assert report["replayed"] == len(expected)
    assert sorted(json.loads(row[3] or b"")["n"] for row in world.read(target)) == expected


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--from", "prod/a", "--into", "live/b"), 2, "there is no cluster live"),
        (("--from", "prod", "--into", "staging/b"), 2, "neither CLUSTER/TOPIC"),
        (("--from", "prod/a", "--into", "staging/b", "--speed", "1", "--rate", "2"), 2, "not both"),
        (("--from", "prod/a", "--into", "staging/b", "--since", "yesterday"), 2, "is not a time"),
        (("--from", "prod/a", "--into", "staging/b", "--offsets", "x"), 2, "PARTITION:FIRST-LAST"),
        (("--from", "prod/a", "--into", "staging/b", "--masks", "nowhere.toml"), 2, "cannot be read"),
        (("--from", "prod/nowhere", "--into", "staging/b"), 4, "no such topic"),
        (("--from", "nowhere.spk", "--into", "staging/b"), 4, "cannot be read"),
    ],
)
def test_a_refused_replay_prints_one_line(
    world: StagingWorld, arguments: tuple[str, ...], code: int, said: str
) -> None:
    """With the exit code that every command has for it."""
    done = world.run("replay", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_replay_refuses_a_production_target(world: StagingWorld) -> None:
    """Whatever else is asked."""
    source, target = world.topic(1), world.topic(1)
    world.write(source, [(0, b"k", b"v", START_S * 1000, None)])
    for into in (f"prod/{target}", f"default/{target}"):
        done = world.run(
            "replay", "--from", f"staging/{source}", "--into", into, "--bootstrap-servers", world.bootstrap_servers
        )
        assert done.returncode == 4
        assert "not marked as staging" in done.stderr
    assert world.read(target) == []
