"""Damage in any key of a view in a real Valkey is seen: what was changed is never handed out as if it were whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from own_valkey import OwnValkey, own_valkey
from seekpoint.consumers.view.redis_view import RedisView
from seekpoint.consumers.view.view_rows import check_of, head_check
from seekpoint.consumers.view.view_store import Change, Pointer
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import NewerFormat
from seekpoint.schemas.state.process_state import State
from view_journal import KEY, OTHER, Journal, full_state

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def server() -> Iterator[OwnValkey]:
    with own_valkey() as server:
        yield server


@pytest.fixture
def store(server: OwnValkey) -> Iterator[RedisView]:
    server.client.flushall()
    store = RedisView(Settings(journal="fleet.1", redis_url=server.url, redis={"socket_timeout": "20"}), partitions=4)
    yield store
    store.close()


@pytest.fixture
def journal(store: RedisView) -> Journal:
    """Two processes with everything that a process can have, and a pointer."""
    journal = Journal(store)
    states = {KEY: full_state(7), OTHER: full_state(6)}
    journal.write([Change(key=key, state=state, whole=True) for key, state in states.items()], 7)
    assert store.point(journal.partition, journal.token, {key: Pointer(12, 5) for key in (KEY, OTHER)})
    return journal


class Damage:
    """What a person with a client can do to a key."""

    def __init__(self, client: Any, journal: Journal) -> None:
        self.client = client
        self.prefix = f"seekpoint:{{fleet.1:{journal.partition}}}:".encode()
        self.token = journal.token.encode()

    def key(self, name: bytes) -> bytes:
        return self.prefix + self.token + b":" + name

    def change(self, key: bytes, field: bytes) -> None:
        """Another value of the same length, if it has one."""
        old = self.client.hget(key, field)
        self.client.hset(key, field, old[:-1] + (b"1" if old[-1:] != b"1" else b"2"))


def _renamed(it: Damage) -> None:
    key = it.key(b"c:" + KEY)
    it.client.hset(key, b"new", it.client.hget(key, b"big"))
    it.client.hdel(key, b"big")


def _other_head(it: Damage) -> None:
    it.client.hset(it.key(b"heads"), KEY, it.client.hget(it.key(b"heads"), OTHER))


KINDS: dict[str, Callable[[Damage], object]] = {
    "head": lambda it: it.change(it.key(b"heads"), KEY),
    "mail": lambda it: it.change(it.key(b"mails"), KEY),
    "mail is gone": lambda it: it.client.hdel(it.key(b"mails"), KEY),
    "context field": lambda it: it.change(it.key(b"c:" + KEY), b"big"),
    "context field under another name": _renamed,
    "message": lambda it: it.client.lset(it.key(b"m:" + KEY), 1, b'["user","another"]'),
    "messages in another order": lambda it: it.client.rpoplpush(it.key(b"m:" + KEY), it.key(b"m:" + KEY)),
    "a message more": lambda it: it.client.rpush(it.key(b"m:" + KEY), b'["user","more"]'),
    "call": lambda it: it.client.hset(it.key(b"c:" + KEY), b"\xffstep:1", b"[]"),
    "frame": lambda it: it.client.hset(it.key(b"c:" + KEY), b"\xfestart", b"[]"),
    "fold": lambda it: it.change(it.key(b"c:" + KEY), b"\xfdspent"),
    "check": lambda it: it.change(it.key(b"checks"), KEY),
    "check is gone": lambda it: it.client.hdel(it.key(b"checks"), KEY),
    "another process's head": _other_head,
    "offset": lambda it: it.client.zadd(it.key(b"offsets"), {KEY: 3}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_part_of_a_process_is_seen(server: OwnValkey, store: RedisView, journal: Journal, kind: str) -> None:
    """Readers and projectors are told; the neighbour is as good as ever; a whole change makes the process anew."""
    KINDS[kind](Damage(server.client, journal))
    seen = store.look_up(journal.partition, KEY)
    assert (seen.state, bool(seen.damage)) == (None, True)
    loaded = store.load(journal.partition, journal.token, [KEY, OTHER])
    assert loaded is not None
    assert (list(loaded.states), list(loaded.damaged)) == ([OTHER], [KEY])
    assert journal.write([Change(key=KEY, state=full_state(8), whole=True)], 8)
    assert journal.state() == full_state(8)


@pytest.mark.parametrize("field", ["token", "applied", "topic_id", "leader_epoch", "fold", "partitions", "check"])
def test_a_changed_meta_is_no_view(server: OwnValkey, store: RedisView, journal: Journal, field: str) -> None:
    """An applied offset that is too high would hide entries: readers go on without the view, projectors rebuild it."""
    server.client.hset(Damage(server.client, journal).prefix + b"meta", field, "99")
    assert store.meta(journal.partition) is None
    assert store.look_up(journal.partition, KEY).meta is None
    assert not journal.write([])


@pytest.mark.parametrize("value", [b"12:9", b"12:9:0", b"junk", b"", b"13:5:" + head_check(KEY, b"12:5")])
def test_a_changed_pointer_is_none(server: OwnValkey, store: RedisView, journal: Journal, value: bytes) -> None:
    """A floor that is too high would hide entries."""
    assert store.look_up(journal.partition, KEY).pointer == Pointer(12, 5)
    server.client.hset(Damage(server.client, journal).key(b"pointers"), KEY, value)
    assert store.look_up(journal.partition, KEY).pointer is None


def test_a_list_does_not_believe_a_damaged_summary(server: OwnValkey, store: RedisView, journal: Journal) -> None:
    """The partition counts as missing, so that the list says what it lacks. The state itself is still read."""
    assert len(store.page(journal.partition, b"", b"", 9).summaries) == 2
    damage = Damage(server.client, journal)
    damage.change(damage.key(b"summaries"), KEY)
    for page in (store.page(journal.partition, b"", b"", 9), store.newest_page(journal.partition, None, 9)):
        assert page == (None, ())
    assert store.look_up(journal.partition, KEY).state == full_state()


def test_a_summary_of_another_process_is_damage(server: OwnValkey, store: RedisView, journal: Journal) -> None:
    """Two rows that were exchanged are whole, but of the wrong process."""
    key = Damage(server.client, journal).key(b"summaries")
    server.client.hset(key, KEY, server.client.hget(key, OTHER))
    assert store.page(journal.partition, b"", b"", 9) == (None, ())


def test_a_name_that_was_exchanged_is_seen_by_lists(server: OwnValkey, store: RedisView, journal: Journal) -> None:
    """The count is as it was."""
    names = Damage(server.client, journal).key(b"names")
    server.client.zrem(names, KEY)
    server.client.zadd(names, {b"case-99": 0})
    assert store.page(journal.partition, b"", b"", 9) == (None, ())


def test_random_damage_is_never_handed_out(server: OwnValkey, store: RedisView) -> None:
    """Seeded: any field, item or score of any key is changed, removed, doubled or exchanged; all of it is seen."""
    seen_as_damage = 0
    for seed in range(400):
        random = Random(seed)
        journal = Journal(store)
        journal.write([Change(key=key, state=full_state(), whole=True) for key in (KEY, OTHER)], 7)
        damage = Damage(server.client, journal)
        keys = sorted(key for key in server.client.keys(damage.prefix + b"*") if not key.endswith(b":names"))
        _damage(server.client, random.choice(keys), random)
        for key in (KEY, OTHER):
            try:
                seen = store.look_up(journal.partition, key)
            except NewerFormat:  # the format's number was changed
                break
            if seen.meta is None or seen.damage is not None:
                seen_as_damage += 1
            else:
                assert seen.state == full_state(), seed
        else:
            for one in store.page(journal.partition, b"", b"", 9).summaries:
                assert (one.seq, one.offset) == (full_state().seq, 7), seed
    assert seen_as_damage > 300


def _damage(client: Any, key: bytes, random: Random) -> None:
    """One thing about ``key`` is another one afterwards."""
    kind = client.type(key)
    if kind == b"hash":
        field = random.choice(sorted(client.hkeys(key)))
        old = client.hget(key, field)
        if random.random() < 0.3 or not old:
            client.hdel(key, field)
        else:
            at = random.randrange(len(old))
            client.hset(key, field, old[:at] + bytes([old[at] ^ (1 << random.randrange(8))]) + old[at + 1 :])
    elif kind == b"list":
        at, other = random.sample(range(client.llen(key)), 2)
        client.lset(key, at, client.lindex(key, other))
    elif kind == b"zset":
        client.zincrby(key, random.choice([-1, 1, 5]), random.choice(client.zrange(key, 0, -1)))
    else:
        raise AssertionError(kind)


def test_the_check_has_no_secret(server: OwnValkey, store: RedisView, journal: Journal) -> None:
    """Who can write to Redis can make a row that has its hash: so no projector believes it either (P8)."""
    damage = Damage(server.client, journal)
    damage.change(damage.key(b"c:" + KEY), b"big")
    row = [server.client.hget(damage.key(name), KEY) for name in (b"heads", b"mails")]
    fields = [part for pair in server.client.hgetall(damage.key(b"c:" + KEY)).items() for part in pair]
    messages = server.client.lrange(damage.key(b"m:" + KEY), 0, -1)
    server.client.hset(damage.key(b"checks"), KEY, check_of(KEY, row[0], row[1], fields, messages))
    seen: State | None = store.look_up(journal.partition, KEY).state
    assert seen is not None
    assert seen.values_json["big"] != full_state().values_json["big"]
