"""Headers: what is left behind, what says where a record came from, and what is not read in a circle."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seekpoint.consumers.staging.copy.headers import HeaderRules, Origin, Provenance
from seekpoint.consumers.staging.copy.memory_topic import MemoryTopic
from seekpoint.consumers.staging.copy.partitioning import Partitioner, Partitions, choose_partitioner
from seekpoint.consumers.staging.staging_replay import Replay
from seekpoint.schemas.errors import ReplayRefused
from seekpoint.schemas.log.partition import partition_of


def test_traces_and_replicators_marks_are_left_behind() -> None:
    """By default, however they are spelt; the user's own stay, in order, doubles and nulls too."""
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
def test_an_origin_is_read_as_it_was_written(partition: int, offset: int, stamp: int, path: list[str]) -> None:
    """Whatever the numbers."""
    provenance = Provenance("job-1", "prod/orders", "staging/orders")
    headers = [
        provenance.job_header,
        provenance.source_header(partition),
        ("seekpoint-replay-offset", b"%d" % offset),
        ("seekpoint-replay-timestamp", b"%d" % stamp),
        ("seekpoint-replay-path", ",".join(path).encode()),
    ]
    assert Origin.from_headers(headers) == Origin("job-1", "prod/orders", partition, offset, stamp, tuple(path), False)


@pytest.mark.parametrize("headers", [None, [], [("a", b"1")], [("seekpoint-replay-job", b"x")]])
def test_headers_of_nobody_are_no_origin(headers: list[tuple[str, bytes]] | None) -> None:
    """Also those that only look like ours."""
    assert Origin.from_headers(headers) is None


def chained(*topics: MemoryTopic) -> None:
    for source, target in pairwise(topics):
        Replay(source, target).run()


def test_a_circle_is_refused_however_long_it_is() -> None:
    """A into B into C, and C into A: the first record says that it came from A."""
    a, b, c = (MemoryTopic(2, cluster_id="k", topic=name) for name in "abc")
    a.append(0, b"k", b"v")
    chained(a, b, c)
    for circle in ((b, a), (c, a), (c, b)):
        before = len(circle[1].records())
        with pytest.raises(ReplayRefused, match="a loop"):
            Replay(*circle).run()
        assert len(circle[1].records()) == before


def test_a_chain_that_is_no_circle_is_replayed() -> None:
    """And the last record tells of the whole way."""
    a, b, c = (MemoryTopic(2, cluster_id="k", topic=name) for name in "abc")
    a.append(0, b"k", b"v", 5, [("mine", b"1")])
    chained(a, b, c)
    [record] = c.records()
    origin = Origin.from_headers(record.headers())
    assert origin is not None
    assert (origin.path, origin.source) == (("k/a",), "k/b")
    assert (record.headers() or [])[0] == ("mine", b"1")


def test_partitions_are_kept_where_both_have_equally_many() -> None:
    """Else the key decides, as it does for any other writer."""
    assert choose_partitioner(Partitions.AUTO, 4, 4, keys_change=False, is_journal=True).keeps_partitions
    assert not choose_partitioner(Partitions.AUTO, 4, 8, keys_change=False, is_journal=True).keeps_partitions
    assert not choose_partitioner(Partitions.AUTO, 4, 4, keys_change=True, is_journal=True).keeps_partitions
    for wrong in ({"target": 3, "keys_change": False}, {"target": 4, "keys_change": True}):
        with pytest.raises(ReplayRefused):
            choose_partitioner(Partitions.KEEP, 4, is_journal=False, **wrong)  # type: ignore[arg-type]


@given(st.binary(min_size=1, max_size=20), st.integers(1, 9), st.integers(2, 9), st.integers(0, 8))
def test_what_lay_wrong_in_a_journal_lies_wrong_again(key: bytes, source: int, target: int, partition: int) -> None:
    """An entry in a foreign partition is poison: laid by its key alone it would suddenly count."""
    partition %= source
    laid = Partitioner(False, target, journal_partitions=source).partition_for(key, partition, key)
    assert (laid == partition_of(key, target)) == (partition == partition_of(key, source))
