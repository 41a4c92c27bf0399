"""What is known of one effect: what was asked for, what the journal holds, what our own call gave, who else spoke."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from seekpoint.producers.durable.effects.business_keys import KeyHolder
from seekpoint.producers.durable.effects.compensations import UNDO
from seekpoint.producers.durable.effects.connectors import ATTEMPTS_MAX, Connector, Reconciled, takes
from seekpoint.producers.durable.effects.effect_resolution import Effect, EffectStatus, End, Situation, is_known_undone
from seekpoint.producers.durable.effects.external_outcome import ExternalOutcome, word_for
from seekpoint.producers.durable.steps.retries import ONCE, Retry
from seekpoint.schemas.bodies import Json
from seekpoint.schemas.dataclass import dataclass
from seekpoint.schemas.errors import Refused

if TYPE_CHECKING:
    from seekpoint.producers.durable.durable_process import DurableProcess
    from seekpoint.producers.durable.replay.history_matcher import CallPlace
    from seekpoint.schemas.state.calls import Call

__all__ = [
    "EffectFacts",
    "EffectRequest",
]

_OVER = (EffectStatus.NEW, EffectStatus.SUCCEEDED, EffectStatus.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectRequest:
    """What the agent asked for: an effect, and all that it says about it."""

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
    """The key of the effect that this one takes back."""
    retry: Retry = ONCE
    timeout_s: float | None = None
    estimate: Mapping[str, Any] | None = None
    irreversible: bool = False
    handed: Mapping[str, Any] = field(default_factory=dict)
    """Handed to a callable that has a parameter of the name."""


class EffectFacts:
    """One effect as its process knows it now."""

    def __init__(self, process: DurableProcess, place: CallPlace, wanted: EffectRequest) -> None:
        self._process = process
        self._wanted = wanted
        self.key = place.key
        self.record: Call | None = place.record
        self.ours = False
        """The newest intent is this handle's own."""
        self.called = False
        self.end: End | None = None
        self.output: Any = None
        self.error: Exception | None = None
        self.found: Reconciled | None = None
        self.no_answer: Exception | None = None

    @property
    def is_taken_back(self) -> bool:
        """Whether it was compensated, and that is over: a run that has yet to take back more must get there again.

        So must code that took it back itself and has not failed since, as the marks of ``obligations`` tell.
        """
        written = self._process.written
        mark = UNDO + self.key
        if mark in written.patches and f"{mark}/" not in written.patches:
            return False
        undone = written.calls.get(mark)
        over = written.cancelled is None and all(one.status == "stuck" for one in written.obligations)
        return over and undone is not None and undone.status == EffectStatus.SUCCEEDED

    def begin_attempt(self) -> None:
        """A new intent of our own is in the journal: nothing is known of its call yet."""
        self.refresh()
        self.ours, self.called, self.end, self.error, self.found = True, False, None, None, None

    def refresh(self) -> None:
        """Take up what this owner has written."""
        self.record = self._process.written.calls[self.key]

    @property
    def status(self) -> EffectStatus:
        """What the journal says."""
        return EffectStatus.NEW if self.record is None else EffectStatus(self.record.status)

    @property
    def is_over(self) -> bool:
        """Not begun, or settled: nothing is in doubt."""
        return self.status in _OVER

    @property
    def facts(self) -> Mapping[str, Any]:
        """What the newest intent says."""
        return {} if self.record is None else self.record.facts

    @property
    def attempt(self) -> int:
        """The number of the newest intent; 0 before the first."""
        return 0 if self.record is None else self.record.attempt

    @property
    def semantics(self) -> Effect:
        """What the code says, unless the intent was more careful."""
        careful = self.facts.get("semantics") == Effect.AT_MOST_ONCE
        return Effect.AT_MOST_ONCE if careful else self._wanted.semantics

    @property
    def idempotency_key(self) -> str:
        """Fixed by the first intent: an inherited effect keeps its parent's."""
        told: str = self.facts.get("idempotency_key") or self._process.idempotency_key(self.key)
        return told

    @property
    def business_key(self) -> tuple[str, str] | None:
        """Whose (a connector's, else the effect's name) and which; None without one."""
        wanted = self._wanted
        return None if wanted.business_key is None else (wanted.connector or wanted.name, wanted.business_key)

    @property
    def holder(self) -> KeyHolder:
        """This effect, as one that has a business key."""
        return KeyHolder(self._process.process_id, self.key, self.idempotency_key)

    @property
    def connector(self) -> Connector | None:
        """Looked up anew each time it matters: what resumes a process may know another one than what began it."""
        name = self._wanted.connector if self.record is None else self.facts.get("connector")
        return None if name is None else self._process.effects.connectors[name]

    @property
    def callable(self) -> Callable[..., Any]:
        """What is called. Raises ``Refused``, ``UnknownConnector``."""
        connector = self.connector
        call = self._wanted.call or (None if connector is None else connector.dispatch)
        if call is None:
            raise Refused("an effect needs something to call", process_id=self._process.process_id, key=self.key)
        return call

    @property
    def reconciler(self) -> Callable[..., Any] | None:
        """What can be asked."""
        connector = self.connector
        return self._wanted.reconcile or (None if connector is None else connector.reconcile)

    def word(self) -> ExternalOutcome | None:
        """What the mailbox brought."""
        return word_for(self._process.effects.mail, self.key, self.idempotency_key, status=self.status)

    def situation(self) -> Situation:
        """All of it, as far as a decision rests on it. Raises ``UnknownConnector``."""
        if self.is_over:
            return Situation(status=self.status)
        connector, retry = self.connector, self._wanted.retry
        return Situation(
            status=self.status,
            semantics=self.semantics,
            ours=self.ours,
            called=self.called,
            end=self.end,
            attempts=self.attempt,
            attempts_max=ATTEMPTS_MAX if connector is None else connector.max_attempts,
            retries_left=self.error is not None and retry.allows(self.attempt, self.error),
            enforces_key=connector is not None and connector.enforces_key and takes(self.callable, "idempotency_key"),
            dispatched=connector is not None and connector.outbox,
            owed=self._wanted.compensates is not None,
            word=self.word() is not None,
            can_ask=self.reconciler is not None and self.no_answer is None,
            answer=None if self.found is None else self.found.answer,
        )

    def is_known_undone(self, settled_by: str) -> bool:
        """Whether a failed effect did not happen for certain, by what is known here."""
        return is_known_undone(settled_by, self.end, None if self.found is None else self.found.answer)
