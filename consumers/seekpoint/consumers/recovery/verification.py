"""Verification: recover one process by every method, with readers that share little code, and compare the states."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from io import BytesIO
from itertools import chain
from typing import Any

from msgspec import field

from seekpoint.consumers.recovery.points import NOW, Point
from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.consumers.recovery.recovery_report import Recovered
from seekpoint.consumers.recovery.tiers import Tier
from seekpoint.schemas.bodies import BODIES
from seekpoint.schemas.bodies.entry import Entry, process_key
from seekpoint.schemas.errors import JournalGap, NewerFormat, TierUnavailable, UndecodableRecord
from seekpoint.schemas.folding.fold import fold
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.log.log_ports import Batch, LogReader, Record
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.state.process_state import State, new_state
from seekpoint.schemas.wire.codec import SCHEMA_FINGERPRINT, schema_json


class Verification(FrozenStruct, frozen=True, kw_only=True):
    """The hashes of a process's state as of one offset, each found by another method."""

    process_id: str
    offset: int
    """Everything of the partition below this offset was read."""
    seq: int
    epoch: int
    hashes: dict[str, str]
    """By method. ``scan`` is what every reader does; ``audit`` decodes by the Avro schema and folds entry by entry;
    ``view`` and ``checkpoint`` start there."""
    missing: dict[str, str] = field(default_factory=dict)
    """The methods that could not be used, and why. Empty if the journal has no view and no checkpoints."""

    @property
    def agrees(self) -> bool:
        """Whether all methods found the same state."""
        return len(set(self.hashes.values())) == 1


def verify(recoverer: Recoverer, process_id: str) -> Verification:
    """Recover the process by every method and compare the states.

    Of a trimmed log only the methods that start at a checkpoint are compared; ``missing`` names the others. Raises as
    ``Recoverer.recover`` does. Blocks; reads the log twice.
    """
    found, missing = _by_scan(recoverer, process_id)
    stop = found.report.log_end
    hashes: dict[str, str] = {}
    if not missing:
        hashes["scan"] = found.state.hash
        try:
            hashes["audit"] = _audited(recoverer.log, process_id, stop).hash
        except JournalGap as gap:  # since the scan, which read from the beginning too
            missing["audit"] = _trimmed(gap)
    for tier in _stored_tiers(recoverer):
        _compare(recoverer, process_id, tier, stop, hashes, missing)
    verified = _verification(process_id, found, hashes, missing)
    if verified.agrees and not found.known:
        recoverer.recover(process_id)  # raises UnknownProcess
    return verified


def verify_all(recoverer: Recoverer, advance: Callable[[int], object] = lambda offsets: None) -> Iterator[Verification]:
    """Verify every process of the journal, by partition and id, with one read of each partition from its beginning.

    ``advance`` receives the number of offsets of each batch.
    """
    for partition in range(recoverer.log.partitions):
        yield from _verify_partition(recoverer, partition, advance)


def _verify_partition(recoverer: Recoverer, partition: int, advance: Callable[[int], object]) -> Iterator[Verification]:
    audit = _AuditFold(recoverer.log, partition)
    position = 0

    def audit_batch(batch: Batch) -> None:
        nonlocal position
        audit.add(batch)
        advance(batch.next_offset - position)
        position = batch.next_offset

    try:
        scanned = recoverer.recover_partition(partition, tier=Tier.SCAN, on_batch=audit_batch)
    except JournalGap:  # verify each process from its checkpoint and tail
        for process_id in sorted(recoverer.recover_partition(partition)):
            yield verify(recoverer, process_id)
        return
    stored = {tier: _in_bulk(recoverer, partition, tier) for tier in _stored_tiers(recoverer)}
    for process_id, found in sorted(scanned.items()):
        hashes = {"scan": found.state.hash, "audit": audit.states[process_key(process_id)].hash}
        missing: dict[str, str] = {}
        for tier, others in stored.items():
            other = others.get(process_id)
            if other is not None and other.state.offset == found.state.offset:
                hashes[str(tier)] = other.state.hash
            else:  # it is missing there, or entries were appended meanwhile
                _compare(recoverer, process_id, tier, found.report.log_end, hashes, missing)
        yield _verification(process_id, found, hashes, missing)
    for process_id in sorted({*chain(*stored.values())} - {*scanned}):  # it is new, or an outsider's invention
        yield verify(recoverer, process_id)


def methods_of(recoverer: Recoverer) -> list[str]:
    """Return the methods that ``verify`` compares: the keys that ``Verification.hashes`` may have, in its order."""
    return ["scan", "audit", *map(str, _stored_tiers(recoverer))]


def _stored_tiers(recoverer: Recoverer) -> list[Tier]:
    """Return the tiers that start from a stored state."""
    stores = {Tier.CHECKPOINT: recoverer.base_finder.checkpoints, Tier.VIEW: recoverer.base_finder.view}
    return [tier for tier, store in stores.items() if store is not None]


def _in_bulk(recoverer: Recoverer, partition: int, tier: Tier) -> Mapping[str, Recovered]:
    """Recover all processes that ``tier`` has; empty if one of them cannot be, then each is recovered alone."""
    try:
        return recoverer.recover_partition(partition, tier=tier)
    except TierUnavailable:
        return {}


def _compare(
    recoverer: Recoverer, process_id: str, tier: Tier, stop: int, hashes: dict[str, str], missing: dict[str, str]
) -> None:
    """Add the hash by ``tier`` as of ``stop`` to ``hashes``, or the reason to ``missing``."""
    try:
        point = Point(offset=stop - 1) if stop else NOW
        other = recoverer.recover(process_id, tier=tier, point=point, missing_ok=True)
        hashes[str(tier)] = other.state.hash
    except (TierUnavailable, NewerFormat) as exc:
        missing[str(tier)] = exc.message


def _verification(process_id: str, found: Recovered, hashes: dict[str, str], missing: dict[str, str]) -> Verification:
    state, stop = found.state, found.report.log_end
    return Verification(
        process_id=process_id, offset=stop, seq=state.seq, epoch=state.epoch, hashes=hashes, missing=missing
    )


def _by_scan(recoverer: Recoverer, process_id: str) -> tuple[Recovered, dict[str, str]]:
    """Recover by scan. If the log was trimmed, recover from the quickest base and say why no scan was possible."""
    try:
        return recoverer.recover(process_id, tier=Tier.SCAN, missing_ok=True), {}
    except JournalGap as gap:
        found = recoverer.recover(process_id, missing_ok=True)  # raises the gap again if there is no base at all
        return found, dict.fromkeys(("scan", "audit"), _trimmed(gap))


def _trimmed(gap: JournalGap) -> str:
    return f"the log was trimmed: it begins at {gap.low}"


def _audited(log: LogReader, process_id: str, stop: int) -> State:
    """Return the process's state as of ``stop``, folded entry by entry."""
    key = process_key(process_id)
    audit = _AuditFold(log, partition_of(key, log.partitions), only=key)
    for batch in log.read(audit.partition, 0, stop):
        audit.add(batch)
    return audit.states.get(key, new_state())


class _AuditFold:
    """Folds a partition entry by entry, decoded by the Avro library; with ``only`` one process of it."""

    def __init__(self, log: LogReader, partition: int, only: bytes | None = None) -> None:
        self.states: dict[bytes, State] = {}
        self.partition = partition
        self._only = only
        self._codec, self._limits, self._partitions = log.codec, log.limits, log.partitions
        self._decoder = _AvroDecoder()

    def add(self, batch: Batch) -> None:
        """Fold the batch's entries."""
        for record in batch.records:
            key = record.key
            if key is None or (self._only is not None and key != self._only):
                continue
            if partition_of(key, self._partitions) != self.partition:
                continue
            try:
                by_codec = self._codec.decode(record.value)  # decides what is poison, by the journal's limits
            except UndecodableRecord:
                continue
            entry = self._decoder.decode(record) or by_codec
            if entry.process_id.encode() == key:
                self.states[key] = fold(self.states.get(key, new_state()), record.offset, entry, self._limits)


class _AvroDecoder:
    """Decodes entries that were written with the current schema, by that schema."""

    def __init__(self) -> None:
        import fastavro

        self._fastavro = fastavro
        self._schema = fastavro.parse_schema(_without_logical_types(json.loads(schema_json())))
        self._bodies = {body.__name__: body for body in BODIES}

    def decode(self, record: Record) -> Entry | None:
        """Return the entry; None for an entry of another schema, which the codec decodes with the same library."""
        value = record.value
        if value is None or value[2:10] != SCHEMA_FINGERPRINT:
            return None
        raw: Any = self._fastavro.schemaless_reader(BytesIO(value[10:]), self._schema, None, return_record_name=True)
        name, body = raw.pop("body")
        body_type = self._bodies[name.rpartition(".")[2]]
        values = (_without_type_name(body[one.name]) for one in fields(body_type))
        return Entry(body=body_type(*values), **{name: _without_type_name(value) for name, value in raw.items()})


def _without_type_name(value: Any) -> Any:
    """Return a union's value without the name of its type, which the library adds for named types."""
    return value[1] if isinstance(value, tuple) else value


def _without_logical_types(schema: Any) -> Any:
    """Return ``schema`` without logical types, so that a time stamp stays an integer."""
    if isinstance(schema, list):
        return [_without_logical_types(member) for member in schema]
    if isinstance(schema, dict):
        return {name: _without_logical_types(value) for name, value in schema.items() if name != "logicalType"}
    return schema
