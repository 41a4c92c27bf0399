"""The comparison of sent and arrived records, and the offset map."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replay_topics import filled, staging
from seekpoint.consumers.staging.copy.headers import ReplayOrigin
from seekpoint.consumers.staging.copy.memory_topic import StoredMessage
from seekpoint.consumers.staging.staging_replay import Replay
from seekpoint.schemas.errors import ReplayMismatch


@pytest.mark.parametrize(
    "harm",
    [
        lambda record: None,
        lambda r: StoredMessage(r.partition(), r.offset(), r.key(), b"altered", r.timestamp()[1], r.headers()),
        lambda r: StoredMessage(r.partition(), r.offset(), b"altered", r.value(), r.timestamp()[1], r.headers()),
        lambda r: StoredMessage(r.partition(), r.offset(), r.key(), r.value(), r.timestamp()[1] + 1, r.headers()),
        lambda r: StoredMessage(
            r.partition(), r.offset(), r.key(), r.value(), r.timestamp()[1], [*r.headers(), ("x", b"")]
        ),
        lambda r: StoredMessage(r.partition(), r.offset(), r.key(), None, r.timestamp()[1], r.headers()),
    ],
    ids=["lost", "value", "key", "time", "header", "nulled"],
)
def test_the_comparison_finds_what_differs(harm: Any) -> None:
    """Any change of one record of forty is found."""
    target = staging()
    sender = target.sender

    class Harming:
        """Harms a record once everything was sent."""

        def __getattr__(self, name: str) -> Any:
            return getattr(target, name)

        def sender(self, *, linger_ms: float) -> Any:
            made = sender(linger_ms=linger_ms)
            close = made.close
            made.close = lambda: (close(), target.alter(2, 4, harm))  # type: ignore[method-assign, assignment, func-returns-value]
            return made

    with pytest.raises(ReplayMismatch):
        Replay(filled(), Harming()).run()


def test_a_duplicate_is_found() -> None:
    """A record that is twice in the target fails the replay."""
    target = staging()
    real = target._take
    twice = iter([True])

    def take(*record: Any) -> None:
        real(*record)
        if next(twice, False):
            real(*record)

    target._take = take  # type: ignore[method-assign]
    with pytest.raises(ReplayMismatch):
        Replay(filled(), target).run()


def test_records_of_other_producers_are_not_counted() -> None:
    """Other producers may write to the target meanwhile."""
    target = staging()
    target.append(0, b"k", b"before")
    source, other = filled(), list[int]()
    Replay(source, target).run(lambda stats, ranges: other.append(target.append(1, b"other", b"meanwhile")))
    assert other
    assert len([record for record in target.records() if ReplayOrigin.from_headers(record.headers())]) == 40


def test_the_offset_map_names_the_new_offset_of_each_record(tmp_path: Path) -> None:
    """Its ranges, expanded, map every record."""
    source, target = filled(), staging(3)
    target.append(0, b"k", b"before")
    source.compact(1, [2])
    Replay(source, target, offset_map=tmp_path / "map.tsv").run()
    header, *lines = (tmp_path / "map.tsv").read_text().splitlines()
    assert header.split("\t") == ["source_partition", "source_offset", "target_partition", "target_offset", "records"]
    unfolded = {
        (p, o + step): (tp, to + step)
        for p, o, tp, to, count in (map(int, line.split("\t")) for line in lines)
        for step in range(count)
    }
    expected = {}
    for record in target.records():
        origin = ReplayOrigin.from_headers(record.headers())
        if origin is not None:
            expected[origin.partition, origin.offset] = record.partition(), record.offset()
    assert unfolded == expected
    assert len(unfolded) == 39
