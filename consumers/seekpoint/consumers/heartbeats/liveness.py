"""Who looks dead (rule O6): what nodes say about themselves, and what an observer makes of it.

A hint for politeness, never a guard: it decides whether ``open`` is refused or goes on, never who owns a process. Each
node keeps one heartbeat, in the compacted topic ``NAME.nodes`` and, where there is one, in Redis. An observer trusts
its own monotonic clock alone: a heartbeat that stands still for ``owner_timeout_s`` while it kept looking is a dead
node's; one that vanished because Redis was flushed is not. A node whose process has ended on the
observer's own host is dead at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Protocol

from seekpoint.consumers.heartbeats.heartbeat import Heartbeat, joined, paged
from seekpoint.consumers.heartbeats.host import HostProcess, has_died
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.dataclass import dataclass
from seekpoint.schemas.errors import SeekpointError
from seekpoint.schemas.log.log_ports import LogReader

__all__ = ["Heartbeat", "HeartbeatStore", "Heartbeats", "Liveness", "LivenessVerdict", "Sighting", "newest"]


@dataclass(frozen=True, slots=True)
class Sighting:
    """The heartbeats there were at one look. Only if ``complete`` (the topic was read) is a missing one really gone."""

    heartbeats: Mapping[str, Heartbeat]
    complete: bool


class HeartbeatStore(Protocol):
    """Where heartbeats are looked at."""

    def look(self) -> Sighting:
        """The heartbeats as of now. Never raises: what cannot be read makes the sighting incomplete."""


class LivenessVerdict(Enum):
    """What the owner of a process looks like."""

    ALIVE = "its heartbeat moves, and names the claim"
    DEAD = "its process has ended on this host, or its heartbeat stood still for owner_timeout_s while it was watched"
    FREE = "its node is gone, was started again, or does not name the claim any more"
    UNKNOWN = "not watched long enough, or nothing could be read"


class Heartbeats:
    """The heartbeats of a journal's nodes. Thread safe; blocks."""

    def __init__(self, log: LogReader, settings: Settings) -> None:
        self._table = log.table("nodes")
        self._pages: dict[bytes, bytes] = {}
        self._writing = threading.Lock()
        self._has_left = False
        self._redis = None
        if settings.redis_url is not None:
            from seekpoint.consumers.view.redis_client import RedisHash

            self._redis = RedisHash(settings, f"seekpoint:{settings.journal}:nodes")

    def publish(self, heartbeat: Heartbeat) -> None:
        """Say it in the topic. Raises ``JournalUnavailable`` if that did not take it.

        Of many claims only the pages that changed are written again; what is not needed any more goes last. A node that
        has left says nothing more: a beat that is under way in another thread ends before its pages are removed.
        """
        head, pages = paged(heartbeat)
        with self._writing:
            for key, page in pages.items():
                if self._has_left:
                    return
                if self._pages.get(key) != page:
                    self._pages[key] = b""  # it may land though its acknowledgement is lost: then it is removed too
                    self._table.put(key, page)
                    self._pages[key] = page
            if not self._has_left:
                self._table.put(heartbeat.node_id.encode(), head)
                self._forget(self._pages.keys() - pages.keys())

    def _forget(self, keys: Iterable[bytes]) -> None:
        for key in list(keys):
            self._table.put(key, None)
            del self._pages[key]

    def mirror(self, heartbeat: Heartbeat) -> None:
        """Say it in Redis too, if one answers. Apart from ``publish``: a Redis that hangs delays nobody."""
        if self._redis is not None and not self._has_left:
            self._redis.put(heartbeat.node_id, heartbeat.to_bytes())
            if self._has_left:  # it left meanwhile, perhaps before this arrived
                self._redis.remove(heartbeat.node_id)

    def withdraw(self, node_id: str) -> None:
        """A node leaves in order, for good: its claims are free at once. Raises as ``publish`` does."""
        self._has_left = True
        if self._redis is not None:
            self._redis.remove(node_id)
        with self._writing:
            self._table.put(node_id.encode(), None)
            self._forget(self._pages)

    def look(self) -> Sighting:
        """The newest heartbeat of each node."""
        in_redis = joined(self._redis.items()) if self._redis is not None else {}
        try:
            return Sighting(newest(joined(self._table.items()), in_redis), complete=True)
        except SeekpointError:
            return Sighting(in_redis, complete=False)

    def close(self) -> None:
        """Give up the connection to Redis. Idempotent."""
        if self._redis is not None:
            self._redis.close()


def newest(topic: Mapping[str, Heartbeat], redis: Mapping[str, Heartbeat]) -> dict[str, Heartbeat]:
    """Of each node the newer heartbeat of the two stores; of two boots the topic's."""
    both = {**redis, **topic}
    for node_id, heartbeat in redis.items():
        if both[node_id].boot_id == heartbeat.boot_id and both[node_id].beat < heartbeat.beat:
            both[node_id] = heartbeat
    return both


@dataclass(slots=True)
class _WatchedNode:
    heartbeat: Heartbeat
    still_s: float = 0.0
    moved: bool = False


class Liveness:
    """An observer of heartbeats. Thread safe; only ``observe`` blocks."""

    def __init__(
        self,
        store: HeartbeatStore,
        owner_timeout_s: float,
        has_died: Callable[[HostProcess | None], bool] = has_died,
    ) -> None:
        self._store = store
        self._has_died = has_died
        self._owner_timeout_s = owner_timeout_s
        # An observer that was stopped itself has not watched meanwhile: a long pause counts as a short one.
        self._interval_max_s = owner_timeout_s / 3
        self._watched: dict[str, _WatchedNode] = {}
        self._looked_at: float | None = None
        self._complete = False
        self._lock = threading.Lock()

    def observe(self) -> None:
        """Look once. Do so every few seconds: what was not watched cannot be judged."""
        sighting = self._store.look()
        self.see(sighting, time.monotonic())

    def see(self, sighting: Sighting, now_s: float) -> None:
        """Take a sighting into account, made at ``now_s`` of a monotonic clock. Pure but for what is remembered."""
        with self._lock:
            watched_s = min(now_s - self._looked_at, self._interval_max_s) if self._looked_at is not None else 0.0
            for node_id, heartbeat in sighting.heartbeats.items():
                self._see_one(node_id, heartbeat, max(0.0, watched_s) if sighting.complete else 0.0)
            if sighting.complete:
                for node_id in self._watched.keys() - sighting.heartbeats.keys():
                    del self._watched[node_id]
            self._complete = sighting.complete
            self._looked_at = now_s if sighting.complete else None

    def _see_one(self, node_id: str, heartbeat: Heartbeat, watched_s: float) -> None:
        before = self._watched.get(node_id)
        if before is None or before.heartbeat.boot_id != heartbeat.boot_id:
            self._watched[node_id] = _WatchedNode(heartbeat)
        elif heartbeat.beat > before.heartbeat.beat:
            self._watched[node_id] = _WatchedNode(heartbeat, moved=True)
        else:
            before.still_s += watched_s

    def judge(self, node_id: str, boot_id: str, claim_id: bytes) -> LivenessVerdict:
        """What the owner by ``claim_id``, on that boot of that node, looks like as of the last look."""
        with self._lock:
            watched = self._watched.get(node_id)
            if watched is None:
                return LivenessVerdict.FREE if self._complete else LivenessVerdict.UNKNOWN
            if watched.heartbeat.boot_id != boot_id or claim_id not in watched.heartbeat.claim_ids:
                return LivenessVerdict.FREE
            if watched.still_s >= self._owner_timeout_s or self._has_died(watched.heartbeat.process):
                return LivenessVerdict.DEAD
            return LivenessVerdict.ALIVE if watched.moved else LivenessVerdict.UNKNOWN
