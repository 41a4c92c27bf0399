"""Streams: chunks as they come in the first run, those of the record in later runs, one decision in the journal."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from counting_model import REQUEST, bodies
from seekpoint.producers import Node, Process, Retry, SyncNode, agent, check_replay
from seekpoint.producers.testing import history_of
from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.errors import InvalidOption, InvalidSetting, ReplayDivergence
from seekpoint.schemas.log.memory_log import MemoryLog

USAGE = {"input_tokens": 3, "output_tokens": 2}
CHUNKS: list[Any] = [{"delta": "On "}, {"delta": "its "}, {"delta": "way", "usage": USAGE}]


class Streamer:
    """A model that streams: counts its calls, waits where it is told, and breaks where it is told."""

    def __init__(self, *, waits_before: int | None = None, breaks_before: int | None = None, busy: int = 0) -> None:
        self.calls = 0
        self.called, self.closed = asyncio.Event(), asyncio.Event()
        self.waits_before, self.breaks_before, self.busy = waits_before, breaks_before, busy
        self.goes_on = asyncio.Event()

    async def __call__(self, request: Any) -> AsyncIterator[Any]:
        self.calls += 1
        self.called.set()
        if self.calls <= self.busy:
            raise ConnectionError("busy")
        return self.chunks()

    async def chunks(self) -> AsyncIterator[Any]:
        """Yield the chunks."""
        try:
            for at, chunk in enumerate(CHUNKS):
                if at == self.waits_before:
                    await self.goes_on.wait()
                if at == self.breaks_before:
                    raise ConnectionError("broken")
                yield chunk
        finally:
            self.closed.set()


async def test_chunks_come_as_the_model_sends_them() -> None:
    """The first chunk is there before the model has sent the last one; the loop ends once the decision is recorded."""
    model = Streamer(waits_before=2)
    async with Node.in_memory() as node, node.open("p") as process:
        stream = process.decide_stream("plan", model, REQUEST)
        assert [await anext(stream), await anext(stream)] == CHUNKS[:2]
        assert not await bodies(node, "p", b.DecisionMade)
        model.goes_on.set()
        assert [chunk async for chunk in stream] == CHUNKS[2:]
        (made,) = await bodies(node, "p", b.DecisionMade)
        assert (made.outcome, made.usage) == ("succeeded", '{"input_tokens":3,"output_tokens":2}')
        assert [chunk async for chunk in stream] == []


async def test_a_later_run_gets_the_chunks_of_the_record() -> None:
    """The model is not called again, and ``decide`` on its place would be given the same list."""
    log, model = MemoryLog(), Streamer()
    for _ in range(2):
        async with Node.in_memory(log) as node, node.open("p") as process:
            assert [chunk async for chunk in process.decide_stream("plan", model, REQUEST)] == CHUNKS
            assert await process.step("act", str, 1) == "1"
    async with Node.in_memory(log) as node, node.open("p") as process:
        assert await process.decide("plan", model, REQUEST) == CHUNKS
    assert model.calls == 1


async def test_a_changed_request_diverges() -> None:
    """With the first difference, before the first chunk."""
    log, model = MemoryLog(), Streamer()
    async with Node.in_memory(log) as node, node.open("p") as process:
        assert len([chunk async for chunk in process.decide_stream("plan", model, REQUEST)]) == 3
    async with Node.in_memory(log) as node, node.open("p") as process:
        with pytest.raises(ReplayDivergence) as caught:
            await anext(process.decide_stream("plan", model, {**REQUEST, "seed": 2}))
    assert caught.value.difference == "$.seed: 1 is now 2"


async def test_a_busy_model_is_asked_again_before_its_first_chunk_only() -> None:
    """A retry after the first chunk would show the code two beginnings."""
    retry = Retry(attempts=3, backoff_s=0)
    busy, broken = Streamer(busy=2), Streamer(breaks_before=1)
    async with Node.in_memory() as node, node.open("p") as process:
        assert [chunk async for chunk in process.decide_stream("plan", busy, REQUEST, retry=retry)] == CHUNKS
        stream = process.decide_stream("act", broken, REQUEST, retry=retry)
        assert await anext(stream) == CHUNKS[0]
        with pytest.raises(ConnectionError, match="broken"):
            await anext(stream)
        outcomes = [made.outcome for made in await bodies(node, "p", b.DecisionMade)]
    assert (busy.calls, broken.calls) == (3, 1)
    assert outcomes == ["retry", "retry", "succeeded", "failed"]


@pytest.mark.parametrize("how", ["aclose", "dropped"])
async def test_a_stream_that_is_closed_is_recorded_as_far_as_it_came(how: str) -> None:
    """Its usage is unknown: what the model had counted until then says nothing about the whole."""
    log, model = MemoryLog(), Streamer(waits_before=2)
    async with Node.in_memory(log) as node, node.open("p") as process:
        stream = process.decide_stream("plan", model, REQUEST)
        assert [await anext(stream), await anext(stream)] == CHUNKS[:2]
        if how == "aclose":
            closing = asyncio.ensure_future(stream.aclose())
            await asyncio.sleep(0)
            model.goes_on.set()
            await closing
        else:
            del stream
            gc.collect()
            model.goes_on.set()
            await model.closed.wait()
        await process.step("act", str, 1)
        (made,) = await bodies(node, "p", b.DecisionMade)
    assert (made.outcome, made.usage, made.cost_usd, model.closed.is_set()) == ("succeeded", None, None, True)
    async with Node.in_memory(log) as node, node.open("p") as process:
        again = [chunk async for chunk in process.decide_stream("plan", model, REQUEST)]
        assert again == CHUNKS
        assert await process.step("act", str, 1) == "1"
    assert model.calls == 1


async def test_a_stream_that_nobody_reads_makes_no_call() -> None:
    """As a step that is not awaited: nothing is left behind."""
    model = Streamer()
    async with Node.in_memory() as node, node.open("p") as process:
        process.decide_stream("plan", model, REQUEST)
        await process.decide_stream("plan", model, REQUEST).aclose()
        assert not await bodies(node, "p", b.DecisionStarted)
    assert model.calls == 0


async def test_a_cancelled_reader_leaves_the_decision_in_doubt() -> None:
    """As a cancelled ``decide``: the next run makes the call again."""
    log, model = MemoryLog(), Streamer(waits_before=1)

    @agent("streams")
    async def streams(process: Process, input: Any) -> Any:
        return [chunk async for chunk in process.decide_stream("plan", model, REQUEST)]

    async with Node.in_memory(log) as node:
        run = asyncio.ensure_future(node.run(streams, "p"))
        await model.called.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
    assert (model.calls, model.closed.is_set()) == (1, True)
    model.goes_on.set()
    async with Node.in_memory(log) as node:
        assert await node.run(streams, "p") == CHUNKS
    assert model.calls == 2


async def test_calls_between_chunks_keep_their_order_in_tasks_and_branches() -> None:
    """A later run gets the chunks before the end of the decision is due, so no call waits for another in a circle."""
    log, model = MemoryLog(), Streamer()

    @agent("reads")
    async def reads(process: Process, input: Any) -> Any:
        async def read(name: str) -> list[Any]:
            return [
                await process.step(f"{name} chunk", str, chunk["delta"])
                async for chunk in process.decide_stream(name, model, REQUEST)
            ]

        plain = await asyncio.gather(read("a"), read("b"))
        branches = await process.gather(read("c"), read("d"))
        if not answered.is_set():
            read_all.set()
            await answered.wait()
        return [*plain, *branches]

    read_all, answered = asyncio.Event(), asyncio.Event()
    async with Node.in_memory(log) as node:
        run = asyncio.ensure_future(node.run(reads, "p"))
        await read_all.wait()
        run.cancel()
        await asyncio.wait([run])
    answered.set()
    async with Node.in_memory(log) as node:
        assert await asyncio.wait_for(node.run(reads, "p"), 30) == [["On ", "its ", "way"]] * 4
        check = await check_replay(reads, history_of(log, "p"))
        assert check.ok
    assert model.calls == 4


def test_plain_code_reads_a_stream_with_for() -> None:
    """Chunk by chunk, of a plain generator too, which is read in a thread."""
    log, called = MemoryLog(partitions=1), []

    def model(request: Any) -> Iterator[Any]:
        called.append(request)
        yield from CHUNKS

    for _ in range(2):
        with SyncNode.in_memory(log) as node, node.open("p") as process:
            assert list(process.decide_stream("plan", model, REQUEST)) == CHUNKS
            for chunk in process.decide_stream("again", model, REQUEST):
                assert chunk == CHUNKS[0]
                break
            assert process.step("act", str, 1) == "1"
    assert len(called) == 2


async def test_what_is_no_stream_is_refused() -> None:
    """As an option that is not its own."""
    async with Node.in_memory() as node, node.open("p") as process:
        with pytest.raises(InvalidSetting, match="an iterator of its chunks"):
            await anext(process.decide_stream("plan", str, REQUEST))  # type: ignore[arg-type]
        with pytest.raises(InvalidOption, match="on_chunk= is no option of decide_stream"):
            process.decide_stream("plan", Streamer(), REQUEST, on_chunk=print)  # type: ignore[call-overload]


@pytest.mark.parametrize("breaks", [False, True])
async def test_chunks_beyond_half_an_entry_come_once_the_stream_is_recorded(breaks: bool) -> None:
    """The record of a failure has room for those that the code got: a replay gives the same ones."""
    log, chunks = MemoryLog(limits=Limits(record_bytes=20_000)), ["x" * 3_000] * 5
    seen: list[tuple[int, str]] = []

    async def long(_: Any) -> AsyncIterator[Any]:
        for chunk in chunks:
            yield chunk
        if breaks:
            raise ConnectionError("broken")

    for _ in range(2):
        async with Node.in_memory(log) as node, node.open("p") as process:
            found, error = 0, ""
            try:
                async for _chunk in process.decide_stream("plan", long, REQUEST):
                    found += 1
            except ConnectionError as exc:
                error = str(exc)
            seen.append((found, error))
            assert await process.step("act", str, found) == str(found)
    assert seen == [(3, "broken")] * 2 if breaks else seen == [(5, "")] * 2
