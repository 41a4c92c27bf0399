"""What is true of one partition: a plain fold of all that was written, and what every tier is compared with."""

from __future__ import annotations

from random import Random

from histories import ACTIONS, Step
from histories import _Writer as Historian
from index_checks import index_problems
from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY, Checkpoint, Floor, seek_point
from seekpoint.consumers.checkpoints.memory_checkpoints import MemoryCheckpoints
from seekpoint.consumers.view.memory_view import MemoryView
from seekpoint.consumers.view.view_store import ViewMeta
from seekpoint.schemas.errors import UndecodableRecord
from seekpoint.schemas.folding.fold import Verdict, advance, fold
from seekpoint.schemas.log.log_ports import Record
from seekpoint.schemas.log.memory_log import MemoryLog
from seekpoint.schemas.state.process_state import Draft, State, new_state

__all__ = ["TOPIC_ID", "Broken", "Truth"]

TOPIC_ID = "the-topic"
PROCESS_IDS = tuple(f"p{number}" for number in range(5))
RARE = {"finish": 0.3, "poison": 0.4}


class Broken(AssertionError):
    """Something that must hold does not."""


class Truth:
    """Writes random entries to one partition, and compares view, checkpoints and pointers with their fold."""

    def __init__(self, random: Random, log: MemoryLog, view: MemoryView, checkpoints: MemoryCheckpoints) -> None:
        self.random = random
        self.log = log
        self.view = view
        self.checkpoints = checkpoints
        self.history = Historian(log.append, 1)
        self.drafts: dict[str, Draft] = {}
        self.forged: set[bytes] = set()
        """Processes that somebody changed in the view."""
        self.damages = 0
        self.indexed = 0
        """Processes whose summaries and indexes were compared."""
        self.poison: set[int] = set()
        self.reported: set[int] = set()
        """Offsets that a projector reported as poison."""
        self.hint = 0
        self._folded = 0
        self._newest: dict[bytes, int] = {}
        self._read_to = 0

    # --- what is written ----------------------------------------------------------------------------------------------
    def write(self) -> None:
        """Write an entry, or poison."""
        action = self.random.choice(ACTIONS)
        if self.random.random() < RARE.get(action, 1.0):
            # The ninth sort of poison lies in another partition: here is only one.
            self.history.take(Step(self.random.choice(PROCESS_IDS), action, self.random.randrange(8)))
        for one in self.history.written[self._folded :]:
            draft = self.drafts.setdefault(one.entry.process_id, Draft()) if one.entry is not None else None
            if one.entry is None or (draft and advance(draft, one.offset, one.entry) is Verdict.FORGED):
                self.poison.add(one.offset)
        self._folded = len(self.history.written)

    def write_to_each(self) -> None:
        """Write one more entry of each process, so that a projector looks at all of them."""
        for process_id in self.drafts:
            self.history.take(Step(process_id, "signal", 1))

    def forge(self) -> None:
        """Change a process in the view: a field of it, or all of it so that it fits together, or every trace.

        What the view has of that process proves nothing from then on. What is saved of it must still be true.
        """
        meta = self.view.meta(0)
        known = [key for key in map(str.encode, self.drafts) if meta is not None and self.view.look_up(0, key).state]
        if not known:
            return
        key = self.random.choice(known)
        self.forged.add(key)
        chance = self.random.random()
        if chance < 0.3:
            self.view.damage(0, key)
        elif chance < 0.4:
            self.view.forge(0, key, None)
        else:
            self.view.forge(0, key, self._forged(key))

    def _forged(self, key: bytes) -> State:
        """Return a state that could be the process's: an earlier one, another process's, or one thing changed."""
        chance = self.random.random()
        entries = [one for one in self.history.written if one.entry is not None]
        if chance < 0.3:
            key = self.random.choice([one.key for one in entries if one.key is not None])
        state = new_state()
        for one in entries[: self.random.randint(0, len(entries))] if chance < 0.6 else entries:
            if one.key == key and one.entry is not None:
                state = fold(state, one.offset, one.entry)
        if chance < 0.6:
            return state
        draft = state.thaw()
        draft.values_json = {**draft.values_json, "forged": "1"}
        draft.seq += self.random.choice([0, 0, 1])
        return draft.freeze()

    # --- what projectors report ---------------------------------------------------------------------------------------
    def on_poison(self, record: Record, error: UndecodableRecord) -> None:
        """Accept a report of poison only if it is poison."""
        if record.offset not in self.poison:
            raise Broken(f"offset {record.offset} was called poison: {error}")
        self.reported.add(record.offset)

    def on_damage(self, partition: int, key: bytes, why: str) -> None:
        """Accept a report of damage only if somebody changed the process in the view."""
        if key not in self.forged:
            raise Broken(f"{key!r} was called damaged: {why}")
        self.damages += 1

    # --- what is compared ---------------------------------------------------------------------------------------------
    def read_checkpoints(self) -> tuple[dict[bytes, tuple[State, int]], int]:
        """Return the saved states with their positions, and the floor; none of them may go back.

        This reads without the code under test.
        """
        states: dict[bytes, tuple[State, int]] = {}
        floor = 0
        for position, key, value in self.checkpoints.records(0, 0, self.checkpoints.stable_end(0)):
            assert value is not None
            found = Floor.from_bytes(value) if key == FLOOR_KEY else Checkpoint.from_bytes(value)
            offset = found.offset
            if self.log.leader_epoch_at(0, found.landmark.offset) not in (-1, found.leader_epoch):
                raise Broken(f"{key!r} at {offset} is not of leader epoch {found.leader_epoch}")
            if key == FLOOR_KEY:
                floor = offset
                self.hint = Floor.from_bytes(value).since
            else:
                states[key] = Checkpoint.from_bytes(value).verified(key.decode(), TOPIC_ID), position
            if position >= self._read_to and offset < self._newest.get(key, -1):
                raise Broken(f"{key!r} goes back from {self._newest[key]} to {offset}")
            self._newest[key] = max(offset, self._newest.get(key, -1))
        self._read_to = self.checkpoints.stable_end(0)
        return states, floor

    def check(self, *, final: bool) -> None:
        """Compare every tier that is there with the fold; with ``final`` all tiers have to be up to date."""
        states, floor = self.read_checkpoints()
        meta = self.view.meta(0)
        if final and (meta is None or meta.applied != self.log.watermarks(0).high - 1):
            raise Broken(f"the view is not at the end: {meta}")
        if final and self.reported != self.poison:
            raise Broken(f"poison that nobody reported: {self.poison - self.reported}")
        if final or not self.forged:
            self._compare_indexes(meta)
        for process_id, draft in self.drafts.items():
            key = process_id.encode()
            state, position = states.get(key, (None, None))
            self._compare("checkpoint", key, draft, state, seek_point(None if state is None else state.offset, floor))
            seen = self.view.look_up(0, key)
            is_believed = final or key not in self.forged
            if is_believed and seen.meta and seen.meta.applied is not None and seen.meta.applied + 1 >= floor:
                self._compare("view", key, draft, seen.state, seen.meta.applied + 1)
            if seen.pointer is not None and seen.pointer.position == position and state is not None:
                seek = seek_point(state.offset, seen.pointer.floor)
                if seek >= self.log.watermarks(0).low:
                    self._compare("pointer", key, draft, state, seek)

    def _compare(self, tier: str, key: bytes, draft: Draft, state: State | None, seek: int) -> None:
        if seek < self.log.watermarks(0).low:
            raise Broken(f"{tier}: {key!r} needs {seek}, which is trimmed: {self.log.watermarks(0)}")
        found = state or new_state()
        for one in self.history.written:
            if one.offset >= seek and one.entry is not None and one.key == key:
                found = fold(found, one.offset, one.entry)
        expected = draft.snapshot()
        if found.content_dropped and not expected.content_dropped:
            expected = expected.without_content()
        if found != expected:
            raise Broken(f"{tier}: {key!r} from {seek} is {found}, not {expected}")

    def _compare_indexes(self, meta: ViewMeta | None) -> None:
        """Compare summaries and indexes of the view with its states, whatever these are."""
        keys = [process_id.encode() for process_id in sorted(self.drafts)]
        states = {key: state for key in keys if (state := self.view.look_up(0, key).state) is not None}
        if meta is None or any(self.view.look_up(0, key).damage for key in keys):
            return
        self.indexed += len(states)
        for problem in index_problems(self.view, 0, states):
            raise Broken(problem)
