"""Recovery on a real Kafka: poison, trimmed logs, re-created topics, newer formats."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as example_settings

from histories import PROCESS_IDS, Step, expected_states, steps, write_history
from owners import Owner
from raw_kafka import RawKafka
from seekpoint.consumers import DeadLetters, Recovery
from seekpoint.consumers.heartbeats.liveness import Heartbeat, Heartbeats
from seekpoint.consumers.kafka.kafka_reader import KafkaReader
from seekpoint.schemas.bodies import Body, ContextUpdated
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import JournalGap, JournalMismatch, NewerFormat, TooManyDeadLetters, UnknownProcess
from seekpoint.schemas.log.manifest import FORMAT, schema_key
from seekpoint.schemas.wire.codec import SCHEMA_FINGERPRINT, encode, schema_json

pytestmark = pytest.mark.cluster

FOREIGN = b"\x11" * 8


@pytest.fixture
def raw(journal: Settings) -> RawKafka:
    return RawKafka(journal)


@pytest.fixture
async def recovery(journal: Settings) -> AsyncIterator[Recovery]:
    async with Recovery.connect(journal) as recovery:
        yield recovery


@pytest.fixture
def kafka_owner(raw: RawKafka) -> Owner:
    return Owner(raw.append, 4, "case-17")


async def test_a_process_is_recovered_from_kafka(recovery: Recovery, kafka_owner: Owner) -> None:
    """State, report, verification and entries are right."""
    kafka_owner.claim()
    kafka_owner.update("k", "1")
    kafka_owner.update("k", "2")
    found = await recovery.recover("case-17")
    assert found.state.context == {"k": 2}
    assert (found.report.entries_scanned, found.report.entries_applied) == (3, 2)
    assert (await recovery.recover("case-17", at_seq=1)).state.context == {"k": 1}
    assert (await recovery.verify("case-17")).agrees
    assert [one.offset async for one in recovery.entries("case-17")] == [0, 1, 2]
    assert list(await recovery.processes()) == ["case-17"]


async def test_histories_on_kafka_recover_as_a_plain_fold(journal: Settings, raw: RawKafka) -> None:
    """Random histories are written to the same log one after the other."""
    patient = replace(journal, dead_letters_max=10_000)
    written: list[object] = []
    histories: list[list[Step]] = []

    @example_settings(max_examples=5, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(steps(80))
    def collect(history: list[Step]) -> None:
        histories.append(history)

    collect()
    everything = [step for history in histories for step in history]
    written = write_history(everything, raw.append, 4)  # type: ignore[assignment]
    async with Recovery.connect(patient) as recovery:
        found = await recovery.recover_many(PROCESS_IDS)
        assert {name: one.state for name, one in found.items()} == expected_states(written)  # type: ignore[arg-type]
        for name, one in found.items():
            if one.known:
                assert (await recovery.verify(name)).agrees


# --- poison -----------------------------------------------------------------------------------------------------------
def poison(owner: Owner) -> dict[str, bytes | None]:
    """Corrupt values, each under the process's key."""
    good = encode(owner.entry(owner_update(), owner.seq + 1))
    return {
        "junk": b"no entry at all",
        "empty": b"",
        "null": None,
        "one byte": b"\xc3",
        "header only": good[:10],
        "cut": good[:-1],
        "trailing": good + b"\x00",
        "flipped": good[:12] + bytes(byte ^ 0xFF for byte in good[12:]),
        "huge length": good[:26] + b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        "bad union": good[:10] + bytes(16) + b"\x02x" + b"\x04" + good[29:],
        "unknown fingerprint": good[:2] + b"\xee" * 8 + good[10:],
        "foreign schema, junk": good[:2] + FOREIGN + b"\xff" * 200,
        "confluent framing": b"\x00\x00\x00\x00\x01" + good[10:],
        "no utf-8": good.replace(b"case-17", b"\xff\xfe\xfd\xfc\xfb\xfa\xf9"),
        "deep": good.replace(b'"' + b"0123456789" * 20 + b'"', b"[" * 202),
    }


def owner_update() -> Body:
    return ContextUpdated("k", '"' + "0123456789" * 20 + '"')


async def test_poison_is_one_dead_letter_each_and_its_process_goes_on(
    journal: Settings, raw: RawKafka, kafka_owner: Owner, recovery: Recovery
) -> None:
    """Two readers read it twice. The letters have the bytes and coordinates, and all processes are unharmed."""
    kafka_owner.claim()
    kafka_owner.update("k", "1")
    bad = poison(kafka_owner)
    places: dict[tuple[int, int], tuple[bytes | None, bytes | None]]
    places = {(kafka_owner.partition, kafka_owner.raw(value)): (b"case-17", value) for value in bad.values()}
    stray = encode(kafka_owner.entry(owner_update(), 2))
    elsewhere = (kafka_owner.partition + 1) % 4
    places[kafka_owner.partition, kafka_owner.raw(stray, b"case-18")] = (b"case-18", stray)
    places[kafka_owner.partition, raw.append(kafka_owner.partition, None, stray)] = (None, stray)
    places[elsewhere, raw.append(elsewhere, b"case-17", stray)] = (b"case-17", stray)
    kafka_owner.update("k", "2")
    neighbour = Owner(raw.append, 4, "neighbour")
    neighbour.claim()

    found = await recovery.recover("case-17")
    assert (found.state.context, found.state.degraded) == ({"k": 2}, None)
    assert (found.report.poison, found.report.notes) == (len(bad), ())
    for reader in (recovery, Recovery.connect(journal)):
        assert list(await reader.processes()) == ["case-17", "neighbour"]
        assert (await reader.recover("case-17")).state == found.state
        letters = reader.blocking.dead_letters.list()  # type: ignore[union-attr]
        assert {(one.partition, one.offset): (one.key, one.value) for one in letters} == places
        assert len(letters) == len(places)
    reader.close()


async def test_a_flood_of_poison_stops_the_reader(journal: Settings, kafka_owner: Owner) -> None:
    """The error is typed, and the dead letter topic is not filled."""
    for number in range(8):
        kafka_owner.raw(b"junk %d" % number)
    async with Recovery.connect(replace(journal, dead_letters_max=5)) as recovery:
        with pytest.raises(TooManyDeadLetters):
            await recovery.recover("case-17")
        assert len(recovery.blocking.dead_letters.list()) == 5  # type: ignore[union-attr]


async def test_a_dead_letter_contains_the_largest_record_completely(recovery: Recovery, kafka_owner: Owner) -> None:
    """Base64 makes it a third larger, which the topic accepts."""
    kafka_owner.raw(b"\xff" * 1_048_576)
    assert (await recovery.recover("case-17", missing_ok=True)).report.notes == ()
    [letter] = recovery.blocking.dead_letters.list()  # type: ignore[union-attr]
    assert letter.value == b"\xff" * 1_048_576


# --- schemas ----------------------------------------------------------------------------------------------------------
async def test_a_schema_that_was_registered_meanwhile_is_found(
    journal: Settings, raw: RawKafka, kafka_owner: Owner, recovery: Recovery
) -> None:
    """The schemas topic is read to its end before a fingerprint counts as unknown."""
    kafka_owner.claim()
    assert (await recovery.recover("case-17")).state.seq == 0
    entry = encode(kafka_owner.entry(owner_update(), 1))
    raw.write(0, [(schema_key(FOREIGN), schema_json().encode(), 0)], journal.topic_name("schemas"))
    kafka_owner.raw(entry.replace(SCHEMA_FINGERPRINT, FOREIGN, 1))
    assert (await recovery.recover("case-17")).state.seq == 1
    assert (await recovery.verify("case-17")).agrees


async def test_an_entry_of_a_newer_format_stops_the_reader(
    journal: Settings, raw: RawKafka, kafka_owner: Owner, recovery: Recovery
) -> None:
    """Every reader of its key stops every time, no dead letter is written, and readers of other keys go on."""
    kafka_owner.claim()
    newer = schema_json().replace(f'"format":{FORMAT}', '"format":99')
    raw.write(0, [(schema_key(FOREIGN), newer.encode(), 0)], journal.topic_name("schemas"))
    entry = encode(kafka_owner.entry(owner_update(), 1))
    kafka_owner.raw(entry.replace(SCHEMA_FINGERPRINT, FOREIGN, 1))
    for _ in range(2):
        with pytest.raises(NewerFormat):
            await recovery.recover("case-17")
        with pytest.raises(NewerFormat):
            await recovery.processes()
    assert recovery.blocking.dead_letters.list() == []  # type: ignore[union-attr]
    Owner(raw.append, 4, "neighbour").claim()
    assert (await recovery.recover("neighbour")).known


# --- a log that is not what it was ------------------------------------------------------------------------------------
async def test_a_log_that_another_tool_trimmed_is_a_gap(raw: RawKafka, recovery: Recovery, kafka_owner: Owner) -> None:
    """It is a gap for every process of the partition, known or not."""
    kafka_owner.claim()
    kafka_owner.update("k", "1")
    raw.trim(kafka_owner.partition, 1)
    with pytest.raises(JournalGap) as caught:
        await recovery.recover("case-17")
    assert (caught.value.low, caught.value.high) == (1, 2)
    with pytest.raises(JournalGap):
        await recovery.processes()


async def test_a_recreated_topic_is_never_an_unknown_process(
    raw: RawKafka, recovery: Recovery, kafka_owner: Owner
) -> None:
    """A running reader and a new one raise an error, even right after the last check."""
    kafka_owner.claim()
    assert (await recovery.recover("case-17")).known
    with pytest.raises(UnknownProcess):
        await recovery.recover("nobody")
    raw.recreate()
    for process_id in ("case-17", "nobody"):
        with pytest.raises(JournalMismatch):
            await recovery.recover(process_id)
    with pytest.raises(JournalMismatch):
        await Recovery.connect(recovery.settings)


# --- heartbeats -------------------------------------------------------------------------------------------------------
def test_heartbeats_survive_the_loss_of_redis(journal: Settings) -> None:
    """Both stores have them. Either one shows a heartbeat; only the topic proves that one is missing."""
    reader = KafkaReader(journal)
    heartbeats = Heartbeats(reader, journal)
    first, second = (Heartbeat("node-1", "boot-1", (bytes(16),), number) for number in (1, 2))
    heartbeats.publish(first)
    heartbeats.mirror(second)
    assert heartbeats.read().heartbeats == {"node-1": second}
    blind = Heartbeats(reader, replace(journal, redis_url=None))
    assert blind.read().heartbeats == {"node-1": first}
    heartbeats.withdraw("node-1")
    assert heartbeats.read().heartbeats == {}
    heartbeats.close()
    reader.close()


def test_an_empty_topic_has_no_dead_letters(journal: Settings) -> None:
    """The list of dead letters is empty."""
    reader = KafkaReader(journal)
    assert DeadLetters(reader, journal).list() == []
    reader.close()
