"""Questions to a partition's leader are asked again soon: the client may miss the answer that names the leader."""

from __future__ import annotations

from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from seekpoint.consumers.kafka.kafka_pool import KafkaPool
from seekpoint.consumers.kafka.kafka_reader import KafkaReader
from seekpoint.consumers.kafka.partition_fetcher import PartitionFetcher
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import JournalUnavailable

SETTINGS = Settings(redis_url=None, start_timeout_s=2.0)


@pytest.fixture
def fetcher() -> PartitionFetcher:
    return PartitionFetcher(SETTINGS, KafkaPool(SETTINGS), lambda: None)


@pytest.mark.parametrize("silence", [None, KafkaException(KafkaError(KafkaError._TIMED_OUT))])
def test_the_first_question_waits_a_short_time(fetcher: PartitionFetcher, silence: KafkaException | None) -> None:
    """The next one all the time that is left: the leader may be slow. The client says in two ways that time is over."""
    waited = list[float]()

    def ask(timeout_s: float) -> int | None:
        waited.append(timeout_s)
        if len(waited) < 2 and silence is not None:
            raise silence
        return None if len(waited) < 2 else 7

    assert fetcher.ask_leader(ask) == 7
    assert waited == pytest.approx([0.1, 2.0], abs=0.05)


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


def test_a_leader_that_stays_silent_is_asked_until_the_deadline(fetcher: PartitionFetcher) -> None:
    """Then the caller gets no answer, or the typed error."""
    clock = [0.0]

    def silent(timeout_s: float) -> None:
        clock[0] += timeout_s

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("seekpoint.consumers.kafka.partition_fetcher.time.monotonic", lambda: clock[0])
        assert fetcher.ask_leader(silent) is None
        assert clock[0] == pytest.approx(2.0, abs=0.2)

        def failing(timeout_s: float) -> None:
            clock[0] += timeout_s
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

        with pytest.raises(JournalUnavailable):
            fetcher.ask_leader(failing)
        assert clock[0] == pytest.approx(4.0, abs=0.4)
