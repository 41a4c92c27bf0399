"""The bodies of a process itself: claims, mail, lifecycle, content, invocations, rewinds, forks, seeds.

Dynamic values are JSON text (see ``values.json_values``).
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import field

from seekpoint.schemas.bodies.body import Body, Data, Json

__all__ = [
    "CancelRequested",
    "Claim",
    "ContextCleared",
    "ContextDeleted",
    "ContextPatched",
    "ContextUpdated",
    "ContextUpdatedMany",
    "Custom",
    "Deleted",
    "Detached",
    "ErrorRecorded",
    "Finished",
    "Forked",
    "InvocationEnded",
    "InvocationStarted",
    "InvocationTriggered",
    "LifecycleChanged",
    "MessageSaid",
    "PartAttached",
    "Promoted",
    "Received",
    "RedriveRequested",
    "Released",
    "ResumeRequested",
    "Rewound",
    "Seeded",
    "Signal",
    "Submitted",
    "SuspendRequested",
]

NIL_ID = bytes(16)


class Claim(Body, frozen=True):
    """A node's request to own the process. It wins if ``expected_epoch`` is the process's epoch at its offset."""

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
    """A message to the process."""

    KIND = "signal"
    EXTERNAL = True
    name: str = ""
    payload: Json = "null"


class CancelRequested(Body, frozen=True):
    """A request to cancel the process."""

    KIND = "cancel_requested"
    EXTERNAL = True
    reason: str | None = None


class Submitted(Body, frozen=True):
    """Somebody asks for a run of an agent as the process; a worker begins it, at ``start_at_us`` or later."""

    KIND = "submitted"
    EXTERNAL = True
    agent: str = ""
    input: Json = "null"
    priority: int = 0
    start_at_us: int | None = None
    correlation_id: str | None = None
    trace_parent: str | None = None
    spawned_by: str | None = None


class SuspendRequested(Body, frozen=True):
    """Somebody puts the process on hold: nobody runs it before a ``ResumeRequested``."""

    KIND = "suspend_requested"
    EXTERNAL = True
    reason: str | None = None


class ResumeRequested(Body, frozen=True):
    """Somebody ends the hold: the process may be run again."""

    KIND = "resume_requested"
    EXTERNAL = True
    reason: str | None = None


class RedriveRequested(Body, frozen=True):
    """Somebody asks for another attempt of a failed run: its failed calls are made again, what succeeded stays.

    With ``in_doubt``, steps and decisions in doubt are made anew too, with all their attempts. So are the failed
    effects whose keys are in ``effects``, where that cannot do anything twice.
    """

    KIND = "redrive_requested"
    EXTERNAL = True
    reason: str | None = None
    in_doubt: bool = False
    effects: Json | None = None


class Received(Body, frozen=True):
    """The owner's receipt of an external entry, which leaves the mailbox: from here on the agent has seen it.

    With a ``key``, a call of an agent's code received it, for ``name`` (None: any name). With the nil id, none came.
    """

    KIND = "received"
    external_id: bytes = NIL_ID
    key: str | None = None
    position: int = 0
    digest: str = ""
    name: str | None = None


class Released(Body, frozen=True):
    """The release of the process by its owner."""

    KIND = "released"
    OWNERSHIP = True
    reason: str | None = None
    mail_seen: bytes | None = None


class Finished(Body, frozen=True):
    """The end of the process; its state becomes a gravestone."""

    KIND = "finished"
    IS_TIMED = True
    result: Json = "null"


class Deleted(Body, frozen=True):
    """The deletion of all that the process holds; what is written next begins it anew, under the next seq."""

    KIND = "deleted"
    IS_TIMED = True
    reason: str | None = None


class LifecycleChanged(Body, frozen=True):
    """A transition of the process to another lifecycle state."""

    KIND = "lifecycle_changed"
    IS_TIMED = True
    to: str = ""
    reason: str | None = None
    call: str | None = None
    retry_at_us: int | None = None


class ContextUpdated(Body, frozen=True):
    """The update of one context value."""

    KIND = "context_updated"
    key: str = ""
    value: Json = "null"
    call: str | None = None


class ContextUpdatedMany(Body, frozen=True):
    """The update of several context values at once."""

    KIND = "context_updated_many"
    values: Mapping[str, Json] = field(default_factory=dict)
    call: str | None = None


class ContextDeleted(Body, frozen=True):
    """The deletion of one context value."""

    KIND = "context_deleted"
    key: str = ""
    call: str | None = None


class ContextPatched(Body, frozen=True):
    """The change of the context by an RFC 7386 merge patch."""

    KIND = "context_patched"
    patch: Json = "{}"
    call: str | None = None


class ContextCleared(Body, frozen=True):
    """The deletion of all context values."""

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
    """A trigger for the agent's next invocation."""

    KIND = "invocation_triggered"
    trigger: str = ""
    payload: Json = "null"
    call: str | None = None


class InvocationStarted(Body, frozen=True):
    """The start of the invocation for the newest trigger."""

    KIND = "invocation_started"
    attempt: int = 1
    call: str | None = None


class InvocationEnded(Body, frozen=True):
    """The end of the invocation for the newest trigger."""

    KIND = "invocation_ended"
    outcome: str = ""
    duration_us: int = 0
    result: Json = "null"
    error: str | None = None
    call: str | None = None


class ErrorRecorded(Body, frozen=True):
    """An exception that the agent's code raised."""

    KIND = "error_recorded"
    type: str = ""
    message: str = ""
    traceback: str | None = None
    where: str | None = None
    call: str | None = None
    failed: Json | None = None


class Custom(Body, frozen=True):
    """An entry with a kind and a payload that the user defines."""

    KIND = "custom"
    kind: str = ""
    payload: Json = "null"
    call: str | None = None


class PartAttached(Body, frozen=True):
    """The next part of an attachment of ``size`` bytes, from byte ``start`` on; ``digest`` is the SHA-256 of the whole.

    With the last part the attachment can be read. With a ``store``, the bytes are in that blob store, not here.
    """

    KIND = "part_attached"
    digest: str = ""
    size: int = 0
    start: int = 0
    data: Data = b""
    media_type: str = ""
    store: str = ""


class Detached(Body, frozen=True):
    """Attachments that the process does not need any more, by their digests."""

    KIND = "detached"
    digests: Json = "[]"


class Rewound(Body, frozen=True):
    """The rewind of the content to that after an earlier seq; the history stays.

    ``mode`` says which part of ``content`` counts: all of it, or the conversation only. The content may have other
    answers than the calls in ``answers`` had.
    """

    KIND = "rewound"
    IS_TIMED = True
    RESTORES = True
    to_seq: int = 0
    content: str = "{}"  # JSON text that the fold decodes; no dynamic value
    mode: str = "both"
    answers: Json | None = None  # the keys, a list
    reason: str | None = None


class Forked(Body, frozen=True):
    """The start of a process with the content of another one, and as a run of that process's agent.

    The content may have other answers than the parent's, to the calls in ``answers``. ``permissive``: it has the
    records of the parent's later calls too. ``rerun_of``: it runs that process again from its start, perhaps with
    another ``input``, and its requests name ``model`` instead of their own model.
    """

    KIND = "forked"
    IS_TIMED = True
    RESTORES = True
    parent_id: str = ""
    parent_seq: int = 0
    content: str = "{}"  # JSON text that the fold decodes; no dynamic value
    agent: str | None = None
    version: str = ""
    definition: str = ""
    input: Json = "null"
    effects: str = "refused"
    permissive: bool = False
    answers: Json | None = None  # the keys, a list
    reason: str | None = None
    rerun_of: str | None = None
    model: str | None = None


class ParentAnswered(Body, frozen=True):
    """The calls of a fork's run that records of its parent answered, by their keys in the parent."""

    KIND = "parent_answered"
    keys: Json = "[]"


class Promoted(Body, frozen=True):
    """The merge of what a fork did into the process it was forked from; ``content`` is the merged content."""

    KIND = "promoted"
    IS_TIMED = True
    RESTORES = True
    fork_id: str = ""
    fork_seq: int = 0
    content: str = "{}"  # JSON text that the fold decodes; no dynamic value
    reason: str | None = None


class Seeded(Body, frozen=True):
    """The state of a process at the start of a replay. It counts only as the first entry of the replayed process."""

    KIND = "seeded"
    RESTORES = True
    EXTERNAL = True
    OWNERSHIP = True
    state: str = "{}"  # JSON text of ``State.to_bytes``, which the fold decodes
