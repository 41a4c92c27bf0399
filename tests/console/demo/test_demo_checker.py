"""The demo's checker, proven by mutation: an honest history passes, and every way of not keeping the word is seen."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from lost_workers import vanish
from seekpoint.console.demo.cases import support_cases
from seekpoint.console.demo.checker import DemoEvidence, check
from seekpoint.console.demo.journal_reading import Placed
from seekpoint.console.demo.outcome import owners
from seekpoint.console.demo.outside_ledger import BilledCall, Ended, Note, Opened, Receipt
from seekpoint.console.demo.scripted_agent import SUPPORT, ScriptedModel, support_agent
from seekpoint.console.demo.transcripts import Transcript
from seekpoint.producers import Client, Node, Worker
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.log.memory_inbox import MemoryGroup

TAKEN_OVER = "case-01"
TURNS_BEFORE_DEATH = 2


class _Dying(ScriptedModel):
    """A model whose third call is on the bill and never ends. ``is_asked`` is set then."""

    def __init__(self, bill: Callable[[BilledCall], None]) -> None:
        super().__init__("worker-1", bill, (0.0, 0.0))
        self.is_asked = asyncio.Event()

    async def answer(self, transcript: Transcript, request: Mapping[str, Any]) -> dict[str, Any]:
        answer = await super().answer(transcript, request)
        if transcript.turn_at(len(request["messages"])) > TURNS_BEFORE_DEATH:
            self.is_asked.set()
            await asyncio.Event().wait()
        return answer


async def _history() -> DemoEvidence:
    """Three cases; worker-1 dies in the third model call of the first one, worker-2 does the rest."""
    log, cases = MemoryLog(), support_cases(3)
    calls: list[BilledCall] = []
    notes: list[Note] = []
    dying = _Dying(calls.append)
    living = ScriptedModel("worker-2", calls.append, (0.0, 0.0))

    def worker(name: str, model: ScriptedModel) -> Worker:
        support = support_agent(cases, model, name, notes.append)
        member, inbox = MemoryGroup.of(log, SUPPORT).join(), log.topic("inbox")
        return Worker([support], node=Node.in_memory(log, node_id=name), member=member, inbox_writer=inbox)

    async with Client.in_memory(log) as client:
        first = await worker("worker-1", dying).start()
        runs = [await client.submit(SUPPORT, TAKEN_OVER, dict(cases[0].facts))]
        await dying.is_asked.wait()
        await vanish(first)
        async with worker("worker-2", living):
            runs += [await client.submit(SUPPORT, case.case, dict(case.facts)) for case in cases[1:]]
            results = [await run.result(10) for run in runs]
        assert results == [{"resolved": True, "model_calls": case.model_calls} for case in cases]
        recovered = {case.case: (await client.state(case.case)).hash for case in cases}
    return DemoEvidence(
        transcripts=cases,
        calls=calls,
        notes=notes,
        results=[run.id for run in runs],
        log=_placed(log),
        recovered=recovered,
        killed=frozenset({"worker-1"}),
    )


def _placed(log: MemoryLog) -> list[Placed]:
    return [
        Placed(record.partition, record.offset, log.codec.decode(record.value))
        for partition in range(log.partitions)
        for batch in log.read(partition, 0, log.watermarks(partition).high)
        for record in batch.records
    ]


@functools.cache
def _recorded() -> DemoEvidence:
    return asyncio.run(_history())


@pytest.fixture
def honest() -> DemoEvidence:
    """A history in which everybody kept his word; in-doubt call included."""
    return _recorded()


def _of(evidence: DemoEvidence, case: str) -> list[Placed]:
    return [placed for placed in evidence.log if placed.entry.process_id == case]


def _without(evidence: DemoEvidence, lost: Placed) -> DemoEvidence:
    return replace(evidence, log=[placed for placed in evidence.log if placed is not lost])


def _renote(evidence: DemoEvidence, at: Callable[[Note], bool], change: Callable[[Note], Note]) -> DemoEvidence:
    first = next(note for note in evidence.notes if at(note))
    return replace(evidence, notes=[change(note) if note is first else note for note in evidence.notes])


def test_an_honest_history_passes(honest: DemoEvidence) -> None:
    """Nothing lost, nothing twice, every state as a refold says; the call that died with its node is in doubt."""
    verdict = check(honest)
    assert verdict.all_well, verdict.complaints
    assert verdict.processes == 3
    assert verdict.entries == len(honest.log)
    assert verdict.model_calls == sum(case.model_calls for case in honest.transcripts) + 1
    assert verdict.in_doubt_calls == 1
    assert verdict.fenced == 0


def test_owners_are_read_from_the_log(honest: DemoEvidence) -> None:
    """The case changed hands once."""
    assert owners(honest.log)[TAKEN_OVER, 1] == "worker-1"
    assert owners(honest.log)[TAKEN_OVER, 2] == "worker-2"
    assert (TAKEN_OVER, 3) not in owners(honest.log)


def test_the_checker_finds_a_lost_last_entry(honest: DemoEvidence) -> None:
    """A log that ends early has lost what was acknowledged."""
    verdict = check(_without(honest, _of(honest, "case-02")[-1]))
    assert verdict.acknowledged_lost == 1
    assert not verdict.all_well


def test_the_checker_counts_every_entry_after_a_lost_one_as_lost(honest: DemoEvidence) -> None:
    """What follows a gap is not applied, so it is lost too."""
    entries = _of(honest, "case-02")
    verdict = check(_without(honest, entries[len(entries) // 2]))
    assert verdict.acknowledged_lost > 1
    assert verdict.hash_mismatches >= 1


def test_the_checker_finds_a_lost_process(honest: DemoEvidence) -> None:
    """No entry of it is left."""
    kept = [placed for placed in honest.log if placed.entry.process_id != "case-03"]
    verdict = check(replace(honest, log=kept))
    acknowledged = [note for note in honest.notes if isinstance(note, Receipt) and note.case == "case-03"]
    assert verdict.acknowledged_lost == len(acknowledged) + 1  # its result


def test_an_entry_that_is_not_what_was_acknowledged_is_lost(honest: DemoEvidence) -> None:
    """Another kind at the acknowledged place is another entry."""
    entries = [
        placed._replace(entry=placed.entry._replace(body=b.Custom("other")))
        if placed is _of(honest, "case-02")[-1]
        else placed
        for placed in honest.log
    ]
    assert check(replace(honest, log=entries)).acknowledged_lost == 1


def _zombie(honest: DemoEvidence) -> tuple[DemoEvidence, Receipt]:
    """worker-1 wrote one more entry after the claim that took its case away, and it was acknowledged to it."""
    last = _of(honest, TAKEN_OVER)[-1]
    old = next(placed.entry for placed in _of(honest, TAKEN_OVER) if placed.entry.seq == 1)
    entry = old._replace(seq=99, body=b.ContextUpdated("late", "1"))
    placed = Placed(last.partition, last.offset + 1_000, entry)
    receipt = Receipt(
        case=TAKEN_OVER, node="worker-1", at=0.0, seq=99, offset=placed.offset, kind="context_updated", call_id=None
    )
    log = [*honest.log, placed]
    return replace(honest, log=log, notes=[*honest.notes, receipt], killed=frozenset()), receipt


def test_the_checker_counts_entries_of_a_fenced_owner_separately(honest: DemoEvidence) -> None:
    """It was acknowledged and does not count, and its writer was told so: fenced, not lost."""
    evidence, receipt = _zombie(honest)
    told = Ended(case=receipt.case, node=receipt.node, at=0.0, how="fenced")
    verdict = check(replace(evidence, notes=[*evidence.notes, told]))
    assert (verdict.fenced, verdict.acknowledged_lost) == (1, 0)
    assert verdict.all_well, verdict.complaints


def test_an_answer_of_a_fenced_owner_excuses_a_repeated_call(honest: DemoEvidence) -> None:
    """It does not count, so the new owner had to ask again: in doubt, not a duplicate."""
    evidence, receipt = _zombie(honest)
    doubtful = next(call for call in honest.calls if call.turn == TURNS_BEFORE_DEATH + 1)
    notes = [replace(receipt, call_id=doubtful.call_id) if note is receipt else note for note in evidence.notes]
    notes.append(Ended(case=receipt.case, node=receipt.node, at=0.0, how="fenced"))
    verdict = check(replace(evidence, notes=notes))
    assert (verdict.fenced, verdict.duplicate_calls, verdict.in_doubt_calls) == (1, 0, 1)


def test_an_entry_of_an_owner_without_a_fencing_note_is_lost(honest: DemoEvidence) -> None:
    """An acknowledged entry that does not count is lost for whoever relies on it."""
    evidence, _ = _zombie(honest)
    verdict = check(evidence)
    assert (verdict.fenced, verdict.acknowledged_lost) == (0, 1)


def test_a_finished_call_made_again_is_a_duplicate(honest: DemoEvidence) -> None:
    """Its answer was acknowledged: whoever asks again pays twice."""
    again = replace(honest.calls[0], call_id="again", node="worker-2")
    verdict = check(replace(honest, calls=[*honest.calls, again]))
    assert (verdict.duplicate_calls, verdict.in_doubt_calls) == (1, 1)
    assert not verdict.all_well


def test_an_answer_in_the_log_is_not_asked_for_again(honest: DemoEvidence) -> None:
    """It was recorded, whether its worker lived to note the acknowledgement or not."""
    notes = [replace(note, call_id=None) if isinstance(note, Receipt) else note for note in honest.notes]
    again = replace(honest.calls[0], call_id="again", node="worker-2")
    verdict = check(replace(honest, notes=notes, calls=[*honest.calls, again]))
    assert (verdict.duplicate_calls, verdict.in_doubt_calls) == (1, 1)


def test_a_repeated_call_in_doubt_is_not_a_duplicate(honest: DemoEvidence) -> None:
    """Nobody had the answer: asking again is the only way."""
    doubtful = next(call for call in honest.calls if call.turn == TURNS_BEFORE_DEATH + 1)
    calls = [replace(doubtful, call_id="even earlier"), *honest.calls]
    verdict = check(replace(honest, calls=calls))
    assert (verdict.duplicate_calls, verdict.in_doubt_calls) == (0, 2)


def test_the_checker_finds_a_recovered_state_that_differs(honest: DemoEvidence) -> None:
    """What recovery says must be what the log says."""
    verdict = check(replace(honest, recovered={**honest.recovered, "case-02": "0" * 32}))
    assert verdict.hash_mismatches == 1


def test_a_process_that_recovery_does_not_find_is_a_mismatch(honest: DemoEvidence) -> None:
    """It is in the log, so it has to be found."""
    recovered = {case: found for case, found in honest.recovered.items() if case != "case-03"}
    assert check(replace(honest, recovered=recovered)).hash_mismatches == 1


def test_the_checker_finds_a_take_over_from_a_wrong_state(honest: DemoEvidence) -> None:
    """The state a new owner began with is held against the log as of its claim."""
    evidence = _renote(
        honest,
        lambda note: isinstance(note, Opened) and note.epoch == 2,
        lambda note: replace(note, hash="0" * 32) if isinstance(note, Opened) else note,
    )
    assert check(evidence).hash_mismatches == 1


def test_the_checker_finds_a_repeated_message(honest: DemoEvidence) -> None:
    """Every case is one conversation, word for word."""
    said = [at for at, placed in enumerate(honest.log) if isinstance(placed.entry.body, b.MessageSaid)]
    doubled = honest.log[said[0]].entry.body
    log = list(honest.log)
    log[said[1]] = log[said[1]]._replace(entry=log[said[1]].entry._replace(body=doubled))
    assert any("conversation in the log" in complaint for complaint in check(replace(honest, log=log)).complaints)


def test_the_checker_finds_a_model_call_with_another_conversation(honest: DemoEvidence) -> None:
    """The one that takes over asks what the one that died would have asked."""
    calls = [*honest.calls[:-1], replace(honest.calls[-1], digest="0" * 32)]
    [complaint] = check(replace(honest, calls=calls)).complaints
    assert "another conversation to the model" in complaint


def test_the_checker_finds_a_turn_without_a_model_call(honest: DemoEvidence) -> None:
    """An answer without a call on the bill comes from nowhere."""
    [complaint] = check(replace(honest, calls=honest.calls[:-1])).complaints
    assert "never called the model" in complaint


def test_the_checker_finds_an_unfinished_case(honest: DemoEvidence) -> None:
    """A fleet that leaves work behind has not done well."""
    more = support_cases(4)
    verdict = check(replace(honest, transcripts=more))
    assert "case-04: not finished" in verdict.complaints
    assert not verdict.all_well
