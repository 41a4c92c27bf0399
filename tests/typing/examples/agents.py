"""Agents know their input and output: runs, submissions and children have the types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_type

from seekpoint import Agent, Child, Client, Node, Process, SubmittedRun, SyncProcess, agent
from seekpoint.testing import crash_at


@dataclass
class Order:
    """An order."""

    number: int


@dataclass
class Receipt:
    """A receipt."""

    number: int


@agent("refund")
async def refund(process: Process, order: Order) -> Receipt:
    """Refund an order."""
    return Receipt(order.number)


@agent("plain")
def plain(process: SyncProcess, order: Order | None) -> int:
    """Count."""
    return 0 if order is None else order.number


@agent("untyped")
async def untyped(process, given):  # type: ignore[no-untyped-def]
    """Take and return anything."""
    return given


def of_any_kind(agents: list[Agent]) -> int:
    """Take agents of all types: ``Agent`` alone is ``Agent[Any, Any]``."""
    return len(agents)


async def runs(node: Node) -> None:
    """A run takes the input of its agent and returns its output."""
    assert_type(refund, Agent[Order, Receipt])
    assert_type(await node.run(refund, "r-1", Order(4711)), Receipt)
    assert_type(await node.run(refund, "r-1"), Receipt)
    assert_type(await node.run(plain, "r-2", None, take_over=True), int)
    assert_type(await crash_at(seq=1).run(refund, "r-1", Order(4711)), Receipt)
    await node.run(untyped, "r-3", {"any": "thing"})
    of_any_kind([refund, plain, untyped])
    await node.run(refund, "r-1", 4711)  # wrong: an input
    await node.run(refund, "r-1", Order(4711), take_ovr=True)  # wrong: a misspelt option
    await node.run(refund.run, "r-1", Order(4711))  # wrong: no agent


async def submissions(client: Client) -> None:
    """A handle returns the output of its agent."""
    run = await client.submit(refund, "r-1", Order(4711), priority=2)
    assert_type(run, SubmittedRun[Receipt])
    assert_type(await run.result(timeout=5), Receipt)
    assert_type(await (await client.submit(plain, "r-2")).result(), int)
    assert_type(await (await client.submit("refund", "r-1", 4711)).result(), Any)
    await client.submit(refund, "r-1", 4711)  # wrong: an input
    await client.submit(refund, "r-1")  # wrong: no input
    await client.submit(refund, "r-1", Order(4711), prioritty=2)  # wrong: a misspelt option


async def children(process: Process) -> None:
    """A child returns the output of its agent."""
    assert_type(process.spawn(refund, "r-1", Order(4711)), Child[Receipt])
    assert_type(await process.spawn(refund, "r-1", Order(4711), key="a").result(), Receipt)
    assert_type(await process.spawn(plain, "r-2").result(), int)
    process.spawn(refund, "r-1", 4711)  # wrong: an input
    process.spawn(refund, "r-1")  # wrong: no input
    process.spawn(refund, "r-1", Order(4711), kye="a")  # wrong: a misspelt option


async def without_input(process: Process) -> None:
    """Take no input."""


agent("none")(without_input)  # wrong: no input
