"""What a session of the OpenAI Agents SDK promises on every journal. A test inherits it and brings two ``nodes``."""

from __future__ import annotations

import asyncio
from typing import Any

from agents.items import TResponseInputItem

from seekpoint import Node
from seekpoint.adapters.openai_agents import SeekpointSession

__all__ = ["SessionContract", "said"]


def said(*texts: object) -> list[TResponseInputItem]:
    """Items of a user."""
    return [{"role": "user", "content": str(text)} for text in texts]


class SessionContract:
    """The promises. ``nodes`` is a fixture: two nodes of one journal."""

    async def test_each_call_sees_what_the_other_node_has_written(self, nodes: list[Node]) -> None:
        """Without sticky routing: items, their order, and what was removed."""
        here, there = [SeekpointSession("chat", node) for node in nodes]
        assert await there.get_items() == []
        await here.add_items(said(0))
        assert await there.pop_item() == said(0)[0]
        assert await here.get_items() == []
        assert await here.pop_item() is None
        await here.add_items(said(1, 2))
        await there.add_items(said(3))
        await here.add_items(said(4, 5))
        assert await there.get_items() == said(1, 2, 3, 4, 5)
        assert await here.get_items(limit=2) == said(4, 5)
        assert await there.pop_item() == said(5)[0]
        assert await here.pop_item() == said(4)[0]
        assert await there.get_items() == said(1, 2, 3)
        await here.clear_session()
        assert await there.get_items() == []
        assert await there.pop_item() is None
        await there.add_items(said(6))
        assert await here.get_items() == said(6)

    async def test_nodes_that_add_and_pop_at_once_lose_and_double_nothing(self, nodes: list[Node]) -> None:
        """Each item is popped once or stays; the items of one call stay together."""
        sessions = [SeekpointSession("chat", node) for node in nodes]
        popped: list[Any] = []

        async def work(number: int) -> None:
            session = sessions[number % 2]
            for turn in range(5):
                await session.add_items(said(f"{number}.{turn}.a", f"{number}.{turn}.b"))
                if turn == 3:
                    popped.append(await session.pop_item())

        await asyncio.gather(*map(work, range(4)))
        left = [str(item.get("content")) for item in await sessions[0].get_items()]
        gone = [item["content"] for item in popped]
        assert sorted(left + gone) == sorted(
            f"{n}.{turn}.{part}" for n in range(4) for turn in range(5) for part in "ab"
        )
        firsts = [text for text in left if text.endswith("a") and text[:-1] + "b" in left]
        assert all(left[left.index(text) + 1] == text[:-1] + "b" for text in firsts)

    async def test_items_with_an_id_are_added_once(self, nodes: list[Node]) -> None:
        """Also if another node repeats the call, after others have written, or have removed the items."""
        here, there = [SeekpointSession("chat", node) for node in nodes]
        await here.add_items_once(said(1, 2), "case-1/add:1")
        await there.add_items(said(3))
        for session in (there, here, SeekpointSession("chat", nodes[0])):
            await session.add_items_once(said(1, 2), "case-1/add:1")
            assert await there.get_items() == said(1, 2, 3)
        await there.clear_session()
        await here.add_items_once(said(1, 2), "case-1/add:1")
        await here.add_items_once(said(1, 2), "case-1/add:2")
        assert await there.get_items() == said(1, 2)
