"""Bodies about a process itself: claims, mail, lifecycle, content, invocations, rewinds, forks, seeds.

Dynamic values are JSON text (see ``values.json_values``).
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import field

from seekpoint.schemas.bodies.body import Body, Json

__all__ = [
    "CancelRequested",
    "Claim",
    "ContextCleared",
    "ContextDeleted",
    "ContextPatched",
    "ContextUpdated",
    "ContextUpdatedMany",
    "Custom",
    "ErrorRecorded",
    "Finished",
    "Forked",
    "InvocationEnded",
    "InvocationStarted",
    "InvocationTriggered",
    "LifecycleChanged",
    "MessageSaid",
    "Received",
    "Released",
    "Rewound",
    "Seeded",
    "Signal",
]

NIL_ID = bytes(16)


class Claim(Body, frozen=True):
    """A node asks to own the process; won if ``expected_epoch`` is the process's epoch when it is read."""

    KIND = "claim"
    EXTERNAL = True
    OWNERSHIP = True
    expected_epoch: int = 0
    node_id: str = ""
    boot_id: str = ""
    accept_degraded: bool = False
    old_claim_id: bytes | None = None
    abandon_from_seq: int | None = None
    agent: str | None = None
    agent_version: str | None = None
    definition: str | None = None


class Signal(Body, frozen=True):
    """Somebody sends a message to the process."""

    KIND = "signal"
    EXTERNAL = True
    name: str = ""
    payload: Json = "null"


class CancelRequested(Body, frozen=True):
    """Somebody asks the process to stop."""

    KIND = "cancel_requested"
    EXTERNAL = True
    reason: str | None = None


class Received(Body, frozen=True):
    """The owner took an external entry out of the mailbox: from here on the agent has seen it.

    With a ``key``, a call of an agent's code did, which asked for ``name`` (None: whatever comes); no id: none came.
    """

    KIND = "received"
    external_id: bytes = NIL_ID
    key: str | None = None
    position: int = 0
    digest: str = ""
    name: str | None = None


class Released(Body, frozen=True):
    """The owner gives the process up."""

    KIND = "released"
    OWNERSHIP = True
    reason: str | None = None


class Finished(Body, frozen=True):
    """The process is done; its state becomes a gravestone."""

    KIND = "finished"
    result: Json = "null"


class LifecycleChanged(Body, frozen=True):
    """The process moves to another lifecycle state."""

    KIND = "lifecycle_changed"
    to: str = ""
    reason: str | None = None
    call: str | None = None


class ContextUpdated(Body, frozen=True):
    """One context value is set."""

    KIND = "context_updated"
    key: str = ""
    value: Json = "null"
    call: str | None = None


class ContextUpdatedMany(Body, frozen=True):
    """Several context values are set at once."""

    KIND = "context_updated_many"
    values: Mapping[str, Json] = field(default_factory=dict)
    call: str | None = None


class ContextDeleted(Body, frozen=True):
    """One context value is removed."""

    KIND = "context_deleted"
    key: str = ""
    call: str | None = None


class ContextPatched(Body, frozen=True):
    """The context is changed by an RFC 7386 merge patch."""

    KIND = "context_patched"
    patch: Json = "{}"
    call: str | None = None


class ContextCleared(Body, frozen=True):
    """All context values are removed."""

    KIND = "context_cleared"
    call: str | None = None


class MessageSaid(Body, frozen=True):
    """One message of the conversation."""

    KIND = "message_said"
    role: str = ""
    content: str | None = None
    parts: Json | None = None
    tool_calls: Json | None = None
    tool_call_id: str | None = None
    name: str | None = None
    call: str | None = None


class InvocationTriggered(Body, frozen=True):
    """Something wants the agent to work."""

    KIND = "invocation_triggered"
    trigger: str = ""
    payload: Json = "null"
    call: str | None = None


class InvocationStarted(Body, frozen=True):
    """The agent begins to work on the newest trigger."""

    KIND = "invocation_started"
    attempt: int = 1
    call: str | None = None


class InvocationEnded(Body, frozen=True):
    """The agent ended its work on the newest trigger."""

    KIND = "invocation_ended"
    outcome: str = ""
    duration_us: int = 0
    result: Json = "null"
    error: str | None = None
    call: str | None = None


class ErrorRecorded(Body, frozen=True):
    """The agent's code raised out of its process."""

    KIND = "error_recorded"
    type: str = ""
    message: str = ""
    traceback: str | None = None
    where: str | None = None
    call: str | None = None
    failed: Json | None = None


class Custom(Body, frozen=True):
    """An entry of the user's own."""

    KIND = "custom"
    kind: str = ""
    payload: Json = "null"
    call: str | None = None


class Rewound(Body, frozen=True):
    """The content is what it was after an earlier seq; the history stays."""

    KIND = "rewound"
    RESTORES = True
    to_seq: int = 0
    content: str = "{}"  # JSON text, but no dynamic value: the fold reads it itself


class Forked(Body, frozen=True):
    """The process starts with another's content, and as a run of the agent that the other one began with."""

    KIND = "forked"
    RESTORES = True
    parent_id: str = ""
    parent_seq: int = 0
    content: str = "{}"  # JSON text, but no dynamic value: the fold reads it itself
    agent: str | None = None
    version: str = ""
    definition: str = ""
    input: Json = "null"


class Seeded(Body, frozen=True):
    """A replayed process starts from the state it had where the replay starts; counts as its very first entry only."""

    KIND = "seeded"
    RESTORES = True
    EXTERNAL = True
    OWNERSHIP = True
    state: str = "{}"  # JSON text, as ``State.to_bytes`` gives it: the fold reads it itself
