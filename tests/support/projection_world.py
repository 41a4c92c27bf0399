"""Random histories of one partition with projectors, zombies, crashes and faults, from a seed: the real projection.

At every call of a port the world may go on without the caller (another projector works, a fault strikes, the log
grows), or the caller may die there. What is true is known from a plain fold of what was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from random import Random
from typing import Any

from histories import ACTIONS, Step
from histories import _Writer as Historian
from seekpoint.consumers.checkpoints.cadence import Cadence
from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY, Checkpoint, Floor, seek_point
from seekpoint.consumers.checkpoints.checkpoint_writer import CommitFailed, Positions, Save
from seekpoint.consumers.checkpoints.memory_checkpoints import MemoryCheckpoints, MemoryTransaction
from seekpoint.consumers.projector.assignment import Assignment
from seekpoint.consumers.projector.projection import PartitionProjection
from seekpoint.consumers.projector.projection_source import ProjectionSource
from seekpoint.consumers.view.memory_view import MemoryView
from seekpoint.schemas.errors import Retryable, UndecodableRecord
from seekpoint.schemas.folding.fold import Verdict, advance, fold
from seekpoint.schemas.log.log_ports import Record
from seekpoint.schemas.log.memory_log import MemoryLog
from seekpoint.schemas.state.process_state import Draft, State, new_state

__all__ = ["Broken", "World"]

TOPIC_ID = "the-topic"
PROCESS_IDS = tuple(f"p{number}" for number in range(5))
RARE = {"finish": 0.1, "poison": 0.4}


class Broken(AssertionError):
    """Something that must hold does not."""


class Crash(BaseException):
    """The projector that is at work dies here."""


class Inline(Executor):
    """Runs everything at once, in the caller's thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        outcome: Future[Any] = Future()
        try:
            outcome.set_result(fn(*args, **kwargs))
        except Exception as exc:
            outcome.set_exception(exc)
        return outcome


class Watched:
    """A port whose every call lets the world go on, before and after."""

    def __init__(self, port: Any, tick: Callable[[], None]) -> None:
        self._port = port
        self._tick = tick

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)

        def call(*arguments: Any, **named: Any) -> Any:
            self._tick()
            answer = method(*arguments, **named)
            self._tick()
            return list(answer) if isinstance(answer, Iterator) else answer

        return call


@dataclass
class Transaction:
    """One projector's transaction. ``sent``: its offsets are, so that a barrier waits for it."""

    records: MemoryTransaction
    sent: bool = False
    accepted: bool = False
    """The coordinator has decided to commit; the checkpoint partition may not know yet."""

    @property
    def is_open(self) -> bool:
        return self.records.outcome is None


class Writer:
    """A ``CheckpointWriter`` whose transaction can be left open, decided late, or unknown to its own writer."""

    def __init__(self, world: World, tick: Callable[[], None]) -> None:
        self._world = world
        self._tick = tick
        self.open: Transaction | None = None

    def commit(self, saves: Sequence[Save], membership: object) -> Positions:
        self.settle()
        mine = self.open = Transaction(self._world.checkpoints.begin())
        self._world.transactions.append(mine)
        positions: dict[int, dict[bytes, int]] = {}
        for save in saves:
            for key, checkpoint in save.checkpoints.items():
                self._still(mine)
                positions.setdefault(save.partition, {})[key] = mine.records.put(
                    save.partition, key, checkpoint.to_bytes()
                )
            self._still(mine)
            mine.records.put(save.partition, FLOOR_KEY, save.floor.to_bytes())
        self._still(mine)
        if membership != self._world.generation:  # the broker compares when offsets are sent, and not at the commit
            mine.records.abort()
            raise CommitFailed("the group has gone on", decided=True)
        mine.sent = True
        self._still(mine)
        self._decide(mine)
        self._tick()
        return positions

    def _decide(self, mine: Transaction) -> None:
        chance = self._world.random.random()
        if chance < 0.1:
            raise CommitFailed("a time-out: it is still open")
        mine.accepted = True
        if chance < 0.25:
            raise CommitFailed("a time-out: it will be committed")
        mine.records.commit()

    def _still(self, mine: Transaction) -> None:
        self._tick()
        if not mine.is_open:
            raise CommitFailed("aborted by its time-out", decided=True)

    def settle(self) -> None:
        if self.open is not None:
            self._world.decide(self.open)


@dataclass
class Projector:
    """One projector with its assignment. After a crash it is not there any more."""

    world: World
    membership: int
    is_busy: bool = False
    saves: list[Save] = field(default_factory=list)
    """Proposed, and not yet sent."""
    assignment: Assignment = field(init=False)
    projection: PartitionProjection = field(init=False)
    writer: Writer = field(init=False)

    def __post_init__(self) -> None:
        world = self.world
        self.writer = Writer(world, self.tick)
        source = ProjectionSource(
            log=world.log,
            topic_id=TOPIC_ID,
            view=Watched(world.view, self.tick),
            checkpoints=Watched(world.checkpoints, self.tick),
            writer=self.writer,
            writes=Inline(),
            on_poison=world.on_poison,
            on_damage=world.on_damage,
            cadence=Cadence(bytes_min=world.random.choice([200, 1_000]), age_max_s=world.random.choice([3.0, 30.0])),
            clock=lambda: float(world.steps),
        )
        self.projection = PartitionProjection(0, source, hint=world.random.choice([0, world.hint]))
        self.assignment = Assignment(self.membership, [self.projection], self.writer)

    def tick(self) -> None:
        self.world.tick()

    def work(self) -> None:
        """One step."""
        random = self.world.random
        if not self.projection.is_ready:
            self.projection.prepare()
        elif random.random() < 0.65:
            self.project(random.randint(1, 8))
        elif self.saves:
            saves, self.saves = self.saves, []
            self.assignment.commit(saves)
        elif random.random() < 0.5:
            self.saves = self.assignment.propose(force=random.random() < 0.4)
        else:
            self.assignment.save(force=random.random() < 0.4)

    def project(self, count: int) -> bool:
        start = self.projection.position
        if start < self.world.log.watermarks(0).low:  # a client says so: what it reads is gone
            self.projection.reload(anew=True)
            return False
        stop = min(start + count, self.world.log.watermarks(0).high)
        if start >= stop:
            return False
        records = [record for batch in self.world.log.read(0, start, stop) for record in batch.records]
        epoch = self.world.log.leader_epoch_at(0, records[-1].offset)
        return self.projection.project(records, stop, epoch)


class World:
    """One partition and all that can happen to it."""

    def __init__(self, seed: int, *, forging: bool = False) -> None:
        self.random = Random(seed)
        self.happenings = _HAPPENINGS | ({World.forge: 4} if forging else {})
        self.forging = forging
        self.forged: set[bytes] = set()
        self.damages = 0
        self.log = MemoryLog(partitions=1)
        self.history = Historian(self.log.append, 1)
        self.view = MemoryView(1)
        self.checkpoints = MemoryCheckpoints(1)
        self.generation = 0
        self.projectors: list[Projector] = []
        self.transactions: list[Transaction] = []
        self.truth: dict[str, Draft] = {}
        self.bad: set[int] = set()
        self.told: set[int] = set()
        self.seen = 0
        self.steps = 0
        self.depth = 0
        self.healed = False
        self.newest: dict[bytes, int] = {}
        self.read_to = 0
        self.hint = 0

    # --- time -------------------------------------------------------------------------------------------------------
    def run(self, steps: int) -> None:
        """Let ``steps`` things happen, then heal everything, drain, and compare all there is with the truth."""
        for _ in range(steps):
            self.step()
        self.heal()
        self.check(final=True)

    def step(self) -> None:
        """One thing happens."""
        self.steps += 1
        [happens] = self.random.choices(list(self.happenings), list(self.happenings.values()))
        happens(self)

    def tick(self) -> None:
        """A projector is at a port: somebody else may be first, or it may die."""
        if self.healed:
            return
        chance = self.random.random()
        if chance < 0.012:
            raise Crash
        if chance < 0.08 and self.depth < 3:
            self.depth += 1
            try:
                for _ in range(self.random.randint(1, 5)):
                    self.step()
            finally:
                self.depth -= 1

    # --- what happens -------------------------------------------------------------------------------------------------
    def write(self) -> None:
        """An entry, or something that is none."""
        action = self.random.choice(ACTIONS)
        if self.random.random() < RARE.get(action, 1.0):
            # The ninth sort of poison lies in another partition: here is only one.
            self.history.take(Step(self.random.choice(PROCESS_IDS), action, self.random.randrange(8)))
        for one in self.history.written[self.seen :]:
            draft = self.truth.setdefault(one.entry.process_id, Draft()) if one.entry is not None else None
            if one.entry is None or (draft and advance(draft, one.offset, one.entry) is Verdict.FORGED):
                self.bad.add(one.offset)
        self.seen = len(self.history.written)

    def work(self) -> None:
        """One of the newest projectors, or of those that believe they still are, does something."""
        able = [one for one in self.projectors[-3:] if not one.is_busy]
        if not able:
            return
        one = self.random.choice(able)
        one.is_busy = True
        try:
            one.work()
        except Crash:
            self.projectors.remove(one)
        except Retryable:
            pass
        finally:
            one.is_busy = False

    def assign(self) -> None:
        """The partition is given to a new projector: what was sent before is decided first (the barrier)."""
        self.generation += 1
        for one in self.transactions:
            if one.sent and not one.accepted:
                self.decide(one)
        self.projectors.append(Projector(self, self.generation))

    def time_out(self) -> None:
        """A transaction that stays open is aborted by the broker; one that was accepted gets its markers."""
        if self.transactions:
            self.decide(self.random.choice(self.transactions))

    def decide(self, one: Transaction) -> None:
        """Nothing of it is open any more."""
        if one.is_open and one.accepted:
            one.records.commit()
        elif one.is_open:
            one.records.abort()

    def lose_view(self) -> None:
        """FLUSHALL, or a failover that loses the last writes, or an answer that never comes."""
        chance = self.random.random()
        if chance < 0.2:
            self.view.flush()
        elif chance < 0.85:
            self.view.lose_last_writes(self.random.randint(1, 6))
        else:
            self.view.lose_next_answer()

    def forge(self) -> None:
        """Somebody changes a process in the view: a field of it, or all of it so that it fits together, or every trace.

        What the view says of that process is nothing from then on; what is saved of it must be true all the same.
        """
        meta = self.view.meta(0)
        known = [key for key in map(str.encode, self.truth) if meta is not None and self.view.see(0, key).state]
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
        """A state that could be the process's: an earlier one, another process's, or with one thing changed."""
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

    def on_damage(self, partition: int, key: bytes, why: str) -> None:
        """A projector found a state in the view that is not the process's: somebody must have put it there."""
        if key not in self.forged:
            raise Broken(f"{key!r} was called damaged: {why}")
        self.damages += 1

    def compact(self) -> None:
        """The cleaner runs."""
        self.checkpoints.compact(0, self.random.choice([None, self.random.randint(0, self.checkpoints.end(0))]))

    def elect(self) -> None:
        """Another leader, who has everything."""
        self.log.elect(0)

    def trim(self) -> None:
        """Below the floor nothing is needed."""
        self.log.trim(0, self.read_checkpoints()[1])

    def look(self) -> None:
        """Somebody recovers."""
        self.check(final=False)

    # --- the truth ----------------------------------------------------------------------------------------------------
    def on_poison(self, record: Record, error: UndecodableRecord) -> None:
        """A projector found something: it has to be so."""
        if record.offset not in self.bad:
            raise Broken(f"offset {record.offset} was called poison: {error}")
        self.told.add(record.offset)

    def heal(self) -> None:
        """No faults any more; one last projector brings all up to date. Each process goes on, so each is looked at."""
        self.healed = True
        for process_id in self.truth if self.forging else ():
            self.history.take(Step(process_id, "signal", 1))
        self.write()
        self.view.lose_next_answer = lambda: None  # type: ignore[method-assign]
        for one in self.transactions:
            self.decide(one)
        for _ in range(3):  # a lost answer may still come
            self.assign()
            last = self.projectors[-1]
            for _ in range(400):
                if self._caught_up(last):
                    break
        if not self._caught_up(last):
            raise Broken("it never catches up")

    def _caught_up(self, last: Projector) -> bool:
        high = self.log.watermarks(0).high
        try:
            if not last.projection.prepare():
                return False
            if last.projection.position < high:
                last.project(50)
                return False
            last.assignment.save(force=True)
        except Retryable:
            return False
        return last.projection.is_ready and last.projection.floor == high

    def read_checkpoints(self) -> tuple[dict[bytes, tuple[State, int]], int]:
        """Independently of the code under test: states with their positions, and the floor; and that none goes back."""
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
            if position >= self.read_to and offset < self.newest.get(key, -1):
                raise Broken(f"{key!r} goes back from {self.newest[key]} to {offset}")
            self.newest[key] = max(offset, self.newest.get(key, -1))
        self.read_to = self.checkpoints.stable_end(0)
        return states, floor

    def check(self, *, final: bool) -> None:
        """Every tier that is there gives the truth."""
        states, floor = self.read_checkpoints()
        meta = self.view.meta(0)
        if final and (meta is None or meta.applied != self.log.watermarks(0).high - 1):
            raise Broken(f"the view is not at the end: {meta}")
        if final and self.told != self.bad:
            raise Broken(f"poison that nobody was told of: {self.bad - self.told}")
        for process_id, draft in self.truth.items():
            key = process_id.encode()
            state, position = states.get(key, (None, None))
            self._compare("checkpoint", key, draft, state, seek_point(None if state is None else state.offset, floor))
            seen = self.view.see(0, key)
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
        if found != draft.snapshot():
            raise Broken(f"{tier}: {key!r} from {seek} is {found}, not {draft.snapshot()}")


_HAPPENINGS: dict[Callable[[World], None], float] = {
    World.write: 24,
    World.work: 26,
    World.assign: 1.0,
    World.time_out: 2.0,
    World.lose_view: 1.5,
    World.compact: 0.8,
    World.trim: 0.8,
    World.elect: 0.8,
    World.look: 1.0,
}
