"""What the doctor makes of facts: how bad it is, and what to do next."""

from __future__ import annotations

from dataclasses import replace

import pytest

from owners import Owner
from seekpoint.compose.topic_audit import TopicFacts
from seekpoint.console.services.facts import checkup
from seekpoint.console.services.facts.checkup import Diagnosis, JournalHealth, exit_code
from seekpoint.console.services.facts.partition_lag import PartitionLag
from seekpoint.console.services.facts.redis_facts import RedisFacts
from seekpoint.consumers import Recoverer
from seekpoint.consumers.heartbeats.liveness import Heartbeat, HeartbeatSnapshot, Liveness
from seekpoint.schemas import MemoryLog, State
from seekpoint.schemas.errors import JournalMismatch, JournalUnavailable


def a(health: JournalHealth, unreachable: bool = False) -> Diagnosis:
    return Diagnosis(subject="x", health=health, found="", unreachable=unreachable)


@pytest.mark.parametrize(
    ("found", "code"),
    [
        ([], 0),
        ([a(JournalHealth.OK), a(JournalHealth.WARNING), a(JournalHealth.SKIPPED)], 0),
        ([a(JournalHealth.WARNING), a(JournalHealth.ERROR)], 1),
        ([a(JournalHealth.ERROR), a(JournalHealth.ERROR, unreachable=True)], 3),
    ],
)
def test_the_worst_finding_decides_the_exit_code(found: list[Diagnosis], code: int) -> None:
    """Warnings are no fault; a Kafka that cannot be reached is more than one."""
    assert exit_code(found) == code


def test_an_error_becomes_a_finding_with_its_hint() -> None:
    """Its facts stay in it; only what may work later is 'not reachable'."""
    silent = checkup.failure("kafka", JournalUnavailable("no answer", partition=3))
    assert (silent.found, silent.unreachable) == ("no answer (partition=3)", True)
    assert silent.advice == JournalUnavailable.hint
    assert not checkup.failure("journal", JournalMismatch("other topics")).unreachable


def topic(in_sync: int | None, replication: int = 3, min_isr: str = "2") -> TopicFacts:
    return TopicFacts(
        name="fleet.journal",
        topic_id="x",
        partitions=8,
        replication=replication,
        config={"min.insync.replicas": min_isr},
        in_sync=in_sync,
    )


@pytest.mark.parametrize(
    ("facts", "health"),
    [
        (topic(3), JournalHealth.OK),
        (topic(2), JournalHealth.WARNING),
        (topic(1), JournalHealth.ERROR),
        (topic(1, replication=1, min_isr="1"), JournalHealth.OK),
        (topic(1, replication=1, min_isr="2"), JournalHealth.OK),
        (topic(1, replication=2, min_isr="3"), JournalHealth.ERROR),
        (topic(None), JournalHealth.OK),
    ],
)
def test_replicas_out_of_sync_are_a_finding(facts: TopicFacts, health: JournalHealth) -> None:
    """Below min.insync.replicas, which brokers cap at the replicas, nothing can be written; one behind is a warning."""
    assert checkup.in_sync({facts.name: facts}).health is health


@pytest.mark.parametrize(
    ("url", "found", "health"),
    [
        (None, None, JournalHealth.OK),
        ("redis://x", "connection refused", JournalHealth.WARNING),
        ("redis://x", RedisFacts(server="valkey 9", policy="noeviction"), JournalHealth.OK),
        ("redis://x", RedisFacts(server="redis 7", policy="allkeys-lru"), JournalHealth.WARNING),
        ("redis://x", RedisFacts(server="redis 7", policy=None), JournalHealth.OK),
    ],
)
def test_a_journal_without_redis_has_no_finding(
    url: str | None, found: RedisFacts | str | None, health: JournalHealth
) -> None:
    """Without one nothing is wrong; one that evicts is warned of."""
    diagnosis = checkup.redis(url, found)
    assert diagnosis.health is health
    assert bool(diagnosis.advice) == (health is JournalHealth.WARNING)


ALIVE, STILL = Heartbeat("node-a", "boot", (), 1), Heartbeat("node-b", "boot", (b"1",), 1)


def test_a_finding_names_a_node_with_a_stopped_heartbeat() -> None:
    """The others are counted."""
    before = HeartbeatSnapshot({"node-a": ALIVE, "node-b": STILL}, complete=True)
    after = HeartbeatSnapshot({"node-a": replace(ALIVE, beat=2), "node-b": STILL}, complete=True)
    found = checkup.nodes(before, after, 4.6, None)
    assert (found.health, found.found) == (JournalHealth.WARNING, "1 alive, 1 silent for 5 s: node-b")
    assert "quota" in found.advice, "a node whose heartbeats Kafka throttles is no dead one"
    assert "without --quick" in found.advice  # what its heartbeat names may have been taken over
    census = checkup.Census()
    found = checkup.nodes(before, after, 4.6, census)
    assert (found.health, found.found) == (JournalHealth.OK, "1 alive, 1 silent that owns nothing: node-b")
    census.owned.append(("p", "node-b", "another boot", b"1"))
    assert checkup.nodes(before, after, 4.6, census).health is JournalHealth.OK
    census.owned.append(("p", "node-b", "boot", b"1"))
    found = checkup.nodes(before, after, 4.6, census)
    assert (found.health, "open them on another" in found.advice) == (JournalHealth.WARNING, True)
    well = HeartbeatSnapshot({"node-a": replace(ALIVE, beat=2)}, complete=True)
    assert checkup.nodes(before, well, 4.6, None).found == "1 alive"
    assert checkup.nodes(before, HeartbeatSnapshot({}, complete=True), 0, None).found == "no node is running"
    assert checkup.nodes(before, HeartbeatSnapshot({}, complete=False), 0, None).health is JournalHealth.WARNING


class _Store:
    """Heartbeats that are what they are."""

    def __init__(self, *heartbeats: Heartbeat) -> None:
        self._heartbeats = {each.node_id: each for each in heartbeats}

    def read(self) -> HeartbeatSnapshot:
        return HeartbeatSnapshot(self._heartbeats, complete=True)


def state_of(process_id: str, gap: bool = False) -> State:
    """One process owned by node-1."""
    log = MemoryLog(partitions=1)
    owner = Owner(log.append, 1, process_id)
    owner.claim("node-1")
    owner.seq += gap
    owner.update("a", "1")
    return Recoverer(log).recover(process_id).state


def test_a_finding_names_degraded_and_abandoned_processes_and_the_next_command() -> None:
    """A degraded one is an error, one whose node is gone a warning; one of both is named once, as degraded."""
    watcher = Liveness(_Store(), 15.0)
    watcher.observe()
    states = {"case-1": state_of("case-1"), "case-gap": state_of("case-gap", gap=True)}
    counted, degraded, left = checkup.processes(checkup.Census.of(states.items()), watcher)
    assert counted.found == "2, 0 of them finished"
    assert (degraded.health, degraded.found) == (JournalHealth.ERROR, "1 degraded: case-gap")
    assert "seekpoint recover case-gap --claim --accept-degraded" in degraded.advice
    assert (left.health, left.found) == (JournalHealth.WARNING, "1 still claimed by a dead node: case-1")
    assert "seekpoint recover case-1 --claim" in left.advice


def test_a_process_of_a_living_node_is_no_finding() -> None:
    """Not watched long enough is no death either."""
    state = state_of("case-1")
    assert state.owner is not None
    watcher = Liveness(_Store(Heartbeat("node-1", "boot-1", (state.owner,), 1)), 15.0)
    watcher.observe()
    assert [each.health for each in checkup.processes(checkup.Census.of([("case-1", state)]), watcher)] == [
        JournalHealth.OK
    ]


def test_a_finding_shortens_a_long_list_of_names() -> None:
    """Five, and how many more."""
    watcher = Liveness(_Store(), 15.0)
    watcher.observe()
    state = state_of("x")
    left = checkup.processes(checkup.Census.of((f"case-{number}", state) for number in range(9)), watcher)[-1]
    assert left.found.endswith("case-0, case-1, case-2, case-3, case-4 and 4 more")


def test_dead_letters_are_a_warning() -> None:
    """None is fine."""
    assert checkup.dead_letters(0).health is JournalHealth.OK
    assert checkup.dead_letters(1).found == "1 record that is not an entry"
    assert checkup.dead_letters(3).health is JournalHealth.WARNING


def kept(
    applied: int | None = 9, floor: int | None = 8, log_start: int = 0, problem: str | None = None
) -> PartitionLag:
    """Partition 0, its log's end at 10."""
    return PartitionLag(
        partition=0,
        log_start=log_start,
        log_end=10,
        applied=applied,
        behind=None if applied is None else 9 - applied,
        floor=floor,
        unsaved=None if floor is None else 10 - floor,
        problem=problem,
    )


@pytest.mark.parametrize(
    ("before", "after", "health", "found"),
    [
        (kept(9), kept(9), JournalHealth.OK, "0 offsets behind"),
        (kept(3), kept(5), JournalHealth.OK, "4 offsets behind"),
        (kept(5), kept(5), JournalHealth.WARNING, "4 offsets behind, and no progress in partition 0"),
        (kept(None, problem="x"), kept(None, problem="x"), JournalHealth.WARNING, "1 partition without a usable view"),
        (kept(None, problem="x"), kept(9), JournalHealth.OK, "0 offsets behind"),
    ],
)
def test_a_view_without_progress_is_a_warning(
    before: PartitionLag, after: PartitionLag, health: JournalHealth, found: str
) -> None:
    """One that is behind and moves is well; one that cannot be used never is; none at all may be wanted."""
    diagnosis = checkup.view([before], [after], is_configured=True)
    assert (diagnosis.health, diagnosis.found[: len(found)]) == (health, found)
    assert checkup.view([before], [after], is_configured=False).health is JournalHealth.OK


@pytest.mark.parametrize(
    ("one", "health"),
    [
        (kept(), JournalHealth.OK),
        (kept(log_start=8), JournalHealth.OK),
        (kept(log_start=9), JournalHealth.ERROR),
        (kept(floor=None, log_start=1), JournalHealth.ERROR),
        (kept(floor=None), JournalHealth.WARNING),
    ],
)
def test_a_log_that_begins_above_its_floor_is_an_error(one: PartitionLag, health: JournalHealth) -> None:
    """Trimmed to the floor is fine; further is a fault; no floor at all makes recovery long."""
    assert checkup.floors([one]).health is health


def test_a_missing_permission_is_reported_with_the_acl_it_needs() -> None:
    """Not to be able to trim is no fault; not to be able to read is worth a warning."""
    read = frozenset({"READ", "DESCRIBE"})
    topics = dict.fromkeys(("journal", "checkpoints", "schemas", "nodes", "deadletters"), read)
    reader = checkup.permissions(topics)
    assert reader.health is JournalHealth.OK
    assert reader.found.startswith("may read; may not keep dead letters (Write on deadletters), run a node (Write on ")
    assert reader.found.endswith("trim (Delete on journal)")
    stranger = checkup.permissions({**topics, "nodes": frozenset()})
    assert stranger.health is JournalHealth.WARNING
    assert "read (Read on nodes)" in stranger.found
