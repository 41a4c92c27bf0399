"""What owners' writes promise on every log, as one suite: a test of a log inherits it and brings three ``nodes``."""

from __future__ import annotations

from uuid import uuid4

from seekpoint.producers import Node

__all__ = ["OwnerWritesContract"]


class OwnerWritesContract:
    """The promises. ``nodes`` is a fixture: three nodes of one journal."""

    async def test_an_id_holds_from_owner_to_owner_and_for_shared_writers(self, nodes: list[Node]) -> None:
        """Whoever repeats a write gets the place of the first one."""
        shared, owned, later = (uuid4().bytes for _ in range(3))
        thread = await nodes[0].open("thread", shared=True)
        first = await thread.record("work", 1, entry_id=shared)
        async with nodes[1].open("thread") as process:
            found = await process.record("work", 1, entry_id=shared)
            assert (found.seq, found.offset, found.is_repeated) == (first.seq, first.offset, True)
            second = await process.update("a", 2, entry_id=owned)
            assert await process.update("a", 2, entry_id=owned) == second._replace(is_repeated=True)
        async with nodes[2].open("thread") as process:
            assert await process.update("a", 2, entry_id=owned) == second._replace(is_repeated=True)
            third = await process.say("user", "hello", entry_id=later)
        again = await thread.say("user", "hello", entry_id=later)
        assert (again.seq, again.offset, again.is_repeated) == (third.seq, third.offset, True)
        assert (await thread.read()).context == {"a": 2}

    async def test_writes_that_nobody_waits_for_are_there_after_a_flush(self, nodes: list[Node]) -> None:
        """All of them, in their order, also more than may be under way at once."""
        async with nodes[0].open("p") as process:
            for number in range(2_500):
                await process.record("work", number, wait=False)
            await process.update("last", True)
            await process.record("work", 2_500, wait=False)
            await process.flush()
            assert process.state.seq == 2_502
            found = [one.entry async for one in nodes[1].entries("p", kinds=["work"])]
            assert [int(one.body.payload) for one in found] == [*range(2_501)]  # type: ignore[attr-defined]
