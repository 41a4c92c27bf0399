"""The evidence for a partition's states, from checkpoints and log: every state of a view is compared with it (P8).

A view is in Redis, where anybody with a client can change it. So a projection uses a state from the view only if its
digest is that of the newest checkpoint, or that of the state that this projection itself folded since. Any other state
is recomputed from checkpoint and log. What a projection saves therefore depends on checkpoints and the log alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice

from seekpoint.consumers.checkpoints.checkpoint import Checkpoint, CheckpointHead
from seekpoint.consumers.checkpoints.checkpoint_inventory import CheckpointInventory, drop_lost, read_inventory
from seekpoint.consumers.checkpoints.checkpoint_writer import Save
from seekpoint.consumers.log_reading.scan import scan
from seekpoint.consumers.projector.projection_source import ProjectionSource
from seekpoint.schemas.errors import JournalGap, JournalMismatch, JournalUnavailable
from seekpoint.schemas.state.process_state import Draft, State

_CHUNK = 20_000
"""At most so many states are recomputed with one scan, because all of them are in memory."""
_POINT_READS_MAX = 16


class Overtaken(Exception):
    """Another projector saved newer checkpoints, so the states as of this projector's position are unknown."""


class ViewEvidence:
    """The evidence for one partition, from one preparation of its projection to the next. For one thread.

    ``saved`` is the inventory that the projection loaded. The first call reads the heads of all checkpoints; it raises
    ``JournalUnavailable`` while another projector's open transaction hides some of them.
    """

    def __init__(self, source: ProjectionSource, partition: int, saved: CheckpointInventory) -> None:
        self._source = source
        self._partition = partition
        self._saved = saved
        self._known: CheckpointInventory | None = None

    def digest(self, key: bytes) -> str | None:
        """Return the digest of the process's newest checkpoint; None if it has no usable one."""
        head = self._index().heads.get(key)
        return None if head is None else head.digest

    def is_damaged(self, key: bytes) -> bool:
        """Return whether the process's newest checkpoint cannot be used."""
        return key in self._index().damaged

    def saved_offset(self, key: bytes) -> int:
        """Return the journal offset of the process's newest checkpoint; -1 if it has no usable one."""
        return self._index().offset(key)

    def unsaved(self, position: int) -> Iterator[tuple[bytes, State]]:
        """Yield each process with an entry in [floor, ``position``), with its state as of ``position``.

        Folds the states from checkpoints and log, and reads that part of the log twice. Omits unproven processes.
        """
        floor, log = self._saved.floor, self._source.log
        if floor >= position:
            return
        try:
            batches = log.read(self._partition, floor, position)
            keys = {record.key for batch in batches for record in batch.records if record.key is not None}
        except JournalGap as exc:
            raise Overtaken from exc
        for key, state in self.states(keys, position, keys):
            if state is not None:
                yield key, state

    def states(
        self, keys: Collection[bytes], position: int, touched: Collection[bytes]
    ) -> Iterator[tuple[bytes, State | None]]:
        """Yield the states of ``keys`` as of ``position``, or of a newer checkpoint; None: no such process.

        ``touched`` are the processes with an entry above their checkpoint; one scan from the floor on serves all of
        them. Omits a process whose checkpoint is damaged if the log's beginning is gone. Raises ``Overtaken``.
        """
        heads = self._index().heads
        left = iter(sorted(keys, key=lambda key: heads[key].position if key in heads else -1))
        try:
            while chunk := list(islice(left, _CHUNK)):
                yield from self._chunk(chunk, position, touched)
        except JournalGap as exc:  # trimmed meanwhile, so there is a newer floor
            raise Overtaken from exc

    def committed(self, save: Save, positions: Mapping[bytes, int]) -> None:
        """Process that ``save`` is in the log."""
        if self._known is not None:
            self._known.note(save.floor, save.checkpoints, positions)

    # --- how ----------------------------------------------------------------------------------------------------------
    def _index(self) -> CheckpointInventory:
        """Return the heads of all checkpoints and the floor, as of one position of the checkpoint partition (P7)."""
        if self._known is None:
            source, partition = self._source, self._partition
            stop = source.checkpoints.stable_end(partition)
            if stop < self._saved.position:
                raise JournalUnavailable("an open transaction hides checkpoints", partition=partition, offset=stop)
            known = read_inventory(source.checkpoints, partition, source.topic_id, stop, 0)
            # A record that was compacted away meanwhile has a newer one further on.
            while (stop := source.checkpoints.stable_end(partition)) > known.position:
                for position, key, value in source.checkpoints.records(partition, known.position, stop):
                    known.apply(position, key, value)
                known.position = stop
            drop_lost(known, source.log)
            for key in self._saved.damaged:
                known.heads.pop(key, None)
                known.damaged.add(key)
            self._known = known
        return self._known

    def _chunk(
        self, keys: list[bytes], position: int, touched: Collection[bytes]
    ) -> Iterator[tuple[bytes, State | None]]:
        known = self._index()
        if known.floor > position:
            raise Overtaken
        saved = dict(self._saved_states(keys))
        damaged = known.damaged.intersection(keys)
        drafts = {key: saved[key].thaw() if key in saved else Draft() for key in keys if key in touched}
        self._fold({key: draft for key, draft in drafts.items() if key not in damaged}, known.floor, position)
        if damaged:
            if self._source.log.watermarks(self._partition).low > 0:
                keys = [key for key in keys if key not in damaged]
            else:
                drafts.update({key: Draft() for key in damaged})
                self._fold({key: drafts[key] for key in damaged}, 0, position)
        for key in keys:
            state = drafts[key].freeze() if key in drafts else saved.get(key)
            yield key, None if state is None or state.offset < 0 else state

    def _fold(self, drafts: dict[bytes, Draft], start: int, stop: int) -> None:
        if drafts and start < stop:
            scan(self._source.log, self._partition, drafts, start, stop)

    def _saved_states(self, keys: Iterable[bytes]) -> Iterator[tuple[bytes, State]]:
        """Yield the states of the newest checkpoints of ``keys``, and mark those that are not whole as damaged."""
        known = self._index()
        heads = {key: known.heads[key] for key in keys if key in known.heads}
        for key, value in self._values(heads):
            try:
                yield key, Checkpoint.from_bytes(value).verified(key.decode(), self._source.topic_id)
            except JournalMismatch as exc:
                known.mark_damaged(key, exc)

    def _values(self, heads: dict[bytes, CheckpointHead]) -> Iterator[tuple[bytes, bytes]]:
        reader, partition = self._source.checkpoints, self._partition
        left = set(heads)
        if len(heads) <= _POINT_READS_MAX:
            for key, head in heads.items():
                value = reader.at(partition, head.position, key)
                if value is not None:
                    left.discard(key)
                    yield key, value
        else:
            places = {head.position: key for key, head in heads.items()}
            for position, key, value in reader.records(partition, min(places), max(places) + 1):
                if value is not None and places.get(position) == key:
                    left.discard(key)
                    yield key, value
        if left:  # compacted away, so another projector saved a newer one
            raise Overtaken
