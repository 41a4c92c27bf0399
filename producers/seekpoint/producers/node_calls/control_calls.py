"""The calls that tell a process something from outside: signals, verdicts, requests. Nodes and clients have them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from seekpoint.schemas.bodies import (
    Body,
    CancelRequested,
    EffectRevoked,
    EffectVerdict,
    ErrorRecorded,
    RedriveRequested,
    ResumeRequested,
    Signal,
    SuspendRequested,
)
from seekpoint.schemas.bodies.entry import new_id
from seekpoint.schemas.errors import ProcessFinished, Refused, SeekpointError
from seekpoint.schemas.values.json_values import dump
from seekpoint.schemas.values.process_ids import named_process_key

if TYPE_CHECKING:
    from seekpoint.consumers.recovery.recovery import Recovery
    from seekpoint.consumers.recovery.recovery_report import Recovered
    from seekpoint.producers.writer.externals import Externals
    from seekpoint.schemas.config.limits import Limits
    from seekpoint.schemas.config.settings import Settings
    from seekpoint.schemas.log.log_ports import LogReader
    from seekpoint.schemas.state.process_state import State

logger = logging.getLogger("seekpoint.producers")


class ControlPort(Protocol):
    """The parts that the calls need: the journal, and a way to append external entries."""

    settings: Settings
    reader: LogReader
    recovery: Recovery
    externals: Externals

    async def recover(self, process_id: str, *, missing_ok: bool = False, at_offset: int | None = None) -> Recovered:
        """Return the state of a process."""
        ...

    async def append_external(
        self, process_id: str, body: Body, *, actor: str | None = None, entry_id: bytes | None = None
    ) -> bytes:
        """Append an external entry; return its id once it is in the log."""
        ...

    async def in_thread(self, call: Callable[[], Any]) -> Any:
        """Run a blocking call in a thread."""
        ...


class ControlCalls:
    """Tell processes something from outside. External entries only fill the mailbox (rule O1)."""

    def __init__(self, port: ControlPort) -> None:
        self._port = port

    async def signal(
        self,
        process_id: str,
        name: str,
        payload: Any = None,
        *,
        actor: str | None = None,
        signal_id: bytes | None = None,
    ) -> bytes:
        """Send a signal, from anywhere, to a process that may not exist yet. Its id; once it is in the mailbox.

        The same ``signal_id`` twice is delivered once. Raises ``Refused`` where the mailbox is full,
        ``ProcessFinished``, ``UnserializableValue``, ``LimitExceeded``, ``AppendTimeout``.
        """
        body = Signal(name, dump(payload, await self._limits(), True))
        return await self._tell(process_id, body, actor, signal_id)

    async def _tell(self, process_id: str, body: Body, actor: str | None, entry_id: bytes | None = None) -> bytes:
        """Append mail; return its id once the mailbox has it, and raise if the mailbox did not take it."""
        sent_id, port = entry_id or new_id(), self._port
        offset = await port.externals.append(process_id, body, actor, sent_id)
        try:
            recover = partial(port.recover, process_id, missing_ok=True)
            state = await port.externals.state_after(process_id, offset, recover)
            if state.offset >= offset and not _has(state, sent_id):  # it may have gone since: that moment tells
                state = (await port.recover(process_id, missing_ok=True, at_offset=offset)).state
        except SeekpointError as exc:
            logger.info("%s: nobody can tell whether its mailbox took what was sent: %s", process_id, exc)
            return sent_id
        if state.offset < offset or _has(state, sent_id):
            return sent_id  # or an open transaction of somebody else hides it still
        if state.finished:
            raise ProcessFinished("the process is finished: nothing reaches it any more", process_id=process_id)
        raise Refused(
            "the process's mailbox is full: nothing was delivered", process_id=process_id,
            hint="send it again once its owner has emptied the mailbox: seekpoint state PROCESS_ID",
        )  # fmt: skip

    async def _limits(self) -> Limits:
        limits: Limits = await self._port.in_thread(lambda: self._port.reader.limits)
        return limits

    async def is_delivered(self, process_id: str, signal_id: bytes) -> bool:
        """Whether what a process was told lies in its mailbox, or was taken out of it; False where there was no room.

        To be asked soon after ``signal``, ``approve``, ``cancel`` or ``verdict`` gave the id: a process remembers the
        last 1,024 it took in. Reads its state. Raises ``ProcessFinished`` where nobody can tell any more.
        """
        state = (await self._port.recover(process_id, missing_ok=True)).state
        if state.finished:
            raise ProcessFinished("the process is finished: what it took in is forgotten", process_id=process_id)
        return signal_id in state.remembered or signal_id in state.mailbox

    async def approve(
        self,
        process_id: str,
        gate: str,
        *,
        payload: Any = None,
        reason: str | None = None,
        actor: str | None = None,
        in_advance: bool = False,
    ) -> bytes:
        """Say yes to an open gate: by its key, or by its name (the first opened of several). The signal's id.

        ``payload``, an object, goes with the answer: the code gets it, as the type that its gate asks for. One that
        does not fit that type leaves the gate open. ``Refused`` for another payload, or one with a verdict of its own.

        Reads the state first, and answers by the gate's key. Raises ``UnknownProcess``, ``ProcessFinished``, and
        ``GateNotOpen``, also where the gate was answered already. ``in_advance`` sends it without a look: to a gate, or
        a process, that is still to come. A mailbox full of signals refuses it then, unless ``gate`` is an open gate's
        key.
        """
        return await self._answer(process_id, gate, _verdict(True, self._scrubbed(reason), payload), actor, in_advance)

    async def deny(
        self,
        process_id: str,
        gate: str,
        *,
        payload: Any = None,
        reason: str | None = None,
        actor: str | None = None,
        in_advance: bool = False,
    ) -> bytes:
        """Say no to an open gate; as ``approve``."""
        return await self._answer(process_id, gate, _verdict(False, self._scrubbed(reason), payload), actor, in_advance)

    async def _answer(self, process_id: str, gate: str, said: Any, actor: str | None, in_advance: bool) -> bytes:
        if not in_advance:
            from seekpoint.producers.durable.waits.gate_answers import gate_to_answer

            named_process_key(process_id)
            recoverer = self._port.recovery.blocking
            open_gate = await self._port.in_thread(lambda: gate_to_answer(recoverer, process_id, gate))
            assert open_gate is not None
            gate = open_gate.key
        return await self.signal(process_id, gate, said, actor=actor)

    async def cancel(self, process_id: str, reason: str | None = None, *, actor: str | None = None) -> bytes:
        """Ask a process to stop: its agent's next call, or what it waits for, raises ``Cancelled``; then it takes back
        what it owes, and is stopped. The request's id, once it is in the log."""
        return await self._tell(process_id, CancelRequested(self._scrubbed(reason)), actor)

    async def suspend(self, process_id: str, reason: str | None = None, *, actor: str | None = None) -> bytes:
        """Put a process on hold: nobody runs it before ``resume``; the request's id, once it is in the log.

        A worker stops a run under way at once, as a crash would. So does ``node.run``, within two seconds, and raises
        ``ProcessSuspended``.
        """
        body = SuspendRequested(self._scrubbed(reason))
        return await self._port.append_external(process_id, body, actor=actor)

    async def resume(self, process_id: str, reason: str | None = None, *, actor: str | None = None) -> bytes:
        """End the hold of a process, and let a budget that suspended it be asked again; the request's id."""
        return await self._port.append_external(process_id, ResumeRequested(self._scrubbed(reason)), actor=actor)

    async def redrive(
        self, process_id: str, reason: str | None = None, *, in_doubt: bool = False, effects: Collection[str] = (),
        actor: str | None = None, dry_run: bool = False,
    ) -> bytes | None:  # fmt: skip
        """Ask for another run of a process that failed, whatever its retries say, or that waits; the request's id.

        A worker makes the failed calls again, with its code of that moment; what succeeded stays. ``in_doubt``: steps
        and decisions in doubt begin anew as well, with all their attempts; else they are made with the attempts that
        they have left. A step or a decision that begins anew may be asked something else, such as a mended prompt.

        ``effects``: the keys of failed effects that are made again, with the same idempotency key. Each must have ended
        the last run. The failure of an at-most-once effect must prove that nothing was sent (``NotDone``, or an error
        that its policy or its class calls final, at the only call); of another one it must be known that nothing was
        done, as a person may have said. Else ``Refused``; the history is read for it. With ``dry_run`` nothing is sent.

        Raises ``UnknownProcess``, and ``Refused`` for a process whose run neither failed nor waits.
        """
        from seekpoint.producers.runs.failed_runs import run_to_redrive

        keys = [effects] if isinstance(effects, str) else list(dict.fromkeys(effects))
        state = (await self._port.recover(process_id)).state
        run_to_redrive(process_id, state)
        if keys:
            from seekpoint.producers.durable.failures.redriven_calls import check_effects

            await check_effects(
                self._port.recovery.entries(process_id, kinds=[ErrorRecorded.KIND]), process_id, state, keys
            )
        if dry_run:
            return None
        request = RedriveRequested(self._scrubbed(reason), in_doubt, dump(keys) if keys else None)
        return await self._port.append_external(process_id, request, actor=actor)

    async def verdict(
        self,
        process_id: str,
        key: str,
        outcome: str,
        *,
        output: Any = None,
        reason: str | None = None,
        actor: str | None = None,
        idempotency_key: str = "",
    ) -> bytes:
        """Say what became of an effect of a process: ``succeeded`` with its ``output``, ``failed`` with a ``reason``.

        Its owner settles the effect by it: at once if it waits, else when it comes to it again. ``idempotency_key``
        makes sure that it is the effect that is meant, after a rewind too. The verdict's id, once it is in the log.
        """
        text = dump(output, await self._limits(), True)
        body = EffectVerdict(
            key=key, outcome=outcome, output=text, reason=self._scrubbed(reason), idempotency_key=idempotency_key
        )  # fmt: skip
        return await self._tell(process_id, body, actor)

    async def revoke(
        self, process_id: str, key: str, reason: str | None = None, *, actor: str | None = None, dry_run: bool = False
    ) -> bytes | None:
        """Say that what a settled effect did was undone outside: its compensation is no longer owed.

        The effect reads ``revoked``; its record answers the code as before, and after a rewind to before it the code
        may make it anew, with a new idempotency key. The order of the log decides: a compensation that has begun ends.
        The entry's id, once it is in the log; None with ``dry_run``, which only checks. Reads the history.

        Raises ``UnknownProcess``, ``JournalGap``, and ``Refused`` for an effect that is not there, that has not
        succeeded, or of which nothing is left.
        """
        from seekpoint.producers.durable.effects.effect_history import effect_to_revoke

        entries = [one async for one in self._port.recovery.entries(process_id)]
        call = effect_to_revoke(entries, process_id, key, self._port.reader.limits)
        if dry_run:
            return None
        body = EffectRevoked(key, call.facts.get("idempotency_key") or "", self._scrubbed(reason))
        return await self._port.append_external(process_id, body, actor=actor)

    def _scrubbed(self, reason: str | None) -> str | None:
        return None if reason is None else self._port.settings.scrub(reason)


def _has(state: State, entry_id: bytes) -> bool:
    return entry_id in state.remembered or entry_id in state.mailbox


def _verdict(is_approved: bool, reason: str | None, payload: Any) -> dict[str, Any]:
    from seekpoint.producers.durable.waits.gate_answers import verdict_payload

    return verdict_payload(is_approved, reason, payload)
