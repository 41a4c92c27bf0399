"""Every error Seekpoint raises, split by what the caller can do about it.

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

from typing import Any

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


class SeekpointError(Exception):
    """The base of all of them. ``str()`` is the message, the facts and the hint, in one line."""

    hint: str = "see docs/errors.md"

    def __init__(self, message: str, /, *, hint: str | None = None, **facts: Any) -> None:
        super().__init__(message)
        self.message = message
        self.facts = {name: value for name, value in facts.items() if value is not None}
        if hint is not None:
            self.hint = hint

    def __getattr__(self, name: str) -> Any:
        """A fact, as an attribute: ``error.process_id``."""
        try:
            return self.__dict__["facts"][name]
        except KeyError:
            raise AttributeError(name) from None

    def __str__(self) -> str:
        facts = ", ".join(f"{name}={value}" for name, value in self.facts.items())
        return f"{self.message}{f' ({facts})' if facts else ''}; {self.hint}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.hint, self.facts)


def _rebuild(kind: type[SeekpointError], message: str, hint: str, facts: dict[str, Any]) -> SeekpointError:
    return kind(message, hint=hint, **facts)


class Retryable(SeekpointError):
    """The world is in the way: the same call may work later."""

    hint = "try again"


class JournalUnavailable(Retryable):
    """Kafka does not answer, or answers that it cannot serve now."""

    hint = (
        "check that Kafka runs and that bootstrap_servers is right (SEEKPOINT_BOOTSTRAP_SERVERS, seekpoint.toml);"
        ' for a local cluster eval "$(seekpoint up)" does both'
    )


class ViewUnavailable(Retryable):
    """Redis does not answer, or answers that it cannot serve now. The journal is safe; recovery goes on without it."""

    hint = "check that Redis runs and redis_url is right: seekpoint doctor"


class AppendTimeout(Retryable):
    """An append was not acknowledged within ``append_timeout_s``. It may be in the log or not; the handle is closed."""

    hint = "open the process again: the claim finds out what landed"


class ConfirmTimeout(Retryable):
    """An entry was acknowledged, but its partition could not be read in time to see it applied."""

    hint = "the entry is safe in the log; read the process again once Kafka answers"


class TransactionOpen(Retryable):
    """A transaction of another producer is open in the partition: what lies behind ``offset`` is in the log and cannot
    be read before that ends. ``end`` is where the partition ends."""

    hint = (
        "Seekpoint writes no transactions there: find whose it is (kafka-transactions.sh find-hanging, list), end or"
        " abort it (kafka-transactions.sh abort), or wait for its transaction.timeout.ms"
    )


class CheckpointTimeout(Retryable):
    """The request for a checkpoint is in the log, but no projector saved one in time."""

    hint = "check that a projector runs: seekpoint lag"


class ClaimLost(Retryable):
    """Another node's claim came first in the log."""

    hint = "the other node owns the process now; open again only if it should not"


class RequestTimeout(Retryable):
    """Nobody answered a request for a recovery in time. Nothing was changed by it."""

    hint = "start a consumer that answers: seekpoint serve recovery; or give it more time"


class ClusterFailed(Retryable):
    """A part of the local cluster did not come up, or died. The message carries the tail of its log."""

    hint = "read the log's tail above; seekpoint down, then seekpoint up"


class HandleLost(SeekpointError):
    """This handle is over: open the process again."""

    hint = "open the process again"


class Fenced(HandleLost):
    """Another owner has claimed the process. ``fenced_entries`` counts what was acknowledged here and not applied."""

    hint = "stop: the new owner carries on; seekpoint log ID shows who"


class HandleClosed(HandleLost):
    """The handle was released, finished or closed by an earlier error."""


class Refused(SeekpointError):
    """The input, or the moment, is wrong: change the call."""

    hint = "change the call"


class UnserializableValue(Refused):
    """A value that JSON cannot carry exactly; ``path`` says where in it."""

    hint = "convert it first (dataclasses.asdict, .model_dump(), str()), or leave it out"


class LimitExceeded(Refused):
    """A value, a record or a state beyond the journal's limits. Nothing was written."""

    hint = "make it smaller, or keep the value elsewhere and journal a reference to it"


class InvalidName(Refused):
    """A process id, key, journal name or kind that is not allowed."""

    hint = "use 1 to 200 bytes of UTF-8 without control characters"


class IllegalTransition(Refused):
    """A lifecycle transition that does not exist."""

    hint = "see docs/reference/lifecycle.md"


class IllegalCall(Refused):
    """An entry that does not fit what its process has called: an end without its start, a second end, an attempt out
    of order, a budget that is none. Nothing was written."""

    hint = "let process.step, decide, effect and the like write these entries, and await each before its turn ends"


class AlreadyOpen(Refused):
    """The process is open on this node already; one handle at a time."""

    hint = "use the handle there is, or leave its `async with` first"


class OwnerAlive(Refused):
    """The process's owner looks alive (its node's heartbeat moves)."""

    hint = "wait for it, or fence it (take_over=True): seekpoint recover ID --claim --take-over"


class ProcessFinished(Refused):
    """The process is finished. Its result stays readable; its id is never used again."""

    hint = "read its result with seekpoint state ID, or fork it to a new id"


class AgentMismatch(Refused):
    """The process was begun by another agent, or with another input (``kind`` says which), finished or not. Its result
    is not what was asked for: nothing was run and nothing was written. Another version of the agent is no mismatch."""

    hint = "use another id; or run it with the agent it began with, and leave the input out to take the recorded one"


class Cancelled(Refused):
    """The process was asked to stop (``reason``): nothing more is begun for it, and it never runs on. Raised out of
    what the code waits for, and at each further call; let it end the run."""

    hint = "let it end the run; to go on from where it was, fork the process to a new id"


class GateNotOpen(Refused):
    """No gate of this name or key is open (``open`` lists those that are), or it was answered already (``outcome``,
    ``actor``, ``reason`` and ``at`` say how, by whom, why and when). Nothing was sent."""

    hint = (
        "answer one that is open: seekpoint gates ls ID; or one that is still to come: --in-advance (in_advance=True)"
    )


class VersionConflict(Refused):
    """A shared value does not have the version that was expected; ``version`` is the one it has. Nothing was set."""

    hint = "get it again, decide again, and set it with the version it has"


class UnknownProcess(Refused):
    """No such process: the whole log was read and it is not there."""

    hint = "check the id and the journal's name: seekpoint ps"


class UnknownPoint(Refused):
    """The process has no such point in its past: a seq it never applied, an offset or a time beyond its history."""

    hint = "see which points there are: seekpoint log ID"


class TierUnavailable(Refused):
    """The recovery tier that was asked for is not there; the message says why."""

    hint = "ask for another tier, or for none"


class EffectDuplicate(Refused):
    """The same thing was done, or is being done, by another effect: of this connector with this business key
    (``holder`` and ``holder_key`` name it), or by another request, as the reconciler found. Nothing was called."""

    hint = "look at the other one: seekpoint effects show ID KEY"


class EffectFailed(Refused):
    """An effect did not happen: a reconciler, a dispatcher or a person says so (``settled_by``), with a ``reason``."""

    hint = "do something else, or the same again as an effect of its own"


class UnknownConnector(Refused):
    """A connector, or a compensation, that the journal names and this program did not register. Nothing was called."""

    hint = "register it before the process is opened: connectors.register(Connector(name, ...))"


class ReplayRefused(Refused):
    """A replay that would not be safe, or would not be what was asked for. Nothing more was written."""

    hint = "see docs/replay.md"


class InvalidSetting(Refused):
    """A setting that does not exist, does not parse, or may not be changed because a guarantee rests on it."""

    hint = "see docs/settings.md"


class OperatorRequired(SeekpointError):
    """Facts that no retry changes: a person has to look."""

    hint = "look at the journal: seekpoint doctor"


class ProcessDegraded(OperatorRequired):
    """Entries of the process are missing or do not fit. ``abandoned`` counts those that were not applied."""

    hint = "look with seekpoint log ID, then accept the loss: seekpoint recover ID --claim --accept-degraded"


class ReplayDivergence(OperatorRequired):
    """The agent's code asks something else than its history says. Nothing was run for it. ``kind`` says how it differs:
    ``input``, ``prompt``, ``type``, ``order``, ``length`` or ``definition``; ``key``, ``seq``, ``expected`` and
    ``actual`` say where; ``difference``, where what was asked is still in the journal, how the two first differ."""

    hint = "run the code that made the history, guard the change with patched(), or replay permissively"
    asks: Any = None
    """What the code would have journaled for the call, where that is known."""


class StepFailed(OperatorRequired):
    """A call failed, for good, with an exception whose class (``type``) is not registered here. ``type`` is only text:
    nothing is imported because a journal names it."""

    hint = (
        "catch StepFailed, or register the class (register_failure(CLASS)); "
        "to make the call again: seekpoint run ID --retry-failed"
    )


class BudgetExceeded(OperatorRequired):
    """One more call would use more than the process may. Nothing was begun for it: once the limit is raised, a run goes
    on with this very call. ``dimension``, ``scope`` (run or day), ``limit``, ``used`` and ``wanted`` say what of."""

    hint = "raise it (seekpoint budget raise ID DIMENSION LIMIT), then run the process again"


class EffectUnknown(OperatorRequired):
    """Nobody can tell whether an effect happened (``status`` says ``unknown``), or it was given up (``stuck``). It is
    not called again; what settles it is evidence, a reconciler, or a person."""

    hint = "find out, then say so: seekpoint effects resolve ID KEY --succeeded JSON, or --failed REASON"


class ObligationStuck(OperatorRequired):
    """Compensations that are still owed: tried to their last attempt, or of effects that nobody can tell of. ``keys``
    names the effects."""

    hint = "settle them by hand, then say so: seekpoint effects ls ID"


class FoldUnavailable(OperatorRequired):
    """The value of a fold of yours cannot be told from this state: it is not registered here, or what is kept of it is
    behind, of another version, or failed. An old value is never handed out."""

    hint = "name its module in the setting folds, of projectors too; or recover from the log: --tier scan"


class AppendRefused(OperatorRequired):
    """Kafka refuses an entry, and would refuse it again: its time stamp, by a policy of the brokers, or because a right
    is missing. It is not in the log. Its handle is closed; nothing is tried again for it."""

    hint = "change what the message names, then open the process again"


class ViewRefused(OperatorRequired):
    """A Redis that may not keep a view: it evicts keys when its memory is full, or refuses what the view needs."""

    hint = "set maxmemory-policy noeviction, or give the view a Redis of its own; see docs/view.md"


class JournalMismatch(OperatorRequired):
    """The topics are not those of this journal: re-created, re-partitioned, or set up otherwise."""

    hint = "see what differs: seekpoint topics check"


class CheckpointDiffers(JournalMismatch):
    """A checkpoint is whole, and its state is not the one that the log leads to. The log is right."""

    hint = "keep the log; see both states: seekpoint verify ID, seekpoint recover ID --tier scan"


class JournalGap(OperatorRequired):
    """History that was asked for is no longer in the log. ``low`` and ``high`` are what is."""

    hint = "the log was trimmed: recover from a checkpoint, or ask for a later point"


class LogTruncated(OperatorRequired):
    """The log ends before entries that were acknowledged (an unclean leader election, a restored volume)."""

    hint = "look at the brokers first; then seekpoint verify ID"


class LogDamaged(OperatorRequired):
    """Records in the log are not the bytes that were written: their checksum or their form is wrong. ``topic``,
    ``partition`` and ``offset`` say where. Nothing was made of them, and nothing behind them was read."""

    hint = (
        "let a whole replica lead (kafka-leader-election.sh, or stop the broker that leads now), or restore the"
        " partition's folder from a backup; then start again what stopped"
    )


class ReplayMismatch(OperatorRequired):
    """What lies in a replay's target is not what was sent: records are missing, twice there, or altered."""

    hint = "replay into a fresh topic, and see who else writes into this one or trims it"


class NewerFormat(OperatorRequired):
    """The journal was written by a newer Seekpoint than this one. Nothing was skipped."""

    hint = "upgrade this reader; the reading goes on where it stopped"


class UndecodableRecord(OperatorRequired):
    """Bytes that are no entry. A reader makes a dead letter of them and goes on."""

    hint = "look at it: seekpoint dlq show"


class TooManyDeadLetters(OperatorRequired):
    """A reader met more poison than ``dead_letters_max`` in ``dead_letter_window_s`` and stopped."""

    hint = "something writes junk into the journal's topic: seekpoint dlq ls"
