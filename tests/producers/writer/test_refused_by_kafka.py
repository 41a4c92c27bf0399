"""What Kafka refuses for good: the error names the cause, and nobody spins."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from seekpoint.compose import check_topics
from seekpoint.consumers.kafka.kafka_errors import REFUSES, passes, translated
from seekpoint.producers import Node
from seekpoint.producers.writer import kafka_writer as writing
from seekpoint.producers.writer.outbox import Outbox
from seekpoint.schemas import Settings
from seekpoint.schemas.errors import AppendRefused, JournalUnavailable, LimitExceeded, SeekpointError
from seekpoint.schemas.log.log_ports import DeliveryReport, ProducerRecord

HOUR_S = 3_600


class Skewed(Producer):
    """The client on a machine whose clock is off by ``skew_s``."""

    skew_s = 0
    made = 0

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        Skewed.made += 1

    def produce_batch(self, topic: str, messages: list[dict[str, Any]], partition: int = -1, **how: Any) -> int:  # type: ignore[override]
        if not Skewed.skew_s:
            return super().produce_batch(topic, messages, partition, **how)
        stamp = int((time.time() + Skewed.skew_s) * 1000)
        for one in messages:  # a batch cannot carry times
            self.produce(topic, one["value"], one["key"], partition, one["callback"], timestamp=stamp)
        return len(messages)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> type[Skewed]:
    """The client of the nodes of this test."""
    monkeypatch.setattr(writing, "Producer", Skewed)
    Skewed.skew_s = Skewed.made = 0
    return Skewed


def _alter(settings: Settings, setting: str, value: str) -> None:
    entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, settings.topic_name("journal"), incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    [done] = admin.incremental_alter_configs([resource]).values()
    done.result(30)


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("skew_s", "setting", "value"),
    [
        (2 * HOUR_S, "message_timestamp_after_max_ms", "3600000"),
        (-2 * HOUR_S, "message_timestamp_before_max_ms", "60000"),
    ],
)
async def test_a_clock_that_is_off_is_named(
    journal: Settings, client: type[Skewed], skew_s: int, setting: str, value: str
) -> None:
    """Of an owner that runs and of one that opens: the clock, the topic's setting; no producer follows another."""
    await asyncio.to_thread(_alter, journal, setting.replace("_", "."), value)
    async with Node.connect(replace(journal, redis_url=None)) as node:
        process = await node.open("case-1")
        client.skew_s = skew_s
        made, began = client.made, time.monotonic()
        with pytest.raises(AppendRefused) as caught:
            await process.update("status", "open")
        error = caught.value
        assert error.facts[setting] == value
        assert error.facts["clock"].startswith("20")
        assert "clock" in error.message
        assert "NTP" in error.hint
        assert "check that Kafka runs" not in str(error)
        with pytest.raises(AppendRefused):
            await node.open("case-2")
        assert time.monotonic() - began < 15
        assert client.made - made <= 4
        client.skew_s = 0
        async with node.open("case-2") as other:  # and once the clock is right it goes on
            await other.update("status", "open")


@pytest.mark.cluster
async def test_an_entry_that_the_topic_takes_no_more_fails_its_handle(journal: Settings, client: type[Skewed]) -> None:
    """The topic's limit was lowered under a running owner: a few attempts, then the error that says so."""
    async with Node.connect(replace(journal, redis_url=None)) as node:
        process = await node.open("case-1")
        await asyncio.to_thread(_alter, journal, "max.message.bytes", "1000")
        with pytest.raises(LimitExceeded, match="size"):
            for number in range(100):  # the broker learns the new limit a moment after the controller
                made = client.made
                await process.update("text", f"{number}" + "x" * 5_000)
                await asyncio.sleep(0.1)
        assert client.made - made <= 5


@pytest.mark.cluster
async def test_the_audit_names_a_topic_that_refuses_clocks(journal: Settings) -> None:
    """One hour is Kafka's default; less than that refuses machines that only lost their NTP for a while."""
    assert not [one for one in await check_topics(journal) if "timestamp" in one.setting]
    await asyncio.to_thread(_alter, journal, "message.timestamp.after.max.ms", "1000")
    await asyncio.to_thread(_alter, journal, "message.timestamp.before.max.ms", "1000")
    found = [one for one in await check_topics(journal) if "timestamp" in one.setting]
    assert [one.setting for one in found] == ["message.timestamp.after.max.ms", "message.timestamp.before.max.ms"]
    assert all("clock" in one.advice and one.severity == "warning" for one in found)


@pytest.mark.parametrize("name", sorted(REFUSES))
def test_what_kafka_would_refuse_again_never_passes(name: str) -> None:
    """And its advice is not to look whether Kafka runs."""
    assert not passes(name)
    error = translated(name, "no", Settings())
    assert error.hint != JournalUnavailable.hint


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.INVALID_RECORD,
        KafkaError.POLICY_VIOLATION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    ],
)
def test_a_record_that_is_refused_for_good_is_not_healed(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The appender tells of a refusal that no retry changes, with its cause."""
    monkeypatch.setattr(writing, "Producer", lambda config: None)
    monkeypatch.setattr(writing.KafkaAppender, "_poll", lambda self: None)
    appender = writing.KafkaAppender(Settings(), lambda deliveries: None)
    failure = appender._failure(KafkaError(code, "not here"))
    assert isinstance(failure, AppendRefused)
    assert "not here" in failure.message


class Refusing:
    """A writer whose appenders fail whatever they are given, at once."""

    def __init__(self, deliver: Callable[[Sequence[DeliveryReport]], None]) -> None:
        self._deliver = deliver

    def send(self, records: Sequence[ProducerRecord]) -> int:
        refused = JournalUnavailable("no")
        self._deliver([DeliveryReport(record.token, -1, refused) for record in records])
        return len(records)

    def retire(self, drain_s: float) -> None:
        pass


class RefusingWriter:
    made = 0

    def appender(self, deliver: Callable[[Sequence[DeliveryReport]], None]) -> Refusing:
        self.made += 1
        return Refusing(deliver)


async def _nothing(reason: SeekpointError) -> None:
    pass


async def test_appenders_that_fail_one_after_the_other_are_made_ever_more_slowly() -> None:
    """Somebody who tries again and again does not make a producer each time; closing does not wait for the pause."""
    writer = RefusingWriter()
    outbox = Outbox(writer, Settings(append_timeout_s=60.0, producer_drain_s=0.01), lambda: None, _nothing)
    outbox.start()
    deadline = time.monotonic() + 1.2
    while time.monotonic() < deadline:
        with pytest.raises(JournalUnavailable):
            await outbox.push_external(0, b"p", b"")
    pushed = asyncio.ensure_future(outbox.push_external(0, b"p", b""))
    await asyncio.sleep(0.01)
    began = time.monotonic()
    await outbox.close()
    assert 3 <= writer.made <= 7
    assert time.monotonic() - began < 0.5
    await asyncio.gather(pushed, return_exceptions=True)
