"""Check that the demo lost nothing and repeated nothing, without trusting the workers.

The checker compares three sources: the files that model and workers wrote outside of Seekpoint, the final log, and the
states that recovery finds. It decides by code of its own which entries count; only the hashes of the states come from
the fold, which it runs from the first entry. It does no I/O.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import orjson

from seekpoint.console.demo.journal_reading import Placed
from seekpoint.console.demo.outside_ledger import BilledCall, Ended, Note, Opened, Receipt
from seekpoint.console.demo.transcripts import Transcript, TranscriptLine
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.folding.fold import fold
from seekpoint.schemas.state.conversation import Message
from seekpoint.schemas.state.process_state import State, new_state


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoEvidence:
    """The facts of a demo that the checker compares."""

    transcripts: Sequence[Transcript]
    calls: Sequence[BilledCall]
    """The calls on the model's bill, in order."""
    notes: Sequence[Note]
    """The notes of all workers, in order for each worker."""
    results: Collection[str]
    """The cases of which a client has the result."""
    log: Sequence[Placed]
    recovered: Mapping[str, str]
    """The hash of the state that recovery finds, by case."""
    killed: frozenset[str] = frozenset()
    """The killed workers. A killed worker cannot note that it was fenced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoVerdict:
    """The findings of the checker."""

    entries: int
    processes: int
    acknowledged: int
    acknowledged_lost: int
    fenced: int
    """Acknowledged entries of an owner that had lost the process and was notified of it."""
    model_calls: int
    in_doubt_calls: int
    """Calls made again because the answer was unknown: the worker died or was fenced before it recorded the answer."""
    duplicate_calls: int
    """Calls made again although the answer was recorded."""
    hash_mismatches: int
    complaints: tuple[str, ...]

    @property
    def all_well(self) -> bool:
        """Whether nothing was lost or repeated, all hashes match, and there are no complaints."""
        return not (self.acknowledged_lost or self.duplicate_calls or self.hash_mismatches or self.complaints)


def check(evidence: DemoEvidence) -> DemoVerdict:
    """Compare the files, the log and the recovered states."""
    accounts: dict[str, _Account] = defaultdict(_Account)
    for placed in evidence.log:
        accounts[placed.entry.process_id].take(placed)
    receipts = [note for note in evidence.notes if isinstance(note, Receipt)]
    lost, fenced = _missing(evidence, receipts, accounts)
    answered = {receipt.call_id for receipt in receipts if receipt not in fenced} | _recorded_answers(accounts.values())
    duplicates, in_doubt = _repeated(evidence.calls, answered)
    wrong_hashes, complaints = _wrong_hashes(evidence, accounts)
    return DemoVerdict(
        entries=len(evidence.log),
        processes=len(accounts),
        acknowledged=len(receipts) + len(evidence.results),
        acknowledged_lost=lost,
        fenced=len(fenced),
        model_calls=len(evidence.calls),
        in_doubt_calls=in_doubt,
        duplicate_calls=duplicates,
        hash_mismatches=wrong_hashes,
        complaints=(*complaints, *_wrong_conversations(evidence, accounts), *_wrong_requests(evidence, accounts)),
    )


# --- ownership --------------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class _Account:
    """The entries of one case in log order, and those of them that count."""

    entries: list[Placed] = field(default_factory=list)
    counted: dict[int, Entry] = field(default_factory=dict)
    epoch: int = 0
    owner: bytes | None = None
    seq: int = 0
    finished: bool = False

    def take(self, placed: Placed) -> None:
        """Take an entry. A claim that expects the current epoch wins; the owner's entry with the next seq counts."""
        _, offset, entry = placed
        self.entries.append(placed)
        if isinstance(entry.body, b.Claim):
            if entry.body.expected_epoch == self.epoch and not self.finished:
                self.epoch, self.owner = self.epoch + 1, entry.id
        elif (entry.seq, entry.epoch, entry.claim_id) == (self.seq + 1, self.epoch, self.owner):
            self.seq += 1
            self.counted[offset] = entry
            if isinstance(entry.body, b.Released | b.Finished):
                self.owner, self.finished = None, isinstance(entry.body, b.Finished)


# --- acknowledged entries are in the log and count --------------------------------------------------------------------
def _missing(
    evidence: DemoEvidence, receipts: Iterable[Receipt], accounts: Mapping[str, _Account]
) -> tuple[int, set[Receipt]]:
    """Return the number of lost acknowledged entries, and the receipts of entries that a fenced owner wrote.

    A result that a client has is the acknowledgement of the last entry.
    """
    notified = {(note.case, note.node) for note in evidence.notes if isinstance(note, Ended) and note.how == "fenced"}
    lost = sum(case not in accounts or not accounts[case].finished for case in evidence.results)
    fenced = set()
    for receipt in receipts:
        account = accounts[receipt.case] if receipt.case in accounts else _Account()
        if _is(account.counted.get(receipt.offset), receipt):
            continue
        written = any(offset == receipt.offset and _is(entry, receipt) for _, offset, entry in account.entries)
        excused = (receipt.case, receipt.node) in notified or receipt.node in evidence.killed
        if written and excused:
            fenced.add(receipt)
        else:
            lost += 1
    return lost, fenced


def _is(entry: Entry | None, receipt: Receipt) -> bool:
    return entry is not None and (entry.seq, entry.kind) == (receipt.seq, receipt.kind)


# --- a finished call is not repeated ----------------------------------------------------------------------------------
def _recorded_answers(accounts: Iterable[_Account]) -> set[str | None]:
    """Return the ids of the calls whose answers are in the log, and count."""
    bodies = [entry.body for account in accounts for entry in account.counted.values()]
    made = [body for body in bodies if isinstance(body, b.DecisionMade) and body.outcome == "succeeded"]
    return {orjson.loads(body.response)["id"] for body in made}


def _repeated(calls: Iterable[BilledCall], answered: Collection[str | None]) -> tuple[int, int]:
    """Return the number of calls repeated after an acknowledged answer, and the number repeated without one."""
    billed: dict[tuple[str, int], list[str]] = defaultdict(list)
    for call in calls:
        billed[call.case, call.turn].append(call.call_id)
    duplicates = in_doubt = 0
    for same in billed.values():
        first = next((at for at, call_id in enumerate(same) if call_id in answered), len(same) - 1)
        in_doubt += first
        duplicates += len(same) - 1 - first
    return duplicates, in_doubt


# --- each state equals a full refold ----------------------------------------------------------------------------------
def _wrong_hashes(evidence: DemoEvidence, accounts: Mapping[str, _Account]) -> tuple[int, list[str]]:
    """Count the recovered states, now and at each opening, that differ from a fold from the first entry."""
    opened: dict[str, list[Opened]] = defaultdict(list)
    for note in evidence.notes:
        if isinstance(note, Opened):
            opened[note.case].append(note)
    wrong, complaints = 0, []
    for case, account in sorted(accounts.items()):
        states = _refold(account.entries)
        wrong += evidence.recovered.get(case) != states[-1].hash
        wrong += sum(_as_of(states, note.offset).hash != note.hash for note in opened[case])
        if (states[-1].epoch, states[-1].seq) != (account.epoch, account.seq):
            complaints.append(f"{case}: the fold and the checker disagree on who wrote what")
    return wrong, complaints


def _refold(entries: Iterable[Placed]) -> list[State]:
    states = [new_state()]
    for _, offset, entry in entries:
        states.append(fold(states[-1], offset, entry))
    return states


def _as_of(states: Sequence[State], offset: int) -> State:
    return next(state for state in reversed(states) if state.offset <= offset)


# --- each conversation is complete, and each model request is right ---------------------------------------------------
def _wrong_conversations(evidence: DemoEvidence, accounts: Mapping[str, _Account]) -> list[str]:
    complaints = []
    for transcript in evidence.transcripts:
        account = accounts.get(transcript.case, _Account())
        said = [_line(entry.body) for entry in account.counted.values() if isinstance(entry.body, b.MessageSaid)]
        if not account.finished:
            complaints.append(f"{transcript.case}: not finished")
        elif said != list(transcript.lines):
            complaints.append(f"{transcript.case}: its conversation in the log differs from the script")
    return complaints


def _line(body: b.MessageSaid) -> TranscriptLine:
    message = Message(body.role, body.content, body.parts, body.tool_calls, body.tool_call_id, body.name)
    return TranscriptLine(
        role=message.role,
        content=message.content,
        tool_calls=message.tool_calls,
        tool_call_id=message.tool_call_id,
        name=message.name,
    )


def _wrong_requests(evidence: DemoEvidence, accounts: Mapping[str, _Account]) -> list[str]:
    """Describe the model calls with another conversation than the script's, and the turns without any call."""
    expected = {(each.case, turn): asked for each in evidence.transcripts for turn, asked in each.digests().items()}
    complaints = [
        f"{call.case}: turn {call.turn} sent another conversation to the model"
        for call in evidence.calls
        if expected.get((call.case, call.turn)) != call.digest
    ]
    finished = {case for case, account in accounts.items() if account.finished}
    missing = {(case, turn) for case, turn in expected if case in finished}
    missing -= {(call.case, call.turn) for call in evidence.calls}
    return complaints + [f"{case}: turn {turn} never called the model" for case, turn in sorted(missing)]
