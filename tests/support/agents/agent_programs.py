"""Agents as real processes, and the checker that trusts neither them nor the library's readers.

The checker reads the journal with a plain consumer and fastavro, folds with its own few lines, and compares with what
the agents wrote down: no acknowledged entry lost (I1), no phantom (I2), applied once (I3), no gap (I4), one owner an
epoch (I5).
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastavro
from confluent_kafka import Consumer, TopicPartition

from seekpoint.schemas import Settings, partition_of, schema_json

_SCHEMA = fastavro.parse_schema(json.loads(schema_json()))
_PROGRAM = Path(__file__).with_name("agent_program.py")


class Agent:
    """One agent process, and its record."""

    def __init__(self, settings: Settings, process_id: str, record: Path, *arguments: str, **environ: str) -> None:
        self.record = record
        self.log = record.with_suffix(".log")
        command = [sys.executable, str(_PROGRAM), process_id, str(record), *arguments]
        with self.log.open("ab") as log:
            self.popen = subprocess.Popen(command, env=environment(settings) | environ, stdout=log, stderr=log)

    def lines(self, what: str | None = None) -> list[dict[str, Any]]:
        """What it wrote down so far."""
        if not self.record.exists():
            return []
        lines = [json.loads(line) for line in self.record.read_text().splitlines() if line.endswith("}")]
        return [line for line in lines if what is None or line["what"] == what]

    def wait_for(self, what: str, count: int = 1, timeout_s: float = 60.0) -> list[dict[str, Any]]:
        """Its lines of that sort, once there are so many."""
        until(lambda: len(self.lines(what)) >= count, timeout_s, self._explain)
        return self.lines(what)

    def _explain(self) -> str:
        return f"{self.record.name}: {self.lines()[-3:]}\n{self.log.read_text()[-2000:]}"


@contextmanager
def agents() -> Iterator[list[Agent]]:
    """Agents put into this list are killed at the end, whatever happens."""
    running: list[Agent] = []
    try:
        yield running
    finally:
        for agent in running:
            agent.popen.kill()
            agent.popen.wait()


def until(look: Callable[[], Any], timeout_s: float, explain: Callable[[], str] = str) -> Any:
    """What ``look`` gives once it gives something."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"nothing within {timeout_s} s; {explain()}")


def environment(settings: Settings) -> dict[str, str]:
    """The environment in which ``Settings.load()`` gives ``settings``, as far as tests change them."""
    named = {
        "JOURNAL": settings.journal,
        "BOOTSTRAP_SERVERS": settings.bootstrap_servers,
        "REDIS_URL": settings.redis_url or "",
        "PARTITIONS": settings.partitions,
        "APPEND_TIMEOUT_S": settings.append_timeout_s,
        "HEAL_TIMEOUT_S": settings.heal_timeout_s,
        "CONFIRM_INTERVAL_S": settings.confirm_interval_s,
        "OWNER_TIMEOUT_S": settings.owner_timeout_s,
        "HEARTBEAT_INTERVAL_S": settings.heartbeat_interval_s,
        "START_TIMEOUT_S": settings.start_timeout_s,
    }
    return {**os.environ, **{f"SEEKPOINT_{name}": str(value) for name, value in named.items()}}


# --- the checker ------------------------------------------------------------------------------------------------------
@dataclass
class Found:
    """One process as the log has it, by the checker's own fold."""

    applied: list[str] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    seq: int = 0
    epoch: int = 0
    owner: bytes | None = None
    gap: bool = False
    stale: int = 0
    owners: dict[int, bytes] = field(default_factory=dict)


def check(settings: Settings, process_id: str) -> Found:
    """The process as the log has it; asserts I3 to I5."""
    return fold_by_checker(read_entries(settings, process_id))


def fold_by_checker(entries: Iterable[dict[str, Any]]) -> Found:
    """Fold the entries of one process; asserts I3 to I5 on the way."""
    found = Found()
    for entry in entries:
        name, body = entry["body"]
        if name == "seekpoint.Claim":
            _claim(found, entry, body)
        elif entry["seq"] is not None:
            _own(found, entry, name, body)
    assert not found.gap, "owner entries are missing"
    assert len(found.applied) == len(set(found.applied)), "an entry was applied twice"
    return found


def _claim(found: Found, entry: dict[str, Any], body: dict[str, Any]) -> None:
    healing = body["old_claim_id"] == found.owner and (body["abandon_from_seq"] or 1 << 62) <= found.seq + 1
    if body["expected_epoch"] == found.epoch and (not found.gap or healing or body["accept_degraded"]):
        found.epoch, found.owner, found.gap = found.epoch + 1, entry["id"], False
        assert found.epoch not in found.owners, "two owners of one epoch"
        found.owners[found.epoch] = entry["id"]


def _own(found: Found, entry: dict[str, Any], name: str, body: dict[str, Any]) -> None:
    value = json.loads(body["payload"]) if name == "seekpoint.Custom" else None
    if value is not None:
        found.sent.append(value)
    if entry["epoch"] != found.epoch or entry["claim_id"] != found.owner:
        found.stale += 1
    elif found.gap or entry["seq"] > found.seq + 1:
        found.gap = True
    elif entry["seq"] == found.seq + 1:
        found.seq += 1
        if name == "seekpoint.Released":
            found.owner = None
        if value is not None:
            found.applied.append(value)


def read_entries(settings: Settings, process_id: str) -> Iterator[dict[str, Any]]:
    """The entries under the process's key, by fastavro, from a plain consumer."""
    key = process_id.encode()
    for message in read_records(settings, partition_of(key, settings.partitions)):
        if message.key() == key:
            yield decode(message.value())


def decode(value: bytes) -> dict[str, Any]:
    """One entry, by fastavro; its body is (name, fields)."""
    stream = io.BytesIO(value[10:])
    entry: Any = fastavro.schemaless_reader(
        stream,
        _SCHEMA,
        return_record_name=True,
        return_record_name_override=True,
    )
    return dict(entry)


def read_records(settings: Settings, partition: int) -> Iterator[Any]:
    """Everything in the partition as of now."""
    consumer = Consumer({"bootstrap.servers": settings.bootstrap_servers, "group.id": "checker"})
    try:
        place = TopicPartition(settings.topic_name("journal"), partition, 0)
        _, high = consumer.get_watermark_offsets(place, timeout=60)
        consumer.assign([place])
        read, deadline = 0, time.monotonic() + 60
        while read < high and time.monotonic() < deadline:
            for message in consumer.consume(1_000, timeout=0.2):
                assert message.error() is None, message.error()
                read = (message.offset() or 0) + 1
                yield message
        assert read >= high, "the checker could not read to the end"
    finally:
        consumer.close()
