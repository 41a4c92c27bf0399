"""The dispatcher: owners write down, dispatchers call, each intent once. In memory; an outside ledger counts."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from open_processes import durable_side
from outside_ledger import Ledger
from seekpoint.producers import Node, Process
from seekpoint.producers.dispatch.claimed_intent import Dispatch
from seekpoint.producers.dispatch.dispatcher import Dispatcher
from seekpoint.producers.durable.effects.connectors import Connector, Connectors, NotDone
from seekpoint.producers.durable.effects.effect_context import JournalValues
from seekpoint.producers.durable.effects.effect_resolution import Answer, Effect
from seekpoint.producers.node import runtime_of
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.errors import EffectUnknown, JournalUnavailable, LogDamaged, NewerFormat, SeekpointError

ONCE = Effect.AT_MOST_ONCE


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    async with Node.in_memory(MemoryLog(partitions=2)) as node:
        yield node


def bank(ledger: Ledger, **how: Any) -> Connectors:
    known = Connectors()
    known.register(Connector("bank", ledger.pay, outbox=True, **how))
    return known


@asynccontextmanager
async def opened(node: Node, known: Connectors, process_id: str = "p") -> AsyncIterator[Process]:
    process = await node.open(process_id, take_over=True)
    durable_side(process).effects.connectors = known
    try:
        yield process
    finally:
        durable_side(process).abandon()


@asynccontextmanager
async def paying(node: Node, known: Connectors, **how: Any) -> AsyncIterator[asyncio.Task[Any]]:
    """An owner that waits for its effect to be called; its intent is in the journal."""
    async with opened(node, known) as process:
        effect = asyncio.create_task(process.effect("pay", None, 5, connector="bank", **how))
        async with asyncio.timeout(60):
            while not (await node.recover("p")).state.calls:  # noqa: ASYNC110  # the log gives no event
                await asyncio.sleep(0.001)
        yield effect
        effect.cancel()
        await asyncio.gather(effect, return_exceptions=True)


async def die_in_call(node: Node, known: Connectors, ledger: Ledger) -> None:
    """A dispatcher claims, calls, and is gone before it can tell."""
    ledger.gate = asyncio.Event()
    async with Dispatcher(node, known=known, poll_s=0.01):
        await ledger.entered.wait()
    ledger.gate = None
    ledger.entered.clear()


async def test_the_owner_writes_down_and_the_dispatcher_calls(node: Node, ledger: Ledger) -> None:
    """The outcome comes back as a verdict by which the owner settles."""
    known = bank(ledger)
    async with Dispatcher(node, known=known, poll_s=0.01), opened(node, known) as process:
        assert await process.effect("pay", None, 5, connector="bank", semantics=ONCE) == "paid 5"
        assert process.state.calls["pay:1"].status == "succeeded"
        assert not process.state.mailbox
    assert ledger.calls == {"p/pay:1": 1}


async def test_an_effect_is_called_though_its_owner_is_gone(node: Node, ledger: Ledger) -> None:
    """The next owner finds the verdict; nothing is in doubt."""
    known = bank(ledger)
    async with paying(node, known, semantics=ONCE):
        pass
    assert await Dispatcher(node, known=known).catch_up() == 1
    async with opened(node, known) as process:
        assert await process.effect("pay", None, 5, connector="bank", semantics=ONCE) == "paid 5"
    assert ledger.calls == {"p/pay:1": 1}


async def test_several_dispatchers_at_once_call_each_intent_once(node: Node, ledger: Ledger) -> None:
    """The first claim in the log has it."""
    known = bank(ledger)

    async def pay(number: int) -> Any:
        async with opened(node, known, f"p{number}") as process:
            return await process.effect("pay", None, number, connector="bank", semantics=ONCE)

    async with (
        Dispatcher(node, known=known, poll_s=0.01, name="a"),
        Dispatcher(node, known=known, poll_s=0.01, name="b"),
        Dispatcher(node, known=known, poll_s=0.01, name="c"),
    ):
        assert await asyncio.gather(*map(pay, range(12))) == [f"paid {number}" for number in range(12)]
    assert ledger.calls == {f"p{number}/pay:1": 1 for number in range(12)}


async def test_a_failure_comes_back_as_it_was(node: Node, ledger: Ledger) -> None:
    """Of the same class, as if the owner itself had called."""
    known = bank(ledger)
    ledger.fails = [NotDone("declined")]
    async with Dispatcher(node, known=known, poll_s=0.01), opened(node, known) as process:
        with pytest.raises(NotDone, match="declined"):
            await process.effect("pay", None, 5, connector="bank", semantics=ONCE)


async def test_an_idempotent_call_is_tried_again_up_to_the_connectors_maximum(node: Node, ledger: Ledger) -> None:
    """With the same key; then its last failure is the outcome."""
    known = bank(ledger, max_attempts=2)
    runtime_of(node).clock = _Impatient(node.clock)
    ledger.fails = [ConnectionError("one"), ConnectionError("two"), ConnectionError("three")]
    async with Dispatcher(node, known=known, poll_s=0.01), opened(node, known) as process:
        with pytest.raises(ConnectionError, match="two"):
            await process.effect("pay", None, 5, connector="bank")
    assert ledger.calls == {"p/pay:1": 2}


class _Impatient:
    """A clock that waits a hundredth of what it is asked to."""

    def __init__(self, clock: Any) -> None:
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clock, name)

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds / 100)


async def test_a_dispatcher_that_died_is_followed_by_another_with_the_same_key(node: Node, ledger: Ledger) -> None:
    """Once its claim stood still for takeover_s, not before."""
    known = bank(ledger)
    async with paying(node, known) as effect:
        await die_in_call(node, known, ledger)
        patient = Dispatcher(node, known=known, takeover_s=60)
        assert await patient.catch_up() == 0
        async with Dispatcher(node, known=known, poll_s=0.01, takeover_s=0.1):
            assert await asyncio.wait_for(effect, 60) == "paid 5"
    assert ledger.calls == {"p/pay:1": 2}


async def test_what_a_dead_dispatcher_left_in_doubt_is_not_called_again_at_most_once(
    node: Node, ledger: Ledger
) -> None:
    """The next one asks the reconciler; without an answer the owner is told that nobody can tell."""
    known = bank(ledger, reconcile=ledger.find)
    ledger.answers = [Answer.ABSENT, Answer.ABSENT]
    async with paying(node, known, semantics=ONCE) as effect:
        await die_in_call(node, known, ledger)
        async with Dispatcher(node, known=known, poll_s=0.01, takeover_s=0.1):
            with pytest.raises(EffectUnknown):
                await asyncio.wait_for(effect, 60)
    assert ledger.calls == {"p/pay:1": 1}


async def test_a_long_call_keeps_its_claim(node: Node, ledger: Ledger) -> None:
    """It moves while the call lasts, so nobody takes it for dead."""
    known = bank(ledger)
    ledger.gate = asyncio.Event()
    async with (
        paying(node, known) as effect,
        Dispatcher(node, known=known, poll_s=0.01, takeover_s=0.3, name="a"),
        Dispatcher(node, known=known, poll_s=0.01, takeover_s=0.3, name="b"),
    ):
        await asyncio.sleep(1.0)
        assert ledger.calls == {"p/pay:1": 1}
        ledger.gate.set()
        assert await asyncio.wait_for(effect, 60) == "paid 5"
    assert ledger.calls == {"p/pay:1": 1}


async def test_what_nobody_waits_for_is_not_called(node: Node, ledger: Ledger) -> None:
    """A person's verdict came first; a forged or stale intent was never applied."""
    known = bank(ledger)
    async with paying(node, known) as effect:
        await node.verdict("p", "pay:1", "succeeded", output="by hand", actor="ann")
        assert await effect == "by hand"
    assert await Dispatcher(node, known=known).catch_up() == 0
    assert not ledger.calls


async def test_a_dispatcher_that_slept_after_its_claim_looks_again_before_it_calls(node: Node, ledger: Ledger) -> None:
    """Another one has taken over meanwhile: it does not call."""
    known = bank(ledger)
    async with paying(node, known):
        finder = Dispatcher(node, known=known)
        await finder._look()
        [intent] = finder._due.values()
        sleeper, other = (
            Dispatch(runtime_of(node), JournalValues(runtime_of(node)), known["bank"], intent, who, 60)
            for who in ("a", "b")
        )
        assert await sleeper.claim(0, None)
        assert not await other.claim(0, None), "the first in the log has it"
        assert await other.claim(*await other.read())
        sleeper._seen_s -= 60
        assert not await sleeper.run()
        assert not ledger.calls
        assert await other.run()
    assert ledger.calls == {"p/pay:1": 1}


async def test_progress_is_kept_so_that_the_next_dispatcher_does_not_read_all_again(node: Node, ledger: Ledger) -> None:
    """It begins at the oldest intent that is not over."""
    known = bank(ledger)
    async with Dispatcher(node, known=known, poll_s=0.01), opened(node, known) as process:
        for _ in range(3):
            await process.effect("pay", None, 5, connector="bank")
    first = Dispatcher(node, known=known)
    await first.catch_up()
    await first.catch_up()
    again = Dispatcher(node, known=known)
    await again._look()
    assert not again._due
    assert [again._progress.of(at) for at in range(2)] == [first._progress.of(at) for at in range(2)]
    assert max(again._progress.of(at)["bank"] for at in range(2)) > 3


async def test_a_connector_that_comes_later_finds_what_was_passed_by(node: Node, ledger: Ledger) -> None:
    """Progress is kept by connector: a dispatcher that did not know it has called none of its intents."""
    known, wider = bank(ledger), bank(ledger)
    wider.register(Connector("till", ledger.pay, outbox=True))
    async with opened(node, wider) as process:
        seq = process.state.seq
        waiting = asyncio.create_task(process.effect("later", None, 7, connector="till"))
        async with asyncio.timeout(60):
            while process.state.seq == seq:  # noqa: ASYNC110  # it tells nobody
                await asyncio.sleep(0.001)
        async with Dispatcher(node, known=known, poll_s=0.01):
            await process.effect("pay", None, 5, connector="bank")
        assert await Dispatcher(node, known=wider).catch_up() == 1
        assert await waiting == "paid 7"
    assert ledger.calls == {"p/pay:1": 1, "p/later:1": 1}


async def test_a_dispatcher_that_is_drained_ends_what_it_began_and_begins_nothing(node: Node, ledger: Ledger) -> None:
    """So that stopping one in order leaves nothing in doubt; after its patience what is left is counted."""
    known = bank(ledger)
    ledger.gate = asyncio.Event()
    async with (
        Dispatcher(node, known=known, poll_s=0.01, concurrency_max=1) as dispatcher,
        paying(node, known, semantics=ONCE) as effect,
        opened(node, known, "q") as other,
    ):
        await ledger.entered.wait()
        late = asyncio.create_task(other.effect("pay", None, 6, connector="bank"))
        async with asyncio.timeout(60):
            while dispatcher.calling < 2:  # noqa: ASYNC110  # it tells nobody
                await asyncio.sleep(0.001)
        assert await dispatcher.drain(0.01) == 2
        ledger.gate.set()
        assert await dispatcher.drain(60) == 0
        assert await asyncio.wait_for(effect, 60) == "paid 5"
        assert (dispatcher.dispatched, dispatcher.waiting) == (1, 1)
        assert ledger.calls == {"p/pay:1": 1}
        late.cancel()
        await asyncio.gather(late, return_exceptions=True)


async def test_a_connector_that_hangs_keeps_no_other_one_waiting(node: Node, ledger: Ledger) -> None:
    """How many calls are under way is bounded for each connector by itself."""
    known, slow = bank(ledger), Ledger()
    slow.gate = asyncio.Event()
    known.register(Connector("post", slow.pay, outbox=True))
    async with (
        Dispatcher(node, known=known, poll_s=0.01, concurrency_max=1),
        opened(node, known) as process,
        opened(node, known, "q") as other,
        asyncio.TaskGroup() as tasks,
    ):
        letters = [tasks.create_task(process.effect("post", None, number, connector="post")) for number in range(3)]
        await slow.entered.wait()
        assert await asyncio.wait_for(other.effect("pay", None, 5, connector="bank"), 60) == "paid 5"
        assert sum(slow.calls.values()) == 1, "no more of its own than are allowed"
        slow.gate.set()
        assert await asyncio.wait_for(asyncio.gather(*letters), 60) == ["paid 0", "paid 1", "paid 2"]


async def test_a_journal_at_rest_does_not_grow_by_its_dispatcher(
    node: Node, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Progress is an entry too: kept after every few entries it would move the end, be kept again, and so for ever."""
    monkeypatch.setattr("seekpoint.producers.dispatch.dispatcher._SAVE_INTERVAL_S", 0.0)
    known = bank(ledger)
    async with Dispatcher(node, known=known, poll_s=0.001) as dispatcher, opened(node, known) as process:
        await process.effect("pay", None, 5, connector="bank")
        ends, looks = [runtime_of(node).reader.watermarks(at).high for at in range(2)], dispatcher.looks
        async with asyncio.timeout(60):
            while dispatcher.looks < looks + 20:  # noqa: ASYNC110  # it counts and tells nobody
                await asyncio.sleep(0.001)
        assert [runtime_of(node).reader.watermarks(at).high for at in range(2)] == ends


@pytest.mark.parametrize("final", [NewerFormat, LogDamaged])
async def test_a_journal_that_must_not_be_read_on_in_stops_the_dispatcher(
    node: Node, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, final: type[SeekpointError]
) -> None:
    """Loudly: it says so at once, and whoever leaves it is told. What is only in the way now is waited for."""
    monkeypatch.setattr("seekpoint.producers.dispatch.dispatcher._AGAIN_S", 0.001)
    dispatcher = Dispatcher(node, known=bank(ledger), poll_s=0.001)
    look, told = dispatcher._look, [JournalUnavailable("for now"), final("not to be read")]

    async def looks() -> None:
        if dispatcher.looks:
            raise told[-1]
        if told[0].message == "for now":
            raise told.pop(0)
        await look()

    monkeypatch.setattr(dispatcher, "_look", looks)
    with pytest.raises(final, match="not to be read"):
        async with dispatcher, asyncio.timeout(10):
            while dispatcher.failure is None:  # noqa: ASYNC110  # it tells nobody until it is left
                await asyncio.sleep(0.001)
    assert dispatcher.looks == 1


@pytest.mark.parametrize(("record_bytes", "size"), [(1_048_576, 1_040_000), (1_048_576, 2_000_000), (65_536, 66_000)])
async def test_an_output_that_is_too_large_is_left_out_and_what_was_done_is_done(
    ledger: Ledger, record_bytes: int, size: int
) -> None:
    """For the verdict's entry, the owner's or its mailbox: the call is made once, and the effect has succeeded."""

    async def export(count: int, *, idempotency_key: str) -> str:
        await ledger.pay(count, idempotency_key=idempotency_key)
        return '"' * count  # twice as long as the text of a text

    known = Connectors()
    known.register(Connector("bank", export, outbox=True))
    log = MemoryLog(limits=Limits(record_bytes=record_bytes))
    async with (
        Node.in_memory(log) as node,
        Dispatcher(node, known=known, poll_s=0.01),
        opened(node, known) as process,
        asyncio.timeout(60),
    ):
        assert await process.effect("export", None, size // 2, connector="bank") == {"left_out": "str"}
    assert ledger.calls == {"p/export:1": 1}


async def test_a_full_mailbox_delays_an_outcome_and_loses_none(node: Node) -> None:
    """The fold refuses it without a word; the dispatcher tells it again once the owner took something out."""
    known = Connectors()
    known.register(Connector("bank", lambda count: "x" * count, outbox=True))

    def three(process: Process) -> asyncio.Future[list[Any]]:
        asked = (process.effect("export", None, 600_000 + at, connector="bank", semantics=ONCE) for at in range(3))
        return asyncio.gather(*asked)

    async with opened(node, known) as process:
        asked = three(process)
        async with asyncio.timeout(60):
            while len((await node.recover("p")).state.calls) < 3:  # noqa: ASYNC110  # the log gives no event
                await asyncio.sleep(0.001)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
    async with Dispatcher(node, known=known, poll_s=0.01), asyncio.timeout(60):
        while not (await node.recover("p")).state.refused_externals:  # noqa: ASYNC110  # nor does the fold
            await asyncio.sleep(0.001)
        async with opened(node, known) as process:
            assert [len(output) for output in await three(process)] == [600_000, 600_001, 600_002]


@pytest.mark.parametrize("said", ["\ud800", "x" * 2_000_000])
async def test_what_a_call_says_as_it_fails_is_told_as_far_as_an_entry_can_say_it(
    node: Node, ledger: Ledger, said: str
) -> None:
    """It is known that nothing was done, however that was put."""
    known = bank(ledger)
    ledger.fails = [NotDone(said)]
    async with Dispatcher(node, known=known, poll_s=0.01), opened(node, known) as process, asyncio.timeout(60):
        with pytest.raises(NotDone):
            await process.effect("pay", None, 5, connector="bank", semantics=ONCE)
    assert ledger.calls == {"p/pay:1": 1}


async def test_a_call_that_exits_does_not_end_its_dispatcher(node: Node, ledger: Ledger) -> None:
    """In a thread as in the loop it is a failure as any other: others wait for theirs."""
    known = bank(ledger)
    known.register(Connector("till", sys.exit, outbox=True, max_attempts=1))
    ledger.fails = [SystemExit(3)]
    async with Dispatcher(node, known=known, poll_s=0.01), opened(node, known) as process, asyncio.timeout(60):
        assert await process.effect("pay", None, 5, connector="bank") == "paid 5"
        with pytest.raises(RuntimeError, match="the call raised SystemExit: out of paper"):
            await process.effect("print", None, "out of paper", connector="till")


async def test_what_was_trimmed_before_it_was_looked_at_is_said_once(
    ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    """An intent is in the log only: whoever waits for a trimmed one waits for a person."""
    log, known = MemoryLog(partitions=1), bank(ledger)
    async with Node.in_memory(log) as node:
        dispatcher = Dispatcher(node, known=known)
        async with paying(node, known):
            log.trim(0, log.watermarks(0).high)
            dispatcher._positions[0] = 0
            await dispatcher._look()
            await dispatcher._look()
            assert (dispatcher.waiting, dispatcher.looks) == (0, 2)
    said = [record.getMessage() for record in caplog.records]
    assert ["looked through to 0 only" in one for one in said if "partition 0 was trimmed" in one] == [True]
