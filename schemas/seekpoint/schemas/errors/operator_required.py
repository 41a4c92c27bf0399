"""Errors that a person has to look at: no retry changes the cause."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from seekpoint.schemas.errors.error_base import SeekpointError


class OperatorRequired(SeekpointError):
    """No retry changes the cause: a person has to look."""

    hint = "look at the journal: seekpoint doctor"
    file: str | None = None


class ProcessDegraded(OperatorRequired):
    """Entries of the process are missing or do not fit. ``abandoned`` counts the entries that were not applied."""

    hint = (
        "look with seekpoint log PROCESS_ID, then accept the loss: "
        "seekpoint recover PROCESS_ID --claim --accept-degraded"
    )
    expected_seq: int | None = None
    found_seq: int | None = None
    abandoned: int | None = None


class ReplayDivergence(OperatorRequired):
    """The agent's code asks for something else than its history contains. The call was not run. ``kind`` says how the
    two differ: ``input``, ``prompt``, ``type``, ``order``, ``length`` or ``definition``. ``key``, ``seq``, ``expected``
    and ``actual`` say where. ``difference`` shows the first difference in the input, if the journal still has it."""

    hint = "run the code that made the history, guard the change with patched(), or replay permissively"
    kind: str
    key: str
    position: int | None = None
    expected: str = ""
    actual: str = ""
    version: str | None = None
    difference: str | None = None
    asks: Any = None
    """The entry that the code would have journaled for the call, if it is known. It is not a fact."""

    _not_facts: ClassVar[frozenset[str]] = SeekpointError._not_facts | {"asks"}


class RunFailed(OperatorRequired):
    """The run of a submitted agent failed with the exception ``type``, and no worker tries it again by itself."""

    hint = "look at it with seekpoint state PROCESS_ID; when the cause is gone: seekpoint redrive PROCESS_ID"
    type: str | None = None
    where: str | None = None


class OwnersDied(OperatorRequired):
    """Owners of the process died again and again (``deaths``) and no call ended meanwhile, so the run was parked.
    ``key`` is its last call."""

    hint = "find out what ends the program in that call (a crash, its memory); then: seekpoint redrive PROCESS_ID"
    deaths: int


class StepFailed(OperatorRequired):
    """A call failed, and will not be tried again. The class of its exception is not registered here; ``type`` is the
    name of the class. Nothing is imported because a journal names it."""

    hint = (
        "catch StepFailed, or register the class (register_failure(CLASS)); "
        "to make the call again: seekpoint run PROCESS_ID --retry-failed"
    )
    type: str


class BudgetExceeded(OperatorRequired):
    """One more call would use more than the process is allowed. The call was not begun. Once the limit is raised, a run
    continues with this call. ``dimension``, ``scope`` (``run``: the whole process, or ``day``), ``limit``, ``used`` and
    ``wanted`` describe the budget."""

    hint = "raise it (seekpoint budget raise PROCESS_ID DIMENSION LIMIT), then run the process again"
    dimension: str
    scope: str
    limit: str
    used: str
    wanted: str
    on_exceed: str | None = None


class EffectUnknown(OperatorRequired):
    """Nobody can tell whether an effect happened (``status`` is ``unknown``), or its attempts are used up (``stuck``).
    The effect is not called again. Evidence, a reconciler or a person settles it."""

    hint = "find out, then say so: seekpoint effects resolve PROCESS_ID KEY --succeeded JSON, or --failed REASON"
    status: str
    connector: str | None = None
    idempotency_key: str | None = None
    reason: str | None = None


class EffectRefused(OperatorRequired):
    """A fork makes no effects that its record does not answer (``policy``): the effect was not called, and nothing was
    recorded. ``kind`` is ``effect``, or ``child`` for a child process, whose effects nobody could hold back."""

    hint = (
        "what the parent did may answer it: fork with effects=recorded, or permissive; to act for real, fork with "
        "effects=live"
    )
    kind: str
    policy: str


class ObligationStuck(OperatorRequired):
    """Compensations are still owed: their last attempt failed, or nobody can tell whether their effects happened.
    ``keys`` names the effects."""

    hint = "settle them by hand, then say so: seekpoint effects ls PROCESS_ID"
    keys: Sequence[str]


class FoldUnavailable(OperatorRequired):
    """The value of a fold of yours is not in this state: the fold is not registered here, or its saved value is behind,
    of another version, or failed. A value that is out of date is never returned."""

    hint = "name its module in the setting folds, of projectors too; or recover from the log: --tier scan"
    fold: str
    version: int | None = None
    failure: str | None = None


class AppendRefused(OperatorRequired):
    """Kafka refuses an entry, and would refuse it again: because of its time stamp, a policy of the brokers, or a
    missing permission. The entry is not in the log. The handle is closed, and does not retry."""

    hint = "change what the message names, then open the process again"
    clock: str | None = None
    message_timestamp_after_max_ms: str | None = None
    message_timestamp_before_max_ms: str | None = None


class ViewRefused(OperatorRequired):
    """This Redis cannot hold a view: it evicts keys when its memory is full, or refuses what the view needs."""

    hint = "set maxmemory-policy noeviction, or give the view a Redis of its own; see docs/view.md"
    maxmemory_policy: str | None = None
    maxmemory: str | None = None


class JournalMismatch(OperatorRequired):
    """The topics are not those of this journal: they were created again, or have other partitions or settings."""

    hint = "see what differs: seekpoint topics check"
    cause: str | None = None
    expected: object = None
    fingerprint: str | None = None
    floor: int | None = None
    found: object = None
    high: int | None = None
    missing: str | None = None
    position: int | None = None
    setting: str | None = None


class CheckpointDiffers(JournalMismatch):
    """A checkpoint is undamaged, but its state differs from the state that the log leads to. The log is right."""

    hint = "keep the log; see both states: seekpoint verify PROCESS_ID, seekpoint recover PROCESS_ID --tier scan"


class JournalGap(OperatorRequired):
    """The requested history is no longer in the log, which contains the offsets from ``low`` up to ``high``."""

    hint = "the log was trimmed: recover from a checkpoint, or ask for a later point"
    low: int | None = None
    high: int | None = None
    floor: int | None = None
    from_seq: int | None = None
    processes: Sequence[str] | None = None
    why: str | None = None


class LogTruncated(OperatorRequired):
    """The log lost entries that were acknowledged, after an unclean leader election or a restored volume. Nobody goes
    on with the partition until its end is back, or an operator accepts the loss."""

    hint = (
        "look at the brokers first; if the entries are gone for good, go on with what the log holds: "
        "seekpoint verify --accept-loss PARTITION --reason TEXT"
    )
    low: int | None = None
    high: int | None = None
    floor: int | None = None
    expected: int | None = None
    found: int | None = None
    leader_epoch: int | None = None
    acknowledged: int | None = None


class AttachmentDamaged(OperatorRequired):
    """The bytes of an attachment are lost, or are not those that were attached: its ``digest`` differs. ``store`` names
    the blob store that has them, if one has."""

    hint = "attach the bytes again: detach the reference first"
    digest: str | None = None
    store: str | None = None
    found: str | None = None


class LogDamaged(OperatorRequired):
    """Records in the log are not the bytes that were written: their checksum or their form is wrong. ``topic``,
    ``partition`` and ``offset`` say where. These records were not used, and nothing behind them was read."""

    hint = (
        "let a whole replica lead (kafka-leader-election.sh, or stop the broker that leads now), or restore the"
        " partition's folder from a backup; then start again what stopped"
    )


class ReplayMismatch(OperatorRequired):
    """A replay's target does not contain what was sent: records are missing, twice there, or altered."""

    hint = "replay into a fresh topic, and see who else writes into this one or trims it"
    first: object = None
    target_partition: int | None = None
    sent_records: int | None = None
    found_records: int | None = None
    sent_bytes: int | None = None
    found_bytes: int | None = None


class NewerFormat(OperatorRequired):
    """The journal was written by a newer Seekpoint than this one. Nothing was skipped."""

    hint = "upgrade this reader; the reading goes on where it stopped"
    bodies: str | None = None
    format: int | None = None
    found: int | None = None
    known: int | None = None
    position: int | None = None


class OlderFormat(OperatorRequired):
    """The journal has an older format than this version writes. It can be read; nothing was written."""

    hint = "stop the programs of older versions, run seekpoint upgrade, then start this program again"
    format: int | None = None
    known: int | None = None


class UndecodableRecord(OperatorRequired):
    """A record's bytes are no entry. A reader makes a dead letter of them and continues."""

    hint = "look at it: seekpoint dlq show"
    bytes: int | None = None
    expected: int | None = None
    found: str | None = None


class TooManyDeadLetters(OperatorRequired):
    """A reader found more than ``dead_letters_max`` undecodable records in ``dead_letter_window_s`` and stopped."""

    hint = "something writes junk into the journal's topic: seekpoint dlq ls"
    newest: str | None = None
