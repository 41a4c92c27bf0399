"""The bodies of calls: an agent's code calls its process, and the process journals the call and its outcome.

A call has a start, which is sent without waiting for the acknowledgement, and an end, which is awaited. A call whose
outcome is known at once has one entry.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import field

from seekpoint.schemas.bodies.body import Body, Json


class AgentStarted(Body, frozen=True):
    """The start of an agent's code as the process."""

    KIND = "agent_started"
    IS_TIMED = True
    agent: str = ""
    version: str = ""
    definition: str = ""
    input: Json = "null"
    trace_parent: str | None = None
    spawned_by: str | None = None
    limits: Json | None = None


class StepStarted(Body, frozen=True):
    """The start of a step; sent, not awaited."""

    KIND = "step_started"
    key: str = ""
    position: int = 0
    name: str = ""
    digest: str = ""
    arguments: Json = "null"
    attempt: int = 1
    idempotency_key: str = ""
    started_at_us: int = 0
    estimate: Json | None = None


class StepEnded(Body, frozen=True):
    """The end of an attempt of a step: it succeeded, failed finally, or will be retried.

    If the attempt ended before its start was sent, this is the entry for both: it has a ``position`` and the fields
    of the start, which ``implied_start`` returns.
    """

    KIND = "step_ended"
    key: str = ""
    attempt: int = 1
    outcome: str = ""
    output: Json = "null"
    error: Json | None = None
    retry_at_us: int | None = None
    ended_at_us: int = 0
    duration_us: int = 0
    usage: Json | None = None
    cost_usd: str | None = None
    position: int | None = None
    name: str | None = None
    digest: str | None = None
    arguments: Json | None = None
    idempotency_key: str | None = None
    started_at_us: int | None = None
    estimate: Json | None = None

    @property
    def implied_start(self) -> StepStarted | None:
        """The start, if it has no entry of its own; else None."""
        if self.position is None:
            return None
        return StepStarted(
            key=self.key,
            position=self.position,
            name=self.name or "",
            digest=self.digest or "",
            arguments=self.arguments or "null",
            attempt=self.attempt,
            idempotency_key=self.idempotency_key or "",
            started_at_us=self.started_at_us or 0,
            estimate=self.estimate,
        )


class DecisionStarted(Body, frozen=True):
    """The start of a request to a model; sent, not awaited."""

    KIND = "decision_started"
    key: str = ""
    position: int = 0
    name: str = ""
    digest: str = ""
    request: Json = "null"
    shared_with: str | None = None
    shared_messages: int = 0
    policy: str | None = None
    attempt: int = 1
    started_at_us: int = 0
    estimate: Json | None = None


class DecisionMade(Body, frozen=True):
    """The response of a model, or the failure of an attempt, with the chunks that the code got of its stream."""

    KIND = "decision_made"
    key: str = ""
    attempt: int = 1
    outcome: str = ""
    response: Json = "null"
    tool_calls: Json | None = None
    error: Json | None = None
    retry_at_us: int | None = None
    model: str | None = None
    usage: Json | None = None
    cost_usd: str | None = None
    ended_at_us: int = 0
    duration_us: int = 0


class Sampled(Body, frozen=True):
    """A value that is not deterministic: a time, a random number, data that was read. Or the failure to get it."""

    KIND = "sampled"
    key: str = ""
    position: int = 0
    name: str = ""
    digest: str = ""
    value: Json = "null"
    error: Json | None = None


class TimerSet(Body, frozen=True):
    """The start of a timer: the code sleeps until a time."""

    KIND = "timer_set"
    IS_TIMED = True
    key: str = ""
    position: int = 0
    name: str = ""
    digest: str = ""
    fires_at_us: int = 0


class TimerFired(Body, frozen=True):
    """The end of a timer: its time has come."""

    KIND = "timer_fired"
    key: str = ""
    fired_at_us: int = 0


class GateOpened(Body, frozen=True):
    """The opening of a gate: the code waits for a signal or a person's answer."""

    KIND = "gate_opened"
    IS_TIMED = True
    key: str = ""
    position: int = 0
    name: str = ""
    digest: str = ""
    deadline_us: int | None = None
    prompt: Json = "null"


class GateResolved(Body, frozen=True):
    """The end of a gate: it was answered, or its deadline passed."""

    KIND = "gate_resolved"
    key: str = ""
    outcome: str = ""
    external_id: bytes | None = None
    payload: Json = "null"
    actor: str | None = None
    reason: str | None = None


class AnswerRefused(Body, frozen=True):
    """An answer does not fit the type that a gate or a ``receive`` asks for: the call waits for another one.

    ``external_id`` leaves the mailbox; None: the answer was recorded as that of the call, which is open again.
    """

    KIND = "answer_refused"
    key: str = ""
    external_id: bytes | None = None
    reason: str = ""


class ChildSpawned(Body, frozen=True):
    """The start of a child process."""

    KIND = "child_spawned"
    IS_TIMED = True
    key: str = ""
    position: int = 0
    name: str = ""
    digest: str = ""
    child_id: str = ""
    agent: str = ""
    version: str = ""
    input: Json = "null"
    estimate: Json | None = None
    limits: Json | None = None


class ChildEnded(Body, frozen=True):
    """The result of a child process, and what it used."""

    KIND = "child_ended"
    IS_TIMED = True
    key: str = ""
    outcome: str = ""
    result: Json = "null"
    error: Json | None = None
    spent: Json | None = None


class EffectIntended(Body, frozen=True):
    """The intent to change something in the outside world; confirmed before the effect's function is called."""

    KIND = "effect_intended"
    key: str = ""
    position: int = 0
    name: str = ""
    digest: str = ""
    semantics: str = ""
    connector: str | None = None
    business_key: str | None = None
    idempotency_key: str = ""
    arguments: Json = "null"
    attempt: int = 1
    compensates: str | None = None
    irreversible: bool = False
    started_at_us: int = 0
    estimate: Json | None = None


class EffectSettled(Body, frozen=True):
    """The outcome of an effect, as far as its owner knows."""

    KIND = "effect_settled"
    key: str = ""
    attempt: int = 1
    outcome: str = ""
    output: Json = "null"
    error: Json | None = None
    settled_by: str = "call"
    external_id: bytes | None = None
    ended_at_us: int = 0
    duration_us: int = 0
    usage: Json | None = None
    cost_usd: str | None = None


class EffectVerdict(Body, frozen=True):
    """The outcome of an effect, as a person or a dispatcher reports it."""

    KIND = "effect_verdict"
    EXTERNAL = True
    key: str = ""
    outcome: str = ""
    output: Json = "null"
    error: Json | None = None
    reason: str | None = None
    idempotency_key: str = ""


class EffectRevoked(Body, frozen=True):
    """A person reports that a settled effect was undone outside: its compensation is no longer owed."""

    KIND = "effect_revoked"
    EXTERNAL = True
    key: str = ""
    idempotency_key: str = ""
    reason: str | None = None


class ObligationRegistered(Body, frozen=True):
    """The obligation to undo an effect if the process is cancelled or fails."""

    KIND = "obligation_registered"
    key: str = ""
    name: str = ""
    arguments: Json = "null"


class ObligationSettled(Body, frozen=True):
    """The end of an obligation: the effect was undone, need not be undone, or could not be undone."""

    KIND = "obligation_settled"
    key: str = ""
    outcome: str = ""


class CancelAccepted(Body, frozen=True):
    """The acceptance of a request to cancel: the code must stop."""

    KIND = "cancel_accepted"
    external_id: bytes | None = None
    reason: str | None = None


class CallsSetAside(Body, frozen=True):
    """The reopening of failed calls: the code makes them again instead of getting the recorded failures."""

    KIND = "calls_set_aside"
    keys: Json = "[]"
    reason: str | None = None


class PatchMarked(Body, frozen=True):
    """The marker of a patch: from here on the process runs the changed code."""

    KIND = "patch_marked"
    id: str = ""


class Diverged(Body, frozen=True):
    """A divergence of the code from its history that was allowed."""

    KIND = "diverged"
    key: str = ""
    position: int = 0
    kind: str = ""
    expected: Json = "null"
    actual: Json = "null"


class TurnEnded(Body, frozen=True):
    """The end of a turn of the agent's loop; its calls leave the state."""

    KIND = "turn_ended"
    number: int = 0


class BudgetSet(Body, frozen=True):
    """The limits of the process's budget."""

    KIND = "budget_set"
    limits: Json = "{}"
    day_limits: Json = "{}"
    warn_at: str = "0.8"
    on_exceed: str = "fail"


class BudgetNoted(Body, frozen=True):
    """A budget event: nearly used up, used up, raised, or refunded."""

    KIND = "budget_noted"
    kind: str = ""
    dimension: str = ""
    scope: str = "run"
    key: str | None = None
    amount: str = "0"
    limit: str = "0"
    actor: str | None = None


class ContentBatch(Body, frozen=True):
    """Several changes of context and conversation, all or none: of one call, of a turn, or of an invocation."""

    KIND = "content_batch"
    cleared: bool = False
    values: Mapping[str, Json] = field(default_factory=dict)
    deleted: Json = "[]"
    messages: Json = "[]"
    call: str | None = None


class SharedSet(Body, frozen=True):
    """A write to a shared value; the order in the log decides. Its process is ``shared:NAME``, which has no owner."""

    KIND = "shared_set"
    EXTERNAL = True
    name: str = ""
    expected_version: int = -1
    value: Json = "null"
