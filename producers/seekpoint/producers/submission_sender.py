"""Send submissions of runs to the inbox."""

from __future__ import annotations

from seekpoint.producers.writer.outbox import Outbox
from seekpoint.schemas.errors import LimitExceeded, Retryable
from seekpoint.schemas.log.log_ports import LogReader
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.log.submissions import SubmissionRecord, encode_submission, submitted_entry
from seekpoint.schemas.values.process_ids import named_process_key
from seekpoint.schemas.wire.codec import encode_within

__all__ = ["check_submission", "send_submission"]

_ATTEMPTS = 3


def check_submission(submission: SubmissionRecord, reader: LogReader) -> None:
    """Raise ``LimitExceeded`` if a submission, or the entry that a worker writes for it, is too large."""
    limits = reader.limits
    encode_within(submitted_entry(submission), named_process_key(submission.process_id), limits)
    if (size := len(encode_submission(submission))) > limits.record_bytes:
        raise LimitExceeded("the submission is larger than a record may be", bytes=size, limit=limits.record_bytes)


async def send_submission(submission: SubmissionRecord, reader: LogReader, inbox: Outbox) -> None:
    """Append a submission to the inbox. Appended twice, it is one: both records have one id."""
    key = named_process_key(submission.process_id)
    value, partition = encode_submission(submission), partition_of(key, reader.partitions)
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            await inbox.push_external(partition, key, value)
            return
        except Retryable:
            if attempt == _ATTEMPTS:
                raise
