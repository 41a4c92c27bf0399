"""Models in effects that a dispatcher calls: its function and the owner get them rebuilt. In memory."""

from __future__ import annotations

from typing import Any

from open_processes import durable_side
from payload_models import Colour, Item
from seekpoint.producers import Node
from seekpoint.producers.dispatch.dispatcher import Dispatcher
from seekpoint.producers.durable.effects.connectors import Connector, Connectors
from seekpoint.schemas import MemoryLog


async def test_a_dispatcher_hands_over_and_reports_models() -> None:
    """The function gets models by its annotations, and the owner gets the output as a model."""
    seen: list[Any] = []

    async def pay(item: Item, colours: list[Colour]) -> list[Item]:
        seen.append((item, colours))
        return [item]

    known = Connectors()
    known.register(Connector("bank", pay, outbox=True))
    async with (
        Node.in_memory(MemoryLog(partitions=1)) as node,
        Dispatcher(node, known=known, poll_s=0.01),
        node.open("p") as process,
    ):
        durable_side(process).effects.connectors = known
        assert await process.effect("pay", None, Item("a"), [Colour.RED], connector="bank") == [Item("a")]
    assert seen == [(Item("a"), [Colour.RED])]
