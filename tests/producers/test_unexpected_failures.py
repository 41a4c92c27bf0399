"""An append that fails in a way nobody foresaw: everybody who waits is told, and the node goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from seekpoint.producers import Node
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import SeekpointError
from seekpoint.schemas.log import Delivery, Outgoing
from seekpoint.schemas.memory_log import MemoryAppender


class Breaking(MemoryLog):
    """A log whose appenders, or whose making of appenders, raise what is no error of Seekpoint's."""

    breaks_send = 0
    """So many sends raise."""
    breaks_making = 0
    """So many appenders cannot be made."""
    sends_first = False
    """A send that raises has handed its records over before."""

    def appender(self, deliver: Callable[[Sequence[Delivery]], None]) -> MemoryAppender:
        if self.breaks_making:
            self.breaks_making -= 1
            raise RuntimeError("no more threads")
        inner = super().appender(deliver)
        whole = inner.send

        def send(records: Sequence[Outgoing]) -> int:
            if not self.breaks_send:
                return whole(records)
            self.breaks_send -= 1
            if self.sends_first:
                whole(records)
            raise ZeroDivisionError("nobody foresaw this")

        inner.send = send  # type: ignore[method-assign]
        return inner


@pytest.fixture
def log() -> Breaking:
    return Breaking(partitions=1)


async def test_who_sends_a_signal_gets_the_error_with_its_cause(log: Breaking) -> None:
    """And the next one arrives."""
    async with Node.in_memory(log) as node, asyncio.timeout(20):
        log.breaks_send = 1
        with pytest.raises(SeekpointError, match="ZeroDivisionError: nobody foresaw this") as caught:
            await node.signal("case-1", "go")
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        assert "open the process again" in caught.value.hint
        await node.signal("case-1", "go")


@pytest.mark.parametrize("sends_first", [False, True])
async def test_an_owner_claims_again_and_its_entry_is_in_the_log_once(log: Breaking, sends_first: bool) -> None:
    """Whether the records left before the failure or not: the claim finds out."""
    async with Node.in_memory(log) as node, asyncio.timeout(20), node.open("case-1") as process:
        log.breaks_send, log.sends_first = 1, sends_first
        await process.update("city", "Oslo")
        await process.update("city", "Rome")
        await process.confirm()
        assert (process.state.context, process.state.seq) == ({"city": "Rome"}, 2)
    async with Node.in_memory(log) as node:
        found = (await node.recover("case-1")).state
        assert (found.context, found.seq, found.degraded) == ({"city": "Rome"}, 3, None)


async def test_an_owner_whose_sends_always_fail_is_told(log: Breaking) -> None:
    """At once, not when the time for healing is over."""
    async with Node.in_memory(log, heal_timeout_s=600.0) as node, asyncio.timeout(20):
        process = await node.open("case-1")
        log.breaks_send = 1_000
        with pytest.raises(SeekpointError, match="ZeroDivisionError"):
            await process.update("city", "Oslo")
        log.breaks_send = 0
        async with node.open("case-1", take_over=True) as again:
            await again.update("city", "Bern")


async def test_nobody_waits_for_an_appender_that_cannot_be_made(log: Breaking) -> None:
    """An owner and a sender get the error; once one can be made the node goes on."""
    async with Node.in_memory(log, heal_timeout_s=600.0) as node, asyncio.timeout(20):
        process = await node.open("case-1")
        log.breaks_send, log.breaks_making = 1, 4
        asked = await asyncio.gather(
            process.update("city", "Oslo"), node.signal("case-2", "go"), return_exceptions=True
        )
        assert all(isinstance(one, SeekpointError) for one in asked)
        log.breaks_making = 0
        async with node.open("case-1", take_over=True) as again:
            await again.update("city", "Bern")


async def test_a_node_closes_while_no_appender_can_be_made(log: Breaking) -> None:
    """It does not wait for one, and who waits is told."""
    async with asyncio.timeout(20):
        async with Node.in_memory(log) as node:
            log.breaks_send, log.breaks_making = 1, 1_000
            with pytest.raises(SeekpointError):
                await node.signal("case-1", "go")
            waiting = asyncio.ensure_future(node.signal("case-1", "go"))
            await asyncio.sleep(0.3)
        with pytest.raises(SeekpointError):
            await waiting
