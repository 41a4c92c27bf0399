"""How a reader on Kafka remembers where partitions ended; with answers played by hand, so that nothing is a race."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from seekpoint.consumers.kafka.kafka_reader import KafkaReader
from seekpoint.schemas import Settings
from seekpoint.schemas.errors import LogTruncated
from seekpoint.schemas.log.log_ports import Watermarks


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> KafkaReader:
    """Return a reader that connects to nothing."""
    reader = KafkaReader(Settings(redis_url=None))
    monkeypatch.setattr(reader, "connect", lambda: None)
    monkeypatch.setattr(reader, "check", lambda: None)
    return reader


def answering(*answers: Callable[[], int] | int) -> Callable[..., Watermarks]:
    """Return Kafka's answers in order; a function is called while its request is still open."""
    left = iter(answers)

    def answer(*_: Any) -> Watermarks:
        found = next(left)
        return Watermarks(0, found if isinstance(found, int) else found())

    return answer


def test_an_older_answer_that_comes_last_is_no_truncation(reader: KafkaReader, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads ask at once, and the log grows in between: both answers are right."""

    def overtaken() -> int:
        assert reader.watermarks(0).high == 52
        return 51

    monkeypatch.setattr(reader._fetcher, "watermarks", answering(overtaken, 52))
    assert reader.watermarks(0).high == 51


def test_a_log_that_ends_below_what_was_known_is_truncated(
    reader: KafkaReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later calls compare with the highest end that any call returned."""

    def overtaken() -> int:
        assert reader.watermarks(0).high == 52
        return 50

    monkeypatch.setattr(reader._fetcher, "watermarks", answering(overtaken, 52, 51))
    reader.watermarks(0)
    with pytest.raises(LogTruncated):
        reader.watermarks(0)
