"""The parts of a state that are more than one value: frozen, handed out as they are."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from seekpoint.schemas.bodies import Json
from seekpoint.schemas.frozen_struct import built
from seekpoint.schemas.state.mask_shapes import (
    FACTS,
    PLAIN,
    PROCESS_ID,
    case,
    embedded,
    json,
    optional_json,
    optional_text,
    text,
)
from seekpoint.schemas.state.state_values import Count, EntryId, StateValue
from seekpoint.schemas.values.json_values import load

__all__ = [
    "Attachment",
    "Degraded",
    "Failure",
    "HoldRequest",
    "InvocationState",
    "Lineage",
    "MailItem",
    "Submission",
    "mail_item",
]


class Degraded(StateValue, frozen=True):
    """The reason why a process is degraded and a person has to look.

    ``gap``: owner entries are missing. All else is a body that does not fit: ``illegal_transition``,
    ``illegal_invocation``, ``illegal_patch``, ``illegal_content``, ``illegal_call``, ``illegal_attachment``,
    ``state_limit``, ``attachment_limit``.
    """

    reason: Annotated[str, text("degraded", "reason")]
    expected_seq: int
    found_seq: int
    detail: Annotated[str, text("degraded", "detail")] = ""
    earlier: Degraded | None = None
    """A gap's only: what the process was degraded for before. An owner that heals the gap does not heal this."""


class InvocationState(StateValue, frozen=True):
    """The invocation in progress."""

    trigger: Annotated[str, text("trigger")]
    payload_json: Annotated[Json, json("payload")]
    started: bool = False

    @property
    def payload(self) -> Any:
        """Return a fresh copy of the trigger's payload."""
        return load(self.payload_json)


_NAME = {"cancel_requested": text("reason"), "signal": text("name")}
_PAYLOAD = dict.fromkeys(("cancel_requested", "signal"), json("payload"))


class MailItem(StateValue, frozen=True):
    """An external entry that waits for the owner."""

    id: EntryId
    kind: Annotated[str, PLAIN]
    name: Annotated[str, case("kind", _NAME, text("key"))]
    payload_json: Annotated[Json, case("kind", _PAYLOAD, embedded(FACTS))]
    actor: Annotated[str | None, optional_text("actor")] = None

    @property
    def payload(self) -> Any:
        """Return a fresh copy of the payload that was sent."""
        return load(self.payload_json)


built(MailItem)


def mail_item(found: Any) -> MailItem:
    """Return the item in the JSON values ``found``. Raises ``ValueError`` if they are none."""
    return msgspec.convert(found, MailItem)


class Submission(StateValue, frozen=True):
    """A run that was submitted and has not begun: the agent, its input, and when it may begin."""

    id: EntryId
    """Of its entry."""
    agent: Annotated[str, text("agent")]
    input_json: Annotated[Json, json("input")]
    priority: int = 0
    start_at_us: int | None = None
    actor: Annotated[str | None, optional_text("actor")] = None
    correlation_id: Annotated[str | None, optional_text("correlation_id")] = None
    trace_parent: Annotated[str | None, optional_text("trace_parent")] = None
    """The span that submitted it, as a W3C traceparent."""
    spawned_by: Annotated[str | None, PROCESS_ID] = None
    """The process whose child it is."""

    @property
    def input(self) -> Any:
        """Return a fresh copy of the input."""
        return load(self.input_json)


class Attachment(StateValue, frozen=True):
    """A large value of the process, under its digest: its bytes are in entries of the process, or in a blob store."""

    size: Count
    media_type: Annotated[str, text("media_type")] = ""
    received: Count = 0
    """How many of its bytes the log has."""
    parts: Count = 0
    """In how many entries they are."""
    store: Annotated[str, text("store")] = ""
    """The blob store that has the bytes; empty: the log has them."""

    @property
    def is_whole(self) -> bool:
        """Whether all bytes are there. An attachment whose writer died before is not, and cannot be read."""
        return self.received == self.size


class RunFailures(StateValue, frozen=True):
    """The count of failed runs of the process, and the time of the next try."""

    count: Count
    seq: int
    """Of the newest one."""
    retry_at_us: int | None = None
    """When the run is tried again by itself, in microseconds since 1970; None: not by itself."""


class RedriveRequest(StateValue, frozen=True):
    """The newest request for another attempt of the failed run. The owner that begins the attempt clears it."""

    id: EntryId
    reason: Annotated[str | None, optional_text("reason")] = None
    actor: Annotated[str | None, optional_text("actor")] = None
    in_doubt: bool = False
    """Whether steps and decisions in doubt are set aside too."""
    effects: Annotated[Json | None, optional_json("effects")] = None
    """The keys of the failed effects that are set aside too, as a list."""


class HoldRequest(StateValue, frozen=True):
    """The newest request to suspend the process, or to resume it. An owner that runs it after a resume clears it."""

    id: EntryId
    action: Annotated[str, PLAIN]
    """``suspend`` or ``resume``."""
    reason: Annotated[str | None, optional_text("reason")] = None
    actor: Annotated[str | None, optional_text("actor")] = None


class Failure(StateValue, frozen=True):
    """The newest exception that left the process's code."""

    seq: int
    """Of its entry: ``seekpoint log PROCESS_ID`` shows it with its traceback."""
    type: Annotated[str, text("type")]
    message: Annotated[str, text("message")]
    where: Annotated[str | None, optional_text("where")] = None
    """File, line, function and source line of the user's code it came from."""


class Lineage(StateValue, frozen=True):
    """The origin of the process: what it was forked from, who spawned it, the seq of its last rewind."""

    parent_id: Annotated[str | None, PROCESS_ID] = None
    parent_seq: int | None = None
    rewound_to_seq: int | None = None
    rewinds: Count = 0
    effects: Annotated[str, PLAIN] = ""
    """What becomes of an effect that no record answers: ``refused``, ``recorded`` (refused too), ``live``; "" if the
    process is no fork: it is called."""
    reason: Annotated[str | None, optional_text("reason")] = None
    """Why it was forked."""
    rerun_of: Annotated[str | None, PROCESS_ID] = None
    """The process that it runs again; None: it is no rerun."""
    model: Annotated[str | None, optional_text("model")] = None
    """The model that its requests name instead of their own; None: their own."""
    spawned_by: Annotated[str | None, PROCESS_ID] = None
    """The process that spawned it as a child."""
    seq_base: Count = 0
    """What is added to a seq where a call has it. So the calls that a fork inherits come before its own."""
