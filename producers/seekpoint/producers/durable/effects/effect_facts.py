"""Collect what is known of one effect: its request, its record, the outcome of our own call, external outcomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import field

from seekpoint.producers.durable.effects.business_keys import KeyHolder
from seekpoint.producers.durable.effects.compensation_names import UNDO
from seekpoint.producers.durable.effects.connectors import ATTEMPTS_MAX, Connector, NotDone, Reconciled, accepts
from seekpoint.producers.durable.effects.effect_resolution import Effect, EffectStatus, End, Situation, is_known_undone
from seekpoint.producers.durable.effects.verdict_matching import ExternalOutcome, external_outcome_for
from seekpoint.producers.durable.steps.annotations import result_type
from seekpoint.producers.durable.steps.retries import ONCE, Retry
from seekpoint.schemas.bodies import Json
from seekpoint.schemas.errors import Refused
from seekpoint.schemas.frozen_struct import FrozenStruct

if TYPE_CHECKING:
    from seekpoint.producers.durable.durable_process import DurableProcess
    from seekpoint.producers.durable.replay.history_matcher import CallPlace
    from seekpoint.schemas.state.calls import Call
    from seekpoint.schemas.values.value_types import ValueType

_NOT_IN_DOUBT = (EffectStatus.NEW, EffectStatus.SUCCEEDED, EffectStatus.FAILED)


class EffectRequest(FrozenStruct, frozen=True, kw_only=True):
    """The arguments of ``process.effect``, or of a compensation."""

    name: str
    call: Callable[..., Any] | None = None
    arguments: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    arguments_json: Json = "[]"
    digest: str = ""
    semantics: Effect = Effect.IDEMPOTENT
    reconcile: Callable[..., Any] | None = None
    connector: str | None = None
    business_key: str | None = None
    compensate: Callable[..., Any] | str | None = None
    compensates: str | None = None
    """The key of the effect that this one compensates."""
    retry: Retry = ONCE
    timeout_s: float | None = None
    estimate: Mapping[str, Any] | None = None
    irreversible: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further options for a callable that has parameters of these names."""


class EffectFacts:
    """One effect as its owner knows it now."""

    def __init__(self, process: DurableProcess, place: CallPlace, request: EffectRequest) -> None:
        self._process = process
        self._request = request
        self.key = place.key
        self.record: Call | None = place.record
        self.ours = False
        """This owner wrote the newest intent."""
        self.called = False
        self.end: End | None = None
        self.output: Any = None
        self.error: Exception | None = None
        self.reconciled: Reconciled | None = None
        self.reconcile_error: Exception | None = None

    @property
    def is_compensated(self) -> bool:
        """Whether the effect is compensated, and no code has to get past it again.

        Code has to where more compensations are due, or where it compensated the effect itself and has not failed
        since (the marks of ``obligations``).
        """
        written = self._process.written
        mark = UNDO + self.key
        if mark in written.patches and f"{mark}/" not in written.patches:
            return False
        compensation = written.calls.get(mark)
        none_due = written.cancelled is None and all(one.status == "stuck" for one in written.owed)
        return none_due and compensation is not None and compensation.status == EffectStatus.SUCCEEDED

    def begin_attempt(self) -> None:
        """Reset what is known of the call: a new intent of this owner is in the journal."""
        self.refresh()
        self.ours, self.called, self.end, self.error, self.reconciled = True, False, None, None, None

    def refresh(self) -> None:
        """Read the record again after this owner has written."""
        self.record = self._process.written.calls[self.key]

    @property
    def status(self) -> EffectStatus:
        """Return the status in the journal."""
        return EffectStatus.NEW if self.record is None else EffectStatus(self.record.status)

    @property
    def is_in_doubt(self) -> bool:
        """Whether the effect has begun and is not settled."""
        return self.status not in _NOT_IN_DOUBT

    @property
    def intent(self) -> Mapping[str, Any]:
        """Return the fields of the newest intent; empty before the first."""
        return {} if self.record is None else self.record.facts

    @property
    def attempt(self) -> int:
        """Return the number of the newest intent; 0 before the first."""
        return 0 if self.record is None else self.record.attempt

    @property
    def tries(self) -> int:
        """Return how many intents there are since the effect began, or since it was set aside for another try."""
        return self.attempt - int(self.intent.get("attempts_before") or 0)

    @property
    def is_unsent(self) -> bool:
        """Whether the failure of our call proves that nothing was sent: it is the only one, and says so itself.

        A policy that only lists the errors to try again says nothing of the others.
        """
        error, final = self.error, self._request.retry.non_retryable
        says_so = isinstance(error, (NotDone, *final)) or getattr(error, "retryable", True) is False
        return self.end is End.REFUSED and self.tries == 1 and says_so

    @property
    def semantics(self) -> Effect:
        """Return the semantics that the code names, or at-most-once if the intent says so."""
        at_most_once = self.intent.get("semantics") == Effect.AT_MOST_ONCE
        return Effect.AT_MOST_ONCE if at_most_once else self._request.semantics

    @property
    def idempotency_key(self) -> str:
        """Return the key that the first intent has: an inherited effect keeps its parent's."""
        key: str = self.intent.get("idempotency_key") or self._process.idempotency_key(self.key)
        return key

    @property
    def business_key(self) -> tuple[str, str] | None:
        """Return the connector's, else the effect's name, and the business key; None without one."""
        request = self._request
        return None if request.business_key is None else (request.connector or request.name, request.business_key)

    @property
    def key_holder(self) -> KeyHolder:
        """Return this effect as the holder of a business key."""
        return KeyHolder(self._process.process_id, self.key, self.idempotency_key)

    @property
    def connector(self) -> Connector | None:
        """Return the connector that this program has registered: another one may have begun the effect."""
        name = self._request.connector if self.record is None else self.intent.get("connector")
        return None if name is None else self._process.effects.connectors[name]

    @property
    def call(self) -> Callable[..., Any]:
        """Return the function to call. Raises ``Refused``, ``UnknownConnector``."""
        connector = self.connector
        call = self._request.call or (None if connector is None else connector.dispatch)
        if call is None:
            raise Refused("an effect needs something to call", process_id=self._process.process_id, key=self.key)
        return call

    @cached_property
    def output_type(self) -> ValueType | None:
        """Return what the annotation of the function to call says of its output, if this program knows the function."""
        call = self._request.call
        if call is None and self._request.connector in self._process.effects.connectors:
            call = self._process.effects.connectors[str(self._request.connector)].dispatch
        return None if call is None else result_type(call)

    @property
    def reconciler(self) -> Callable[..., Any] | None:
        """Return the reconciler, if there is one."""
        connector = self.connector
        return self._request.reconcile or (None if connector is None else connector.reconcile)

    def external_outcome(self) -> ExternalOutcome | None:
        """Return the outcome in the mailbox, if there is one."""
        return external_outcome_for(self._process.waiting.mail, self.key, self.idempotency_key, status=self.status)

    def situation(self) -> Situation:
        """Return the input of ``decide``. Raises ``UnknownConnector``."""
        if not self.is_in_doubt:
            return Situation(status=self.status)
        connector, retry = self.connector, self._request.retry
        return Situation(
            status=self.status,
            semantics=self.semantics,
            ours=self.ours,
            called=self.called,
            end=self.end,
            attempts=self.tries,
            attempts_max=ATTEMPTS_MAX if connector is None else connector.max_attempts,
            retries_left=self.error is not None and retry.allows(self.tries, self.error),
            enforces_key=connector is not None and connector.enforces_key and accepts(self.call, "idempotency_key"),
            dispatched=connector is not None and connector.outbox,
            is_compensation=self._request.compensates is not None,
            has_external_outcome=self.external_outcome() is not None,
            can_reconcile=self.reconciler is not None and self.reconcile_error is None,
            answer=None if self.reconciled is None else self.reconciled.answer,
        )

    def is_known_undone(self, settled_by: str) -> bool:
        """Whether the failed effect certainly did not happen."""
        return is_known_undone(settled_by, self.end, None if self.reconciled is None else self.reconciled.answer)
