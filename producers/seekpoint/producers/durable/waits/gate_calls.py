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
from typing import Any

import orjson

from seekpoint.producers.durable.call_results import GateAnswer
from seekpoint.producers.durable.durable_process import DurableCalls, DurableProcess
from seekpoint.producers.durable.replay.call_digest import text_digest
from seekpoint.producers.durable.replay.history_matcher import CallPlace
from seekpoint.producers.durable.waits.timer_calls import microseconds
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies import Json
from seekpoint.schemas.errors import LimitExceeded, ReplayDivergence
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.state.process_state import MailItem
from seekpoint.schemas.values.json_values import dump, load

__all__ = ["GateCalls", "open_gate", "verdict_of"]


logger = logging.getLogger("seekpoint.producers")


class GateCalls(DurableCalls):
    """The gate calls of a process."""

    def gate(
        self, name: str, *, timeout: float | timedelta | None = None, prompt: Any = None, key: str | None = None
    ) -> Coroutine[Any, Any, GateAnswer]:
        """Wait for a signal called ``name``, from anywhere; ``node.approve`` and ``seekpoint approve`` send one.

        A person sees ``prompt`` (any value). It belongs to the call: code that changes the prompt does not get the
        recorded answer. ``timeout`` (seconds) counts from when the gate was first opened, also through a crash; a
        signal that is in the log by then is in time. A signal with the payload ``True``, ``False`` or
        ``{"approved": …}`` approves or denies. The process is ``awaiting`` meanwhile. Raises ``Cancelled``,
        ``ReplayDivergence``.
        """
        return open_gate(self._durable, name, timeout=timeout, prompt=prompt, key=key)


def open_gate(
    process: DurableProcess, name: str, *, timeout: float | timedelta | None = None, prompt: Any = None,
    key: str | None = None,
) -> Coroutine[Any, Any, GateAnswer]:  # fmt: skip
    """Return the call that ``process.gate`` makes."""
    from seekpoint.producers.durable.call_spans import spanned

    timeout_us = None if timeout is None else microseconds(timeout, "a gate's timeout")
    text = dump(prompt, process.limits)
    digest = text_digest(name, text)
    try:
        place = process.matcher.place("gate", name, digest, key)
    except ReplayDivergence as exc:
        from seekpoint.producers.durable.replay.differences import changed

        return changed(process.session, exc, b.GateOpened(name=name, prompt=text))
    record = place.record
    if record is not None:
        if record.status == "succeeded":
            return process.in_order(place, _recorded, record.output or "{}")
        run = _Gate(process, place, name, record.facts.get("deadline_us")).run
        return process.in_order(place, spanned(process, "gate", name, place, text, run))
    deadline_us = None if timeout_us is None else process.clock.now_us() + timeout_us
    opened = b.GateOpened(
        key=place.key, position=place.position, name=name, digest=digest, deadline_us=deadline_us, prompt=text
    )
    run = _Gate(process, place, name, deadline_us).run
    return process.in_order(place, spanned(process, "gate", name, place, text, run), opened)


async def _recorded(output: Json) -> GateAnswer:
    row = orjson.loads(output)
    return GateAnswer(row["outcome"], load(row["payload"]), row["actor"], row["reason"])


class _Gate(FrozenStruct, frozen=True):
    """One open gate."""

    process: DurableProcess
    place: CallPlace
    name: str
    deadline_us: int | None

    async def run(self, opened: b.GateOpened | None = None) -> GateAnswer:
        """Write ``opened``, wait for the signal, and return the answer once it is acknowledged."""
        waiting = self.process.waiting
        with waiting.in_queue(self.name, self.place.key):
            if opened is not None and self._signal() is None:
                await self.process.append(opened)
            elif opened is not None:
                self.process.send(opened)
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
            closed = replace(closed, payload=dump({"left_out": type(item.payload).__name__}), reason=None)
            return closed, self.process.sent(closed)

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
