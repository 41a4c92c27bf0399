"""What checkpoints and log say of a partition's processes: every state that a view gives is compared with it (P8).

A view is in Redis, where anybody with a client can change it. So a projection uses a state from the view only if its
digest is the one of the newest checkpoint, or the one of the state that this projection itself folded since. Any other
state is made anew from checkpoint and log. What a projection saves therefore rests on checkpoints and the log alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice

from seekpoint.consumers.checkpoints.checkpoint import Checkpoint, CheckpointHead
from seekpoint.consumers.checkpoints.checkpoint_inventory import CheckpointInventory, read_inventory
from seekpoint.consumers.checkpoints.checkpoint_writer import Save
from seekpoint.consumers.log_reading.leader_epochs import lost_landmarks
from seekpoint.consumers.log_reading.scan import scan
from seekpoint.consumers.projector.projection_source import ProjectionSource
from seekpoint.schemas.errors import JournalGap, JournalMismatch, JournalUnavailable
from seekpoint.schemas.state.process_state import Draft, State

__all__ = ["Overtaken", "ViewEvidence"]

_CHUNK = 20_000
"""So many states at most are made anew with one scan: they are all in memory meanwhile."""
_POINT_READS_MAX = 16


class Overtaken(Exception):
    """Another projector has saved more than what this one knows of: nothing can be said as of its position."""


class ViewEvidence:
    """The proven states of one partition, from one preparation of its projection to the next. One thread's.

    ``saved`` is what the projection knows to be saved. The first question reads the heads of all checkpoints; it raises
    ``JournalUnavailable`` while another projector's open transaction hides some of them.
    """

    def __init__(self, source: ProjectionSource, partition: int, saved: CheckpointInventory) -> None:
        self._source = source
        self._partition = partition
        self._saved = saved
        self._known: CheckpointInventory | None = None

    def digest(self, key: bytes) -> str | None:
        """The digest of the process's newest checkpoint; None: it has none that can be used."""
        head = self._index().heads.get(key)
        return None if head is None else head.digest

    def saved_offset(self, key: bytes) -> int:
        """The journal offset of the process's newest checkpoint; -1: it has none that can be used."""
        return self._index().offset(key)

    def unsaved(self, position: int) -> Iterator[tuple[bytes, State]]:
        """Every process with an entry in [floor, ``position``), as of ``position``; folded from checkpoints and log.

        Reads that stretch of the log twice. Left out is whatever nothing is proven of.
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
        """The states of ``keys`` as of ``position``, or of their checkpoint if that is newer; None: no such process.

        ``touched`` are those with an entry behind their checkpoint; one scan from the floor on serves all of them.
        Left out is a process whose checkpoint is damaged while the log's beginning is gone. Raises ``Overtaken``.
        """
        heads = self._index().heads
        left = iter(sorted(keys, key=lambda key: heads[key].position if key in heads else -1))
        try:
            while chunk := list(islice(left, _CHUNK)):
                yield from self._chunk(chunk, position, touched)
        except JournalGap as exc:  # trimmed meanwhile: a newer floor stands for it
            raise Overtaken from exc

    def committed(self, save: Save, positions: Mapping[bytes, int]) -> None:
        """Take in that ``save`` is in the log."""
        if self._known is not None:
            self._known.note(save.floor, save.checkpoints, positions)

    # --- how ----------------------------------------------------------------------------------------------------------
    def _index(self) -> CheckpointInventory:
        """The heads of all checkpoints and the floor, as of one position of the checkpoint partition (P7)."""
        if self._known is None:
            source, partition = self._source, self._partition
            stop = source.checkpoints.stable_end(partition)
            if stop < self._saved.position:
                raise JournalUnavailable("an open transaction hides checkpoints", partition=partition, offset=stop)
            known = read_inventory(source.checkpoints, partition, source.topic_id, stop, 0)
            # What was compacted away meanwhile was replaced behind it.
            while (stop := source.checkpoints.stable_end(partition)) > known.position:
                for position, key, value in source.checkpoints.records(partition, known.position, stop):
                    known.apply(position, key, value)
                known.position = stop
            gone = lost_landmarks(source.log, partition, (head.landmark for head in known.heads.values()))
            lost = [key for key, head in known.heads.items() if head.landmark in gone]
            for key in [*lost, *self._saved.damaged]:
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
        """The states of the newest checkpoints of ``keys``. One that is not whole counts as damaged from now on."""
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
        if left:  # compacted away: a newer one took its place, and it is not ours
            raise Overtaken
