"""The dispatcher: it makes the calls of connectors with ``outbox=True``, whose intents owners only record.

    intent in the journal -> still pending? -> claim it (first in the log has it) -> call -> verdict to the owner

Several dispatchers may run: one of them calls each intent. If it dies, another one takes over once its claim stood
still for ``takeover_s``. ``effect_resolution.decide`` decides what may be done then: an idempotent call is made again
with the same key, an at-most-once call is not. The owner settles the effect by the verdict.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import TypeAlias

from seekpoint.consumers.log_reading.scan import entries_of
from seekpoint.producers.dispatch.claimed_intent import Dispatch, DispatchClaim, Intent
from seekpoint.producers.durable.effects.business_keys import SharedValues, shared_name
from seekpoint.producers.durable.effects.connectors import Connectors, connectors
from seekpoint.producers.durable.effects.effect_context import JournalValues
from seekpoint.producers.durable.effects.real_effects import check_effects_are_real
from seekpoint.producers.node import Node, runtime_of
from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.error_texts import traceback_of
from seekpoint.schemas.errors import (
    JournalMismatch,
    LogDamaged,
    LogTruncated,
    NewerFormat,
    Retryable,
    SeekpointError,
    TooManyDeadLetters,
)

__all__ = ["Dispatcher"]


class DispatchProgress:
    """The saved progress of the dispatchers of one ``name``, by connector and partition, kept in shared values.

    Each connector has its own progress: the intents of one that only a later version knows are looked for from the
    journal's beginning, since no earlier dispatcher has called them.
    """

    def __init__(self, values: SharedValues, name: str, connectors: Iterable[str]) -> None:
        self._values = values
        self._name = name
        self._connectors = tuple(connectors)
        self._saved: dict[tuple[str, int], int] = {}

    async def start(self, partition: int) -> int:
        """Return the offset to read on from: that of the connector that is furthest behind. Reads the saved values."""
        for connector in self._connectors:
            _, value = await self._values.read(self._value_name(connector, partition))
            self._saved[connector, partition] = value if isinstance(value, int) else 0
        return min((self._saved[connector, partition] for connector in self._connectors), default=0)

    def has_passed(self, connector: str, partition: int, offset: int) -> bool:
        """Return whether an intent of ``connector`` at ``offset`` is over by the saved progress."""
        return offset < self._saved.get((connector, partition), 0)

    async def save(self, connector: str, partition: int, offset: int, *, offsets_min: int = 1) -> None:
        """Save that every intent of ``connector`` below ``offset`` is over, if that is ``offsets_min`` more than saved.

        Saving appends an entry, which moves the end of a partition: an idle journal must not grow by that.
        """
        saved = self._saved.get((connector, partition))
        if saved is None or offset < saved + offsets_min:
            return
        name = self._value_name(connector, partition)
        version, value = await self._values.read(name)
        if not isinstance(value, int) or value < offset:
            await self._values.write(name, offset, version)
        self._saved[connector, partition] = offset

    def of(self, partition: int) -> dict[str, int]:
        """Return the saved offset in ``partition`` of each connector."""
        return {connector: offset for (connector, at), offset in self._saved.items() if at == partition}

    def _value_name(self, connector: str, partition: int) -> str:
        return shared_name("effect-dispatcher", self._name, connector, str(partition))


logger = logging.getLogger("seekpoint.producers")

_CHECK_INTERVAL_S = 5.0
"""How often the dispatcher checks for deleted or re-created topics."""
_SAVE_INTERVAL_S = 5.0
_SAVE_OFFSETS_MIN = 1_000
_STEP_OFFSETS = 20_000
_BACKLOG_MAX = 1_000
"""The dispatcher reads no further while so many intents are not over."""
_AGAIN_S = 1.0
_END_S = 5.0
_SAVE_S = 3.0
_FINAL = (JournalMismatch, LogDamaged, LogTruncated, NewerFormat, TooManyDeadLetters)
"""The errors after which reading on would skip intents, or call those of another journal."""

Slot: TypeAlias = tuple[int, int]
"""Partition and offset of an intent."""


@dataclass(slots=True)
class _Foreign:
    """Another dispatcher's claim, and since when by the own clock it has stood still."""

    version: int
    since_s: float


class Dispatcher:
    """A dispatcher of a journal's intents, for the outbox connectors that are registered in this program.

    ``async with Dispatcher(node)`` works until the block ends; ``drain`` before that lets calls under way end.
    Dispatchers of one ``name`` share their progress, connector by connector. ``takeover_s`` is how long another
    dispatcher's claim may stand still, the same for all dispatchers of a journal, by default the setting
    ``owner_timeout_s``. At most ``concurrency_max`` calls of each connector are under way, so that one that hangs does
    not delay the others. Raises ``Refused`` where effects are only recorded. ``NewerFormat``, ``JournalMismatch``,
    ``LogTruncated`` and ``TooManyDeadLetters`` stop it: ``failure`` holds the error, and leaving the block raises it.
    """

    def __init__(
        self,
        node: Node,
        *,
        name: str = "dispatcher",
        known: Connectors = connectors,
        concurrency_max: int = 16,
        takeover_s: float | None = None,
        poll_s: float = 0.2,
    ) -> None:
        check_effects_are_real(node.settings)
        self._runtime = runtime_of(node)
        self._known = known
        self._takeover_s = node.settings.owner_timeout_s if takeover_s is None else takeover_s
        self._poll_s = poll_s
        self._rooms = defaultdict[str, asyncio.Semaphore](lambda: asyncio.Semaphore(concurrency_max))
        self._values = JournalValues(self._runtime)
        self._who = f"{name}/{uuid.uuid4().hex[:12]}"
        self._progress = DispatchProgress(self._values, name, known.outbox)
        self._positions: dict[int, int] = {}
        self._saved_s = self._checked_s = 0.0
        self._due: dict[Slot, Intent] = {}
        self._foreign: dict[Slot, _Foreign] = {}
        self._not_before: dict[Slot, float] = {}
        self._tasks: dict[Slot, asyncio.Task[None]] = {}
        self._loop: asyncio.Task[None] | None = None
        self._is_draining = False
        self.failure: SeekpointError | None = None
        """The error that stopped it; None while it works."""
        self.dispatched = 0
        """How many outcomes this dispatcher has reported to owners."""
        self.looks = 0
        """How often it has read to the journal's end. It stands still if this does not rise."""

    @property
    def waiting(self) -> int:
        """The number of open intents that the dispatcher has read, calls under way included."""
        return len(self._due)

    @property
    def calling(self) -> int:
        """The number of intents that the dispatcher works on now."""
        return len(self._tasks)

    # --- life
    async def __aenter__(self) -> Dispatcher:
        self._loop = asyncio.create_task(self._go_on(), name="seekpoint-dispatcher")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop. Calls under way end as in a crash: in doubt, for the next dispatcher.

        A call that ignores its cancellation is not waited for longer than five seconds.
        """
        tasks = [*self._tasks.values(), *([] if self._loop is None else [self._loop])]
        for task in tasks:
            task.cancel()
        await asyncio.wait({asyncio.gather(*tasks, return_exceptions=True)}, timeout=_END_S)
        with suppress(SeekpointError, TimeoutError):  # the next dispatcher reads a little more
            async with asyncio.timeout(_SAVE_S):
                await self._save()
        if self.failure is not None and error is None:
            raise self.failure

    async def drain(self, patience_s: float) -> int:
        """Begin no more calls, and wait for those under way. Return how many are not over after ``patience_s``."""
        self._is_draining = True
        tasks = [*self._tasks.values()]
        if not tasks:
            return 0
        _, left = await asyncio.wait(tasks, timeout=patience_s)
        return len(left)

    async def _go_on(self) -> None:
        while not self._is_draining:
            pause_s = _AGAIN_S
            try:
                await self._look()
                self._begin()
                if self._runtime.clock.monotonic() - self._saved_s > _SAVE_INTERVAL_S:
                    await self._save(_SAVE_OFFSETS_MIN)
                pause_s = self._poll_s
            except _FINAL as exc:
                logger.error("the dispatcher stops: %s", exc)
                self.failure = exc
                return
            except SeekpointError as exc:
                logger.warning("the dispatcher waits: %s", exc)
            except Exception as exc:  # the intents must not wait for ever
                logger.error("the dispatcher failed, and goes on: %s", traceback_of(exc, self._runtime.settings))
            await self._runtime.clock.sleep(pause_s)

    async def catch_up(self) -> int:
        """Call all intents that wait now; return how many outcomes were reported. Use it instead of ``async with``."""
        before = self.dispatched
        await self._look()
        self._begin()
        await asyncio.gather(*self._tasks.values())
        await self._save()
        return self.dispatched - before

    # --- intents
    async def _look(self) -> None:
        """Read on in each partition, and keep the intents of the own connectors."""
        reader, in_thread = self._runtime.reader, self._runtime.in_thread
        if self._runtime.clock.monotonic() - self._checked_s > _CHECK_INTERVAL_S:
            await in_thread(reader.check)
            self._checked_s = self._runtime.clock.monotonic()
        for partition in range(await in_thread(lambda: reader.partitions)):
            marks = await in_thread(partial(reader.watermarks, partition))
            start = await self._position(partition)
            if start < marks.low:
                logger.warning(
                    "partition %d was trimmed to offset %d, and looked through to %d only: effects between that still"
                    " wait are called by nobody; tell their owners with seekpoint effects resolve",
                    partition, marks.low, start,
                )  # fmt: skip
                start = self._positions[partition] = marks.low
            while start < marks.high and len(self._due) < _BACKLOG_MAX:
                stop = min(marks.high, start + _STEP_OFFSETS)
                for intent in await in_thread(partial(list, self._intents(partition, start, stop))):
                    self._due[partition, intent.offset] = intent
                start = self._positions[partition] = stop
        self.looks += 1

    async def _position(self, partition: int) -> int:
        if partition not in self._positions:
            self._positions[partition] = await self._progress.start(partition)
        return self._positions[partition]

    def _intents(self, partition: int, start: int, stop: int) -> Iterator[Intent]:
        """Yield the intents of outbox connectors in [start, stop) that are not over by the saved progress. Blocks."""
        for batch in self._runtime.reader.read(partition, start, stop):
            for record, entry in entries_of(batch.records, self._runtime.reader):
                body = entry.body
                if (
                    isinstance(body, b.EffectIntended)
                    and body.connector is not None
                    and body.connector in self._known
                    and self._known[body.connector].outbox
                    and not self._progress.has_passed(body.connector, partition, record.offset)
                ):
                    yield Intent(entry.process_id, partition, record.offset, body)

    # --- calling
    def _begin(self) -> None:
        for slot, intent in self._due.items():
            if slot not in self._tasks and self._may_look(slot):
                task = asyncio.create_task(self._take(slot, intent), name=f"seekpoint-dispatch-{intent.body.key}")
                self._tasks[slot] = task
                task.add_done_callback(partial(self._over, slot))

    def _over(self, slot: Slot, task: asyncio.Task[None]) -> None:
        self._tasks.pop(slot, None)

    def _may_look(self, slot: Slot) -> bool:
        return self._runtime.clock.monotonic() >= self._not_before.get(slot, 0.0)

    async def _take(self, slot: Slot, intent: Intent) -> None:
        assert intent.body.connector is not None
        async with self._rooms[intent.body.connector]:
            pause_s = _AGAIN_S
            try:
                if await self._taken(slot, intent):
                    for table in (self._due, self._foreign, self._not_before):
                        table.pop(slot, None)
                    return
                pause_s = min(pause_s, self._takeover_s / 4)
            except Retryable as exc:
                logger.warning("%s waits: %s", intent.body.idempotency_key, exc)
            except Exception as exc:
                trace = traceback_of(exc, self._runtime.settings)
                logger.error("%s cannot be called: %s", intent.body.idempotency_key, trace)
            self._not_before[slot] = self._runtime.clock.monotonic() + pause_s

    async def _taken(self, slot: Slot, intent: Intent) -> bool:
        """Call the intent if it is free; return whether there is nothing more to do for it."""
        assert intent.body.connector is not None
        connector = self._known[intent.body.connector]
        dispatch = Dispatch(self._runtime, self._values, connector, intent, self._who, self._takeover_s)
        if not await dispatch.is_due():
            return True
        version, claim = await dispatch.read()
        if claim is not None and not self._stood_still(slot, version, claim):
            return False
        if self._is_draining or not await dispatch.claim(version, claim):
            return False
        if await dispatch.run():
            self.dispatched += 1
            return True
        return False

    def _stood_still(self, slot: Slot, version: int, claim: DispatchClaim) -> bool:
        """Return whether a claim stood still for ``takeover_s``. An own claim counts too: its call was given up."""
        if claim.by == self._who:
            return True
        now = self._runtime.clock.monotonic()
        seen = self._foreign.get(slot)
        if seen is None or seen.version != version:
            self._foreign[slot] = _Foreign(version, now)
            return False
        return now - seen.since_s >= self._takeover_s

    # --- progress
    async def _save(self, offsets_min: int = 1) -> None:
        """Save where the next dispatcher begins: at the oldest intent that is not over."""
        self._saved_s = self._runtime.clock.monotonic()
        for partition, position in self._positions.items():
            for connector in self._progress.of(partition):
                oldest = min(self._offsets_due(connector, partition), default=position)
                await self._progress.save(connector, partition, oldest, offsets_min=offsets_min)

    def _offsets_due(self, connector: str, partition: int) -> list[int]:
        return [at for (p, at), intent in self._due.items() if p == partition and intent.body.connector == connector]
