"""Random histories of one partition with projectors, zombies, crashes and faults, from a seed: the real projection.

At every call of a port the world may go on without the caller (another projector works, a fault strikes, the log
grows), or the caller may die there. ``Truth`` knows what is true: a plain fold of what was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from executors import Inline, Unhurried
from projection_truth import TOPIC_ID, Broken, Truth
from seekpoint.consumers.checkpoints.cadence import Cadence
from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY
from seekpoint.consumers.checkpoints.checkpoint_writer import CommitFailed, Positions, Save
from seekpoint.consumers.checkpoints.memory_checkpoints import MemoryCheckpoints, MemoryTransaction
from seekpoint.consumers.projector.assignment import Assignment
from seekpoint.consumers.projector.projection import PartitionProjection
from seekpoint.consumers.projector.projection_source import ProjectionSource
from seekpoint.consumers.projector.state_cache import StateCache
from seekpoint.consumers.view.memory_view import MemoryView
from seekpoint.schemas.errors import Retryable
from seekpoint.schemas.log.memory_log import MemoryLog

__all__ = ["World"]


FOREVER_S = 1e10


class Crash(BaseException):
    """The projector that is at work dies here."""


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
                self._refuse_aborted(mine)
                positions.setdefault(save.partition, {})[key] = mine.records.put(
                    save.partition, key, checkpoint.to_bytes()
                )
            self._refuse_aborted(mine)
            mine.records.put(save.partition, FLOOR_KEY, save.floor.to_bytes())
        self._refuse_aborted(mine)
        if membership != self._world.generation:  # the broker compares when offsets are sent, and not at the commit
            mine.records.abort()
            raise CommitFailed("the group has gone on", decided=True)
        mine.sent = True
        self._refuse_aborted(mine)
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

    def _refuse_aborted(self, mine: Transaction) -> None:
        self._tick()
        if not mine.is_open:
            raise CommitFailed("aborted by its time-out", decided=True)

    def settle(self) -> None:
        if self.open is not None:
            self._world.decide(self.open)


@dataclass
class Projector:
    """One projector with its assignment, which it drives as ``ProjectorLoop`` does. After a crash it is gone."""

    world: World
    membership: int
    is_busy: bool = False
    assignment: Assignment = field(init=False)
    projection: PartitionProjection = field(init=False)

    def __post_init__(self) -> None:
        world = self.world
        writer = Writer(world, world.tick)
        source = ProjectionSource(
            log=world.log,
            topic_id=TOPIC_ID,
            view=Watched(world.view, world.tick),
            checkpoints=Watched(world.checkpoints, world.tick),
            writer=writer,
            writes=Inline(),
            on_poison=world.truth.on_poison,
            on_damage=world.truth.on_damage,
            cadence=Cadence(bytes_min=world.random.choice([200, 1_000]), age_max_s=world.random.choice([3.0, 30.0])),
            finished_content_s=world.random.choice([0.0, 5.0, FOREVER_S]),
            clock=lambda: float(world.steps),
            wall_clock=lambda: FOREVER_S / 2,  # so content expires at once or never
        )
        cache = StateCache(world.random.choice([1, 3, 1_000]))
        self.projection = PartitionProjection(0, source, hint=world.random.choice([0, world.truth.hint]), cache=cache)
        self.assignment = Assignment(self.membership, [self.projection], writer, Unhurried(world.random))

    def work(self) -> None:
        """Take one step. Raises ``CommitFailed``, and what stops the partition."""
        random, assignment = self.world.random, self.assignment
        if assignment.is_saving and (not self.projection.is_ready or random.random() < 0.35):
            assignment.finish_save(wait=True)
        elif not self.projection.is_ready:
            self.prepare()
        elif assignment.is_saving or random.random() < 0.65:
            self.project(random.randint(1, 8))
        else:
            self.save(force=random.random() < 0.4, wait=random.random() < 0.5)

    def prepare(self) -> None:
        """Prepare the projection, if it is not ready."""
        self._attempt(self.projection.prepare)

    def project(self, count: int) -> None:
        """Project the next ``count`` records."""
        self._attempt(self._project, count)

    def save(self, *, force: bool, wait: bool) -> None:
        """Start a save, and with ``wait`` finish it."""
        self.assignment.begin_save(force=force)
        self._refuse_stopped()
        self.assignment.finish_save(wait=wait)

    def _project(self, count: int) -> None:
        start = self.projection.position
        if start < self.world.log.watermarks(0).low:  # a client says so: what it reads is gone
            self.projection.reload(checkpoints=True)
            return
        stop = min(start + count, self.world.log.watermarks(0).high)
        if start < stop:
            records = [record for batch in self.world.log.read(0, start, stop) for record in batch.records]
            epoch = self.world.log.leader_epoch_at(0, records[-1].offset)
            self.projection.project(records, stop, epoch)

    def _attempt(self, act: Callable[..., object], *arguments: object) -> None:
        self.assignment.attempt(0, act, *arguments)
        self._refuse_stopped()

    def _refuse_stopped(self) -> None:
        """Nothing that happens in a world may stop the partition."""
        for error in self.assignment.stopped.values():
            raise error


class World:
    """One partition and all that can happen to it."""

    def __init__(self, seed: int, *, forging: bool = False) -> None:
        self.random = Random(seed)
        self.happenings = _HAPPENINGS | ({World.forge: 4} if forging else {})
        self.forging = forging
        self.log = MemoryLog(partitions=1)
        self.view = MemoryView(1)
        self.checkpoints = MemoryCheckpoints(1)
        self.truth = Truth(self.random, self.log, self.view, self.checkpoints)
        self.generation = 0
        self.projectors: list[Projector] = []
        self.transactions: list[Transaction] = []
        self.steps = 0
        self.depth = 0
        self.healed = False

    # --- time -------------------------------------------------------------------------------------------------------
    def run(self, steps: int) -> None:
        """Let ``steps`` things happen, then heal everything, drain, and compare all there is with the truth."""
        for _ in range(steps):
            self.step()
        self.heal()
        self.truth.check(final=True)

    def step(self) -> None:
        """Let one thing happen."""
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
        """Somebody writes an entry, or poison."""
        self.truth.write()

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
        """Commit the transaction if it was accepted, otherwise abort it."""
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
        """Somebody changes a process in the view."""
        self.truth.forge()

    def compact(self) -> None:
        """The cleaner runs."""
        self.checkpoints.compact(0, self.random.choice([None, self.random.randint(0, self.checkpoints.end(0))]))

    def elect(self) -> None:
        """Another replica, which has everything, becomes the leader."""
        self.log.elect(0)

    def trim(self) -> None:
        """Somebody trims the log to the floor."""
        self.log.trim(0, self.truth.read_checkpoints()[1])

    def look(self) -> None:
        """Somebody recovers."""
        self.truth.check(final=False)

    # --- the end ------------------------------------------------------------------------------------------------------
    def heal(self) -> None:
        """End all faults, and let one last projector bring everything up to date."""
        self.healed = True
        if self.forging:
            self.truth.write_to_each()
        self.truth.write()
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
            last.prepare()
            if not last.projection.is_ready:
                return False
            if last.projection.position < high:
                last.project(50)
                return False
            last.save(force=True, wait=True)
        except Retryable:
            return False
        return last.projection.is_ready and last.projection.floor == high


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
