"""Liveness: an owner is never judged dead too early."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seekpoint.consumers.heartbeats.heartbeat import CLAIMS_A_PAGE, from_records, to_records
from seekpoint.consumers.heartbeats.host import HostProcess
from seekpoint.consumers.heartbeats.liveness import (
    Heartbeat,
    Heartbeats,
    HeartbeatSnapshot,
    Liveness,
    LivenessVerdict,
    newest,
)
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import JournalMismatch, JournalUnavailable
from seekpoint.schemas.log.memory_log import MemoryLog, MemoryTable

CLAIM, OTHER = bytes(15) + b"1", bytes(15) + b"2"
TIMEOUT_S = 15.0


class NoStore:
    """A store that is never read: the tests apply snapshots themselves."""

    def read(self) -> HeartbeatSnapshot:
        raise AssertionError("not asked")


@pytest.fixture
def liveness() -> Liveness:
    return Liveness(NoStore(), TIMEOUT_S)


def beat(number: int, *claims: bytes, boot_id: str = "boot-1") -> HeartbeatSnapshot:
    return HeartbeatSnapshot({"node-1": Heartbeat("node-1", boot_id, claims or (CLAIM,), number)}, complete=True)


def turn(number: int, turns: int | None) -> HeartbeatSnapshot:
    return HeartbeatSnapshot({"node-1": Heartbeat("node-1", "boot-1", (CLAIM,), number, turns=turns)}, complete=True)


NOBODY = HeartbeatSnapshot({}, complete=True)
UNREADABLE = HeartbeatSnapshot({}, complete=False)


def verdict(liveness: Liveness, boot_id: str = "boot-1", claim: bytes = CLAIM) -> LivenessVerdict:
    return liveness.judge("node-1", boot_id, claim)


def watch(
    liveness: Liveness, snapshot: HeartbeatSnapshot, since_s: float, until_s: float, interval_s: float = 3.0
) -> None:
    while since_s <= until_s:
        liveness.apply(snapshot, since_s)
        since_s += interval_s


def test_nothing_was_looked_at_yet(liveness: Liveness) -> None:
    """Before the first snapshot nothing is known."""
    assert verdict(liveness) is LivenessVerdict.UNKNOWN


def test_a_heartbeat_seen_once_says_little(liveness: Liveness) -> None:
    """The heartbeat may be years old."""
    liveness.apply(beat(1), 0)
    assert verdict(liveness) is LivenessVerdict.UNKNOWN


def test_a_heartbeat_that_moves_is_alive(liveness: Liveness) -> None:
    """The owner is alive until the heartbeat stood still for the whole timeout."""
    liveness.apply(beat(1), 0)
    liveness.apply(beat(2), 3)
    assert verdict(liveness) is LivenessVerdict.ALIVE
    watch(liveness, beat(2), 6, 17)
    assert verdict(liveness) is LivenessVerdict.ALIVE
    liveness.apply(beat(2), 18)
    assert verdict(liveness) is LivenessVerdict.DEAD


def test_a_heartbeat_that_moves_again_is_alive_again(liveness: Liveness) -> None:
    """The machine of a node may have been suspended."""
    watch(liveness, beat(1), 0, 30)
    assert verdict(liveness) is LivenessVerdict.DEAD
    liveness.apply(beat(2), 33)
    assert verdict(liveness) is LivenessVerdict.ALIVE


def test_a_claim_that_a_heartbeat_does_not_name_is_free_at_once(liveness: Liveness) -> None:
    """The node lives and does not hold the claim."""
    liveness.apply(beat(1, OTHER), 0)
    assert verdict(liveness) is LivenessVerdict.FREE
    assert verdict(liveness, claim=OTHER) is LivenessVerdict.UNKNOWN


def test_a_claim_of_another_boot_is_free_at_once(liveness: Liveness) -> None:
    """The node was started again."""
    liveness.apply(beat(1, boot_id="boot-2"), 0)
    assert verdict(liveness) is LivenessVerdict.FREE


def test_a_node_that_is_not_there_is_free_if_the_topic_was_read(liveness: Liveness) -> None:
    """The node never existed, or it left in order."""
    liveness.apply(NOBODY, 0)
    assert verdict(liveness) is LivenessVerdict.FREE


def test_what_could_not_be_read_is_no_death(liveness: Liveness) -> None:
    """Incomplete snapshots prove nothing, and the time between them does not count."""
    liveness.apply(beat(1), 0)
    liveness.apply(beat(2), 3)
    watch(liveness, UNREADABLE, 6, 60)
    assert verdict(liveness) is LivenessVerdict.ALIVE
    watch(liveness, beat(2), 63, 75)
    assert verdict(liveness) is LivenessVerdict.ALIVE
    watch(liveness, beat(2), 78, 78)
    assert verdict(liveness) is LivenessVerdict.DEAD


def test_an_observer_that_was_asleep_has_not_watched(liveness: Liveness) -> None:
    """A long pause of the observer counts as a short interval."""
    liveness.apply(beat(1), 0)
    liveness.apply(beat(2), 3)
    liveness.apply(beat(2), 3_600)
    liveness.apply(beat(2), 7_200)
    assert verdict(liveness) is LivenessVerdict.ALIVE
    liveness.apply(beat(2), 10_800)
    assert verdict(liveness) is LivenessVerdict.DEAD


@given(
    pauses=st.lists(st.tuples(st.floats(0, 2.9), st.floats(0, 0.1)), min_size=1, max_size=60),
    asleep=st.dictionaries(st.integers(0, 59), st.floats(0, 10_000), max_size=5),
)
def test_a_node_that_beats_in_time_is_never_dead(pauses: list[tuple[float, float]], asleep: dict[int, float]) -> None:
    """This holds for any intervals, and if the machine of both is suspended once between two beats."""
    liveness = Liveness(NoStore(), TIMEOUT_S)
    now_s = 0.0
    for number, (pause_s, more_s) in enumerate(pauses):
        liveness.apply(beat(number), now_s)
        now_s += pause_s + asleep.get(number, 0.0)
        liveness.apply(beat(number), now_s)
        assert verdict(liveness) is not LivenessVerdict.DEAD
        now_s += more_s


@given(intervals=st.lists(st.floats(0.1, 4.9), min_size=1, max_size=300))
def test_a_node_that_stopped_is_dead_after_the_timeout_and_not_before(intervals: list[float]) -> None:
    """The observer reads at least three times within the timeout."""
    liveness = Liveness(NoStore(), TIMEOUT_S)
    liveness.apply(beat(1), 0)
    now_s = 0.0
    for interval_s in intervals:
        now_s += interval_s
        liveness.apply(beat(1), now_s)
        if abs(now_s - TIMEOUT_S) > 1e-6:
            assert (verdict(liveness) is LivenessVerdict.DEAD) == (now_s >= TIMEOUT_S)


# --- the stores -------------------------------------------------------------------------------------------------------
def test_a_heartbeat_comes_back_from_its_json() -> None:
    """Bytes that are no heartbeat raise a typed error."""
    heartbeat = Heartbeat("node-1", "boot-1", (CLAIM, OTHER), 7)
    assert Heartbeat.from_bytes(heartbeat.to_bytes()) == heartbeat
    for data in (b"", b"[]", b"{}", b'{"claim_ids": [1]}'):
        with pytest.raises(JournalMismatch):
            Heartbeat.from_bytes(data)


def test_of_two_stores_the_newer_heartbeat_counts() -> None:
    """Within one boot the higher beat is newer. Of two boots the topic's counts: Redis may have missed one."""
    old, new = Heartbeat("n", "b1", (), 1), Heartbeat("n", "b1", (), 2)
    reborn = Heartbeat("n", "b2", (), 1)
    assert newest({"n": old}, {"n": new}) == {"n": new}
    assert newest({"n": new}, {"n": old}) == {"n": new}
    assert newest({"n": reborn}, {"n": new}) == {"n": reborn}
    assert newest({}, {"n": new}) == {"n": new}
    assert newest({"n": new}, {}) == {"n": new}


def test_what_is_published_is_seen_and_what_is_withdrawn_is_not(log: MemoryLog) -> None:
    """Other records in the topic are ignored."""
    heartbeats = Heartbeats(log, Settings(redis_url=None))
    heartbeats.publish(Heartbeat("node-1", "boot-1", (CLAIM,), 1))
    log.table("nodes").put(b"node-2", b"junk")
    assert heartbeats.read() == beat(1)
    heartbeats.withdraw("node-1")
    assert heartbeats.read() == NOBODY


def test_a_topic_that_cannot_be_read_makes_a_snapshot_incomplete(
    log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading never raises."""

    def refuse(table: MemoryTable) -> None:
        raise JournalUnavailable("silent")

    monkeypatch.setattr(type(log.table("nodes")), "items", refuse)
    assert Heartbeats(log, Settings(redis_url=None)).read() == UNREADABLE


def test_a_redis_that_is_not_there_costs_a_warning_once(log: MemoryLog, caplog: pytest.LogCaptureFixture) -> None:
    """The topic alone is enough."""
    heartbeats = Heartbeats(log, Settings(redis_url="redis://127.0.0.1:9/0"))
    heartbeats.mirror(Heartbeat("node-1", "boot-1", (CLAIM,), 1))
    heartbeats.publish(Heartbeat("node-1", "boot-1", (CLAIM,), 1))
    assert heartbeats.read() == beat(1)
    assert len(caplog.records) == 1
    heartbeats.close()


def many(count: int, boot_id: str = "boot-1", beat: int = 1) -> Heartbeat:
    return Heartbeat("node-1", boot_id, tuple(number.to_bytes(16, "big") for number in range(count)), beat)


@pytest.mark.parametrize("count", [0, 1, CLAIMS_A_PAGE, CLAIMS_A_PAGE + 1, 60_000])
def test_a_heartbeat_of_any_size_fits_into_records(count: int) -> None:
    """A large heartbeat is split. Every claim is found again, and no record comes near the size limit."""
    log = MemoryLog()
    store = Heartbeats(log, Settings(redis_url=None))
    store.publish(many(count))
    assert max(map(len, log.table("nodes").items().values())) < 100_000
    found = store.read().heartbeats["node-1"]
    assert (set(found.claim_ids), found.beat) == (set(many(count).claim_ids), 1)


def test_one_claim_more_writes_one_page_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """With thousands of open processes a beat does not write a megabyte."""
    log = MemoryLog()
    store = Heartbeats(log, Settings(redis_url=None))
    store.publish(many(30_000))
    kind, written = type(log.table("nodes")), list[int]()
    put = kind.put

    def counted(table: MemoryTable, key: bytes, value: bytes | None) -> None:
        written.append(len(value or b""))
        put(table, key, value)

    monkeypatch.setattr(kind, "put", counted)
    store.publish(many(30_001, beat=2))
    assert len(written) == 2
    assert sum(written) < 50_000
    assert len(store.read().heartbeats["node-1"].claim_ids) == 30_001


def test_pages_of_another_boot_do_not_count_and_go_with_the_node() -> None:
    """After a restart only the new claims count. A node that leaves, or has fewer claims, deletes its pages."""
    log = MemoryLog()
    store, again = (Heartbeats(log, Settings(redis_url=None)) for _ in range(2))
    store.publish(many(5_000))
    again.publish(many(1_500, boot_id="boot-2"))
    assert set(store.read().heartbeats["node-1"].claim_ids) == set(many(1_500).claim_ids)
    again.publish(many(10, boot_id="boot-2", beat=2))
    assert len(again.read().heartbeats["node-1"].claim_ids) == 10
    store.withdraw("node-1")
    assert log.table("nodes").items() == {}


def test_forged_heads_cost_no_more_than_their_records() -> None:
    """A head that names a billion pages has those that exist, and one under another node's key is none."""
    honest = many(5_000).to_bytes(pages=16)
    forged = many(1, beat=99).to_bytes(pages=1 << 60)
    items = {f"node-{at}".encode(): forged.replace(b"node-1", f"node-{at}".encode()) for at in range(2, 500)}
    head, pages = to_records(many(5_000))
    assert head == honest
    started = time.process_time()
    found = from_records({**items, b"node-1": head, **pages, b"node-0": many(1, boot_id="evil", beat=99).to_bytes()})
    assert time.process_time() - started < 2.0
    assert set(found["node-1"].claim_ids) == set(many(5_000).claim_ids)
    assert "node-0" not in found
    assert found["node-2"].claim_ids == ()


@pytest.mark.parametrize("count", [1, 5_000])
def test_a_node_that_has_left_says_nothing_more(count: int) -> None:
    """A late beat of another thread must not publish the claims again."""
    log = MemoryLog()
    store = Heartbeats(log, Settings(redis_url=None))
    store.publish(many(count))
    store.withdraw("node-1")
    store.publish(many(count, beat=2))
    assert log.table("nodes").items() == {}


# --- an owner that died on this host ----------------------------------------------------------------------------------
PROCESS = HostProcess("host boot", "pid:[1] time:[1]", 17, 4711)


def test_a_node_whose_process_has_died_is_dead_at_once() -> None:
    """A dead process needs no timeout. A process that lives, or cannot be seen, is watched as usual."""
    died = Liveness(NoStore(), TIMEOUT_S, lambda process: process == PROCESS)
    died.apply(
        HeartbeatSnapshot({"node-1": Heartbeat("node-1", "boot-1", (CLAIM,), 1, process=PROCESS)}, complete=True), 0
    )
    assert verdict(died) is LivenessVerdict.DEAD
    assert verdict(died, boot_id="boot-2") is LivenessVerdict.FREE
    died.apply(beat(2), 1)
    assert verdict(died) is LivenessVerdict.ALIVE


@pytest.mark.parametrize("claims", [1, 5_000])
def test_a_heartbeat_carries_its_process(claims: int) -> None:
    """Paged heartbeats carry it too. If the process cannot be decoded, the rest of the heartbeat is still used."""
    log = MemoryLog()
    store = Heartbeats(log, Settings(redis_url=None))
    store.publish(replace(many(claims), process=PROCESS))
    assert store.read().heartbeats["node-1"].process == PROCESS
    text = Heartbeat("node-1", "boot-1", (CLAIM,), 1, process=PROCESS).to_bytes()
    assert Heartbeat.from_bytes(text).process == PROCESS
    for wrong in (b"17", b'["a","b",-1,3]', b'["a","b","c",3]', b"[]"):
        found = Heartbeat.from_bytes(text.replace(b'["host boot","pid:[1] time:[1]",17,4711]', wrong))
        assert (found.process, found.claim_ids) == (None, (CLAIM,))


@pytest.mark.parametrize("turns", [7, 0])
def test_a_blocked_loop_keeps_its_claims_for_a_longer_time(turns: int) -> None:
    liveness = Liveness(NoStore(), TIMEOUT_S, loop_timeout_s=60.0)
    seen = []
    for number in range(30):
        liveness.apply(turn(number, turns), 3.0 * number)
        seen.append(verdict(liveness))
    assert seen[:6] == [LivenessVerdict.UNKNOWN, *[LivenessVerdict.ALIVE] * 4, LivenessVerdict.BLOCKED]
    assert seen[19:21] == [LivenessVerdict.BLOCKED, LivenessVerdict.DEAD]
    assert seen[-1] is LivenessVerdict.DEAD
    liveness.apply(turn(30, turns + 1), 90.0)
    assert verdict(liveness) is LivenessVerdict.ALIVE


@pytest.mark.parametrize("turns", [lambda number: number, lambda number: None])
def test_a_loop_that_turns_or_does_not_say_it_is_not_blocked(turns: Callable[[int], int | None]) -> None:
    liveness = Liveness(NoStore(), TIMEOUT_S, loop_timeout_s=60.0)
    for number in range(60):
        liveness.apply(turn(number, turns(number)), 3.0 * number)
    assert verdict(liveness) is LivenessVerdict.ALIVE


def test_between_two_beats_a_blocked_loop_stands_still_too() -> None:
    liveness = Liveness(NoStore(), TIMEOUT_S, loop_timeout_s=60.0)
    for number in range(8):
        liveness.apply(turn(number // 2, 1), 3.0 * number)
    assert verdict(liveness) is LivenessVerdict.BLOCKED


def test_the_turns_of_the_loop_are_read_back() -> None:
    for turns in (None, 0, 7):
        heartbeat = Heartbeat("node-1", "boot-1", (CLAIM,), 1, turns=turns)
        assert Heartbeat.from_bytes(heartbeat.to_bytes()) == heartbeat
