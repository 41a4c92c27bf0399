"""Read the final log with a plain Kafka consumer and a plain Avro library, without Seekpoint's readers.

No other module of the console imports the Kafka client.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from io import BytesIO
from typing import Any, NamedTuple

import fastavro
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from seekpoint.schemas.bodies import BODIES
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import JournalUnavailable, UndecodableRecord
from seekpoint.schemas.log.safe_reading import safe_config

_SILENCE_S = 15.0
_HEADER_BYTES = 10
_BODIES = {body.__name__: body for body in BODIES}


class Placed(NamedTuple):
    """An entry with its partition and offset."""

    partition: int
    offset: int
    entry: Entry


def read_journal(settings: Settings) -> list[Placed]:
    """Return all entries, by partition and offset. Raises ``JournalUnavailable`` and ``UndecodableRecord``."""
    mine = {"group.id": f"{settings.journal}-demo-checker", "fetch.wait.max.ms": 10}
    consumer = Consumer(safe_config({**settings.consumer_config(), **mine}))
    try:
        schemas = {m.key(): m.value() for m in _messages(consumer, settings.topic_name("schemas"))}
        return [_placed(m, schemas) for m in _messages(consumer, settings.topic_name("journal"))]
    except KafkaException as exc:
        raise JournalUnavailable(f"the checker cannot read the journal: {settings.scrub(str(exc))}") from exc
    finally:
        consumer.close()


def _messages(consumer: Consumer, topic: str) -> list[Message]:
    """Return all messages of a topic up to its present end, by partition and offset."""
    partitions = consumer.list_topics(topic, timeout=_SILENCE_S).topics[topic].partitions
    ends: dict[int, int] = {}
    starts = []
    for partition in partitions:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_SILENCE_S)
        if low < high:
            ends[partition] = high
            starts.append(TopicPartition(topic, partition, low))
    consumer.assign(starts)
    found: list[Message] = []
    while any(each.offset < ends[each.partition] for each in consumer.position(starts)):
        found += _some(consumer)
    return sorted(found, key=lambda message: (message.partition(), message.offset()))


def _some(consumer: Consumer) -> list[Message]:
    """Wait for a message and return the available ones. ``consume`` alone would wait for all that it may return."""
    first = consumer.poll(_SILENCE_S)
    if first is None:
        raise JournalUnavailable("the checker reads the journal, and Kafka does not answer", waited_s=_SILENCE_S)
    messages = [first, *consumer.consume(1_000, timeout=0)]
    for message in messages:
        error = message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
    return [message for message in messages if message.error() is None]


def _placed(message: Message, schemas: Mapping[Any, Any]) -> Placed:
    partition, offset, value = message.partition(), message.offset(), message.value()
    schema = schemas.get(value[2:_HEADER_BYTES].hex().encode()) if value else None
    if value is None or schema is None or partition is None or offset is None:
        raise UndecodableRecord("the checker found bytes that are not an entry", partition=partition, offset=offset)
    entry = _decode(value[_HEADER_BYTES:], _schema(schema))
    if entry.process_id.encode() != message.key():
        raise UndecodableRecord(
            "the checker found an entry under another process's key", partition=partition, offset=offset
        )
    return Placed(partition, offset, entry)


def _decode(data: bytes, schema: Any) -> Entry:
    raw: Any = fastavro.schemaless_reader(
        BytesIO(data), schema, None, return_record_name=True, return_record_name_override=True
    )
    name, body = raw.pop("body")
    kind = _BODIES[name.rpartition(".")[2]]
    return Entry(body=kind(*(body[each.name] for each in fields(kind))), **raw)


_parsed: dict[bytes, Any] = {}


def _schema(text: bytes) -> Any:
    if text not in _parsed:
        _parsed[text] = fastavro.parse_schema(_plain(json.loads(text)))
    return _parsed[text]


def _plain(schema: Any) -> Any:
    """Return the schema without logical types, so that a timestamp stays an integer."""
    if isinstance(schema, list):
        return [_plain(member) for member in schema]
    if isinstance(schema, dict):
        return {name: _plain(value) for name, value in schema.items() if name != "logicalType"}
    return schema
