"""The consumers that a reader keeps for its next reads."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest

from seekpoint.consumers.kafka import kafka_pool
from seekpoint.consumers.kafka.kafka_pool import END_READS, POINT_READS, RANGE_READS, KafkaPool
from seekpoint.schemas import Settings

MADE: list[FakeClient] = []


class FakeClient:
    """A consumer that notes whether it was closed."""

    def __init__(self, config: dict[str, Any], kind: str) -> None:
        self.kind = kind
        self.is_closed = False
        self.returned_at_s = 0.0
        MADE.append(self)

    def unassign(self) -> None: ...

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> KafkaPool:
    MADE.clear()
    monkeypatch.setattr(kafka_pool, "PooledClient", FakeClient)
    return KafkaPool(Settings())


def lend(pool: KafkaPool, kind: str, count: int) -> None:
    """Lend so many at once, and take them back."""
    with ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(pool.borrowed(kind))


def open_ones(kind: str) -> int:
    return sum(one.kind == kind and not one.is_closed for one in MADE)


def test_consumers_that_nobody_uses_are_closed(pool: KafkaPool, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a burst of reads, one read at a time needs one consumer. The last one of each kind stays connected."""
    now_s = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now_s[0])
    for kind, count in ((RANGE_READS, 5), (POINT_READS, 3), (END_READS, 1)):
        lend(pool, kind, count)
    now_s[0] += kafka_pool._UNUSED_S - 1
    lend(pool, RANGE_READS, 2)
    assert (open_ones(RANGE_READS), open_ones(POINT_READS), open_ones(END_READS)) == (5, 3, 1)
    now_s[0] += 2
    for _ in range(10):
        lend(pool, RANGE_READS, 1)
    assert (open_ones(RANGE_READS), open_ones(POINT_READS), open_ones(END_READS)) == (2, 1, 1)
    now_s[0] += kafka_pool._UNUSED_S - 0.5
    lend(pool, RANGE_READS, 2)
    assert open_ones(RANGE_READS) == 2
    assert len(MADE) == 9
    pool.close()
    assert all(one.is_closed for one in MADE)


def test_a_return_closes_no_more_than_one_consumer(pool: KafkaPool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller waits for it."""
    now_s = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now_s[0])
    lend(pool, RANGE_READS, 6)
    now_s[0] += kafka_pool._UNUSED_S + 1
    lend(pool, RANGE_READS, 1)
    assert open_ones(RANGE_READS) == 5
