"""Encode a heartbeat as records: one, or a head and pages of claims, for any number of open processes.

The key of a page contains the number of pages. If that number changes, the old pages stay readable until the head names
the new number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import orjson
from msgspec import ValidationError, convert, field, to_builtins

from seekpoint.consumers.heartbeats.host import HostProcess
from seekpoint.schemas.errors import JournalMismatch
from seekpoint.schemas.frozen_struct import FrozenStruct, built

CLAIMS_A_PAGE = 1_000
"""About 34 kB of JSON, which is written again for one more claim."""


class WorkerStatus(FrozenStruct, frozen=True, kw_only=True):
    """The part of a node's heartbeat that describes its worker."""

    group: str
    """The workers of one group share the partitions."""
    agents: tuple[str, ...] = ()
    pinned: Mapping[str, str] = field(default_factory=dict)
    """By the name of an agent that is pinned: the definition with which a process must have begun."""
    partitions: tuple[int, ...] = ()
    """The partitions that are assigned to it."""
    running: int = 0
    """How many runs are in memory."""
    ready: int = 0
    """How many runs wait for room."""
    waiting: int = 0
    """How many processes wait for a moment or for mail."""
    draining: bool = False


built(WorkerStatus)


class Heartbeat(FrozenStruct, frozen=True):
    """A node's sign of life: ``beat`` rises, ``boot_id`` names its start, ``claim_ids`` are the claims it holds."""

    node_id: str
    boot_id: str
    claim_ids: tuple[bytes, ...]
    beat: int
    pages: int = 0
    """In a head: the number of pages with its claims."""
    process: HostProcess | None = None
    """The operating system's process of the node; None where the system does not show it."""
    worker: WorkerStatus | None = None
    """Of a node that runs a worker."""
    turns: int | None = None
    """How often the node's event loop was seen to turn; None: a node of an older release does not say it."""

    def to_bytes(self, *, pages: int = 0) -> bytes:
        """Encode as JSON, claim ids in hex. With ``pages`` it is a head, without claims."""
        raw: dict[str, object] = {"node_id": self.node_id, "boot_id": self.boot_id, "beat": self.beat}
        if (one := self.process) is not None:
            raw["process"] = [one.host, one.namespaces, one.pid, one.started]
        if self.worker is not None:
            raw["worker"] = to_builtins(self.worker)
        if self.turns is not None:
            raw["turns"] = self.turns
        if pages:
            return orjson.dumps({**raw, "claim_ids": [], "pages": pages})
        return orjson.dumps({**raw, "claim_ids": [claim.hex() for claim in self.claim_ids]})

    @classmethod
    def from_bytes(cls, data: bytes) -> Heartbeat:
        """Decode a heartbeat. Raises ``JournalMismatch`` if ``data`` is none."""
        try:
            raw = orjson.loads(data)
            claims = tuple(map(bytes.fromhex, raw["claim_ids"]))
            pages = int(raw.get("pages", 0))
            process, worker = _process(raw.get("process")), _worker(raw.get("worker"))
            turns = None if raw.get("turns") is None else int(raw["turns"])
            node_id, boot_id, beat = str(raw["node_id"]), str(raw["boot_id"]), int(raw["beat"])
            return cls(node_id, boot_id, claims, beat, pages, process, worker, turns)
        except (ValueError, TypeError, KeyError, AttributeError) as exc:
            raise JournalMismatch("the bytes are no heartbeat", found=data[:80]) from exc


def _process(raw: object) -> HostProcess | None:
    if not isinstance(raw, list) or [type(part) for part in raw] != [str, str, int, int] or raw[2] <= 0:
        return None
    return HostProcess(*raw)


def _worker(raw: object) -> WorkerStatus | None:
    try:
        return None if raw is None else convert(raw, WorkerStatus)
    except ValidationError:  # of another version: it stays a heartbeat
        return None


def to_records(heartbeat: Heartbeat) -> tuple[bytes, dict[bytes, bytes]]:
    """Return the value of the head, and the pages by key, which have to be written first.

    A claim stays in its page while others come and go, so most pages do not change from beat to beat.
    """
    claims = heartbeat.claim_ids
    if len(claims) <= CLAIMS_A_PAGE:
        return heartbeat.to_bytes(), {}
    count = 1 << (2 * len(claims) // CLAIMS_A_PAGE).bit_length()
    dealt: list[list[bytes]] = [[] for _ in range(count)]
    for claim in claims:
        dealt[int.from_bytes(claim[-4:], "big") % count].append(claim)
    pages = {_key(heartbeat.node_id, count, at): _page(heartbeat.boot_id, each) for at, each in enumerate(dealt)}
    return heartbeat.to_bytes(pages=count), pages


def from_records(items: Mapping[bytes, bytes]) -> dict[str, Heartbeat]:
    """Return the heartbeats in these records, by node. Records in another format (a newer node's) are left out.

    Only pages that exist are counted, whatever number a head names. A head under the key of another node is none.
    """
    pages: dict[bytes, list[bytes]] = {}
    for key, data in items.items():
        if b"\0" in key:
            pages.setdefault(key.rpartition(b"\0")[0], []).append(data)
    found = {}
    for key, data in items.items():
        if b"\0" in key:
            continue
        try:
            heartbeat = Heartbeat.from_bytes(data)
            if heartbeat.node_id.encode() != key:
                continue
            if heartbeat.pages:
                own = pages.get(_group(heartbeat.node_id, heartbeat.pages), ())
                whole = tuple(claim for page in own for claim in _claims(page, heartbeat))
                heartbeat = replace(heartbeat, claim_ids=whole, pages=0)
        except (JournalMismatch, UnicodeEncodeError):
            continue
        found[heartbeat.node_id] = heartbeat
    return found


def _group(node_id: str, count: int) -> bytes:
    return f"{node_id}\0{count}".encode()


def _key(node_id: str, count: int, at: int) -> bytes:
    return _group(node_id, count) + f"\0{at}".encode()


def _page(boot_id: str, claims: Sequence[bytes]) -> bytes:
    return orjson.dumps({"boot_id": boot_id, "claim_ids": [claim.hex() for claim in sorted(claims)]})


def _claims(page: bytes, heartbeat: Heartbeat) -> list[bytes]:
    try:
        raw = orjson.loads(page)
        return list(map(bytes.fromhex, raw["claim_ids"])) if raw["boot_id"] == heartbeat.boot_id else []
    except (ValueError, TypeError, KeyError) as exc:
        raise JournalMismatch("the bytes are no page of a heartbeat", found=page[:80]) from exc
