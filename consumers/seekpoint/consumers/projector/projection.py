"""The projection of one partition: a state machine over the ports, by rules P1 to P8 of the contract.

    prepare ──> ready ── project, project, … propose ─> committed ── project …
       ^          │ the view is at another offset: reload
       └──────────┘

The view says which offset is applied, and the checkpoint partition says what is saved. Only the projection knows which
processes are dirty (P4). It may lose all of its memory at any moment: the next ``prepare`` finds out the same again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import Future

from seekpoint.consumers.checkpoints.checkpoint_inventory import CheckpointInventory
from seekpoint.consumers.checkpoints.checkpoint_scheduler import CheckpointScheduler
from seekpoint.consumers.checkpoints.checkpoint_writer import Save
from seekpoint.consumers.log_reading.leader_epochs import LeaderEpochs
from seekpoint.consumers.log_reading.lost_ends import refuse_lost
from seekpoint.consumers.projector.batch_fold import Poison, fold_batch
from seekpoint.consumers.projector.finished_contents import FinishedContents
from seekpoint.consumers.projector.inventory_loader import InventoryLoader
from seekpoint.consumers.projector.projection_source import ProjectionSource
from seekpoint.consumers.projector.proven_states import ProvenStates
from seekpoint.consumers.projector.state_cache import StateCache
from seekpoint.consumers.projector.view_evidence import Overtaken
from seekpoint.consumers.projector.view_rebuild import rebuild
from seekpoint.consumers.recovery.fold_renewal import renew_folds
from seekpoint.consumers.view.view_store import Change, Loaded, Pointer, ViewMeta
from seekpoint.schemas.errors import JournalGap, SeekpointError, ViewUnavailable
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.log.log_ports import Landmark, Record
from seekpoint.schemas.state.process_state import State

_logger = logging.getLogger("seekpoint.consumers")


class _Folded(FrozenStruct, frozen=True):
    """One process of a batch that is being written to the view."""

    change: Change
    first: int | None
    bytes: int
    is_urgent: bool


class _Write(FrozenStruct, frozen=True):
    """A batch that is being written to the view."""

    outcome: Future[bool]
    folded: Sequence[_Folded]


class PartitionProjection:
    """Projects one partition of one assignment. For one thread. It raises what its ports raise; ``prepare`` it then.

    ``hint`` is where to begin reading the checkpoint partition, see ``InventoryLoader``.
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
        self._token = ""
        self._loader = InventoryLoader(source, partition, hint)
        self._scheduler = CheckpointScheduler(source.log, partition, source.topic_id, source.cadence, source.clock)
        self._contents = FinishedContents(source, partition)
        self._write: _Write | None = None
        self._pointer_write: Future[bool] | None = None
        self._epochs = LeaderEpochs(source.log, partition)
        self._states: ProvenStates | None = None
        self._renewed: frozenset[bytes] = frozenset()
        """Of the last bases: those whose folds were computed again, so that the view lacks the results."""
        self.pending: Save | None = None
        """The save that was proposed and is neither committed nor refused."""

    @property
    def floor(self) -> int:
        """The published floor, as far as this projection knows it."""
        return 0 if self._loader.inventory is None else self._loader.inventory.floor

    # --- P1: assignment and reload --------------------------------------------------------------------------------
    def prepare(self) -> bool:
        """Find out what is saved and applied; return whether the projection is ready to project from ``position``.

        False: a transaction is undecided, or another projector was at work; call again. Raises ``JournalGap`` and
        ``LogTruncated`` if no view can be made, ``NewerFormat``, and what the ports raise.
        """
        if self.is_ready:
            return True
        try:
            inventory = self._loader.load()
            return inventory is not None and self._load_view(inventory)
        except Overtaken:
            self.reload(checkpoints=True)
            return False
        except JournalGap:
            if not self._loader.is_outdated():
                raise
            self.reload(checkpoints=True)
            return False

    def reload(self, *, checkpoints: bool = False) -> None:
        """Give up the position, because the view is at another one. With ``checkpoints``, read those again, too."""
        self.is_ready = False
        self._drop_write()
        if checkpoints or self.pending is not None:
            self._loader.reset()
            self.pending = None

    def _load_view(self, inventory: CheckpointInventory) -> bool:
        view = self._source.view
        meta = view.meta(self.partition)
        if not self._is_usable(meta, inventory.floor):
            if inventory.start > 0 or self._token:  # a rebuild needs all checkpoints, read just now
                self._token = ""
                self.reload(checkpoints=True)
                self._loader.reset(hint=0)
                return False
            rebuild(self._source, self.partition, inventory)
            meta = view.meta(self.partition)
        if meta is None or meta.applied is None or (self._token and meta.token != self._token):
            self._token = ""
            self.reload(checkpoints=True)
            return False
        self._epochs = LeaderEpochs(self._source.log, self.partition)
        self._epochs.record(meta.applied, meta.leader_epoch)
        self._start(meta.token, meta.applied + 1, inventory)
        return True

    def _is_usable(self, meta: ViewMeta | None, floor: int) -> bool:
        if meta is None or meta.applied is None or meta.topic_id != self._source.topic_id:
            return False
        if refuse_lost(self._source.log, self.partition, (Landmark(meta.applied, meta.leader_epoch),)):
            _logger.error(
                "partition %d: the view contains entries up to %d that the log lost", self.partition, meta.applied
            )
            return False
        return meta.applied + 1 >= floor

    def _start(self, token: str, position: int, inventory: CheckpointInventory) -> None:
        self._states = ProvenStates(self._source, self.partition, self.cache, inventory)
        self._scheduler.begin(inventory, self._states.begin(token, position))
        self._contents.reset()
        self._token, self.position, self.is_ready = token, position, True

    # --- P2, P3: a batch --------------------------------------------------------------------------------------------
    def project(self, records: Sequence[Record], next_offset: int, leader_epoch: int = -1) -> bool:
        """Fold ``records``, which are all of [``position``, ``next_offset``), and start to write the changes.

        The write runs during the next fold; ``flush`` waits for it. Return False if the view is not at ``position``:
        nothing of the batch counts then, so ``prepare`` and read from the new position. Poison is reported once the
        batch's states are proven.
        """
        if self._epochs.is_truncated_before(leader_epoch):
            self.reload(checkpoints=True)
            return False
        bases = self._bases({record.key for record in records if record.key is not None})
        if bases is None:
            return False
        folded, poison = self._fold(records, bases)
        for record, error in poison:
            error.partition, error.offset = record.partition, record.offset
            self._source.on_poison(record, error)
        if not self.flush():
            return False
        if records:
            self._epochs.record(records[-1].offset, leader_epoch)
        self._send(folded, next_offset)
        return True

    def _bases(self, keys: set[bytes]) -> dict[bytes, State | None] | None:
        """Return the states to fold on (P2). None: the view is at another offset."""
        assert self._states is not None
        bases: dict[bytes, State | None] = {}
        self._renewed = frozenset()
        missing = []
        for key in keys - self._states.lost:
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
            proven = self._verify(missing, loaded)
            if proven is None:
                return None
            bases.update(proven)
            self._renewed = renew_folds(self._source.log, self.partition, bases, self.position)
        return bases

    def _verify(self, keys: Sequence[bytes], loaded: Loaded) -> dict[bytes, State | None] | None:
        """Return the proven states of ``keys``, and correct the view's others (P8). None: the view is elsewhere."""
        assert self._states is not None
        try:
            states, corrections = self._states.verify(keys, loaded)
        except Overtaken:
            self.reload(checkpoints=True)
            return None
        at, epoch = self.position - 1, self._epochs.newest.leader_epoch
        if corrections:
            arguments = self.partition, self._token, self.position, at, epoch, corrections
            if not self._source.view.write(*arguments):
                self.reload()
                return None
        return states

    def _fold(self, records: Sequence[Record], bases: Mapping[bytes, State | None]) -> tuple[list[_Folded], Poison]:
        assert self._states is not None
        source, lost = self._source, self._states.lost
        if lost:
            records = [record for record in records if record.key not in lost]
        touched, poison = fold_batch(records, bases, source.log, source.cadence.after_invocation)
        for key in self._renewed & touched.keys():
            touched[key].whole = True  # its base has results that the view lacks
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
        self._write = _Write(outcome, folded)
        self.position = next_offset
        for change in changes:
            self._states.remember(change.key, change.state)
        self.cache.position = next_offset

    def flush(self) -> bool:
        """Wait for the write under way. Return False if the view refused it (P3); ``prepare`` then."""
        self._check_pointer_write()
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

    def check_view(self) -> bool:
        """Ask the view whether it is still at ``position``. If it is at another offset, ``prepare`` next.

        Otherwise nobody would notice a view that was flushed while no entry arrives. Return False also if the view
        does not answer, which does not move it.
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
        """Forget the write under way. The view's applied offset shows later whether it was executed."""
        write, self._write = self._write, None
        if write is not None and not write.outcome.done():
            write.outcome.exception()

    # --- finished processes -----------------------------------------------------------------------------------------
    def drop_contents(self) -> None:
        """Drop the content of some processes that finished more than ``finished_content_s`` ago.

        The next ``propose`` saves the processes that are found now as gravestones. After the commit the view drops
        their content.
        """
        if not self.is_ready or self.pending is not None:
            return
        assert self._states is not None
        scheduler = self._scheduler
        scheduler.dropping -= self._states.unproven  # a process that is never saved keeps its content
        if not scheduler.dropped and not scheduler.dropping:
            scheduler.dropping.update(self._contents.expired(self._token, self.position))
        if not scheduler.dropped:
            return
        states = self._bases(scheduler.dropped)
        if states is None or not self.flush():
            return
        scheduler.dropped = set()
        finished = {key: state for key, state in states.items() if state is not None and state.finished}
        changes = [Change(key=key, state=state.without_content(), whole=True) for key, state in finished.items()]
        self._send([_Folded(change, None, 0, False) for change in changes], self.position)

    # --- P5, P6: checkpoints ----------------------------------------------------------------------------------------
    def request(self, wanted: Mapping[bytes, int]) -> None:
        """Save these processes as soon as their journal offset in ``wanted`` is projected."""
        self._scheduler.request(wanted)

    def propose(self, *, force: bool = False) -> Save | None:
        """Return a save of what is due, or with ``force`` of all that is dirty; None if there is nothing to write.

        The save is pending until ``committed`` or ``refused`` is called, or until a reload.
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
        """Process that ``save`` is in the log, and write its pointers to the view (P6).

        A process with entries that were folded since stays dirty.
        """
        if self.pending is not save:
            return
        self.pending = None
        self._scheduler.committed(save, positions)
        assert self._states is not None
        self._states.committed(save, positions)
        pointers = {key: Pointer(position, save.floor.offset) for key, position in positions.items()}
        if pointers:
            view = self._source.view
            self._pointer_write = self._source.writes.submit(view.point, self.partition, self._token, pointers)
            self._check_pointer_write()

    def _check_pointer_write(self) -> None:
        """Log a failed write of pointers. A reader that finds no pointer reads the checkpoint partition."""
        write = self._pointer_write
        if write is None or not write.done():
            return
        self._pointer_write = None
        try:
            write.result()
        except SeekpointError as exc:
            _logger.warning("partition %d: the view has no pointers to the last checkpoints: %s", self.partition, exc)

    def refused(self, save: Save) -> None:
        """Process that ``save`` is certainly not in the log."""
        if self.pending is save:
            self.pending = None
