"""The scan: a stretch of a partition, folded. What every reader of many entries does, and all that poison can do to it.

**Poison** is a record that cannot be an entry of this place: it is handed to ``on_poison`` with its bytes, and nothing
else changes. Entries of a newer format, and a Kafka that is silent, end the scan: nothing is ever skipped for them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.errors import UndecodableRecord
from seekpoint.schemas.folding.fold import Verdict, advance
from seekpoint.schemas.log.log_ports import Landmark, LogReader, Record
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.state.state import Draft
from seekpoint.schemas.wire.codec import Codec

__all__ = ["Cost", "OnPoison", "entry_of", "scan", "scan_all"]

OnPoison = Callable[[Record, UndecodableRecord], None]
"""Told of each record that is none: with its bytes, its place and what is wrong. May raise to stop the scan."""


@dataclass(slots=True)
class Cost:
    """What a scan read, and what it found."""

    next_offset: int = 0
    """Everything below it has been read."""
    first: Landmark | None = None
    """The first record that was read."""
    scanned: int = 0
    """Records, those of other processes included."""
    read_bytes: int = 0
    """Bytes of keys and values, those of other processes included."""
    applied: dict[bytes, int] = field(default_factory=dict)
    """By key: entries that were applied, without the bookkeeping of ownership (claims, releases)."""
    poison: dict[bytes | None, int] = field(default_factory=dict)
    """By key: records that were none."""


def scan(
    log: LogReader,
    partition: int,
    drafts: dict[bytes, Draft],
    start: int,
    stop: int,
    on_poison: OnPoison,
    *,
    stop_seq: int | None = None,
) -> Cost:
    """Fold the entries in [start, stop) of the processes whose keys ``drafts`` has, in place.

    ``drafts`` says where each of them stands at ``start`` (a new ``Draft()`` at 0). With ``stop_seq`` the scan ends
    right after an entry with that seq was applied. Raises what ``LogReader.read``, the codec and ``on_poison`` raise.
    """
    return _Scan(log, partition, drafts, on_poison, stop_seq).run(start, stop, drafts.keys())


def scan_all(
    log: LogReader, partition: int, drafts: dict[bytes, Draft], start: int, stop: int, on_poison: OnPoison
) -> Cost:
    """Fold all processes with an entry in [start, stop), in place: those not in ``drafts`` begin with nothing."""
    return _Scan(log, partition, drafts, on_poison, None).run(start, stop, None)


def entry_of(record: Record, codec: Codec, partitions: int) -> Entry:
    """The entry in ``record``. Raises ``UndecodableRecord`` for poison; ``NewerFormat`` stops the reader."""
    key = record.key
    if key is None:
        raise UndecodableRecord("a record without a key")
    entry = codec.decode(record.value)
    if entry.process_id.encode() != key:
        raise UndecodableRecord("its key is not its process's id", process_id=entry.process_id)
    if partition_of(key, partitions) != record.partition:
        home = partition_of(key, partitions)
        raise UndecodableRecord("in the wrong partition", process_id=entry.process_id, expected=home)
    return entry


class _Scan:
    """One scan under way."""

    def __init__(
        self,
        log: LogReader,
        partition: int,
        drafts: dict[bytes, Draft],
        on_poison: OnPoison,
        stop_seq: int | None,
    ) -> None:
        self.log = log
        self.partition = partition
        self.drafts = drafts
        self.on_poison = on_poison
        self.stop_seq = stop_seq
        self.cost = Cost()

    def run(self, start: int, stop: int, keys: Collection[bytes] | None) -> Cost:
        """Read and fold."""
        cost = self.cost
        cost.next_offset = start
        for batch in self.log.read(self.partition, start, stop, keys):
            cost.scanned += batch.scanned
            cost.read_bytes += batch.bytes
            cost.next_offset = batch.next_offset
            cost.first = cost.first or batch.first
            if batch.records and self._fold(batch.records):
                break
        return cost

    def _fold(self, records: Sequence[Record]) -> bool:
        """Fold a batch; whether ``stop_seq`` was reached. The hot loop: decoding 5 µs, folding 2 µs."""
        codec, partitions, limits = self.log.codec, self.log.partitions, self.log.limits
        drafts, applied = self.drafts, self.cost.applied
        for record in records:
            try:
                entry = entry_of(record, codec, partitions)
            except UndecodableRecord as exc:
                self._poisoned(record, exc)
                continue
            key: bytes = record.key  # type: ignore[assignment]  # an entry has one
            draft = drafts.get(key)
            if draft is None:
                draft = drafts[key] = Draft()
            verdict = advance(draft, record.offset, entry, limits)
            if verdict is Verdict.APPLIED or verdict is Verdict.DELIVERED:
                if not entry.body.OWNERSHIP:
                    applied[key] = applied.get(key, 0) + 1
            elif verdict is Verdict.FORGED:
                self._poisoned(record, UndecodableRecord(Verdict.FORGED.value, process_id=entry.process_id))
            if draft.seq == self.stop_seq:
                self.cost.next_offset = record.offset + 1
                return True
        return False

    def _poisoned(self, record: Record, error: UndecodableRecord) -> None:
        error.facts.update(partition=record.partition, offset=record.offset)
        self.cost.poison[record.key] = self.cost.poison.get(record.key, 0) + 1
        self.on_poison(record, error)
