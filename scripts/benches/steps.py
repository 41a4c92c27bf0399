"""Durable steps: one after the other, short runs at once, remembered ones replayed, and a hundred thousand in turns.

``--log sqlite`` measures the embedded log instead of Kafka (``_file_steps.py``).

fsync on, beside a raw idempotent producer's acknowledged record and, where its packages are installed, LangGraph's
SQLite saver (one node a step, a checkpoint each), all in the same run. The turns run without fsync: what counts there
is that the last steps cost what the first ones did.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _file_steps import measure_files
from _langgraph import step_ms
from _table import Table, arguments, p50, p99, progress, times_raw
from append import Raw, RawThroughAsyncio, in_turn, journal
from runs import BARS, STEPS, measure
from seekpoint.compose import LocalCluster
from seekpoint.producers import Node, Process, agent
from seekpoint.producers.process import durable_side
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry, new_id
from seekpoint.schemas.wire.codec import encode

SERIAL, ROUNDS, REPLAYED, IN_TURNS, A_TURN = 1_500, 5, 100_000, 100_000, 10
MOST_TIMES_ASYNCIO = 1.5
"""The bar as a ratio, which holds on any machine: 0.9 ms where such a record took 0.6."""
WINDOW = 1_000
"""How many steps around the hundredth turn's, and at the end, are compared."""


async def main() -> int:
    """Run it."""
    parser = arguments(__doc__)
    parser.add_argument("--only", choices=("serial", "runs", "replay", "turns"), help="one part of it")
    parser.add_argument("--log", choices=("kafka", "sqlite"), default="kafka", help="where the journal lies")
    parser.add_argument("--rivals", default=sys.executable, help="the Python that has LangGraph and DBOS")
    parser.add_argument("--folder", help="where the files of --log sqlite lie")
    options = parser.parse_args()
    parts = {"serial": serial, "runs": runs, "replay": replay, "turns": turns}
    logging.getLogger("seekpoint").setLevel(logging.ERROR)
    table = Table("steps")
    if options.log == "sqlite":
        await measure_files(table, options.rivals, options.folder, options.only)
        return table.finish(json=options.json)
    async with LocalCluster(brokers=1) as cluster:
        for name, part in parts.items():
            if options.only in (None, name):
                await part(cluster, table)
    return table.finish(json=options.json)


async def look_up(order: object) -> dict[str, Any]:
    """A step's body that costs nothing."""
    return {"order": order, "found": True}


# --- one after the other
async def serial(cluster: LocalCluster, table: Table) -> None:
    """One process, a step and a raw record in turn."""
    settings = await journal(cluster, "steps", fsync=True, partitions=1)
    raw = Raw(settings)
    async with Node.connect(settings) as node, node.open("case") as process, RawThroughAsyncio(settings) as woken:
        ours, theirs, least = await in_turn(
            SERIAL,
            lambda index: process.step("look_up", look_up, f"order {index}"),
            raw.acknowledged,
            woken.acknowledged,
        )
    ratio = times_raw(p50(ours), p50(theirs))
    table.row(what="step, serial, fsync", p50_ms=p50(ours), p99_ms=p99(ours), raw_p50_ms=p50(theirs), times_raw=ratio)
    table.row(
        what="a raw record through asyncio", p50_ms=p50(least), p99_ms=p99(least),
        times_raw=times_raw(p50(least), p50(theirs)),
    )  # fmt: skip
    table.at_most("durable step with fsync, p50, ms", bar=0.9, value=p50(ours))
    table.at_most("the same, times a raw record through asyncio", bar=MOST_TIMES_ASYNCIO, value=p50(ours) / p50(least))
    await langgraph(table, p50(ours))


async def langgraph(table: Table, ours_ms: float) -> None:
    """The same number of steps as nodes of a graph with the SQLite saver; a row that says so where it is absent."""
    progress("LangGraph")
    with tempfile.TemporaryDirectory(prefix="seekpoint-bench-") as folder:
        try:
            taken = await step_ms(Path(folder) / "saver.sqlite", 500)
        except ImportError as exc:
            table.row(what=f"LangGraph, SQLite saver: absent, there is no {exc.name}")
            return
    table.row(
        what="LangGraph, SQLite saver, step", p50_ms=p50(taken), p99_ms=p99(taken), times_ours=p50(taken) / ours_ms
    )


# --- short runs
@agent("short")
async def short(process: Process, input: Any) -> Any:
    """Three steps."""
    for step in range(STEPS):
        await process.step("look_up", look_up, f"order {step}")
    return {"done": True}


async def short_run(node: Node, name: str) -> None:
    """One run of it."""
    await node.run(short, name, {"order": 1})


async def runs(cluster: LocalCluster, table: Table) -> None:
    """Runs of an agent, 50 at once, on 8 partitions and on 2; a raw client's chains of as many records."""
    for partitions in BARS:
        await measure(cluster, table, partitions, short_run, journal="steps", rounds=ROUNDS)


# --- remembered steps
async def replay(cluster: LocalCluster, table: Table) -> None:
    """Steps that an earlier owner made are asked for again by the agent's code. In memory: no Kafka is in it."""
    taken: list[float] = []

    @agent("replayed")
    async def replayed(process: Process, input: Any) -> None:
        began = time.perf_counter()
        for index in range(REPLAYED):
            await process.step("work", look_up, index)
        taken.append(time.perf_counter() - began)

    progress(f"writing a history of {REPLAYED} steps")
    log = MemoryLog(partitions=1)
    await write_history(log, REPLAYED)
    async with Node.in_memory(log) as node:
        began = time.perf_counter()
        await node.run(replayed, "case", take_over=True)
        whole = time.perf_counter() - began
    table.row(what=f"{REPLAYED} remembered steps replayed", replay_s=taken[0], us_a_step=taken[0] / REPLAYED * 1e6)
    table.row(what="the same with claim and a scan of the whole log", resume_s=whole)
    table.at_most(f"replay of {REPLAYED} remembered steps, s", bar=1.0, value=taken[0])


async def write_history(log: MemoryLog, steps: int) -> None:
    """The entries of an agent that made so many steps, without running it."""
    from seekpoint.producers.durable.replay.call_digest import arguments_text, text_digest

    async with Node.in_memory(log) as node:
        process = await node.open("case")
        for to in ("starting", "running"):
            await process.transition(to)
        await durable_side(process).append(b.AgentStarted("replayed", "1", "", "null"))
        state = process.state
    seq = state.seq
    for index in range(steps):
        text = arguments_text((index,), {})
        key = f"work:{index + 1}"
        started = b.StepStarted(
            key=key, position=index + 1, name="work", digest=text_digest("work", text), arguments=text
        )
        for body in (started, b.StepEnded(key=key, outcome="succeeded", output=f"{index}")):
            seq += 1
            entry = Entry(new_id(), "case", seq, state.epoch, state.owner, None, 0, None, None, None, body)
            log.append(0, b"case", encode(entry))


# --- turns
class Stop(Exception):
    """The benchmark stops the agent here."""


async def turns(cluster: LocalCluster, table: Table) -> None:
    """Steps in turns of ten: the latency of the last ones beside a fresh process's hundredth, and what a resume takes.

    The fresh one runs right after: minutes later the machine may be another.
    """
    settings = await journal(cluster, "turns", fsync=False, partitions=1)
    async with Node.connect(settings, projector=True) as node:
        endless = Endless()
        late = (await endless.stopped_after(node, "long", IN_TURNS))[-WINDOW:]
        first = (await endless.stopped_after(node, "fresh", WINDOW + 100))[100:]
        late_resume, early_resume = await endless.resume_ms(node, "long"), await endless.resume_ms(node, "fresh")
    ratio = p50(late) / p50(first)
    table.row(
        what=f"{IN_TURNS} steps in turns of {A_TURN}: the last {WINDOW}, beside a fresh process's from the 100th on",
        p50_ms=p50(late), first_p50_ms=p50(first), times_first=ratio,
    )  # fmt: skip
    table.row(
        what="each resumed to its next step, through a checkpoint",
        p50_ms=late_resume, first_p50_ms=early_resume, times_first=late_resume / early_resume,
    )  # fmt: skip
    table.at_most("the last steps' p50, times the first ones'", bar=1.3, value=ratio)
    table.at_most("the late resume, times the early one", bar=1.5, value=late_resume / early_resume)


class Endless:
    """An agent that works in turns. ``stopped_after`` runs it, and stops it after so many steps."""

    def __init__(self) -> None:
        self._steps = 0
        self._times: list[float] = []

        @agent("endless")
        async def run(process: Process, input: Any) -> None:
            async for _ in process.turns():
                for index in range(A_TURN):
                    await self._step(process, index)

        self._agent = run

    async def _step(self, process: Process, index: int) -> None:
        if len(self._times) == self._steps:
            raise Stop
        began = time.perf_counter()
        await process.step("look_up", look_up, f"order {index}")
        self._times.append((time.perf_counter() - began) * 1000)
        if len(self._times) % 5_000 == 0:
            progress(f"turns: {len(self._times)}/{self._steps}")

    async def stopped_after(self, node: Node, process_id: str, steps: int) -> list[float]:
        """Milliseconds of each of so many steps."""
        self._steps, self._times = steps, []
        try:
            await node.run(self._agent, process_id)
        except Stop:
            return self._times
        raise AssertionError("it has no end")

    async def resume_ms(self, node: Node, process_id: str, rounds: int = 31) -> float:
        """Milliseconds from the run to its next step's end, on a node that is warm."""
        taken = []
        for _ in range(rounds):
            began = time.perf_counter()
            await self.stopped_after(node, process_id, 1)
            taken.append((time.perf_counter() - began) * 1000)
        return p50(taken)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
