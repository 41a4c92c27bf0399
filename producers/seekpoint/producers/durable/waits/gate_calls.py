"""Wait at gates for a signal, or for a person's approval.

A signal with the name or the key of a gate answers the gate, also if the signal comes first. Many gates may have one
name: each takes one signal, in the order of the log. The entry that closes a gate names its signal (rule O1).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, overload

import orjson

from seekpoint.producers.durable.call_results import GateAnswer
from seekpoint.producers.durable.durable_process import DurableCalls, DurableProcess
from seekpoint.producers.durable.replay.call_digest import text_digest
from seekpoint.producers.durable.replay.history_matcher import CallPlace
from seekpoint.producers.durable.waits.timer_calls import microseconds
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies import Json
from seekpoint.schemas.errors import LimitExceeded, RecordedValueInvalid, ReplayDivergence
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.state.process_state import MailItem
from seekpoint.schemas.values.json_values import dump, load

if TYPE_CHECKING:
    from seekpoint.schemas.values.value_types import ValueType


logger = logging.getLogger("seekpoint.producers")

T = TypeVar("T")

_LEFT_OUT = "left_out"


class GateCalls(DurableCalls):
    """The gate calls of a process."""

    @overload
    def gate(
        self, name: str, *, timeout: float | timedelta | None = None, prompt: Any = None, key: str | None = None
    ) -> Coroutine[Any, Any, GateAnswer]: ...
    @overload
    def gate(
        self, name: str, *, type: type[T], timeout: float | timedelta | None = None, prompt: Any = None,
        key: str | None = None,
    ) -> Coroutine[Any, Any, GateAnswer[T]]: ...  # fmt: skip
    @overload
    def gate(
        self, name: str, *, type: Any, timeout: float | timedelta | None = None, prompt: Any = None,
        key: str | None = None,
    ) -> Coroutine[Any, Any, GateAnswer]: ...  # fmt: skip
    def gate(
        self, name: str, *, type: Any = None, timeout: float | timedelta | None = None, prompt: Any = None,
        key: str | None = None,
    ) -> Coroutine[Any, Any, GateAnswer]:  # fmt: skip
        """Wait for a signal called ``name``, from anywhere; ``node.approve`` and ``seekpoint approve`` send one.

        A person sees ``prompt`` (any value). It belongs to the call: code that changes the prompt does not get the
        recorded answer. ``timeout`` (seconds) counts from when the gate was first opened, also through a crash; a
        signal that is in the log by then is in time. A signal with the payload ``True``, ``False`` or
        ``{"approved": …}`` approves or denies. The process is ``awaiting`` meanwhile.

        ``type``: the payload is checked against that type, and rebuilt as it. A plain yes or no that does not fit it is
        an answer without payload. Any other payload that does not fit is refused: the gate stays open for another one,
        ``seekpoint gates ls`` has the reason, and so has the log. Raises ``Cancelled``, ``ReplayDivergence``.
        """
        kind = None if type is None else _asked(type)
        opened = open_gate(self._durable, name, timeout=timeout, prompt=prompt, key=key, kind=kind)
        return opened if kind is None else _rebuilt(opened, kind, name, self._durable.process_id)


def _asked(annotation: Any) -> ValueType | None:
    from seekpoint.schemas.values.value_types import asked_type

    return asked_type(annotation)


async def _rebuilt(opened: Coroutine[Any, Any, GateAnswer], kind: ValueType, name: str, process_id: str) -> GateAnswer:
    """Return the gate's answer with its payload rebuilt."""
    answer = await opened
    return answer._replace(payload=None if answer.timed_out else _typed(answer.payload, kind, name, process_id))


def _typed(said: Any, kind: ValueType, name: str, process_id: str) -> Any:
    """Return the payload of an answer, rebuilt. Raises ``RecordedValueInvalid``."""
    if _is_left_out(said):
        return None
    text, is_bare = dump(said), _is_bare_verdict(said)
    try:
        payload = kind.rebuilt(text, f"the payload of {name}", process_id=process_id, name=name)
    except RecordedValueInvalid:
        if not is_bare:
            raise
        return None
    return None if is_bare and not _is_kept(said, load(kind.normal(text))) else payload


def _is_kept(payload: Any, made: Any) -> bool:
    """Whether the type of a gate's payload has room for a verdict."""
    return made == payload if isinstance(payload, bool) else isinstance(made, dict) and "approved" in made


def _is_left_out(payload: Any) -> bool:
    return isinstance(payload, dict) and payload.keys() == {_LEFT_OUT}


def _is_bare_verdict(payload: Any) -> bool:
    """Whether a payload is a yes or a no and nothing else, as ``approve`` sends it."""
    return isinstance(payload, bool) or (isinstance(payload, dict) and payload.keys() <= {"approved", "reason"})


def open_gate(
    process: DurableProcess, name: str, *, timeout: float | timedelta | None = None, prompt: Any = None,
    key: str | None = None, kind: ValueType | None = None,
) -> Coroutine[Any, Any, GateAnswer]:  # fmt: skip
    """Return the call that ``process.gate`` makes."""
    from seekpoint.producers.durable.call_spans import spanned

    timeout_us = None if timeout is None else microseconds(timeout, "a gate's timeout")
    text = dump(prompt, process.limits, True)
    digest = text_digest(name, text)
    try:
        place = process.matcher.place("gate", name, digest, key)
    except ReplayDivergence as exc:
        from seekpoint.producers.durable.replay.differences import changed

        return changed(process.session, exc, b.GateOpened(name=name, prompt=text))
    record = place.record
    if record is not None:
        if record.status == "succeeded":
            refused = None if kind is None else _refusal_of(process, place, name, kind, record.output or "{}")
            if refused is None:
                return process.in_order(place, _recorded, record.output or "{}")
            run = _Gate(process, place, name, None, kind).run
            return process.in_order(place, spanned(process, "gate", name, place, text, run), refused)
        run = _Gate(process, place, name, record.facts.get("deadline_us"), kind).run
        return process.in_order(place, spanned(process, "gate", name, place, text, run))
    deadline_us = None if timeout_us is None else process.clock.now_us() + timeout_us
    opened = b.GateOpened(
        key=place.key, position=place.position, name=name, digest=digest, deadline_us=deadline_us, prompt=text
    )
    run = _Gate(process, place, name, deadline_us, kind).run
    return process.in_order(place, spanned(process, "gate", name, place, text, run), opened)


def _refusal_of(
    process: DurableProcess, place: CallPlace, name: str, kind: ValueType, output: Json
) -> b.AnswerRefused | None:
    """Return what opens a gate again whose recorded answer does not fit; None if it fits, or if the code went on.

    Older versions recorded such an answer, and no run got beyond it.
    """
    row = orjson.loads(output)
    if row["outcome"] == "timed_out" or process.matcher.is_replaying or not process.executes(place):
        return None
    try:
        _typed(load(row["payload"]), kind, name, process.process_id)
    except RecordedValueInvalid as exc:
        return b.AnswerRefused(place.key, None, refusal_text(process, exc))
    return None


def refusal_text(process: DurableProcess, error: RecordedValueInvalid) -> str:
    """Return why an answer does not fit, for people: where, and what was expected there."""
    where = "" if error.path is None else f" at {error.path}"
    return process.settings.excerpt(f"{error.message}{where}", _REASON_CHARACTERS_MAX)


_REASON_CHARACTERS_MAX = 500


async def _recorded(output: Json) -> GateAnswer:
    row = orjson.loads(output)
    return GateAnswer(row["outcome"], load(row["payload"]), row["actor"], row["reason"])


class _Gate(FrozenStruct, frozen=True):
    """One open gate."""

    process: DurableProcess
    place: CallPlace
    name: str
    deadline_us: int | None
    kind: ValueType | None = None

    async def run(self, opened: b.GateOpened | b.AnswerRefused | None = None) -> GateAnswer:
        """Write ``opened``, wait for the signal, and return the answer once it is acknowledged."""
        waiting = self.process.waiting
        with waiting.in_queue(self.name, self.place.key):
            if opened is not None and self._signal() is None:
                await self.process.append(opened)
            elif opened is not None:
                self.process.send(opened)
            item = await waiting.until(self._signal, self.deadline_us)
            while item is not None and (reason := self._misfit(item)) is not None:
                logger.warning("%s: an answer to %s is refused: %s", self.process.process_id, self.place.key, reason)
                self.process.send(b.AnswerRefused(self.place.key, item.id, reason))
                item = await waiting.until(self._signal, self.deadline_us)
            closed, done = self._close(item)
        await done
        return GateAnswer(closed.outcome, load(closed.payload), closed.actor, closed.reason)

    def _close(self, item: MailItem | None) -> tuple[b.GateResolved, asyncio.Future[int]]:
        """Take the signal out of the mailbox before another call looks at it.

        Leave a payload out that fits a signal but not this entry: else no run would ever get beyond the gate.
        """
        closed = self._resolved(item)
        try:
            return closed, self.process.sent(closed)
        except LimitExceeded as exc:
            if item is None:
                raise
            logger.warning("%s: the payload for %s was left out: %s", self.process.process_id, self.place.key, exc)
            closed = replace(closed, payload=dump({_LEFT_OUT: type(item.payload).__name__}), reason=None)
            return closed, self.process.sent(closed)

    def _misfit(self, item: MailItem) -> str | None:
        """Return why a signal is no answer of the type that the code asks for; None if it is one."""
        if self.kind is None:
            return None
        try:
            _typed(item.payload, self.kind, self.name, self.process.process_id)
        except RecordedValueInvalid as exc:
            return refusal_text(self.process, exc)
        return None

    def _signal(self) -> MailItem | None:
        """Return the oldest signal with this gate's key, or with its name if no earlier gate of that name waits."""
        queue = self.process.waiting.queues.get(self.name)
        names = {self.place.key} if queue and queue[0] != self.place.key else {self.place.key, self.name}
        signals = (item for item in self.process.waiting.mail if item.kind == b.Signal.KIND)
        return next((item for item in signals if item.name in names), None)

    def _resolved(self, item: MailItem | None) -> b.GateResolved:
        if item is None:
            return b.GateResolved(key=self.place.key, outcome="timed_out")
        outcome, reason = verdict_of(item.payload)
        return b.GateResolved(
            key=self.place.key, outcome=outcome, external_id=item.id, payload=item.payload_json, actor=item.actor,
            reason=reason,
        )  # fmt: skip


def verdict_of(payload: Any) -> tuple[str, str | None]:
    """Return the outcome of a signal (``approved``, ``denied``, or else ``signalled``) and its reason."""
    approved, reason = payload, None
    if isinstance(payload, dict):
        approved, reason = payload.get("approved"), payload.get("reason")
    outcome = "signalled" if type(approved) is not bool else "approved" if approved else "denied"
    return outcome, reason if isinstance(reason, str) and outcome != "signalled" else None
