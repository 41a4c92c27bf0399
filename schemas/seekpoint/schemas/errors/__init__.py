"""Every error that Seekpoint raises, split by what the caller can do about it.

    SeekpointError
    ├── Retryable                 something outside is in the way: the same call may work later
    │   ├── JournalUnavailable   Kafka does not answer
    │   │   └── JournalFull      the log has no room now
    │   ├── ViewUnavailable      Redis does not answer
    │   ├── BlobStoreUnavailable  the blob store does not answer
    │   ├── AppendTimeout        an append was not acknowledged in append_timeout_s, and healing failed
    │   ├── EffectHeld           an effect was not begun: a recorded one was not made again in time
    │   ├── ConfirmTimeout       an entry was acknowledged but not seen applied in time
    │   ├── TransactionOpen      a foreign transaction hides the end of a partition
    │   ├── CheckpointTimeout    no projector saved a checkpoint in time
    │   ├── ClaimLost            another node claimed first
    │   ├── RequestTimeout       no node answered a request for a recovery in time
    │   ├── ResultTimeout        a run did not end in time; it goes on
    │   └── ClusterFailed        a part of the local cluster did not start
    ├── HandleLost                   this handle can no longer be used: open the process again
    │   ├── GroupLost            a consumer group does not take this program again
    │   ├── Fenced               another owner has claimed the process
    │   └── HandleClosed         the handle was released or closed
    ├── Refused                  the input, or the moment, is wrong: change the call
    │   ├── UnserializableValue  a value that JSON cannot carry exactly
    │   ├── InvalidValue         a value that does not fit its annotation
    │   │   ├── RecordedValueInvalid    a recorded value that does not fit the annotation of the code
    │   │   └── InputMisfit             a submitted input that does not fit the agent
    │   ├── LimitExceeded        a value, a record or a state beyond the journal's limits
    │   ├── InvalidName          a process id, key, journal name or kind that is not allowed
    │   ├── IllegalTransition    a lifecycle transition that does not exist
    │   ├── IllegalCall          an entry that does not fit the calls of its process
    │   ├── AlreadyOpen          the process is open on this node
    │   ├── OwnerAlive           the process's owner looks alive
    │   ├── ProcessFinished      the process is finished; its id is taken for ever
    │   ├── ProcessSuspended     somebody suspended the process
    │   ├── AgentMismatch        the process was begun by another agent, or with another input
    │   ├── Cancelled            the process was asked to stop, and begins no further call
    │   ├── GateNotOpen          no such gate is open, or it was answered already
    │   ├── VersionConflict      a shared value was changed by another caller meanwhile
    │   ├── AppendConflict       another node has written to a shared process meanwhile
    │   ├── UnknownProcess       no such process: the whole log was read
    │   ├── UnknownAttachment    the process has no such attachment
    │   ├── UnknownPoint         the process has no such point in its past
    │   ├── TierUnavailable      the requested recovery tier is not available
    │   ├── EffectsStand         effects followed an answer that is to be replaced
    │   ├── ChildrenStand        children run of which a promotion would leave no record
    │   ├── MergeConflict        a fork and its parent have changed the same
    │   ├── EffectDuplicate      the same thing was done, or is being done, by another effect
    │   ├── EffectFailed         an effect did not happen, as a reconciler, a dispatcher or a person says
    │   ├── UnknownConnector     a connector, or a compensation, that is not registered here
    │   ├── ReplayRefused        a replay that is not safe, or would not do what was asked for
    │   ├── InvalidOption        an option that neither a call nor its function takes, or that both take
    │   └── InvalidSetting       a setting that does not exist, does not parse or may not be changed
    └── OperatorRequired              no retry changes the cause: a person has to look
        ├── ProcessDegraded      entries are missing or do not fit: a person decides
        ├── ReplayDivergence     the agent's code asks for something else than its history contains
        ├── OwnersDied           owners died again and again without progress: the run is parked
        ├── RunFailed            a submitted run failed, and is not tried again by itself
        ├── StepFailed           a recorded failure whose class is not registered here
        ├── BudgetExceeded       one more call would use more than the process is allowed
        ├── EffectUnknown        nobody can tell whether an effect happened
        ├── EffectRefused        a fork makes no effects that its record does not answer
        ├── ObligationStuck      a compensation is still owed after its last attempt
        ├── FoldUnavailable      the value of a fold of yours is not in this state
        ├── AppendRefused        Kafka will never accept an entry: a clock, a policy, a missing permission
        ├── ViewRefused          a Redis that cannot hold a view: it evicts
        ├── JournalMismatch      the topics are not those of this journal
        │   └── CheckpointDiffers    a checkpoint has another state than the log leads to
        ├── JournalGap           the requested history is no longer in the log
        ├── LogTruncated         the log lost entries that were acknowledged
        ├── AttachmentDamaged    the bytes of an attachment are lost or altered
        ├── LogDamaged           records of the log are not the bytes that were written
        ├── ReplayMismatch       a replay's target does not hold what was sent
        ├── NewerFormat          written by a newer Seekpoint than this one
        ├── OlderFormat          an older format than this version writes: seekpoint upgrade
        ├── UndecodableRecord    bytes that are no entry (a reader makes a dead letter of it)
        └── TooManyDeadLetters   a reader stopped before it drained a broken topic

Facts are typed attributes: ``process_id``, ``partition``, ``offset``, ``seq``, ``epoch`` and those that a class adds.
A fact that is not known is None. ``hint`` says what to do next, and ``__cause__`` is the original error.
"""

from __future__ import annotations

from seekpoint.schemas.errors.error_base import SeekpointError
from seekpoint.schemas.errors.handle_lost import (
    Fenced,
    GroupLost,
    HandleClosed,
    HandleLost,
)
from seekpoint.schemas.errors.operator_required import (
    AppendRefused,
    AttachmentDamaged,
    BudgetExceeded,
    CheckpointDiffers,
    EffectRefused,
    EffectUnknown,
    FoldUnavailable,
    JournalGap,
    JournalMismatch,
    LogDamaged,
    LogTruncated,
    NewerFormat,
    ObligationStuck,
    OlderFormat,
    OperatorRequired,
    OwnersDied,
    ProcessDegraded,
    ReplayDivergence,
    ReplayMismatch,
    RunFailed,
    StepFailed,
    TooManyDeadLetters,
    UndecodableRecord,
    ViewRefused,
)
from seekpoint.schemas.errors.refused import (
    AgentMismatch,
    AlreadyOpen,
    AppendConflict,
    Cancelled,
    ChildrenStand,
    EffectDuplicate,
    EffectFailed,
    EffectsStand,
    GateNotOpen,
    IllegalCall,
    IllegalTransition,
    InputMisfit,
    InvalidName,
    InvalidOption,
    InvalidSetting,
    InvalidValue,
    LimitExceeded,
    MergeConflict,
    OwnerAlive,
    ProcessFinished,
    ProcessSuspended,
    RecordedValueInvalid,
    Refused,
    ReplayRefused,
    TierUnavailable,
    UnknownAttachment,
    UnknownConnector,
    UnknownPoint,
    UnknownProcess,
    UnserializableValue,
    VersionConflict,
)
from seekpoint.schemas.errors.retryable import (
    AppendTimeout,
    BlobStoreUnavailable,
    CheckpointTimeout,
    ClaimLost,
    ClusterFailed,
    ConfirmTimeout,
    EffectHeld,
    JournalFull,
    JournalUnavailable,
    RequestTimeout,
    ResultTimeout,
    Retryable,
    TransactionOpen,
    ViewUnavailable,
)

__all__ = [
    "AgentMismatch",
    "AlreadyOpen",
    "AppendConflict",
    "AppendRefused",
    "AppendTimeout",
    "AttachmentDamaged",
    "BlobStoreUnavailable",
    "BudgetExceeded",
    "Cancelled",
    "CheckpointDiffers",
    "CheckpointTimeout",
    "ChildrenStand",
    "ClaimLost",
    "ClusterFailed",
    "ConfirmTimeout",
    "EffectDuplicate",
    "EffectFailed",
    "EffectHeld",
    "EffectRefused",
    "EffectUnknown",
    "EffectsStand",
    "Fenced",
    "FoldUnavailable",
    "GateNotOpen",
    "GroupLost",
    "HandleClosed",
    "HandleLost",
    "IllegalCall",
    "IllegalTransition",
    "InputMisfit",
    "InvalidName",
    "InvalidOption",
    "InvalidSetting",
    "InvalidValue",
    "JournalFull",
    "JournalGap",
    "JournalMismatch",
    "JournalUnavailable",
    "LimitExceeded",
    "LogDamaged",
    "LogTruncated",
    "MergeConflict",
    "NewerFormat",
    "ObligationStuck",
    "OlderFormat",
    "OperatorRequired",
    "OwnerAlive",
    "OwnersDied",
    "ProcessDegraded",
    "ProcessFinished",
    "ProcessSuspended",
    "RecordedValueInvalid",
    "Refused",
    "ReplayDivergence",
    "ReplayMismatch",
    "ReplayRefused",
    "RequestTimeout",
    "ResultTimeout",
    "Retryable",
    "RunFailed",
    "SeekpointError",
    "StepFailed",
    "TierUnavailable",
    "TooManyDeadLetters",
    "TransactionOpen",
    "UndecodableRecord",
    "UnknownAttachment",
    "UnknownConnector",
    "UnknownPoint",
    "UnknownProcess",
    "UnserializableValue",
    "VersionConflict",
    "ViewRefused",
    "ViewUnavailable",
]

for _name in __all__:  # journals, recovery answers and pickles name a class by the module that users import it from
    globals()[_name].__module__ = __name__
