"""Headers: which are dropped, which name the origin, and how loops are refused."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seekpoint.consumers.staging.copy.headers import HeaderRules, Provenance, ReplayOrigin
from seekpoint.consumers.staging.copy.memory_topic import MemoryTopic
from seekpoint.consumers.staging.copy.partitioning import Partitioner, Partitions, choose_partitioner
from seekpoint.consumers.staging.staging_replay import Replay
from seekpoint.schemas.errors import ReplayRefused
from seekpoint.schemas.log.partition import partition_of


def test_headers_of_traces_and_replicators_are_dropped() -> None:
    """By default, in any case of letters; other headers stay in order, duplicates and nulls included."""
    headers = [
        ("a", b"1"),
        ("traceparent", b"00-x"),
        ("X-B3-TraceId", b"y"),
        ("a", None),
        ("__replicator_id", b"r"),
        ("seekpoint-replay-job", b"old"),
        ("b", b""),
    ]
    assert HeaderRules().filtered(headers) == [("a", b"1"), ("a", None), ("b", b"")]
    assert HeaderRules(strip=()).filtered(headers)[1][0] == "traceparent"


@given(
    st.integers(0, 10_000),
    st.integers(0, 2**62),
    st.integers(-1, 2**41),
    st.lists(st.sampled_from(["x/a", "y/b.c"]), max_size=2),
)
def test_an_origin_is_parsed_from_its_headers(partition: int, offset: int, stamp: int, path: list[str]) -> None:
    """Any numbers and any path are parsed back."""
    provenance = Provenance("job-1", "prod/orders", "staging/orders")
    headers = [
        provenance.job_header,
        provenance.source_header(partition),
        ("seekpoint-replay-offset", b"%d" % offset),
        ("seekpoint-replay-timestamp", b"%d" % stamp),
        ("seekpoint-replay-path", ",".join(path).encode()),
    ]
    assert ReplayOrigin.from_headers(headers) == ReplayOrigin(
        "job-1", "prod/orders", partition, offset, stamp, tuple(path), False
    )


@pytest.mark.parametrize("headers", [None, [], [("a", b"1")], [("seekpoint-replay-job", b"x")]])
def test_headers_without_a_valid_origin_are_ignored(headers: list[tuple[str, bytes]] | None) -> None:
    """Invalid replay headers are ignored too."""
    assert ReplayOrigin.from_headers(headers) is None


def chained(*topics: MemoryTopic) -> None:
    for source, target in pairwise(topics):
        Replay(source, target).run()


def test_a_loop_is_refused_however_long_it_is() -> None:
    """After A to B to C, a replay of C into A is refused at the first record."""
    a, b, c = (MemoryTopic(2, cluster_id="k", topic=name) for name in "abc")
    a.append(0, b"k", b"v")
    chained(a, b, c)
    for circle in ((b, a), (c, a), (c, b)):
        before = len(circle[1].records())
        with pytest.raises(ReplayRefused, match="a loop"):
            Replay(*circle).run()
        assert len(circle[1].records()) == before


def test_a_chain_without_a_loop_is_replayed() -> None:
    """The last record names all topics of the chain."""
    a, b, c = (MemoryTopic(2, cluster_id="k", topic=name) for name in "abc")
    a.append(0, b"k", b"v", 5, [("mine", b"1")])
    chained(a, b, c)
    [record] = c.records()
    origin = ReplayOrigin.from_headers(record.headers())
    assert origin is not None
    assert (origin.path, origin.source) == (("k/a",), "k/b")
    assert (record.headers() or [])[0] == ("mine", b"1")


def test_partitions_are_kept_if_both_topics_have_equally_many() -> None:
    """Otherwise the key decides, as for any producer."""
    assert choose_partitioner(Partitions.AUTO, 4, 4, keys_change=False, is_journal=True).keeps_partitions
    assert not choose_partitioner(Partitions.AUTO, 4, 8, keys_change=False, is_journal=True).keeps_partitions
    assert not choose_partitioner(Partitions.AUTO, 4, 4, keys_change=True, is_journal=True).keeps_partitions
    for wrong in ({"target": 3, "keys_change": False}, {"target": 4, "keys_change": True}):
        with pytest.raises(ReplayRefused):
            choose_partitioner(Partitions.KEEP, 4, is_journal=False, **wrong)  # type: ignore[arg-type]


@given(st.binary(min_size=1, max_size=20), st.integers(1, 9), st.integers(2, 9), st.integers(0, 8))
def test_a_record_in_a_wrong_partition_gets_a_wrong_one_again(
    key: bytes, source: int, target: int, partition: int
) -> None:
    """An entry in a wrong partition is poison, and must not become an entry in the target."""
    partition %= source
    laid = Partitioner(False, target, journal_partitions=source).partition_for(key, partition, key)
    assert (laid == partition_of(key, target)) == (partition == partition_of(key, source))
