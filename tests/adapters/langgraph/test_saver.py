"""What the conformance suite does not ask of the checkpointer: several nodes, branches, late writes, serializers."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import unquote

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.serde.base import CipherProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from saver_modes import MODES, saver_in_mode
from seekpoint import MemoryLog, Node, SyncNode
from seekpoint.adapters.langgraph import SeekpointSaver
from seekpoint.adapters.langgraph.stored_parts import Forget
from seekpoint.adapters.langgraph.thread_log import OutdatedError, ThreadLog
from seekpoint.adapters.langgraph.thread_names import joined, process_id_of
from seekpoint.errors import (
    HandleClosed,
    InvalidSetting,
    LimitExceeded,
    Refused,
    UndecodableRecord,
    UnserializableValue,
)
from stored_checkpoints import THREAD, put, values_of, writes_of


@pytest.fixture
async def saver(log: MemoryLog) -> AsyncIterator[SeekpointSaver]:
    """A checkpointer on a node of its own."""
    async with Node.in_memory(log, node_id="node-a") as node:
        yield SeekpointSaver(node)


class Count(TypedDict):
    """A graph's state."""

    count: int


def counting(saver: BaseCheckpointSaver[str], steps: int) -> Any:
    """Return a graph that counts to ``steps``."""
    builder: Any = StateGraph(Count)
    builder.add_node("more", lambda state: {"count": state["count"] + 1})
    builder.add_edge(START, "more")
    builder.add_conditional_edges("more", lambda state: END if state["count"] >= steps else "more", ["more", END])
    return builder.compile(checkpointer=saver)


# --- entries
class Found(TypedDict):
    """The state of a graph whose nodes run beside each other."""

    found: Annotated[list[str], operator.add]


@pytest.mark.parametrize("durability", ["sync", "async"])
async def test_a_superstep_is_one_entry(saver: SeekpointSaver, log: MemoryLog, durability: str) -> None:
    """The writes of a superstep's tasks and its checkpoint come in one entry; the input is one more."""
    builder: Any = StateGraph(Found)
    builder.add_node("join", lambda state: {})
    for name in ("a", "b", "c"):
        builder.add_node(name, lambda state: {"found": ["it"]})
    builder.add_edge(START, "join")
    builder.add_edge(["a", "b", "c"], "join")
    targets = ["a", "b", "c", END]
    builder.add_conditional_edges("join", lambda state: END if len(state["found"]) >= 12 else targets[:3], targets)
    await builder.compile(checkpointer=saver).ainvoke({"found": []}, THREAD, durability=durability)
    async with Node.in_memory(log) as node:
        state = (await node.recover("langgraph/t")).state
    assert state.seq <= len([one async for one in saver.alist(THREAD)]) + 2
    assert not any(key.startswith("writes/") for key in state.values_json)


async def test_writes_that_share_an_entry_with_the_next_checkpoint_stay_with_theirs(
    saver: SeekpointSaver, log: MemoryLog
) -> None:
    """The context lets go of them, and the history has them."""
    first = await put(saver, {}, {})
    await asyncio.gather(saver.aput_writes(first, [("a", "kept")], "task"), put(saver, {}, {}, parent=first))
    async with Node.in_memory(log) as node:
        assert (await node.recover("langgraph/t")).state.seq == 2
        other = SeekpointSaver(node)
        assert writes_of(await other.aget_tuple(first)) == ["kept"]
        newest = await other.aget_tuple(THREAD)
        assert writes_of(newest) == []
        assert newest is not None
        await put(other, {}, {}, parent=newest.config)
        assert set((await node.recover("langgraph/t")).state.values_json) == {"thread", "checkpoint/"}


async def test_reading_the_newest_checkpoint_reads_no_history(
    saver: SeekpointSaver, log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another node has it from the process's context alone, however long the thread is."""
    await counting(saver, 20).ainvoke({"count": 0}, THREAD)
    async with Node.in_memory(log, node_id="node-b") as node:
        monkeypatch.setattr(node, "records", None)
        state = await counting(SeekpointSaver(node), 20).aget_state(THREAD)
    assert state.values == {"count": 20}


# --- several nodes
async def test_nodes_that_write_to_one_thread_at_once_lose_nothing(log: MemoryLog) -> None:
    """Each write is made by the newest content: all are there, also those that replaced no context value."""
    async with Node.in_memory(log, node_id="a") as node_a, Node.in_memory(log, node_id="b") as node_b:
        savers = [SeekpointSaver(node) for node in (node_a, node_b)]
        first = await put(savers[0], {}, {})
        await asyncio.gather(
            *(savers[number % 2].aput_writes(first, [("a", number)], f"task-{number}") for number in range(20))
        )
        for one in savers:
            assert sorted(writes_of(await one.aget_tuple(first))) == list(range(20))


@pytest.mark.parametrize("mode", MODES)
async def test_a_write_that_is_there_already_stays(mode: str, log: MemoryLog) -> None:
    """Of two regular writes of a task with one index the first stays; of two interrupts the last one."""
    async with saver_in_mode(mode, lambda name: Node.in_memory(log, node_id=name)) as saver:
        first = await put(saver, {}, {})
        await saver.aput_writes(first, [("a", "first"), ("__interrupt__", "old")], "task")
        await saver.aput_writes(first, [("a", "second"), ("b", "more"), ("__interrupt__", "new")], "task")
        assert writes_of(await saver.aget_tuple(first)) == ["new", "first", "more"]
        second = await put(saver, {}, {}, parent=first)
        await saver.aput_writes(first, [("a", "third"), ("c", "late"), ("d", "late")], "task")
        assert writes_of(await saver.aget_tuple(first)) == ["new", "first", "more", "late"]
        assert writes_of(await saver.aget_tuple(second)) == []


@pytest.mark.parametrize("mode", MODES)
async def test_writes_may_come_before_their_checkpoint(mode: str, log: MemoryLog) -> None:
    """A graph that does not wait for its checkpoints may store the writes of a checkpoint first."""
    async with saver_in_mode(mode, lambda name: Node.in_memory(log, node_id=name)) as saver:
        await put(saver, {}, {})
        later = str(uuid6(clock_seq=-1))
        await saver.aput_writes({"configurable": THREAD["configurable"] | {"checkpoint_id": later}}, [("a", 1)], "task")
        await put(saver, {}, {}, checkpoint_id=later)
        assert writes_of(await saver.aget_tuple(THREAD)) == [1]


# --- branches
@pytest.mark.parametrize("mode", MODES)
async def test_a_branch_takes_over_the_values_of_an_older_checkpoint(mode: str, log: MemoryLog) -> None:
    """The channels that the branch does not change have the values of its parent, and not those of the main line."""
    async with saver_in_mode(mode, lambda name: Node.in_memory(log, node_id=name)) as saver:
        first = await put(saver, {"a": "a1", "b": "b1"}, {"a": "1", "b": "1"})
        second = await put(saver, {"a": "a2", "b": "b2"}, {"a": "2", "b": "2"}, parent=first)
        await put(saver, {"a": "a3", "b": "b1"}, {"a": "3", "b": "1"}, changed=("a",), parent=first)
        assert values_of(await saver.aget_tuple(THREAD)) == {"a": "a3", "b": "b1"}
        assert values_of(await saver.aget_tuple(second)) == {"a": "a2", "b": "b2"}
        await put(saver, {"a": "a4", "b": "b2"}, {"a": "4", "b": "2"}, changed=("a",))  # it names no parent
        assert values_of(await saver.aget_tuple(THREAD)) == {"a": "a4", "b": "b2"}


async def test_a_branch_is_whole_in_the_context(
    saver: SeekpointSaver, log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry of a branch's first checkpoint brings the values back, so later reads need no history."""
    first = await put(saver, {"a": "a1", "b": "b1"}, {"a": "1", "b": "1"})
    await put(saver, {"a": "a2", "b": "b2"}, {"a": "2", "b": "2"}, parent=first)
    await put(saver, {"a": "a3", "b": "b1"}, {"a": "3", "b": "1"}, changed=("a",), parent=first)
    async with Node.in_memory(log, node_id="node-b") as node:
        monkeypatch.setattr(node, "records", None)
        assert values_of(await SeekpointSaver(node).aget_tuple(THREAD)) == {"a": "a3", "b": "b1"}


@pytest.mark.parametrize("mode", MODES)
async def test_an_older_checkpoint_does_not_become_the_newest(mode: str, log: MemoryLog) -> None:
    """The newest checkpoint is that with the greatest id, in whatever order they are stored."""
    async with saver_in_mode(mode, lambda name: Node.in_memory(log, node_id=name)) as saver:
        early, late = str(uuid6(clock_seq=-1)), str(uuid6(clock_seq=-1))
        await put(saver, {"a": "late"}, {"a": "2"}, checkpoint_id=late)
        older = await put(saver, {"a": "early"}, {"a": "1"}, checkpoint_id=early)
        assert values_of(await saver.aget_tuple(THREAD)) == {"a": "late"}
        assert values_of(await saver.aget_tuple(older)) == {"a": "early"}
        assert [one.checkpoint["id"] async for one in saver.alist(THREAD)] == [late, early]


# --- removing
@pytest.mark.parametrize("mode", MODES)
async def test_the_checkpoint_before_a_removed_run_is_the_newest_again(mode: str, log: MemoryLog) -> None:
    """With its values and its writes, for every node."""
    async with saver_in_mode(mode, lambda name: Node.in_memory(log, node_id=name)) as saver:
        first = await put(saver, {"a": "a1"}, {"a": "1"}, metadata={"run_id": "kept"})
        await saver.aput_writes(first, [("a", "written")], "task")
        await put(saver, {"a": "a2"}, {"a": "2"}, parent=first, metadata={"run_id": "gone"})
        await saver.adelete_for_runs(["gone"])
        newest = await saver.aget_tuple(THREAD)
        assert (values_of(newest), writes_of(newest)) == ({"a": "a1"}, ["written"])
        assert [one.metadata["run_id"] async for one in saver.alist(THREAD)] == ["kept"]


@pytest.mark.parametrize("mode", MODES)
async def test_a_removed_thread_may_begin_again(mode: str, log: MemoryLog) -> None:
    """What was removed stays removed, and what comes later is there."""
    async with saver_in_mode(mode, lambda name: Node.in_memory(log, node_id=name)) as saver:
        first = await put(saver, {"a": "old"}, {"a": "1"})
        await saver.adelete_thread("t")
        assert await saver.aget_tuple(THREAD) is None
        assert await saver.aget_tuple(first) is None
        second = await put(saver, {"b": "new"}, {"b": "1"})
        assert values_of(await saver.aget_tuple(THREAD)) == {"b": "new"}
        assert [one.config async for one in saver.alist(THREAD)] == [second]


async def test_a_removal_is_chosen_again_when_the_thread_has_grown(saver: SeekpointSaver) -> None:
    """What was chosen by an older history is not removed."""
    await put(saver, {}, {})
    with pytest.raises(OutdatedError):
        await ThreadLog.write(saver._threads.of("t"), Forget(based_on=0, gone={"": ["some"]}))
    assert await saver.aget_tuple(THREAD) is not None
    run, later = {"run_id": "gone"}, {"run_id": "kept"}
    await put(saver, {}, {}, metadata=run)
    await asyncio.gather(put(saver, {}, {}, metadata=later), saver.adelete_for_runs(["gone"]))
    assert [one.metadata.get("run_id") async for one in saver.alist(THREAD)] == ["kept", None]


async def test_all_threads_are_listed_without_a_config(saver: SeekpointSaver) -> None:
    """Each with its own id, whatever characters it has."""
    names = ["t", "user 7/chat", "ä", "x" * 300]
    for name in names:
        await saver.aput({"configurable": {"thread_id": name, "checkpoint_ns": ""}}, *_empty())
    assert sorted([one.config["configurable"]["thread_id"] async for one in saver.alist(None)]) == sorted(names)
    assert len([one async for one in saver.alist(None, limit=2)]) == 2


def _empty() -> tuple[Any, Any, Any]:
    one = {
        "v": 1, "id": str(uuid6(clock_seq=-1)), "ts": "", "channel_values": {}, "channel_versions": {},
        "versions_seen": {}, "updated_channels": None,
    }  # fmt: skip
    return one, {"source": "input", "step": -1}, {}


def test_thread_ids_do_not_collide_as_process_ids() -> None:
    """Characters that an id may not have are quoted, and a long one ends with a hash of the whole."""
    names = ["a/b", "a%2Fb", "a b", "x" * 400, "x" * 401, "a\u200bb", "a\nb", "langgraph"]
    ids = [process_id_of(joined([name]), "langgraph") for name in names]
    assert len(set(ids)) == len(names)
    assert all(len(one) <= 200 and one.isascii() and one.isprintable() for one in ids)
    forged = unquote(ids[names.index("x" * 400)].removeprefix("langgraph/"))
    assert process_id_of(joined([forged]), "langgraph") not in ids


async def test_values_of_others_in_a_threads_process_are_left_alone(log: MemoryLog) -> None:
    """Somebody may keep a value of their own there: the thread is read and written as before."""
    async with Node.in_memory(log) as node:
        first = await put(SeekpointSaver(node), {"a": 1}, {"a": "1"})
        process = await node.open("langgraph/t", shared=True)
        await process.update_many({"note": "mine", "channel/odd": 1, "writes": 2})
        for saver in (SeekpointSaver(node), SeekpointSaver(node)):
            await put(saver, {"a": 2}, {"a": "2"}, parent=first)
            assert values_of(await saver.aget_tuple(THREAD)) == {"a": 2}
            assert len([one async for one in saver.alist(THREAD)]) > 1
        assert (await process.read()).context["note"] == "mine"


def test_a_saver_whose_loop_has_ended_says_so() -> None:
    """The error names the way out, and no coroutine is left behind."""

    async def made() -> SeekpointSaver:
        async with Node.in_memory() as node:
            return SeekpointSaver(node)

    saver = asyncio.run(made())
    with pytest.raises(HandleClosed, match="SyncNode"):
        saver.get_tuple(THREAD)


# --- values
@dataclass
class Order:
    """A type of a user's own."""

    item: str


async def test_types_of_ones_own_are_built_only_if_they_are_allowed(log: MemoryLog) -> None:
    """Without that they come back as plain data."""
    async with Node.in_memory(log) as node:
        await put(SeekpointSaver(node), {"order": Order("tea")}, {"order": "1"})
        plain = values_of(await SeekpointSaver(node).aget_tuple(THREAD))["order"]
        built = values_of(await SeekpointSaver(node, allow=[Order]).aget_tuple(THREAD))["order"]
    assert (plain, built) == ({"item": "tea"}, Order("tea"))


class Plain(CipherProtocol):
    """A cipher that does nothing."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        """Return it as it is."""
        return "plain", plaintext

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        """Return it as it is."""
        return ciphertext


async def test_nothing_is_pickled(saver: SeekpointSaver, log: MemoryLog) -> None:
    """A serializer that falls back to pickle is refused, and so is a value that only pickle could write."""
    async with Node.in_memory(log) as node:
        with pytest.raises(InvalidSetting, match="no pickles"):
            SeekpointSaver(node, serde=JsonPlusSerializer(pickle_fallback=True))
        with pytest.raises(InvalidSetting, match="no pickles"):
            SeekpointSaver(node, serde=EncryptedSerializer(Plain(), JsonPlusSerializer(pickle_fallback=True)))
    with pytest.raises(UnserializableValue, match="channel"):
        await put(saver, {"odd": object()}, {"odd": "1"})
    assert await saver.aget_tuple(THREAD) is None


class Unwrapped:
    """A serializer of a user, around another one."""

    def __init__(self, serde: Any) -> None:
        self.serde = serde

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Write as the inner one."""
        typed: tuple[str, bytes] = self.serde.dumps_typed(obj)
        return typed

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Read as the inner one."""
        return self.serde.loads_typed(data)


async def test_a_serializer_that_builds_what_a_value_names_is_refused() -> None:
    """LangGraph's permissive default runs code that a stored value names, wherever it stands inside another one."""
    strict = JsonPlusSerializer(allowed_msgpack_modules=None)
    permissive = [JsonPlusSerializer(), JsonPlusSerializer(allowed_msgpack_modules=None, allowed_json_modules=True)]
    async with Node.in_memory() as node:
        for inner in permissive:
            for serde in (inner, EncryptedSerializer(Plain(), inner), Unwrapped(EncryptedSerializer(Plain(), inner))):
                with pytest.raises(InvalidSetting, match="builds any type"):
                    SeekpointSaver(node, serde=serde)
        for serde in (
            strict,
            EncryptedSerializer(Plain(), strict),
            JsonPlusSerializer(allowed_msgpack_modules=[Plain]),
        ):
            SeekpointSaver(node, serde=serde)


def test_langgraph_says_which_types_its_serializer_builds() -> None:
    """The check of a serializer reads these private names; a release without them must be noticed here."""
    assert (JsonPlusSerializer()._allowed_msgpack_modules, JsonPlusSerializer()._allowed_json_modules) == (True, None)


async def test_a_saver_with_a_cipher_reads_nothing_plain(log: MemoryLog) -> None:
    """Whoever may write the journal and has no key cannot write a value that the graph reads."""
    async with Node.in_memory(log) as node:
        await put(SeekpointSaver(node), {"a": 1}, {"a": "1"})
        ciphered = SeekpointSaver(
            node, serde=EncryptedSerializer(Plain(), JsonPlusSerializer(allowed_msgpack_modules=None))
        )
        with pytest.raises(UndecodableRecord, match="not encrypted"):
            await ciphered.aget_tuple(THREAD)
        await put(ciphered, {"a": None}, {"a": "2"})
        found = await ciphered.aget_tuple(THREAD)
        assert found is not None
        assert found.checkpoint["channel_values"] == {"a": None}


async def test_a_serializer_that_cannot_read_a_value_says_so(log: MemoryLog) -> None:
    """The types in the journal are those of the serializer that wrote them."""

    class Odd(JsonPlusSerializer):
        def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
            return "odd", b""

    async with Node.in_memory(log) as node:
        await put(SeekpointSaver(node, serde=Odd(allowed_msgpack_modules=None)), {"a": 1}, {"a": "1"})
        with pytest.raises(UndecodableRecord, match="'odd'"):
            await SeekpointSaver(node).aget_tuple(THREAD)


async def test_metadata_beyond_the_limit_is_refused_and_the_thread_goes_on(saver: SeekpointSaver) -> None:
    """The error is typed, nothing of the checkpoint is written, and the next one is."""
    first = await put(saver, {"a": "small"}, {"a": "1"})
    with pytest.raises(LimitExceeded):
        await put(saver, {"a": "other"}, {"a": "2"}, parent=first, metadata={"odd": "x" * 1_100_000})
    assert values_of(await saver.aget_tuple(THREAD)) == {"a": "small"}
    await put(saver, {"a": "next"}, {"a": "3"}, parent=first)
    assert values_of(await saver.aget_tuple(THREAD)) == {"a": "next"}


# --- loops and threads
async def test_a_blocking_call_in_the_nodes_own_loop_is_refused(saver: SeekpointSaver) -> None:
    """It would wait for itself; in another thread it is answered."""
    with pytest.raises(Refused, match="wait for itself"):
        saver.get_tuple(THREAD)
    await put(saver, {"a": 1}, {"a": "1"})
    assert values_of(await asyncio.to_thread(saver.get_tuple, THREAD)) == {"a": 1}


def test_a_saver_on_a_sync_node_serves_threads_and_other_loops() -> None:
    """Blocking calls of a graph, and the async calls of a loop that is not the node's."""
    with SyncNode.in_memory() as node:
        graph = counting(SeekpointSaver(node), 3)
        assert graph.invoke({"count": 0}, THREAD) == {"count": 3}
        assert asyncio.run(graph.aget_state(THREAD)).values == {"count": 3}
        assert [one.metadata["step"] for one in graph.get_state_history(THREAD)][:2] == [3, 2]


def test_a_saver_needs_a_node_that_runs() -> None:
    """It says where to make it."""
    with pytest.raises(Refused, match="event loop"):
        SeekpointSaver(Node.in_memory())
    with pytest.raises(HandleClosed, match="not started"):
        SeekpointSaver(SyncNode.in_memory())


async def test_a_call_without_a_thread_or_a_checkpoint_is_refused(saver: SeekpointSaver) -> None:
    """The error says what to pass."""
    with pytest.raises(Refused, match="belongs to a thread"):
        await saver.aget_tuple({"configurable": {}})
    with pytest.raises(Refused, match="stored with a checkpoint"):
        await saver.aput_writes(THREAD, [("a", 1)], "task")
    with pytest.raises(Refused, match="no such strategy"):
        await saver.aprune(["t"], strategy="some")
