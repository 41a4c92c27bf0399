"""Send submissions of runs to the inbox."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from seekpoint.producers.writer.outbox import Outbox
from seekpoint.schemas.errors import LimitExceeded, Retryable
from seekpoint.schemas.log.log_ports import LogReader
from seekpoint.schemas.log.manifest import refuse_older_format
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.log.submissions import SubmissionRecord, encode_submission, submitted_entry
from seekpoint.schemas.values.process_ids import named_process_key
from seekpoint.schemas.wire.codec import encode_within

if TYPE_CHECKING:
    from seekpoint.producers.tracing.tracer import Tracer

_ATTEMPTS = 3


def check_submission(submission: SubmissionRecord, reader: LogReader) -> None:
    """Raise ``LimitExceeded`` if a submission, or the entry that a worker writes for it, is too large.

    Raises ``OlderFormat`` if workers of this version may not write into the journal.
    """
    refuse_older_format(reader.name, reader.journal_format)
    limits = reader.limits
    encode_within(submitted_entry(submission), named_process_key(submission.process_id), limits)
    if (size := len(encode_submission(submission))) > limits.record_bytes:
        raise LimitExceeded("the submission is larger than a record may be", bytes=size, limit=limits.record_bytes)


async def send_submission(
    submission: SubmissionRecord, reader: LogReader, inbox: Outbox, tracer: Tracer | None = None
) -> None:
    """Append a submission to the inbox. Appended twice, it is one: both records have one id.

    With a ``tracer`` it carries the span of its sending, if it has room for that.
    """
    if tracer is None:
        await _send(submission, reader, inbox)
        return
    with tracer.sending("inbox", submission.process_id, submission.id) as span:
        traced = replace(submission, trace_parent=span.trace_parent)
        span.at(*await _send(traced if _fits(traced, reader) else submission, reader, inbox))


def _fits(submission: SubmissionRecord, reader: LogReader) -> bool:
    try:
        check_submission(submission, reader)
    except LimitExceeded:
        return False
    return True


async def _send(submission: SubmissionRecord, reader: LogReader, inbox: Outbox) -> tuple[int, int]:
    """Append the submission; return its partition and offset."""
    key = named_process_key(submission.process_id)
    value, partition = encode_submission(submission), partition_of(key, reader.partitions)
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return partition, await inbox.push_external(partition, key, value)
        except Retryable:
            if attempt == _ATTEMPTS:
                raise
    raise AssertionError("the last attempt returns or raises")
