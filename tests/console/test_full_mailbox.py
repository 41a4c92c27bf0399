"""What a process is told from the command line and has no room for: whoever tells it hears so. On a log in memory."""

from __future__ import annotations

import asyncio

import pytest

from console_on_memory import on
from seekpoint.producers import Node
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import ProcessFinished, UnknownProcess
from seekpoint.schemas.fold import MAILBOX_ITEMS_MAX
from shells import Shell


async def fill(node: Node) -> None:
    """A process in doubt about an effect, and no room in its mailbox."""
    process = await node.open("p")
    effect = asyncio.create_task(process.effect("pay", asyncio.Event().wait, semantics="at_most_once"))
    while not process.state.calls:  # noqa: ASYNC110  # the state tells nobody
        await asyncio.sleep(0.001)
    effect.cancel()
    await asyncio.wait([effect])
    process.let_go()
    await asyncio.gather(*(node.signal("p", "more") for _ in range(MAILBOX_ITEMS_MAX)))


@pytest.mark.parametrize(
    "command",
    [
        ("signal", "p", "go"),
        ("approve", "p", "refund"),
        ("deny", "p", "refund"),
        ("cancel", "p"),
        ("effects", "resolve", "p", "pay:1", "--failed", "lost"),
    ],
)
def test_who_tells_a_process_with_a_full_mailbox_hears_of_it(
    command: tuple[str, ...], seekpoint: Shell, log: MemoryLog
) -> None:
    """Refused, with what to do, instead of a word that it was sent."""
    on(log, fill)
    ran = seekpoint(*command)
    assert (ran.code, "mailbox is full" in ran.err) == (4, True), ran.err
    assert "seekpoint state p" in ran.err


@pytest.mark.parametrize("command", [("signal", "p", "go"), ("cancel", "p")])
def test_what_is_taken_in_is_told_as_before(command: tuple[str, ...], seekpoint: Shell, log: MemoryLog) -> None:
    """Also by a process that was never opened."""

    async def opened(node: Node) -> None:
        async with node.open("p"):
            pass

    on(log, opened)
    assert seekpoint(*command).code == 0
    assert seekpoint("signal", "new", "go").code == 0


async def test_a_node_tells_whether_something_was_taken_in() -> None:
    """It waits, or was received; it was refused; nobody can tell any more."""
    async with Node.in_memory() as node:
        sent = await node.signal("p", "go")
        assert await node.is_delivered("p", sent)
        async with node.open("p") as process:
            await process.receive("go")
            assert await node.is_delivered("p", sent)
            await asyncio.gather(*(node.signal("p", "more") for _ in range(MAILBOX_ITEMS_MAX)))
            assert not await node.is_delivered("p", await node.signal("p", "late"))
            await process.finish()
        with pytest.raises(ProcessFinished):
            await node.is_delivered("p", sent)
        with pytest.raises(UnknownProcess):
            await node.is_delivered("nobody", sent)
