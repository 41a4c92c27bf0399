"""Decide what to do next with an effect. Pure.

An effect's **intent** is journaled, then the effect is called, then its **outcome** is journaled. An owner that dies
in between leaves the effect in doubt: nobody knows whether it happened. ``decide`` returns the next step, from the
journal, this owner's own call, the mailbox and the reconciler.

The first row of this table that fits decides. ``again``: the call may be made more than once, because its semantics are
not at-most-once or the connector enforces the key. ``never run``: a fork or a rewind left the effect undecided.

==  ========================================  ===============================================  =================
#   the effect is                             and                                              then
==  ========================================  ===============================================  =================
1   succeeded, failed                                                                          ``RECORDED``
2   new                                                                                        ``INTEND``
3   pending, our call returned or refused     (a refused compensation goes on at row 13)       ``TAKE_CALL``
4   anything else                             the mailbox has an outcome                       ``TAKE_EXTERNAL``
5a  reopened (a person asked for another call) nothing was done                                ``INTEND``
5   stuck                                                                                      ``STUCK``
6   never run                                 it only observes, and was not called             ``CALL``
7   never run                                 a reconciler can be asked, and was not           ``RECONCILE``
8   never run                                 it found an outcome (not ABSENT)                 ``TAKE_ANSWER``
9   never run                                 else                                             ``UNKNOWN``
10  pending, ours, not called                 a dispatcher calls it                            ``WAIT``
11  pending, ours, not called                 else                                             ``CALL``
12  pending, another owner's                  a dispatcher calls it                            ``WAIT``
13  our call raised or timed out              again, retries left                              ``INTEND``
14  our call raised or timed out              a reconciler can be asked, and was not           ``RECONCILE``
15  our call raised or timed out              it found an outcome (not ABSENT)                 ``TAKE_ANSWER``
16  our call raised, no compensation          again, or the reconciler says ABSENT             ``TAKE_CALL``
17  our call raised or timed out              again, else                                      ``STUCK``
18  our call raised or timed out              else                                             ``UNKNOWN``
19  in doubt, at-most-once                    a reconciler can be asked, and was not           ``RECONCILE``
20  in doubt                                  it found an outcome (not ABSENT)                 ``TAKE_ANSWER``
21  in doubt                                  not again                                        ``UNKNOWN``
22  in doubt                                  again, attempts left                             ``INTEND``
23  in doubt                                  again, a reconciler can be asked, and was not    ``RECONCILE``
24  in doubt                                  again, else                                      ``STUCK``
==  ========================================  ===============================================  =================

In row 21 ABSENT does not allow a call: the owner that wrote the intent may be about to call. In row 16 our own call has
ended, in row 18 it may still run. A compensation has to be completed: an exception is not its outcome, so it never
fails by its own call (rows 3 and 16). An effect that only observes is never in doubt: an inherited one is called, and
fails if the call raises (row 16).
"""

from __future__ import annotations

from enum import Enum, StrEnum

from seekpoint.schemas.frozen_struct import FrozenStruct


class Effect(StrEnum):
    """The promise of an effect: the number of calls that may be made, and what a further one changes."""

    IDEMPOTENT = "idempotent"
    """A further call with the same key changes nothing: in doubt it is called again."""
    AT_MOST_ONCE = "at_most_once"
    """Never called again, unless its connector enforces the key: in doubt a reconciler or a person decides."""
    OBSERVE_ONLY = "observe_only"
    """Changes nothing outside (a quote, a balance): may be called any number of times, and is recorded."""


class EffectStatus(StrEnum):
    """The status of an effect in the journal."""

    NEW = "new"
    """There is no intent."""
    PENDING = "pending"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNKNOWN = "unknown"
    """In doubt. Each resume reconciles again."""
    STUCK = "stuck"
    """Given up: only a person, or a former owner's outcome, settles it."""
    REOPENED = "started"
    """It failed, nothing was done, and a person asked for another call with the same key."""
    INHERITED = "inherited"
    """Undecided when the process was forked or rewound: reconciled, never called."""


class Answer(StrEnum):
    """The answer of a reconciler about the outside system."""

    SUCCEEDED = "succeeded"
    """The effect has happened."""
    ABSENT = "absent"
    """The effect has not happened so far. It may happen later."""
    FAILED = "failed"
    """The effect was refused, and will not happen."""
    DUPLICATE = "duplicate"
    """Another request than this effect has done the same thing."""
    STUCK = "stuck"
    """The reconciler cannot know, now or later."""


class End(Enum):
    """The end of this owner's own call."""

    RETURNED = "returned a result"
    REFUSED = "raised NotDone, or an exception that the retry policy calls final: nothing was done"
    RAISED = "raised another exception: it may have been done"
    TIMED_OUT = "did not end in time: it may be done later"


class NextStep(Enum):
    """The next step for an effect."""

    RECORDED = "return the recorded outcome"
    INTEND = "write an intent, wait until it is confirmed, decide again"
    CALL = "call"
    WAIT = "wait for the dispatcher's verdict"
    RECONCILE = "ask the reconciler, decide again"
    TAKE_CALL = "settle by the outcome of our call"
    TAKE_EXTERNAL = "settle by the outcome in the mailbox"
    TAKE_ANSWER = "settle by the reconciler's answer"
    UNKNOWN = "nobody can tell: raise EffectUnknown"
    STUCK = "given up: raise EffectUnknown until a person has decided"


class Situation(FrozenStruct, frozen=True, kw_only=True):
    """The input of ``decide``."""

    status: EffectStatus
    semantics: Effect = Effect.IDEMPOTENT
    ours: bool = False
    """This owner wrote the newest intent, not an earlier one."""
    called: bool = False
    """This owner has begun its call."""
    end: End | None = None
    """How that call ended; None if it did not, or was cancelled."""
    attempts: int = 0
    """Intents written so far, of all owners."""
    attempts_max: int = 1
    """How often the effect may be called while it is in doubt."""
    retries_left: bool = False
    """Whether the retry policy allows another call after this one."""
    enforces_key: bool = False
    """The connector accepts each idempotency key once."""
    dispatched: bool = False
    """A dispatcher calls, not the owner."""
    is_compensation: bool = False
    """A compensation never fails: it succeeds, or it is stuck."""
    has_external_outcome: bool = False
    """The mailbox has an outcome from a former owner, a dispatcher or a person."""
    can_reconcile: bool = False
    """There is a reconciler, and it has not failed."""
    answer: Answer | None = None
    """The reconciler's answer; None if it was not asked."""

    @property
    def may_repeat(self) -> bool:
        """Whether the call may be made more than once."""
        return self.enforces_key or self.semantics is not Effect.AT_MOST_ONCE

    @property
    def may_reconcile(self) -> bool:
        """Whether a reconciler can be asked, and was not."""
        return self.can_reconcile and self.answer is None

    @property
    def is_reconciled(self) -> bool:
        """Whether the reconciler found an outcome."""
        return self.answer is not None and self.answer is not Answer.ABSENT


def decide(at: Situation) -> NextStep:
    """Return the next step of an effect by the table above.

    >>> decide(Situation(status=EffectStatus.PENDING, semantics=Effect.AT_MOST_ONCE, answer=Answer.ABSENT))
    <NextStep.UNKNOWN: 'nobody can tell: raise EffectUnknown'>
    """
    if at.status in (EffectStatus.SUCCEEDED, EffectStatus.FAILED):
        return NextStep.RECORDED
    if at.status is EffectStatus.NEW:
        return NextStep.INTEND
    if at.end is End.RETURNED or (at.end is End.REFUSED and not at.is_compensation):
        return NextStep.TAKE_CALL
    if at.has_external_outcome:
        return NextStep.TAKE_EXTERNAL
    if at.status is EffectStatus.REOPENED:
        return NextStep.INTEND
    if at.status is EffectStatus.STUCK:
        return NextStep.STUCK
    if at.status is EffectStatus.INHERITED:
        return _inherited(at)
    if at.status is EffectStatus.PENDING and (at.dispatched or (at.ours and not at.called)):
        return NextStep.WAIT if at.dispatched else NextStep.CALL
    return _in_doubt(at) if at.end is None else _after_call(at)


def is_known_undone(settled_by: str, end: End | None, answer: Answer | None) -> bool:
    """Whether a failed effect certainly did not happen. An idempotent call's last exception proves nothing."""
    if settled_by == "reconciler":
        return answer is Answer.FAILED
    return settled_by == "person" or end is End.REFUSED or answer is Answer.ABSENT


def _inherited(at: Situation) -> NextStep:
    if at.semantics is Effect.OBSERVE_ONLY and at.end in (None, End.RAISED):
        return NextStep.CALL if at.end is None else NextStep.TAKE_CALL
    if at.may_reconcile:
        return NextStep.RECONCILE
    return NextStep.TAKE_ANSWER if at.is_reconciled else NextStep.UNKNOWN


def _after_call(at: Situation) -> NextStep:
    """Decide after our own call raised or timed out (of a compensation: or refused)."""
    if at.may_repeat and at.retries_left:
        return NextStep.INTEND
    if at.may_reconcile:
        return NextStep.RECONCILE
    if at.is_reconciled:
        return NextStep.TAKE_ANSWER
    if at.end is End.RAISED and not at.is_compensation and (at.may_repeat or at.answer is Answer.ABSENT):
        return NextStep.TAKE_CALL
    return NextStep.STUCK if at.may_repeat else NextStep.UNKNOWN


def _in_doubt(at: Situation) -> NextStep:
    """Decide after another owner, or a cancelled call of this one, may have called."""
    if at.may_reconcile and at.semantics is Effect.AT_MOST_ONCE:
        return NextStep.RECONCILE
    if at.is_reconciled:
        return NextStep.TAKE_ANSWER
    if not at.may_repeat:
        return NextStep.UNKNOWN
    if at.attempts < at.attempts_max:
        return NextStep.INTEND
    return NextStep.RECONCILE if at.may_reconcile else NextStep.STUCK
