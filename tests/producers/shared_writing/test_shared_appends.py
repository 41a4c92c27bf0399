"""Appends to a process that several nodes write to: what a returned call means, what a refused one, what is kept."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from late_log import FAST, LateLog
from seekpoint.producers import Node, SharedProcess
from seekpoint.producers.node import runtime_of
from seekpoint.schemas import bodies
from seekpoint.schemas.errors import (
    AppendConflict,
    ConfirmTimeout,
    InvalidName,
    LimitExceeded,
    Refused,
    UnserializableValue,
)

ID = b"0123456789abcdef"


async def _shared(node: Node, process_id: str = "p") -> SharedProcess:
    return await node.open(process_id, shared=True)


# --- what a call writes
async def test_each_call_writes_one_entry_that_every_reader_has(node: Node) -> None:
    """Context, conversation, records; the state needs no other read."""
    thread = await _shared(node)
    assert thread.state.seq == 0
    await thread.update("a", 1)
    await thread.update_many({"b": 2, "c": (3,)})
    await thread.patch({"a": None, "d": {"e": 1}})
    await thread.change(delete=["b"])
    await thread.say("user", "Hello")
    await thread.say("assistant", tool_calls=[{"id": "1"}], name="model")
    done = await thread.record("checked", {"by": "me"}, actor="tester", correlation_id="c-1")
    assert done.seq == thread.state.seq == 7
    assert thread.state.context == {"c": (3,), "d": {"e": 1}}
    assert [one.role for one in thread.state.conversation] == ["user", "assistant"]
    found = [one async for one in node.entries("p")][-1]
    assert (found.offset, found.entry.id) == (done.offset, done.entry_id)
    assert (found.entry.actor, found.entry.correlation_id) == ("tester", "c-1")
    await thread.clear()
    assert (await node.recover("p")).state.context == {}
    assert (await node.recover("p")).state.hash == thread.state.hash


async def test_what_an_opening_says_goes_into_every_entry(node: Node) -> None:
    """Actor and correlation id, unless the call names its own."""
    async with node.open("p", shared=True, actor="web", correlation_id="r-1") as thread:
        await thread.record("one")
        await thread.record("two", actor="job")
    written = [one.entry async for one in node.entries("p") if one.entry.seq is not None]
    assert [(one.actor, one.correlation_id) for one in written] == [("web", "r-1"), ("job", "r-1")]


async def test_a_body_of_ones_own_is_checked(node: Node) -> None:
    """Content only, with values as seekpoint writes them."""
    done = await node.append("p", bodies.ContextUpdated("a", '{"b":1}'))
    assert done.seq == 1
    assert (await node.recover("p")).state.context == {"a": {"b": 1}}
    refused: list[Any] = [
        bodies.LifecycleChanged("running"), bodies.Released(), bodies.Finished(), bodies.Signal("s"), bodies.Claim(),
        bodies.StepEnded(key="a:1"), bodies.ContextUpdated("a", "1", call="update:1"), "text",
    ]  # fmt: skip
    for body in refused:
        with pytest.raises(Refused, match="content only"):
            await node.append("p", body)
    for text in ('{"b": 1}', '{"b":2,"a":1}', "1e0"):
        with pytest.raises(UnserializableValue, match="canonical"):
            await node.append("p", bodies.Custom("work", text))
    for body in (
        bodies.ContextUpdatedMany({"a": "{ }"}),
        bodies.MessageSaid("user", parts="[ ]"),
        bodies.ContentBatch(False, {"a": "{ }"}),
        bodies.ContentBatch(messages='[["user",null,"[ ]"]]'),
    ):
        with pytest.raises(UnserializableValue, match="canonical"):
            await node.append("p", body)
    for text in ("5", '{"a":1}'):
        with pytest.raises(Refused, match="no content"):
            await node.append("p", bodies.ContentBatch(messages=text))
    assert (await node.recover("p")).state.seq == 1


async def test_wrong_arguments_are_refused_before_anything_is_written(node: Node) -> None:
    """A seq, an id, a name that nobody has; options that belong to owners."""
    thread = await _shared(node)
    wrong: list[dict[str, Any]] = [
        {"expected_seq": -1},
        {"expected_seq": True},
        {"expected_seq": "1"},
        {"entry_id": b"short"},
        {"entry_id": "text"},
    ]
    for how in wrong:
        with pytest.raises(Refused, match=r"seq is a whole number|16 bytes"):
            await thread.record("work", **how)
    with pytest.raises(InvalidName):
        await node.append("", bodies.Custom("work", "1"))
    with pytest.raises(Refused, match="a shared value is not a process"):
        await node.append("shared:x", bodies.Custom("work", "1"))
    owners: list[dict[str, Any]] = [
        {"take_over": True},
        {"wait_s": 1},
        {"accept_degraded": True},
        {"detail": "none"},
        {"replay": "permissive"},
    ]
    for option in owners:
        with pytest.raises(Refused, match="no owner to choose"):
            node.open("p", shared=True, **option)
    with pytest.raises(Refused, match="not started"):
        await Node.in_memory().append("p", bodies.Custom("work", "1"))
    assert not (await node.recover("p", missing_ok=True)).known


async def test_an_entry_that_does_not_fit_is_refused_and_the_others_are_written(node: Node) -> None:
    """Each append of a round has an outcome of its own."""
    thread = await _shared(node)
    one, big, two = await asyncio.gather(
        thread.record("work", 1), thread.record("work", "x" * 5_000_000), thread.record("work", 2),
        return_exceptions=True,
    )  # fmt: skip
    assert isinstance(big, LimitExceeded)
    assert not isinstance(one, BaseException)
    assert not isinstance(two, BaseException)
    assert (one.seq, two.seq) == (1, 2)


# --- expected seqs
async def test_a_conflict_carries_the_newer_state(node: Node, other: Node) -> None:
    """Of another node's write, which this node had not read; nothing was written, and a decision anew succeeds."""
    mine, theirs = await _shared(node), await _shared(other)
    await mine.update("a", 1, expected_seq=0)
    await theirs.update("a", 2, expected_seq=1)
    with pytest.raises(AppendConflict) as caught:
        await mine.update("a", 3, expected_seq=1)
    assert (caught.value.seq, caught.value.expected_seq, caught.value.state.context) == (2, 1, {"a": 2})
    assert "state" not in caught.value.facts
    with pytest.raises(AppendConflict):
        await mine.update("a", 3, expected_seq=7)
    assert (await mine.update("a", 3, expected_seq=caught.value.seq)).seq == 3


async def test_a_conflict_costs_no_claim(node: Node, other: Node) -> None:
    """Who may not write leaves the claim where it is."""
    mine, theirs = await _shared(node), await _shared(other)
    await mine.record("work", 1)
    for expected in (0, 5):
        with pytest.raises(AppendConflict):
            await theirs.record("work", 2, expected_seq=expected)
    assert (await node.recover("p")).state.epoch == 1


async def test_appends_that_continue_each_other_are_sent_together(node: Node) -> None:
    """Each expects the seq of the one before it."""
    thread = await _shared(node)
    done = await asyncio.gather(*(thread.record("work", seq, expected_seq=seq) for seq in range(20)))
    assert [one.seq for one in done] == [*range(1, 21)]
    late = await asyncio.gather(
        thread.record("work", 1, expected_seq=20), thread.record("work", 2, expected_seq=20), return_exceptions=True
    )
    assert [type(one).__name__ for one in late] == ["Appended", "AppendConflict"]


async def test_a_conflict_among_appends_that_wait_carries_the_one_that_came_first(node: Node, other: Node) -> None:
    """Neither of them was the first to have its turn: the error never says that the expected seq is the newest."""
    mine, theirs = await _shared(node), await _shared(other)
    await mine.record("work", 0)
    found = await asyncio.gather(
        theirs.update("a", 1), theirs.update("a", 2, expected_seq=1), return_exceptions=True
    )  # the node has to claim first
    assert [type(one).__name__ for one in found] == ["Appended", "AppendConflict"]
    assert isinstance(found[1], AppendConflict)
    assert (found[1].seq, found[1].state.context) == (2, {"a": 1})


async def test_a_conflict_is_never_told_by_a_state_that_is_older_than_the_call(
    node: Node, other: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the log was asked for before the call: what came since may be what the call expects."""
    mine, theirs = await _shared(node), await _shared(other)
    await mine.record("work", 0)
    reads, tail = runtime_of(other).reads, runtime_of(other).tailer.tail(0)
    assert tail is not None
    end_of, deliver = reads.end_of, tail.deliver
    late, held = list[asyncio.Task[Any]](), list[Any]()

    def release() -> None:
        monkeypatch.setattr(tail, "deliver", deliver)
        while held:
            deliver(held.pop(0))

    async def outrun(partition: int) -> int:
        """The first time, another node writes and a call comes in after the end was asked for, before it is read."""
        end = await end_of(partition)
        if not late:
            monkeypatch.setattr(tail, "deliver", held.append)
            await mine.record("work", 1)
            late.append(asyncio.create_task(theirs.record("late", expected_seq=2)))
            await asyncio.sleep(0)
            asyncio.get_running_loop().call_later(0.05, release)
        return end

    monkeypatch.setattr(reads, "end_of", outrun)
    with pytest.raises(AppendConflict):
        await theirs.record("early", expected_seq=7)
    assert (await late[0]).seq == 3


# --- ids
async def test_an_id_is_written_once_however_often_it_is_appended(node: Node, other: Node) -> None:
    """At once on one node, at once on two, and later."""
    mine, theirs = await _shared(node), await _shared(other)
    found = await asyncio.gather(
        *(one.record("work", 1, entry_id=ID) for one in (mine, mine, theirs, theirs) for _ in range(3))
    )
    assert {(one.seq, one.offset, one.entry_id) for one in found} == {(1, found[0].offset, ID)}
    assert sum(not one.is_repeated for one in found) == 1
    await mine.record("work", 2)
    assert (await theirs.record("work", 1, entry_id=ID)).is_repeated
    assert (await node.recover("p")).state.seq == 2


async def test_an_id_that_came_with_an_expected_seq_is_known_behind_later_entries(node: Node, other: Node) -> None:
    """The seq has moved on: the first result, not a conflict. Another id is one."""
    mine, theirs = await _shared(node), await _shared(other)
    done = await mine.record("work", 1, expected_seq=0, entry_id=ID)
    await theirs.record("work", 2)
    assert await theirs.record("work", 1, expected_seq=0, entry_id=ID) == done._replace(is_repeated=True)
    assert await mine.record("work", 1, expected_seq=0, entry_id=ID) == done._replace(is_repeated=True)
    with pytest.raises(AppendConflict):
        await mine.record("work", 1, expected_seq=0, entry_id=ID[::-1])


async def test_an_append_in_doubt_is_repeated_without_a_second_entry() -> None:
    """Nothing can be read back: its caller is told so, and so are the next ones, of which nothing is sent meanwhile."""
    log = LateLog(0)
    async with Node.in_memory(log, **{**FAST, "append_timeout_s": 5.0}, confirm_timeout_s=0.2) as node:
        thread = await _shared(node)
        await thread.record("work", 0, entry_id=ID)
        for number in range(1, 3):
            log.hide(0)
            entry_id = bytes([number]) * 16
            with pytest.raises(ConfirmTimeout):
                await thread.record("work", number, entry_id=entry_id)
            with pytest.raises(ConfirmTimeout):
                await thread.record("work", number, entry_id=entry_id)
            log.reveal(0)
            done = await thread.record("work", number, entry_id=entry_id)
            assert (done.seq, done.is_repeated) == (number + 1, True)
        assert (await node.recover("p")).state.seq == 3
