"""Recovery for asyncio gives the same results and does not block the loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator

import pytest

from owners import Owner
from seekpoint.consumers import Recovery
from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import JournalGap, UnknownPoint, UnknownProcess
from seekpoint.schemas.log.memory_log import MemoryLog


@pytest.fixture
async def recovery(log: MemoryLog) -> AsyncIterator[Recovery]:
    async with Recovery.in_memory(log) as recovery:
        yield recovery


async def test_it_works_with_and_without_a_context(log: MemoryLog, owner: Owner) -> None:
    """It can be used directly, awaited or with ``async with``. A second close does nothing."""
    owner.claim()
    for recovery in (Recovery.in_memory(log), await Recovery.in_memory(log)):
        assert (await recovery.recover("case-17")).state.epoch == 1
        recovery.close()
        recovery.close()
    async with Recovery(log) as recovery:
        assert (await recovery.recover("case-17")).state.epoch == 1


async def test_points_and_refusals_are_those_of_the_blocking_core(recovery: Recovery, owner: Owner) -> None:
    """Both use one implementation."""
    owner.claim()
    owner.update("k", "1")
    owner.update("k", "2")
    assert (await recovery.recover("case-17", at_seq=1)).state.context == {"k": 1}
    assert (await recovery.recover("case-17", at_offset=1)).state.context == {"k": 1}
    assert (await recovery.recover("case-17", at_time=time.time() + 60)).state.context == {"k": 2}
    with pytest.raises(UnknownPoint):
        await recovery.recover("case-17", at_seq=1, at_offset=1)
    with pytest.raises(UnknownProcess):
        await recovery.recover("nobody")


async def test_many_and_all(recovery: Recovery, log: MemoryLog) -> None:
    """Requested processes are returned in their order, all processes by id."""
    for name in ("c", "a", "b"):
        Owner(log.append, 4, name).claim()
    assert list(await recovery.recover_many(["c", "nobody", "a"])) == ["c", "nobody", "a"]
    assert list(await recovery.processes()) == ["a", "b", "c"]
    assert await recovery.recover_many([]) == {}


async def test_concurrent_recoveries_are_capped_and_the_loop_stays_free(log: MemoryLog, owner: Owner) -> None:
    """At most ``recover_concurrency_max`` run at once, and the loop runs meanwhile."""
    owner.claim()
    both, peak, running = threading.Barrier(2), [], []
    plain = log.watermarks

    def meet(partition: int) -> object:
        running.append(1)
        peak.append(len(running))
        both.wait(60)  # passes only where two are here at once
        running.pop()
        return plain(partition)

    log.watermarks = meet  # type: ignore[method-assign,assignment]
    recovery = Recovery(log, Settings(redis_url=None, recover_concurrency_max=2))
    found = await asyncio.gather(*(recovery.recover("case-17") for _ in range(6)))
    assert [one.state.epoch for one in found] == [1] * 6
    assert max(peak) == 2
    recovery.close()


async def test_verify_folds_twice_and_agrees(recovery: Recovery, owner: Owner) -> None:
    """Two methods give one state."""
    owner.claim()
    owner.update("k", "1")
    owner.raw(b"junk")
    checked = await recovery.verify("case-17")
    assert checked.agrees
    assert checked.hashes.keys() == {"scan", "audit"}
    assert (checked.seq, checked.epoch, checked.offset) == (1, 1, 3)


async def test_verify_notices_a_reader_that_folds_otherwise(
    recovery: Recovery, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a verification would prove nothing."""
    owner.claim()
    owner.update("k", "1")
    owner.update("k", "2")
    from seekpoint.consumers.log_reading import scan
    from seekpoint.schemas.folding.fold import advance

    def forgetful(draft: object, offset: int, entry: object, limits: object) -> object:
        return advance(draft, offset - 1 if offset == 2 else offset, entry, limits)  # type: ignore[arg-type]

    monkeypatch.setattr(scan, "advance", forgetful)
    assert not (await recovery.verify("case-17")).agrees


# --- entries ----------------------------------------------------------------------------------------------------------
def write_some(owner: Owner) -> None:
    owner.claim()
    owner.update("k", "1")
    owner.external(b.Signal("go", "1"))
    owner.update("k", "2")
    owner.raw(b"junk")
    owner.own(b.Custom("mine", "1"))


async def seen(recovery: Recovery, **options: object) -> list[tuple[int, str]]:
    return [(one.offset, one.entry.kind) async for one in recovery.entries("case-17", **options)]  # type: ignore[arg-type]


async def test_entries_come_as_they_lie_in_the_log(recovery: Recovery, owner: Owner) -> None:
    """External entries are included, poison is left out."""
    write_some(owner)
    assert await seen(recovery) == [
        (0, "claim"),
        (1, "context_updated"),
        (2, "signal"),
        (3, "context_updated"),
        (5, "custom"),
    ]


@pytest.mark.parametrize(
    ("options", "offsets"),
    [
        ({"from_seq": 2}, [3, 5]),
        ({"from_seq": 9}, []),
        ({"limit": 2}, [0, 1]),
        ({"limit": 0}, []),
        ({"kinds": ["signal", "claim"]}, [0, 2]),
        ({"kinds": ["mine"]}, [5]),
        ({"kinds": ["custom"]}, [5]),
        ({"from_seq": 1, "kinds": ["context_updated"], "limit": 1}, [1]),
    ],
    ids=repr,
)
async def test_entries_may_be_chosen(
    recovery: Recovery, owner: Owner, options: dict[str, object], offsets: list[int]
) -> None:
    """They are chosen by first seq, kind and number."""
    write_some(owner)
    assert [offset for offset, _ in await seen(recovery, **options)] == offsets


async def test_entries_of_an_unknown_process_are_refused(recovery: Recovery) -> None:
    """A misspelt id must not give an empty result."""
    with pytest.raises(UnknownProcess):
        await seen(recovery)


async def test_a_trimmed_log_shows_what_is_left(recovery: Recovery, owner: Owner, log: MemoryLog) -> None:
    """Requested entries that were deleted are an error."""
    write_some(owner)
    log.trim(owner.partition, 2)
    assert [offset for offset, _ in await seen(recovery)] == [2, 3, 5]
    assert [offset for offset, _ in await seen(recovery, from_seq=2)] == [3, 5]
    with pytest.raises(JournalGap):
        await seen(recovery, from_seq=1)


async def test_following_goes_on_with_what_is_appended(recovery: Recovery, owner: Owner) -> None:
    """This works also for a process that does not exist yet."""
    entries = recovery.entries("case-17", follow=True)
    first = asyncio.ensure_future(anext(entries))
    await asyncio.sleep(0)
    owner.claim()
    assert (await asyncio.wait_for(first, 60)).entry.kind == "claim"
    owner.update("k", "1")
    assert (await asyncio.wait_for(anext(entries), 60)).offset == 1
    await entries.aclose()  # type: ignore[attr-defined]
