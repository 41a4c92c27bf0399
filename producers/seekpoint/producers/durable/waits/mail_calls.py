"""Receive external entries from the mailbox of a process, one by one.

In an agent's code ``receive`` is a call: the entry that takes the mail records it, and each later run gets the same
mail at the same place of the program. In other code each ``receive`` takes another external entry.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from datetime import timedelta
from types import NoneType
from typing import Any, TypeVar, overload

import orjson

from seekpoint.producers.durable.call_results import ReceivedSignal
from seekpoint.producers.durable.durable_process import DurableCalls, DurableProcess
from seekpoint.producers.durable.replay.call_digest import text_digest
from seekpoint.producers.durable.replay.history_matcher import CallPlace
from seekpoint.producers.durable.waits.gate_calls import refusal_text
from seekpoint.producers.durable.waits.timer_calls import microseconds
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies import Json
from seekpoint.schemas.errors import InvalidName, RecordedValueInvalid, Refused, ReplayDivergence
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.state.state_parts import MailItem, mail_item
from seekpoint.schemas.values.json_values import dump

logger = logging.getLogger("seekpoint.producers")

T = TypeVar("T")

_CALL = "receive"
_NAME_CHARACTERS_MAX = 180
_EFFECT_OUTCOMES = frozenset({"evidence", b.EffectVerdict.KIND})
"""The external entries that only the effect takes that they name."""


class ReceiveCalls(DurableCalls):
    """The mail calls of a process."""

    @overload
    def receive(
        self, name: str | None = None, *, timeout_s: float | timedelta | None = None
    ) -> Coroutine[Any, Any, MailItem]: ...
    @overload
    def receive(
        self, name: str | None = None, *, type: type[T], timeout_s: float | timedelta | None = None
    ) -> Coroutine[Any, Any, ReceivedSignal[T]]: ...
    @overload
    def receive(
        self, name: str | None = None, *, type: Any, timeout_s: float | timedelta | None = None
    ) -> Coroutine[Any, Any, ReceivedSignal[Any]]: ...
    def receive(
        self, name: str | None = None, *, type: Any = None, timeout_s: float | timedelta | None = None
    ) -> Coroutine[Any, Any, Any]:
        """Take the oldest external entry (or the oldest signal called ``name``) out of the mailbox; wait for one.

        ``type``: return a ``ReceivedSignal`` whose payload is checked against that type, and rebuilt as it. A payload
        that does not fit is refused, which the log says, and the wait goes on; in code that is no agent's it is taken,
        and raises ``RecordedValueInvalid``. The outcome of an effect stays in the mailbox for that effect. While Kafka
        is silent the wait goes on. Raises ``TimeoutError``, ``InvalidName``.

        In an agent's code it is a call: the record answers it in every later run, also a time-out. It does not take the
        signal that a gate waits for, and a request to cancel raises ``Cancelled``. The process is ``awaiting``
        meanwhile. A run that resumes the wait counts ``timeout_s`` from its own start.
        """
        from seekpoint.producers.durable.call_spans import spanned

        process, kind = self._durable, None if type is None else _Kind(type)
        if name.__class__ not in (str, NoneType):
            raise InvalidName("a signal's name is a text", name=repr(name)[:80], hint="receive() takes any signal")
        timeout_us = None if timeout_s is None else microseconds(timeout_s, "receive()")
        digest = text_digest(_CALL, dump(name))
        if process.options.agent is None:
            limit_s = None if timeout_us is None else timeout_us / 1_000_000
            return _typed(_receive_unrecorded(process, name, limit_s), kind, process)
        try:
            place = process.matcher.place(_CALL, _CALL, digest)
        except ReplayDivergence as exc:
            from seekpoint.producers.durable.replay.differences import changed

            return changed(process.session, exc, b.Received(name=name))
        record, refused = place.record, None
        if record is not None and record.status == "succeeded":
            text = record.output or "null"
            refused = None if kind is None else _refusal_of(process, place, kind, text)
            if refused is None:
                return _typed(process.in_order(place, _recorded, text, name, timeout_s), kind, process)
        run = spanned(process, "receive", _CALL, place, None, _Receive(process, place, digest, name, kind).run)
        return _typed(process.in_order(place, run, timeout_us, timeout_s, refused), kind, process)


class _Kind:
    """The type that a call asks for. Raises ``InvalidOption`` if nobody can check it."""

    def __init__(self, annotation: Any) -> None:
        from seekpoint.schemas.values.value_types import asked_type

        self._type = asked_type(annotation)

    def signal(self, item: MailItem, process_id: str) -> ReceivedSignal[Any]:
        """Return the signal with its payload rebuilt. Raises ``RecordedValueInvalid``."""
        kind = self._type
        payload = (
            item.payload
            if kind is None
            else kind.rebuilt(item.payload_json, f"the payload of {item.name}", process_id=process_id, name=item.name)
        )
        return ReceivedSignal(payload, item.name, item.actor, item.id)

    def misfit(self, item: MailItem, process: DurableProcess) -> str | None:
        """Return why a signal is not of the type; None if it is."""
        try:
            self.signal(item, process.process_id)
        except RecordedValueInvalid as exc:
            return refusal_text(process, exc)
        return None


def _typed(
    received: Coroutine[Any, Any, MailItem], kind: _Kind | None, process: DurableProcess
) -> Coroutine[Any, Any, Any]:
    return received if kind is None else _signal_of(received, kind, process.process_id)


async def _signal_of(received: Coroutine[Any, Any, MailItem], kind: _Kind, process_id: str) -> ReceivedSignal[Any]:
    return kind.signal(await received, process_id)


# --- in an agent's code
async def _recorded(text: Json, name: str | None, timeout_s: float | timedelta | None) -> MailItem:
    row = orjson.loads(text)
    if row is None:
        raise _timed_out(name, timeout_s)
    return mail_item(row)


def _refusal_of(process: DurableProcess, place: CallPlace, kind: _Kind, text: Json) -> b.AnswerRefused | None:
    """Return what opens a ``receive`` again whose recorded mail does not fit; None if it fits, or if the code went on.

    Older versions recorded such mail, and no run got beyond it.
    """
    row = orjson.loads(text)
    if row is None or process.matcher.is_replaying or not process.executes(place):
        return None
    reason = kind.misfit(mail_item(row), process)
    return None if reason is None else b.AnswerRefused(place.key, None, reason)


def _timed_out(name: str | None, timeout_s: float | timedelta | None) -> TimeoutError:
    waited = f"{timeout_s}" if isinstance(timeout_s, timedelta) else f"{timeout_s} s"
    return TimeoutError(f"no {'mail' if name is None else f'signal {name[:80]!r}'} came within {waited}")


class _Receive(FrozenStruct, frozen=True):
    """One ``receive`` that the record does not answer."""

    process: DurableProcess
    place: CallPlace
    digest: str
    name: str | None
    kind: _Kind | None = None

    async def run(
        self, timeout_us: int | None, timeout_s: float | timedelta | None, refused: b.AnswerRefused | None = None
    ) -> MailItem:
        """Return the mail once the entry that takes it is acknowledged. ``refused`` drops the recorded one first."""
        if refused is not None:
            self.process.send(refused)
        waiting = self.process.waiting
        due_us = None if timeout_us is None else self.process.clock.now_us() + timeout_us
        with waiting.in_queue(self.name, self.place):
            why = "any signal" if self.name is None else f"signal {self.name[:_NAME_CHARACTERS_MAX]}"
            item = await waiting.until(self._mail, due_us, reason=why)
            while item is not None and (reason := self._misfit(item)) is not None:
                logger.warning("%s: mail for %s is refused: %s", self.process.process_id, self.place.key, reason)
                self.process.send(b.AnswerRefused(self.place.key, item.id, reason))
                item = await waiting.until(self._mail, due_us, reason=why)
            done = self.process.sent(self._received(item))  # before another call looks at the mailbox
        await done
        if item is None:
            raise _timed_out(self.name, timeout_s)
        return item

    def _mail(self) -> MailItem | None:
        """Return the oldest mail for this call, if this call is the first in its queue."""
        waiting = self.process.waiting
        if self.place.scope.is_over:  # no code would get the mail
            raise Refused(
                "receive() waits after the turn, or the call, that it belongs to has ended", key=self.place.key,
                process_id=self.process.process_id, hint="await every task you start before that ends",
            )  # fmt: skip
        if waiting.queues[self.name][0] is not self.place:
            return None
        return next((item for item in waiting.mail if self._is_wanted(item)), None)

    def _misfit(self, item: MailItem) -> str | None:
        return None if self.kind is None else self.kind.misfit(item, self.process)

    def _is_wanted(self, item: MailItem) -> bool:
        if self.name is not None:
            return _is_signal(item, self.name)
        return item.kind == b.Signal.KIND and not self.process.waiting.is_awaited(item.name)

    def _received(self, item: MailItem | None) -> b.Received:
        return b.Received(
            b.NIL_ID if item is None else item.id, self.place.key, self.place.position, self.digest, self.name
        )


# --- in other code
async def _receive_unrecorded(process: DurableProcess, name: str | None, timeout_s: float | None) -> MailItem:
    def find() -> MailItem | None:
        wanted = (item for item in process.session.mail if _is_wanted_by_any(item, name))
        return next(wanted, None)

    async with asyncio.timeout(timeout_s):
        item = await process.waiting.for_mail(find)
    await process.append(b.Received(item.id))
    return item


def _is_wanted_by_any(item: MailItem, name: str | None) -> bool:
    return item.kind not in _EFFECT_OUTCOMES if name is None else _is_signal(item, name)


def _is_signal(item: MailItem, name: str) -> bool:
    return item.kind == b.Signal.KIND and item.name == name
