"""Every error that Seekpoint raises, split by what the caller can do about it.

    SeekpointError
    ├── Retryable                 the world is in the way: the same call may work later
    │   ├── JournalUnavailable   Kafka does not answer
    │   ├── ViewUnavailable      Redis does not answer
    │   ├── AppendTimeout        an append was not acknowledged in append_timeout_s, and healing failed too
    │   ├── ConfirmTimeout       an entry was acknowledged but not seen applied in time
    │   ├── TransactionOpen      a foreign transaction hides the end of a partition
    │   ├── CheckpointTimeout    no projector saved a checkpoint in time
    │   ├── ClaimLost            another node claimed first
    │   ├── RequestTimeout       nobody answered a request for a recovery in time
    │   └── ClusterFailed        a part of the local cluster did not come up
    ├── HandleLost                   this handle is over: open the process again
    │   ├── Fenced               another owner has claimed the process
    │   └── HandleClosed         the handle was released or closed
    ├── Refused                  the input, or the moment, is wrong: change the call
    │   ├── UnserializableValue  a value that JSON cannot carry exactly
    │   ├── LimitExceeded        a value, a record or a state beyond the journal's limits
    │   ├── InvalidName          a process id, key, journal name or kind that is not allowed
    │   ├── IllegalTransition    a lifecycle transition that does not exist
    │   ├── IllegalCall          an entry that does not fit the calls of its process
    │   ├── AlreadyOpen          the process is open on this node
    │   ├── OwnerAlive           the process's owner looks alive
    │   ├── ProcessFinished      the process is finished; its id is taken for ever
    │   ├── AgentMismatch        the process was begun by another agent, or with another input
    │   ├── Cancelled            the process was asked to stop, and does nothing more
    │   ├── GateNotOpen          no such gate is open, or it was answered already
    │   ├── VersionConflict      a shared value was set by somebody else meanwhile
    │   ├── UnknownProcess       no such process, on proof
    │   ├── UnknownPoint         the process has no such point in its past
    │   ├── TierUnavailable      a forced recovery tier is not there
    │   ├── EffectDuplicate      the same thing was done, or is being done, by another effect
    │   ├── EffectFailed         an effect did not happen, by somebody's word
    │   ├── UnknownConnector     a connector, or a compensation, that is not registered here
    │   ├── ReplayRefused        a replay that would not be safe, or not be what was asked for
    │   └── InvalidSetting       a setting that does not exist, does not parse or may not be changed
    └── OperatorRequired              facts that no retry changes
        ├── ProcessDegraded      entries are missing or do not fit: a person decides
        ├── ReplayDivergence     the agent's code no longer asks what its history says it asked
        ├── StepFailed           a remembered failure whose own class cannot be made again
        ├── BudgetExceeded       one more call would use more than the process may
        ├── EffectUnknown        nobody can tell whether an effect happened
        ├── ObligationStuck      a compensation was tried to its last attempt, and is still owed
        ├── FoldUnavailable      what a fold of yours makes of a process cannot be told here
        ├── AppendRefused        Kafka refuses an entry for good: a clock, a policy, a right that is missing
        ├── ViewRefused          a Redis that no view may be kept in: it evicts
        ├── JournalMismatch      the topics are not those of this journal
        │   └── CheckpointDiffers    a checkpoint is not what the log says
        ├── JournalGap           history below an offset is gone
        ├── LogTruncated         the log lost entries that were acknowledged
        ├── LogDamaged           records of the log are not the bytes that were written
        ├── ReplayMismatch       a replay's target does not hold what was sent
        ├── NewerFormat          written by a newer Seekpoint than this one
        ├── UndecodableRecord    bytes that are no entry (a reader makes a dead letter of it)
        └── TooManyDeadLetters   a reader stopped before it drained a broken topic

Each carries its facts as attributes (``process_id``, ``partition``, ``offset``, ``seq``, ``epoch``, whatever is known),
keeps its cause, and says what to do next in ``hint``.
"""

from __future__ import annotations

from seekpoint.schemas.errors.error_base import SeekpointError
from seekpoint.schemas.errors.handle_lost import (
    Fenced,
    HandleClosed,
    HandleLost,
)
from seekpoint.schemas.errors.operator_required import (
    AppendRefused,
    BudgetExceeded,
    CheckpointDiffers,
    EffectUnknown,
    FoldUnavailable,
    JournalGap,
    JournalMismatch,
    LogDamaged,
    LogTruncated,
    NewerFormat,
    ObligationStuck,
    OperatorRequired,
    ProcessDegraded,
    ReplayDivergence,
    ReplayMismatch,
    StepFailed,
    TooManyDeadLetters,
    UndecodableRecord,
    ViewRefused,
)
from seekpoint.schemas.errors.refused import (
    AgentMismatch,
    AlreadyOpen,
    Cancelled,
    EffectDuplicate,
    EffectFailed,
    GateNotOpen,
    IllegalCall,
    IllegalTransition,
    InvalidName,
    InvalidSetting,
    LimitExceeded,
    OwnerAlive,
    ProcessFinished,
    Refused,
    ReplayRefused,
    TierUnavailable,
    UnknownConnector,
    UnknownPoint,
    UnknownProcess,
    UnserializableValue,
    VersionConflict,
)
from seekpoint.schemas.errors.retryable import (
    AppendTimeout,
    CheckpointTimeout,
    ClaimLost,
    ClusterFailed,
    ConfirmTimeout,
    JournalUnavailable,
    RequestTimeout,
    Retryable,
    TransactionOpen,
    ViewUnavailable,
)

__all__ = [
    "AgentMismatch",
    "AlreadyOpen",
    "AppendRefused",
    "AppendTimeout",
    "BudgetExceeded",
    "Cancelled",
    "CheckpointDiffers",
    "CheckpointTimeout",
    "ClaimLost",
    "ClusterFailed",
    "ConfirmTimeout",
    "EffectDuplicate",
    "EffectFailed",
    "EffectUnknown",
    "Fenced",
    "FoldUnavailable",
    "GateNotOpen",
    "HandleClosed",
    "HandleLost",
    "IllegalCall",
    "IllegalTransition",
    "InvalidName",
    "InvalidSetting",
    "JournalGap",
    "JournalMismatch",
    "JournalUnavailable",
    "LimitExceeded",
    "LogDamaged",
    "LogTruncated",
    "NewerFormat",
    "ObligationStuck",
    "OperatorRequired",
    "OwnerAlive",
    "ProcessDegraded",
    "ProcessFinished",
    "Refused",
    "ReplayDivergence",
    "ReplayMismatch",
    "ReplayRefused",
    "RequestTimeout",
    "Retryable",
    "SeekpointError",
    "StepFailed",
    "TierUnavailable",
    "TooManyDeadLetters",
    "TransactionOpen",
    "UndecodableRecord",
    "UnknownConnector",
    "UnknownPoint",
    "UnknownProcess",
    "UnserializableValue",
    "VersionConflict",
    "ViewRefused",
    "ViewUnavailable",
]

for _name in __all__:  # a journal, an answer and a pickle name a class by where users import it from
    globals()[_name].__module__ = __name__
