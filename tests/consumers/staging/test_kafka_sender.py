"""The sender of a replay on Kafka says what the broker refuses, however the client tells it."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from seekpoint.consumers.staging.kafka_replay_errors import TopicErrors
from seekpoint.consumers.staging.kafka_replay_sender import KafkaSender
from seekpoint.schemas.config.cluster_profiles import Cluster
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import JournalUnavailable, ReplayRefused, SeekpointError

_BATCH = "ProduceRequest for runs.journal [1] with 12 message(s) failed: Broker: Invalid timestamp"


class _FailedClient:
    """A client whose calls raise an error; ``during_delivery``: while it calls back, as a ``SystemError``."""

    def __init__(self, error: KafkaException | None, *, during_delivery: bool) -> None:
        self._error = error
        self._during_delivery = during_delivery

    def flush(self, timeout_s: float) -> int:
        """Raise the error."""
        if self._during_delivery:
            raise SystemError("a method returned a result with an exception set") from self._error
        assert self._error is not None
        raise self._error

    poll = flush


def _sender(error: KafkaException | None, *, during_delivery: bool) -> Any:
    settings, topic = Settings(bootstrap_servers="127.0.0.1:1"), "runs.journal"
    errors = TopicErrors(Cluster(name="to", settings=settings), topic)
    sender: Any = KafkaSender(topic, settings, errors, linger_ms=0)
    sender._producer = _FailedClient(error, during_delivery=during_delivery)
    return sender


@pytest.mark.parametrize("during_delivery", [True, False])
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (KafkaError(KafkaError._GAPLESS_GUARANTEE, _BATCH, fatal=True), ReplayRefused),
        (KafkaError(KafkaError.INVALID_TIMESTAMP), ReplayRefused),
        (KafkaError(KafkaError._ALL_BROKERS_DOWN), JournalUnavailable),
    ],
)
def test_a_fatal_error_is_named(error: KafkaError, expected: type[SeekpointError], during_delivery: bool) -> None:
    """Where its cause is the time of a record, with the setting that refuses it."""
    sender = _sender(KafkaException(error), during_delivery=during_delivery)
    for call in (sender.flush, sender.poll):
        with pytest.raises(expected) as caught:
            call(1)
        assert ("message.timestamp.before.max.ms" in str(caught.value)) is (expected is ReplayRefused)


def test_another_error_of_the_interpreter_is_raised_as_it_is() -> None:
    """It is no refusal."""
    sender = _sender(None, during_delivery=True)
    with pytest.raises(SystemError, match="returned a result"):
        sender.flush(1)
