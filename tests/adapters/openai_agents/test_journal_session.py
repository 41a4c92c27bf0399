"""Sessions of the OpenAI Agents SDK in a journal: the newest items, turns of nodes, crashes, limits, event loops."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Runner
from agents.memory import Session
from agents.testing import ScriptedModel, assistant_message

from seekpoint import Limits, MemoryLog, Node, Ref, State, SyncNode
from seekpoint.adapters.attached_items import drop_unused
from seekpoint.adapters.openai_agents import SeekpointSession
from seekpoint.adapters.shared_process_calls import SharedProcessCalls
from seekpoint.errors import HandleClosed, LimitExceeded, UnserializableValue
from session_contract import SessionContract, said


@pytest.fixture(params=["memory", "file"])
async def nodes(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[list[Node]]:
    """Two nodes of one journal."""
    log = MemoryLog()

    def node(number: int) -> Node:
        if request.param == "file":
            return Node.local(tmp_path / "runs.db", node_id=f"n{number}")
        return Node.in_memory(log, node_id=f"n{number}")

    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(node(number)) for number in range(2)]


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    """A node in memory."""
    async with Node.in_memory() as running:
        yield running


async def seqs(node: Node, session: SeekpointSession) -> int:
    """How many entries the session has."""
    return (await node.recover(session.process_id, missing_ok=True)).state.seq


class TestOneJournal(SessionContract):
    """Inherited."""


# --- entries
async def test_each_call_that_writes_is_one_entry(node: Node) -> None:
    """One that changes nothing writes nothing."""
    session = SeekpointSession("chat", node)
    assert isinstance(session, Session)
    await session.clear_session()
    await session.add_items([])
    assert await session.pop_item() is None
    assert await seqs(node, session) == 0
    await session.add_items(said(*range(50)))
    assert await seqs(node, session) == 1
    await session.pop_item()
    assert await seqs(node, session) == 2
    await session.clear_session()
    assert await seqs(node, session) == 3


async def test_items_are_what_was_added(node: Node) -> None:
    """Also those with keys that Seekpoint's own JSON uses."""
    items: Any = [{"type": "x", "schema": {"$ref": "#/a"}, "n": 2**60, "none": None, "f": 1.5, "text": "\0é\u2028"}]
    session = SeekpointSession("chat", node)
    await session.add_items(items)
    assert await session.get_items() == items
    assert await session.pop_item() == items[0]


async def test_limits_count_from_the_newest_item(node: Node) -> None:
    """Of the call, else of the settings; a negative one is none."""
    session = SeekpointSession("chat", node, session_settings={"limit": 3})
    for number in range(12):
        await session.add_items(said(number))
    assert await session.get_items() == said(9, 10, 11)
    assert await session.get_items(2) == said(10, 11)
    assert await session.get_items(0) == []
    assert await session.get_items(-1) == said(*range(12)) == await session.get_items(100)


async def test_sessions_and_runs_may_have_one_id(node: Node) -> None:
    """The prefix keeps them apart."""
    async with node.open("case-1") as process:
        await process.update("status", "open")
        session = SeekpointSession("case-1", node, actor="server-3")
        await session.add_items(said(1))
        assert process.state.context == {"status": "open"}
    entries = [one.entry async for one in node.entries(session.process_id)]
    assert session.process_id == "session/case-1"
    assert entries[-1].actor == "server-3"


async def test_a_suffix_is_replaced_only_while_it_is_the_newest(node: Node) -> None:
    """In one entry; the SDK's compaction asks for it."""
    session, other = SeekpointSession("chat", node), SeekpointSession("chat", node)
    await session.add_items(said(1, 2, 3))
    snapshot = await session._get_compaction_snapshot(2)
    assert snapshot is not None
    assert snapshot.items == said(2, 3)
    assert not snapshot.complete
    assert await snapshot.replace_suffix(1, said("short"))
    assert await seqs(node, session) == 2
    assert await session.get_items() == said(1, 2, "short")
    snapshot = await session._get_compaction_snapshot(9)
    assert snapshot is not None
    assert snapshot.complete
    await other.add_items(said(4))
    assert not await snapshot.replace_suffix(0, said("late"))
    assert await session.get_items() == said(1, 2, "short", 4)


async def test_a_session_knows_the_newest_calls_that_added_once(node: Node) -> None:
    """The oldest ones are forgotten, in the same entries."""
    session = SeekpointSession("chat", node)
    for number in range(103):
        await session.add_items_once(said(number), str(number))
    await session.add_items_once(said("again"), "3")
    await session.add_items_once(said("again"), "2")
    assert (await session.get_items())[102:] == said(102, "again")
    state = (await node.recover(session.process_id)).state
    assert sum(key.startswith("added/") for key in state.context) == 100
    assert state.seq == 104


async def test_a_cleared_session_knows_the_calls_that_added_once(nodes: list[Node]) -> None:
    """Also those that another node made just before."""
    here, there = (SeekpointSession("chat", node) for node in nodes)
    await here.add_items(said(1))
    await there.add_items_once(said(2), "request-2")  # which the other one has not read
    read = here._calls.read

    async def read_before() -> State:
        state = await read()
        if state.seq == 2:
            await there.add_items_once(said(3), "request-3")
        return state

    here._calls.read = read_before  # type: ignore[method-assign]
    await here.clear_session()
    await there.add_items_once(said("again"), "request-2")
    await there.add_items_once(said("again"), "request-3")
    assert await there.get_items() == []


# --- bad input
async def test_what_does_not_fit_is_refused_with_advice() -> None:
    """And nothing of it is there afterwards."""
    log = MemoryLog(limits=Limits(attached_bytes=150_000, record_bytes=60_000, state_bytes=100_000))
    async with Node.in_memory(log) as node:
        session = SeekpointSession("chat", node)
        await session.add_items(said("kept"))
        with pytest.raises(LimitExceeded, match=r"takes no 2 more items.*file_id or URL"):
            await session.add_items(said("x" * 100_000, "y" * 100_000))
        bad: Any = [{"role": "user", "content": object()}]
        with pytest.raises(UnserializableValue, match=r"\$\.content"):
            await session.add_items(bad)
        for _ in range(2):
            await session.add_items(said("x" * 40_000))
        with pytest.raises(LimitExceeded, match="OpenAIResponsesCompactionSession"):
            await session.add_items(said("x" * 40_000))
        assert len(await session.get_items()) == 3
        assert not (await node.recover(session.process_id)).state.attachments


# --- large items
async def test_items_that_are_too_large_for_an_entry_are_attached(node: Node) -> None:
    """And dropped with the last item that is like them."""
    session = SeekpointSession("chat", node)
    large = said("x" * 1_200_000, "small", "y" * 900_000)
    await session.add_items(large)
    await session.add_items(said("x" * 1_200_000))
    assert await session.get_items() == [*large, large[0]]
    assert len(await attachments(node, session)) == 2
    assert await session.pop_item() == large[0]
    assert len(await attachments(node, session)) == 2
    assert await session.pop_item() == large[2]
    assert len(await attachments(node, session)) == 1
    snapshot = await session._get_compaction_snapshot(2)
    assert snapshot is not None
    assert snapshot.items == large[:2]
    assert await snapshot.replace_suffix(0, said("short"))
    assert await attachments(node, session) == []
    await session.add_items(large)
    await session.clear_session()
    assert await session.get_items() == []
    assert await attachments(node, session) == []


async def test_a_session_may_be_larger_than_a_state(node: Node) -> None:
    """What does not fit any more is attached."""
    session = SeekpointSession("chat", node)
    items = said(*(f"{number}" * 900_000 for number in range(10)))
    for item in items:
        await session.add_items([item])
    assert await session.get_items() == items
    assert await attachments(node, session) != []


async def test_no_item_refers_to_what_another_call_has_dropped() -> None:
    """Two nodes add and remove the same large item at once."""
    log = MemoryLog(limits=Limits(record_bytes=70_000))
    item = said("x" * 66_000)
    async with Node.in_memory(log, node_id="a") as one, Node.in_memory(log, node_id="b") as other:
        sessions = [SeekpointSession("chat", node) for node in (one, other, one, other)]

        async def add(session: SeekpointSession) -> None:
            for _ in range(6):
                await session.add_items([*item, *item])
                assert all(found == item[0] for found in await session.get_items())

        async def remove(session: SeekpointSession) -> None:
            for turn in range(12):
                if turn % 4 == 3:
                    await session.clear_session()
                elif (popped := await session.pop_item()) is not None:
                    assert popped == item[0]

        await asyncio.gather(add(sessions[0]), add(sessions[1]), remove(sessions[2]), remove(sessions[3]))
        assert all(found == item[0] for found in await sessions[0].get_items())


class _Meddled:
    """The calls of a session: ``known`` is an old state, or another call drops what was attached."""

    def __init__(
        self, calls: SharedProcessCalls, old: State | None = None, meddler: SeekpointSession | None = None
    ) -> None:
        self._calls = calls
        self._old = old
        self._meddler = meddler

    def __getattr__(self, name: str) -> Any:
        return getattr(self._calls, name)

    async def known(self) -> State:
        """Return the old state."""
        return self._old or await self._calls.known()

    async def attach(self, data: bytes, *, media_type: str) -> Ref:
        """Attach, and drop it once."""
        ref = await self._calls.attach(data, media_type=media_type)
        if self._meddler is not None:
            await drop_unused(self._meddler._calls, self._meddler.process_id)
            self._meddler = None
        return ref


async def test_an_attachment_that_was_dropped_meanwhile_is_made_again(node: Node) -> None:
    """Before the entry that refers to it."""
    session, other = SeekpointSession("chat", node), SeekpointSession("chat", node)
    await other.add_items(said(1))
    session._calls = _Meddled(session._calls, meddler=other)
    await session.add_items(said("x" * 1_100_000))
    assert await other.get_items(1) == said("x" * 1_100_000)


async def test_an_old_state_does_not_say_that_a_session_is_empty(node: Node) -> None:
    """The log does."""
    session, other = SeekpointSession("chat", node), SeekpointSession("chat", node)
    session._calls = _Meddled(session._calls, old=await session._calls.read())
    await other.add_items(said(1))
    assert await session.pop_item() == said(1)[0]


async def attachments(node: Node, session: SeekpointSession) -> list[str]:
    """The digests of what the session has attached."""
    return [*(await node.recover(session.process_id)).state.attachments]


# --- cancelled calls, event loops, threads
async def test_a_cancelled_call_is_over_when_it_is_raised(node: Node) -> None:
    """Its items are there then: the SDK's runner may go on from what it reads."""
    session = SeekpointSession("chat", node)
    await session.get_items()
    adding = asyncio.create_task(session.add_items(said(1)))
    await asyncio.sleep(0)
    adding.cancel()
    await asyncio.sleep(0)
    adding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await adding
    assert (await node.recover(session.process_id)).state.seq == 1


async def test_a_node_serves_sessions_of_other_event_loops(node: Node) -> None:
    """A thread with a loop of its own, while the node's loop runs."""
    session = SeekpointSession("chat", node)
    await asyncio.to_thread(lambda: asyncio.run(session.add_items(said(1))))
    assert await session.get_items() == said(1)


def test_a_node_whose_loop_has_ended_is_named() -> None:
    """Instead of a call that never returns."""

    async def begin() -> SeekpointSession:
        async with Node.in_memory() as node:
            return SeekpointSession("chat", node)

    session = asyncio.run(begin())
    with pytest.raises(HandleClosed, match="event loop"):
        asyncio.run(session.get_items())


def test_plain_programs_use_a_sync_node(tmp_path: Path) -> None:
    """``Runner.run_sync`` has an event loop of its own."""
    model = ScriptedModel([[assistant_message("Hi Ada")], [assistant_message("You are Ada")]])
    agent = Agent(name="chat", model=model)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        with SyncNode.local(tmp_path / "runs.db") as node:
            session = SeekpointSession("chat", node)
            large = SeekpointSession("large", node)
            loop.run_until_complete(large.add_items(said("x" * 1_100_000)))
            assert loop.run_until_complete(large.pop_item()) == said("x" * 1_100_000)[0]
            Runner.run_sync(agent, "I am Ada", session=session)
            assert Runner.run_sync(agent, "Who am I?", session=session).final_output == "You are Ada"
            assert len(asyncio.run(session.get_items())) == 4
    finally:
        asyncio.set_event_loop(None)
        loop.close()
    asked = model.calls[-1].input
    assert isinstance(asked, list)
    assert len(asked) == 3


# --- kill -9
_WRITER = """
import asyncio, sys
from seekpoint import Node
from seekpoint.adapters.openai_agents import SeekpointSession

async def main():
    async with Node.local(sys.argv[1]) as node:
        session = SeekpointSession("chat", node)
        number = int(sys.argv[2])
        while True:
            await session.add_items([{"role": "user", "content": f"{number}.{part}"} for part in range(7)])
            print(number, flush=True)
            number += 1

asyncio.run(main())
"""


def test_a_kill_leaves_all_items_of_a_call_or_none(tmp_path: Path) -> None:
    """Each call that has returned is there; of the one in flight, everything or nothing."""
    chance, acknowledged, seen = random.Random(7), -1, 0
    for kill in range(3):
        program = subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(tmp_path / "runs.db"), str(1000 * kill)],
            stdout=subprocess.PIPE, text=True, env=os.environ,
        )  # fmt: skip
        assert program.stdout is not None
        for _ in range(chance.randrange(1, 40)):
            acknowledged = int(program.stdout.readline())
        program.send_signal(signal.SIGKILL)
        acknowledged = max([acknowledged, *map(int, program.stdout.read().split())])
        program.wait()
        program.stdout.close()
        with SyncNode.local(tmp_path / "runs.db") as node:
            items = asyncio.run(SeekpointSession("chat", node).get_items())
        texts = [str(item.get("content")) for item in items][seen:]
        count, rest = divmod(len(texts), 7)
        assert rest == 0
        assert count - (acknowledged - 1000 * kill + 1) in (0, 1)
        assert texts == [f"{1000 * kill + number}.{part}" for number in range(count) for part in range(7)]
        seen = len(items)


ODD_IDS = ["", "x" * 300, "ü" * 150, "a\u200bb", "Gru\u0308n", "tab\t", "\ud83d", "\0", " ", "a/b c?%~"]


async def test_any_text_is_the_id_of_a_session() -> None:
    """Whatever its length and characters; no two are one session, and the process of a plain id has its name."""
    log = MemoryLog()
    texts = [*ODD_IDS, *("y" * length for length in range(150, 210)), "Gr\xfcn", "chat"]
    async with Node.in_memory(log) as node:
        sessions = [SeekpointSession(text, node) for text in texts]
        assert len({session.process_id for session in sessions}) == len(texts)
        again = SeekpointSession(sessions[1].process_id.removeprefix("session/"), node)
        assert again.process_id not in {session.process_id for session in sessions}
        for number, session in enumerate(sessions):
            await session.add_items(said(str(number), "n" * 9))
        for number, text in enumerate(texts):
            assert await SeekpointSession(text, node).get_items() == said(str(number), "n" * 9)
        assert sessions[-1].process_id == "session/chat"
        assert sessions[-2].process_id == "session/Gr\xfcn"


@pytest.mark.parametrize("number", [2**63, -(2**70), 10**400])
async def test_integers_of_any_size_are_kept(node: Node, number: int) -> None:
    """In items that fit, and in those that are attached."""
    session = SeekpointSession("chat", node)
    items: Any = [{"n": number}, {"n": number, "text": "x" * 1_200_000}]
    await session.add_items(items)
    assert await session.get_items() == items
