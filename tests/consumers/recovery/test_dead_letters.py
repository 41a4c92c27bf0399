"""Each poison record is stored once as a dead letter, and a flood of poison stops the reader."""

from __future__ import annotations

import pytest

from owners import Owner
from seekpoint.consumers import DeadLetter, DeadLetters, Recoverer
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import (
    JournalMismatch,
    JournalUnavailable,
    NewerFormat,
    TooManyDeadLetters,
    UndecodableRecord,
)
from seekpoint.schemas.log.log_ports import Record
from seekpoint.schemas.log.memory_log import MemoryLog, MemoryTable

LIMITS = {"dead_letters_max": 3, "dead_letter_window_s": 60.0}
ERROR = UndecodableRecord("not an entry: junk")


class Clock:
    """A clock that is set by hand."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def letters(log: MemoryLog, clock: Clock) -> DeadLetters:
    return DeadLetters(log, Settings(journal="fleet", redis_url=None, **LIMITS), clock)  # type: ignore[arg-type]


def record(offset: int, value: bytes | None = b"\xff\x00junk", key: bytes | None = b"case-17") -> Record:
    return Record(2, offset, 1_000, key, value)


def test_a_letter_keeps_bytes_place_and_error(letters: DeadLetters) -> None:
    """This holds for any bytes."""
    assert letters.add(record(7), ERROR) is None
    [letter] = letters.list()
    assert (letter.topic, letter.partition, letter.offset) == ("fleet.journal", 2, 7)
    assert (letter.key, letter.value, letter.timestamp_ms) == (b"case-17", b"\xff\x00junk", 1_000)
    assert letter.error == "not an entry: junk"
    assert letter.seen_at.endswith("+00:00")
    assert letters.get("fleet.journal:2:7") == letter
    assert letters.get("fleet.journal:2:8") is None


@pytest.mark.parametrize(("key", "value"), [(None, b"x"), (b"x", None), (None, None), (b"", b""), (b"\xfe", b"\xff")])
def test_a_letter_comes_back_from_its_json(letters: DeadLetters, key: bytes | None, value: bytes | None) -> None:
    """Null and empty bytes stay different."""
    letters.add(record(7, value, key), ERROR)
    [letter] = letters.list()
    assert (letter.key, letter.value) == (key, value)
    assert DeadLetter.from_bytes(letter.to_bytes()) == letter


def test_what_is_no_letter_is_a_typed_error() -> None:
    """Another program wrote into the topic."""
    for data in (b"", b"[]", b"{}", b'{"key": "?"}'):
        with pytest.raises(JournalMismatch):
            DeadLetter.from_bytes(data)


def test_a_record_is_one_letter_however_often_and_by_whomever_it_is_read(
    log: MemoryLog, letters: DeadLetters, clock: Clock
) -> None:
    """Only a new letter counts towards the limit."""
    for _ in range(10):
        letters.add(record(7), ERROR)
    again = DeadLetters(log, Settings(journal="fleet", redis_url=None, **LIMITS), clock)  # type: ignore[arg-type]
    first = letters.list()
    for _ in range(10):
        again.add(record(7), ERROR)
    assert again.list() == first
    for offset in (8, 9, 10):
        again.add(record(offset), ERROR)


def test_too_many_in_a_window_stop_the_reader(letters: DeadLetters, clock: Clock) -> None:
    """``dead_letters_max`` holds for any ``dead_letter_window_s``; afterwards the reader goes on."""
    for offset in (0, 1):
        letters.add(record(offset), ERROR)
    clock.now_s = 30.0
    letters.add(record(2), ERROR)
    for _ in range(2):
        with pytest.raises(TooManyDeadLetters) as caught:
            letters.add(record(3), ERROR)
        assert (caught.value.partition, caught.value.offset) == (2, 3)
    clock.now_s = 60.0
    letters.add(record(3), ERROR)
    letters.add(record(4), ERROR)
    with pytest.raises(TooManyDeadLetters):
        letters.add(record(5), ERROR)
    assert [letter.offset for letter in letters.list()] == [0, 1, 2, 3, 4]


def test_secrets_of_the_settings_are_not_in_a_letter(log: MemoryLog) -> None:
    """An error message may quote anything."""
    letters = DeadLetters(log, Settings(redis_url=None, kafka={"sasl.password": "hunter22"}))
    letters.add(record(0), UndecodableRecord("cannot read hunter22"))
    assert "hunter22" not in letters.list()[0].error


def test_a_reader_that_may_not_write_letters_reads_on_and_says_so(
    log: MemoryLog, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state is right, the poison is counted, and the report has a note."""

    def refuse(table: MemoryTable, key: bytes, value: bytes | None) -> None:
        raise JournalUnavailable("not allowed")

    monkeypatch.setattr(MemoryTable, "put", refuse)
    owner.claim()
    owner.raw(b"junk")
    owner.raw(b"more junk")
    owner.update("k", "1")
    found = Recoverer(log, DeadLetters(log, Settings(redis_url=None))).recover("case-17")
    assert found.state.context == {"k": 1}
    assert found.report.poison == 2
    assert found.report.notes == ("dead letters could not be written: not allowed",)


def test_an_entry_of_a_newer_format_stops_the_reader_and_is_no_letter(
    log: MemoryLog, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No entry is skipped. A reader that knows the format goes on."""
    owner.claim()
    owner.update("k", "1")
    recoverer = Recoverer(log, DeadLetters(log, Settings(redis_url=None)))
    with monkeypatch.context() as patch:

        def decode(data: bytes | None) -> object:
            raise NewerFormat("newer")

        patch.setattr(log.codec, "decode", decode)
        for call in (lambda: recoverer.recover("case-17"), lambda: recoverer.recover_partition(owner.partition)):
            with pytest.raises(NewerFormat):
                call()
    assert recoverer.dead_letters is not None
    assert recoverer.dead_letters.list() == []
    assert recoverer.recover("case-17").state.seq == 1
