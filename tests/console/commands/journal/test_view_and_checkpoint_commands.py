"""What is kept beside the journal, on a real Kafka and Valkey: the view, the checkpoints, the floor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kafka_checkpoints import project, save
from raw_kafka import RawKafka
from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY, Checkpoint, Floor
from seekpoint.consumers.kafka.kafka_reader import KafkaReader
from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.consumers.view.redis_view import RedisView
from seekpoint.producers import Node
from seekpoint.schemas import partition_of
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import LogTruncated
from shells import Shell

pytestmark = pytest.mark.cluster

PointAt = Callable[[Settings], None]


async def work(settings: Settings, *process_ids: str) -> None:
    """Each gets four entries more."""
    async with Node.connect(settings) as node:
        for process_id in process_ids:
            async with node.open(process_id) as process:
                await process.say("user", "on?")
                await process.update("n", 1)
            await node.signal(process_id, "go")


@pytest.fixture
async def kept(journal: Settings, point_at: PointAt) -> Settings:
    """A journal of three processes, with a view and checkpoints of everything."""
    await work(journal, "case-1", "case-2", "case-3")
    await asyncio.to_thread(save, journal)
    await asyncio.to_thread(project, journal)
    point_at(journal)
    return journal


# --- ps ---------------------------------------------------------------------------------------------------------------
def test_ps_is_read_from_the_view(kept: Settings, shell: Shell) -> None:
    """The log is not; what both say is the same."""
    ran = shell("ps")
    assert (ran.code, "reading from the log" in ran.err) == (0, False)
    lines = ran.out.splitlines()
    assert lines[0].split() == ["process", "lifecycle", "agent", "updated", "note"]
    assert [line.split()[0] for line in lines[1:]] == ["case-1", "case-2", "case-3"]
    viewed = shell("ps", "--json").json["processes"]
    forced = shell("ps", "--from-log", "--json")
    assert "reading from the log: --from-log" in forced.err
    logged = forced.json["processes"]
    assert logged == sorted(logged, key=lambda one: (one["partition"], one["process_id"]))
    logged.sort(key=lambda one: str(one["process_id"]))
    assert [one["mailbox"] for one in viewed] == [1] * 3
    assert viewed == logged


async def test_ps_shows_how_far_the_view_is_behind(kept: Settings, shell: Shell) -> None:
    """It shows what the view has, not what came since."""
    await work(kept, "case-1")
    [one, *_] = (await asyncio.to_thread(shell, "ps", "--json")).json["processes"]
    assert (one["epoch"], one["behind"] > 0) == (1, True)
    found = (await asyncio.to_thread(shell, "ps", "--json", "--from-log")).json["processes"]
    [one] = (each for each in found if each["process_id"] == "case-1")
    assert (one["epoch"], one["behind"]) == (2, 0)


async def test_ps_shows_since_when_a_process_is_owned(kept: Settings, shell: Shell) -> None:
    """By the clock of its owner; nobody's is owned since never."""
    async with Node.connect(kept) as node:
        await node.open("case-1")
        found = (await asyncio.to_thread(shell, "ps", "--json", "--from-log")).json["processes"]
        text = (await asyncio.to_thread(shell, "ps", "--from-log", "--wide")).out
    owned = {one["process_id"]: one["owned_since"] is not None for one in found}
    assert owned == {"case-1": True, "case-2": False, "case-3": False}
    titles, *lines = text.splitlines()
    spans = {line.split()[0]: line[: titles.index("owned for") + 9].split("  ")[-1].strip() for line in lines}
    assert (spans["case-1"][-2:], spans["case-2"]) == (" s", "-")


def test_ps_without_redis_reads_the_log(kept: Settings, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """And says so: Redis down, none set, a view that is not there."""
    for url, why in (
        ("redis://127.0.0.1:1/0", "Redis does not serve the view"),
        ("none", "the settings name no Redis"),
        (
            (kept.redis_url or "").replace("/0", "/5"),
            "partition 0 has no view yet (seekpoint serve projector writes it)",
        ),
    ):
        monkeypatch.setenv("SEEKPOINT_REDIS_URL", url)
        ran = shell("ps", "--json")
        assert ran.code == 0
        assert "reading from the log: " in ran.err
        assert why in ran.err
        assert len(ran.json["processes"]) == 3


# --- recover, verify --------------------------------------------------------------------------------------------------
def test_recover_uses_the_requested_tier(kept: Settings, shell: Shell) -> None:
    """Each gives the same state; the view is taken by itself."""
    found = {tier: shell("recover", "case-1", "--tier", tier, "--json").json for tier in ("view", "checkpoint", "scan")}
    assert {tier: one["report"]["tier"] for tier, one in found.items()} == {tier: tier for tier in found}
    assert len({one["hash"] for one in found.values()}) == 1
    assert shell("recover", "case-1", "--json").json["report"]["tier"] == "view"
    assert shell("recover", "case-1", "--tier", "guess").code == 2


def test_an_unavailable_tier_is_refused(journal: Settings, shell: Shell, point_at: PointAt) -> None:
    """Not another one taken instead."""
    point_at(journal)
    asyncio.run(work(journal, "case-1"))
    for tier in ("view", "checkpoint"):
        ran = shell("recover", "case-1", "--tier", tier)
        assert (ran.code, ran.out) == (4, "")
        assert "no such way to recover" in ran.err


def test_verify_all_compares_every_process_in_every_tier(kept: Settings, shell: Shell) -> None:
    """Four of them, and one hash."""
    ran = shell("verify", "--all", "--json")
    assert ran.code == 0
    assert sorted(one["process_id"] for one in ran.json["processes"]) == ["case-1", "case-2", "case-3"]
    for one in ran.json["processes"]:
        assert set(one["hashes"]) == {"scan", "audit", "checkpoint", "view"}
        assert len(set(one["hashes"].values())) == 1
        assert one["missing"] == {}
    assert shell("verify", "--all", "case-1").code == 2
    assert shell("verify").code == 2


def test_verify_names_a_forged_checkpoint(kept: Settings, shell: Shell) -> None:
    """It has a digest of its own, so recoveries believe it. The log does not."""
    partition, topic = partition_of(b"case-1", kept.partitions), kept.topic_name("checkpoints")
    reader = KafkaReader(kept)
    draft = Recoverer(reader).recover("case-1").state.thaw()
    draft.seq += 7
    forged = Checkpoint.of("case-1", partition, draft.freeze(), reader.topic_id, -1)
    reader.close()
    [position] = RawKafka(kept).write(partition, [(b"case-1", forged.to_bytes(), 1_000)], topic)
    for ids in ("case-1",), ("--all",):
        ran = shell("verify", *ids)
        assert ran.code == 1
        assert f"case-1: {topic} is wrong (the record at position {position}" in ran.err
        assert "case-2:" not in ran.err


def lose_end(settings: Settings, partition: int) -> None:
    """Make view and floor stand on three entries that the log does not have."""
    reader, view = KafkaReader(settings), RedisView(settings, settings.partitions)
    high = reader.watermarks(partition).high
    assert view.ready(partition, view.install(partition, reader.topic_id), high + 2, 0)
    floor = Floor(offset=high + 3, leader_epoch=0, topic_id=reader.topic_id, since=0)
    RawKafka(settings).write(partition, [(FLOOR_KEY, floor.to_bytes(), 1_000)], settings.topic_name("checkpoints"))
    reader.close()


async def test_a_lost_end_stops_a_partition_until_an_operator_accepts_it(kept: Settings, shell: Shell) -> None:
    """For nodes and commands. The other partitions go on, and the doctor shows the loss, and who accepted it."""
    partition = partition_of(b"case-1", kept.partitions)
    await asyncio.to_thread(lose_end, kept, partition)
    async with Node.connect(kept) as node:
        with pytest.raises(LogTruncated, match="--accept-loss"):
            await node.recover("case-1")
        for process_id in ("case-1", next(f"new-{n}" for n in range(99) if at(f"new-{n}", kept) == partition)):
            with pytest.raises(LogTruncated):
                async with node.open(process_id):
                    pass
        async with node.open(next(f"new-{n}" for n in range(99) if at(f"new-{n}", kept) != partition)) as process:
            await process.update("n", 1)

    def lost_ends() -> list[Any]:
        rows = shell("doctor", "--quick", "--json").json["findings"]
        return [(row["health"], row["found"]) for row in rows if row["subject"] == "lost end"]

    [(health, found)] = await asyncio.to_thread(lost_ends)
    assert (health, f"partition={partition}" in found) == ("error", True)
    accept = "verify", "--accept-loss", str(partition), "--actor", "ann"
    assert (await asyncio.to_thread(shell, *accept)).code == 2
    assert (await asyncio.to_thread(shell, *accept, "--reason", "a disk is gone")).code == 0
    assert "has lost nothing" in (await asyncio.to_thread(shell, *accept, "--reason", "again")).err
    [(health, found)] = await asyncio.to_thread(lost_ends)
    assert (health, "given up by ann: a disk is gone" in found) == ("warning", True)
    await work(kept, "case-1")


def at(process_id: str, settings: Settings) -> int:
    return partition_of(process_id.encode(), settings.partitions)


# --- checkpoints, lag -------------------------------------------------------------------------------------------------
def test_checkpoints_are_listed_and_shown(kept: Settings, shell: Shell) -> None:
    """Where each is, as of what, whole; and every partition's floor."""
    listed = shell("checkpoints", "ls", "--json").json
    places = [(one["partition"], one["process_id"]) for one in listed["checkpoints"]]
    assert places == sorted(places)
    assert {process_id for _, process_id in places} == {"case-1", "case-2", "case-3"}
    assert all(one["verified"] and one["state_bytes"] > 100 for one in listed["checkpoints"])
    assert [one["floor"] for one in listed["floors"]] == [one["log_end"] for one in lag(shell)["partitions"]]
    text = shell("checkpoints", "ls")
    assert text.code == 0
    assert text.out.splitlines()[1].split()[::3] == ["case-1", "yes"]
    wide = shell("checkpoints", "ls", "--wide").out.splitlines()
    assert wide[0].split() == ["process", "partition", "position", "offset", "epoch", "seq", "bytes", "verified"]
    assert wide[5].split() == ["partition", "floor", "checkpoints"]
    assert "seek point" in shell("checkpoints", "show", "case-1", "--wide").out
    one = listed["checkpoints"][0]
    shown = shell("checkpoints", "show", "case-1", "--json").json
    assert {name: shown[name] for name in one} == one
    assert (shown["seek_point"], shown["floor"]) == (listed["floors"][one["partition"]]["floor"],) * 2
    assert "verified     yes" in shell("checkpoints", "show", "case-1").out
    ran = shell("checkpoints", "show", "nobody")
    assert ran.code == 1
    assert "the process has no checkpoint" in ran.err


def test_a_damaged_checkpoint_is_a_fault_with_its_reason(kept: Settings, shell: Shell) -> None:
    """One with another state than its hash says, one that is no checkpoint at all."""
    raw, topic = RawKafka(kept), kept.topic_name("checkpoints")
    partition = partition_of(b"case-1", kept.partitions)
    [position] = raw.write(partition, [(b"case-1", b"junk", 1)], topic)
    ran = shell("checkpoints", "ls")
    assert ran.code == 1
    assert "no: the bytes are no checkpoint" in ran.out
    [one, *_] = shell("checkpoints", "ls", "--json").json["checkpoints"]
    assert (one["process_id"], one["position"], one["verified"]) == ("case-1", position, False)
    assert shell("checkpoints", "show", "case-1").code == 1


def lag(shell: Shell) -> dict[str, Any]:
    """What ``seekpoint lag`` says."""
    ran = shell("lag", "--json")
    assert ran.code == 0
    found: dict[str, Any] = ran.json
    return found


def test_lag_is_what_the_view_has_not_applied(kept: Settings, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing at first; then what was appended; without a view nobody knows, and the floor still says its part."""
    assert lag(shell)["behind"] == 0
    partition = partition_of(b"case-1", kept.partitions)
    before = lag(shell)["partitions"][partition]
    asyncio.run(work(kept, "case-1"))
    now = lag(shell)["partitions"][partition]
    new = now["log_end"] - before["log_end"]
    assert new > 3
    assert (now["behind"], now["unsaved"], now["applied"], now["floor"]) == (
        *(new, new),
        *(before["applied"], before["floor"]),
    )
    assert shell("lag").out.splitlines()[1 + partition].split() == [str(partition), str(new), str(new), "ok"]
    monkeypatch.setenv("SEEKPOINT_REDIS_URL", "none")
    found = lag(shell)
    assert found["behind"] is None
    without = {"applied": None, "behind": None, "behind_s": None, "problem": "the settings name no Redis"}
    later = found["partitions"][partition]
    assert later == now | without | {"unsaved_s": later["unsaved_s"]}
    assert later["unsaved_s"] > now["unsaved_s"] > 0
    assert now["behind_s"] == now["unsaved_s"]


def test_a_journal_without_view_and_checkpoints_has_no_fault(
    journal: Settings, shell: Shell, point_at: PointAt
) -> None:
    """No checkpoints, no floor, no view: no fault."""
    point_at(journal)
    ran = shell("checkpoints", "ls")
    assert ran.code == 0
    assert "no checkpoints yet" in ran.err
    assert shell("lag", "--wide").out.splitlines()[1].split()[:7] == ["0", "0", "0", "-", "-", "-", "-"]


# --- trim -------------------------------------------------------------------------------------------------------------
def test_trim_checks_and_deletes_to_the_floor(kept: Settings, shell: Shell) -> None:
    """A dry run deletes nothing; afterwards ``ps`` and ``verify`` work from checkpoints, and a scan cannot."""
    before = shell("ps", "--from-log", "--json").json
    ends = [one["log_end"] for one in lag(shell)["partitions"]]
    assert shell("trim").code == 2
    dry = shell("trim", "--to-floor", "--dry-run")
    assert dry.code == 0
    assert f"{sum(ends)} offsets would be deleted; nothing was" in dry.err
    assert [one["log_start"] for one in lag(shell)["partitions"]] == [0, 0, 0, 0]
    done = shell("trim", "--to-floor", "--json").json
    assert [one["target"] for one in done["partitions"]] == ends
    assert done["refused"] == []
    assert [one["log_start"] for one in lag(shell)["partitions"]] == ends
    assert shell("ps", "--from-log", "--json").json == before
    assert shell("recover", "case-1", "--tier", "scan").code == 1
    [one] = shell("verify", "case-1", "--json").json["processes"]
    assert (one["agrees"], set(one["hashes"])) == (True, {"checkpoint", "view"})


def test_a_trim_that_would_lose_history_is_a_fault(kept: Settings, shell: Shell) -> None:
    """The partition with a damaged checkpoint is not trimmed; the others are not held up by it."""
    raw, topic = RawKafka(kept), kept.topic_name("checkpoints")
    partition = partition_of(b"case-1", kept.partitions)
    raw.write(partition, [(b"case-1", b"junk", 1)], topic)
    ran = shell("trim", "--to-floor")
    assert ran.code == 1
    assert f"partition {partition} is not trimmed" in ran.err
    starts = [one["log_start"] for one in lag(shell)["partitions"]]
    assert starts[partition] == 0
    assert sum(starts) > 0


def test_a_view_of_another_topic_is_not_used(kept: Settings, shell: Shell, point_at: PointAt) -> None:
    """Its offsets mean nothing: ps reads the log, and lag says why."""
    from seekpoint.consumers.view.redis_view import RedisView

    view = RedisView(kept, kept.partitions)
    token = view.install(0, "another-topic")
    view.ready(0, token, -1, -1)
    view.close()
    point_at(replace(kept))
    assert "it is of another journal topic" in shell("ps").err
    assert lag(shell)["partitions"][0]["problem"] == "it is of another journal topic"


# --- doctor -----------------------------------------------------------------------------------------------------------
def test_the_doctor_checks_the_view_and_the_checkpoints(kept: Settings, shell: Shell) -> None:
    """Well at first; a view that stands behind the log is named, and so is a log that begins above its floor."""
    found = {one["subject"]: one for one in shell("doctor", "--quick", "--json").json["findings"]}
    assert (found["view"]["health"], found["view"]["found"]) == ("ok", "0 offsets behind")
    assert (found["floors"]["health"], found["floors"]["found"]) == ("ok", "at most 0 offsets behind the log's end")
    assert found["permissions"]["found"] == "may read, keep dead letters, run a node, run a projector, trim"
    asyncio.run(work(kept, "case-1"))
    partition = partition_of(b"case-1", kept.partitions)
    RawKafka(kept).trim(partition, lag(shell)["partitions"][partition]["log_end"])
    ran = shell("doctor", "--quick", "--json")
    found = {one["subject"]: one for one in ran.json["findings"]}
    assert (found["view"]["health"], found["floors"]["health"], ran.code) == ("warning", "error", 1)
    assert f"above the floor in partition {partition}" in found["floors"]["found"]
