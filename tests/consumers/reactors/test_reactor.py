"""Reactors are called for the entries that the fold applies, again until they succeed, and else keep a dead letter."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from owners import Owner
from seekpoint.consumers import Reaction, Reactor, Recovery, reactor
from seekpoint.consumers.reactors.reactor_service import Reactions, ReactorService
from seekpoint.consumers.recovery.dead_letters import DeadLetters
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import id_text
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import InvalidSetting, TooManyDeadLetters
from seekpoint.schemas.log.log_ports import Record
from seekpoint.schemas.log.memory_log import MemoryLog
from seekpoint.schemas.wire.codec import encode


class Bench:
    """A journal of one partition, and reactors over it."""

    def __init__(self, **settings: Any) -> None:
        self.log = MemoryLog(partitions=1)
        self.settings = Settings(transaction_wait_s=0.2, **settings)
        self.recovery = Recovery.in_memory(self.log, self.settings)
        self.letters = DeadLetters(self.log, self.settings)

    def owner(self, process_id: str = "case-1") -> Owner:
        return Owner(self.log.append, 1, process_id)

    def reactions(self, *reactors: Reactor) -> Reactions:
        return Reactions(reactors, self.recovery, self.letters)

    def records(self) -> list[Record]:
        high = self.log.watermarks(0).high
        return [record for batch in self.log.read(0, 0, high) for record in batch.records]

    async def deliver(self, reactions: Reactions) -> None:
        for record in self.records():
            await reactions.handle(record)


def recording(seen: list[Reaction], **options: Any) -> Reactor:
    @reactor("seen", **{"kinds": ["context_updated"], "pause_s": 0.0, **options})
    async def see(reaction: Reaction) -> None:
        seen.append(reaction)

    return see


async def test_a_reaction_has_the_entry_and_the_state_right_after_it() -> None:
    """The state is that of the entry, whatever was written behind it, and the id is the same at each delivery."""
    bench, seen = Bench(), list[Reaction]()
    owner, other = bench.owner(), bench.owner("case-2")
    owner.claim()
    owner.update("n", "1")
    other.claim()
    owner.update("n", "2")
    other.update("n", "9")
    reactions = bench.reactions(recording(seen))
    await bench.deliver(reactions)
    found = [(one.process_id, one.offset, one.state.context["n"], one.attempt) for one in seen]
    assert found == [("case-1", 1, 1, 1), ("case-1", 3, 2, 1), ("case-2", 4, 9, 1)]
    first = seen[0]
    assert (first.id, first.kind) == (f"seen:{id_text(first.entry.id)}", "context_updated")
    await reactions.handle(bench.records()[1])
    assert (seen[-1].id, seen[-1].state.context["n"]) == (first.id, 1)


async def test_entries_that_the_fold_does_not_apply_call_nobody() -> None:
    """What a former owner wrote after a take-over is in the log, and is no fact."""
    bench, seen = Bench(), list[Reaction]()
    old, new = bench.owner(), bench.owner()
    old.claim("node-1")
    old.update("n", "1")
    new.epoch, new.seq = old.epoch, old.seq
    new.claim("node-2")
    old.update("n", "2")
    new.update("n", "3")
    reactions = bench.reactions(recording(seen))
    await bench.deliver(reactions)
    assert [one.state.context["n"] for one in seen] == [1, 3]
    assert reactions.figures.not_applied == 1


async def test_kinds_and_predicates_choose() -> None:
    """A custom entry has its own kind. The predicate sees the entry."""
    bench, seen = Bench(), list[Reaction]()
    owner = bench.owner()
    owner.claim()
    owner.update("n", "1")
    owner.update("m", "2")
    owner.own(b.Custom("refunded", '{"amount":5}'))
    bench.owner("junk").raw(b"junk")
    chosen = recording(seen, kinds=["refunded", "context_updated"], where='kind == "custom" || body.key == "m"')
    await bench.deliver(bench.reactions(chosen))
    assert [one.kind for one in seen] == ["context_updated", "refunded"]


async def test_a_failed_call_is_repeated_and_then_kept_as_a_dead_letter() -> None:
    """Each reactor has its own attempts and its own letter; the others are called all the same."""
    bench, seen, attempts = Bench(), list[Reaction](), list[int]()

    @reactor("flaky", kinds=["context_updated"], pause_s=0.0, attempts=3)
    async def flaky(reaction: Reaction) -> None:
        attempts.append(reaction.attempt)
        if reaction.state.context["n"] == 2 or reaction.attempt < 2:
            raise ValueError("not now")

    owner = bench.owner()
    owner.claim()
    owner.update("n", "1")
    owner.update("n", "2")
    reactions = bench.reactions(flaky, recording(seen))
    await bench.deliver(reactions)
    assert attempts == [1, 2, 1, 2, 3]
    assert [one.state.context["n"] for one in seen] == [1, 2]
    (letter,) = bench.letters.list()
    assert letter.place == f"{bench.settings.topic_name('journal')}#flaky:0:2"
    assert letter.error == "reactor flaky: ValueError: not now"
    figures = reactions.figures
    assert (figures.reactions, figures.failed_attempts, figures.dead_letters) == (3, 4, 1)


async def test_a_call_that_takes_too_long_has_failed() -> None:
    """One hung call does not stop the partition for ever."""
    bench = Bench()

    @reactor("slow", kinds=["context_updated"], pause_s=0.0, attempts=1, timeout_s=0.01)
    async def slow(reaction: Reaction) -> None:
        await asyncio.sleep(60)

    owner = bench.owner()
    owner.claim()
    owner.update("n", "1")
    await bench.deliver(bench.reactions(slow))
    assert "TimeoutError" in bench.letters.list()[0].error


async def test_the_service_stops_at_too_many_dead_letters() -> None:
    """A reactor that always fails does not turn the whole journal into dead letters."""
    bench = Bench(dead_letters_max=1)

    @reactor("broken", kinds=["context_updated"], pause_s=0.0, attempts=1)
    async def broken(reaction: Reaction) -> None:
        raise ValueError("broken")

    owner = bench.owner()
    owner.claim()
    owner.update("n", "1")
    owner.update("n", "2")
    with pytest.raises(TooManyDeadLetters):
        await bench.deliver(bench.reactions(broken))
    assert len(bench.letters.list()) == 1


async def test_an_entry_that_a_transaction_hides_waits() -> None:
    """Faust delivers records of open transactions too. Nobody reacts before the transaction ends."""
    bench, seen = Bench(), list[Reaction]()
    owner = bench.owner()
    owner.claim()
    bench.log.hide(0)
    owner.seq += 1
    entry = owner.entry(b.ContextUpdated("n", "2"), owner.seq)
    offset = owner.put(entry)
    delivered = Record(0, offset, 0, owner.key, encode(entry))
    handling = asyncio.create_task(bench.reactions(recording(seen)).handle(delivered))
    await asyncio.sleep(0.3)
    assert not seen
    bench.log.reveal(0)
    await handling
    assert [one.state.context["n"] for one in seen] == [2]


async def test_without_the_log_before_an_entry_it_becomes_a_dead_letter() -> None:
    """Nobody can say whether the entry counts, so nobody is called, and the letter says why."""
    bench, seen = Bench(), list[Reaction]()
    owner = bench.owner()
    owner.claim()
    for number in range(4):
        owner.update("n", str(number))
    delivered = bench.records()[3]
    bench.log.trim(0, 3)
    await bench.reactions(recording(seen)).handle(delivered)
    assert not seen
    assert bench.letters.list()[0].topic.endswith("#seen")


def test_pauses_double_up_to_a_minute() -> None:
    """The second attempt waits for the pause as it is given."""
    slow = recording([], pause_s=2.0)
    assert [slow.pause_before(attempt) for attempt in (2, 3, 4, 50)] == [2.0, 4.0, 8.0, 60.0]


@pytest.mark.parametrize(
    "made",
    [
        lambda: reactor("", kinds=["finished"]),
        lambda: reactor("a:b", kinds=["finished"]),
        lambda: reactor("a", kinds=[]),
        lambda: reactor("a", kinds="finished"),
        lambda: reactor("a", kinds=["finished"], attempts=0),
        lambda: recording([], where="body.("),
        lambda: ReactorService([], Settings()),
        lambda: Bench().reactions(recording([]), recording([])),
    ],
)
def test_what_is_no_reactor_is_refused(made: Callable[[], object]) -> None:
    """The error names the setting."""
    with pytest.raises(InvalidSetting):
        made()
