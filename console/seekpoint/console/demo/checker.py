"""The checker: did the fleet keep its word? It trusts nobody who took part.

It sees what outsiders wrote down (the model's bill, each node's notes), the final log, and what recovery says now.
Who owned what is worked out anew here, in twenty lines; only the state's hash comes from the fold, run from zero.
Pure: plain data in, a verdict out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from seekpoint.console.demo.journal_reading import Placed
from seekpoint.console.demo.outside_ledger import BilledCall, Ended, Note, Opened, Receipt
from seekpoint.console.demo.transcripts import Line, Transcript
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.folding.fold import fold
from seekpoint.schemas.state.conversation import Message
from seekpoint.schemas.state.process_state import State, new_state

__all__ = ["DemoEvidence", "DemoVerdict", "check"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoEvidence:
    """What is known after the fleet went home."""

    transcripts: Sequence[Transcript]
    calls: Sequence[BilledCall]
    """The model's bill, in its order."""
    notes: Sequence[Note]
    """The nodes' notes, each node's in its order."""
    log: Sequence[Placed]
    recovered: Mapping[str, str]
    """By case: the hash of the state that recovery finds now."""
    killed: frozenset[str] = frozenset()
    """The nodes that were killed: they could not be told that they were fenced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoVerdict:
    """What the checker found. All is well if the four counts that must be zero are, and nobody complains."""

    entries: int
    processes: int
    acknowledged: int
    acknowledged_lost: int
    fenced: int
    """Acknowledged to an owner that had lost the process, and told so."""
    model_calls: int
    in_doubt_calls: int
    """Made again because nobody had the answer: its node died, or lost the case, before the answer counted."""
    duplicate_calls: int
    """Made again although the answer had been acknowledged."""
    hash_mismatches: int
    complaints: tuple[str, ...]

    @property
    def all_well(self) -> bool:
        """Whether the fleet kept its word."""
        return not (self.acknowledged_lost or self.duplicate_calls or self.hash_mismatches or self.complaints)


def check(evidence: DemoEvidence) -> DemoVerdict:
    """Compare everything with everything."""
    accounts: dict[str, _Account] = defaultdict(_Account)
    for placed in evidence.log:
        accounts[placed.entry.process_id].take(placed)
    receipts = [note for note in evidence.notes if isinstance(note, Receipt)]
    lost, fenced = _missing(evidence, receipts, accounts)
    answered = {receipt.call_id for receipt in receipts if receipt not in fenced} - {None}
    duplicates, in_doubt = _repeated(evidence.calls, answered)
    wrong_hashes, complaints = _wrong_hashes(evidence, accounts)
    return DemoVerdict(
        entries=len(evidence.log),
        processes=len(accounts),
        acknowledged=len(receipts),
        acknowledged_lost=lost,
        fenced=len(fenced),
        model_calls=len(evidence.calls),
        in_doubt_calls=in_doubt,
        duplicate_calls=duplicates,
        hash_mismatches=wrong_hashes,
        complaints=(*complaints, *_stories(evidence, accounts), *_questions(evidence, accounts)),
    )


# --- who owned what ---------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class _Account:
    """One case's entries in the order of the log, and which of them count."""

    entries: list[Placed] = field(default_factory=list)
    counted: dict[int, Entry] = field(default_factory=dict)
    epoch: int = 0
    owner: bytes | None = None
    seq: int = 0
    finished: bool = False

    def take(self, placed: Placed) -> None:
        """The next entry: a claim of the right epoch makes an owner; of the owner's entries the next one counts."""
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


# --- acknowledged means: in the log, and applied ----------------------------------------------------------------------
def _missing(
    evidence: DemoEvidence, receipts: Iterable[Receipt], accounts: Mapping[str, _Account]
) -> tuple[int, set[Receipt]]:
    """How many acknowledged entries are lost, and which were written by an owner that was fenced."""
    told = {(note.case, note.node) for note in evidence.notes if isinstance(note, Ended) and note.how == "fenced"}
    lost, fenced = 0, set()
    for receipt in receipts:
        account = accounts[receipt.case] if receipt.case in accounts else _Account()
        if _is(account.counted.get(receipt.offset), receipt):
            continue
        written = any(offset == receipt.offset and _is(entry, receipt) for _, offset, entry in account.entries)
        excused = (receipt.case, receipt.node) in told or receipt.node in evidence.killed
        if written and excused:
            fenced.add(receipt)
        else:
            lost += 1
    return lost, fenced


def _is(entry: Entry | None, receipt: Receipt) -> bool:
    return entry is not None and (entry.seq, entry.kind) == (receipt.seq, receipt.kind)


# --- a finished call is never made again ------------------------------------------------------------------------------
def _repeated(calls: Iterable[BilledCall], answered: Collection[str | None]) -> tuple[int, int]:
    """How many calls were made though an earlier one's answer was acknowledged, and how many because none was."""
    billed: dict[tuple[str, int], list[str]] = defaultdict(list)
    for call in calls:
        billed[call.case, call.turn].append(call.call_id)
    duplicates = in_doubt = 0
    for same in billed.values():
        first = next((at for at, call_id in enumerate(same) if call_id in answered), len(same) - 1)
        in_doubt += first
        duplicates += len(same) - 1 - first
    return duplicates, in_doubt


# --- every state equals a full refold ---------------------------------------------------------------------------------
def _wrong_hashes(evidence: DemoEvidence, accounts: Mapping[str, _Account]) -> tuple[int, list[str]]:
    """Of the states that recovery gives now and gave at each opening: how many a fold from zero does not confirm."""
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


# --- every case was told to its end, and the model was asked the right things -----------------------------------------
def _stories(evidence: DemoEvidence, accounts: Mapping[str, _Account]) -> list[str]:
    complaints = []
    for transcript in evidence.transcripts:
        account = accounts.get(transcript.case, _Account())
        said = [_line(entry.body) for entry in account.counted.values() if isinstance(entry.body, b.MessageSaid)]
        if not account.finished:
            complaints.append(f"{transcript.case}: not finished")
        elif said != list(transcript.lines):
            complaints.append(f"{transcript.case}: its conversation in the log is not what was said")
    return complaints


def _line(body: b.MessageSaid) -> Line:
    message = Message(body.role, body.content, body.parts, body.tool_calls, body.tool_call_id, body.name)
    return Line(
        role=message.role,
        content=message.content,
        tool_calls=message.tool_calls,
        tool_call_id=message.tool_call_id,
        name=message.name,
    )


def _questions(evidence: DemoEvidence, accounts: Mapping[str, _Account]) -> list[str]:
    """Whether each turn of a finished case was asked, and always with its own conversation, whoever asked."""
    expected = {(each.case, turn): asked for each in evidence.transcripts for turn, asked in each.digests().items()}
    complaints = [
        f"{call.case}: turn {call.turn} was asked with another conversation"
        for call in evidence.calls
        if expected.get((call.case, call.turn)) != call.digest
    ]
    finished = {case for case, account in accounts.items() if account.finished}
    missing = {(case, turn) for case, turn in expected if case in finished}
    missing -= {(call.case, call.turn) for call in evidence.calls}
    return complaints + [f"{case}: turn {turn} was never asked" for case, turn in sorted(missing)]
