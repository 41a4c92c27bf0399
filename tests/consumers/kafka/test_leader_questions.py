"""Questions to a partition's leader are asked again soon: the client may miss the answer that names the leader."""

from __future__ import annotations

from concurrent.futures import Future
from typing import cast

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from seekpoint.consumers.kafka.kafka_pool import KafkaPool, PooledClient
from seekpoint.consumers.kafka.kafka_reader import KafkaReader
from seekpoint.consumers.kafka.partition_fetcher import PartitionFetcher
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import JournalUnavailable

SETTINGS = Settings(redis_url=None, start_timeout_s=2.0)


@pytest.fixture
def fetcher() -> PartitionFetcher:
    return PartitionFetcher(SETTINGS, KafkaPool(SETTINGS), lambda: None)


TIMED_OUT = KafkaException(KafkaError(KafkaError._TIMED_OUT))


class SilentAtFirst:
    """A consumer that gets no answer to its first questions. The client says so in two ways."""

    kind = "ranges"

    def __init__(self, silence: KafkaException | None, questions: int) -> None:
        self.topics = set[str]()
        self.waited = list[float]()
        self._silence = silence
        self._questions = questions

    def get_watermark_offsets(self, where: TopicPartition, timeout: float) -> tuple[int, int] | None:
        self.waited.append(timeout)
        if len(self.waited) > self._questions:
            return 3, 7
        if self._silence is not None:
            raise self._silence
        return None


@pytest.mark.parametrize("silence", [None, TIMED_OUT])
def test_the_first_question_waits_a_short_time(fetcher: PartitionFetcher, silence: KafkaException | None) -> None:
    """The next one waits all the time that is left: the leader may be slow."""
    consumer = SilentAtFirst(silence, 1)
    assert fetcher.watermarks(cast("PooledClient", consumer), "journal", 0) == (3, 7)
    assert consumer.waited == pytest.approx([0.1, 2.0], abs=0.05)


def test_a_leader_is_told_once_what_to_delete(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deletion has no answer but that it is done."""
    reader, told = KafkaReader(SETTINGS), list[int]()

    class Admin:
        def delete_records(self, wanted: list[TopicPartition], request_timeout: float) -> dict[str, Future[int]]:
            [where] = wanted
            told.append(where.offset)
            done = Future[int]()
            done.set_result(where.offset)
            return {"done": done}

    monkeypatch.setattr(reader, "check", lambda: None)
    monkeypatch.setattr(reader._pool, "admin", Admin)
    reader.delete_below(0, 7)
    assert told == [7]


@pytest.mark.parametrize("silence", [None, TIMED_OUT])
def test_a_leader_that_stays_silent_is_asked_until_the_deadline(
    fetcher: PartitionFetcher, silence: KafkaException | None
) -> None:
    """Then the caller gets the typed error."""
    consumer = SilentAtFirst(silence, 1_000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("seekpoint.consumers.kafka.partition_fetcher.time.monotonic", lambda: sum(consumer.waited))
        with pytest.raises(JournalUnavailable):
            fetcher.watermarks(cast("PooledClient", consumer), "journal", 0)
    assert sum(consumer.waited) == pytest.approx(2.0, abs=0.2)
