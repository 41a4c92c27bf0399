"""The writing half of the log on Kafka: each appender has an idempotent producer. Only this module uses that client.

librdkafka never expires a message here (``message.timeout.ms=0``): a message that expires is skipped and later ones are
written, which leaves a gap in a process. The node has a deadline of its own and retires the whole appender.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from seekpoint.consumers.kafka.kafka_errors import CLOCK, REFUSES, translated
from seekpoint.schemas.config.extras import kafka_missing
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import AppendRefused, InvalidSetting, JournalUnavailable, SeekpointError
from seekpoint.schemas.log.log_ports import DeliveryReport, ProducerRecord, Record

try:
    from confluent_kafka import KafkaError, KafkaException, Producer
    from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
except ModuleNotFoundError as exc:
    raise kafka_missing(exc.name) from exc

__all__ = ["KafkaAppender", "KafkaWriter"]

logger = logging.getLogger("seekpoint.producers")
client_logger = logging.getLogger("seekpoint.librdkafka")


def _is_news(record: logging.LogRecord) -> bool:
    """Drop two messages: that the gapless guarantee is experimental, which the fault tests cover; and that a broker
    that has just started has no producer ids yet, since the client asks again."""
    text = record.getMessage()
    return "enable.gapless.guarantee" not in text and not (
        "Coordinator load in progress" in text and "retrying" in text
    )


client_logger.addFilter(_is_news)

OPEN_RECORDS_MAX, OPEN_BYTES_MAX = 50_000, 256 * 1024 * 1024
"""The most that is under way in one appender; more waits. Below librdkafka's own limits, which never fill."""

UNANSWERED_MAX = 16
"""From five unanswered records of a partition on, librdkafka sends no further batch to it, and if it has one, its
thread spins on a core until an answer comes (2.13). So further records of the partition wait here. Measured with
``scripts/bench runs fleet`` and a linger of 1 ms: at 5, one program is 15 % slower on two partitions, because a record
that waited lingers again; without a limit, workers that share two cores are a third slower."""

MESSAGE_BYTES_MAX = 67_108_864
"""More than the journal's limits, which are checked before. The client's default of 1,000,000 is less."""

GUARANTEED = {
    "acks": "all",
    "enable.idempotence": True,
    "enable.gapless.guarantee": True,
    "message.timeout.ms": 0,
}
"""The producer settings that the journal's guarantees need; users cannot change them."""

_POLL_S = 0.1
_QUIET_S, _REST_S = 1.0, 2.0
"""After a second without records the thread waits for the next one, and looks for errors every two seconds."""
_ASK_S = 2.0
_CLOCK_SETTINGS = ("message.timestamp.after.max.ms", "message.timestamp.before.max.ms")


class KafkaWriter:
    """A maker of appenders for the journal of ``settings``, or for its topic ``kind`` (``inbox``)."""

    def __init__(self, settings: Settings, kind: str = "journal") -> None:
        self._settings = settings
        self._kind = kind

    def appender(self, deliver: Callable[[Sequence[DeliveryReport]], None]) -> KafkaAppender:
        """Return a new producer with its polling thread. ``InvalidSetting`` if librdkafka refuses its configuration."""
        return KafkaAppender(self._settings, deliver, self._kind)


class KafkaAppender:
    """One idempotent producer. At its first failed record it ends: every open record gets an error."""

    def __init__(
        self, settings: Settings, deliver: Callable[[Sequence[DeliveryReport]], None], kind: str = "journal"
    ) -> None:
        self._settings = settings
        self._topic = settings.topic_name(kind)
        self._deliver = deliver
        self._answered: list[tuple[DeliveryReport, ProducerRecord]] = []
        self._unanswered: Counter[int] = Counter()
        """How many records of each partition librdkafka has."""
        self._waiting: dict[int, list[dict[str, Any]]] = {}
        """The records that librdkafka does not have yet, by partition."""
        self._sending = threading.Lock()
        self._sends_no_more = False
        """After a lost record: a record behind it would leave a gap in its process."""
        self._open_records = self._open_bytes = 0
        self._lock = threading.Lock()
        self._retired = False
        self._refused: AppendRefused | None = None
        self._stop = threading.Event()
        self._busy = threading.Event()
        """Wakes the thread when it rests."""
        self._producer = _producer(settings)
        self._poller = threading.Thread(target=self._poll, name="seekpoint-appender", daemon=True)
        self._poller.start()

    def send(self, records: Sequence[ProducerRecord]) -> int:
        """Give records to librdkafka, up to the limits of what may be under way; return how many were taken."""
        taken = self._reserve(records)
        if not self._busy.is_set():
            self._busy.set()
        by_partition: dict[int, list[dict[str, Any]]] = {}
        for record in records[:taken]:
            message = {
                "key": record.key, "value": record.value, "callback": partial(self._on_delivery, record)
            }  # fmt: skip
            by_partition.setdefault(record.partition, []).append(message)
        with self._sending:
            for partition, messages in by_partition.items():
                self._waiting.setdefault(partition, []).extend(messages)
                self._send_waiting(partition)
        return taken

    def _send_waiting(self, partition: int) -> None:
        """Give the waiting records of a partition to librdkafka, if it would send them. Needs ``_sending``."""
        if self._sends_no_more:
            return
        if self._unanswered[partition] < UNANSWERED_MAX and partition in self._waiting:
            messages = self._waiting.pop(partition)
            self._unanswered[partition] += len(messages)
            self._produce(partition, messages)

    def _reserve(self, records: Sequence[ProducerRecord]) -> int:
        """Return how many of ``records`` fit under the limits, and count them as under way."""
        taken = 0
        with self._lock:
            for record in records:
                full = self._open_records >= OPEN_RECORDS_MAX or self._open_bytes >= OPEN_BYTES_MAX
                if full or self._retired:
                    break
                self._open_records += 1
                self._open_bytes += _size(record)
                taken += 1
        return taken

    def _produce(self, partition: int, messages: list[dict[str, Any]]) -> None:
        """Produce to one partition: the messages of a batch cannot name their partitions (confluent-kafka 2.16)."""
        reason = None
        try:
            queued = self._producer.produce_batch(self._topic, messages, partition=partition)
        except (KafkaException, BufferError) as exc:
            queued, reason = 0, self._settings.scrub(str(exc))
        if queued == len(messages):
            return
        for message in messages:  # a refusal ends the appender, as any failed record does
            refused = message.get("_error") or (reason if queued == 0 else None)
            if refused is not None:
                lost = self._refusal(refused)
                [record] = message["callback"].args
                self._unanswered[partition] -= 1
                self._done(_size(record))
                self._deliver([DeliveryReport(record.token, -1, lost)])

    def _refusal(self, refused: object) -> SeekpointError:
        if isinstance(refused, KafkaError):
            return self._failure(refused)
        return JournalUnavailable(f"the producer refused a record: {self._settings.scrub(str(refused))}")

    def _on_delivery(self, record: ProducerRecord, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            report = DeliveryReport(record.token, -1, self._failure(error))
        elif (offset := message.offset()) is None:  # an error, then the acknowledgement of a later batch
            lost = JournalUnavailable("Kafka acknowledged a record without its offset")
            report = DeliveryReport(record.token, -1, lost)
        else:
            partition, key, value, token = record
            _, timestamp_ms = message.timestamp()
            report = DeliveryReport(token, offset, None, Record(partition, offset, timestamp_ms, key, value))
        self._answered.append((report, record))

    def _failure(self, error: KafkaError) -> SeekpointError:
        """Return the error of a record that is not acknowledged: ``AppendRefused`` if Kafka would refuse it again."""
        name = error.name()
        if name not in REFUSES:
            return translated(name, error.str(), self._settings)
        if self._refused is None:
            limits = _clock_limits(self._settings, self._topic) if name == CLOCK else {}
            found = translated(name, error.str(), self._settings, topic=self._topic)
            self._refused = AppendRefused(found.message, hint=found.hint, **{**found.facts, **limits})
        return self._refused

    def _done(self, size: int, records: int = 1) -> None:
        with self._lock:
            self._open_records -= records
            self._open_bytes -= size

    def _poll(self) -> None:
        busy_at = time.monotonic()
        while not self._stop.is_set():
            try:
                self._producer.poll(_POLL_S)
            except KafkaException as exc:  # a fatal error is raised here too; the deliveries carry it
                logger.warning("the producer failed: %s", self._settings.scrub(str(exc)))
                self._stop.wait(_POLL_S)
            if self._answered or self._open_records:
                busy_at = time.monotonic()
                self._hand_over()
            elif time.monotonic() - busy_at > _QUIET_S:
                self._rest()

    def _rest(self) -> None:
        """Wait until there is something to do: each poll of an idle producer costs processor time."""
        self._busy.clear()
        if not self._open_records and not self._stop.is_set():  # else it was set before it was cleared
            self._busy.wait(_REST_S)

    def _hand_over(self) -> None:
        if self._answered:
            answered, self._answered = self._answered, []
            self._done(sum(_size(record) for _, record in answered), len(answered))
            failure = next((report.error for report, _ in answered if report.error is not None), None)
            counts = Counter(record.partition for _, record in answered)
            with self._sending:
                self._unanswered.subtract(counts)
                self._sends_no_more = self._sends_no_more or failure is not None
                for partition in counts:
                    self._send_waiting(partition)
            self._deliver([report for report, _ in answered])
            if failure is not None:
                self._give_up_waiting(failure)

    def _give_up_waiting(self, failure: SeekpointError) -> None:
        """Answer the records that librdkafka does not have, and send none from now on."""
        with self._sending:
            self._sends_no_more = True
            waiting, self._waiting = self._waiting, {}
        lost: list[ProducerRecord] = [one["callback"].args[0] for messages in waiting.values() for one in messages]
        if lost:
            self._done(sum(map(_size, lost)), len(lost))
            self._deliver([DeliveryReport(record.token, -1, failure) for record in lost])

    def retire(self, drain_s: float) -> None:
        """Wait ``drain_s`` for open records, purge the others, answer all of them, end the thread."""
        with self._lock:
            if self._retired:
                return
            self._retired = True
        deadline = time.monotonic() + drain_s
        while self._open_records > 0 and time.monotonic() < deadline and self._poller.is_alive():
            time.sleep(0.005)
        self._give_up_waiting(translated("_PURGE_QUEUE", "", self._settings))
        self._producer.purge(in_queue=True, in_flight=True, blocking=True)
        deadline = time.monotonic() + 5.0
        while self._open_records > 0 and time.monotonic() < deadline:
            time.sleep(0.005)
        self._stop.set()
        self._busy.set()
        self._poller.join(timeout=5.0)


def _size(record: ProducerRecord) -> int:
    return len(record.key) + len(record.value)


def _clock_limits(settings: Settings, topic: str) -> dict[str, str]:
    """Return the topic's limits on the distance of a record's time from the broker's clock. Empty if not known."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    try:
        config: dict[str, Any] = {**settings.admin_config(), "logger": client_logger}
        client = AdminClient(config)
        [asked] = client.describe_configs([resource], request_timeout=_ASK_S).values()
        found = asked.result(_ASK_S)
    except (KafkaException, TimeoutError):
        return {}
    return {name.replace(".", "_"): found[name].value for name in _CLOCK_SETTINGS if name in found}


def _producer(settings: Settings) -> Producer:
    config = {
        **settings.producer_config(),
        **GUARANTEED,
        "message.max.bytes": MESSAGE_BYTES_MAX,
        "queue.buffering.max.messages": 2 * OPEN_RECORDS_MAX,
        "queue.buffering.max.kbytes": 4 * OPEN_BYTES_MAX // 1024,
        "logger": client_logger,
    }
    try:
        return Producer(config)
    except KafkaException as exc:
        raise InvalidSetting(f"librdkafka refuses a setting: {settings.scrub(str(exc))}") from exc
