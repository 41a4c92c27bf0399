"""The writing half of the log on Kafka: one idempotent producer an appender. Only this module knows the client.

librdkafka never expires a message here (``message.timeout.ms=0``): a message that expires is skipped and later ones are
written, which is a hole in a process. The node has a deadline of its own and retires the appender as a whole.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from seekpoint.schemas.errors import InvalidSetting, JournalUnavailable, LimitExceeded, SeekpointError
from seekpoint.schemas.log import Delivery, Outgoing
from seekpoint.schemas.settings import Settings

__all__ = ["KafkaAppender", "KafkaWriter"]

logger = logging.getLogger("seekpoint.producers")

OUTSTANDING_MAX = 50_000
"""Records on their way in one appender; beyond it callers wait. Below librdkafka's own limit, which never fills."""

GUARANTEED = {
    "acks": "all",
    "enable.idempotence": True,
    "enable.gapless.guarantee": True,
    "message.timeout.ms": 0,
}
"""What the journal's promises rest on; settings may not change them."""

_POLL_S = 0.2


class KafkaWriter:
    """Makes appenders for the journal of ``settings``."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def appender(self, deliver: Callable[[Sequence[Delivery]], None]) -> KafkaAppender:
        """A new producer and its polling thread. ``InvalidSetting`` if librdkafka refuses its configuration."""
        return KafkaAppender(self._settings, deliver)


class KafkaAppender:
    """One idempotent producer. Ends (every open record answered with an error) at its first failed record."""

    def __init__(self, settings: Settings, deliver: Callable[[Sequence[Delivery]], None]) -> None:
        self._settings = settings
        self._topic = settings.topic_name("journal")
        self._deliver = deliver
        self._answered: list[Delivery] = []
        self._outstanding = 0
        self._lock = threading.Lock()
        self._retired = False
        self._stop = threading.Event()
        self._producer = _producer(settings)
        self._poller = threading.Thread(target=self._poll, name="seekpoint-appender", daemon=True)
        self._poller.start()

    def send(self, records: Sequence[Outgoing]) -> int:
        """Hand records to librdkafka, at most up to the bound of what may be under way; how many were taken."""
        with self._lock:
            room = 0 if self._retired else OUTSTANDING_MAX - self._outstanding
            taken = records[:room] if len(records) > room else records
            self._outstanding += len(taken)
        if not taken:
            return 0
        messages: list[dict[str, Any]] = [
            {
                "key": record.key,
                "value": record.value,
                "partition": record.partition,
                "callback": partial(self._on_delivery, record.token),
            }
            for record in taken
        ]
        try:
            queued = self._producer.produce_batch(self._topic, messages)
        except (KafkaException, BufferError) as exc:
            queued = 0
            logger.warning("the producer takes nothing more: %s", self._settings.scrub(str(exc)))
        if queued == len(taken):
            return len(taken)
        return self._refused(taken, messages, queued)

    def _refused(self, taken: Sequence[Outgoing], messages: list[dict[str, Any]], queued: int) -> int:
        """Some were refused. If only a tail was, it waits; a hole among the taken ones is answered as a failure."""
        failed = [index for index, message in enumerate(messages) if "_error" in message or queued == 0]
        first = failed[0] if failed else len(taken)
        with self._lock:
            self._outstanding -= len(failed)
        if len(failed) == len(taken) - first and self._queue_full(messages[first]):
            return first
        lost = JournalUnavailable("the producer refused a record", cause=str(messages[first].get("_error", "")))
        self._deliver([Delivery(taken[index].token, -1, lost) for index in failed])
        return len(taken)

    @staticmethod
    def _queue_full(message: dict[str, Any]) -> bool:
        error = message.get("_error")
        return isinstance(error, KafkaError) and error.code() == KafkaError._QUEUE_FULL

    def _on_delivery(self, token: object, error: KafkaError | None, message: Any) -> None:
        failure = None if error is None else translate(error, self._settings)
        self._answered.append(Delivery(token, message.offset() if failure is None else -1, failure))

    def _poll(self) -> None:
        while not self._stop.is_set():
            try:
                self._producer.poll(_POLL_S)
            except KafkaException as exc:  # a fatal error is raised here too; the deliveries carry it
                logger.warning("the producer failed: %s", self._settings.scrub(str(exc)))
                self._stop.wait(_POLL_S)
            self._hand_over()

    def _hand_over(self) -> None:
        if self._answered:
            answered, self._answered = self._answered, []
            with self._lock:
                self._outstanding -= len(answered)
            self._deliver(answered)

    def retire(self, drain_s: float) -> None:
        """Wait ``drain_s`` for what is on its way, purge the rest, answer everything, end the thread."""
        with self._lock:
            if self._retired:
                return
            self._retired = True
        deadline = time.monotonic() + drain_s
        while self._outstanding > 0 and time.monotonic() < deadline and self._poller.is_alive():
            time.sleep(0.005)
        self._producer.purge(in_queue=True, in_flight=True, blocking=True)
        deadline = time.monotonic() + 5.0
        while self._outstanding > 0 and time.monotonic() < deadline:
            time.sleep(0.005)
        self._stop.set()
        self._poller.join(timeout=5.0)


def _producer(settings: Settings) -> Producer:
    config = {
        **settings.producer_config(),
        **GUARANTEED,
        "queue.buffering.max.messages": 2 * OUTSTANDING_MAX,
        "queue.buffering.max.kbytes": 2_097_151,
        "logger": logging.getLogger("seekpoint.librdkafka"),
    }
    try:
        return Producer(config)
    except KafkaException as exc:
        raise InvalidSetting(f"librdkafka refuses a setting: {settings.scrub(str(exc))}") from exc


def translate(error: KafkaError, settings: Settings) -> SeekpointError:
    """A client's error as ours, its text free of secrets."""
    text = settings.scrub(error.str())
    if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
        return LimitExceeded(f"the broker refuses the record's size: {text}", hint="seekpoint topics check")
    return JournalUnavailable(f"Kafka did not take the record: {text}", code=error.name())
