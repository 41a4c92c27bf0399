"""A plain node or worker serves its probes and its metrics, judged by the progress of its parts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from health_pages import get
from seekpoint.consumers.heartbeats.progress_health import STALL_MAX_S
from seekpoint.producers import Node, Process, SyncNode, Worker, agent, serve_health
from seekpoint.producers.health.node_health import NodeHealth
from seekpoint.producers.node import runtime_of
from seekpoint.schemas import MemoryLog, Settings
from seekpoint.schemas.errors import Cancelled, HandleClosed, InvalidSetting, Refused
from seekpoint.schemas.log.memory_log import MemoryTail

TOO_LONG_S = STALL_MAX_S + 1.0


@agent("greets")
async def greets(process: Process, name: str) -> str:
    return await process.step("greet", lambda: f"hello {name}")


@agent("fails")
async def fails(process: Process, input: Any) -> None:
    raise ValueError("no money")


@agent("asks")
async def asks(process: Process, question: str) -> str:
    return (await process.gate("approve", prompt=question)).outcome


class Watched:
    """The health of a node, whose clock a test moves."""

    def __init__(self, node: Node) -> None:
        self.now_s = 1000.0
        self.health = NodeHealth(runtime_of(node), clock=lambda: self.now_s)

    async def after(self, seconds: float) -> NodeHealth:
        """The health after the node was watched for so long."""
        for _ in range(4):
            self.now_s += seconds / 4
            await asyncio.sleep(0.15)  # longer than a poll of the tail
            self.health.look()
        return self.health


async def page(port: int, path: str) -> tuple[int, Any]:
    """The code and the answer of a page, by a request over HTTP."""
    code, text = await asyncio.to_thread(get, port, path)
    return code, json.loads(text)


async def figures(port: int) -> dict[str, float]:
    """The samples of the metrics page, by name and labels."""
    return dict(_samples((await asyncio.to_thread(get, port, "/metrics"))[1]))


def _samples(text: str) -> Iterator[tuple[str, float]]:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
            yield sample.name + (f"{{{labels}}}" if labels else ""), sample.value


async def until(is_so: Callable[[], Any]) -> None:
    """Return once something is so."""
    async with asyncio.timeout(30):
        while not await is_so():  # noqa: ASYNC110  # an answer over HTTP
            await asyncio.sleep(0.02)


async def test_a_node_counts_its_runs_on_a_page_for_prometheus() -> None:
    """Runs that began, went on, ended and failed; calls, appends and confirmations with their times; no process id."""
    async with Node.in_memory() as node, serve_health(node, port=0) as served:
        assert await node.run(greets, "case-1", "Ann") == "hello Ann"
        for _ in range(2):
            with pytest.raises(ValueError, match="no money"):
                await node.run(fails, "case-2", None)
        found = await figures(served.port)
        _, text = await asyncio.to_thread(get, served.port, "/metrics")
    assert found["seekpoint_node_runs_started_total"] == 2
    assert found["seekpoint_node_runs_resumed_total"] == 1
    assert found['seekpoint_node_runs_total{outcome="finished"}'] == 1
    assert found['seekpoint_node_runs_total{outcome="failed"}'] == 2
    assert found['seekpoint_node_runs_total{outcome="cancelled"}'] == 0
    assert found['seekpoint_node_step_seconds_count{kind="step"}'] == 1
    assert found["seekpoint_node_append_seconds_count"] >= 6
    assert found["seekpoint_node_confirm_seconds_count"] >= 1
    assert found['seekpoint_node_recoveries_total{tier="scan"}'] >= 1
    assert found["seekpoint_node_fenced_entries_total"] == 0
    assert found['seekpoint_node_stalled_seconds{part="tail"}'] < STALL_MAX_S
    assert "case-" not in text


async def test_a_node_shows_what_runs_and_what_waits() -> None:
    """A run that waits for a person is under way, and its process waits; a cancelled one is counted as such."""
    async with Node.in_memory() as node, serve_health(node, port=0) as served:
        running = asyncio.create_task(node.run(asks, "case-1", "refund?"))

        async def waits() -> bool:
            found = await figures(served.port)
            return [found[f"seekpoint_node_{name}"] for name in ("running", "waiting", "open")] == [1, 1, 1]

        await until(waits)
        await node.cancel("case-1")
        with pytest.raises(Cancelled):
            await running
        found = await figures(served.port)
    assert found["seekpoint_node_running"] == 0
    assert found['seekpoint_node_runs_total{outcome="cancelled"}'] == 1
    assert found['seekpoint_node_runs_total{outcome="failed"}'] == 0


async def test_a_node_is_ready_while_it_works() -> None:
    """The port may be open before the node starts and after it is closed."""
    node = Node.in_memory()
    closed = (503, {"ok": False, "reason": "it has not started, or is closed"})
    async with serve_health(node, port=0) as served:
        assert await page(served.port, "/readyz") == closed
        assert (await page(served.port, "/livez"))[0] == 200
        async with node:
            assert await page(served.port, "/readyz") == (200, {"ok": True})
        assert await page(served.port, "/readyz") == closed


async def test_a_loop_of_a_node_that_stands_still_is_noticed() -> None:
    """Nobody looks while code blocks the event loop; the port has a thread of its own."""
    async with Node.in_memory() as node:
        watched = Watched(node)
        assert (await watched.after(TOO_LONG_S)).is_well
        watched.now_s += TOO_LONG_S
        assert not watched.health.is_well
        assert watched.health.parts["loop"] == TOO_LONG_S


async def test_a_tail_of_a_node_whose_thread_ended_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unexpected error ends it without a word to anybody else."""

    def broken(self: MemoryTail, timeout_s: float) -> Any:
        raise RuntimeError("a defect")

    async with Node.in_memory() as node, node.open("case-1") as process:
        watched = Watched(node)
        runtime = runtime_of(node)
        waiting = asyncio.create_task(process.receive("mail"))  # so that the tail is read
        await asyncio.sleep(0.2)
        assert not runtime.tailer.is_idle
        with monkeypatch.context() as patched:
            patched.setattr(MemoryTail, "poll", broken)
            await asyncio.sleep(0.2)
            watched.health.look()
            assert (await watched.after(TOO_LONG_S)).not_ready == "no progress: tail"
        assert not watched.health.is_well
        waiting.cancel()


async def test_a_node_whose_entries_nobody_acknowledges_is_well_and_not_ready() -> None:
    """A restart would not help, but whoever sends it work should choose another node."""
    log = MemoryLog()
    async with Node.in_memory(log) as node, node.open("case-1") as process:
        watched = Watched(node)
        log.refuse_appends()
        writing = asyncio.create_task(process.update("status", "checking"))
        await asyncio.sleep(0.1)
        watched.health.look()
        health = await watched.after(TOO_LONG_S)
        found = health.is_well, health.lag, health.not_ready
        log.heal()
        await writing
    assert found == (True, 1, f"Kafka has acknowledged no entry for {TOO_LONG_S:.0f} s")


async def test_a_projector_of_a_node_that_stays_stopped_is_noticed() -> None:
    """It begins again by itself only after some errors."""
    async with Node.in_memory() as node:
        runtime_of(node).projector = SimpleNamespace(failure=None, close=_nothing)  # type: ignore[assignment]
        watched = Watched(node)
        assert (await watched.after(TOO_LONG_S)).is_well
        runtime_of(node).projector.failure = ValueError("broken")  # type: ignore[union-attr]
        assert (await watched.after(TOO_LONG_S)).not_ready == "no progress: projector"


async def _nothing() -> None:
    return


def test_a_sync_node_serves_its_health() -> None:
    """In a with block around it."""
    with SyncNode.in_memory() as node, serve_health(node, port=0) as served:
        assert get(served.port, "/readyz")[0] == 200
        node.run(greets, "case-1", "Ann")
        assert "seekpoint_node_runs_started_total 1.0" in get(served.port, "/metrics")[1]


@pytest.mark.cluster
async def test_a_node_on_kafka_serves_its_health(journal: Settings) -> None:
    """Real acknowledgements and recoveries are on the page."""
    async with Node.connect(journal) as node, serve_health(node, port=0) as served:
        assert await node.run(greets, "case-1", "Ann") == "hello Ann"
        assert await page(served.port, "/readyz") == (200, {"ok": True})
        found = await figures(served.port)
    assert found["seekpoint_node_append_seconds_count"] >= 3
    assert found["seekpoint_node_append_seconds_sum"] > 0
    assert found['seekpoint_node_runs_total{outcome="finished"}'] == 1


async def test_a_worker_in_a_program_serves_its_health() -> None:
    """From before it starts; the same pages as those of seekpoint worker."""
    worker = Worker.in_memory([greets], MemoryLog())
    async with serve_health(worker, port=0) as served:
        assert (await page(served.port, "/readyz"))[0] == 503
        async with worker:

            async def is_ready() -> bool:
                return (await page(served.port, "/readyz"))[0] == 200

            await until(is_ready)
            assert (await figures(served.port))["seekpoint_worker_running"] == 0


async def test_what_has_no_health_is_refused() -> None:
    """A port in use, another object, and the wrong kind of block."""
    async with Node.in_memory() as node, serve_health(node, port=0) as served:
        with pytest.raises(InvalidSetting, match="cannot be used"):
            await serve_health(node, port=served.port).__aenter__()
        with pytest.raises(InvalidSetting, match="int has none"):
            await serve_health(7, port=0).__aenter__()  # type: ignore[arg-type]
        with pytest.raises(Refused, match="only an open SyncNode"), serve_health(node, port=0):
            raise AssertionError("it was served")
        with pytest.raises(HandleClosed, match="not started"), serve_health(SyncNode.in_memory(), port=0):
            raise AssertionError("it was served")
