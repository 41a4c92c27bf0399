"""The view in a real Valkey keeps the promises of a view, and those only Redis can break."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from redis.crc import key_slot

from own_valkey import OwnValkey, own_valkey
from seekpoint.consumers.view.redis_view import RedisView
from seekpoint.consumers.view.view_rows import head_check
from seekpoint.consumers.view.view_store import Change, Loaded, Pointer, ViewLookup
from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import InvalidSetting, NewerFormat, ViewRefused, ViewUnavailable
from seekpoint.schemas.state.conversation import Conversation
from seekpoint.schemas.state.process_state import FOLD_VERSION, Draft
from view_contract import FieldwiseViewContract
from view_journal import KEY, OTHER, Journal, full_state

pytestmark = pytest.mark.own_cluster


@pytest.fixture(scope="module")
def server() -> Iterator[OwnValkey]:
    with own_valkey() as server:
        yield server


@pytest.fixture
def store(server: OwnValkey) -> Iterator[RedisView]:
    server.client.flushall()
    store = RedisView(settings_of(server), partitions=4)
    yield store
    store.close()


def settings_of(server: OwnValkey) -> Settings:
    """A patient client: the machine may be busy."""
    return Settings(journal="fleet.1", redis_url=server.url, redis={"socket_timeout": "20"})


class TestRedisView(FieldwiseViewContract):
    """Inherited."""


def _keys(server: OwnValkey) -> list[bytes]:
    return sorted(server.client.keys("*"))


def _write(journal: Journal, key: bytes, offset: int) -> bool:
    return journal.write([Change(key=key, state=full_state(offset), whole=True)], max(offset, journal.applied + 1))


# --- keys -------------------------------------------------------------------------------------------------------------
def test_all_keys_of_a_partition_are_in_one_slot(server: OwnValkey, store: RedisView) -> None:
    """Every key that any command touches, seen by MONITOR, has the hash tag {JOURNAL:PARTITION}: a cluster's rule."""
    with server.client.monitor() as monitor:
        listening = monitor.listen()
        journal = Journal(store)
        _write(journal, b"{other}tag", 0)
        store.point(journal.partition, journal.token, {b"{other}tag": Pointer(1, 1)})
        token = store.install(journal.partition, "topic")
        store.put(journal.partition, token, {b"a}b{c": (full_state(3), Pointer(1, 1))})
        store.ready(journal.partition, token, 3, 1)
        store.look_up(journal.partition, b"a}b{c")
        store.page(journal.partition, b"", b"a", 10)
        store.offsets_from(journal.partition, token, 0)
        store.offset_of(journal.partition, b"a}b{c")
        server.client.echo("done")
        said = list(iter(lambda: next(listening)["command"], "ECHO done"))
    tag = f"{{fleet.1:{journal.partition}}}"
    keys = {word for command in said for word in command.split() if word.startswith("seekpoint:")}
    assert len(keys) > 12
    slots = {key_slot(key.encode()) for key in keys}
    assert slots == {key_slot(tag.encode())}, keys
    assert {key_slot(key) for key in _keys(server)} == slots


def test_a_real_cluster_takes_every_call() -> None:
    """A Valkey in cluster mode refuses keys of other slots: the contract in short on it, found out by itself."""
    with own_valkey(cluster_enabled="yes") as server:
        server.client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        wait_until(lambda: b"cluster_state:ok" in server.client.execute_command("CLUSTER", "INFO"))
        store = RedisView(settings_of(server))
        journal = Journal(store)
        assert _write(journal, KEY, 4)
        token = store.install(journal.partition, "topic")
        assert store.put(journal.partition, token, {KEY: (full_state(3), Pointer(1, 1))})
        assert store.ready(journal.partition, token, 3, 1)
        assert store.load(journal.partition, token, [KEY]) == Loaded(3, {KEY: full_state(3)})
        assert store.look_up(journal.partition, KEY).pointer == Pointer(1, 1)
        assert store.partitions() == 8
        store.close()


def test_what_an_earlier_view_left_is_unlinked_a_piece_a_call(
    server: OwnValkey, store: RedisView, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each writing call takes some of it away, at last all; what belongs to the present view stays."""
    monkeypatch.setattr("seekpoint.consumers.view.redis_view._SWEEP_MAX", 10)
    journal = Journal(store)
    journal.write([Change(key=b"p%d" % number, state=full_state(), whole=True) for number in range(95)])
    old = journal.token.encode()
    assert sum(old in key for key in _keys(server)) == 95 * 2 + 7
    journal.token = store.install(journal.partition, "topic")
    store.put(journal.partition, journal.token, {KEY: (full_state(7), Pointer(1, 1))})
    assert store.ready(journal.partition, journal.token, 7, 1)
    left = [sum(old in key for key in _keys(server))]
    journal.applied = 7
    while left[-1]:
        assert journal.write([])
        left.append(sum(old in key for key in _keys(server)))
    assert 8 <= len(left) <= 10
    assert all(before - after <= 24 for before, after in pairwise(left))
    assert journal.state() == full_state(7)
    assert not any(key.endswith(b":old") for key in _keys(server))


def test_offsets_come_in_pages(store: RedisView, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, whatever a page holds."""
    journal = Journal(store)
    journal.write([Change(key=b"p%d" % number, state=full_state(number), whole=True) for number in range(20)])
    for size in (1, 7, 10, 20, 21):
        monkeypatch.setattr("seekpoint.consumers.view.redis_view._OFFSETS_MAX", size)
        found = store.offsets_from(journal.partition, journal.token, 3)
        assert found == {b"p%d" % number: number for number in range(3, 20)}


# --- faults -----------------------------------------------------------------------------------------------------------
def test_flushall_in_the_middle_is_a_view_that_is_not_there(server: OwnValkey, store: RedisView) -> None:
    """Writes change nothing any more, reads find no view; a new one starts empty."""
    journal = Journal(store)
    _write(journal, KEY, 0)
    server.client.flushall()
    assert not journal.write([])
    assert store.look_up(journal.partition, KEY) == ViewLookup(None, None, None)
    assert store.load(journal.partition, journal.token, [KEY]) is None
    assert store.offsets_from(journal.partition, journal.token, 0) is None
    assert not store.point(journal.partition, journal.token, {KEY: Pointer(1, 1)})
    assert _keys(server) == []
    journal.token = store.install(journal.partition, "topic")
    assert store.ready(journal.partition, journal.token, -1, -1)
    assert store.look_up(journal.partition, KEY).state is None


def test_scripts_that_redis_forgot_are_sent_again(server: OwnValkey, store: RedisView) -> None:
    """SCRIPT FLUSH, or a failover."""
    journal = Journal(store)
    server.client.script_flush()
    assert _write(journal, KEY, 0)
    assert journal.state() == full_state(0)


@pytest.mark.parametrize("part", ["heads", "offsets", "names", "open", "summaries"])
def test_a_view_that_lost_an_index_is_no_view(server: OwnValkey, store: RedisView, part: str) -> None:
    """It would answer "no such process", or "nothing dirty", and a floor would be too high."""
    journal = Journal(store)
    _write(journal, KEY, 0)
    (name,) = [key for key in _keys(server) if key.endswith(b":" + part.encode())]
    server.client.delete(name)
    assert store.meta(journal.partition) is None
    assert store.look_up(journal.partition, OTHER) == ViewLookup(None, None, None)
    assert store.offsets_from(journal.partition, journal.token, 0) is None
    assert store.offset_of(journal.partition, KEY) == (None, None)
    assert store.page(journal.partition, b"", b"", 9).meta is None
    assert not journal.write([])


@pytest.mark.parametrize("part", [b":c:", b":m:"])
def test_a_state_that_lost_its_content_is_never_handed_out(server: OwnValkey, store: RedisView, part: bytes) -> None:
    """The reader is told why; the projector, which loads it, is too, and makes it anew."""
    journal = Journal(store)
    _write(journal, KEY, 0)
    (name,) = [key for key in _keys(server) if part in key]
    server.client.delete(name)
    seen = store.look_up(journal.partition, KEY)
    assert (seen.meta, seen.state) == (store.meta(journal.partition), None)
    assert seen.damage is not None
    assert store.load(journal.partition, journal.token, [KEY]) == Loaded(0, {}, {KEY: seen.damage})


def test_a_view_or_a_state_of_a_newer_format_stops_the_reader(server: OwnValkey, store: RedisView) -> None:
    """Never skipped, never taken for damage."""
    journal = Journal(store)
    _write(journal, KEY, 0)
    (heads,) = [key for key in _keys(server) if key.endswith(b":heads")]
    (checks,) = [key for key in _keys(server) if key.endswith(b":checks")]
    newer = server.client.hget(heads, KEY).replace(b'"v":%d' % FOLD_VERSION, b'"v":99')
    rest = server.client.hget(checks, KEY).split(b":", 1)[1]
    server.client.hset(heads, KEY, newer)
    server.client.hset(checks, KEY, head_check(KEY, newer) + b":" + rest)
    with pytest.raises(NewerFormat):
        store.look_up(journal.partition, KEY)
    with pytest.raises(NewerFormat):
        store.load(journal.partition, journal.token, [KEY])
    (meta,) = [key for key in _keys(server) if key.endswith(b":meta")]
    server.client.hset(meta, "format", "2")
    with pytest.raises(NewerFormat):
        store.meta(journal.partition)


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-lru", "allkeys-random"])
def test_a_redis_that_evicts_is_refused(policy: str) -> None:
    """At the first call, and once it is noticed later; with noeviction a limit is fine, without a limit any policy."""
    with own_valkey(maxmemory="100mb", maxmemory_policy=policy) as server:
        store = RedisView(settings_of(server))
        with pytest.raises(ViewRefused, match="noeviction") as caught:
            store.install(0, "topic")
        assert caught.value.maxmemory_policy == policy
        server.client.config_set("maxmemory-policy", "noeviction")
        assert store.install(0, "topic")
        server.client.config_set("maxmemory-policy", policy)
        server.client.config_set("maxmemory", "0")
        assert RedisView(settings_of(server)).install(0, "topic")
        store.close()


def test_a_redis_that_begins_to_evict_is_noticed(
    server: OwnValkey, store: RedisView, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looked at again every 30 s."""
    monkeypatch.setattr("seekpoint.consumers.view.redis_client._POLICY_INTERVAL_S", 0.0)
    store.install(0, "topic")
    server.client.config_set("maxmemory-policy", "allkeys-lru")
    server.client.config_set("maxmemory", "1gb")
    try:
        with pytest.raises(ViewRefused):
            store.meta(0)
    finally:
        server.client.config_set("maxmemory", "0")
        server.client.config_set("maxmemory-policy", "noeviction")


def test_a_full_redis_takes_a_batch_whole_or_not_at_all() -> None:
    """Out of memory is unavailable, for now; nothing of the batch is there."""
    with own_valkey() as server:
        store = RedisView(settings_of(server))
        journal = Journal(store)
        _write(journal, KEY, 0)
        server.client.config_set("maxmemory", "100kb")
        with pytest.raises(ViewUnavailable, match="maxmemory"):
            _write(journal, OTHER, 5)
        server.client.config_set("maxmemory", "0")
        assert journal.state() == full_state(0)
        assert store.look_up(journal.partition, OTHER).state is None
        assert _write(journal, OTHER, 5)
        store.close()


def test_a_redis_that_hangs_or_dies_is_unavailable_and_comes_back() -> None:
    """In the time-out; the same store goes on when it answers, and a write that ran is not run again."""
    with own_valkey() as server:
        settings = replace(settings_of(server), redis={"socket_timeout": "0.2"})
        store = RedisView(settings)
        journal = Journal(store)
        assert journal.write([])
        server.part.pause()
        started = time.monotonic()
        with pytest.raises(ViewUnavailable):
            _write(journal, KEY, 1)
        assert time.monotonic() - started < 15
        server.part.resume()
        wait_until(lambda: _answers(store))
        wait_until(lambda: store.look_up(journal.partition, KEY).state == full_state(1))  # it ran after all
        assert store.write(journal.partition, journal.token, 1, 1, 1, []) is False
        wait_until(lambda: server.client.info("persistence")["aof_buffer_length"] == 0)  # a slow disk delays its file
        server.part.kill()
        with pytest.raises(ViewUnavailable):
            store.meta(journal.partition)
        server.part.start()
        wait_until(lambda: _answers(store))
        assert store.look_up(journal.partition, KEY).state == full_state(1)
        store.close()


def test_a_wrong_password_is_refused_without_being_shown() -> None:
    """A person has to look; the password is in no message."""
    with own_valkey() as server:
        server.client.config_set("requirepass", "right-secret")
        url = server.url.replace("redis://", "redis://:wrong-secret@")
        store = RedisView(Settings(redis_url=url))
        with pytest.raises(ViewRefused) as caught:
            store.meta(0)
        assert "secret" not in str(caught.value)
        good = RedisView(Settings(redis_url=server.url, redis={"password": "right-secret"}))
        assert good.meta(0) is None
        for each in (store, good):
            each.close()


def test_the_permissions_that_the_page_names_are_enough() -> None:
    """docs/view.md's list, given to a user that may nothing else."""
    page = (Path(__file__).parents[2] / "docs" / "view.md").read_text()
    (named,) = [line.split("`")[3] for line in page.splitlines() if line.startswith("- A user that may")]
    with own_valkey() as server:
        server.client.execute_command("ACL", "SETUSER", "view", "on", ">pw", "~seekpoint:*", *named.split())
        store = RedisView(Settings(redis_url=server.url.replace("redis://", "redis://view:pw@")))
        journal = Journal(store)
        assert _write(journal, KEY, 0)
        journal.token = store.install(journal.partition, "topic")
        assert store.put(journal.partition, journal.token, {KEY: (full_state(0), Pointer(1, 1))})
        assert store.ready(journal.partition, journal.token, 0, 1)
        assert journal.state() == full_state(0)
        assert store.page(journal.partition, b"", b"", 1).summaries
        assert store.offsets_from(journal.partition, journal.token, 0) == {KEY: 0}
        assert store.partitions() == 8
        store.close()


def test_an_option_that_the_client_does_not_know_is_named(server: OwnValkey) -> None:
    """Not a traceback of the client's."""
    with pytest.raises(InvalidSetting, match="sokket"):
        RedisView(Settings(redis_url=server.url, redis={"sokket": "1"})).meta(0)


# --- cost -------------------------------------------------------------------------------------------------------------
def test_a_message_costs_the_same_after_ten_thousand(server: OwnValkey, store: RedisView) -> None:
    """The bytes that travel, counted: the 10,001st message's are the 11th's."""
    assert abs(_bytes_of_one_message(server, store, 10) - _bytes_of_one_message(server, store, 10_000)) < 20


def _bytes_of_one_message(server: OwnValkey, store: RedisView, before: int) -> int:
    journal = Journal(store)
    draft = Draft()
    draft.conversation = Conversation(b.MessageSaid("user", "what was said") for _ in range(before))
    journal.write([Change(key=KEY, state=draft.snapshot(), whole=True)])
    draft.conversation = draft.conversation.append(b.MessageSaid("user", "what was said"))
    change = Change(key=KEY, state=draft.snapshot(), messages=draft.conversation.newest(1), mail=False)
    start = server.client.info("stats")["total_net_input_bytes"]
    assert journal.write([change])
    return int(server.client.info("stats")["total_net_input_bytes"] - start)


def test_readers_and_a_writer_at_once_see_whole_states(store: RedisView) -> None:
    """State and applied offset are of one write, in every call."""
    journal = Journal(store)
    stop = threading.Event()
    torn: list[ViewLookup] = []

    def look() -> None:
        while not stop.is_set():
            seen = store.look_up(journal.partition, KEY)
            if seen.state is not None and (seen.meta is None or seen.state.offset != seen.meta.applied):
                torn.append(seen)

    readers = [threading.Thread(target=look) for _ in range(2)]
    for reader in readers:
        reader.start()
    for offset in range(200):
        assert journal.write([Change(key=KEY, state=full_state(offset), whole=offset % 3 == 0)])
    stop.set()
    for reader in readers:
        reader.join()
    assert not torn


def _answers(store: RedisView) -> bool:
    try:
        store.meta(0)
    except ViewUnavailable:
        return False
    return True


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# --- folds ------------------------------------------------------------------------------------------------------------
def test_a_view_of_an_older_fold_is_none_and_one_of_a_newer_stops_everybody(
    server: OwnValkey, store: RedisView, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one is made anew by a projector of this version; the other is another's, and never made anew by an older."""
    journal = Journal(store)
    assert _write(journal, KEY, 0)
    monkeypatch.setattr("seekpoint.consumers.view.redis_view.FOLD_VERSION", FOLD_VERSION + 1)
    assert store.meta(journal.partition) is None
    assert store.look_up(journal.partition, KEY) == ViewLookup(None, None, None)
    assert store.offset_of(journal.partition, KEY) == (None, None)
    assert store.page(journal.partition, b"", b"", 10) == (None, ())
    newer = Journal(store)
    assert store.meta(newer.partition) is not None
    monkeypatch.undo()
    for read in (store.meta, lambda number: store.look_up(number, KEY), lambda number: store.page(number, b"", b"", 1)):
        with pytest.raises(NewerFormat):
            read(newer.partition)
