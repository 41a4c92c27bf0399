"""Journals in a file whose entries a test writes one by one: each time, epoch and verdict is as the test wants it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing

import orjson

from entry_examples import an_id, claim, external, own
from seekpoint.consumers.sqlite.sqlite_file import SqliteFile
from seekpoint.consumers.sqlite.sqlite_log import SqliteLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.log.log_ports import DeliveryReport, ProducerRecord
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.wire.encoding import encode

__all__ = ["CASE_BEGAN_US", "HOSTILE", "HOUR_US", "a_case", "many_steps", "write_entries", "write_records"]

CASE_BEGAN_US = 1_790_000_000_000_000
HOUR_US = 3_600_000_000
_MARKUP = "<script>window.canary=1</script><img src=x onerror='window.canary=2'>"
HOSTILE = f"{_MARKUP}\u202egnp\x1b[31m [l](javascript:window.canary=3)"


def write_entries(settings: Settings, entries: Iterable[Entry]) -> None:
    """Append the entries to the journal's file, which is made if there is none."""
    _write(settings, ((entry.process_id.encode(), encode(entry), entry.id) for entry in entries))


def write_records(settings: Settings, records: Iterable[tuple[bytes, bytes]]) -> None:
    """Append keys and values that may be no entries."""
    _write(settings, ((key, value, number.to_bytes(16, "big")) for number, (key, value) in enumerate(records, 1)))


def _write(settings: Settings, given: Iterable[tuple[bytes, bytes, bytes]]) -> None:
    assert settings.sqlite_path is not None
    reported = threading.Semaphore(0)
    failures: list[object] = []

    def deliver(reports: Sequence[DeliveryReport]) -> None:
        failures.extend(one.error for one in reports if one.error is not None)
        for _ in reports:
            reported.release()

    with closing(SqliteLog(SqliteFile(settings.sqlite_path, settings), settings)) as log:
        appender, sent = log.appender(deliver), 0
        records = [
            ProducerRecord(partition_of(key, log.partitions), key, value, own_id) for key, value, own_id in given
        ]
        while sent < len(records):
            count = appender.send(records[sent : sent + 500])
            for _ in range(count):
                assert reported.acquire(timeout=30)
            sent += count
        appender.retire(5.0)
    assert failures == []


def _at(after_ms: int) -> int:
    return CASE_BEGAN_US + after_ms * 1_000


def a_case(process_id: str = "case-17") -> list[Entry]:
    """A run with everything that a timeline tells apart, in two epochs with an hour between them."""
    later = HOUR_US + 2_000_000
    failed = orjson.dumps({"type": "shop:NoRoom", "message": HOSTILE, "data": None, "retryable": False}).decode()
    busy = orjson.dumps({"type": "shop:Busy", "message": "try later", "data": None, "retryable": True}).decode()
    usage = '{"input_tokens":120,"output_tokens":30}'
    asked = orjson.dumps([HOSTILE]).decode()
    first = [
        b.AgentStarted("clerk", "2", "d" * 32, '{"order":7}'),
        b.StepStarted("look:1", 1, "look", "1" * 32, "[7]", 1, "", CASE_BEGAN_US),
        b.StepEnded("look:1", 1, "succeeded", '{"found":"desk"}', None, None, CASE_BEGAN_US + 40_000, 40_000),
        b.DecisionStarted("plan:1", 2, "plan", "2" * 32, "[]", started_at_us=CASE_BEGAN_US + 50_000),
        b.DecisionMade(
            "plan:1",
            1,
            "succeeded",
            '"refund"',
            model="m-1",
            usage=usage,
            cost_usd="0.0125",
            ended_at_us=CASE_BEGAN_US + 250_000,
            duration_us=200_000,
        ),
        b.StepStarted("~1.1/price:1", 1, "price", "3" * 32, "[1]", 1, "", CASE_BEGAN_US + 300_000),
        b.StepStarted("~1.2/stock:1", 1, "stock", "4" * 32, "[2]", 1, "", CASE_BEGAN_US + 310_000),
        b.StepEnded(
            "~1.1/price:1", 1, "retry", "null", busy, CASE_BEGAN_US + 800_000, CASE_BEGAN_US + 500_000, 200_000
        ),
        b.StepEnded("~1.2/stock:1", 1, "succeeded", "12", None, None, CASE_BEGAN_US + 700_000, 390_000),
        b.StepStarted("~1.1/price:1", 1, "price", "3" * 32, "[1]", 2, "", CASE_BEGAN_US + 800_000),
        b.StepEnded("~1.1/price:1", 2, "succeeded", "1250", None, None, CASE_BEGAN_US + 900_000, 100_000),
        b.GateOpened("refund:1", 4, "refund", "5" * 32, None, asked),
    ]
    second = [
        b.GateResolved("refund:1", "approved", an_id(60), '{"approved":true}', "ann"),
        b.StepStarted("charge:1", 5, "charge", "6" * 32, asked, 1, "", CASE_BEGAN_US + later + 100_000),
        b.StepEnded("charge:1", 1, "failed", "null", failed, None, CASE_BEGAN_US + later + 200_000, 100_000),
        b.MessageSaid("user", HOSTILE),
    ]
    answer = external(b.Signal("refund:1", '{"approved":true}'), 60, "ann")
    entries: list[tuple[int, Entry]] = [(0, claim(1))]
    moments = [1, 2, 40, 50, 250, 300, 310, 500, 700, 800, 900, 1_000]
    entries += [(ms * 1_000, own(seq, body)) for seq, (ms, body) in enumerate(zip(moments, first, strict=True), 1)]
    entries.append((HOUR_US, answer))
    entries.append((HOUR_US + 1_000_000, _claim_of("node-b", 2, 1)))
    entries.append((HOUR_US + 1_500_000, own(13, b.ContextUpdated("late", '"fenced"'))))
    for seq, body in enumerate(second, 13):
        entries.append((later + (seq - 13) * 100_000, own(seq, body, epoch=2, claim_id=2)))
    return [one._replace(process_id=process_id, ts=CASE_BEGAN_US + after_us) for after_us, one in entries]


def _claim_of(node_id: str, entry_id: int, expected_epoch: int) -> Entry:
    return external(b.Claim(expected_epoch, node_id, "boot"), entry_id)


def many_steps(process_id: str, entries: int) -> Iterator[Entry]:
    """A long run: a claim, then steps of a millisecond, each a hundredth of a second after the one before."""
    yield claim(1)._replace(process_id=process_id, ts=CASE_BEGAN_US)
    yield own(1, b.AgentStarted("long", "1", "d" * 32, "null"))._replace(process_id=process_id, ts=CASE_BEGAN_US)
    for number in range(1, (entries - 2) // 2 + 1):
        began, key, seq = CASE_BEGAN_US + number * 10_000, f"step:{number}", number * 2
        start = b.StepStarted(key, number, "step", "1" * 32, f"[{number}]", 1, "", began)
        end = b.StepEnded(key, 1, "succeeded", str(number), None, None, began + 1_000, 1_000)
        for after, (one_seq, body) in enumerate(((seq, start), (seq + 1, end))):
            entry = own(one_seq, body)._replace(process_id=process_id, ts=began + after * 1_000)
            yield entry._replace(id=an_id(10_000 + one_seq))
