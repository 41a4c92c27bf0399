"""A recovery equals a plain fold of the process's entries from offset 0, whatever the log contains."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from histories import POISON, PROCESS_IDS, Step, Written, expected_states, steps, write_history
from seekpoint.consumers.recovery.dead_letters import DeadLetters
from seekpoint.consumers.recovery.points import Point
from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.consumers.recovery.recovery_report import is_known
from seekpoint.consumers.recovery.verification import verify
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.folding.fold import Verdict, advance
from seekpoint.schemas.log.memory_log import MemoryLog
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.state.process_state import Draft

PARTITIONS = 4
SETTINGS = Settings(redis_url=None, dead_letters_max=1_000)


def write(history: list[Step]) -> tuple[Recoverer, list[Written]]:
    log = MemoryLog(partitions=PARTITIONS)
    written = write_history(history, log.append, PARTITIONS)
    return Recoverer(log, DeadLetters(log, SETTINGS)), written


@given(steps())
@example([Step("case-17", "claim", 0), Step("case-17", "poison", POISON.index("elsewhere"))])
def test_recovery_equals_a_plain_fold_from_zero(history: list[Step]) -> None:
    """This holds for one process, several, all of them, and for ``verify``."""
    recoverer, written = write(history)
    expected = expected_states(written)
    for process_id, state in expected.items():
        found = recoverer.recover(process_id, missing_ok=True)
        assert found.state == state
        assert found.state.hash == state.hash
        assert found.known == is_known(state)
        if found.known:
            assert verify(recoverer, process_id).hashes == {"scan": state.hash, "audit": state.hash}
    assert {name: one.state for name, one in recoverer.recover_many(PROCESS_IDS).items()} == expected
    everyone = [recoverer.recover_partition(partition) for partition in range(PARTITIONS)]
    assert {name: one.state for part in everyone for name, one in part.items()} == {
        name: state for name, state in expected.items() if is_known(state)
    }


@given(steps())
def test_a_report_counts_what_was_read_and_what_was_applied(history: list[Step]) -> None:
    """Scanned are all entries of the partition, applied those of the process, without claims and releases."""
    recoverer, written = write(history)
    for process_id in PROCESS_IDS:
        report = recoverer.recover(process_id, missing_ok=True).report
        home = partition_of(process_id.encode(), PARTITIONS)
        there = [one for one in written if one.partition == home]
        assert report.entries_scanned == len(there) == report.log_end
        assert report.bytes == sum(len(one.key or b"") + len(one.value or b"") for one in there)
        assert report.entries_applied == applied(written, process_id)
        assert (report.seek_point, report.log_start) == (0, 0)


def applied(written: list[Written], process_id: str) -> int:
    draft = Draft()
    mine = [(one.offset, one.entry) for one in written if one.entry and one.entry.process_id == process_id]
    verdicts = [(advance(draft, offset, entry), entry) for offset, entry in mine]
    return sum(
        verdict in (Verdict.APPLIED, Verdict.DELIVERED) and not entry.body.OWNERSHIP for verdict, entry in verdicts
    )


@given(steps())
def test_each_poison_record_is_one_dead_letter_however_often_it_is_read(history: list[Step]) -> None:
    """It has the bytes and coordinates. Forged entries become one too, other records do not."""
    recoverer, written = write(history)
    assert recoverer.dead_letters is not None
    for _ in range(2):
        for partition in range(PARTITIONS):
            recoverer.recover_partition(partition)
    letters = recoverer.dead_letters.list()
    found = {(letter.partition, letter.offset): (letter.key, letter.value) for letter in letters}
    assert len(found) == len(letters)
    assert found == {(one.partition, one.offset): (one.key, one.value) for one in written if is_poison(one, written)}


def is_poison(one: Written, written: list[Written]) -> bool:
    if one.entry is None:
        return True
    draft = Draft()
    for other in written:
        if other.entry is not None and other.entry.process_id == one.entry.process_id:
            verdict = advance(draft, other.offset, other.entry)
            if other is one:
                return verdict is Verdict.FORGED
    raise AssertionError("it was written")


@settings(max_examples=50)
@given(steps(40), st.data())
def test_a_state_in_the_past_is_the_fold_of_what_was_there(history: list[Step], data: st.DataObject) -> None:
    """This holds for every offset and for every applied seq."""
    recoverer, written = write(history)
    for process_id in PROCESS_IDS:
        draft = Draft()
        by_seq = {}
        mine = [one for one in written if one.entry is not None and one.entry.process_id == process_id]
        for one in mine:
            assert one.entry is not None
            before = draft.seq
            advance(draft, one.offset, one.entry)
            if draft.seq > before:
                by_seq[draft.seq] = draft.snapshot()
            assert (
                recoverer.recover(process_id, point=Point(offset=one.offset), missing_ok=True).state == draft.snapshot()
            )
        for seq, state in by_seq.items():
            # The seq of a deletion is a point at which there is no process.
            assert recoverer.recover(process_id, point=Point(seq=seq), missing_ok=state.is_deleted).state == state


@given(steps())
def test_findings_of_the_fold_are_no_poison(history: list[Step]) -> None:
    """Stale, duplicate and abandoned entries are counted in the state, and make no dead letter."""
    poison = ("poison", "forged", "forged_external", "seed")
    recoverer, _ = write([step for step in history if step.action not in poison])
    found = [recoverer.recover_partition(partition) for partition in range(PARTITIONS)]
    assert recoverer.dead_letters is not None
    assert recoverer.dead_letters.list() == []
    assert not any(one.state.forged_entries or one.report.poison for part in found for one in part.values())
