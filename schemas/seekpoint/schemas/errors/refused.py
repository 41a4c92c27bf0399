"""Errors of a call that is wrong, or comes at the wrong moment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from seekpoint.schemas.errors.error_base import SeekpointError


class Refused(SeekpointError):
    """The input is wrong, or comes at the wrong moment: change the call."""

    hint = "change the call"
    agent: str | None = None
    asked: str | None = None
    call: str | None = None
    file: str | None = None
    found: object = None
    kind: str | None = None
    lifecycle: str | None = None
    line: int | None = None
    name: str | None = None
    scope: str | None = None
    to_seq: int | None = None
    type: str | None = None


class EffectsStand(Refused):
    """Another answer was given to a call that effects followed, and nobody said what becomes of these."""

    hint = "compensate them first, or keep them as facts"
    keys: list[str] | None = None


class ChildrenStand(Refused):
    """A promotion would leave child processes of the parent (``children``) running, and its calls without a record of
    them."""

    hint = "let them end, or cancel them: seekpoint cancel CHILD_ID"
    children: list[str] | None = None


class MergeConflict(Refused):
    """A fork and its parent have both changed ``parts`` of the content since the fork."""

    hint = "say which side wins: --prefer fork, --prefer parent, or --prefer PART=fork for one part"
    fork_id: str | None = None
    parts: list[str] | None = None


class UnserializableValue(Refused):
    """JSON cannot carry a value exactly; ``path`` says where in the input the value is."""

    hint = "convert it first (dataclasses.asdict, .model_dump(), str()), or leave it out"
    path: str = ""


class InvalidValue(Refused):
    """A value does not fit its annotation ``expected``; ``path`` says where. Of an input: nothing was written. Of a
    result: the call was made, and its failure is recorded."""

    hint = "give a value that fits, or change the annotation"
    path: str = ""
    expected: str | None = None


class RecordedValueInvalid(InvalidValue):
    """A recorded value does not fit the annotation that the code has now. The record stays as it is."""

    hint = "give new fields a default, and keep those that records have; then run it again"


class InputMisfit(InvalidValue):
    """The input of a run that was submitted by the agent's name does not fit the agent; ``path`` names the field. No
    call was made."""

    hint = "submit another id with an input that fits"


class LimitExceeded(Refused):
    """A value, a record or a state exceeds the journal's limits. It was not written. ``key`` names the call that was
    executed, and whose result is too large."""

    hint = "make it smaller, or keep the value elsewhere and journal a reference to it"
    bytes: int | None = None
    items: int | None = None
    limit: int | None = None
    path: str | None = None


class InvalidName(Refused):
    """A process id, key, journal name or kind is not allowed."""

    hint = "use 1 to 200 bytes of UTF-8 without control characters"
    bytes: int | None = None
    character: str | None = None
    id: str | None = None
    normal: str | None = None
    place: str | None = None


class IllegalTransition(Refused):
    """A process cannot change from its lifecycle state into the one that was asked for."""

    hint = "see docs/reference/lifecycle.md"


class IllegalCall(Refused):
    """An entry does not fit the calls of its process: an end without a start, a second end, an attempt out of order, or
    a budget without a limit. Nothing was written."""

    hint = "let process.step, decide, effect and the like write these entries, and await each before its turn ends"


class AlreadyOpen(Refused):
    """The process is already open on this node. A process has one handle at a time."""

    hint = "use the handle there is, or leave its `async with` first; if an agent runs as it, wait, or suspend it"


class OwnerAlive(Refused):
    """The process's owner looks alive: the heartbeat of its node moves."""

    hint = "wait for it, or fence it (take_over=True): seekpoint recover PROCESS_ID --claim --take-over"
    node: str | None = None


class ProcessFinished(Refused):
    """The process is finished. Its result stays readable; its id is never used again."""

    hint = "read its result with seekpoint state PROCESS_ID, or fork it to a new id"


class ProcessSuspended(Refused):
    """Somebody suspended the process: no worker and no ``node.run`` runs it before somebody resumes it."""

    hint = "resume it: seekpoint resume PROCESS_ID"
    reason: str | None = None
    actor: str | None = None


class AgentMismatch(Refused):
    """The process, finished or not, began with another agent or another input; ``kind`` says which. Its result is not
    the one that was asked for. Nothing was run and nothing was written. Another version of the agent is no mismatch."""

    hint = "use another id; or run it with the agent it began with, and leave the input out to take the recorded one"
    difference: str | None = None


class Cancelled(Refused):
    """The process was asked to stop, with this ``reason``. It begins no further call and does not run again. What the
    code awaits raises the error, and so does each further call; let it end the run."""

    hint = "let it end the run; to go on from where it was, fork the process to a new id"
    reason: str | None = None


class GateNotOpen(Refused):
    """No gate of this name or key is open (``open`` lists the gates that are), or the gate was already answered
    (``outcome``, ``actor``, ``reason`` and ``at`` say how, by whom, why and when). Nothing was sent."""

    hint = (
        "answer one that is open: seekpoint gates ls PROCESS_ID; "
        "or one that is still to come: --in-advance (in_advance=True)"
    )
    gate: str | None = None
    open: str | None = None
    outcome: str | None = None
    actor: str | None = None
    reason: str | None = None
    at: str | None = None


class VersionConflict(Refused):
    """A shared value does not have the expected version; ``version`` is the one that it has. Nothing was set."""

    hint = "get it again, decide again, and set it with the version it has"
    name: str
    version: int
    expected_version: int | None = None


class AppendConflict(Refused):
    """Another entry than the expected one is the newest of a process that several nodes write to. Nothing was written.
    ``seq`` is the newest entry's, and ``state`` is the process's state with it."""

    hint = "decide again by the error's state, and append with expected_seq=error.seq"
    expected_seq: int | None = None
    state: Any = None
    """The ``State`` as of the conflict. It is not a fact."""

    _not_facts: ClassVar[frozenset[str]] = SeekpointError._not_facts | {"state"}


class UnknownProcess(Refused):
    """The process does not exist: the whole log was read."""

    hint = "check the id and the journal's name: seekpoint ps"
    low: int | None = None
    high: int | None = None


class UnknownAttachment(Refused):
    """The process has no attachment with this ``digest``: it was never attached as a whole, or it was detached."""

    hint = "attach the bytes again, or read the reference in the process that it names"
    digest: str | None = None
    received: int | None = None
    size: int | None = None


class UnknownPoint(Refused):
    """The process has no such point in its past: a seq that it never applied, or an offset or a time beyond its
    history."""

    hint = "see which points there are: seekpoint log PROCESS_ID"
    at_seq: int | None = None
    low: int | None = None
    high: int | None = None


class TierUnavailable(Refused):
    """The requested recovery tier is not available; the message says why."""

    hint = "ask for another tier, or for none"
    tier: str | None = None


class EffectDuplicate(Refused):
    """Another effect did the same thing, or is doing it: one of this connector with this business key (``holder`` and
    ``holder_key`` name it), or another request that the reconciler found. Nothing was called."""

    hint = "look at the other one: seekpoint effects show PROCESS_ID KEY"
    connector: str | None = None
    business_key: str | None = None
    holder: str | None = None
    holder_key: str | None = None
    settled_by: str | None = None


class EffectFailed(Refused):
    """An effect did not happen. ``settled_by`` (a reconciler, a dispatcher or a person) says so, with a ``reason``."""

    hint = "do something else, or the same again as an effect of its own"
    settled_by: str | None = None
    actor: str | None = None
    reason: str | None = None


class UnknownConnector(Refused):
    """The journal names a connector or a compensation that this program has not registered. Nothing was called."""

    hint = "register it before the process is opened: connectors.register(Connector(name, ...))"
    connector: str | None = None
    compensation: str | None = None
    known: Sequence[str] | None = None


class ReplayRefused(Refused):
    """A replay is not safe, or would not do what was asked for. Nothing more was written."""

    hint = "see docs/replay.md"
    bytes: int | None = None
    cluster_id: str | None = None
    codec: str | None = None
    distance_ms: int | None = None
    expected: str | None = None
    job: str | None = None
    limit: int | None = None
    limit_ms: int | None = None
    low: int | None = None
    oldest_ms: int | None = None
    path: str | None = None
    prefix: str | None = None
    processes: int | None = None
    reason: str | None = None
    retention_ms: int | None = None
    source: str | None = None
    source_partitions: int | None = None
    target: str | None = None
    target_partitions: int | None = None
    topic_id: str | None = None


class InvalidOption(Refused):
    """A call was given an option that neither it nor the function takes, or that both take. Nothing was recorded."""

    hint = "see docs/guides/types.md"
    option: str | None = None
    call: str | None = None
    """The function that was to be called."""


class InvalidSetting(Refused):
    """A setting does not exist, cannot be parsed, or must not be changed because a guarantee depends on it."""

    hint = "see docs/settings.md"
    setting: str | None = None
    value: object = None
    attempts: int | None = None
    backoff_s: float | None = None
    bootstrap_servers: str | None = None
    directory: str | None = None
    expected: int | None = None
    factor: float | None = None
    fold: str | None = None
    heartbeat_interval_s: float | None = None
    jitter: float | None = None
    kinds: str | None = None
    known: str | Sequence[str] | None = None
    max_attempts: int | None = None
    missing: str | None = None
    model: str | None = None
    on_exceed: str | None = None
    owner_timeout_s: float | None = None
    part: str | None = None
    partitions: int | None = None
    path: str | None = None
    regex: str | None = None
    retry: str | None = None
    semantics: str | None = None
    timeout: str | None = None
    usage: str | None = None
    where: str | None = None
