"""One intent at one dispatcher: it is claimed and called, and its outcome is reported to the owner."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from seekpoint.producers.dispatch.verdict_delivery import deliver, fits
from seekpoint.producers.durable.effects.business_keys import SharedValues, shared_name
from seekpoint.producers.durable.effects.connectors import Connector, NotDone, Reconciled, accepted_options
from seekpoint.producers.durable.effects.effect_resolution import (
    Answer,
    Effect,
    EffectStatus,
    End,
    NextStep,
    Situation,
    decide,
    is_known_undone,
)
from seekpoint.producers.durable.effects.verdict_matching import DISPATCHER
from seekpoint.producers.durable.failures.recorded_failures import failure_text, mark_undone
from seekpoint.producers.durable.steps.annotations import rebuilt_arguments, result_type
from seekpoint.producers.durable.steps.body_runner import run_body
from seekpoint.producers.durable.steps.retries import Retry
from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.error_texts import error_line, message_of
from seekpoint.schemas.errors import EffectDuplicate, EffectFailed, LimitExceeded, Retryable, UnserializableValue
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.values.json_values import dump, load

if TYPE_CHECKING:
    from seekpoint.producers.node_runtime import NodeRuntime

logger = logging.getLogger("seekpoint.producers")

_FRESH_S = 1.0
"""A dispatcher that read its claim longer ago than this reads it again before the call: it may have slept."""
_AGAIN_S = 0.5
_REASON_CHARACTERS_MAX = 500


class Intent(NamedTuple):
    """An intent to call, and its place in the log."""

    process_id: str
    partition: int
    offset: int
    body: b.EffectIntended

    @property
    def claim_name(self) -> str:
        """The shared value that names its dispatcher. Each attempt of the owner has a value of its own."""
        return shared_name("effect-claim", self.process_id, self.body.key, str(self.body.attempt))


class DispatchClaim(FrozenStruct, frozen=True):
    """A dispatcher's claim on an intent: ``beat`` rises during the work, ``tries`` counts the claims so far."""

    by: str
    tries: int = 1
    beat: int = 0

    @classmethod
    def of(cls, value: Any) -> DispatchClaim | None:
        """Return the claim that a shared value holds; None for any other value."""
        return cls(str(value["by"]), int(value["tries"]), int(value["beat"])) if isinstance(value, dict) else None


class Dispatch:
    """The call of one intent, and the report to its owner. ``claim`` it first."""

    def __init__(
        self,
        runtime: NodeRuntime,
        values: SharedValues,
        connector: Connector,
        intent: Intent,
        who: str,
        takeover_s: float,
    ) -> None:
        self._runtime = runtime
        self.clock = runtime.clock
        self._values = values
        self._connector = connector
        self._intent = intent
        self._who = who
        self._takeover_s = takeover_s
        self._seen_s = 0.0
        self._at = Situation(status=EffectStatus.PENDING)
        self._error: Exception | None = None
        self._output: Any = None
        self._found: Reconciled | None = None

    # --- the claim
    async def claim(self, version: int, before: DispatchClaim | None) -> bool:
        """Claim the intent if its claim is at ``version``; return whether it is ours. The first one in the log wins."""
        mine = DispatchClaim(self._who, 1 if before is None else before.tries + 1)
        await self._write(mine, version)
        self._seen_s = self.clock.monotonic()  # taken before the read, which is at least as new
        _, now = await self.read()
        self._at = Situation(
            status=EffectStatus.PENDING,
            semantics=Effect(self._intent.body.semantics),
            ours=before is None,
            attempts=mine.tries,
            attempts_max=self._connector.max_attempts,
            enforces_key=self._connector.enforces_key,
            can_reconcile=self._connector.reconcile is not None,
            is_compensation=self._intent.body.compensates is not None,
        )
        return now is not None and now.by == self._who

    async def read(self) -> tuple[int, DispatchClaim | None]:
        """Return the claim as of now, and its version."""
        version, value = await self._values.read(self._intent.claim_name)
        return version, DispatchClaim.of(value)

    async def _write(self, claim: DispatchClaim, version: int) -> None:
        value = {"by": claim.by, "tries": claim.tries, "beat": claim.beat}
        await self._values.write(self._intent.claim_name, value, version)

    async def is_due(self) -> bool:
        """Return whether the owner still waits for this attempt: its intent was applied, and has no outcome yet."""
        body = self._intent.body
        state = (await self._runtime.recover(self._intent.process_id, missing_ok=True)).state
        call = state.calls.get(body.key)
        if state.finished or call is None or call.status != EffectStatus.PENDING or call.attempt != body.attempt:
            return False
        return call.facts.get("idempotency_key") == body.idempotency_key

    @asynccontextmanager
    async def _kept(self) -> AsyncIterator[None]:
        """While inside, renew the claim, so that no other dispatcher takes the intent over."""
        beats = asyncio.create_task(self._beat(), name="seekpoint-dispatch-beat")
        try:
            yield
        finally:
            beats.cancel()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._takeover_s / 3)
            try:
                version, claim = await self.read()
                if claim is None or claim.by != self._who:
                    return  # taken over: the call under way ends as it ends
                await self._write(DispatchClaim(claim.by, claim.tries, claim.beat + 1), version)
            except Retryable as exc:
                logger.warning("the claim of %s does not move: %s", self._intent.body.idempotency_key, exc)

    # --- the effect
    async def run(self) -> bool:
        """Work until the outcome is reported. Return False if, before the call, the claim is lost or nobody waits."""
        async with self._kept():
            while True:
                match decide(self._at):
                    case NextStep.INTEND:
                        await self._intend()
                    case NextStep.CALL:
                        if not await self._may_still_call():
                            return False
                        await self._call()
                    case NextStep.RECONCILE:
                        await self._ask()
                    case move:
                        verdict, actor = self._verdict(move), f"{DISPATCHER}{self._who}"
                        await deliver(self._runtime, self._intent.process_id, verdict, actor=actor)
                        return True

    async def _intend(self) -> None:
        """Begin another attempt, which is allowed: the claim is its intent."""
        if self._error is not None:
            await self.clock.sleep(self._retry.wait_s(self._at.attempts, random.random()))
        self._error = self._found = None
        self._at = replace(self._at, ours=True, called=False, end=None, answer=None, retries_left=False)

    @property
    def _retry(self) -> Retry:
        return Retry(attempts=self._connector.max_attempts)

    async def _may_still_call(self) -> bool:
        """Return whether, right before the call, the claim is still ours and the owner still waits."""
        while self.clock.monotonic() - self._seen_s > _FRESH_S:
            began = self.clock.monotonic()
            try:
                _, claim = await self.read()
                if claim is None or claim.by != self._who or not await self.is_due():
                    return False
                self._seen_s = began
            except Retryable as exc:
                logger.warning("%s waits: %s", self._intent.body.idempotency_key, exc)
                await self.clock.sleep(_AGAIN_S)
        return True

    async def _call(self) -> None:
        assert self._connector.dispatch is not None
        end = End.RETURNED
        try:
            self._output = await self._run(self._connector.dispatch)
        except TimeoutError as exc:
            end, self._error = End.TIMED_OUT, exc
        except Exception as exc:
            final = isinstance(exc, NotDone) or not self._retry.is_retryable(exc)
            end, self._error = End.REFUSED if final else End.RAISED, exc
        tries = self._at.attempts
        again = self._error is not None and self._retry.allows(tries, self._error)
        self._at = replace(self._at, called=True, end=end, retries_left=again, attempts=tries + 1 if again else tries)

    async def _ask(self) -> None:
        assert self._connector.reconcile is not None
        try:
            found = await self._run(self._connector.reconcile)
            self._found = found if isinstance(found, Reconciled) else Reconciled(Answer(found))
            self._at = replace(self._at, answer=self._found.answer)
        except Exception as exc:
            reason = error_line(exc, self._runtime.settings)
            logger.warning("the reconciler of %s gave no answer: %s", self._intent.body.idempotency_key, reason)
            self._at = replace(self._at, can_reconcile=False)

    async def _run(self, call: Callable[..., Any]) -> Any:
        body = self._intent.body
        asked = load(body.arguments)
        arguments, options = (asked["arguments"], asked["options"]) if isinstance(asked, dict) else (asked, {})
        arguments, options = rebuilt_arguments(call, arguments, options, body.key)
        given = accepted_options(call, idempotency_key=body.idempotency_key, business_key=body.business_key)
        return await run_body(self._runtime, call, arguments, {**given, **options}, None, body.key)

    # --- the verdict
    def _verdict(self, move: NextStep) -> b.EffectVerdict:
        if move is NextStep.TAKE_CALL and self._at.end is End.RETURNED:
            return self._succeeded(self._output, None)
        if move is NextStep.TAKE_CALL:
            return self._failed(self._error, "call")
        if move is NextStep.TAKE_ANSWER and self._found is not None:
            return self._answered(self._found)
        why = "" if self._error is None else error_line(self._error, self._runtime.settings)
        return self._outcome("stuck" if move is NextStep.STUCK else "unknown", "null", why or move.value)

    def _answered(self, found: Reconciled) -> b.EffectVerdict:
        if found.answer is Answer.SUCCEEDED:
            return self._succeeded(found.output, found.reason)
        reason = found.reason or f"the reconciler found: {found.answer}"
        if found.answer is Answer.STUCK:
            return self._outcome("stuck", "null", reason)
        kind = EffectDuplicate if found.answer is Answer.DUPLICATE else EffectFailed
        return self._failed(kind(reason, process_id=self._intent.process_id, key=self._intent.body.key), "reconciler")

    def _failed(self, error: Exception | None, by: str) -> b.EffectVerdict:
        assert error is not None
        failure = failure_text(error, self._runtime.settings)
        if is_known_undone(by, self._at.end, self._at.answer):
            is_first = self._at.end is End.REFUSED and self._at.attempts == 1 and self._intent.body.attempt == 1
            failure = mark_undone(failure, is_unsent=by == "call" and is_first)
        return self._outcome("failed", "null", message_of(error, self._runtime.settings), failure)

    def _outcome(
        self, outcome: str, output: b.Json, reason: str | None, error: b.Json | None = None
    ) -> b.EffectVerdict:
        body = self._intent.body
        return b.EffectVerdict(
            key=body.key, outcome=outcome, output=output, error=error,
            reason=None if reason is None else self._runtime.settings.excerpt(str(reason), _REASON_CHARACTERS_MAX),
            idempotency_key=body.idempotency_key,
        )  # fmt: skip

    def _succeeded(self, output: Any, reason: str | None) -> b.EffectVerdict:
        """Report a success. If the output cannot be journaled, report its type only: the call is done all the same."""
        limits = self._runtime.reader.limits
        try:
            dispatch = self._connector.dispatch
            has_models = dispatch is not None and result_type(dispatch) is not None  # the owner rebuilds them
            verdict = self._outcome("succeeded", dump(output, limits, has_models), reason)
            if fits(self._intent.process_id, verdict, limits):
                return verdict
            why = "larger than an entry or a mailbox may be"
        except (UnserializableValue, LimitExceeded) as exc:
            why = error_line(exc, self._runtime.settings)
        logger.warning("the output of %s is left out: %s", self._intent.body.idempotency_key, why)
        return self._outcome("succeeded", dump({"left_out": type(output).__name__}), reason)
