"""Submissions of runs: what travels through ``NAME.inbox``, from a client to the worker of the process's partition.

A submission is no entry. A worker writes the ``Submitted`` entry with the same id, and then commits the offset.
"""

from __future__ import annotations

from seekpoint.schemas.bodies import Json, Submitted
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.config.limits import DEFAULT_LIMITS, Limits
from seekpoint.schemas.errors import LimitExceeded, UndecodableRecord
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.values.json_values import check
from seekpoint.schemas.wire.service_messages import ID, LONG, OPTIONAL_LONG, OPTIONAL_TEXT, TEXT, MessageForm


class SubmissionRecord(FrozenStruct, frozen=True, kw_only=True):
    """Somebody submits a run of an agent. Times are microseconds since 1970."""

    id: bytes
    """16 bytes; the same when it is sent again, and that of its ``Submitted`` entry."""
    process_id: str
    agent: str
    input: Json = "null"
    priority: int = 0
    start_at_us: int | None = None
    actor: str | None = None
    correlation_id: str | None = None
    trace_parent: str | None = None
    """The span that submitted it, as a W3C traceparent."""
    spawned_by: str | None = None
    """The process whose child it is."""
    ts: int


SUBMISSION = MessageForm(
    "d2b0c4c672b49fc4",
    id=ID, process_id=TEXT, agent=TEXT, input=TEXT, priority=LONG, start_at_us=OPTIONAL_LONG, actor=OPTIONAL_TEXT,
    correlation_id=OPTIONAL_TEXT, trace_parent=OPTIONAL_TEXT, spawned_by=OPTIONAL_TEXT, ts=LONG,
)  # fmt: skip


def encode_submission(submission: SubmissionRecord) -> bytes:
    """Return ``submission`` in single-object encoding. Raises ``InvalidName``, ``UnserializableValue``."""
    return SUBMISSION.encode(submission)


def decode_submission(data: bytes | None, limits: Limits = DEFAULT_LIMITS) -> SubmissionRecord:
    """Return the submission in ``data``. Raises ``UndecodableRecord`` for anything else."""
    found = SUBMISSION.decode(data, SubmissionRecord, limits)
    try:
        check(found.input, limits)
    except LimitExceeded as exc:
        raise UndecodableRecord(f"a submission whose input is too large: {exc.message}") from exc
    return found


def submitted_entry(record: SubmissionRecord) -> Entry:
    """Return the entry that a worker appends for a submission."""
    body = Submitted(
        record.agent, record.input, record.priority, record.start_at_us, record.correlation_id, record.trace_parent,
        record.spawned_by,
    )  # fmt: skip
    return Entry(
        record.id, record.process_id, None, 0, None, None, record.ts, record.actor, None, record.correlation_id, body
    )
