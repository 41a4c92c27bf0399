"""The partition of a process is that of Java's default partitioner."""

from __future__ import annotations

import pytest

from seekpoint.schemas.log.partition import murmur2, partition_of

# org.apache.kafka.common.utils.UtilsTest.testMurmur2, as signed 32-bit numbers.
KAFKAS_OWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("key", "expected"), KAFKAS_OWN.items())
def test_murmur2_matches_kafkas_test_vectors(key: bytes, expected: int) -> None:
    """The vectors are those of Kafka's own unit test."""
    assert murmur2(key) == expected & 0xFFFFFFFF


@pytest.mark.parametrize("key", KAFKAS_OWN)
@pytest.mark.parametrize("partitions", [1, 7, 8, 50])
def test_a_partition_is_the_positive_hash_modulo_the_partition_count(key: bytes, partitions: int) -> None:
    """Kafka's toPositive clears the sign bit; it is not abs()."""
    assert partition_of(key, partitions) == (KAFKAS_OWN[key] & 0x7FFFFFFF) % partitions


def test_keys_spread_over_all_partitions() -> None:
    """A thousand processes fill each of eight partitions."""
    counts = [0] * 8
    for number in range(1_000):
        counts[partition_of(f"case-{number}".encode(), 8)] += 1
    assert min(counts) > 80
