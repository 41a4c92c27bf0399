"""Test agents: crash a node at a chosen point and resume on another one, and check code against a history.

    crash = crash_at(call="charge:1", when="unacknowledged")
    assert await crash.run(support_agent, "case-17", {"order": 4711}) == "done"
    await assert_replays(support_agent, crash.history())

Everything runs in memory, with a clock that skips waits. No test framework is needed. The package has fixtures for
pytest: ``seekpoint_node``, ``seekpoint_clock``, ``seekpoint_cluster``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from seekpoint.producers.agent_run import RECORDED, Recorded
from seekpoint.producers.durable.replay.conduct import Detail
from seekpoint.producers.durable.steps.agent import Agent, Input, Output
from seekpoint.producers.node import Node, runtime_of
from seekpoint.producers.replay_checking import ReplayCheck, check_replay
from seekpoint.producers.writer.clocks import Clock, VirtualClock
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.errors import HandleClosed, Refused
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.log.log_ports import Appender, DeliveryReport, ProducerRecord
from seekpoint.schemas.log.memory_log import MemoryLog

if TYPE_CHECKING:
    from seekpoint.consumers.recovery.process_history import Logged

__all__ = ["Crash", "When", "assert_replays", "crash_at", "history_of"]


class When(StrEnum):
    """How far the entry has come when the node dies."""

    UNSENT = "unsent"
    """The entry is not in the log."""
    UNACKNOWLEDGED = "unacknowledged"
    """The entry is in the log, and the agent gets no acknowledgement."""
    ACKNOWLEDGED = "acknowledged"
    """The entry is in the log, and the agent got the acknowledgement. Its next entry is lost."""


def crash_at(
    *, seq: int | None = None, call: str | None = None, ended: bool = False, when: str = When.UNACKNOWLEDGED
) -> Crash:
    """Return a crash of the process's node at its entry ``seq``, or at the first entry of the call ``call``.

    ``ended``: crash at the first entry that ends the call or an attempt of it, instead of the entry that begins it. A
    call that ends before it waits for anything has one entry for both. Raises ``Refused`` unless exactly one of ``seq``
    and ``call`` is given.
    """
    if (seq is None) == (call is None) or (seq is not None and seq < 1):
        raise Refused("a crash is at one seq, or at one call", seq=seq, call=call)
    return Crash(_Point(seq, call, ended, When(when)))


async def assert_replays(agent: Agent, history: Iterable[Logged | Entry], *, detail: str = Detail.FULL) -> ReplayCheck:
    """Raise ``AssertionError`` if the code of ``agent`` makes other calls than ``history``, or returns another result.

    No call is executed and nothing is written; see ``check_replay``. Return its report.
    """
    found = await check_replay(agent, history, detail=detail)
    if not found.ok:
        raise AssertionError(f"{agent.name} does not replay {found.process_id}: {found}")
    return found


def history_of(log: MemoryLog, process_id: str) -> list[Entry]:
    """Return the entries of a process in a log in memory, in log order."""
    return [log.codec.decode(value) for value in _values(log, process_id)]


def _values(log: MemoryLog, process_id: str) -> Iterator[bytes]:
    for partition in range(log.partitions):
        for batch in log.read(partition, 0, log.watermarks(partition).high, {process_id.encode()}):
            yield from (record.value for record in batch.records if record.value is not None)


class _Point(FrozenStruct, frozen=True):
    """The point at which a node dies."""

    seq: int | None
    call: str | None
    ended: bool
    when: When

    def __str__(self) -> str:
        at = f"seq {self.seq}" if self.call is None else f"the {'end' if self.ended else 'start'} of call {self.call}"
        return f"{at} ({self.when})"


class Crash:
    """A crash that ``run`` causes, once. Made by ``crash_at``."""

    def __init__(self, point: _Point) -> None:
        self._point = point
        self._process_id = ""
        self.happened = False
        self.log = MemoryLog(partitions=1)
        """The journal. It is the same before and after the crash."""

    async def run(
        self,
        agent: Agent[Input, Output],
        process_id: str,
        input: Input | Recorded = RECORDED,  # the word users know
        *,
        resumed_by: Agent[Input, Output] | None = None,
        clock: Clock | None = None,
        settle: Callable[[Node], None] | None = None,
        **how: Any,
    ) -> Output:
        """Run ``agent`` on a node that dies at the chosen point, resume it on another node, and return its result.

        ``resumed_by`` replaces the agent on the second node, for example by a newer version. ``settle`` is called with
        each node before it runs anything, to set prices or connectors. ``how`` goes to ``Node.run``. When the first
        node dies, ``finally`` blocks of the code still run, but nothing that they call reaches the log; a call in a
        thread continues. Raises ``AssertionError`` if the run ended before it came to the chosen point.
        """
        clock = clock or VirtualClock(patience_s=0.0)
        self._process_id = process_id
        await self._doomed(agent, process_id, input, clock, settle, how)
        async with Node.in_memory(self.log, clock=clock) as node:
            if settle is not None:
                settle(node)
            return await node.run(resumed_by or agent, process_id, input, take_over=True, **how)

    def history(self) -> list[Entry]:
        """Return the entries of the process so far."""
        return history_of(self.log, self._process_id)

    async def _doomed(
        self, agent: Agent, process_id: str, input: Any, clock: Clock, settle: Callable[[Node], None] | None, how: Any
    ) -> None:
        writer = _Mortal(self.log, process_id, self._point)
        node = Node.in_memory(self.log, clock=clock)
        node = Node(self.log, writer, node.settings, clock=clock)
        async with node:
            if settle is not None:
                settle(node)
            running = asyncio.ensure_future(node.run(agent, process_id, input, **how))
            writer.on_death = lambda: _kill(node, running)
            await asyncio.wait([running])
        self.happened = writer.is_dead
        if not writer.is_dead:
            ended = "was cancelled" if running.cancelled() else repr(running.exception() or running.result())[:200]
            raise AssertionError(f"the run never came to {self._point}: it ended with {ended}")
        if not running.cancelled():
            running.exception()  # looked at: what a dying node's code says is nobody's


def _kill(node: Node, running: asyncio.Future[Any]) -> None:
    gone = HandleClosed("the node died here: crash_at")
    running.cancel()
    for handle in runtime_of(node).open_handles():
        handle.fail(gone)


_STARTS = (
    *(b.StepStarted, b.DecisionStarted, b.EffectIntended, b.TimerSet, b.GateOpened, b.ChildSpawned),
    b.ObligationRegistered,
)


class _Mortal:
    """A log writer that drops everything once its node has died."""

    def __init__(self, log: MemoryLog, process_id: str, point: _Point) -> None:
        self.log = log
        self.process_id = process_id
        self.is_dead = False
        self.on_death: Callable[[], None] = lambda: None
        self._point = point

    def appender(self, deliver: Callable[[Sequence[DeliveryReport]], None]) -> Appender:
        """Return the appender of a node."""
        return _MortalAppender(self, self.log.appender(deliver), deliver)

    def is_the_end(self, value: bytes) -> bool:
        """Return whether the node dies at this entry."""
        entry = self.log.codec.decode(value)
        if entry.process_id != self.process_id or entry.seq is None:
            return False
        if self._point.call is None:
            return entry.seq == self._point.seq
        named = getattr(entry.body, "key", None) if entry.body.call is None else entry.body.call
        return named == self._point.call and not (self._point.ended and isinstance(entry.body, _STARTS))

    def die(self) -> None:
        """Drop every later record. Call ``on_death`` in the next round of the event loop."""
        self.is_dead = True
        asyncio.get_running_loop().call_soon(self.on_death)


class _MortalAppender:
    """An appender that passes records on until the node dies."""

    def __init__(self, writer: _Mortal, inner: Appender, deliver: Callable[[Sequence[DeliveryReport]], None]) -> None:
        self._writer = writer
        self._inner = inner
        self._deliver = deliver

    def send(self, records: Sequence[ProducerRecord]) -> int:
        """Pass on the records up to the point of death; report all as taken."""
        for record in records:
            if self._writer.is_dead:
                break
            if not self._writer.is_the_end(record.value):
                self._inner.send([record])
                continue
            if self._writer._point.when is When.UNACKNOWLEDGED:
                self._writer.log.append(record.partition, record.key, record.value)
            elif self._writer._point.when is When.ACKNOWLEDGED:
                self._inner.send([record])
            self._writer.die()
        return len(records)

    def retire(self, drain_s: float) -> None:
        """Retire the appender of the log."""
        self._inner.retire(drain_s)
