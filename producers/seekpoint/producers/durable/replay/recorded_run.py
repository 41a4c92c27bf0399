"""A run of an agent, read from the entries of a whole history: every call of every turn.

A state drops the calls of turns that are over, and a finished process drops all calls. The journal keeps them. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from seekpoint.producers.durable.effects.compensation_names import UNDO
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies import Json
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.config.limits import DEFAULT_LIMITS, Limits
from seekpoint.schemas.errors import JournalGap, Refused
from seekpoint.schemas.folding.fold import Verdict, advance
from seekpoint.schemas.state.call_table import CallsDraft
from seekpoint.schemas.state.calls import Call, Frame, turn_of
from seekpoint.schemas.state.process_state import Draft, State

if TYPE_CHECKING:
    from seekpoint.consumers.recovery.process_history import Logged

ENDS = frozenset(
    {b.StepEnded, b.DecisionMade, b.Sampled, b.EffectSettled, b.TimerFired, b.GateResolved, b.Received, b.ChildEnded}
)
"""The entries that end a call, or an attempt of it."""


RESTORED = (b.Rewound, b.Promoted)
"""The entries that replace the calls of a process, and so may give some of them another outcome."""


class EndedCall(NamedTuple):
    """A call as an entry about its end left it, or one that gave it another outcome."""

    seq: int
    """The seq of that entry."""
    key: str
    call: Call


def ended_by(entry: Entry, before: Mapping[str, Call], draft: Draft) -> Iterator[EndedCall]:
    """Yield the calls that got an outcome by an entry which was applied: ``before`` it and after it, in ``draft``."""
    body, seq = entry.body, entry.seq
    if seq is None:
        return
    if isinstance(body, RESTORED):
        for key, call in draft.calls.items():
            if call.kind != "write" and call.status in ("succeeded", "failed") and before.get(key) != call:
                yield EndedCall(seq, key, call)
    elif type(body) in ENDS:
        ended = getattr(body, "key", None)
        found = None if ended is None else draft.calls.get(ended)
        if ended is not None and found is not None:
            yield EndedCall(seq, ended, found)


class Admission:
    """Tell the valid entries of a process: not those of fenced owners, and no duplicates."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS, draft: Draft | None = None) -> None:
        self.draft = draft or Draft()
        """Return the state after the entries so far."""
        self._limits = limits

    def admits(self, offset: int, entry: Entry) -> bool:
        """Fold the next entry. Raise ``JournalGap`` if the beginning of the history is missing."""
        _check_begins(self.draft, entry)
        return advance(self.draft, offset, entry, self._limits) in _COUNTS

    def applied(self, history: Iterable[Logged | Entry]) -> Iterator[Entry]:
        """Fold ``history`` and yield its valid entries. Raise as ``admits`` does."""
        return (entry for offset, entry in numbered(history) if self.admits(offset, entry))


def applied(history: Iterable[Logged | Entry], limits: Limits = DEFAULT_LIMITS) -> Iterator[Entry]:
    """Return the valid entries of a process. Raise ``JournalGap`` if the beginning of the history is missing."""
    return Admission(limits).applied(history)


_COUNTS = frozenset({Verdict.APPLIED, Verdict.CLAIM_WON, Verdict.DELIVERED})


def numbered(history: Iterable[Logged | Entry]) -> Iterator[tuple[int, Entry]]:
    """Yield each entry with its offset. Entries without one are counted."""
    places = count()
    for one in history:
        yield (next(places), one) if isinstance(one, Entry) else (one.offset, one.entry)


def _check_begins(draft: Draft, entry: Entry) -> None:
    """Raise ``JournalGap`` unless the first claim is of epoch 0 and comes before all entries of an owner."""
    body = entry.body
    is_later = body.expected_epoch > 0 if isinstance(body, b.Claim) else entry.seq is not None
    if draft.epoch == 0 and draft.lost_claims == 0 and is_later:
        raise JournalGap(
            "the beginning of the history is gone: what the code asked there cannot be held against it",
            hint="check processes that began after the last trim, or an export from before it",
            process_id=entry.process_id, seq=entry.seq,
        )  # fmt: skip


class RecordedRun(msgspec.Struct):
    """The run of an agent, as its history has it."""

    process_id: str
    state: State
    """The state at the end of the history; of a finished process, right before it finished."""
    records: dict[str, Call]
    """Every call, also of turns that are over."""
    first_turn: int
    """The first turn of this process. A fork's earlier turns belong to its parent, those of a promotion to the fork."""
    first_frame: Frame | None
    result_json: Json | None
    """The result that the process finished with; None if it did not."""
    failure: str | None
    """The class of the exception that ended the newest run, if nothing came after it."""
    entries: list[Entry]
    ended: list[EndedCall]
    """The ends of all calls in their order, also of calls that a rewind forgot, and other outcomes that they got."""

    @classmethod
    def of(
        cls,
        history: Iterable[Logged | Entry],
        limits: Limits = DEFAULT_LIMITS,
        *,
        needs_agent: bool = True,
        until_seq: int | None = None,
    ) -> RecordedRun:
        """Fold the history of a process. Raise ``JournalGap`` without its beginning, ``Refused`` without an agent.

        Without ``needs_agent`` it may also be the history of a process that a program wrote. ``until_seq`` ends the
        history after the entry with this seq, or raises ``Refused``.
        """
        reading, entry = _Reading(limits), None
        for offset, entry in numbered(history):
            if reading.take(offset, entry) and entry.seq == until_seq is not None:
                break
        else:
            if until_seq is not None and entry is not None:
                raise Refused(
                    "the process has no such seq", process_id=entry.process_id, found=until_seq,
                    hint="seekpoint log PROCESS_ID shows the seqs",
                )  # fmt: skip
        return reading.run(needs_agent)

    @property
    def last_turn(self) -> int:
        """Return the newest turn that is over; 0 if none is."""
        return self.state.turn

    def is_over(self, turn: int) -> bool:
        """Whether ``turn`` (0: the code before the turns) can have no more entries in this history."""
        if self.result_json is not None:
            return True
        if turn:
            return turn <= self.last_turn
        return self.last_turn > 0 or any(turn_of(key) for key in self.records)

    def starting_state(self) -> State:
        """Return the state that a run of the whole history begins with: every call remembered, no turn over."""
        draft = self.state.thaw()
        # What was taken back at the end was not, when the code came by.
        draft.calls = CallsDraft({key: call for key, call in self.records.items() if not key.startswith(UNDO)})
        draft.turn, draft.turn_frame = self.first_turn, self.first_frame
        return draft.freeze()


class _Reading:
    """The fold of one history that keeps what a state forgets."""

    def __init__(self, limits: Limits) -> None:
        self._admission = Admission(limits)
        self._draft = self._admission.draft
        self._kept: dict[str, Call] = {}
        self._first_turn = 0
        self._first_frame: Frame | None = None
        self._before_end: State | None = None
        self._failure: str | None = None
        self._entries: list[Entry] = []
        self._ended: list[EndedCall] = []

    def take(self, offset: int, entry: Entry) -> bool:
        """Fold the next entry; return whether it is valid."""
        body, kept, before = entry.body, self._about_to_go(entry.body), self._draft.calls
        if isinstance(body, b.Finished):
            self._before_end = self._draft.snapshot()
        if not self._admission.admits(offset, entry):
            return False
        self._entries.append(entry)
        self._kept |= kept
        if isinstance(body, RESTORED):
            self._kept = {key: call for key, call in self._kept.items() if turn_of(key) <= self._draft.turn}
        if self._begins_at(body, before):
            self._first_turn, self._first_frame = self._draft.turn, self._draft.turn_frame
        if type(body) in ENDS or isinstance(body, RESTORED):
            self._ended += ended_by(entry, before, self._draft)
        self._note_failure(body)
        return True

    def _begins_at(self, body: b.Body, before: Mapping[str, Call]) -> bool:
        """Whether the calls of the turns before the present one are not in this history, or not those of the code."""
        if isinstance(body, b.Rewound):
            return self._draft.turn < self._first_turn
        if isinstance(body, b.Promoted):
            return self._draft.turn > 0 and dict(before) != dict(self._draft.calls)
        return isinstance(body, b.Forked | b.Seeded)

    def _about_to_go(self, body: b.Body) -> dict[str, Call]:
        if not isinstance(body, b.TurnEnded):
            return {}
        return dict(self._draft.calls.of_turn(body.number))

    def _note_failure(self, body: b.Body) -> None:
        if isinstance(body, b.ErrorRecorded) and body.call is None:
            self._failure = body.type
        elif not body.OWNERSHIP and not body.EXTERNAL and not isinstance(body, b.LifecycleChanged):
            self._failure = None

    def run(self, needs_agent: bool) -> RecordedRun:
        """Return the run."""
        if not self._entries:
            raise JournalGap("the history has no entries", hint="check a process whose entries are in the log")
        finished = self._draft.finished and self._before_end is not None
        state = self._before_end if finished and self._before_end is not None else self._draft.snapshot()
        process_id = self._entries[0].process_id
        if state.agent is None and needs_agent:
            raise Refused(
                "no agent ran as the process: there is no code to hold against its history", process_id=process_id,
                hint="a replay check is for processes that node.run(agent, ...) ran",
            )  # fmt: skip
        return RecordedRun(
            process_id, state, {**self._kept, **state.calls}, self._first_turn, self._first_frame,
            self._draft.result_json if finished else None, self._failure, self._entries, self._ended,
        )  # fmt: skip
