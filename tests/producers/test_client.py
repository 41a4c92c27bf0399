"""A client: what it submits, what it refuses, and what it waits for. On a log in memory, mostly without a worker."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from seekpoint.producers import Client, Node, Process, SyncClient, Worker, agent
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import (
    AgentMismatch,
    InvalidName,
    InvalidValue,
    LimitExceeded,
    Refused,
    ResultTimeout,
    RunFailed,
    UnknownProcess,
    UnserializableValue,
)
from seekpoint.schemas.log.log_ports import Extent, Watermarks
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.log.submissions import SubmissionRecord, decode_submission


@agent("double")
async def double(process: Process, number: int) -> int:
    return await process.step("double", lambda: number * 2)


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog()


def submitted(log: MemoryLog) -> list[SubmissionRecord]:
    """What lies in the inbox."""
    inbox = log.topic("inbox")
    records = [
        one for at in range(8) for batch in inbox.read(at, 0, inbox.watermarks(at).high) for one in batch.records
    ]
    assert all(one.key == decode_submission(one.value).process_id.encode() for one in records)
    return [decode_submission(one.value) for one in records]


async def test_a_submission_is_one_record_of_the_inbox(log: MemoryLog) -> None:
    """In the process's partition, with all that was said; nothing else is written."""
    async with Client.in_memory(log) as client:
        moment = datetime(2030, 1, 1, tzinfo=UTC)
        run = await client.submit(
            double.name, "case-1", {"n": 1}, priority=7, start_at=moment, actor="ann", correlation_id="thread"
        )
        assert run.id == "case-1"
    (one,) = submitted(log)
    assert (one.process_id, one.agent, one.input, one.priority, one.actor, one.correlation_id) == (
        "case-1", "double", '{"n":1}', 7, "ann", "thread"
    )  # fmt: skip
    assert one.start_at_us == int(moment.timestamp() * 1_000_000)
    assert all(log.watermarks(partition).high == 0 for partition in range(8))


@pytest.mark.parametrize(
    ("error", "arguments"),
    [
        (InvalidName, {"process_id": ""}),
        (Refused, {"process_id": "shared:rate"}),
        (UnserializableValue, {"input": object()}),
        (LimitExceeded, {"agent": "double", "input": "x" * 2_000_000}),
        (InvalidValue, {"input": "x"}),
        (Refused, {"delay": 1, "start_at": datetime(2030, 1, 1, tzinfo=UTC)}),
        (Refused, {"start_at": datetime(2030, 1, 1)}),  # without a time zone, which is refused
        (Refused, {"delay": "soon"}),
    ],
)
async def test_a_submission_that_cannot_be_is_refused(
    log: MemoryLog, error: type[Exception], arguments: dict[str, Any]
) -> None:
    """Before anything is written."""
    async with Client.in_memory(log) as client:
        with pytest.raises(error):
            await client.submit(**{"agent": double, "process_id": "case-1", "input": 1, **arguments})
    assert submitted(log) == []


async def test_a_process_that_a_program_finished_is_no_run(log: MemoryLog) -> None:
    """Its id is taken."""
    async with Node.in_memory(log) as node, Client.in_memory(log) as client:
        async with node.open("case-1") as process:
            await process.finish("done")
        with pytest.raises(AgentMismatch, match="finished by a program"):
            await client.submit(double, "case-1", 1)
        assert await client.result("case-1") == "done"


async def test_a_run_of_a_node_is_known_to_a_client(log: MemoryLog) -> None:
    """The same agent and input is the same run, wherever it ran."""
    async with Node.in_memory(log) as node, Client.in_memory(log) as client:
        assert await node.run(double, "case-1", 4) == 8
        run = await client.submit(double, "case-1", 4)
        assert await run.result() == 8
        assert submitted(log) == []
        assert (await run.status()).agent == "double"


async def test_of_two_runs_under_one_id_the_first_in_the_log_counts(log: MemoryLog) -> None:
    """Both were submitted before a worker wrote an entry; the other client learns of it by the result."""
    async with Client.in_memory(log) as one, Client.in_memory(log) as other:
        first, second = await one.submit(double, "case-1", 1), await other.submit(double, "case-1", 2)
        async with Worker.in_memory([double], log):
            assert await first.result(5) == 2
            with pytest.raises(AgentMismatch, match="another input"):
                await second.result(5)


async def test_a_result_that_does_not_come_is_a_timeout(log: MemoryLog) -> None:
    """It says where the run stands."""
    async with Client.in_memory(log) as client:
        run = await client.submit(double, "case-1", 1, delay=timedelta(days=1))
        with pytest.raises(ResultTimeout) as late:
            await run.result(0.05)
        assert (late.value.process_id, late.value.lifecycle, late.value.timeout_s) == ("case-1", "unknown", 0.05)
        assert (await client.status("case-1")).stage == "unknown"
        assert "seekpoint worker MODULE" in late.value.hint  # not: look at the process that does not exist


# --- synchronous ------------------------------------------------------------------------------------------------------
@contextmanager
def working(log: MemoryLog) -> Iterator[None]:
    """A worker in a thread of its own."""
    loop, stop = asyncio.new_event_loop(), asyncio.Event()

    async def work() -> None:
        await Worker.in_memory([double], log).run(stop)

    thread = threading.Thread(target=loop.run_until_complete, args=(work(),))
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(30)
        loop.close()


def test_a_synchronous_client_submits_and_waits(log: MemoryLog) -> None:
    """The handle's calls do not have to be awaited either."""
    with working(log), SyncClient.in_memory(log) as client:
        run = client.submit(double, "case-1", 21)
        assert (run.id, run.result(5), client.result("case-1")) == ("case-1", 42, 42)
        assert run.status().stage == "finished"
        assert client.state("case-1").result == 42
        with pytest.raises(ResultTimeout):
            client.result("case-2", 0.05)


async def test_a_finished_process_has_its_result_however_short_the_time() -> None:
    """Also for a client that has not followed the process yet."""
    log = MemoryLog()
    async with Worker.in_memory([double], log), Client.in_memory(log) as client:
        await (await client.submit(double, "case-1", 21)).result(10)
    async with Client.in_memory(log) as client:
        assert await client.result("case-1", 0) == 42
        with pytest.raises(ResultTimeout) as caught:
            await client.result("case-2", 0)
        assert caught.value.lifecycle == "unknown"


def _without_recoveries(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(*arguments: object, **options: object) -> None:
        raise AssertionError("a process was recovered")

    monkeypatch.setattr(client._runtime.recovery, "recover", refused)


async def test_a_run_is_followed_from_its_submission_on(log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its result takes no recovery, however late it is asked for."""
    async with Worker.in_memory([double], log), Client.in_memory(log) as client:
        await (await client.submit(double, "warm", 1)).result(10)
        _without_recoveries(client, monkeypatch)
        partition = partition_of(b"warm", 8)
        ids = [name for name in (f"case-{n}" for n in range(99)) if partition_of(name.encode(), 8) == partition][:5]
        runs = [await client.submit(double, name, 21) for name in ids]
        while not all(run._follower is not None and run._follower.finished for run in runs):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert [await run.result(0) for run in runs] == [42] * len(ids)
        assert client._runtime.processes._followed == {}  # a run that is over is not followed any more


async def test_a_run_that_nobody_holds_is_not_followed(log: MemoryLog) -> None:
    """A program that only submits does not read the journal for it."""
    async with Client.in_memory(log) as client:
        run = await client.submit(double, "case-1", 21)
        await asyncio.sleep(0.05)
        processes, tailer = client._runtime.processes, client._runtime.tailer
        [tail] = tailer._tails.values()
        assert list(processes._followed) == ["case-1"]
        assert tail.watchers == 1
        del run
        await asyncio.sleep(0.05)
        assert processes._followed == {}
        assert tail.watchers == 0
        kept = await client.submit(double, "case-2", 21)
    assert kept._follower is not None
    kept._follower.release()  # nothing is left to do


async def test_a_failed_run_that_is_redriven_has_its_new_result(log: MemoryLog) -> None:
    """Although its first end was followed."""
    broken = True

    @agent("fragile")
    async def fragile(process: Process, number: int) -> int:
        if broken:
            raise ValueError("broken")
        return number

    async with Worker.in_memory([fragile], log), Client.in_memory(log) as client:
        run = await client.submit(fragile, "case-1", 7)
        with pytest.raises(RunFailed):
            await run.result(10)
        broken = False
        await client.redrive("case-1")
        assert await run.result(10) == 7
        with pytest.raises(Refused, match="neither failed nor waits"):
            await client.redrive("case-1")
        with pytest.raises(UnknownProcess):
            await client.redrive("nobody")


async def test_a_run_that_waits_looks_again_when_it_is_redriven(log: MemoryLog) -> None:
    """Once: its code runs up to where it waits, with what there is now, such as a repaired connector."""
    begun = list[str]()

    @agent("asker")
    async def asker(process: Process, _: None) -> str:
        begun.append(process.process_id)
        return "yes" if (await process.gate("ok")).approved else "no"

    async with Worker.in_memory([asker], log, grace_s=0.05), Client.in_memory(log) as client:
        run = await client.submit(asker, "case-1")

        async def until_it_waits(epoch: int) -> None:
            async with asyncio.timeout(30):
                while True:
                    state = (await client.recover("case-1", missing_ok=True)).state
                    if (state.epoch, state.owner, state.lifecycle) == (epoch, None, "awaiting"):
                        return
                    await asyncio.sleep(0.01)

        await until_it_waits(1)
        assert (await client.status("case-1")).waits_for == ("ok:1",)
        await client.redrive("case-1")
        await until_it_waits(2)
        assert (await client.state("case-1")).redrive is None
        assert len(begun) == 2
        await client.approve("case-1", "ok")
        assert await run.result(10) == "yes"


async def test_all_failed_runs_are_redriven(log: MemoryLog) -> None:
    """Those of an agent, with an entry since then; a dry run only tells them."""
    broken = True

    @agent("fragile")
    async def fragile(process: Process, number: int) -> int:
        if broken and number:
            raise ValueError(f"broken {number}")
        return number

    async with Worker.in_memory([fragile], log), Client.in_memory(log) as client:
        runs = [await client.submit(fragile, f"case-{number}", number) for number in range(3)]
        for run in runs[1:]:
            with pytest.raises(RunFailed):
                await run.result(10)
        assert await runs[0].result(10) == 0
        broken = False
        found = await client.redrive_failed("fragile", since=timedelta(hours=1), dry_run=True)
        assert sorted((one.process_id, one.agent, one.failure, one.runs_failed) for one in found) == [
            ("case-1", "fragile", "ValueError: broken 1", 1), ("case-2", "fragile", "ValueError: broken 2", 1)
        ]  # fmt: skip
        assert await client.redrive_failed("other") == []
        assert await client.redrive_failed(since=datetime.now(UTC) + timedelta(hours=1)) == []
        with pytest.raises(Refused, match="time zone"):
            await client.redrive_failed(since=datetime(2030, 1, 1))
        assert [(await client.state(run.id)).redrive for run in runs] == [None] * 3
        assert len(await client.redrive_failed(in_doubt=True, reason="mended", actor="ann")) == 2
        assert [await run.result(10) for run in runs[1:]] == [1, 2]
        assert await client.redrive_failed() == []


async def test_submissions_at_the_same_time_share_the_look_at_the_logs_end(log: MemoryLog) -> None:
    """Each end is asked for after its caller asked: a process that began before is never taken for absent."""
    asked: list[int] = []
    watermarks = log.watermarks

    def counted(partition: int) -> Watermarks:
        asked.append(partition)
        time.sleep(0.005)
        return watermarks(partition)

    async with Client.in_memory(log) as client:
        await client.submit("double", "warm", 0)
        for number in range(16):  # every partition is followed, and has its proof
            await client.submit("double", f"warm-{number}", 0)
        await asyncio.sleep(0.1)
        log.watermarks = counted  # type: ignore[method-assign]
        await asyncio.gather(*(client.submit("double", f"case-{number}", 1) for number in range(100)))
    assert len(asked) <= 60
    assert len(submitted(log)) == 117


async def test_a_look_that_began_earlier_is_not_shared(log: MemoryLog) -> None:
    """The process may have begun since."""
    looks: list[threading.Event] = []

    class Slow:
        def extent(self, partition: int) -> Extent:
            found, done = log.extent(partition), threading.Event()
            looks.append(done)
            done.wait(5.0)
            return found

    async with Client.in_memory(log) as client:
        reads = client._runtime.reads
        await client.submit("double", "case-1", 1)
        [partition] = client._runtime.tailer._tails
        before = log.watermarks(partition).high
        reads._reader = cast(Any, Slow())  # only what asks for this look is slow: the tail looks too
        early = asyncio.ensure_future(reads._extent_by_now(partition))
        async with asyncio.timeout(20):
            while not looks:  # noqa: ASYNC110  # it is in a thread
                await asyncio.sleep(0.001)
            log.append(partition, b"case-1", b"anything")
            late = asyncio.ensure_future(reads._extent_by_now(partition))
            await asyncio.sleep(0.01)
            looks[0].set()
            assert (await early).high == before
            while len(looks) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            looks[1].set()
            assert (await late).high == before + 1
