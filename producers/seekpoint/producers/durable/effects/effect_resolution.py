"""What becomes of an effect: the pure decision behind every call that changes the world.

An effect is written down as an **intent**, then called, then its **outcome** is written down. What dies in between
leaves an effect in doubt: nobody knows whether the world has changed. ``decide`` says what may be done next, from what
the journal holds, what this handle knows of its own call, what the mailbox brought and what a reconciler found.

The table, read from above; the first row that fits decides (``again`` = the call may be made more than once: its
semantics are not at-most-once, or the connector enforces the key; "never run" is what a fork or rewind left undecided):

==  ========================================  ===============================================  ===============
#   the effect is                             and                                              then
==  ========================================  ===============================================  ===============
1   succeeded, failed                                                                          ``RECORDED``
2   new                                                                                        ``INTEND``
3   pending, our call returned or refused     (a refused compensation goes on at row 13)       ``TAKE_CALL``
4   anything else                             the mailbox brought an outcome                   ``TAKE_WORD``
5   stuck                                                                                      ``STUCK``
6   never run                                 it only observes, and was not called             ``CALL``
7   never run                                 a reconciler can be asked, and was not           ``ASK``
8   never run                                 it found an outcome (not ABSENT)                 ``TAKE_ANSWER``
9   never run                                 else                                             ``UNKNOWN``
10  pending, ours, not called                 a dispatcher calls it                            ``WAIT``
11  pending, ours, not called                 else                                             ``CALL``
12  pending, another owner's                  a dispatcher calls it                            ``WAIT``
13  our call raised or timed out              again, retries left                              ``INTEND``
14  our call raised or timed out              a reconciler can be asked, and was not           ``ASK``
15  our call raised or timed out              it found an outcome (not ABSENT)                 ``TAKE_ANSWER``
16  our call raised, no compensation          again, or the reconciler says ABSENT             ``TAKE_CALL``
17  our call raised or timed out              again, else                                      ``STUCK``
18  our call raised or timed out              else                                             ``UNKNOWN``
19  in doubt, at-most-once                    a reconciler can be asked, and was not           ``ASK``
20  in doubt                                  it found an outcome (not ABSENT)                 ``TAKE_ANSWER``
21  in doubt                                  not again                                        ``UNKNOWN``
22  in doubt                                  again, attempts left                             ``INTEND``
23  in doubt                                  again, a reconciler can be asked, and was not    ``ASK``
24  in doubt                                  again, else                                      ``STUCK``
==  ========================================  ===============================================  ===============

Row 21 is why ABSENT does not allow a call: the owner that made the intent may be asleep just before it. In row 16 it is
known that our own call has ended, in row 18 it may still be under way. A compensation is owed: what it raises is no
outcome of it, so it never fails by its own call (rows 3 and 16). What only observes is never in doubt: an inherited one
is looked at by calling it, and fails if that raises (row 16).
"""

from __future__ import annotations

from enum import Enum, StrEnum

from seekpoint.schemas.dataclass import dataclass

__all__ = ["Answer", "Effect", "EffectStatus", "End", "NextStep", "Situation", "decide", "is_known_undone"]


class Effect(StrEnum):
    """How often a call may be made, and what it means to make it again."""

    IDEMPOTENT = "idempotent"
    """Again with the same key changes nothing more: in doubt it is called again."""
    AT_MOST_ONCE = "at_most_once"
    """Never called again, unless its connector enforces the key: in doubt a reconciler or a person decides."""
    OBSERVE_ONLY = "observe_only"
    """Changes nothing outside (a quote, a balance): called again at will, recorded all the same."""


class EffectStatus(StrEnum):
    """What the journal says of an effect."""

    NEW = "new"
    """Nothing: no intent."""
    PENDING = "pending"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNKNOWN = "unknown"
    """In doubt, and nobody could tell; asked again on every resume."""
    STUCK = "stuck"
    """Given up: only a person's word, or evidence, settles it."""
    INHERITED = "inherited"
    """Undecided when the process was forked or rewound: never run, only looked at."""


class Answer(StrEnum):
    """What a reconciler found where the effect would show."""

    SUCCEEDED = "succeeded"
    """It is there."""
    ABSENT = "absent"
    """It is not there now. Says nothing of later."""
    FAILED = "failed"
    """It was tried and refused: it will not come."""
    DUPLICATE = "duplicate"
    """The same thing is there, by another request than this effect."""
    STUCK = "stuck"
    """It cannot be told, and asking again will not help."""


class End(Enum):
    """How this handle's own call ended."""

    RETURNED = "gave a result"
    REFUSED = "raised what says that nothing was done: NotDone, or what the retry policy calls final"
    RAISED = "raised anything else: it may have been done"
    TIMED_OUT = "did not end in time: it may be done yet"


class NextStep(Enum):
    """What to do next."""

    RECORDED = "hand out what the journal holds"
    INTEND = "write an intent, wait until it is confirmed, decide again"
    CALL = "call, now"
    WAIT = "wait for the dispatcher's word"
    ASK = "ask the reconciler, decide again"
    TAKE_CALL = "settle by what our call gave"
    TAKE_WORD = "settle by what the mailbox brought"
    TAKE_ANSWER = "settle by what the reconciler found"
    UNKNOWN = "nobody can tell: raise EffectUnknown"
    STUCK = "given up: raise EffectUnknown until a person has decided"


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """All that a decision rests on."""

    status: EffectStatus
    semantics: Effect = Effect.IDEMPOTENT
    ours: bool = False
    """The newest intent was written by this very handle, not by an earlier owner."""
    called: bool = False
    """This handle has begun to call for it."""
    end: End | None = None
    """How that call ended; None if it did not, or was cancelled."""
    attempts: int = 0
    """Intents written so far, of all owners."""
    attempts_max: int = 1
    """How often it may be called while in doubt."""
    retries_left: bool = False
    """Whether the retry policy allows another call after this one."""
    enforces_key: bool = False
    """The connector takes each idempotency key once, whoever calls."""
    dispatched: bool = False
    """A dispatcher calls, not the owner."""
    owed: bool = False
    """It is a compensation: there is no failing at it, only being stuck."""
    word: bool = False
    """An outcome lies in the mailbox: a former owner's, a dispatcher's or a person's."""
    can_ask: bool = False
    """There is a reconciler, and it has not failed."""
    answer: Answer | None = None
    """What it said; None if it was not asked."""

    @property
    def again(self) -> bool:
        """Whether calling more than once is harmless."""
        return self.enforces_key or self.semantics is not Effect.AT_MOST_ONCE

    @property
    def may_ask(self) -> bool:
        """A reconciler can be asked, and was not."""
        return self.can_ask and self.answer is None

    @property
    def found(self) -> bool:
        """The reconciler found an outcome."""
        return self.answer is not None and self.answer is not Answer.ABSENT


def decide(at: Situation) -> NextStep:
    """What to do next with an effect. See the table above.

    >>> decide(Situation(status=EffectStatus.PENDING, semantics=Effect.AT_MOST_ONCE, answer=Answer.ABSENT))
    <NextStep.UNKNOWN: 'nobody can tell: raise EffectUnknown'>
    """
    if at.status in (EffectStatus.SUCCEEDED, EffectStatus.FAILED):
        return NextStep.RECORDED
    if at.status is EffectStatus.NEW:
        return NextStep.INTEND
    if at.end is End.RETURNED or (at.end is End.REFUSED and not at.owed):
        return NextStep.TAKE_CALL
    if at.word:
        return NextStep.TAKE_WORD
    if at.status is EffectStatus.STUCK:
        return NextStep.STUCK
    if at.status is EffectStatus.INHERITED:
        return _only_look(at)
    if at.status is EffectStatus.PENDING and (at.dispatched or (at.ours and not at.called)):
        return NextStep.WAIT if at.dispatched else NextStep.CALL
    return _in_doubt(at) if at.end is None else _after_call(at)


def is_known_undone(settled_by: str, end: End | None, answer: Answer | None) -> bool:
    """Whether a failed effect did not happen for certain: what an idempotent call raised at last says less."""
    if settled_by == "reconciler":
        return answer is Answer.FAILED
    return settled_by == "person" or end is End.REFUSED or answer is Answer.ABSENT


def _only_look(at: Situation) -> NextStep:
    if at.semantics is Effect.OBSERVE_ONLY and at.end in (None, End.RAISED):
        return NextStep.CALL if at.end is None else NextStep.TAKE_CALL
    if at.may_ask:
        return NextStep.ASK
    return NextStep.TAKE_ANSWER if at.found else NextStep.UNKNOWN


def _after_call(at: Situation) -> NextStep:
    """Our own call raised or timed out (a compensation's also: refused)."""
    if at.again and at.retries_left:
        return NextStep.INTEND
    if at.may_ask:
        return NextStep.ASK
    if at.found:
        return NextStep.TAKE_ANSWER
    if at.end is End.RAISED and not at.owed and (at.again or at.answer is Answer.ABSENT):
        return NextStep.TAKE_CALL
    return NextStep.STUCK if at.again else NextStep.UNKNOWN


def _in_doubt(at: Situation) -> NextStep:
    """Somebody may have called: a former owner, or this handle in a call that was cancelled."""
    if at.may_ask and at.semantics is Effect.AT_MOST_ONCE:
        return NextStep.ASK
    if at.found:
        return NextStep.TAKE_ANSWER
    if not at.again:
        return NextStep.UNKNOWN
    if at.attempts < at.attempts_max:
        return NextStep.INTEND
    return NextStep.ASK if at.may_ask else NextStep.STUCK
