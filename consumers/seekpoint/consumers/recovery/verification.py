"""Verification: one process found in every way, through readers that share as little as possible, and compared."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import field, fields
from io import BytesIO
from typing import Any, cast

from seekpoint.consumers.recovery.points import NOW, Point
from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.consumers.recovery.recovery_report import Recovered
from seekpoint.consumers.recovery.tiers import Tier
from seekpoint.schemas.bodies import BODIES
from seekpoint.schemas.bodies.entry import Entry, process_key
from seekpoint.schemas.dataclass import dataclass
from seekpoint.schemas.errors import JournalGap, TierUnavailable, UndecodableRecord
from seekpoint.schemas.folding.fold import fold
from seekpoint.schemas.log.log_ports import Batch, LogReader, Record
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.state.state import State, new_state
from seekpoint.schemas.wire.codec import SCHEMA_FINGERPRINT, schema_json

__all__ = ["Verification", "verify", "verify_all", "ways_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The hashes of a process's state, each by another way, as of the same offset."""

    process_id: str
    offset: int
    """Everything of the partition below it was read."""
    seq: int
    epoch: int
    hashes: dict[str, str]
    """By way: ``scan`` is what every reader does; ``audit`` decodes by the Avro schema and folds entry by entry;
    ``view`` and ``checkpoint`` start from there."""
    missing: dict[str, str] = field(default_factory=dict)
    """The ways that could not be gone, and why. None where no view and no checkpoints are kept at all."""

    @property
    def agrees(self) -> bool:
        """Whether all ways lead to one state."""
        return len(set(self.hashes.values())) == 1


def verify(recoverer: Recoverer, process_id: str) -> Verification:
    """Recover the process in every way, fold it again, and compare.

    Raises as ``Recoverer.recover`` does; a trimmed log can only be compared from its checkpoints on, and one that is
    trimmed meanwhile as far as it was read: ``missing`` says so. Blocks; reads the log twice.
    """
    found, missing = _by_scan(recoverer, process_id)
    stop = found.report.log_end
    hashes: dict[str, str] = {}
    if not missing:
        hashes["scan"] = found.state.hash
        try:
            hashes["audit"] = _audited(recoverer, process_id, stop).hash
        except JournalGap as gap:  # since the scan, which read from the beginning too
            missing["audit"] = _trimmed(gap)
    for tier in _kept_tiers(recoverer):
        _compare(recoverer, process_id, tier, stop, hashes, missing)
    return _verification(process_id, found, hashes, missing)


def verify_all(recoverer: Recoverer, advance: Callable[[int], object] = lambda offsets: None) -> Iterator[Verification]:
    """Every process of the journal, by partition and id, with one read of each partition from its beginning.

    ``advance`` is told how many offsets each batch of it brought.
    """
    for partition in range(recoverer.log.partitions):
        yield from _verify_partition(recoverer, partition, advance)


def _verify_partition(recoverer: Recoverer, partition: int, advance: Callable[[int], object]) -> Iterator[Verification]:
    audit = _Audit(recoverer.log, partition, advance)
    try:
        scanned = Recoverer(audit.log, recoverer.dead_letters).recover_partition(partition, tier=Tier.SCAN)
    except JournalGap:  # each by its checkpoint and its tail
        for process_id in sorted(recoverer.recover_partition(partition)):
            yield verify(recoverer, process_id)
        return
    kept = {tier: _in_bulk(recoverer, partition, sorted(scanned), tier) for tier in _kept_tiers(recoverer)}
    for process_id, found in sorted(scanned.items()):
        hashes = {"scan": found.state.hash, "audit": audit.states[process_key(process_id)].hash}
        missing: dict[str, str] = {}
        for tier, others in kept.items():
            other = others.get(process_id)
            if other is not None and other.state.offset == found.state.offset:
                hashes[str(tier)] = other.state.hash
            else:  # it went on meanwhile, or it is not there
                _compare(recoverer, process_id, tier, found.report.log_end, hashes, missing)
        yield _verification(process_id, found, hashes, missing)


def ways_of(recoverer: Recoverer) -> list[str]:
    """The ways by which ``verify`` compares: the keys that ``Verification.hashes`` may have, in its order."""
    return ["scan", "audit", *map(str, _kept_tiers(recoverer))]


def _kept_tiers(recoverer: Recoverer) -> list[Tier]:
    """The ways that begin with something kept."""
    kept = {Tier.CHECKPOINT: recoverer.bases.checkpoints, Tier.VIEW: recoverer.bases.view}
    return [tier for tier, where in kept.items() if where is not None]


def _in_bulk(recoverer: Recoverer, partition: int, process_ids: list[str], tier: Tier) -> Mapping[str, Recovered]:
    """The processes by ``tier`` as of now; nothing if one of them cannot be found so: then each is asked for alone."""
    try:
        return recoverer.recover_partition(partition, process_ids, tier=tier)
    except TierUnavailable:
        return {}


def _compare(
    recoverer: Recoverer, process_id: str, tier: Tier, stop: int, hashes: dict[str, str], missing: dict[str, str]
) -> None:
    """Add the hash by ``tier``, as of ``stop``; or why there is none."""
    try:
        point = Point(offset=stop - 1) if stop else NOW
        other = recoverer.recover(process_id, tier=tier, point=point, missing_ok=True)
        hashes[str(tier)] = other.state.hash
    except TierUnavailable as exc:
        missing[str(tier)] = exc.message


def _verification(process_id: str, found: Recovered, hashes: dict[str, str], missing: dict[str, str]) -> Verification:
    state, stop = found.state, found.report.log_end
    return Verification(
        process_id=process_id, offset=stop, seq=state.seq, epoch=state.epoch, hashes=hashes, missing=missing
    )


def _by_scan(recoverer: Recoverer, process_id: str) -> tuple[Recovered, dict[str, str]]:
    """The process by scan; where the log was trimmed, by its quickest base, and why not by scan."""
    try:
        return recoverer.recover(process_id, tier=Tier.SCAN), {}
    except JournalGap as gap:
        found = recoverer.recover(process_id)  # raises the gap again if there is no base at all
        return found, dict.fromkeys(("scan", "audit"), _trimmed(gap))


def _trimmed(gap: JournalGap) -> str:
    return f"the log was trimmed: it begins at {gap.low}"


def _audited(recoverer: Recoverer, process_id: str, stop: int) -> State:
    """The process's state, entry by entry."""
    state = new_state()
    for offset, entry in _entries(recoverer, process_id, stop):
        state = fold(state, offset, entry, recoverer.log.limits)
    return state


def _entries(recoverer: Recoverer, process_id: str, stop: int) -> Iterator[tuple[int, Entry]]:
    """The process's entries, picked out of everything and decoded by the Avro library."""
    log = recoverer.log
    key = process_key(process_id)
    decoder = _AvroDecoder()
    for batch in log.read(partition_of(key, log.partitions), 0, stop):
        for record in batch.records:
            if record.key != key:
                continue
            try:
                known = log.codec.decode(record.value)  # says what is poison, by the limits of the journal
            except UndecodableRecord:
                continue
            entry = decoder.decode(record) or known
            if entry.process_id == process_id:
                yield record.offset, entry


class _Audit:
    """Folds whatever a read of the partition brings to somebody else, entry by entry, by the Avro library."""

    def __init__(self, log: LogReader, partition: int, advance: Callable[[int], object]) -> None:
        self.states: dict[bytes, State] = {}
        self.log = cast(LogReader, _Teed(log, self._take))
        self._codec, self._limits, self._partitions = log.codec, log.limits, log.partitions
        self._partition = partition
        self._advance = advance
        self._decoder = _AvroDecoder()

    def _take(self, batch: Batch, offsets: int) -> None:
        for record in batch.records:
            key = record.key
            if key is None or partition_of(key, self._partitions) != self._partition:
                continue
            try:
                known = self._codec.decode(record.value)
            except UndecodableRecord:
                continue
            entry = self._decoder.decode(record) or known
            if entry.process_id.encode() == key:
                self.states[key] = fold(self.states.get(key, new_state()), record.offset, entry, self._limits)
        self._advance(offsets)


class _Teed:
    """A log whose reads are shown to somebody else as well."""

    def __init__(self, log: LogReader, show: Callable[[Batch, int], None]) -> None:
        self._log = log
        self._show = show

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def read(self, partition: int, start: int, stop: int, keys: Collection[bytes] | None = None) -> Iterator[Batch]:
        for batch in self._log.read(partition, start, stop, keys):
            self._show(batch, batch.next_offset - start)
            start = batch.next_offset
            yield batch


class _AvroDecoder:
    """Decodes what is written with the current schema, by that schema."""

    def __init__(self) -> None:
        import fastavro

        self._fastavro = fastavro
        self._schema = fastavro.parse_schema(_plain(json.loads(schema_json())))
        self._bodies = {body.__name__: body for body in BODIES}

    def decode(self, record: Record) -> Entry | None:
        """The entry; None for another schema: there the codec uses this very library."""
        value = record.value
        if value is None or value[2:10] != SCHEMA_FINGERPRINT:
            return None
        raw: Any = self._fastavro.schemaless_reader(BytesIO(value[10:]), self._schema, None, return_record_name=True)
        name, body = raw.pop("body")
        body_type = self._bodies[name.rpartition(".")[2]]
        values = (_unnamed(body[one.name]) for one in fields(body_type))
        return Entry(body=body_type(*values), **{name: _unnamed(value) for name, value in raw.items()})


def _unnamed(value: Any) -> Any:
    """A value without the name of its type: the library names the members of a union that have one."""
    return value[1] if isinstance(value, tuple) else value


def _plain(schema: Any) -> Any:
    """``schema`` without logical types: a time stamp stays the integer it is."""
    if isinstance(schema, list):
        return [_plain(member) for member in schema]
    if isinstance(schema, dict):
        return {name: _plain(value) for name, value in schema.items() if name != "logicalType"}
    return schema
