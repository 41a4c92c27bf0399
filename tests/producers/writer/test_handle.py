"""The owner's side of one process, on plain data: acknowledgements, confirmation, fencing, healing."""

from __future__ import annotations

import asyncio

import pytest

from seekpoint.producers.writer.handle import Handle
from seekpoint.producers.writer.identity import Identity
from seekpoint.producers.writer.pending import Cause, HandleStatus, Pending
from seekpoint.schemas import Entry, MemoryLog, bodies, encode, fold, new_id, new_state, partition_of
from seekpoint.schemas.errors import Fenced, IllegalCall, JournalUnavailable, LogTruncated, ProcessDegraded
from seekpoint.schemas.log.log_ports import Record
from seekpoint.schemas.state.process_state import State


class Bench:
    """A handle on a log, and the moves a network can make."""

    def __init__(self) -> None:
        self.log = MemoryLog(partitions=1)
        self.futures: dict[Pending, asyncio.Future[int]] = {}
        self.claim = self.append_claim(0)
        self.handle = Handle("p", self.refold(), self.high, self.log)

    @property
    def high(self) -> int:
        return self.log.watermarks(0).high

    def append_claim(self, expected_epoch: int, **more: object) -> bytes:
        claim = bodies.Claim(expected_epoch, "node", "boot", **more)  # type: ignore[arg-type]  # whatever a test wants
        return self.append(Entry(new_id(), "p", None, 0, None, None, 0, None, None, None, claim))

    def append(self, entry: Entry) -> bytes:
        self.log.append(0, b"p", encode(entry))
        return entry.id

    def send(self, value: int) -> Pending:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        pending = self.handle.prepare(new_id(), 0, bodies.ContextUpdated("n", str(value)), Cause(), future)
        self.futures[pending] = future
        return pending

    def land(self, pending: Pending) -> int:
        return self.log.append(0, b"p", pending.value)

    def records(self) -> list[Record]:
        return [record for batch in self.log.read(0, 0, self.high) for record in batch.records]

    def refold(self) -> State:
        state = new_state()
        for record in self.records():
            state = fold(state, record.offset, self.log.codec.decode(record.value))
        return state

    def confirm(self) -> None:
        self.handle.absorb(self.records(), self.high)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_the_partition_of_a_handle_is_its_keys(bench: Bench) -> None:
    """The handle and the partitioner agree."""
    assert bench.handle.partition == partition_of(b"p", 1)


async def test_an_append_is_told_only_when_all_lower_ones_were(bench: Bench) -> None:
    """O3: the second is acknowledged first; its agent hears of it after the first."""
    first, second = bench.send(1), bench.send(2)
    bench.handle.acknowledge(second, 2)
    assert not bench.futures[second].done()
    assert bench.handle.acknowledged_seq == 0
    bench.handle.acknowledge(first, 1)
    assert (bench.futures[first].result(), bench.futures[second].result()) == (1, 2)
    assert bench.handle.acknowledged_seq == 2


async def test_the_agent_sees_what_was_acknowledged_and_nothing_on_its_way(bench: Bench) -> None:
    """The state is the confirmed fold plus the acknowledged prefix."""
    first, second, third = bench.send(1), bench.send(2), bench.send(3)
    assert bench.handle.state.context == {}
    bench.handle.acknowledge(first, bench.land(first))
    assert bench.handle.state.context == {"n": 1}
    bench.handle.acknowledge(second, bench.land(second))
    assert bench.handle.state.context == {"n": 2}
    bench.handle.acknowledge(third, bench.land(third))
    assert bench.handle.state.context == {"n": 3}
    assert bench.handle.state.hash == bench.refold().hash


async def test_what_was_confirmed_between_two_looks_is_seen(bench: Bench) -> None:
    """Acknowledged and confirmed since the last look, while more is on its way: the state has it, without a gap."""
    first, second, third, _ = (bench.send(number) for number in range(1, 5))
    bench.handle.acknowledge(first, bench.land(first))
    assert bench.handle.state.seq == 1
    bench.handle.acknowledge(second, bench.land(second))
    bench.confirm()
    assert (bench.handle.state.seq, bench.handle.state.context) == (2, {"n": 2})
    bench.handle.acknowledge(third, bench.land(third))
    assert (bench.handle.state.seq, bench.handle.state.degraded) == (3, None)


async def test_confirmed_means_applied(bench: Bench) -> None:
    """O4: after absorbing, nothing acknowledged is unconfirmed, and the state is the fold's."""
    pending = bench.send(1)
    bench.handle.acknowledge(pending, bench.land(pending))
    assert bench.handle.unconfirmed is not None
    bench.confirm()
    assert bench.handle.unconfirmed is None
    assert bench.handle.state == bench.refold()


async def test_an_entry_read_back_before_its_acknowledgement_counts_once(bench: Bench) -> None:
    """A pass may see an entry before Kafka's answer does its rounds: that is its acknowledgement, and one message."""
    loop = asyncio.get_running_loop()
    body = bodies.MessageSaid("user", "hello")
    pending = bench.handle.prepare(new_id(), 0, body, Cause(), future := loop.create_future())
    offset = bench.land(pending)
    bench.confirm()
    assert future.result() == offset
    bench.handle.acknowledge(pending, offset)
    assert len(bench.handle.state.conversation) == 1
    assert bench.handle.state.hash == bench.refold().hash
    assert bench.handle.unconfirmed is None


async def test_a_claim_without_effect_fences_nobody(bench: Bench) -> None:
    """O4: not "a claim was seen" but "the entry was applied" decides."""
    bench.append_claim(7)
    pending = bench.send(1)
    bench.handle.acknowledge(pending, bench.land(pending))
    bench.confirm()
    assert bench.handle.status is HandleStatus.OPEN
    assert bench.handle.state.context == {"n": 1}


async def test_an_owner_behind_a_foreign_claim_is_fenced_and_its_entries_counted(bench: Bench) -> None:
    """What was acknowledged after the claim was never applied: fenced, not lost; whoever waits is told."""
    bench.append_claim(1)
    done, waiting = bench.send(1), bench.send(2)
    bench.handle.acknowledge(done, bench.land(done))
    bench.confirm()
    assert bench.handle.status is HandleStatus.CLOSED
    assert isinstance(bench.futures[waiting].exception(), Fenced)
    with pytest.raises(Fenced) as told:
        bench.send(3)
    assert told.value.fenced_entries == 1


async def test_signals_in_between_reach_the_state_without_disturbing_own_entries(bench: Bench) -> None:
    """An external entry lies before an acknowledged one: both are in the state, in log order."""
    signal = Entry(new_id(), "p", None, 0, None, None, 0, None, None, None, bodies.Signal("go", "1"))
    bench.append(signal)
    done, flying = bench.send(1), bench.send(2)
    bench.handle.acknowledge(done, bench.land(done))
    bench.confirm()
    assert list(bench.handle.state.mailbox) == [signal.id]
    bench.handle.acknowledge(flying, bench.land(flying))
    assert bench.handle.state.context == {"n": 2}
    assert bench.handle.state.hash == bench.refold().hash


async def test_a_release_that_was_applied_is_not_a_fence(bench: Bench) -> None:
    """Another owner right behind the release does not make the release fail."""
    released = bench.handle.prepare(new_id(), 0, bodies.Released(), Cause(), asyncio.get_running_loop().create_future())
    bench.handle.acknowledge(released, bench.land(released))
    bench.append_claim(1)
    bench.confirm()
    assert bench.handle.ended
    assert bench.handle.error is None


async def test_a_release_read_back_before_its_acknowledgement_is_not_a_fence(bench: Bench) -> None:
    """The process has no owner any more because this very handle gave it up."""
    released = bench.handle.prepare(new_id(), 0, bodies.Released(), Cause(), asyncio.get_running_loop().create_future())
    bench.land(released)
    bench.confirm()
    assert bench.handle.ended
    assert bench.handle.error is None


async def test_an_acknowledged_entry_that_is_gone_is_a_truncated_log(bench: Bench) -> None:
    """The log ends before it, or holds something else there: loud."""
    pending = bench.send(1)
    bench.handle.acknowledge(pending, bench.high)
    with pytest.raises(LogTruncated):
        bench.handle.absorb(bench.records(), bench.high + 1)


def claim_again(bench: Bench) -> None:
    bench.append(bench.handle.healing_claim(Identity("node", "boot")))


async def heal(bench: Bench) -> list[Pending]:
    bench.handle.begin_healing()
    claim_again(bench)
    bench.confirm()
    return bench.handle.heal()


async def test_healing_sends_again_what_did_not_land_and_only_that(bench: Bench) -> None:
    """O5: of three in doubt the first landed; the other two are renumbered under the new epoch."""
    first, second, third = bench.send(1), bench.send(2), bench.send(3)
    landed = bench.land(first)
    again = await heal(bench)
    assert bench.futures[first].result() == landed
    assert again == [second, third]
    assert [(one.seq, one.entry.epoch) for one in again] == [(2, 2), (3, 2)]
    for pending in again:
        bench.handle.acknowledge(pending, bench.land(pending))
    bench.confirm()
    assert bench.handle.state == bench.refold()
    assert bench.handle.state.context == {"n": 3}


async def test_healing_explains_a_gap_of_its_own(bench: Bench) -> None:
    """O5: the third landed without the second: the owner's own claim accepts the gap, no person is needed."""
    first, second, third = bench.send(1), bench.send(2), bench.send(3)
    bench.handle.acknowledge(first, bench.land(first))
    bench.land(third)
    assert bench.refold().degraded is not None
    again = await heal(bench)
    assert again == [second, third]
    assert bench.refold().degraded is None


def release(bench: Bench) -> tuple[Pending, asyncio.Future[int]]:
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    pending = bench.handle.prepare(new_id(), 0, bodies.Released(), Cause(), future)
    bench.handle.ending = True
    return pending, future


async def test_a_release_that_landed_is_said_again_behind_the_healing_claim(bench: Bench) -> None:
    """O5: the claim made an owner of a handle that wants to go: its process ends up without one all the same."""
    first = bench.send(1)
    last, gone = release(bench)
    bench.land(first)
    bench.land(last)
    again = await heal(bench)
    assert again == [last]
    assert not gone.done()
    bench.handle.acknowledge(last, bench.land(last))
    bench.confirm()
    assert (bench.handle.ended, bench.handle.error) == (True, None)
    state = bench.refold()
    assert (state.owner, state.seq, state.context, state.degraded) == (None, 3, {"n": 1}, None)


async def test_a_release_that_landed_before_a_foreign_claim_is_over(bench: Bench) -> None:
    """O5: somebody claimed what was given up; the healing claim is lost, and nobody was fenced."""
    last, gone = release(bench)
    offset = bench.land(last)
    bench.append_claim(1)
    assert await heal(bench) == []
    assert gone.result() == offset
    assert bench.handle.error is None


async def test_what_lands_late_after_healing_changes_nothing(bench: Bench) -> None:
    """O5: an old copy that was on the wire is stale by its epoch."""
    pending = bench.send(1)
    old = pending.value
    again = await heal(bench)
    bench.log.append(0, b"p", old)
    for one in again:
        bench.handle.acknowledge(one, bench.land(one))
    bench.confirm()
    assert (bench.refold().seq, bench.refold().stale_entries) == (1, 1)
    assert bench.handle.status is HandleStatus.OPEN


async def test_a_foreign_claim_before_the_healing_one_fences(bench: Bench) -> None:
    """O5: somebody came between; the handle is over."""
    pending = bench.send(1)
    bench.handle.begin_healing()
    bench.append_claim(1)
    claim_again(bench)
    bench.confirm()
    assert isinstance(bench.futures[pending].exception(), Fenced)


async def test_an_earlier_healing_claim_that_landed_after_all_is_taken(bench: Bench) -> None:
    """Two healing claims, the first unanswered but in the log: the fold names it owner, and the handle goes on."""
    pending = bench.send(1)
    bench.handle.begin_healing()
    for _ in range(2):
        claim_again(bench)
    bench.confirm()
    assert bench.handle.heal() == [pending]
    assert bench.handle.epoch == 2


async def test_a_gap_below_what_was_acknowledged_is_not_explained_away(bench: Bench) -> None:
    """Acknowledged entries are gone: the claim that abandons only what was never acknowledged is refused."""
    first, second, third = bench.send(1), bench.send(2), bench.send(3)
    bench.handle.acknowledge(first, 90)
    bench.handle.acknowledge(second, 91)
    bench.land(third)
    with pytest.raises((ProcessDegraded, LogTruncated)):
        await heal(bench)


async def test_an_entry_the_broker_refuses_for_good_ends_the_handle_with_its_reason(bench: Bench) -> None:
    """O5: no handle claims in a loop: after three attempts the refusal itself is raised."""
    pending = bench.send(1)
    for _ in range(2):
        pending.failure = JournalUnavailable("refused")
        await heal(bench)
    pending.failure = JournalUnavailable("refused")
    with pytest.raises(JournalUnavailable, match="refused"):
        await heal(bench)


async def test_a_wait_has_the_time_of_its_entry_before_and_after_the_log_has_it(bench: Bench) -> None:
    """The owner's state is that of every reader, also after its entries were folded again onto mail."""
    refused = new_id()
    with pytest.raises(IllegalCall):
        bench.handle.prepare(refused, 9_000, bodies.TimerFired(key="t:1"), Cause(), None)
    assert bench.handle.state.updated_us == 0
    first = bodies.TimerSet(key="t:1", position=1, fires_at_us=90_000)
    pending = bench.handle.prepare(new_id(), 7_000, first, Cause(), None)
    bench.handle.acknowledge(pending, bench.land(pending))
    assert bench.handle.state.calls == bench.refold().calls
    second = bodies.TimerSet(key="t:2", position=2, fires_at_us=90_000)
    pending = bench.handle.prepare(new_id(), 8_000, second, Cause(), None)
    bench.append(Entry(new_id(), "p", None, 0, None, None, 1, None, None, None, bodies.Signal("other")))
    bench.confirm()
    bench.handle.acknowledge(pending, bench.land(pending))
    assert bench.handle.state.calls == bench.refold().calls
    assert [call.facts["since_us"] for call in bench.handle.state.calls.values()] == [7_000, 8_000]
