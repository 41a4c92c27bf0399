"""Why a result did not come in time: nobody has begun the run, or nobody can read that it was submitted."""

from __future__ import annotations

from seekpoint.consumers.log_reading.stable_end import hidden_submissions
from seekpoint.schemas.errors import ResultTimeout, TransactionOpen
from seekpoint.schemas.log.log_ports import LogReader
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.values.process_ids import named_process_key


def hidden_submission(reader: LogReader, process_id: str) -> TransactionOpen | None:
    """Return the error that names an open transaction which may hide a submission; None if there is none. Blocks."""
    return hidden_submissions(reader, partition_of(named_process_key(process_id), reader.partitions))


def late_error(
    process_id: str, timeout: float | None, stage: str, hidden: TransactionOpen | None = None
) -> ResultTimeout:
    """Return the error for a run whose result did not come in time, with advice for a process that has no entry yet."""
    hint = ResultTimeout.hint
    if stage in ("unknown", "submitted"):
        begun = "no worker has begun it" if stage == "submitted" else "no worker has begun it, or the id is wrong"
        hint = f"{begun}: look with seekpoint workers, start one with seekpoint worker MODULE, then ask again"
    if hidden is not None:
        hint = f"{hidden.message} (partition {hidden.partition}, from {hidden.offset} on): {hidden.hint}"
    return ResultTimeout(
        "the run did not end in time", process_id=process_id, timeout_s=timeout, lifecycle=stage, hint=hint
    )
