"""A process's partition is the one Java's default partitioner takes."""

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
def test_murmur2_gives_kafkas_own_vectors(key: bytes, expected: int) -> None:
    """The numbers of Kafka's own test."""
    assert murmur2(key) == expected & 0xFFFFFFFF


@pytest.mark.parametrize("key", KAFKAS_OWN)
@pytest.mark.parametrize("partitions", [1, 7, 8, 50])
def test_a_partition_is_the_positive_hash_modulo(key: bytes, partitions: int) -> None:
    """toPositive clears the sign bit; it is not abs()."""
    assert partition_of(key, partitions) == (KAFKAS_OWN[key] & 0x7FFFFFFF) % partitions


def test_keys_spread_over_all_partitions() -> None:
    """A thousand processes leave none of eight partitions empty."""
    counts = [0] * 8
    for number in range(1_000):
        counts[partition_of(f"case-{number}".encode(), 8)] += 1
    assert min(counts) > 80
