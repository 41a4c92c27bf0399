"""The recovery service on a real Kafka: workers are real processes and are killed at the worst moments."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from agent_programs import Agent, environment, until
from seekpoint.compose import LocalCluster, create_topics_sync
from seekpoint.consumers.kafka.kafka_reader import KafkaReader
from seekpoint.consumers.recovery.dead_letters import DeadLetters
from seekpoint.consumers.recovery_service.exchange import KafkaExchange
from seekpoint.producers import Node
from seekpoint.schemas.bodies.entry import new_id
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import RequestTimeout, UnknownPoint, UnknownProcess
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.log.recovery_requests import RecoveryRequest, decode_answer, encode_request
from seekpoint.schemas.values.clock import now_us

pytestmark = pytest.mark.cluster

PROGRAM = Path(__file__).parents[2] / "support" / "recovery" / "recovery_program.py"
CASES = ("case-1", "case-2", "case-3")
_PATIENCE_S = 60.0
"""What only keeps a test from hanging: to start a worker, to have it answer."""


def journal_with_cases(cluster: LocalCluster) -> Settings:
    """Create a journal with three processes. Its group notices a lost worker after six seconds."""
    name = f"asked-{uuid4().hex[:8]}"
    settings = cluster.settings(
        journal=name, partitions=2, owner_timeout_s=6.0, heartbeat_interval_s=1.0, start_timeout_s=_PATIENCE_S
    )
    create_topics_sync(settings)

    async def write() -> None:
        async with Node.connect(settings) as node:
            for case in CASES:
                async with node.open(case) as process:
                    for number in range(5):
                        await process.update("number", number)

    asyncio.run(write())
    return settings


@pytest.fixture(scope="module")
def served(cluster: LocalCluster) -> Settings:
    """The journal of most tests."""
    return journal_with_cases(cluster)


@pytest.fixture(scope="module")
def fresh(cluster: LocalCluster) -> Settings:
    """A journal whose group no worker has joined before."""
    return journal_with_cases(cluster)


class Worker(Agent):
    """A worker process and its record."""

    def __init__(self, settings: Settings, record: Path, *arguments: str, node_id: str | None = "worker-1") -> None:
        environ = {} if node_id is None else {"SEEKPOINT_NODE_ID": node_id}
        self.record = record
        self.log = record.with_suffix(".log")
        with self.log.open("ab") as log:
            self.popen = subprocess.Popen(
                [sys.executable, str(PROGRAM), str(record), *arguments],
                env=environment(settings) | environ,
                stdout=log,
                stderr=log,
            )


@contextmanager
def workers() -> Iterator[list[Worker]]:
    """Stop all workers in this list at the end of the test."""
    running: list[Worker] = []
    try:
        yield running
    finally:
        for worker in running:
            worker.popen.kill()
            worker.popen.wait()


def ask(exchange: KafkaExchange, process_id: str) -> bytes:
    """Write one request, once, and return its id."""
    request = RecoveryRequest(id=new_id(), process_id=process_id, deadline=now_us() + 600_000_000, ts=now_us())
    key = process_id.encode()
    exchange.send("recover", partition_of(key, exchange.partitions), key, encode_request(request))
    return request.id


def answers(exchange: KafkaExchange) -> Counter[bytes]:
    """Count the answers to each request."""
    found: Counter[bytes] = Counter()
    for partition in range(exchange.partitions):
        records, _ = exchange.read("recovered", partition, 0)
        found.update(decode_answer(record.value).id for record in records)
    return found


@pytest.fixture
def exchange(served: Settings) -> Iterator[KafkaExchange]:
    reader = KafkaReader(served)
    yield KafkaExchange(reader)
    reader.close()


async def test_a_worker_answers_what_it_is_asked(served: Settings, exchange: KafkaExchange, tmp_path: Path) -> None:
    """It answers like a local recovery, now and in the past, with typed errors, dead letters and checkpoints."""
    with workers() as running:
        running.append(Worker(served, tmp_path / "one"))
        exchange.send("recover", 0, b"case-1", b"junk")
        exchange.send("recover", 1, b"case-2", b"")
        async with Node.connect(served) as node:
            found = await node.request_recovery("case-1", timeout_s=_PATIENCE_S)
            own = await node.recover("case-1")
            assert found.state is not None
            assert (found.state.context, found.hash) == ({"number": 4}, own.state.hash)
            assert found.report["entries_applied"] == 5
            assert found.answered_by == "worker-1"
            past = await node.request_recovery("case-1", at_seq=2)
            assert past.state is not None
            assert past.state.context == {"number": 1}
            with pytest.raises(UnknownProcess) as unknown:
                await node.request_recovery("case-none")
            assert unknown.value.answered_by == "worker-1"
            with pytest.raises(UnknownPoint):
                await node.request_recovery("case-1", at_seq=99)
        running[0].wait_for("checkpointed")
        read = [line["id"] for line in running[0].lines("read")]
        times = read.count(read[0])  # a caller who was not answered for five seconds asks again
        assert [line["process_id"] for line in running[0].lines("checkpointed")] == ["case-1"] * times
        letters = DeadLetters(KafkaReader(served), served).list()
        assert {letter.topic for letter in letters} == {served.topic_name("recover")}
        assert {letter.value for letter in letters} == {b"junk", b""}
        running[0].popen.terminate()
        assert running[0].popen.wait(_PATIENCE_S) == 0, running[0].log.read_text()


def kill(served: Settings, exchange: KafkaExchange, folder: Path, kills: int) -> None:
    """Send a request and kill the worker that has read it, again and again; at the end all are answered."""
    asked = []
    with workers() as running:
        for number in range(kills):
            point = "before-answer" if number % 2 == 0 else "after-answer"
            running.append(Worker(served, folder / f"{number}", "--die", f"{point}:1"))
            asked.append(ask(exchange, CASES[number % len(CASES)]))
            assert running[-1].popen.wait(_PATIENCE_S) == -9, running[-1].log.read_text()
        running.append(Worker(served, folder / "last"))
        until(lambda: set(asked) <= set(answers(exchange)), _PATIENCE_S, lambda: running[-1].log.read_text()[-2000:])
        read = {line["id"] for worker in running[:-1] for line in worker.lines("read")}
        assert read & {each.hex() for each in asked}, "nobody was killed with a request read"


def test_a_worker_killed_between_reading_and_answering_loses_no_request(
    served: Settings, exchange: KafkaExchange, tmp_path: Path
) -> None:
    """After five kills every request, written once, is answered."""
    kill(served, exchange, tmp_path, 5)


@pytest.mark.long
def test_a_worker_killed_fifty_times_loses_no_request(
    served: Settings, exchange: KafkaExchange, tmp_path: Path
) -> None:
    """After fifty kills every request is answered."""
    kill(served, exchange, tmp_path, 50)


async def test_a_caller_sees_one_answer_though_the_worker_is_killed(served: Settings, tmp_path: Path) -> None:
    """The worker is killed before its answer, then between answer and commit. The call returns once."""
    with workers() as running:
        running.append(Worker(served, tmp_path / "a", "--die", "before-answer:1"))
        async with Node.connect(served) as node:
            asking = asyncio.create_task(node.request_recovery("case-2", timeout_s=2 * _PATIENCE_S))
            assert await asyncio.to_thread(running[-1].popen.wait, _PATIENCE_S) == -9
            running.append(Worker(served, tmp_path / "b", "--die", "after-answer:1"))
            found = await asking
            assert found.state is not None
            assert found.state.context == {"number": 4}
            await asyncio.to_thread(running[-1].popen.wait, _PATIENCE_S)
            running.append(Worker(served, tmp_path / "c"))
            again = await node.request_recovery("case-2", timeout_s=_PATIENCE_S)
            assert again.hash == found.hash


async def test_two_workers_share_the_requests(fresh: Settings, tmp_path: Path) -> None:
    """Each of two workers has a partition, and both answer."""
    with workers() as running:
        running.append(Worker(fresh, tmp_path / "x", node_id="x"))
        running.append(Worker(fresh, tmp_path / "y", node_id="y"))
        by: set[str] = set()
        deadline = time.monotonic() + _PATIENCE_S
        async with Node.connect(fresh) as node:
            while by != {"x", "y"} and time.monotonic() < deadline:
                for case in CASES:
                    by.add((await node.request_recovery(case, timeout_s=_PATIENCE_S)).answered_by)
        assert by == {"x", "y"}, [worker.log.read_text()[-1500:] for worker in running]


async def test_without_its_agent_nothing_is_answered(cluster: LocalCluster, tmp_path: Path) -> None:
    """Faust's agent does the work: without it the same worker answers no request."""
    bare = await asyncio.to_thread(journal_with_cases, cluster)
    with workers() as running:
        running.append(Worker(bare, tmp_path / "none", "--without-agent"))
        running[0].wait_for("ready")
        async with Node.connect(bare) as node:
            with pytest.raises(RequestTimeout):
                await node.request_recovery("case-1", timeout_s=3)
        assert running[0].popen.poll() is None, running[0].log.read_text()


def test_faust_is_not_imported_before_it_is_needed() -> None:
    """Neither the consumers nor a node import it: it takes longer to import than both."""
    modules = "seekpoint.producers, seekpoint.consumers.recovery_service.recovery_service"
    script = f"import sys, {modules}; sys.exit('faust' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], env=os.environ, check=False).returncode == 0
