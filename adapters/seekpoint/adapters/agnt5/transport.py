"""The SDK's ``ActivationTransport`` on a journal: each run of AGNT5 is a process, which one node owns at a time."""

from __future__ import annotations

import asyncio
import builtins
import json
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, replace
from hashlib import sha256
from secrets import token_bytes
from typing import Any, Literal

from agnt5.activation import (
    ActivationCompletionReceipt,
    ActivationDecision,
    ActivationDecisionKind,
    ActivationEvidence,
    ActivationFailureReceipt,
    ActivationKind,
    ActivationRecoveryPolicy,
    ActivationUsage,
    BeginActivationRequest,
)
from agnt5.exceptions import ActivationError, ActivationErrorCode, DurableSleepSuspension

from seekpoint import Node
from seekpoint.adapters.agnt5 import activation_rules as rules
from seekpoint.adapters.agnt5.activation_records import Activation, Lease, Status, lease_of
from seekpoint.adapters.agnt5.digests import activation_id as id_of
from seekpoint.adapters.agnt5.error_codes import activation_errors
from seekpoint.adapters.agnt5.run_journal import CANCELLED, RunJournal, process_id_of
from seekpoint.errors import HandleClosed, HandleLost

__all__ = ["SeekpointActivations"]

Code = ActivationErrorCode
_GOES_ON = (ActivationDecisionKind.EXECUTE, ActivationDecisionKind.REPLAY)
_REFUSED = {
    ActivationDecisionKind.WAIT: Code.CONTENDED, ActivationDecisionKind.CONFLICT: Code.NON_DETERMINISTIC_REPLAY,
    ActivationDecisionKind.CANCELLED: Code.CANCELLED, ActivationDecisionKind.UNKNOWN_OUTCOME: Code.UNKNOWN_OUTCOME,
}  # fmt: skip
"""The names of the decisions in the SDK's errors."""
_FENCE_BYTES = 16
_INLINE_BYTES = 64 * 1024
_ENDED = frozenset({Status.COMPLETED})
_FAILED = frozenset({Status.FAILED, Status.RETRY_READY, Status.UNKNOWN_OUTCOME})


class SeekpointActivations:
    """An ``ActivationTransport`` of the SDK: ``ActivationClient(SeekpointActivations(node))``.

    The first call for a run opens its process, ``PREFIX/PROJECT/RUN``, and this node owns it from then on until
    ``release`` or ``close``. ``wait_s`` and ``take_over`` are those of ``Node.open``: what to do while the run's owner
    looks alive. Outputs, error data and evidence of more than ``inline_bytes`` become attachments. ``retry_failed``
    makes activations again that failed under an earlier lease. ``errors`` are classes of exceptions of your own: an
    activation that failed with one of them fails with it again in later runs of the code; built-in ones need no entry.
    ``policies`` are recovery policies to use, by the kind of an activation, instead of those of the SDK: its agents ask
    for UNKNOWN_OUTCOME for each model call.

    Every call raises the SDK's ``ActivationError``. An error of Seekpoint is its cause.
    """

    def __init__(
        self,
        node: Node,
        *,
        prefix: str = "agnt5",
        take_over: bool = False,
        wait_s: float = 0.0,
        inline_bytes: int = _INLINE_BYTES,
        retry_failed: bool = False,
        errors: Collection[type[Exception]] = (),
        policies: Mapping[ActivationKind, ActivationRecoveryPolicy] | None = None,
    ) -> None:
        self.node = node
        self.prefix = prefix
        self._take_over = take_over
        self._wait_s = wait_s
        self._inline_bytes = inline_bytes
        self._retry_failed = retry_failed
        self._policies = dict(policies or {})
        self._repeated = {kind.name for kind, policy in self._policies.items() if policy in rules.REPEATS}
        """The kinds whose policy is one that repeats: the SDK says "retryable" by the one that it knows."""
        self._errors = {one.__name__: one for one in errors}
        self._runs: dict[str, RunJournal] = {}
        self._opening: dict[str, asyncio.Lock] = {}
        self._lost: dict[str, set[Lease]] = {}
        """The leases of dispatches whose run another owner has taken over: they may not take it back."""

    async def __aenter__(self) -> SeekpointActivations:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # --- the SDK's protocol
    async def begin(self, request: BeginActivationRequest) -> ActivationDecision:
        """Admit an attempt, or answer what is known of the activation."""
        found = id_of(
            request.project_id, request.run_id, request.parent_activation_id, int(request.kind), request.stable_key
        )
        rules.check_request(request, found)
        policy = self._policies.get(request.kind, request.recovery_policy)
        with activation_errors(found):
            lease = lease_of(request)
            run = await self._owned(request.project_id, request.run_id, lease)
            if not run.takes(lease):
                raise rules.refusal(Code.STALE_AUTHORITY, "a newer dispatch executes the run", found)
            if run.stopped is not None:
                raise run.stopped
            owner = rules.OwnerFacts(
                run.epoch, lease, token_bytes(_FENCE_BYTES).hex(), run.cancelled, retry_failed=self._retry_failed
            )
            begun = rules.begin(run.activation(found), replace(request, recovery_policy=policy), owner)
            record = begun.record
            if begun.is_new:
                cancelled = {CANCELLED: owner.cancelled} if record.status is Status.CANCELLED else None
                record = await run.begin(found, record, cancelled)
            if begun.kind is ActivationDecisionKind.EXECUTE:
                run.watch(asyncio.current_task())
            if begun.kind is ActivationDecisionKind.UNKNOWN_OUTCOME and (failure := await self._failure(run, record)):
                raise failure
            if request.kind is ActivationKind.TOOL and begun.kind not in _GOES_ON:
                run.stopped = rules.refusal(_REFUSED[begun.kind], begun.message, found, record.attempt)
            return await self._decision(found, begun, record, run)

    async def complete(
        self,
        *,
        project_id: str,
        run_id: str,
        activation_id: str,
        attempt: int,
        fence_token: bytes,
        output: bytes,
        output_digest: bytes,
        usage: ActivationUsage,
        evidence: tuple[ActivationEvidence, ...],
    ) -> ActivationCompletionReceipt:
        """End an attempt with its output."""
        if sha256(output).digest() != output_digest:
            raise rules.refusal(Code.INVALID_ARGUMENT, "the digest is not the output's", activation_id, attempt)
        async with self._ending(project_id, run_id, activation_id, attempt) as run:

            def held() -> Activation:
                known = run.activation(activation_id)
                return rules.check_holder(known, activation_id, attempt, fence_token, ends=_ENDED)

            held()  # before anything is attached
            payload = await run.stored(output, self._inline_bytes)
            found = await self._evidence(run, evidence, activation_id)
            known = held()
            if rules.ended_before(known, activation_id, known.output_digest == output_digest.hex()):
                await run.process.confirm()
                return ActivationCompletionReceipt(activation_id, attempt, known.number, replayed=True)
            record = replace(
                known, status=Status.COMPLETED, input=None, output=payload, output_digest=output_digest.hex(),
                usage=_usage(usage), evidence=found,
            )  # fmt: skip
            record = await run.write(activation_id, record)
            return ActivationCompletionReceipt(activation_id, attempt, record.number)

    async def fail(
        self,
        *,
        project_id: str,
        run_id: str,
        activation_id: str,
        attempt: int,
        fence_token: bytes,
        error_code: str,
        error_data: bytes,
        retryable: bool,
        external_outcome_certainty: str,
        evidence: tuple[ActivationEvidence, ...],
        latency_ms: int = 0,
    ) -> ActivationFailureReceipt:
        """End an attempt with its failure."""
        if external_outcome_certainty not in rules.CERTAINTIES:
            message = f"external_outcome_certainty is one of {', '.join(rules.CERTAINTIES)}"
            raise rules.refusal(Code.INVALID_ARGUMENT, message, activation_id, attempt)
        async with self._ending(project_id, run_id, activation_id, attempt) as run:

            def held() -> Activation:
                known = run.activation(activation_id)
                return rules.check_holder(known, activation_id, attempt, fence_token, ends=_FAILED)

            held()  # before anything is attached
            data = await run.stored(error_data, self._inline_bytes)
            found = await self._evidence(run, evidence, activation_id)
            known = held()
            if rules.ended_before(known, activation_id, (known.error_code, known.error_data) == (error_code, data)):
                await run.process.confirm()
                return ActivationFailureReceipt(activation_id, attempt, known.number, str(known.status), replayed=True)
            retryable = retryable or known.kind in self._repeated
            record = replace(
                known, status=rules.failed_status(known, retryable, external_outcome_certainty), input=None,
                error_code=error_code, error_data=data, retryable=retryable,
                external_outcome_certainty=external_outcome_certainty, evidence=found, latency_ms=latency_ms,
            )  # fmt: skip
            record = await run.write(activation_id, record)
            return ActivationFailureReceipt(activation_id, attempt, record.number, str(record.status))

    # --- what the SDK leaves to the program that dispatches runs
    async def suspend(self, project_id: str, run_id: str, suspension: DurableSleepSuspension) -> int:
        """Record that a workflow sleeps; return when it is to go on, in milliseconds since 1970.

        A sleep that was recorded before ends when it was to end then.
        """
        found, attempt = suspension.activation_id, suspension.attempt
        with activation_errors(found, attempt):
            run = await self._owned(project_id, run_id)
            ends = frozenset({Status.SUSPENDED})
            known = rules.check_holder(run.activation(found), found, attempt, suspension.fence_token, ends=ends)
            if known.status is Status.SUSPENDED:
                await run.process.confirm()
                return known.ready_at_ms
            ready = known.ready_at_ms or self.node.clock.now_us() // 1_000 + suspension.delay_ms
            record = replace(
                known, status=Status.SUSPENDED, timer_key=suspension.timer_key, ready_at_ms=ready, input=None
            )  # fmt: skip
            await run.write(found, record)
            return ready

    async def pause(self, project_id: str, run_id: str) -> None:
        """Record that a workflow has paused: what was under way around the pause begins again when it goes on."""
        with activation_errors():
            run = await self._owned(project_id, run_id)
            for found, known in run.activations().items():
                if known.status is Status.ACTIVE and run.is_newest(known):
                    await run.write(found, replace(known, status=Status.RETRY_READY, input=None, reason="paused"))

    async def wake(self, project_id: str, run_id: str, activation_id: str) -> None:
        """Complete the timer of a sleep that is over. Raises ILLEGAL_TRANSITION before it is."""
        with activation_errors(activation_id):
            run = await self.run(project_id, run_id)
            known = run.activation(activation_id)
            if known is None or known.status is not Status.SUSPENDED:
                raise rules.refusal(Code.ILLEGAL_TRANSITION, "it does not sleep", activation_id)
            if self.node.clock.now_us() // 1_000 < known.ready_at_ms:
                raise rules.refusal(Code.ILLEGAL_TRANSITION, "its time has not come", activation_id, known.attempt)
            output = b"null"
            record = replace(
                known, status=Status.COMPLETED, output="null", output_digest=sha256(output).hexdigest()
            )  # fmt: skip
            await run.write(activation_id, record)

    async def settle(
        self, project_id: str, run_id: str, activation_id: str, outcome: Literal["completed", "retry"],
        *, output: bytes = b"null", reason: str = "",
    ) -> None:  # fmt: skip
        """Say what became of an activation whose outcome is unknown, or that failed.

        ``completed``: it was done, with ``output`` as the SDK encodes it (JSON). ``retry``: it was not, so the next
        run of the code makes it again. Raises ILLEGAL_TRANSITION for another activation.
        """
        with activation_errors(activation_id):
            run = await self.run(project_id, run_id)
            known = run.activation(activation_id)
            if known is None or known.status not in (Status.UNKNOWN_OUTCOME, Status.FAILED):
                raise rules.refusal(Code.ILLEGAL_TRANSITION, "its outcome is not open", activation_id)
            if outcome == "completed":
                payload = await run.stored(output, self._inline_bytes)
                digest = sha256(output).hexdigest()
                record = replace(known, status=Status.COMPLETED, output=payload, output_digest=digest, reason=reason)
            else:
                record = replace(known, status=Status.RETRY_READY, error_code="", error_data=None, reason=reason)
            await run.write(activation_id, record)

    # --- runs
    async def run(self, project_id: str, run_id: str, *, is_new: bool = True) -> RunJournal:
        """Return the run's process; open it if this transport does not own it. Raises what ``Node.open`` raises.

        A caller that has used the run before says ``is_new=False``: it is refused once another owner has the run.
        """
        return await self._owned(project_id, run_id, is_new=is_new)

    async def _owned(
        self, project_id: str, run_id: str, lease: Lease | None = None, *, is_new: bool = False
    ) -> RunJournal:  # fmt: skip
        """Return the run's process. A dispatch that has lost it does not open it again, although its code goes on."""
        name = process_id_of(self.prefix, project_id, run_id)
        async with self._opening.setdefault(name, asyncio.Lock()):
            found = self._runs.get(name)
            if found is not None and found.process.is_open:
                return found
            take_over = self._take_over and found is None  # nobody is to be driven out in the middle of a dispatch
            if found is not None:
                try:
                    await self._drop(name)  # raises Fenced, once: the dispatch must learn that it has lost the run
                except HandleLost:
                    self._lost.setdefault(name, set()).update(found.leases, () if lease is None else (lease,))
                    raise
            lost = self._lost.get(name)
            if not is_new and lost is not None and (lease is None or lease in lost):
                raise rules.refusal(Code.STALE_AUTHORITY, "another owner has taken the run over from this dispatch")
            try:
                found = await RunJournal.opened(self.node, name, take_over=take_over, wait_s=self._wait_s)
            except HandleClosed as exc:  # the node is closed: nothing was written
                raise rules.refusal(Code.DURABILITY_UNAVAILABLE, str(exc)) from exc
            found.retire(self._lost.pop(name, set()))
            self._runs[name] = found
            return found

    async def release(self, project_id: str, run_id: str) -> None:
        """Give a run up, so that another node can execute it at once."""
        name = process_id_of(self.prefix, project_id, run_id)
        self._lost.pop(name, None)
        if name in self._runs:
            await self._given_up(name)

    async def close(self) -> None:
        """Give all runs up."""
        for name in list(self._runs):
            await self._given_up(name)

    async def _given_up(self, name: str) -> None:
        self._opening.pop(name, None)
        with activation_errors(), suppress(HandleLost):  # a run that is lost: each call was confirmed, or refused
            await self._drop(name)

    async def _drop(self, name: str) -> None:
        await self._runs.pop(name).close()

    # --- parts
    async def _decision(
        self, found: str, begun: rules.Begun, record: Activation, run: RunJournal
    ) -> ActivationDecision:  # fmt: skip
        is_execute = begun.kind is ActivationDecisionKind.EXECUTE
        is_replay = begun.kind is ActivationDecisionKind.REPLAY
        return ActivationDecision(
            kind=begun.kind, activation_id=found, attempt=record.attempt, accepted_journal_offset=record.number,
            fence_token=bytes.fromhex(record.fence_token) if is_execute else b"",
            replay_output=await run.loaded(record.output) if is_replay else None, message=begun.message,
        )  # fmt: skip

    async def _failure(self, run: RunJournal, record: Activation) -> Exception | None:
        """Return the exception with which an activation failed, if its class is known here. A model sees its text."""
        if not rules.has_failed(record):
            return None
        try:
            data = json.loads(await run.loaded(record.error_data))
            name, message = str(data["type"]), str(data["message"])
        except (ValueError, TypeError, KeyError):
            return None
        is_tool = record.kind == ActivationKind.TOOL.name
        if record.status is not Status.FAILED and not is_tool:
            return None
        kind = self._errors.get(name, getattr(builtins, name, None))
        if isinstance(kind, type) and issubclass(kind, Exception):
            with suppress(TypeError):  # it wants other arguments
                error = kind(message)
                if not is_tool or str(error) == message:
                    return error
        return ToolFailure(message) if is_tool else None

    @asynccontextmanager
    async def _ending(
        self, project_id: str, run_id: str, activation_id: str, attempt: int
    ) -> AsyncIterator[RunJournal]:  # fmt: skip
        """Yield the run in which an attempt ends. If a tool's end is refused, its dispatch may not go on."""
        with activation_errors(activation_id, attempt):
            run = await self._owned(project_id, run_id)
        try:
            with activation_errors(activation_id, attempt):
                yield run
        except ActivationError as exc:
            known = run.activation(activation_id)
            if known is not None and known.kind == ActivationKind.TOOL.name and attempt == known.attempt:
                run.stopped = exc
            raise

    async def _evidence(
        self, run: RunJournal, evidence: tuple[ActivationEvidence, ...], activation_id: str
    ) -> tuple[Mapping[str, Any], ...]:
        for one in evidence:
            if sha256(one.payload).digest() != one.sha256:
                message = f"the digest of the evidence {one.evidence_type} is not its payload's"
                raise rules.refusal(Code.INVALID_ARGUMENT, message, activation_id)
        return tuple([
            {"type": one.evidence_type, "payload": await run.stored(one.payload, self._inline_bytes),
             "sha256": one.sha256.hex()}
            for one in evidence
        ])  # fmt: skip


class ToolFailure(Exception):
    """A tool failed so before, with an exception of a class that is not known here."""


def _usage(usage: ActivationUsage) -> dict[str, Any] | None:
    return {name: value for name, value in asdict(usage).items() if value} or None
