"""Mail: what others tell a process, taken out of its mailbox one by one.

An agent's code that receives makes a call: what it took is remembered with the entry that takes it, and a run that
follows gets the same mail in the order of the program, whatever waits by then. Elsewhere each ``receive`` takes anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from datetime import timedelta
from types import NoneType
from typing import Any

import orjson

from seekpoint.producers.durable.durable_process import DurableCalls, DurableProcess
from seekpoint.producers.durable.replay.call_digest import text_digest
from seekpoint.producers.durable.replay.differences import changed
from seekpoint.producers.durable.replay.history_matcher import CallPlace
from seekpoint.producers.durable.waits.timer_calls import microseconds
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies import Json
from seekpoint.schemas.dataclass import dataclass
from seekpoint.schemas.errors import InvalidName, Refused, ReplayDivergence, Retryable
from seekpoint.schemas.state.state_parts import MailItem, mail_item
from seekpoint.schemas.values.json_values import dump

__all__ = ["ReceiveCalls"]

logger = logging.getLogger("seekpoint.producers")

_CALL = "receive"
_LOOK_S = 5.0
_OF_EFFECTS = frozenset({"evidence", b.EffectVerdict.KIND})
"""Words on effects are the effects' own, whoever asks for anything that comes."""


class ReceiveCalls(DurableCalls):
    """What a process offers: ``receive``."""

    def receive(
        self, name: str | None = None, *, timeout_s: float | timedelta | None = None
    ) -> Coroutine[Any, Any, MailItem]:
        """Take the oldest external entry (or the oldest signal called ``name``) out of the mailbox; wait for one.

        What tells of an effect stays there for it. The journal names what was received, so that a replay sees what the
        agent saw. While Kafka is silent it waits on. Raises ``TimeoutError``, ``InvalidName``.

        In an agent's code it is a call, answered from the record in every run that follows, a time-out too. What a
        gate waits for is the gate's, a request to cancel is nobody's mail: ``Cancelled``. The process is ``awaiting``
        meanwhile; the time counts anew in a run that resumes the wait.
        """
        process = self._durable
        if type(name) not in (str, NoneType):
            raise InvalidName("a signal's name is a text", name=repr(name)[:80], hint="receive() takes any signal")
        timeout_us = None if timeout_s is None else microseconds(timeout_s, "receive()")
        if process.options.agent is None:
            return _taken(process, name, None if timeout_us is None else timeout_us / 1_000_000)
        digest = text_digest(_CALL, dump(name))
        try:
            place = process.matcher.place(_CALL, _CALL, digest)
        except ReplayDivergence as exc:
            return changed(process.session, exc, b.Received(name=name))
        if place.record is not None:
            return process.in_order(place, _remembered, place.record.output or "null", name, timeout_s)
        return process.in_order(place, _Receipt(process, place, digest, name).through, timeout_us, timeout_s)


# --- by an agent's code
async def _remembered(text: Json, name: str | None, timeout_s: float | timedelta | None) -> MailItem:
    row = orjson.loads(text)
    if row is None:
        raise _late(name, timeout_s)
    return mail_item(row)


def _late(name: str | None, timeout_s: float | timedelta | None) -> TimeoutError:
    waited = f"{timeout_s}" if isinstance(timeout_s, timedelta) else f"{timeout_s} s"
    return TimeoutError(f"no {'mail' if name is None else f'signal {name[:80]!r}'} came within {waited}")


@dataclass(frozen=True, slots=True)
class _Receipt:
    """One call that waits for mail."""

    process: DurableProcess
    place: CallPlace
    digest: str
    name: str | None

    async def through(self, timeout_us: int | None, timeout_s: float | timedelta | None) -> MailItem:
        """What came, once the entry that takes it is acknowledged."""
        waiting = self.process.waiting
        due_us = None if timeout_us is None else self.process.clock.now_us() + timeout_us
        with waiting.in_queue(self.name, self.place):
            item = await waiting.until(self._mail, due_us)
            done = self.process.sent(self._received(item))  # out of the mailbox before anybody else looks
        await done
        if item is None:
            raise _late(self.name, timeout_s)
        return item

    def _mail(self) -> MailItem | None:
        """The oldest that is wanted; by one name, and of any, whoever asked first is served first."""
        waiting = self.process.waiting
        if self.place.scope.is_over:  # nobody would have what it takes
            raise Refused(
                "mail is waited for after the turn, or the call, that it was for has ended", key=self.place.key,
                process_id=self.process.process_id, hint="await every task you start before that ends",
            )  # fmt: skip
        if waiting.queues[self.name][0] is not self.place:
            return None
        return next((item for item in waiting.mail if self._is_wanted(item)), None)

    def _is_wanted(self, item: MailItem) -> bool:
        if self.name is not None:
            return item.kind == b.Signal.KIND and item.name == self.name
        return item.kind == b.Signal.KIND and not self.process.waiting.is_awaited(item.name)

    def _received(self, item: MailItem | None) -> b.Received:
        return b.Received(
            b.NIL_ID if item is None else item.id, self.place.key, self.place.position, self.digest, self.name
        )


# --- by anybody else
async def _taken(process: DurableProcess, name: str | None, timeout_s: float | None) -> MailItem:
    async with asyncio.timeout(timeout_s):
        item = await _await_mail(process, name)
    await process.append(b.Received(item.id))
    return item


async def _await_mail(process: DurableProcess, name: str | None) -> MailItem:
    session = process.session
    async with session.watching():
        while True:
            session.check_open()
            session.mail_changed.clear()
            for item in session.mail:
                if _is_for_anybody(item, name):
                    return item
            try:
                async with asyncio.timeout(_LOOK_S):
                    await session.mail_changed.wait()
            except TimeoutError:
                await _look_for_mail(process)


async def _look_for_mail(process: DurableProcess) -> None:
    """That nothing comes may mean that nothing can be read: that is asked for now and then."""
    try:
        await process.session.look()
    except Retryable as exc:  # who waits for mail waits for Kafka too, as appends do
        logger.warning("mail waits: %s", exc)


def _is_for_anybody(item: MailItem, name: str | None) -> bool:
    if name is None:
        return item.kind not in _OF_EFFECTS
    return item.kind == b.Signal.KIND and item.name == name
