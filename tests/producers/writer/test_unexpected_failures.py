"""An append that fails in a way nobody foresaw: everybody who waits is told, and the node goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from seekpoint.producers import Node
from seekpoint.producers.node import runtime_of
from seekpoint.producers.writer.outbox import Outbox
from seekpoint.schemas import MemoryLog, Settings
from seekpoint.schemas.errors import HandleClosed, SeekpointError
from seekpoint.schemas.log.log_ports import DeliveryReport, ProducerRecord
from seekpoint.schemas.log.memory_log import MemoryAppender


class Breaking(MemoryLog):
    """A log whose appenders, or whose making of appenders, raise what is no error of Seekpoint's."""

    breaks_send = 0
    """So many sends raise."""
    breaks_making = 0
    """So many appenders cannot be made."""
    sends_first = False
    """A send that raises has handed its records over before."""
    breaks_retiring = False
    """An appender that is to retire raises instead, and answers nothing."""

    def appender(self, deliver: Callable[[Sequence[DeliveryReport]], None]) -> MemoryAppender:
        if self.breaks_making:
            self.breaks_making -= 1
            raise RuntimeError("no more threads")
        inner = super().appender(deliver)
        whole = inner.send

        def send(records: Sequence[ProducerRecord]) -> int:
            if not self.breaks_send:
                return whole(records)
            self.breaks_send -= 1
            if self.sends_first:
                whole(records)
            raise ZeroDivisionError("nobody foresaw this")

        retires = inner.retire

        def retire(drain_s: float) -> None:
            if self.breaks_retiring:
                self._appenders.discard(inner)
                raise RuntimeError("can't start new thread")
            retires(drain_s)

        inner.send, inner.retire = send, retire  # type: ignore[method-assign]
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


async def test_an_appender_that_cannot_be_retired_is_replaced(log: Breaking) -> None:
    """It answers nothing: who sent is told all the same, and owners claim again."""
    async with Node.in_memory(log, append_timeout_s=0.2) as node, asyncio.timeout(20), node.open("case-1") as process:
        log.drop_acknowledgements()
        log.breaks_retiring = True
        asked = asyncio.gather(process.update("city", "Oslo"), node.signal("case-2", "go"), return_exceptions=True)
        await asyncio.sleep(0.5)
        log.breaks_retiring = False
        log.heal()
        outcomes = await asked
        assert not [one for one in outcomes if isinstance(one, BaseException) and not isinstance(one, SeekpointError)]
        await process.update("city", "Bern")
        await process.confirm()
        assert process.state.context == {"city": "Bern"}


async def test_who_waits_hears_of_a_close_whose_appender_cannot_be_retired(log: Breaking) -> None:
    """What the appender did not answer is answered by the outbox."""
    outbox = Outbox(log, Settings(redis_url=None), lambda: None, _nothing)
    outbox.start()
    log.refuse_appends()
    sent = outbox.push_external(0, b"case-1", b"1")
    await asyncio.sleep(0)
    queued = outbox.push_external(0, b"case-1", b"2")
    log.breaks_retiring = True
    with pytest.raises(RuntimeError):
        await outbox.close()
    for future in (sent, queued):
        with pytest.raises(HandleClosed):
            await asyncio.wait_for(future, 5)


@pytest.mark.parametrize("failing", ["publish", "mirror"])
async def test_a_heartbeat_that_fails_unexpectedly_is_followed_by_the_next(
    monkeypatch: pytest.MonkeyPatch, log: Breaking, failing: str
) -> None:
    """A node that lives must not look dead."""
    async with Node.in_memory(log, heartbeat_interval_s=0.02) as node, asyncio.timeout(20):
        store, left = runtime_of(node).heartbeater._store, [3]
        whole = getattr(store, failing)
        calls = asyncio.Event()
        loop = asyncio.get_running_loop()

        def fails(*arguments: object) -> None:
            left[0] -= 1
            if left[0] >= 0:
                raise OSError(24, "Too many open files")
            whole(*arguments)
            loop.call_soon_threadsafe(calls.set)

        monkeypatch.setattr(store, failing, fails)
        await calls.wait()
        assert left[0] < 0


async def _nothing(reason: SeekpointError) -> None:
    pass
