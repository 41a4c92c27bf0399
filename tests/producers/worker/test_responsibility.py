"""What a worker notices in the partitions that it looks after."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from seekpoint.consumers.heartbeats.liveness import Heartbeat, HeartbeatSnapshot, WorkerStatus
from seekpoint.producers import Client, Node, Process, agent
from seekpoint.producers.node import runtime_of
from seekpoint.producers.tail.partition_tail import PartitionTail
from seekpoint.producers.worker import responsibility
from seekpoint.producers.worker.assessment import Assessment, Next
from seekpoint.producers.worker.partition_watch import Owner, PartitionWatch
from seekpoint.producers.worker.process_runs import ProcessRun
from seekpoint.producers.worker.responsibility import Responsibility
from seekpoint.producers.worker.run_queue import ReadyRun, RunQueue
from seekpoint.schemas import MemoryLog, encode, new_id
from seekpoint.schemas.errors import JournalUnavailable, LogTruncated, SeekpointError
from seekpoint.schemas.log.log_ports import Watermarks
from seekpoint.schemas.log.memory_log import MemoryTail
from seekpoint.schemas.log.submissions import SubmissionRecord, submitted_entry

GROUP = "g"


@agent("ask")
async def ask(process: Process, question: str) -> str:
    return (await process.gate("approve", prompt=question)).outcome


@dataclass
class Duty:
    """A responsibility and what it reports."""

    node: Node
    queue: RunQueue
    responsibility: Responsibility
    suspended: list[str] = field(default_factory=list)

    @property
    def ready(self) -> list[str]:
        """The processes that are to be run."""
        return list(self.queue.ready)

    def waiting(self) -> dict[str, str]:
        """The processes that wait, and for what."""
        return {one: found.reason for watch in self.responsibility.watches for one, found in watch.waiting.items()}

    def owned(self) -> set[str]:
        """The processes that other nodes own."""
        return {one for watch in self.responsibility.watches for one in watch.owned}


@asynccontextmanager
async def duty(log: MemoryLog, partitions: frozenset[int] = frozenset({0})) -> AsyncIterator[Duty]:
    """Look after ``partitions``."""
    async with Node.in_memory(log) as node:
        queue, suspended = RunQueue(10), list[str]()
        made = Responsibility(runtime_of(node), {"ask": ask}, queue, GROUP, lambda: None, suspended.append)
        made.assign(partitions)
        await until(lambda: all(watch.tail is not None for watch in made.watches))
        await asyncio.gather(*made._loading.values())
        yield Duty(node, queue, made, suspended)
        made.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110  # the tail gives no event
            await asyncio.sleep(0.01)


async def waits(log: MemoryLog, process_id: str) -> None:
    """A process that nobody owns and that waits at its gate."""
    async with Node.in_memory(log) as node:
        run = asyncio.ensure_future(node.run(ask, process_id, "?"))
        while "approve:1" not in (await node.recover(process_id, missing_ok=True)).state.waits_for:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)


async def test_what_was_there_before_is_found_when_a_partition_is_assigned() -> None:
    """What waits, what another node owns, what was submitted and not begun, and nothing that is finished."""
    log = MemoryLog(partitions=1)
    await waits(log, "waits")
    async with Node.in_memory(log, node_id="other") as other, Client.in_memory(log) as client:
        async with other.open("finished") as process:
            await process.finish()
        await other.open("owned")
        await client.suspend("held")
        async with duty(log) as one:
            assert one.waiting() == {"waits": "approve:1"}
            assert one.owned() == {"owned"}
            assert one.ready == []


async def test_mail_for_a_process_that_waits_makes_it_ready() -> None:
    """An approval, while nobody runs the process."""
    log = MemoryLog(partitions=1)
    await waits(log, "p")
    async with duty(log) as one, Client.in_memory(log) as client:
        await client.approve("p", "approve")
        await until(lambda: any(watch.stale for watch in one.responsibility.watches))
        await one.responsibility.assess_stale()
        assert one.ready == ["p"]


async def test_mail_that_comes_while_a_run_is_given_up_is_not_lost() -> None:
    """It lies behind the entry that released the process: the state of the run does not have it."""
    log = MemoryLog(partitions=1)
    await waits(log, "p")
    async with duty(log) as one, Client.in_memory(log) as client:
        (watch,) = one.responsibility.watches
        run = ProcessRun(ReadyRun("p", "ask"))
        run.found = (await one.node.recover("p")).state
        assert one.responsibility.begin("p")
        await client.approve("p", "approve")
        await until(lambda: watch._mail_at["p"] > 0)
        assert not watch.stale
        one.responsibility.over(run)
        await one.responsibility.assess_stale()
        assert one.ready == ["p"]


async def test_mail_that_comes_while_a_process_is_recovered_is_not_lost() -> None:
    """The recovered state does not have it, and must not replace the note that something came."""
    log = MemoryLog(partitions=1)
    await waits(log, "p")
    async with duty(log) as one, Client.in_memory(log) as client:
        (watch,) = one.responsibility.watches
        recovered = (await one.node.recover("p")).state
        await client.approve("p", "approve")
        await until(lambda: bool(watch.stale))
        one.responsibility._file(watch, "p", recovered)
        await one.responsibility.assess_stale()
        assert one.ready == ["p"]


async def test_a_process_that_is_released_elsewhere_is_looked_at() -> None:
    """Its owner was another node; now nobody owns it."""
    log = MemoryLog(partitions=1)
    async with Node.in_memory(log, node_id="other") as other, duty(log) as one:
        process = await other.open("p")
        await until(lambda: one.owned() == {"p"})
        await process.release()
        await until(lambda: not one.owned())
        await one.responsibility.assess_stale()
        (watch,) = one.responsibility.watches
        assert watch.left["p"].reason == "no agent was submitted"


async def test_a_suspended_process_that_runs_here_is_reported() -> None:
    """The worker gives it up at once."""
    log = MemoryLog(partitions=1)
    async with duty(log) as one, Client.in_memory(log) as client:
        one.responsibility.begin("p")
        await client.suspend("p")
        await until(lambda: bool(one.suspended))
        assert one.suspended == ["p"]


async def test_a_new_process_is_known_without_a_recovery() -> None:
    """From its first entry on, up to a claim; one whose first record is another entry is not."""
    log = MemoryLog(partitions=1)
    async with duty(log) as one, Client.in_memory(log) as client:
        (watch,) = one.responsibility.watches
        assert watch.tail is not None
        tail = watch.tail
        await until(lambda: tail.absence.report(b"nobody", tail.position) is not None)
        await client.signal("later", "wake")
        submitted = SubmissionRecord(id=new_id(), process_id="new", agent="ask", ts=1)
        for record in (submitted, replace(submitted, id=new_id(), process_id="later")):
            log.append(0, record.process_id.encode(), encode(submitted_entry(record)))
        await client.signal("new", "wake")
        await until(lambda: tail.position == 4)
        state = one.responsibility.state_of("new", tail)
        assert state is not None
        assert state == (await one.node.recover("new")).state
        assert one.responsibility.state_of("later", tail) is None
        assert one.responsibility.state_of("new", PartitionTail(0, 4)) is None
        await one.node.open("new")
        await until(lambda: one.responsibility.state_of("new", tail) is None)


async def test_the_living_workers_share_the_partitions_of_a_dead_one() -> None:
    """Each partition once, by the numbers of the partitions; a worker of another group has no part in it."""
    log = MemoryLog(partitions=4)

    def beat(name: str, group: str, partitions: tuple[int, ...], number: int) -> Heartbeat:
        return Heartbeat(name, "boot", (), number, worker=WorkerStatus(group=group, partitions=partitions))

    async with duty(log, frozenset({0})) as one:
        liveness = runtime_of(one.node).heartbeater.liveness
        names = {"dead": (1, 2, 3), "living": (), "stranger": ()}
        for number in range(8):
            beats = {
                name: beat(name, "x" if name == "stranger" else GROUP, held, 0 if name == "dead" else number)
                for name, held in names.items()
            }
            liveness.apply(HeartbeatSnapshot(beats, complete=True), 4.0 * number)
        one.responsibility.adopt_orphans()
        mine = sorted([one.node.node_id, "living"]).index(one.node.node_id)
        assert {watch.partition for watch in one.responsibility.watches} == {0} | {
            p for p in (1, 2, 3) if p % 2 == mine
        }
        liveness.apply(HeartbeatSnapshot({}, complete=True), 40.0)
        one.responsibility.adopt_orphans()
        assert {watch.partition for watch in one.responsibility.watches} == {0}


async def test_heartbeats_are_read_before_an_owner_is_believed_to_be_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim may be newer than what the node read last. A worker that only waits reads nothing for this."""
    log, reads = MemoryLog(partitions=1), list[float]()
    async with Node.in_memory(log, node_id="other") as other, duty(log) as one:
        heartbeater = runtime_of(one.node).heartbeater
        look = heartbeater.look

        async def noted() -> None:
            reads.append(0.0)
            await look()

        monkeypatch.setattr(heartbeater, "look", noted)
        for _ in range(3):
            await one.responsibility.look_at_owners()
        assert reads == []
        await other.open("owned")  # the last read knows neither the node nor its claim
        await until(lambda: one.owned() == {"owned"})
        await one.responsibility.look_at_owners()
        assert len(reads) == 1
        assert one.owned() == {"owned"}


async def test_a_moment_is_due_once_it_has_come_whatever_else_waits() -> None:
    """The earliest moment is kept, so that nothing is looked at before it."""
    watch = PartitionWatch(0, MemoryLog(partitions=1), "boot", lambda: None, lambda process_id: None)
    for name, due_us in (("late", 30), ("never", None), ("soon", 10), ("gone", 5)):
        watch.file(name, Assessment(Next.WAIT, due_us=due_us))
    watch.set_owner("gone", Owner("n", "b", b"c"))
    assert [watch.due(now_us) for now_us in (4, 9, 10, 11)] == [[], [], ["soon"], ["soon"]]
    watch.set_owner("soon", Owner("n", "b", b"c"))
    assert [watch.due(now_us) for now_us in (12, 29, 30)] == [[], [], ["late"]]
    watch.file("sooner", Assessment(Next.WAIT, due_us=1))
    assert sorted(watch.due(30)) == ["late", "sooner"]


async def test_a_silent_tail_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that stops delivering without an error must not keep a submission from its worker."""
    log = MemoryLog(partitions=1)
    async with duty(log) as one:
        (watch,) = one.responsibility.watches
        monkeypatch.setattr(MemoryTail, "_read_new", lambda tail: [])
        submitted = SubmissionRecord(id=new_id(), process_id="new", agent="ask", ts=1)
        log.append(0, b"new", encode(submitted_entry(submitted)))
        await one.responsibility.look_at_tails()
        assert watch.tail is not None
        assert watch.tail.position == 1
        assert list(watch.stale) == ["new"]
        assert one.responsibility.tail_lag == 0


async def test_the_ends_of_all_partitions_are_asked_for_in_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka that does not answer is asked once, and a partition that is wrong does not hide the others."""
    log, asked = MemoryLog(partitions=4), list[int]()
    answers: list[SeekpointError] = [LogTruncated("shorter")]
    async with duty(log, frozenset(range(4))) as one:

        def watermarks(partition: int) -> Watermarks:
            asked.append(partition)
            if partition == 2 or isinstance(answers[0], JournalUnavailable):
                raise answers[0]
            return Watermarks(0, 10 + partition)

        monkeypatch.setattr(MemoryTail, "_read_new", lambda tail: [])
        monkeypatch.setattr(log, "watermarks", watermarks)
        submissions = list[object]()
        in_thread = runtime_of(one.node).in_thread

        async def noted(call: Callable[[], object]) -> object:
            submissions.append(call)
            return await in_thread(call)

        monkeypatch.setattr(runtime_of(one.node), "in_thread", noted)
        monkeypatch.setattr(responsibility, "_TAIL_S", 0.01)
        monkeypatch.setattr(runtime_of(one.node).tailer, "wait_for", lambda *_: asyncio.sleep(3600))
        await one.responsibility.look_at_tails()
        assert (sorted(asked), len(submissions)) == ([0, 1, 2, 3], 1)
        assert one.responsibility.tail_lag == 10 + 11 + 13
        answers[0] = JournalUnavailable("Kafka does not answer")
        asked.clear()
        await one.responsibility.look_at_tails()
        assert len(asked) == 1


async def test_a_partition_may_go_while_its_tail_is_looked_at() -> None:
    """A rebalance must not stop the worker."""
    async with duty(MemoryLog(partitions=1)) as one:
        looking = asyncio.create_task(one.responsibility.look_at_tails())
        await asyncio.sleep(0)
        one.responsibility.assign(frozenset())
        await looking
        assert one.responsibility.tail_stalled_s == 0.0


async def test_a_tail_that_stays_behind_makes_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless Kafka does not answer: then nothing can be said of the tail."""
    log = MemoryLog(partitions=1)
    async with duty(log) as one:
        now_s = [1000.0]
        (health,) = one.responsibility._tails.values()
        health._clock = lambda: now_s[0]
        health.progress()
        await one.responsibility.look_at_tails()

        async def never(*_: object) -> None:
            await asyncio.sleep(3600)

        monkeypatch.setattr(responsibility, "_TAIL_S", 0.05)
        monkeypatch.setattr(runtime_of(one.node).tailer, "wait_for", never)
        monkeypatch.setattr(MemoryTail, "_read_new", lambda tail: [])
        log.append(0, b"new", b"no entry")
        now_s[0] += 31.0
        await one.responsibility.look_at_tails()
        assert one.responsibility.tail_lag == 1
        assert one.responsibility.tail_stalled_s == 31.0

        def silent(partition: int) -> Watermarks:
            raise JournalUnavailable("Kafka does not answer")

        monkeypatch.setattr(log, "watermarks", silent)
        await one.responsibility.look_at_tails()
        assert one.responsibility.tail_stalled_s == 0.0
