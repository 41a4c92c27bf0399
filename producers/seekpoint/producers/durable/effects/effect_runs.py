"""Run one effect: take the steps that ``effect_resolution.decide`` returns, until its outcome is known or in doubt.

    intent, acknowledged and confirmed -> check the ownership -> call -> outcome, acknowledged

If the owner dies in between, the next owner finds the pending intent.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from seekpoint.producers.durable.budgets.budget_checks import admit
from seekpoint.producers.durable.effects.compensation_names import compensation_name
from seekpoint.producers.durable.effects.connectors import NotDone, Reconciled, accepted_options
from seekpoint.producers.durable.effects.effect_facts import EffectFacts, EffectRequest
from seekpoint.producers.durable.effects.effect_resolution import Answer, Effect, EffectStatus, End, NextStep, decide
from seekpoint.producers.durable.effects.real_effects import check_effects_are_real, check_fork_may
from seekpoint.producers.durable.failures.failed_calls import tagged
from seekpoint.producers.durable.failures.recorded_failures import (
    failure_text,
    failure_to_raise,
    is_failure,
    is_undone,
    mark_undone,
    recorded_failure,
    recorded_line,
    scrubbed_failure,
)
from seekpoint.producers.durable.steps.body_runner import run_body
from seekpoint.producers.durable.steps.retries import Retry
from seekpoint.producers.durable.steps.step_calls import journaled, rebuilt
from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.error_texts import error_line
from seekpoint.schemas.errors import (
    BudgetExceeded,
    ConfirmTimeout,
    EffectDuplicate,
    EffectFailed,
    EffectUnknown,
    HandleLost,
    IllegalCall,
    InvalidValue,
    LimitExceeded,
    UnserializableValue,
)
from seekpoint.schemas.values.json_values import dump, load

if TYPE_CHECKING:
    from seekpoint.producers.durable.durable_process import DurableProcess
    from seekpoint.producers.durable.effects.business_keys import KeyHolder
    from seekpoint.producers.durable.replay.history_matcher import CallPlace

logger = logging.getLogger("seekpoint.producers")

_NOT_BEGUN = (BudgetExceeded, IllegalCall, LimitExceeded)
"""Raised before an intent is sent: the log does not have it."""
_WITHOUT_INTENT = frozenset({EffectStatus.NEW, EffectStatus.REOPENED})
"""The statuses of effects that do not hold their business key: before the first intent, and after a known failure."""
_WITHOUT_CALL = frozenset({NextStep.TAKE_EXTERNAL, NextStep.UNKNOWN, NextStep.STUCK})
"""Steps that change nothing outside."""
_CONFIRMED_FOR_S = 1.0
"""An owner whose last confirmation is older reads the log again before it calls: it may have been suspended."""
_RETRY_S = 0.2


class EffectRun:
    """One ``process.effect``, from its place in the program to its outcome."""

    def __init__(self, process: DurableProcess, place: CallPlace, request: EffectRequest) -> None:
        self._process = process
        self._place = place
        self._request = request
        self._effect = EffectFacts(process, place, request)
        self._confirmed_s = float("-inf")
        self._began_s = 0.0
        self._has_run = False
        self._actions: Mapping[NextStep, Callable[[], Awaitable[None]]] = {
            NextStep.INTEND: self._intend,
            NextStep.CALL: self._call,
            NextStep.WAIT: self._await_dispatcher,
            NextStep.RECONCILE: self._reconcile,
            NextStep.TAKE_CALL: self._take_call,
            NextStep.TAKE_EXTERNAL: self._take_external,
            NextStep.TAKE_ANSWER: self._take_answer,
            NextStep.UNKNOWN: self._give_up,
            NextStep.STUCK: self._give_up,
        }

    async def run(self) -> Any:
        """Return the effect's output, or raise its failure.

        Raises ``EffectUnknown`` if the outcome is in doubt; ``EffectDuplicate``, ``EffectFailed``,
        ``UnknownConnector``; ``Fenced`` and ``AppendTimeout`` as every call of a process.
        """
        if self._effect.is_in_doubt:
            await self._process.effects.read_log()  # a former owner, a dispatcher or a person may know the outcome
        while (step := decide(self._effect.situation())) is not NextStep.RECORDED:
            if step not in _WITHOUT_CALL:
                check_effects_are_real(self._process.settings, process_id=self._process.process_id, key=self._place.key)
            await self._actions[step]()
        return self._recorded()

    def _recorded(self) -> Any:
        """Return or raise the recorded outcome: the same in the first run and in every later one."""
        record, process, error = self._effect.record, self._process, self._effect.error
        assert record is not None
        process.matcher.ended(self._place)
        if self._effect.is_compensated:
            raise EffectFailed(
                "the effect was compensated: its process has failed", process_id=process.process_id,
                key=self._place.key, hint="do it anew as another process: fork this one from before the effect",
            )  # fmt: skip
        if self._request.compensate is not None and record.status == EffectStatus.SUCCEEDED:
            process.effects.compensations[self._place.key] = self._request.compensate
        if record.error is None:
            text, kind = record.output or "null", self._effect.output_type
            return load(text) if kind is None else rebuilt(text, kind, process, self._place.key)
        key, seq = self._place.key, process.written.entry_seq(record)
        if error is None:
            again = recorded_failure(record.error, process_id=process.process_id, key=key, seq=seq)
            raise tagged(again, key, self._place.scope, recorded=record.error)
        raise tagged(failure_to_raise(error, record.error, key), key, self._place.scope)

    # --- the intent
    async def _intend(self) -> None:
        effect, request, process = self._effect, self._request, self._process
        _ = effect.call  # raises before anything is written
        if request.compensates is None and effect.semantics is not Effect.OBSERVE_ONLY:
            check_fork_may(process, "effect", self._place.key)
            if effect.record is None and process.matcher.holds(self._place):
                from seekpoint.producers.durable.effects.held_effects import hold

                await hold(process, self._place, request.digest, self._estimated)
        if effect.error is not None:
            await process.clock.sleep(request.retry.wait_s(effect.attempt, random.random()))
        holder = await self._other_key_holder()
        try:
            if request.compensates is None and holder is None:  # a compensation is made whatever it costs
                await admit(process, self._place, self._estimated)
            await process.append(self._intended(holder))
        except _NOT_BEGUN:
            if effect.status in _WITHOUT_INTENT:
                await self._release_key()
            raise
        effect.begin_attempt()
        if holder is None:
            await self._confirm()
        else:
            await self._settle("failed", by="call", error=self._failure(self._duplicate(holder)))

    def _intended(self, holder: KeyHolder | None) -> b.EffectIntended:
        effect, request = self._effect, self._request
        return b.EffectIntended(
            key=self._place.key, position=self._place.position, name=request.name, digest=request.digest,
            semantics=effect.semantics, connector=None if holder else request.connector,
            business_key=request.business_key, idempotency_key=effect.idempotency_key,
            arguments=request.arguments_json, attempt=effect.attempt + 1, compensates=request.compensates,
            irreversible=request.irreversible, started_at_us=self._process.clock.now_us(),
            estimate=None if request.estimate is None else dump(request.estimate),
        )  # fmt: skip

    @property
    def _estimated(self) -> dict[str, Any]:
        count = {"irreversible_effects": 1} if self._request.irreversible else {}
        return {**count, **(self._request.estimate or {})}

    async def _confirm(self) -> None:
        """Wait until the intent was seen applied. While Kafka is silent, wait as an append does."""
        clock = self._process.clock
        give_up_s = clock.monotonic() + self._retry_for_s
        while True:
            began_s = clock.monotonic()
            try:
                await self._process.confirm()
                self._confirmed_s = began_s
                return
            except ConfirmTimeout:
                if clock.monotonic() > give_up_s:
                    raise

    @property
    def _retry_for_s(self) -> float:
        settings = self._process.settings
        return settings.append_timeout_s + settings.heal_timeout_s

    async def _other_key_holder(self) -> KeyHolder | None:
        """Return the other holder of the business key, if any. Else acquire the key before the first intent."""
        if self._effect.business_key is None or self._effect.status not in _WITHOUT_INTENT:
            return None
        return await self._process.effects.business_keys.acquire(*self._effect.business_key, self._effect.key_holder)

    def _duplicate(self, holder: KeyHolder) -> EffectDuplicate:
        return EffectDuplicate(
            "the business key is another effect's", process_id=self._process.process_id, key=self._place.key,
            connector=self._request.connector, business_key=self._request.business_key,
            holder=holder.process_id, holder_key=holder.key,
        )  # fmt: skip

    # --- the call
    async def _call(self) -> None:
        effect, call = self._effect, self._effect.call
        await self._check_owner()
        effect.called, self._began_s = True, self._process.clock.monotonic()
        try:
            effect.output = await self._invoke(call)
            effect.end = End.RETURNED
        except TimeoutError as exc:
            effect.end, effect.error = End.TIMED_OUT, exc
        except Exception as exc:
            if self._request.compensates is None and not is_failure(exc):
                raise  # of another call inside this one: the effect stays in doubt, as a step would
            effect.end, effect.error = End.REFUSED if _is_final(exc, self._request.retry) else End.RAISED, exc

    async def _check_owner(self) -> None:
        """Check immediately before the call that no other owner is known, by a recent read of the log."""
        clock = self._process.clock
        give_up_s = clock.monotonic() + self._retry_for_s
        while (began_s := clock.monotonic()) - self._confirmed_s > _CONFIRMED_FOR_S:
            if await self._process.effects.read_log():
                self._confirmed_s = began_s
            elif began_s > give_up_s:
                raise ConfirmTimeout(
                    "nobody can tell whether the process is still this node's", process_id=self._process.process_id
                )
            else:
                await clock.sleep(_RETRY_S)
        self._process.session.check()

    async def _invoke(self, call: Callable[..., Any]) -> Any:
        """Call ``call`` with the effect's arguments and the further options that it accepts."""
        effect, request = self._effect, self._request
        keys = {"idempotency_key": effect.idempotency_key, "business_key": effect.intent.get("business_key")}
        options = {**accepted_options(call, **request.extra, **keys), **request.options}
        with self._process.matcher.inside(self._place, **self._body(call)):
            return await run_body(self._process, call, request.arguments, options, request.timeout_s, self._place.key)

    def _body(self, call: Callable[..., Any]) -> dict[str, Any]:
        """Return how the calls inside ``call`` are matched. A further attempt, and a reconciler, keep the inner calls
        that succeeded and make those again that failed."""
        process, key, record = self._process, self._place.key, self._place.record
        is_first = record is None or (record.attempt == 1 and key in process.matcher.records)
        if is_first and not self._has_run and call is not self._effect.reconciler:
            self._has_run = True
            return {}
        return {"records": process.written.calls, "lenient_below_seq": process.written.call_seq}

    # --- other sources of the outcome
    async def _await_dispatcher(self) -> None:
        """Wait for the dispatcher's verdict."""
        try:
            async with self._process.clock.timeout(self._request.timeout_s):
                await self._process.waiting.for_mail(self._effect.external_outcome)
        except TimeoutError as exc:
            raise self._unknown(
                "no dispatcher has called yet",
                error_line(exc, self._process.settings),
                hint="start one that knows it: seekpoint serve dispatcher",
            ) from exc

    async def _reconcile(self) -> None:
        """Ask the reconciler. One that raises has not answered."""
        reconcile = self._effect.reconciler
        assert reconcile is not None
        try:
            answer = await self._invoke(reconcile)
            self._effect.reconciled = answer if isinstance(answer, Reconciled) else Reconciled(Answer(answer))
        except Exception as exc:
            logger.warning(
                "%s: the reconciler of %s raised: %s",
                self._process.process_id,
                self._place.key,
                error_line(exc, self._process.settings),
            )
            self._effect.reconcile_error = exc

    # --- the outcome
    def _failure(self, error: Exception) -> b.Json:
        return failure_text(error, self._process.settings, self._process.limits)

    async def _take_call(self) -> None:
        effect = self._effect
        if effect.end is not End.RETURNED:
            assert effect.error is not None
            await self._settle("failed", by="call", error=self._failure(effect.error))
        else:
            await self._settle_done(effect.output, "call")

    async def _take_external(self) -> None:
        found = self._effect.external_outcome()
        assert found is not None
        is_proof = found.settled_by == "dispatcher"  # that made the call: what others say proves nothing
        error = None if found.error is None else scrubbed_failure(found.error, self._process.settings, is_proof)
        await self._settle(
            found.outcome, by=found.settled_by, output=found.output, error=error, external_id=found.external_id
        )

    async def _take_answer(self) -> None:
        found = self._effect.reconciled
        assert found is not None
        if found.answer is Answer.SUCCEEDED:
            return await self._settle_done(found.output, "reconciler")
        kind = EffectDuplicate if found.answer is Answer.DUPLICATE else EffectFailed
        message = found.reason or f"the reconciler found: {found.answer}"
        failure = kind(message, process_id=self._process.process_id, key=self._place.key, settled_by="reconciler")
        failure.found = found.output
        outcome = "stuck" if found.answer is Answer.STUCK else "failed"
        return await self._settle(outcome, by="reconciler", error=self._failure(failure))

    async def _settle_done(self, output: Any, by: str) -> None:
        """Settle as succeeded. An output that does not fit an entry is replaced by an error."""
        try:
            text, _ = journaled(output, self._effect.output_type, self._place.key, self._process, self._request.call)
            await self._settle("succeeded", by=by, output=text)
        except (UnserializableValue, LimitExceeded, InvalidValue) as exc:
            self._effect.error = exc
            await self._settle("succeeded", by=by, error=self._failure(exc))

    async def _give_up(self) -> None:
        """Record once that the outcome is in doubt, and raise that each time."""
        effect = self._effect
        stuck = decide(effect.situation()) is NextStep.STUCK
        status = EffectStatus.STUCK if stuck else EffectStatus.UNKNOWN
        why = effect.error or effect.reconcile_error
        if effect.status in (EffectStatus.PENDING, EffectStatus.UNKNOWN) and effect.status is not status:
            await self._settle(status, by="call", error=None if why is None else self._failure(why))
        message = "an effect was given up" if stuck else "nobody can tell whether an effect happened"
        text = None if effect.record is None else effect.record.error
        if text is None:
            raise self._unknown(message)
        cause = recorded_failure(text, key=self._place.key)  # what a later run has of the error
        raise self._unknown(message, recorded_line(text)) from (
            cause if why is None else failure_to_raise(why, text, self._place.key)
        )

    def _unknown(self, message: str, reason: str | None = None, hint: str = EffectUnknown.hint) -> EffectUnknown:
        effect = self._effect
        return EffectUnknown(
            message, process_id=self._process.process_id, key=self._place.key, status=str(effect.status),
            idempotency_key=effect.idempotency_key, connector=effect.intent.get("connector"),
            reason=reason, hint=hint,
        )  # fmt: skip

    def _settled(
        self, outcome: str, *, by: str,
        error: b.Json | None = None, output: b.Json = "null", external_id: bytes | None = None,
    ) -> b.EffectSettled:  # fmt: skip
        clock = self._process.clock
        duration_s = clock.monotonic() - self._began_s if self._effect.called else 0.0
        return b.EffectSettled(
            key=self._place.key, attempt=self._effect.attempt, outcome=str(outcome), settled_by=by,
            ended_at_us=clock.now_us(), duration_us=max(0, round(duration_s * 1_000_000)),
            error=error, output=output, external_id=external_id,
        )  # fmt: skip

    async def _settle(
        self, outcome: str, *, by: str,
        error: b.Json | None = None, output: b.Json = "null", external_id: bytes | None = None,
    ) -> None:  # fmt: skip
        """Write the outcome; before it, if the effect succeeded, the obligation to compensate it."""
        if outcome == EffectStatus.FAILED and error is not None and self._effect.is_known_undone(by):
            error = mark_undone(error, is_unsent=by == "call" and self._effect.is_unsent)
        body = self._settled(outcome, by=by, error=error, output=output, external_id=external_id)
        process = self._process
        try:
            if outcome == EffectStatus.SUCCEEDED:
                self._register_obligation(body.output)
            await process.append(body)
        except HandleLost:
            # Another node owns the process now: it needs the outcome of our call.
            await process.effects.report_outcome(body, self._effect.idempotency_key)
            raise
        self._effect.refresh()
        if outcome == EffectStatus.FAILED and error is not None and is_undone(error):
            await self._release_key()

    async def _release_key(self) -> None:
        """Release the business key. If this owner dies before, the next effect with the key reads this journal."""
        if self._effect.business_key is not None:
            await self._process.effects.business_keys.release(*self._effect.business_key, self._effect.key_holder)

    def _register_obligation(self, output: b.Json) -> None:
        """Register the compensation as an obligation, before the outcome: a crash may cut off what follows that."""
        compensate, key, send = self._request.compensate, self._place.key, self._process.send
        if compensate is None or any(one.key == key for one in self._process.written.obligations):
            return
        name, arguments = compensation_name(compensate), self._request.arguments_json
        try:
            send(b.ObligationRegistered(key=key, name=name, arguments=dump({"asked": arguments, "output": output})))
        except LimitExceeded:  # too large for one entry: the compensation gets no output
            send(b.ObligationRegistered(key=key, name=name, arguments=dump({"asked": arguments, "output": "null"})))


def _is_final(error: Exception, retry: Retry) -> bool:
    """Whether ``error`` proves that nothing was done."""
    if isinstance(error, UnserializableValue | LimitExceeded | InvalidValue):
        return False  # raised by another call inside this one
    return isinstance(error, NotDone) or not retry.is_retryable(error)
