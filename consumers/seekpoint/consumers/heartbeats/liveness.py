"""Judge from heartbeats which owners look dead (rule O6).

The verdict is a hint: it decides whether ``open`` is refused at first, never who owns a process. Each node keeps one
heartbeat in the compacted topic ``NAME.nodes`` and, if it is configured, in Redis. An observer uses only its own
monotonic clock: a node is dead if its heartbeat stood still for ``owner_timeout_s`` while the observer kept reading. A
heartbeat that vanished because Redis was flushed proves nothing. A node whose process ended on the observer's own host
is dead at once. One whose event loop stands still while its heartbeat moves keeps its claims for ``loop_timeout_s``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Protocol

import msgspec

from seekpoint.consumers.heartbeats.heartbeat import Heartbeat, WorkerStatus, from_records, to_records
from seekpoint.consumers.heartbeats.host import HostProcess, has_died
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import SeekpointError
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.log.log_ports import LogReader

__all__ = [
    "Heartbeat",
    "HeartbeatSnapshot",
    "HeartbeatStore",
    "Heartbeats",
    "Liveness",
    "LivenessVerdict",
    "WorkerStatus",
    "newest",
]


class HeartbeatSnapshot(FrozenStruct, frozen=True):
    """The heartbeats at one moment. ``complete``: the topic was read, so a missing node has really left."""

    heartbeats: Mapping[str, Heartbeat]
    complete: bool


class HeartbeatStore(Protocol):
    """Reads heartbeats."""

    def read(self) -> HeartbeatSnapshot:
        """Return the current heartbeats. Never raises: after a failure the snapshot is incomplete."""


class LivenessVerdict(Enum):
    """An observer's knowledge of the owner of a process."""

    ALIVE = "its heartbeat moves and names the claim"
    DEAD = "its process has ended on this host, or its heartbeat or for long its loop stood still while it was watched"
    BLOCKED = "its heartbeat moves, and its event loop has stood still for owner_timeout_s"
    FREE = "its node has left, was started again, or does not name the claim any more"
    UNKNOWN = "it was not watched long enough, or nothing could be read"


class Heartbeats:
    """The heartbeats of a journal's nodes. Thread safe; blocks."""

    def __init__(self, log: LogReader, settings: Settings) -> None:
        self._table = log.table("nodes")
        self._pages: dict[bytes, bytes] = {}
        self._write_lock = threading.Lock()
        self._has_left = False
        self._redis = None
        if settings.redis_url is not None:
            from seekpoint.consumers.view.redis_client import RedisHash

            self._redis = RedisHash(settings, f"seekpoint:{settings.journal}:nodes")

    def publish(self, heartbeat: Heartbeat) -> None:
        """Write the heartbeat to the topic. Raises ``JournalUnavailable`` if Kafka did not accept it.

        Only pages that changed are written again; unused pages are deleted last. After ``withdraw`` nothing is written:
        a ``publish`` in another thread ends before its pages are deleted.
        """
        head, pages = to_records(heartbeat)
        with self._write_lock:
            for key, page in pages.items():
                if self._has_left:
                    return
                if self._pages.get(key) != page:
                    self._pages[key] = b""  # it may be written though its acknowledgement is lost: delete it later
                    self._table.put(key, page)
                    self._pages[key] = page
            if not self._has_left:
                self._table.put(heartbeat.node_id.encode(), head)
                self._delete_pages(self._pages.keys() - pages.keys())

    def _delete_pages(self, keys: Iterable[bytes]) -> None:
        for key in list(keys):
            self._table.put(key, None)
            del self._pages[key]

    def mirror(self, heartbeat: Heartbeat) -> None:
        """Write the heartbeat to Redis, if configured. ``publish`` does not, so that a slow Redis cannot delay it."""
        if self._redis is not None and not self._has_left:
            self._redis.put(heartbeat.node_id, heartbeat.to_bytes())
            if self._has_left:  # it withdrew meanwhile, perhaps before this was written
                self._redis.remove(heartbeat.node_id)

    def withdraw(self, node_id: str) -> None:
        """Remove the node for good: its claims are free at once. Raises as ``publish`` does."""
        self._has_left = True
        if self._redis is not None:
            self._redis.remove(node_id)
        with self._write_lock:
            self._table.put(node_id.encode(), None)
            self._delete_pages(self._pages)

    def read(self) -> HeartbeatSnapshot:
        """Return the newest heartbeat of each node."""
        in_redis = from_records(self._redis.items()) if self._redis is not None else {}
        try:
            return HeartbeatSnapshot(newest(from_records(self._table.items()), in_redis), complete=True)
        except SeekpointError:
            return HeartbeatSnapshot(in_redis, complete=False)

    def close(self) -> None:
        """Close the connection to Redis. Idempotent."""
        if self._redis is not None:
            self._redis.close()


def newest(topic: Mapping[str, Heartbeat], redis: Mapping[str, Heartbeat]) -> dict[str, Heartbeat]:
    """Return the newer of the two heartbeats of each node; if their boots differ, that of the topic."""
    both = {**redis, **topic}
    for node_id, heartbeat in redis.items():
        if both[node_id].boot_id == heartbeat.boot_id and both[node_id].beat < heartbeat.beat:
            both[node_id] = heartbeat
    return both


class _WatchedNode(msgspec.Struct):
    heartbeat: Heartbeat
    still_s: float = 0.0
    moved: bool = False
    loop_still_s: float = 0.0


class Liveness:
    """Observes heartbeats and judges owners. Thread safe; only ``observe`` blocks."""

    def __init__(
        self,
        store: HeartbeatStore,
        owner_timeout_s: float,
        has_died: Callable[[HostProcess | None], bool] = has_died,
        loop_timeout_s: float = 300.0,
    ) -> None:
        self._store = store
        self._has_died = has_died
        self._owner_timeout_s = owner_timeout_s
        self._loop_timeout_s = max(loop_timeout_s, owner_timeout_s)
        # An observer that was paused itself has not watched: a long interval counts as this much.
        self._interval_max_s = owner_timeout_s / 3
        self._watched: dict[str, _WatchedNode] = {}
        self._read_at: float | None = None
        self._complete = False
        self._lock = threading.Lock()

    def observe(self) -> None:
        """Read the heartbeats once. Call it every few seconds: an owner that was not watched cannot be judged."""
        snapshot = self._store.read()
        self.apply(snapshot, time.monotonic())

    def apply(self, snapshot: HeartbeatSnapshot, now_s: float) -> None:
        """Record a snapshot that was read at ``now_s`` of a monotonic clock."""
        with self._lock:
            watched_s = min(now_s - self._read_at, self._interval_max_s) if self._read_at is not None else 0.0
            for node_id, heartbeat in snapshot.heartbeats.items():
                self._apply_one(node_id, heartbeat, max(0.0, watched_s) if snapshot.complete else 0.0)
            if snapshot.complete:
                for node_id in self._watched.keys() - snapshot.heartbeats.keys():
                    del self._watched[node_id]
            self._complete = snapshot.complete
            self._read_at = now_s if snapshot.complete else None

    def _apply_one(self, node_id: str, heartbeat: Heartbeat, watched_s: float) -> None:
        before = self._watched.get(node_id)
        if before is None or before.heartbeat.boot_id != heartbeat.boot_id:
            self._watched[node_id] = _WatchedNode(heartbeat)
        elif heartbeat.beat > before.heartbeat.beat:
            has_turned = heartbeat.turns is None or heartbeat.turns != before.heartbeat.turns
            loop_still_s = 0.0 if has_turned else before.loop_still_s + watched_s
            self._watched[node_id] = _WatchedNode(heartbeat, moved=True, loop_still_s=loop_still_s)
        else:
            before.still_s += watched_s
            before.loop_still_s += watched_s

    def judge(self, node_id: str, boot_id: str, claim_id: bytes) -> LivenessVerdict:
        """Judge the owner with ``claim_id`` on that boot of that node, as of the last snapshot."""
        with self._lock:
            watched = self._watched.get(node_id)
            if watched is None:
                return LivenessVerdict.FREE if self._complete else LivenessVerdict.UNKNOWN
            if watched.heartbeat.boot_id != boot_id or claim_id not in watched.heartbeat.claim_ids:
                return LivenessVerdict.FREE
            return self._of_node(watched)

    def nodes(self) -> list[tuple[Heartbeat, LivenessVerdict]]:
        """Return every node of the last snapshot, with what is known of it. It is never ``FREE``."""
        with self._lock:
            return [(watched.heartbeat, self._of_node(watched)) for watched in self._watched.values()]

    def _of_node(self, watched: _WatchedNode) -> LivenessVerdict:
        if watched.still_s >= self._owner_timeout_s or self._has_died(watched.heartbeat.process):
            return LivenessVerdict.DEAD
        if watched.loop_still_s >= self._owner_timeout_s:
            is_long = watched.loop_still_s >= self._loop_timeout_s
            return LivenessVerdict.DEAD if is_long else LivenessVerdict.BLOCKED
        return LivenessVerdict.ALIVE if watched.moved else LivenessVerdict.UNKNOWN
