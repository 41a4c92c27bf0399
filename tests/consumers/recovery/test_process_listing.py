"""The index of processes is that of a plain fold, whatever view and checkpoints there are. On a log in memory."""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from histories import PROCESS_IDS, Step, expected_states, steps, write_history
from projected_log import Projected
from seekpoint.consumers.recovery import process_listing
from seekpoint.consumers.recovery.process_listing import list_processes
from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.consumers.recovery.recovery_report import is_known
from seekpoint.consumers.recovery.view_summaries import summaries
from seekpoint.consumers.view.process_summary import Summary, summary_of
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry, new_id
from seekpoint.schemas.errors import TransactionOpen
from seekpoint.schemas.folding.fold import SHARED_PREFIX
from seekpoint.schemas.log.memory_log import MemoryLog
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.state.process_state import State
from seekpoint.schemas.wire.codec import encode

PARTITIONS = 2


def listed(recoverer: Recoverer, prefix: str = "", after: str = "", limit: int | None = None) -> list[Summary]:
    found = list_processes(recoverer, prefix, after, limit, lambda why: None)
    return [one for batch in found for one in batch]


@settings(deadline=None, max_examples=60)
@given(
    steps(),
    st.integers(0, 100),
    st.integers(0, 100),
    st.sampled_from(["view", "checkpoints", "both", "neither"]),
    st.sampled_from(["", *PROCESS_IDS, *(one[:2] for one in PROCESS_IDS)]),
    st.sampled_from(["", *PROCESS_IDS]),
    st.one_of(st.none(), st.integers(1, 4)),
    st.integers(1, 3),
)
def test_it_is_that_of_a_plain_fold(
    history: list[Step], view: int, stop: int, tiers: str, prefix: str, after: str, limit: int | None, page: int
) -> None:
    """By id, from the first one behind ``after``, in pages of any size, however far view and checkpoints are behind."""
    log = MemoryLog(partitions=PARTITIONS)
    projected = Projected(log, write_history(history, log.append, PARTITIONS))
    for partition in range(PARTITIONS):
        high = log.watermarks(partition).high
        projected.save(partition, high * stop // 100, [process_id.encode() for process_id in PROCESS_IDS])
        projected.project(partition, high * view // 100)
    recoverer = Recoverer(
        log,
        view=projected.view if tiers in ("view", "both") else None,
        checkpoints=projected.checkpoints if tiers in ("checkpoints", "both") else None,
    )
    expected = [
        summary_of(partition_of(one.encode(), PARTITIONS), one.encode(), state)
        for one, state in sorted(expected_states(projected.written).items())
        if is_known(state) and one.startswith(prefix) and one > after and not one.startswith(SHARED_PREFIX)
    ]
    with mock.patch.multiple(process_listing, _PAGE_MAX=page, _RECOVERED_MAX=2 * page):
        assert listed(recoverer, prefix, after, limit) == expected[:limit]


class Bench:
    """A log of one partition with processes that have a first entry each, and what is kept beside it."""

    def __init__(self, *ids: str) -> None:
        self.log = MemoryLog(partitions=1)
        self.claim(*ids)
        self.projected = Projected(self.log, [])
        self.recoverer = Recoverer(self.log, view=self.projected.view, checkpoints=self.projected.checkpoints)
        self.said: list[str] = []

    def claim(self, *ids: str) -> None:
        for one in ids:
            body = b.Claim(expected_epoch=0, node_id="n", boot_id="b")
            self.log.append(
                0, one.encode(), encode(Entry(new_id(), one, None, 0, None, None, 1, None, None, None, body))
            )

    def listed(self) -> list[str]:
        batches = list_processes(self.recoverer, "", "", None, self.said.append)
        return [one.process_id for batch in batches for one in batch]


def test_a_trimmed_log_is_completed_from_checkpoints() -> None:
    """Also without a view: a process whose entries were deleted has a checkpoint."""
    bench = Bench("a", "b")
    states = {one.encode(): bench.recoverer.recover(one).state for one in "ab"}
    with mock.patch.object(bench.projected, "states", return_value=states):
        bench.projected.save(0, 2, [b"a", b"b"])
    bench.log.trim(0, 2)
    bench.claim("c")
    assert bench.listed() == ["a", "b", "c"]
    assert len(bench.said) == 1


def test_what_a_transaction_hides_is_no_end() -> None:
    """A process that was acknowledged may be behind it."""
    bench = Bench("a")
    bench.recoverer = Recoverer(bench.log, transaction_wait_s=0.01)
    bench.log.hide(0)
    bench.claim("b")
    with pytest.raises(TransactionOpen):
        bench.listed()
    bench.log.reveal(0)
    assert bench.listed() == ["a", "b"]


def test_a_view_that_goes_away_is_replaced_by_the_log() -> None:
    """From the page on at which it went; nothing is missing or given twice."""
    bench = Bench(*"abcdef")
    states = {one.encode(): bench.recoverer.recover(one).state for one in "abcdef"}
    with mock.patch.object(bench.projected, "states", return_value=states):
        bench.projected.project(0, 6)
    with mock.patch.object(process_listing, "_PAGE_MAX", 2):
        batches = list_processes(bench.recoverer, "", "", None, bench.said.append)
        assert [one.process_id for one in next(batches)] == ["a", "b"]
        assert bench.said == []
        bench.projected.view.install(0, bench.log.topic_id)
        assert [one.process_id for batch in batches for one in batch] == [*"cdef"]
    assert len(bench.said) == 1


def test_a_page_ends_before_what_comes_behind_it() -> None:
    """Also if the view does not have the newest entry of a process that is far behind the page."""
    bench = Bench(*"abcde")
    states = {one.encode(): bench.recoverer.recover(one).state for one in "abcde"}
    with mock.patch.object(bench.projected, "states", return_value=states):
        bench.projected.project(0, 5)
    bench.claim("e", "f")
    with mock.patch.object(process_listing, "_PAGE_MAX", 2):
        assert bench.listed() == [*"abcdef"]
    assert bench.said == []


def test_no_more_processes_are_recovered_at_once_than_a_page_needs() -> None:
    """However many the view does not have."""
    bench = Bench("a")
    with mock.patch.object(bench.projected, "states", return_value={b"a": bench.recoverer.recover("a").state}):
        bench.projected.project(0, 1)
    names = [f"p{number:03}" for number in range(100)]
    bench.claim(*names)
    with mock.patch.object(bench.recoverer, "recover_partition", wraps=bench.recoverer.recover_partition) as recover:
        assert [one.process_id for one in listed(bench.recoverer, limit=2)] == ["a", "p000"]
        assert [len(call.args[1]) for call in recover.call_args_list] == [8]
    with mock.patch.multiple(process_listing, _PAGE_MAX=3, _RECOVERED_MAX=7):
        assert bench.listed() == ["a", *names]


def test_shared_values_are_no_processes() -> None:
    """They are left out, and do not count."""
    bench = Bench("a", "z")
    name = f"{SHARED_PREFIX}settings"
    body = b.SharedSet(expected_version=0, value="1")
    bench.log.append(0, name.encode(), encode(Entry(new_id(), name, None, 0, None, None, 1, None, None, None, body)))
    assert bench.recoverer.recover(name).known
    assert [one.process_id for one in listed(bench.recoverer, limit=2)] == ["a", "z"]


def test_what_no_entry_was_admitted_of_is_no_process() -> None:
    """The view has a state of it, which counts what was refused."""
    bench = Bench("a")
    body = b.SharedSet(expected_version=0, value="1")  # that of a process is refused
    bench.log.append(0, b"b", encode(Entry(new_id(), "b", None, 0, None, None, 1, None, None, None, body)))
    states = {one.encode(): bench.recoverer.recover(one, missing_ok=True).state for one in "ab"}
    assert states[b"b"].refused_externals == 1
    for applied in (1, 2):
        with mock.patch.object(bench.projected, "states", return_value=states):
            bench.projected.project(0, applied)
        assert bench.listed() == ["a"]
        found = summaries(bench.recoverer, 0, bench.said.append)
        assert [one.process_id for one in found] == ["a"]
    assert bench.said == []


def test_a_deleted_process_is_left_out_of_any_page() -> None:
    """Whether the view knows of the deletion or not, and though a whole page is deleted."""
    bench = Bench(*"abcdef")
    states = {one: bench.recoverer.recover(one).state for one in "abcdef"}
    deleted = {one: entry_of_deletion(one, states[one]) for one in "abf"}
    for one in "abf":
        bench.log.append(0, one.encode(), encode(deleted[one]))
    known = {one.encode(): bench.recoverer.recover(one, missing_ok=True).state for one in "abcde"}
    known[b"f"] = states["f"]
    for applied in (8, 9):
        with mock.patch.object(bench.projected, "states", return_value=known):
            bench.projected.project(0, applied)
        with mock.patch.object(process_listing, "_PAGE_MAX", 2):
            assert bench.listed() == (["c", "d", "e"] if applied == 8 else ["c", "d", "e", "f"])
    assert bench.said == []


def entry_of_deletion(process_id: str, state: State) -> Entry:
    return Entry(
        new_id(), process_id, state.seq + 1, state.epoch, state.owner, None, 1, None, None, None, b.Deleted()
    )  # fmt: skip
