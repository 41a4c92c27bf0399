"""The bodies about calls: what an agent's code asks of its process, and the outcome.

A call has a start, which is sent and not awaited, and an end, which is. What is known at once has one entry.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import field

from seekpoint.schemas.bodies.body import Body, Json

__all__ = [
    "AgentStarted",
    "BudgetNoted",
    "BudgetSet",
    "CallsSetAside",
    "CancelAccepted",
    "ChildEnded",
    "ChildSpawned",
    "ContentBatch",
    "DecisionMade",
    "DecisionStarted",
    "Diverged",
    "EffectIntended",
    "EffectSettled",
    "EffectVerdict",
    "GateOpened",
    "GateResolved",
    "ObligationRegistered",
    "ObligationSettled",
    "PatchMarked",
    "Sampled",
    "SharedSet",
    "StepEnded",
    "StepStarted",
    "TimerFired",
    "TimerSet",
    "TurnEnded",
]


class AgentStarted(Body, frozen=True):
    """An agent's code begins to run as the process."""

    KIND = "agent_started"
    agent: str = ""
    version: str = ""
    definition: str = ""
    input: Json = "null"


class StepStarted(Body, frozen=True):
    """A step begins; sent, not awaited."""

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
    """An attempt of a step ended: it succeeded, failed for good, or is tried again.

    One that ended before its start had left says both: it has a ``position``, and ``began`` is the start it stands for.
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
        """The start that has no entry of its own; None where it has one."""
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
    """A model is asked; sent, not awaited."""

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
    """A model answered, or an attempt to ask it failed."""

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
    """A value the code cannot compute again: a time, a random number, something read."""

    KIND = "sampled"
    key: str = ""
    position: int = 0
    name: str = ""
    digest: str = ""
    value: Json = "null"


class TimerSet(Body, frozen=True):
    """The code sleeps until a time."""

    KIND = "timer_set"
    key: str = ""
    position: int = 0
    name: str = ""
    digest: str = ""
    fires_at_us: int = 0


class TimerFired(Body, frozen=True):
    """The time has come."""

    KIND = "timer_fired"
    key: str = ""
    fired_at_us: int = 0


class GateOpened(Body, frozen=True):
    """The code waits for a signal or a person's answer."""

    KIND = "gate_opened"
    key: str = ""
    position: int = 0
    name: str = ""
    digest: str = ""
    deadline_us: int | None = None
    prompt: Json = "null"


class GateResolved(Body, frozen=True):
    """The code goes on: it was answered, or the time is over."""

    KIND = "gate_resolved"
    key: str = ""
    outcome: str = ""
    external_id: bytes | None = None
    payload: Json = "null"
    actor: str | None = None
    reason: str | None = None


class ChildSpawned(Body, frozen=True):
    """The code starts another process."""

    KIND = "child_spawned"
    key: str = ""
    position: int = 0
    name: str = ""
    digest: str = ""
    child_id: str = ""
    agent: str = ""
    version: str = ""
    input: Json = "null"


class ChildEnded(Body, frozen=True):
    """The result of a child was taken in."""

    KIND = "child_ended"
    key: str = ""
    outcome: str = ""
    result: Json = "null"
    error: Json | None = None


class EffectIntended(Body, frozen=True):
    """Something outside is about to be changed; confirmed before the call."""

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
    """A person or a dispatcher reports the outcome of an effect."""

    KIND = "effect_verdict"
    EXTERNAL = True
    key: str = ""
    outcome: str = ""
    output: Json = "null"
    error: Json | None = None
    reason: str | None = None
    idempotency_key: str = ""


class ObligationRegistered(Body, frozen=True):
    """An effect has to be undone should the process be cancelled or fail."""

    KIND = "obligation_registered"
    key: str = ""
    name: str = ""
    arguments: Json = "null"


class ObligationSettled(Body, frozen=True):
    """An effect was undone, no longer has to be undone, or could not be undone."""

    KIND = "obligation_settled"
    key: str = ""
    outcome: str = ""


class CancelAccepted(Body, frozen=True):
    """The process accepts a request to cancel: its code has to stop."""

    KIND = "cancel_accepted"
    external_id: bytes | None = None
    reason: str | None = None


class CallsSetAside(Body, frozen=True):
    """Failed calls have to be made again: their failures no longer answer the code."""

    KIND = "calls_set_aside"
    keys: Json = "[]"
    reason: str | None = None


class PatchMarked(Body, frozen=True):
    """From here on the process runs the changed code."""

    KIND = "patch_marked"
    id: str = ""


class Diverged(Body, frozen=True):
    """The code asked for something else than its history has, and was allowed to go on."""

    KIND = "diverged"
    key: str = ""
    position: int = 0
    kind: str = ""
    expected: Json = "null"
    actual: Json = "null"


class TurnEnded(Body, frozen=True):
    """A turn of the agent's loop is done; its calls leave the state."""

    KIND = "turn_ended"
    number: int = 0


class BudgetSet(Body, frozen=True):
    """The limits of what the process may use."""

    KIND = "budget_set"
    limits: Json = "{}"
    day_limits: Json = "{}"
    warn_at: str = "0.8"
    on_exceed: str = "fail"


class BudgetNoted(Body, frozen=True):
    """A budget was nearly used up, used up, raised, or given back."""

    KIND = "budget_noted"
    kind: str = ""
    dimension: str = ""
    scope: str = "run"
    key: str | None = None
    amount: str = "0"
    limit: str = "0"
    actor: str | None = None


class ContentBatch(Body, frozen=True):
    """All changes of a turn or an invocation to context and conversation."""

    KIND = "content_batch"
    cleared: bool = False
    values: Mapping[str, Json] = field(default_factory=dict)
    deleted: Json = "[]"
    messages: Json = "[]"
    call: str | None = None


class SharedSet(Body, frozen=True):
    """Somebody sets a shared value; log order decides. Its process is called ``shared:NAME``, and nobody's."""

    KIND = "shared_set"
    EXTERNAL = True
    name: str = ""
    expected_version: int = -1
    value: Json = "null"
