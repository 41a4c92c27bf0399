"""Which ids a process has, told from the log alone: what was fenced was not written."""

from __future__ import annotations

from seekpoint.producers.writer.written_ids import WrittenIds
from seekpoint.schemas import MemoryLog, partition_of
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry, new_id
from seekpoint.schemas.wire.codec import encode

ID, OTHER = b"i" * 16, b"o" * 16


def _entry(entry_id: bytes, seq: int | None, epoch: int) -> Entry:
    return Entry(entry_id, "thread", seq, epoch, new_id(), None, 0, None, None, None, b.Custom("work", "1"))


def _ids(*entries: Entry) -> WrittenIds:
    ids = WrittenIds(b"thread", 0, 0)
    for offset, entry in enumerate(entries):
        ids.note(entry, offset)
    return ids


def test_an_applied_entry_is_found_with_its_place() -> None:
    """Seq and offset are those of the first call."""
    found = _ids(_entry(OTHER, 1, 1), _entry(ID, 2, 1)).find(ID, 2)
    assert found == (2, 1)


def test_an_entry_that_the_process_has_not_reached_was_not_applied() -> None:
    """A fenced entry of the newest seq, while nobody has written that seq."""
    assert _ids(_entry(OTHER, 1, 1), _entry(ID, 2, 1)).find(ID, 1) is None


def test_a_fenced_entry_whose_seq_another_owner_took_was_not_applied() -> None:
    """Whichever of the two lies first in the log."""
    fenced, taken = _entry(ID, 2, 1), _entry(OTHER, 2, 2)
    assert _ids(fenced, taken).find(ID, 2) is None
    assert _ids(taken, fenced).find(ID, 2) is None
    assert _ids(taken, fenced).find(OTHER, 2) is not None


def test_an_entry_that_was_fenced_and_written_again_is_found_where_it_counts() -> None:
    """Under the newer epoch, perhaps with another seq."""
    found = _ids(_entry(ID, 2, 1), _entry(OTHER, 2, 2), _entry(ID, 3, 3)).find(ID, 3)
    assert found == (3, 2)


def test_only_the_processs_own_records_are_read_and_only_what_is_left_of_them() -> None:
    """Another process's entry, poison, and what was trimmed: none of them is known."""
    log = MemoryLog(partitions=1)
    assert partition_of(b"thread", 1) == 0
    trimmed = log.append(0, b"thread", encode(_entry(OTHER, 1, 1)))
    kept = log.append(0, b"thread", encode(_entry(ID, 2, 1)))
    log.append(0, b"thread", b"poison")
    log.append(0, b"thread", encode(_entry(new_id(), None, 0)))
    log.append(0, b"else", encode(_entry(ID, 3, 1)._replace(process_id="else")))
    log.trim(0, trimmed + 1)
    ids = WrittenIds(b"thread", 0, 0)
    ids.read(log, log.watermarks(0).high)
    assert ids.find(ID, 9) == (2, kept)
    assert ids.find(OTHER, 9) is None
    assert ids.width > 0


def test_only_the_newest_ids_are_kept_if_there_is_a_limit() -> None:
    """At least that many, whoever forges an entry of a high seq. Memory does not grow with the history."""
    ids = WrittenIds(b"thread", 0, 0, seqs_kept=10)
    ids.note(_entry(new_id(), 1_000_000, 1), 0)
    written = [_entry(new_id(), seq, 1) for seq in range(1, 102)]
    for seq, entry in enumerate(written, 1):
        ids.note(_entry(new_id(), seq, 0), 0)  # fenced
        ids.note(entry, 10)
        assert len(ids._newest) <= 20
        assert len(ids._found) <= 40
        for known in written[max(0, seq - 9) : seq]:
            assert ids.find(known.id, seq) == (known.seq, 10)
    assert ids.find(written[0].id, 101) is None


def test_what_a_fenced_owner_writes_of_a_forgotten_seq_was_not_applied() -> None:
    """Its entry came late, behind more entries than are known. A repeated call must write it."""
    ids = WrittenIds(b"thread", 0, 0, seqs_kept=3)
    for seq in range(1, 12):
        ids.note(_entry(new_id(), seq, 2), seq)
    for seq in range(1, 12):
        late = new_id()
        ids.note(_entry(late, seq, 1), 20)
        assert ids.find(late, 11) is None
