"""The projection of one partition: a state machine over the ports, by rules P1 to P8 of the contract.

    prepare ──> ready ── project, project, … propose ─> committed ── project …
       ^          │ the view is not where it was: reload (what is applied is Redis' to say)
       └──────────┘

Redis is the truth for what is applied, the checkpoint partition for what is saved; what is dirty is known here only
(P4). Everything may be lost at any moment: whoever prepares next finds the same.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import Future

from seekpoint.consumers.checkpoints.cadence import Dirty
from seekpoint.consumers.checkpoints.checkpoint import Floor
from seekpoint.consumers.checkpoints.checkpoint_inventory import CheckpointInventory, read_inventory
from seekpoint.consumers.checkpoints.checkpoint_scheduler import CheckpointScheduler
from seekpoint.consumers.checkpoints.checkpoint_writer import Save
from seekpoint.consumers.log_reading.leader_epochs import LeaderEpochs, is_intact, lost_landmarks
from seekpoint.consumers.projector.batch_fold import Poison, fold_batch
from seekpoint.consumers.projector.finished_contents import FinishedContents
from seekpoint.consumers.projector.projection_source import ProjectionSource
from seekpoint.consumers.projector.proven_states import ProvenStates
from seekpoint.consumers.projector.state_cache import StateCache
from seekpoint.consumers.projector.view_evidence import Overtaken
from seekpoint.consumers.projector.view_rebuild import rebuild
from seekpoint.consumers.recovery.fold_renewal import renew_folds
from seekpoint.consumers.view.view_store import Change, Loaded, Pointer, ViewMeta
from seekpoint.schemas.dataclass import dataclass
from seekpoint.schemas.errors import JournalGap, JournalMismatch, LogTruncated, SeekpointError, ViewUnavailable
from seekpoint.schemas.log.log_ports import Landmark, Record
from seekpoint.schemas.state.process_state import State

__all__ = ["PartitionProjection"]

_logger = logging.getLogger("seekpoint.consumers")


@dataclass(frozen=True, slots=True)
class _Folded:
    """One process of a batch that is on its way into the view."""

    change: Change
    first: int | None
    bytes: int
    is_urgent: bool


@dataclass(frozen=True, slots=True)
class _Write:
    """A batch on its way into the view."""

    outcome: Future[bool]
    folded: Sequence[_Folded]
    position: int


class PartitionProjection:
    """One partition of one assignment. One thread's. Raises what its ports raise; then ``prepare`` it again.

    ``hint`` is where to begin reading the checkpoint partition: believed only as far as a floor there bears it out.
    """

    def __init__(
        self, partition: int, source: ProjectionSource, *, hint: int = 0, cache: StateCache | None = None
    ) -> None:
        self.partition = partition
        self.cache = cache or StateCache()
        self.is_ready = False
        self.position = 0
        """The next offset to project, once it is ready."""
        self._source = source
        self._hint = hint
        self._token = ""
        self._barrier: int | None = None
        self._read_to = 0
        self._saved: CheckpointInventory | None = None
        self._scheduler = CheckpointScheduler(source.log, partition, source.topic_id, source.cadence, source.clock)
        self._contents = FinishedContents(source, partition)
        self._write: _Write | None = None
        self._told: Future[bool] | None = None
        self._epochs = LeaderEpochs(source.log, partition)
        self._states: ProvenStates | None = None
        self._renewed: frozenset[bytes] = frozenset()
        """Of the last bases: those whose folds were made anew, which the view has to be told."""
        self.pending: Save | None = None
        """What was proposed and is neither committed nor refused."""

    @property
    def floor(self) -> int:
        """The published floor, as far as it is known here."""
        return 0 if self._saved is None else self._saved.floor

    @property
    def dirty(self) -> Mapping[bytes, Dirty]:
        """The processes whose checkpoint is behind."""
        return self._scheduler.dirty_set.by_key

    # --- P1: assignment and reload --------------------------------------------------------------------------------
    def prepare(self) -> bool:
        """Find out what is saved and what is applied; True once it is ready to project from ``position``.

        False: a transaction is undecided, or another projector was at work; ask again. Raises
        ``JournalGap`` and ``LogTruncated`` where no view can be made, ``NewerFormat``, and what the ports raise.
        """
        if self.is_ready:
            return True
        try:
            if self._saved is None:
                self._saved = self._read_saved()
            return self._saved is not None and self._look_at_view(self._saved)
        except Overtaken:
            self.reload(anew=True)
            return False
        except JournalGap:
            if not self._is_overtaken():
                raise
            self.reload(anew=True)
            return False

    def reload(self, *, anew: bool = False) -> None:
        """The view is not where it was taken to be; with ``anew`` what is saved is not known any more either."""
        self.is_ready = False
        self._drop_write()
        if anew or self.pending is not None:
            self._saved = self._barrier = self.pending = None

    def _is_overtaken(self) -> bool:
        """Whether checkpoints were written behind what was read: the newest floor may stand for what is gone."""
        return self._read_to < self._source.checkpoints.stable_end(self.partition)

    def _read_saved(self) -> CheckpointInventory | None:
        source = self._source
        if self._barrier is None:
            source.writer.settle()
            self._barrier = source.checkpoints.end(self.partition)
        stable = source.checkpoints.stable_end(self.partition)
        if stable < self._barrier:
            return None  # a former owner's transaction is being decided
        self._read_to = stable
        saved = read_inventory(source.checkpoints, self.partition, source.topic_id, stable, self._hint)
        self._refuse_lost_log(saved.floor, saved.published)
        self._refuse_lost_heads(saved)
        return saved

    def _refuse_lost_log(self, floor: int, published: Floor | None) -> None:
        marks = self._source.log.watermarks(self.partition)
        facts = {"journal": self._source.log.name, "partition": self.partition, "floor": floor, **marks._asdict()}
        if floor > marks.high:
            raise LogTruncated("the log ends before the floor of its checkpoints", **facts)
        if floor < marks.low:
            raise JournalGap("entries that no checkpoint stands for are gone from the log", **facts)
        if published is not None and not is_intact(self._source.log, self.partition, published.landmark):
            raise LogTruncated("another leader epoch below the floor: the log was truncated", **facts)

    def _refuse_lost_heads(self, saved: CheckpointInventory) -> None:
        """A checkpoint of records that are no more is damaged: never a guess."""
        gone = lost_landmarks(self._source.log, self.partition, (head.landmark for head in saved.heads.values()))
        for key in [key for key, head in saved.heads.items() if head.landmark in gone]:
            saved.mark_damaged(key, JournalMismatch("it stands on records that are no more: the log was truncated"))

    def _look_at_view(self, saved: CheckpointInventory) -> bool:
        view = self._source.view
        meta = view.meta(self.partition)
        if not self._is_usable(meta, saved.floor):
            if saved.start > 0 or self._token:  # a rebuild takes all there is, read just now
                self._hint, self._token = 0, ""
                self.reload(anew=True)
                return False
            rebuild(self._source, self.partition, saved)
            meta = view.meta(self.partition)
        if meta is None or meta.applied is None or (self._token and meta.token != self._token):
            self._token = ""
            self.reload(anew=True)
            return False
        self._epochs = LeaderEpochs(self._source.log, self.partition)
        self._epochs.record(meta.applied, meta.leader_epoch)
        self._begin(meta.token, meta.applied + 1, saved)
        return True

    def _is_usable(self, meta: ViewMeta | None, floor: int) -> bool:
        if meta is None or meta.applied is None or meta.topic_id != self._source.topic_id:
            return False
        if not is_intact(self._source.log, self.partition, Landmark(meta.applied, meta.leader_epoch)):
            _logger.error("partition %d: the view has what the log lost, at %d or below", self.partition, meta.applied)
            return False
        return meta.applied + 1 >= floor

    def _begin(self, token: str, position: int, saved: CheckpointInventory) -> None:
        self._states = ProvenStates(self._source, self.partition, self.cache, saved)
        self._scheduler.begin(saved, self._states.begin(token, position))
        self._contents.begin()
        self._token, self.position, self.is_ready = token, position, True

    # --- P2, P3: a batch --------------------------------------------------------------------------------------------
    def project(self, records: Sequence[Record], next_offset: int, leader_epoch: int = -1) -> bool:
        """Fold ``records``, which are all from ``position`` up to ``next_offset``, and have them written.

        The write goes on beside the next fold: ``flush`` tells of it. False: the view is not at ``position``, nothing
        of the batch counts; ``prepare``, and read on from there. Poison is told once the states are sure.
        """
        if self._epochs.is_truncated_before(leader_epoch):
            self.reload(anew=True)
            return False
        bases = self._bases({record.key for record in records if record.key is not None})
        if bases is None:
            return False
        folded, poison = self._fold(records, bases)
        for record, error in poison:
            error.facts.update(partition=record.partition, offset=record.offset)
            self._source.on_poison(record, error)
        if not self.flush():
            return False
        if records:
            self._epochs.record(records[-1].offset, leader_epoch)
        self._send(folded, next_offset)
        return True

    def _bases(self, keys: set[bytes]) -> dict[bytes, State | None] | None:
        """The states to fold on (P2). None: the view is elsewhere."""
        bases: dict[bytes, State | None] = {}
        self._renewed = frozenset()
        missing = []
        for key in keys:
            known = self.cache.get(key)
            bases[key] = known
            if known is None:
                missing.append(key)
        if missing:
            if not self.flush():
                return None
            loaded = self._source.view.load(self.partition, self._token, missing)
            if loaded is None or loaded.applied is None or loaded.applied + 1 != self.position:
                self.reload()
                return None
            proven = self._proven(missing, loaded)
            if proven is None:
                return None
            bases.update(proven)
            self._renewed = renew_folds(self._source.log, self.partition, bases, self.position)
        return bases

    def _proven(self, keys: Sequence[bytes], loaded: Loaded) -> dict[bytes, State | None] | None:
        """The states of ``keys``, none of which rests on what the view says (P8). None: the view is elsewhere."""
        assert self._states is not None
        try:
            states, anew = self._states.take(keys, loaded)
        except Overtaken:
            self.reload(anew=True)
            return None
        at, epoch = self.position - 1, self._epochs.newest.leader_epoch
        if anew and not self._source.view.write(self.partition, self._token, self.position, at, epoch, anew):
            self.reload()
            return None
        return states

    def _fold(self, records: Sequence[Record], bases: Mapping[bytes, State | None]) -> tuple[list[_Folded], Poison]:
        source = self._source
        touched, poison = fold_batch(records, bases, source.log, source.cadence.after_invocation)
        for key in self._renewed & touched.keys():
            touched[key].whole = True  # its base has results that the view does not have
        folded = []
        for key, one in touched.items():
            change = one.change(key)
            if change.state.finished and not source.finished_content_s:
                change = Change(key=key, state=change.state.without_content(), whole=True)
            folded.append(_Folded(change, one.first, one.read_bytes, one.is_urgent))
        return folded, poison

    def _send(self, folded: Sequence[_Folded], next_offset: int) -> None:
        assert self._states is not None
        changes = [one.change for one in folded]
        outcome = self._source.writes.submit(
            self._source.view.write,
            self.partition,
            self._token,
            self.position,
            next_offset - 1,
            self._epochs.newest.leader_epoch,
            changes,
        )
        self._write = _Write(outcome, folded, next_offset)
        self.position = next_offset
        for change in changes:
            self._states.keep(change.key, change.state)
        self.cache.position = next_offset

    def flush(self) -> bool:
        """Wait for the write under way. False: it was refused (P3), and the view has to be looked at again."""
        self._hear()
        if self._write is None:
            return self.is_ready
        try:
            written = self._write.outcome.result()
        except ViewUnavailable:
            self.reload()
            raise
        if not written:
            self.reload()
            return False
        for one in self._write.folded:
            self._scheduler.mark_dirty(one.change.key, one.change.state, one.first, one.bytes, is_urgent=one.is_urgent)
        self._write = None
        return True

    def look(self) -> bool:
        """Whether the view is where it is taken to be, asked just now. If it is elsewhere: ``prepare``.

        What was flushed while nothing arrives would stay so. A view that does not answer is not elsewhere.
        """
        try:
            if not self.flush():
                return False
            meta = self._source.view.meta(self.partition)
        except ViewUnavailable:
            return False
        if meta is None or meta.token != self._token or meta.applied is None or meta.applied + 1 != self.position:
            self.reload()
            return False
        return True

    def _drop_write(self) -> None:
        """Whether it is carried out or not, the view's applied offset will tell."""
        write, self._write = self._write, None
        if write is not None and not write.outcome.done():
            write.outcome.exception()

    # --- finished processes -----------------------------------------------------------------------------------------
    def drop_contents(self) -> None:
        """Drop some of the contents that finished processes have kept for ``finished_content_s``.

        What is found now is saved as a gravestone by the next ``propose``; once that is committed, the view drops it.
        """
        if not self.is_ready or self.pending is not None:
            return
        assert self._states is not None
        scheduler = self._scheduler
        scheduler.dropping -= self._states.unproven  # what is never saved keeps its content
        if not scheduler.dropped and not scheduler.dropping:
            scheduler.dropping.update(self._contents.too_old(self._token, self.position))
        if not scheduler.dropped:
            return
        states = self._bases(scheduler.dropped)
        if states is None or not self.flush():
            return
        scheduler.dropped = set()
        gone = {key: state.without_content() for key, state in states.items() if state is not None and state.finished}
        changes = [Change(key=key, state=state, whole=True) for key, state in gone.items()]
        self._send([_Folded(change, None, 0, False) for change in changes], self.position)

    # --- P5, P6: checkpoints ----------------------------------------------------------------------------------------
    def request(self, wanted: Mapping[bytes, int]) -> None:
        """Have these processes saved as of at least that journal offset, as soon as it is projected."""
        self._scheduler.request(wanted)

    def propose(self, *, force: bool = False) -> Save | None:
        """What is due, or with ``force`` all that is dirty, and the floor that is true once it is written.

        None: nothing to write. The save stays open until ``committed`` or ``refused``, or a reload.
        """
        if not self.is_ready or self.pending is not None or not self.flush():
            return None
        assert self._states is not None
        unproven = self._states.unproven
        due = [key for key in self._scheduler.due(self.position, force=force) if key not in unproven]
        if not due and (unproven or not (force and self.position > self.floor)):
            return None
        states = self._bases(set(due))
        if states is None:
            return None
        due = [key for key in due if key not in unproven]
        known = {key: state for key, state in states.items() if state is not None and key not in unproven}
        self.pending = self._scheduler.propose(known, due, self.position, self._epochs)
        return self.pending

    def committed(self, save: Save, positions: Mapping[bytes, int]) -> None:
        """P6: ``save`` is in the log. What was folded since stays dirty; the view is told where the rest is."""
        if self.pending is not save:
            return
        self.pending = None
        self._scheduler.committed(save, positions)
        assert self._states is not None
        self._states.committed(save, positions)
        pointers = {key: Pointer(position, save.floor.offset) for key, position in positions.items()}
        if pointers:
            self._told = self._source.writes.submit(self._source.view.point, self.partition, self._token, pointers)
            self._hear()

    def _hear(self) -> None:
        """What came of telling the view, if it is known. Who finds no pointer reads the checkpoint partition."""
        told = self._told
        if told is None or not told.done():
            return
        self._told = None
        try:
            told.result()
        except SeekpointError as exc:
            _logger.warning("partition %d: the view was not told of its checkpoints: %s", self.partition, exc)

    def refused(self, save: Save) -> None:
        """``save`` is certainly not in the log."""
        if self.pending is save:
            self.pending = None
