"""Conversations of Pydantic AI in a journal: what the framework's own store does, turns of nodes, crashes, limits."""

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
from pydantic_ai import Agent, BinaryContent, ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
    InMemoryConversationStore,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tools import DeferredToolRequests

from scripted_pydantic_agents import said, scripted
from seekpoint import Limits, MemoryLog, Node, Process, SyncNode, agent
from seekpoint.adapters.pydantic_ai import SeekpointConversationStore, SeekpointDurability, durable
from seekpoint.errors import HandleClosed, LimitExceeded, UnserializableValue
from seekpoint.testing import assert_replays, crash_at, history_of


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
async def pair() -> AsyncIterator[list[Node]]:
    """Two nodes of one journal in memory."""
    log = MemoryLog()
    async with Node.in_memory(log, node_id="n0") as one, Node.in_memory(log, node_id="n1") as other:
        yield [one, other]


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    """A node in memory."""
    async with Node.in_memory() as running:
        yield running


def turn(*texts: str) -> list[ModelMessage]:
    """A question and its answer for each text."""
    found: list[ModelMessage] = []
    for text in texts:
        found += [ModelRequest(parts=[UserPromptPart(text)]), ModelResponse(parts=[TextPart(f"re: {text}")])]
    return found


def texts(messages: list[ModelMessage]) -> list[str]:
    """What the messages say."""
    return [str(getattr(one.parts[0], "content", one.parts[0])) for one in messages]


async def saved(store: ConversationStore, conversation_id: str, *says: str, scope: str | None = None) -> Conversation:
    """Begin a conversation, or go on with it."""
    conversation = await store.load(conversation_id, scope=scope) or Conversation(conversation_id=conversation_id)
    conversation.messages += turn(*says)
    conversation.usage.requests += len(says)
    await store.save(conversation, scope=scope)
    return conversation


# --- what the framework's own store does
class Pair:
    """The framework's store in memory, and ours on two nodes in turns: both are asked, and have to say the same."""

    def __init__(self, nodes: list[Node]) -> None:
        self.model = InMemoryConversationStore()
        self.stores = [SeekpointConversationStore(node) for node in nodes]
        self.known: list[tuple[Conversation, Conversation]] = []
        """Conversations as both have given them."""
        self.ids: dict[str, str] = {}
        """Of an entry of the model, the id of ours."""

    async def both(self, chance: random.Random, call: Any) -> Any:
        """Make a call on both; return what they say, or the error that both raise."""
        store, found, errors = chance.choice(self.stores), [], []
        for index, one in enumerate((self.model, store)):
            try:
                found.append(await call(one, index))
            except UserError as exc:
                errors.append(type(exc))
        assert len(errors) in (0, 2), errors
        assert errors[:1] == errors[1:]
        return None if errors else found

    async def compare(self, chance: random.Random) -> None:
        """Compare all that both have."""
        ours = chance.choice(self.stores)
        expected = {one.conversation_id: one for one in await self.model.list_conversations()}
        found = {one.conversation_id: one for one in await ours.list_conversations()}
        assert found.keys() == expected.keys()
        for name, record in expected.items():
            lines = [await self.model.load_entries(name), await ours.load_entries(name)]
            assert texts([one.message for one in lines[0] or []]) == texts([one.message for one in lines[1] or []])
            assert record.usage == found[name].usage
            assert (record.scope, record.forked_from) == (found[name].scope, found[name].forked_from)
            assert len(record.branches) == len(found[name].branches)
            for tip, own in zip(record.branches, found[name].branches, strict=True):
                left = [texts([one.message for one in await store.read_history(entry)])
                        for store, entry in ((self.model, tip), (ours, own))]  # fmt: skip
                assert left[0] == left[1]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 20))])
async def test_it_does_what_the_store_in_memory_does(nodes: list[Node], seed: int) -> None:
    """Random saves, rewritten histories, branches, forks and deletions, on two nodes in turns."""
    chance, pair = random.Random(seed), Pair(nodes)
    names = ["a", "b\n", "c" * 300, "Gru\u0308n"]  # any text is an id
    for number in range(50):
        name, other = chance.choice(names), chance.choice(names)
        kind = chance.choice(["save", "save", "old", "rewrite", "branch", "fork", "delete", "scope"])
        if kind in ("save", "scope"):
            scope = chance.choice(["ann", "bob"]) if kind == "scope" else None

            async def save(store: ConversationStore, index: int, name: str = name, scope: Any = scope) -> Any:
                return await saved(store, name, f"turn {number}", scope=scope)  # noqa: B023 - it runs at once

            if (given := await pair.both(chance, save)) is not None:
                pair.known.append((given[0], given[1]))
        elif kind == "old" and pair.known:
            old = chance.choice(pair.known)

            async def save_old(store: ConversationStore, index: int, old: Any = old) -> Any:
                old[index].messages += turn("late")
                return await store.save(old[index])

            await pair.both(chance, save_old)
        elif kind == "rewrite":

            async def rewrite(store: ConversationStore, index: int, name: str = name) -> Any:
                conversation = await store.load(name)
                if conversation is None or len(conversation.messages) < 4:
                    raise UserError("nothing to rewrite")
                conversation.messages[2:] = turn("instead")
                return await store.save(conversation)

            await pair.both(chance, rewrite)
        elif kind == "branch":

            async def branch(store: ConversationStore, index: int, name: str = name) -> Any:
                conversation = await store.load(name)
                if conversation is None:
                    raise UserError("nothing to branch")
                at = len(conversation.messages) // 2
                return await store.branch(name, at=at, expected_revision=conversation.revision or "")

            await pair.both(chance, branch)
        elif kind == "fork":

            async def fork(store: ConversationStore, index: int, name: str = name, other: str = other) -> Any:
                return await store.fork(name, new_conversation_id=other)

            await pair.both(chance, fork)
        elif kind == "delete" and chance.random() < 0.5:
            await pair.both(chance, lambda store, index, name=name: store.delete(name))
    await pair.compare(chance)


async def test_a_conversation_is_loaded_as_it_was_saved(node: Node) -> None:
    """With usage, scope, requests that wait for a person, and bytes; a window saves to the whole."""
    store = SeekpointConversationStore(node, actor="server-3")
    assert await store.load("chat") is None
    given = Conversation(conversation_id="chat")
    given.messages = [
        ModelRequest(parts=[UserPromptPart(["see", BinaryContent(b"\x00\xff", media_type="application/pdf")])])
    ]
    given.usage.input_tokens = 7
    given.deferred_tool_requests = DeferredToolRequests(
        approvals=[ToolCallPart("pay", {"n": 1}, tool_call_id="c1")], metadata={"c1": {"why": "much"}}
    )
    entries = await store.save(given, scope="ann")
    found = await store.load("chat", scope="ann")
    assert found == given
    assert found is not None
    assert found.deferred_tool_requests == given.deferred_tool_requests
    assert await store.load("chat", scope="bob") is None
    assert await store.read_entry(entries[0].id) == entries[0]
    await saved(store, "chat", "more", scope="ann")
    window = await store.load("chat", limit=1)
    assert window is not None
    window.messages += turn("window")
    await store.save(window)
    whole = await store.load("chat")
    assert whole is not None
    assert len(whole.messages) == 5
    log = [one.entry async for one in node.entries("conversation/chat") if one.entry.seq]
    assert [one.actor for one in log] == ["server-3"] * 3  # one entry a save


async def test_entries_are_found_by_stores_that_have_not_seen_them(pair: list[Node]) -> None:
    """Also those of a fork whose first conversation is gone; one that nobody has is an error of a lookup."""
    one, other = (SeekpointConversationStore(node) for node in pair)
    first = await one.save(Conversation(conversation_id="a", messages=turn("x", "y")))
    assert [entry.id for entry in await other.read_history(first[-1].id)] == [entry.id for entry in first]
    fork = await other.fork("a", at=2, new_conversation_id="b")
    await one.delete("a")
    assert texts(fork.messages) == ["x", "re: x"]
    assert [row.id for row in await one.load_entries("b") or []] == [row.id for row in first[:2]]
    with pytest.raises(LookupError):
        await one.read_entry(first[-1].id)
    with pytest.raises(ConversationConflict):
        await one.write_record(
            ConversationRecord(conversation_id="c", head_id="nobody"), new_entries=[], expected_revision=None
        )
    entry = ConversationEntry(parent_id=first[1].id, message=turn("z")[0])
    record = ConversationRecord(conversation_id="d", head_id=entry.id)
    await one.write_record(record, new_entries=[entry], expected_revision=None)
    assert texts([row.message for row in await other.load_entries("d") or []]) == ["x", "re: x", "z"]


async def test_of_saves_at_the_same_time_one_succeeds(nodes: list[Node]) -> None:
    """On two nodes; the others raise the framework's conflict, and nothing of theirs is stored."""
    stores = [SeekpointConversationStore(node) for node in nodes]
    await saved(stores[0], "chat", "first")

    async def turns(number: int) -> int:
        done = 0
        while done < 6:
            try:
                await saved(stores[number % 2], "chat", f"{number}.{done}")
                done += 1
            except ConversationConflict:
                await asyncio.sleep(0)
        return done

    assert sum(await asyncio.gather(*map(turns, range(4)))) == 24
    found = await stores[1].load("chat")
    assert found is not None
    assert found.usage.requests == 25
    said_texts = texts(found.messages)
    assert len(said_texts) == 50
    assert all(f"re: {said_texts[at]}" == said_texts[at + 1] for at in range(0, 50, 2))
    for number in range(4):
        own = [text for text in said_texts if text.startswith(f"{number}.")]
        assert own == [f"{number}.{turn}" for turn in range(6)]


async def test_a_deletion_expects_the_revision_that_was_read(pair: list[Node]) -> None:
    """What was saved since is not deleted unseen."""
    stores = [SeekpointConversationStore(node) for node in pair]
    before = await saved(stores[0], "chat", "first")
    revision = before.revision or ""
    await saved(stores[1], "chat", "second")
    with pytest.raises(ConversationConflict):
        await stores[0].delete_record("chat", expected_revision=revision)
    found = await stores[0].load("chat")
    assert found is not None
    assert len(found.messages) == 4


# --- limits
async def test_large_messages_are_attached() -> None:
    """A fork has copies; a deletion drops its own; what does not fit is refused whole."""
    limits = Limits(attached_bytes=900_000, record_bytes=100_000, state_bytes=400_000)
    async with Node.in_memory(MemoryLog(limits=limits)) as node:
        store = SeekpointConversationStore(node)
        large = "x" * 150_000
        await saved(store, "chat", "small")
        await saved(store, "chat", large)
        assert texts((await store.fork("chat", new_conversation_id="copy")).messages)[2] == large
        await store.delete("chat")
        copy = await SeekpointConversationStore(node).load("copy")
        assert copy is not None
        assert texts(copy.messages) == ["small", "re: small", large, f"re: {large}"]
        before = (await node.recover("conversation/copy")).state
        with pytest.raises(LimitExceeded, match=r"takes no more messages.*URLs"):
            await saved(store, "copy", *(letter * 150_000 for letter in "abcdefgh"))
        after = (await node.recover("conversation/copy")).state
        assert after.context == before.context
        assert after.attachments.keys() == before.attachments.keys()


async def test_what_is_no_json_is_named(node: Node) -> None:
    """Before anything is written."""
    store = SeekpointConversationStore(node)
    given = Conversation(conversation_id="chat", messages=[ModelRequest(parts=[], metadata={"x": object()})])
    with pytest.raises(UnserializableValue, match="message"):
        await store.save(given)
    given = Conversation(conversation_id="chat", messages=turn("x"))
    given.deferred_tool_requests = DeferredToolRequests(metadata={"c1": {"x": object()}})
    with pytest.raises(UnserializableValue, match="record"):
        await store.save(given)
    assert await store.load("chat") is None


# --- durable runs
async def test_in_a_durable_run_everything_is_recorded(node: Node) -> None:
    """Conflicts too: a replay raises what the run raised."""
    log = MemoryLog()
    one = Agent(scripted("main", {0: said("hi")}), name="main", capabilities=[SeekpointDurability()])

    @agent("keeps")
    async def keeps(process: Process, wish: str) -> list[Any]:
        store = SeekpointConversationStore(process.node)  # type: ignore[arg-type]  # it is a whole node
        with durable(process, one):
            conversation = Conversation(conversation_id="chat")
            result = await one.run(wish, conversation=conversation)
            entries = await store.save(result)
            again = await one.run("again", conversation=result.conversation)
            entries += await store.save(again, scope="ann") if wish == "scope" else await store.save(again)
            try:
                await store.save(Conversation(conversation_id="chat"))
            except ConversationConflict as exc:
                conflict = exc.conversation_id
            branch = await store.branch("chat", at=2, expected_revision=again.conversation.revision or "")
            found = [record.conversation_id for record in await store.list_conversations()]
            first = await store.read_entry(entries[0].id)
            await store.delete("chat")
        return [[entry.id for entry in entries], conflict, texts(branch.messages), found, first.id == entries[0].id]

    async with Node.in_memory(log) as running:
        result = await running.run(keeps, "case-1", "hello")
        assert await SeekpointConversationStore(running).load("chat") is None
    assert result[1:] == ["chat", ["hello", "hi"], ["chat"], True]
    assert len(set(result[0])) == 4
    await assert_replays(keeps, history_of(log, "case-1"))


async def test_a_save_whose_step_is_made_again_is_made_once() -> None:
    """The program dies after the save, before the end of its step: the next one finds what is saved."""

    @agent("saves")
    async def saves(process: Process, wish: str) -> list[str]:
        store = SeekpointConversationStore(process.node)  # type: ignore[arg-type]  # it is a whole node
        with durable(process):
            entries = await store.save(Conversation(conversation_id="chat", messages=turn(wish)))
        return [one.id for one in entries]

    crash = crash_at(call="conversation write:1", ended=True, when="unsent")
    ids = await crash.run(saves, "case-1", "hello")
    async with Node.in_memory(crash.log) as node:
        found = await SeekpointConversationStore(node).load_entries("chat")
    assert [one.id for one in found or []] == ids
    assert len(ids) == 2


# --- event loops
async def test_a_sync_node_serves_agents_that_block(tmp_path: Path) -> None:
    """``agent.run_sync`` has an event loop of its own."""

    def block() -> list[str]:
        one: Agent[None, str] = Agent(scripted("main", {0: said("hi")}), name="main")
        with SyncNode.local(tmp_path / "runs.db") as node:
            store = SeekpointConversationStore(node)
            loop = asyncio.new_event_loop()
            asyncio.set_event_loop(loop)
            try:
                result = one.run_sync("hello", conversation=Conversation(conversation_id="chat"))
                loop.run_until_complete(store.save(result))
                found = loop.run_until_complete(store.load("chat"))
            finally:
                asyncio.set_event_loop(None)
                loop.close()
        assert found is not None
        return texts(found.messages)

    assert await asyncio.to_thread(block) == ["hello", "hi"]


def test_a_node_whose_loop_has_ended_is_named() -> None:
    """The call cannot be made any more."""

    async def made() -> SeekpointConversationStore:
        async with Node.in_memory() as node:
            return SeekpointConversationStore(node)

    store = asyncio.run(made())
    with pytest.raises(HandleClosed, match="event loop"):
        asyncio.run(store.load("chat"))


# --- crashes
_SAVES = """
import asyncio, sys
from pydantic_ai import ModelRequest, UserPromptPart
from pydantic_ai.conversation import Conversation
from seekpoint import Node
from seekpoint.adapters.pydantic_ai import SeekpointConversationStore

async def main():
    async with Node.local(sys.argv[1]) as node:
        store = SeekpointConversationStore(node)
        found = await store.load("chat") or Conversation(conversation_id="chat")
        while True:
            number = found.usage.requests
            found.messages += [ModelRequest(parts=[UserPromptPart(f"{number}.{part}")]) for part in range(5)]
            found.usage.requests += 1
            await store.save(found)
            print(number, flush=True)

asyncio.run(main())
"""


def _saving(path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _SAVES, str(path)], stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    )


@pytest.mark.parametrize("kills", [1, pytest.param(50, marks=[pytest.mark.long, pytest.mark.timeout(600)])])
async def test_a_save_is_all_or_nothing_under_kill_9(tmp_path: Path, kills: int) -> None:
    """Each save that was acknowledged is there; of the one in flight all or nothing."""
    chance, path, acknowledged = random.Random(kills), tmp_path / "runs.db", -1
    for _ in range(kills):
        program = _saving(path)
        assert program.stdout is not None
        for _ in range(chance.randint(1, 8)):
            acknowledged = int(await asyncio.to_thread(program.stdout.readline))
        await asyncio.sleep(chance.uniform(0, 0.01))
        program.send_signal(signal.SIGKILL)
        rest, _ = await asyncio.to_thread(program.communicate)
        acknowledged = max([acknowledged, *map(int, rest.split())])
        async with Node.local(path) as node:
            found = await SeekpointConversationStore(node).load("chat")
        assert found is not None
        count = found.usage.requests
        assert acknowledged + 1 <= count <= acknowledged + 2
        assert texts(found.messages) == [f"{number}.{part}" for number in range(count) for part in range(5)]
