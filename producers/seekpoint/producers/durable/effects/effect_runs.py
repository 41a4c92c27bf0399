"""One effect under way: acts as ``resolution.decide`` says, until the journal has an outcome or nobody can tell.

    intent, acknowledged and confirmed -> do we still own the process? -> call -> outcome, acknowledged

What dies in between is found by whoever comes next: a pending intent that is not its own.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from seekpoint.producers.durable.budgets.budget_calls import admit
from seekpoint.producers.durable.effects.compensations import compensation_name
from seekpoint.producers.durable.effects.connectors import NotDone, Reconciled, handed
from seekpoint.producers.durable.effects.effect_facts import EffectFacts, EffectRequest
from seekpoint.producers.durable.effects.effect_resolution import Answer, EffectStatus, End, NextStep, decide
from seekpoint.producers.durable.failures.failed_calls import tagged
from seekpoint.producers.durable.failures.recorded_failures import (
    failure_text,
    is_failure,
    remembered_failure,
    same_failure,
    says_undone,
    scrubbed_failure,
    undone,
)
from seekpoint.producers.durable.steps.body_runner import run_body
from seekpoint.producers.durable.steps.retries import Retry
from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.error_texts import error_line
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import (
    BudgetExceeded,
    ConfirmTimeout,
    EffectDuplicate,
    EffectFailed,
    EffectUnknown,
    HandleLost,
    IllegalCall,
    LimitExceeded,
    Refused,
    UnserializableValue,
)
from seekpoint.schemas.values.json_values import dump, load

if TYPE_CHECKING:
    from seekpoint.producers.durable.durable_process import DurableProcess
    from seekpoint.producers.durable.effects.business_keys import KeyHolder
    from seekpoint.producers.durable.replay.history_matcher import CallPlace

__all__ = ["EffectRun", "refuse_real"]

logger = logging.getLogger("seekpoint.producers")

_NOT_BEGUN = (BudgetExceeded, IllegalCall, LimitExceeded)
"""Raised before an intent is sent: nothing of it is in the log."""
_WORDS = frozenset({NextStep.TAKE_WORD, NextStep.UNKNOWN, NextStep.STUCK})
"""Moves that ask and change nothing outside."""
_FRESH_S = 1.0
"""Whoever was confirmed longer ago than this looks again before it calls: it may have been asleep."""
_AGAIN_S = 0.2


class EffectRun:
    """One ``process.effect``, from its place in the program to its outcome."""

    def __init__(self, process: DurableProcess, place: CallPlace, wanted: EffectRequest) -> None:
        self._process = process
        self._place = place
        self._wanted = wanted
        self._known = EffectFacts(process, place, wanted)
        self._confirmed_s = float("-inf")
        self._began_s = 0.0
        self._has_run = False
        self._moves: Mapping[NextStep, Callable[[], Awaitable[None]]] = {
            NextStep.INTEND: self._intend,
            NextStep.CALL: self._call,
            NextStep.WAIT: self._wait,
            NextStep.ASK: self._ask,
            NextStep.TAKE_CALL: self._take_call,
            NextStep.TAKE_WORD: self._take_word,
            NextStep.TAKE_ANSWER: self._take_answer,
            NextStep.UNKNOWN: self._give_up,
            NextStep.STUCK: self._give_up,
        }

    async def through(self) -> Any:
        """The effect's output, or its failure as the exception it was.

        Raises ``EffectUnknown`` where nobody can tell; ``EffectDuplicate``, ``EffectFailed``, ``UnknownConnector``;
        ``Fenced`` and ``AppendTimeout`` as every call of a process.
        """
        if not self._known.is_over:
            await self._process.effects.look()  # what a former owner, a dispatcher or a person said meanwhile
        while (move := decide(self._known.situation())) is not NextStep.RECORDED:
            if move not in _WORDS:
                refuse_real(self._process.settings, process_id=self._process.process_id, key=self._place.key)
            await self._moves[move]()
        return self._recorded()

    def _recorded(self) -> Any:
        """What the journal holds: the same for the run that made it and for every replay."""
        record, process, error = self._known.record, self._process, self._known.error
        assert record is not None
        process.matcher.ended(self._place)
        if self._known.is_taken_back:
            raise EffectFailed(
                "the effect was taken back: its process has failed", process_id=process.process_id,
                key=self._place.key, hint="do it anew as another process: fork this one from before the effect",
            )  # fmt: skip
        if self._wanted.compensate is not None and record.status == EffectStatus.SUCCEEDED:
            process.effects.owed[self._place.key] = self._wanted.compensate
        if record.error is None:
            return load(record.output or "null")
        facts = {"process_id": process.process_id, "key": self._place.key, "seq": record.seq}
        if error is None:
            raise tagged(remembered_failure(record.error, **facts), self._place.key, remembered=record.error)
        raise tagged(same_failure(error, record.error, process.settings, **facts), self._place.key)

    # --- the intent
    async def _intend(self) -> None:
        known, wanted, process = self._known, self._wanted, self._process
        _ = known.callable  # refused before anything is written down, not after
        if known.error is not None:
            await process.clock.sleep(wanted.retry.wait_s(known.attempt, random.random()))
        holder = await self._taken_by_another()
        try:
            if wanted.compensates is None and holder is None:  # what is owed is paid whatever it costs
                await admit(process, self._place, self._costs)
            await process.append(self._intended(holder))
        except _NOT_BEGUN:
            if known.record is None:
                await self._give_back()
            raise
        known.begin_attempt()
        if holder is None:
            await self._confirm()
        else:
            await self._settle("failed", by="call", error=self._failure(self._duplicate(holder)))

    def _intended(self, holder: KeyHolder | None) -> b.EffectIntended:
        known, wanted = self._known, self._wanted
        return b.EffectIntended(
            key=self._place.key, position=self._place.position, name=wanted.name, digest=wanted.digest,
            semantics=known.semantics, connector=None if holder else wanted.connector,
            business_key=wanted.business_key, idempotency_key=known.idempotency_key,
            arguments=wanted.arguments_json, attempt=known.attempt + 1, compensates=wanted.compensates,
            irreversible=wanted.irreversible, started_at_us=self._process.clock.now_us(),
            estimate=None if wanted.estimate is None else dump(wanted.estimate),
        )  # fmt: skip

    @property
    def _costs(self) -> dict[str, Any]:
        count = {"irreversible_effects": 1} if self._wanted.irreversible else {}
        return {**count, **(self._wanted.estimate or {})}

    async def _confirm(self) -> None:
        """Wait until the intent is seen applied. A Kafka that is silent only makes it wait, as an append does."""
        clock = self._process.clock
        give_up_s = clock.monotonic() + self._patience_s
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
    def _patience_s(self) -> float:
        settings = self._process.settings
        return settings.append_timeout_s + settings.heal_timeout_s

    async def _taken_by_another(self) -> KeyHolder | None:
        """Who else has the business key. A first intent takes it if nobody has."""
        if self._known.business_key is None or self._known.record is not None:
            return None
        return await self._process.effects.business_keys.take(*self._known.business_key, self._known.holder)

    def _duplicate(self, holder: KeyHolder) -> EffectDuplicate:
        return EffectDuplicate(
            "the business key is another effect's", process_id=self._process.process_id, key=self._place.key,
            connector=self._wanted.connector, business_key=self._wanted.business_key,
            holder=holder.process_id, holder_key=holder.key,
        )  # fmt: skip

    # --- the call
    async def _call(self) -> None:
        known, call = self._known, self._known.callable
        await self._check_owner()
        known.called, self._began_s = True, self._process.clock.monotonic()
        try:
            known.output = await self._run(call)
            known.end = End.RETURNED
        except TimeoutError as exc:
            known.end, known.error = End.TIMED_OUT, exc
        except Exception as exc:
            if self._wanted.compensates is None and not is_failure(exc):
                raise  # of a call of its own: nobody has failed, and it stays in doubt as a step would
            known.end, known.error = End.REFUSED if _is_final(exc, self._wanted.retry) else End.RAISED, exc

    async def _check_owner(self) -> None:
        """Immediately before the call: no other owner is known of, and what is known is not old."""
        clock, outside = self._process.clock, self._process.effects
        give_up_s = clock.monotonic() + self._patience_s
        while (began_s := clock.monotonic()) - self._confirmed_s > _FRESH_S:
            if await outside.look():
                self._confirmed_s = began_s
            elif began_s > give_up_s:
                raise ConfirmTimeout(
                    "nobody can tell whether the process is still this node's", process_id=self._process.process_id
                )
            else:
                await clock.sleep(_AGAIN_S)
        self._process.session.check()

    async def _run(self, call: Callable[..., Any]) -> Any:
        """``call`` with the effect's arguments, and what else it has parameters for."""
        known, wanted = self._known, self._wanted
        told = {"idempotency_key": known.idempotency_key, "business_key": known.facts.get("business_key")}
        options = {**handed(call, **{**wanted.handed, **told}), **wanted.options}
        with self._process.matcher.inside(self._place, **self._body(call)):
            return await run_body(self._process, call, wanted.arguments, options, wanted.timeout_s, self._place.key)

    def _body(self, call: Callable[..., Any]) -> dict[str, Any]:
        """How the scope of ``call`` looks on what bodies before it asked. A further one keeps what succeeded, and tries
        again what failed; so does a reconciler, which may ask something else."""
        process, key, record = self._process, self._place.key, self._place.record
        is_first = record is None or (record.attempt == 1 and key in process.matcher.records)
        if is_first and not self._has_run and call is not self._known.reconciler:
            self._has_run = True
            return {}
        return {"records": process.written.calls, "lenient_below_seq": process.written.seq}

    # --- other ways to know
    async def _wait(self) -> None:
        """For the dispatcher's word."""
        try:
            async with self._process.clock.timeout(self._wanted.timeout_s):
                await self._process.waiting.for_mail(self._known.word)
        except TimeoutError as exc:
            raise self._unknown(
                "no dispatcher has called yet", exc, hint="start one that knows it: seekpoint serve dispatcher"
            ) from exc

    async def _ask(self) -> None:
        """The reconciler; one that fails has not answered."""
        reconcile = self._known.reconciler
        assert reconcile is not None
        try:
            found = await self._run(reconcile)
            self._known.found = found if isinstance(found, Reconciled) else Reconciled(Answer(found))
        except Exception as exc:
            logger.warning(
                "%s: no answer from the reconciler of %s: %s",
                self._process.process_id,
                self._place.key,
                error_line(exc, self._process.settings),
            )
            self._known.no_answer = exc

    # --- the outcome
    def _failure(self, error: Exception) -> b.Json:
        return failure_text(error, self._process.settings, self._process.limits)

    async def _take_call(self) -> None:
        known = self._known
        if known.end is not End.RETURNED:
            assert known.error is not None
            await self._settle("failed", by="call", error=self._failure(known.error))
        else:
            await self._settle_done(known.output, "call")

    async def _take_word(self) -> None:
        word = self._known.word()
        assert word is not None
        error = None if word.error is None else scrubbed_failure(word.error, self._process.settings)
        await self._settle(
            word.outcome, by=word.settled_by, output=word.output, error=error, external_id=word.external_id
        )

    async def _take_answer(self) -> None:
        found = self._known.found
        assert found is not None
        if found.answer is Answer.SUCCEEDED:
            return await self._settle_done(found.output, "reconciler")
        kind = EffectDuplicate if found.answer is Answer.DUPLICATE else EffectFailed
        said = found.reason or f"the reconciler found: {found.answer}"
        failure = kind(said, process_id=self._process.process_id, key=self._place.key, settled_by="reconciler")
        failure.facts |= {} if found.output is None else {"found": found.output}
        outcome = "stuck" if found.answer is Answer.STUCK else "failed"
        return await self._settle(outcome, by="reconciler", error=self._failure(failure))

    async def _settle_done(self, output: Any, by: str) -> None:
        """It was done: that its output cannot be kept makes no failure of it, but is told."""
        try:
            await self._settle("succeeded", by=by, output=dump(output, self._process.limits))
        except (UnserializableValue, LimitExceeded) as exc:
            self._known.error = exc
            await self._settle("succeeded", by=by, error=self._failure(exc))

    async def _give_up(self) -> None:
        """Say that nobody can tell, once; then raise it, every time."""
        known = self._known
        stuck = decide(known.situation()) is NextStep.STUCK
        wanted = EffectStatus.STUCK if stuck else EffectStatus.UNKNOWN
        why = known.error or known.no_answer
        if known.status in (EffectStatus.PENDING, EffectStatus.UNKNOWN) and known.status is not wanted:
            await self._settle(wanted, by="call", error=None if why is None else self._failure(why))
        said = "an effect was given up" if stuck else "nobody can tell whether an effect happened"
        raise self._unknown(said, why) from why

    def _unknown(self, said: str, why: Exception | None, hint: str | None = None) -> EffectUnknown:
        known = self._known
        return EffectUnknown(
            said, process_id=self._process.process_id, key=self._place.key, status=str(known.status),
            idempotency_key=known.idempotency_key, connector=known.facts.get("connector"),
            reason=None if why is None else error_line(why, self._process.settings), hint=hint,
        )  # fmt: skip

    def _settled(self, outcome: str, *, by: str, **more: Any) -> b.EffectSettled:
        clock = self._process.clock
        duration_s = clock.monotonic() - self._began_s if self._known.called else 0.0
        return b.EffectSettled(
            key=self._place.key, attempt=self._known.attempt, outcome=str(outcome), settled_by=by,
            ended_at_us=clock.now_us(), duration_us=max(0, round(duration_s * 1_000_000)), **more,
        )  # fmt: skip

    async def _settle(self, outcome: str, *, by: str, error: b.Json | None = None, **more: Any) -> None:
        """Write the outcome down; with it, if it was done, what is owed should the process fail."""
        if outcome == EffectStatus.FAILED and error is not None and self._known.is_known_undone(by):
            error = undone(error)
        body, process = self._settled(outcome, by=by, error=error, **more), self._process
        try:
            if outcome == EffectStatus.SUCCEEDED:
                self._owe(body.output)
            await process.append(body)
        except HandleLost:
            # Another owner's process now: it can still be told what became of our call.
            await process.effects.testify(body, self._known.idempotency_key)
            raise
        self._known.refresh()
        if outcome == EffectStatus.FAILED and error is not None and says_undone(error):
            await self._give_back()

    async def _give_back(self) -> None:
        """The business key, at once: who dies before this only has the next one that asks read our journal for it."""
        if self._known.business_key is not None:
            await self._process.effects.business_keys.free(*self._known.business_key, self._known.holder)

    def _owe(self, output: b.Json) -> None:
        """What is due if the process is cancelled or fails. Before the outcome: a crash may cut off what follows it."""
        compensate, key, send = self._wanted.compensate, self._place.key, self._process.send
        if compensate is None or any(one.key == key for one in self._process.written.obligations):
            return
        name, asked = compensation_name(compensate), self._wanted.arguments_json
        try:
            send(b.ObligationRegistered(key=key, name=name, arguments=dump({"asked": asked, "output": output})))
        except LimitExceeded:  # together too large for an entry: its compensation has to do without the output
            send(b.ObligationRegistered(key=key, name=name, arguments=dump({"asked": asked, "output": "null"})))


def _is_final(error: Exception, retry: Retry) -> bool:
    """Whether ``error`` says for certain that nothing was done."""
    if isinstance(error, UnserializableValue | LimitExceeded):
        return False  # raised by a call of its own in there, not said of the effect
    return isinstance(error, NotDone) or not retry.is_retryable(error)


def refuse_real(settings: Settings, **facts: Any) -> None:
    """Raise ``Refused`` where only what is recorded may be answered: in staging nothing outside is ever changed."""
    if settings.effects == "recorded":
        raise Refused(
            "effects are only answered from the record here", **facts,
            hint="the setting effects is recorded: run it where effects may be real",
        )  # fmt: skip
