"""Threads with values that are too large for an entry: they are attachments of the thread's process."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver

from saver_modes import MODES, saver_in_mode
from seekpoint import MemoryLog, Node
from seekpoint.adapters.langgraph import SeekpointSaver, large_values, thread_log
from seekpoint.adapters.langgraph.large_values import digests_of, ref_of
from seekpoint.errors import UnknownAttachment
from stored_checkpoints import THREAD, put, values_of, writes_of

MIB = 1_048_576


async def newest(saver: BaseCheckpointSaver[str]) -> dict[str, Any]:
    """Return the values of the thread's newest checkpoint."""
    return values_of(await saver.aget_tuple(THREAD))


@pytest.mark.parametrize("mode", MODES)
async def test_a_thread_of_twenty_mebibytes_is_kept(mode: str) -> None:
    """One channel of 20 MiB, and one write of 3 MiB, for every node; the process's context stays small."""
    log = MemoryLog()
    large, write = "x" * (20 * MIB), b"y" * (3 * MIB)
    async with saver_in_mode(mode, lambda name: Node.in_memory(log, node_id=name)) as saver:
        first = await put(saver, {"a": large, "b": "small"}, {"a": "1", "b": "1"})
        await saver.aput_writes(first, [("a", write)], "task")
        found = await saver.aget_tuple(THREAD)
        assert values_of(found) == {"a": large, "b": "small"}
        assert writes_of(found) == [write]
        await put(saver, {"a": large, "b": "next"}, {"a": "1", "b": "2"}, changed=("b",), parent=first)
        assert await newest(saver) == {"a": large, "b": "next"}
        assert writes_of(await saver.aget_tuple(first)) == [write]
    async with Node.in_memory(log) as node:
        state = (await node.recover("langgraph/t")).state
    assert state.content_bytes < 10_000
    assert state.attached_bytes < 24 * MIB


async def test_many_middling_values_fit_an_entry(log: MemoryLog) -> None:
    """Those that together are too large for an entry are attached, the largest first."""
    async with Node.in_memory(log) as node:
        saver = SeekpointSaver(node)
        values = {f"channel-{number}": f"{number}" * 60_000 for number in range(20)}
        await put(saver, values, dict.fromkeys(values, "1"))
        assert await newest(saver) == values


async def test_calls_that_are_too_large_together_take_several_entries(log: MemoryLog) -> None:
    """Each of them alone would fit."""
    async with Node.in_memory(log) as node:
        saver = SeekpointSaver(node)
        first = await put(saver, {}, {})
        await asyncio.gather(*(saver.aput_writes(first, [("a", "x" * 90_000)], f"task-{n}") for n in range(12)))
        assert writes_of(await saver.aget_tuple(first)) == ["x" * 90_000] * 12


async def test_a_copy_and_a_deleted_thread_have_attachments_of_their_own(log: MemoryLog) -> None:
    """The copy is whole when the original is gone."""
    async with Node.in_memory(log) as node:
        saver = SeekpointSaver(node)
        first = await put(saver, {"a": "x" * MIB}, {"a": "1"})
        await saver.aput_writes(first, [("a", "y" * MIB)], "task")
        await saver.acopy_thread("t", "copy")
        await saver.adelete_thread("t")
        found = await saver.aget_tuple({"configurable": {"thread_id": "copy"}})
        assert (values_of(found), writes_of(found)) == ({"a": "x" * MIB}, ["y" * MIB])
        assert await saver.aget_tuple(first) is None


async def test_what_only_old_checkpoints_have_is_dropped_at_last(
    log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest checkpoints have their values always, older ones as long as there is room."""
    monkeypatch.setattr(large_values, "KEPT_BYTES_MAX", 3 * MIB + 100)
    async with Node.in_memory(log) as node:
        saver, parent = SeekpointSaver(node), None
        chain = []
        for number in range(6):
            values = {"a": f"{number}" * MIB, "kept": "k" * MIB}
            changed = ("a", "kept") if number == 0 else ("a",)
            versions = {"a": f"{number}", "kept": "1"}
            parent = await put(saver, values, versions, changed=changed, parent=parent)
            chain.append(parent)
        assert await newest(saver) == {"a": "5" * MIB, "kept": "k" * MIB}
        assert values_of(await saver.aget_tuple(chain[4]))["a"] == "4" * MIB
        with pytest.raises(UnknownAttachment):
            await saver.aget_tuple(chain[0])
        assert (await node.recover("langgraph/t")).state.attached_bytes <= 3 * MIB + 100
        assert [one.config async for one in saver.alist(THREAD)] == chain[:3:-1]
        await saver.acopy_thread("t", "copy")
        copied = [one async for one in saver.alist({"configurable": {"thread_id": "copy"}})]
        assert [values_of(one)["a"] for one in copied] == ["5" * MIB, "4" * MIB]


async def test_a_checkpoint_whose_writes_were_dropped_is_listed_no_more(log: MemoryLog) -> None:
    """Its own values are there: but without the writes it is not the one that the graph had. Asking for it says why."""
    async with Node.in_memory(log) as node:
        saver = SeekpointSaver(node)
        first = await put(saver, {"a": "x"}, {"a": "1"})
        await saver.aput_writes(first, [("a", "y" * MIB)], "task")
        second = await put(saver, {"a": "z"}, {"a": "2"}, parent=first)
        assert [one.config async for one in saver.alist(THREAD)] == [second, first]
        thread = await node.open("langgraph/t", shared=True)
        [(digest, one)] = thread.state.attachments.items()
        await thread.detach(ref_of(f"{digest}:{one.size}", "langgraph/t"))
        assert [one.config async for one in saver.alist(THREAD)] == [second]
        with pytest.raises(UnknownAttachment):
            await saver.aget_tuple(first)


async def test_a_value_that_another_node_drops_meanwhile_is_attached_again(
    log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the moment when it is found attached and the entry that needs it."""
    large = "x" * MIB
    async with Node.in_memory(log) as node, Node.in_memory(log, node_id="other") as other:
        saver = SeekpointSaver(node)
        first = await put(saver, {"a": large}, {"a": "1"})
        await put(saver, {"a": "small"}, {"a": "2"}, parent=first)
        thread = await other.open("langgraph/t", shared=True)
        attach, was_dropped = large_values.with_attachments, False

        async def attach_and_drop(op: Any, process: Any) -> Any:
            nonlocal was_dropped
            found = await attach(op, process)
            if not was_dropped:
                was_dropped = True
                await thread.detach(*[ref_of(f"{digest}:0", "langgraph/t") for digest in digests_of(found)])
            return found

        monkeypatch.setattr(thread_log, "with_attachments", attach_and_drop)
        await put(saver, {"a": large}, {"a": "3"}, parent=first)
        assert was_dropped
        assert await newest(saver) == {"a": large}


async def test_a_saver_whose_content_is_old_writes_to_a_thread_that_was_deleted(log: MemoryLog) -> None:
    """The large value that it knows of is gone with the thread: the new checkpoint does not need it."""
    async with Node.in_memory(log) as node:
        saver, other = SeekpointSaver(node), SeekpointSaver(node)
        await put(saver, {"a": "x" * MIB, "b": "old"}, {"a": "1", "b": "1"})
        await other.adelete_thread("t")
        await put(other, {"b": "begun"}, {"b": "2"})
        await put(saver, {"a": "y", "b": "new"}, {"a": "3", "b": "3"}, changed=("b",))
        assert await newest(saver) == {"b": "new"}


async def wide_thread(saver: SeekpointSaver, run_id: str) -> tuple[dict[str, Any], dict[str, str], Any]:
    """Put one checkpoint after the other, each with a value of 60 KiB more; return values, versions and the last."""
    values, versions, parent = dict[str, Any](), dict[str, str](), None
    for number in range(20):
        name = f"channel-{number}"
        values[name], versions[name] = f"{number}" * 30_000, "1"
        parent = await put(saver, values, versions, changed=(name,), parent=parent, metadata={"run_id": run_id})
    return values, versions, parent


async def test_a_branch_may_take_over_more_than_fits_an_entry(log: MemoryLog) -> None:
    """The values that the older checkpoint had, each written by an entry of its own, are attached together."""
    async with Node.in_memory(log) as node:
        saver = SeekpointSaver(node)
        values, versions, parent = await wide_thread(saver, "a")
        await put(saver, dict.fromkeys(values, "small"), dict.fromkeys(versions, "2"), parent=parent)
        branch = {**values, "channel-0": "branch"}
        await put(saver, branch, {**versions, "channel-0": "3"}, changed=("channel-0",), parent=parent)
        assert await newest(saver) == branch
    async with Node.in_memory(log) as node:
        assert await newest(SeekpointSaver(node)) == branch


async def test_a_wide_checkpoint_is_the_newest_again_when_a_run_is_removed(log: MemoryLog) -> None:
    """The entry that removes the run brings its values back, as attachments."""
    async with Node.in_memory(log) as node:
        saver = SeekpointSaver(node)
        values, versions, parent = await wide_thread(saver, "a")
        last = {"run_id": "b"}
        await put(saver, dict.fromkeys(values, "small"), dict.fromkeys(versions, "2"), parent=parent, metadata=last)
        await saver.adelete_for_runs(["b"])
        assert await newest(saver) == values
