"""The public view: one process, a list of them, and each change as it comes."""

from __future__ import annotations

import asyncio

import pytest

from seekpoint.consumers.view.memory_view import MemoryView
from seekpoint.consumers.view.view_store import Change
from seekpoint.consumers.view_browser import View, Viewed
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import InvalidName, InvalidSetting, ViewUnavailable
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.state.lifecycle import Lifecycle
from seekpoint.schemas.state.process_state import Draft, State

PARTITIONS = 3


@pytest.fixture
def store() -> MemoryView:
    return MemoryView(PARTITIONS)


@pytest.fixture
def tokens(store: MemoryView) -> dict[int, str]:
    found = {partition: store.install(partition, "topic-id") for partition in range(PARTITIONS)}
    for partition, token in found.items():
        store.ready(partition, token, -1, -1)
    return found


def state(offset: int, lifecycle: Lifecycle = Lifecycle.RUNNING, *, finished: bool = False) -> State:
    draft = Draft()
    draft.offset, draft.lifecycle, draft.finished = offset, lifecycle, finished
    return draft.freeze()


def write(store: MemoryView, tokens: dict[int, str], process_id: str, written: State) -> None:
    """Write a state as the next batch of its partition."""
    key = process_id.encode()
    partition = partition_of(key, PARTITIONS)
    meta = store.meta(partition)
    assert meta is not None
    assert meta.applied is not None
    change = Change(key=key, state=written, whole=True)
    assert store.write(partition, tokens[partition], meta.applied + 1, written.offset, 0, [change])


async def test_a_process_is_found_with_the_offset_it_is_as_of(store: MemoryView, tokens: dict[int, str]) -> None:
    """A valid view without the process returns None."""
    write(store, tokens, "case-17", state(4))
    async with View(store) as view:
        assert await view.get("case-17") == Viewed(process_id="case-17", state=state(4), applied=4, topic_id="topic-id")
        assert await view.get("case-18") is None


@pytest.mark.parametrize("what", ["none", "rebuilt", "down"])
async def test_without_a_valid_view_get_raises(store: MemoryView, tokens: dict[int, str], what: str) -> None:
    """The answer None would mean that there is no such process."""
    write(store, tokens, "case-17", state(4))
    if what == "none":
        store.flush()
    elif what == "rebuilt":
        store.install(partition_of(b"case-17", PARTITIONS), "topic-id")
    else:
        store.down()
    async with View(store) as view:
        with pytest.raises(ViewUnavailable):
            await view.get("case-17")


async def test_a_list_is_by_id_across_partitions_and_goes_on_from_its_cursor(
    store: MemoryView, tokens: dict[int, str]
) -> None:
    """Each process is listed once, with any page size."""
    names = sorted([*(f"p-{number:02}" for number in range(25)), "ü", "Ω", "\U0001f600", "\uffff"])
    for number, name in enumerate(names):
        write(store, tokens, name, state(number))
    async with View(store) as view:
        for limit in (1, 7, 29, 100):
            seen, cursor = [], ""
            while True:
                listing = await view.list(limit=limit, cursor=cursor)
                assert len(listing.processes) <= limit
                seen += [one.process_id for one in listing.processes]
                cursor = listing.cursor
                if not cursor:
                    break
            assert seen == names


async def test_a_list_takes_a_prefix_and_a_lifecycle(store: MemoryView, tokens: dict[int, str]) -> None:
    """Both filter the list. An unknown lifecycle is an error."""
    write(store, tokens, "a-1", state(1))
    write(store, tokens, "a-2", state(2, Lifecycle.FAILED))
    write(store, tokens, "b-1", state(3, Lifecycle.FAILED))
    async with View(store) as view:
        listing = await view.list(prefix="a-", lifecycle="failed")
        assert [(one.process_id, one.offset) for one in listing.processes] == [("a-2", 2)]
        with pytest.raises(InvalidName, match="suspended"):
            await view.list(lifecycle="asleep")


async def test_a_list_says_which_partitions_it_could_not_see(store: MemoryView, tokens: dict[int, str]) -> None:
    """One partition has no view, and one is being rebuilt."""
    store.install(1, "topic-id")
    async with View(store) as view:
        assert (await view.list()).missing == (1,)
        store.flush()
        assert (await view.list()).missing == (0, 1, 2)


async def test_a_watch_gives_each_newer_state_until_the_process_finishes(
    store: MemoryView, tokens: dict[int, str]
) -> None:
    """The watch waits for a process that does not exist yet, and for a view that is gone for a while."""
    seen: list[int] = []

    async def look() -> None:
        async for viewed in view.watch("case-17", interval_s=0.001):
            seen.append(viewed.state.offset)  # noqa: PERF401  # looked at while it grows

    async def until(offsets: list[int]) -> None:
        async with asyncio.timeout(60):
            while seen != offsets:  # noqa: ASYNC110  # the watch has no event to wait for
                await asyncio.sleep(0.001)

    async with View(store) as view:
        task = asyncio.create_task(look())
        write(store, tokens, "case-17", state(3))
        await until([3])
        store.down()
        await asyncio.sleep(0.01)
        store.up()
        write(store, tokens, "case-17", state(5))
        await until([3, 5])
        store.lose_last_writes(1)
        write(store, tokens, "case-17", state(4))
        write(store, tokens, "case-17", state(6, finished=True))
        await asyncio.wait_for(task, 60)
    assert seen == [3, 5, 6]


async def test_a_watch_of_a_view_that_stays_away_ends_loudly(store: MemoryView) -> None:
    """Silence must not look like an unchanged process."""
    async with View(store) as view:
        with pytest.raises(ViewUnavailable):
            await anext(view.watch("case-17", interval_s=0.001, stall_timeout_s=0.02))


def test_without_a_redis_there_is_no_view() -> None:
    """The error is raised at once."""
    with pytest.raises(InvalidSetting, match="redis_url"):
        View.connect(Settings(redis_url=None))
