"""What an agent may call on its process, and what then stands in the journal. In memory."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import pytest

from cuts import of_kind
from folding import refold
from idle_tailers import at_rest
from open_processes import durable_side
from seekpoint.consumers import Recovery
from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY, Checkpoint, Floor
from seekpoint.consumers.checkpoints.memory_checkpoints import MemoryCheckpoints
from seekpoint.producers import Agent, Node, Process
from seekpoint.schemas import MemoryLog, Settings, partition_of
from seekpoint.schemas.bodies import ContentBatch, Custom, StepEnded, StepStarted
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.errors import (
    CheckpointTimeout,
    HandleClosed,
    IllegalCall,
    IllegalTransition,
    JournalUnavailable,
    LimitExceeded,
    ProcessFinished,
    Refused,
    UnserializableValue,
)
from seekpoint.schemas.log.log_ports import Watermarks


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog(partitions=2)


async def test_what_a_process_writes_is_what_any_reader_folds(log: MemoryLog) -> None:
    """The owner's memory, a recovery and a plain fold agree after every kind of call."""
    async with Node.in_memory(log) as node:
        async with node.open("case-17", actor="tester", correlation_id="c-1") as process:
            await process.transition("starting")
            await process.transition("running")
            await process.update("status", "checking")
            await process.update_many({"a": 1, "b": [1.5, None, True]})
            await process.patch({"b": None, "c": {"d": "x"}})
            await process.delete("a")
            await process.say("user", "Where is my order?", name="Ann")
            await process.say(
                "assistant", None, tool_calls=[{"id": "1", "function": {"name": "look", "arguments": "{}"}}]
            )
            await process.say("tool", "found", tool_call_id="1")
            await process.say("assistant", [{"type": "text", "text": "There."}])
            async with process.invocation("message", {"text": "hi"}) as work:
                assert process.state.invocation is not None
                assert process.state.invocation.payload == {"text": "hi"}
                work.result = {"answer": 42}
            await process.record("audit", {"who": "me"})
            await process.suspend("lunch")
            state = process.state
            assert state.context == {"status": "checking", "c": {"d": "x"}}
            assert [message.role for message in state.conversation] == ["user", "assistant", "tool", "assistant"]
            assert state.conversation[1].tool_calls[0]["function"]["name"] == "look"
            assert state.conversation[3].content == [{"type": "text", "text": "There."}]
            assert (state.lifecycle, state.seq, state.epoch, state.invocations) == ("suspended", 15, 1, 1)
            assert refold(log, "case-17").hash == state.hash
        recovered = await node.recover("case-17")
        assert recovered.state.hash == refold(log, "case-17").hash
        assert recovered.state.content_hash == state.content_hash
        assert (recovered.report.entries_applied, recovered.report.last_kind) == (15, "lifecycle_changed")


async def test_a_change_sets_and_deletes_in_one_entry(log: MemoryLog) -> None:
    """All or none; a missing key may be deleted, and the other values keep their text."""
    async with Node.in_memory(log) as node, node.open("p") as process:
        await process.update_many({"a": 1, "b": b"raw", "c": Decimal("1.10")})
        done = await process.change(set={"a": 2, "d": (1,)}, delete={"b", "nobody"})
        assert (done.seq, process.state.context) == (2, {"a": 2, "c": Decimal("1.10"), "d": (1,)})
        unserializable: list[dict[str, Any]] = [
            {"set": {"x": object()}}, {"set": {"x": 1, 2: 1}}, {"delete": ["c", 2]}, {"delete": ["\ud800"]},
        ]  # fmt: skip
        for wrong in unserializable:
            with pytest.raises(UnserializableValue):
                await process.change(**wrong)
        with pytest.raises(Refused, match="sets and deletes"):
            await process.change(set={"c": 1}, delete=["c"])
        with pytest.raises(Refused, match="a list of texts"):
            await process.change(delete="c")
        await process.change()
        assert process.state.seq == 3
        assert refold(log, "p").hash == process.state.hash


async def test_a_change_of_an_agent_is_not_written_twice(log: MemoryLog) -> None:
    """It is a call with a record, in whatever order the keys to delete come."""
    keys = [["x", "y", "z"]]

    async def code(process: Process, input: object) -> object:
        await process.change(set={"a": len(process.state.context)}, delete=keys[0])
        if len(keys) == 1:
            keys[0].reverse()
            keys.append([])
            raise OSError("the machine dies")
        return process.state.context

    async with Node.in_memory(log) as node:
        made = Agent("changes", "1", code)
        with pytest.raises(OSError, match="dies"):
            await node.run(made, "p")
        assert await node.run(made, "p", retry_failed=True) == {"a": 0}
    assert len(of_kind(log, ContentBatch)) == 1


async def test_an_unknown_process_is_the_empty_state_when_missing_is_ok(log: MemoryLog) -> None:
    """Nothing at all: {}, created, 0."""
    async with Node.in_memory(log) as node:
        state = (await node.recover("nobody", missing_ok=True)).state
        assert (state.context, state.lifecycle, state.seq, state.last_kind) == ({}, "created", 0, None)


async def test_values_handed_out_are_copies(log: MemoryLog) -> None:
    """Changing what was handed out changes neither the state nor the journal; the state itself refuses."""
    async with Node.in_memory(log) as node, node.open("p") as process:
        given = {"items": [1]}
        await process.update("cart", given)
        given["items"].append(2)
        process.state.context["cart"]["items"].append(3)
        process.state.context["new"] = 1
        assert process.state.context == {"cart": {"items": [1]}}
        with pytest.raises(AttributeError, match="frozen"):
            process.state.seq = 9
        before = process.state
        await process.update("cart", {})
        assert before.context == {"cart": {"items": [1]}}


async def test_an_illegal_transition_is_refused_and_nothing_is_written(log: MemoryLog) -> None:
    """The writer refuses it; seq and log stay as they were."""
    async with Node.in_memory(log) as node, node.open("p") as process:
        with pytest.raises(IllegalTransition):
            await process.transition("running")
        with pytest.raises(IllegalTransition):
            await process.transition("nowhere")
        assert process.state.seq == 0
        await process.transition("starting")
        assert refold(log, "p").lifecycle == "starting"


async def test_what_exceeds_a_limit_is_refused_before_it_is_sent() -> None:
    """Record, state, depth and items: typed, nothing written, the process goes on."""
    log = MemoryLog(partitions=1, limits=Limits(record_bytes=2_000, state_bytes=3_000, depth=4, items=10))
    async with Node.in_memory(log) as node, node.open("p") as process:
        with pytest.raises(LimitExceeded):
            await process.update("big", "x" * 2_001)
        with pytest.raises(LimitExceeded):
            await process.update("deep", [[[[[1]]]]])
        with pytest.raises(LimitExceeded):
            await process.update("many", list(range(11)))
        with pytest.raises(LimitExceeded):
            await process.update_many(dict.fromkeys("abcdefghijk", 1))
        await process.update("a", "x" * 1_500)
        with pytest.raises(LimitExceeded):
            await process.update("b", "x" * 1_500)
        with pytest.raises(UnserializableValue) as refused:
            await process.update("c", {"x": [object()]})
        assert "x" in refused.value.path
        with pytest.raises(UnserializableValue):
            await process.say("user", "\ud800")
        await process.update("a", "small")
        assert process.state.seq == 2
        assert refold(log, "p").degraded is None


async def test_a_failed_invocation_is_written_as_failed(log: MemoryLog) -> None:
    """Outcome and error stand in its last entry."""
    async with Node.in_memory(log) as node, node.open("p") as process:
        with pytest.raises(KeyError):
            async with process.invocation("message"):
                raise KeyError("x")
        assert process.state.invocation is None
        assert process.state.last_kind == "invocation_ended"


async def test_a_cancelled_invocation_of_a_handle_that_is_over_stays_cancelled(log: MemoryLog) -> None:
    """What keeps its end from being written does not take the cancellation's place."""
    async with Node.in_memory(log) as node:
        process = await node.open("p")

        begun = asyncio.Event()

        async def work() -> None:
            async with process.invocation("message"):
                begun.set()
                await asyncio.Event().wait()

        working = asyncio.create_task(work())
        await asyncio.wait_for(begun.wait(), 60)
        durable_side(process).abandon()
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working


async def test_a_finished_process_keeps_a_gravestone_for_ever(log: MemoryLog) -> None:
    """O8: the result and the content stay, the id is never used again, rewinding is refused."""
    async with Node.in_memory(log) as node:
        async with node.open("p") as process:
            await process.transition("starting")
            await process.say("user", "hi")
            await process.finish({"answer": 42})
            with pytest.raises(HandleClosed):
                await process.rewind(0)
        state = refold(log, "p")
        assert (state.finished, state.result, state.lifecycle, state.seq) == (True, {"answer": 42}, "starting", 3)
        assert [message.text for message in state.conversation] == ["hi"]
        for take_over, accept in ((False, False), (True, False), (False, True)):
            with pytest.raises(ProcessFinished):
                await node.open("p", take_over=take_over, accept_degraded=accept)
        with pytest.raises(ProcessFinished, match="nothing reaches it"):
            await node.signal("p", "too-late")
        after = refold(log, "p")
        assert (after.hash, after.refused_externals) == (state.hash, 1)


async def test_external_entries_wait_in_the_mailbox_until_the_owner_takes_them(log: MemoryLog) -> None:
    """O1: a signal changes nothing the agent sees but its mailbox; receiving it is an owner's entry that names it."""
    async with Node.in_memory(log) as node:
        first = await node.signal("p", "approve", {"by": "Ann"}, actor="ann")
        async with node.open("p") as process:
            assert list(process.state.mailbox) == [first]
            await node.signal("p", "approve", {"by": "Bob"})
            cancel = await node.cancel("p", "enough")
            item = await process.receive("approve", timeout_s=60)
            assert (item.payload, item.actor) == ({"by": "Ann"}, "ann")
            assert (await process.receive("approve", timeout_s=60)).payload == {"by": "Bob"}
            assert (await process.receive(timeout_s=60)).id == cancel
            with pytest.raises(TimeoutError):
                await process.receive(timeout_s=0.2)
            assert process.state.seq == 3
            assert refold(log, "p").hash == process.state.hash


async def test_two_tasks_that_receive_at_once_get_two_signals(log: MemoryLog) -> None:
    """What one is taking, no other takes: a signal reaches the agent once."""
    async with Node.in_memory(log) as node:
        sent = [await node.signal("p", "go", number) for number in range(2)]
        async with node.open("p") as process:
            taken = await asyncio.gather(*(process.receive(timeout_s=60) for _ in sent))
            assert [item.id for item in taken] == sent
            with pytest.raises(TimeoutError):
                await process.receive(timeout_s=0)


async def test_who_waits_for_mail_waits_for_kafka_too(log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that cannot be read for a while is a delay, as it is for appends."""
    looks = iter(range(3))
    watermarks = log.watermarks

    def silent_at_first(partition: int) -> Watermarks:
        if next(looks, None) is not None:
            raise JournalUnavailable("silent")
        return watermarks(partition)

    async with Node.in_memory(log) as node, Node.in_memory(log) as other, node.open("p") as process:
        await at_rest(node)
        sent = await other.signal("p", "go")
        monkeypatch.setattr(log, "watermarks", silent_at_first)
        assert (await process.receive(timeout_s=60)).id == sent
        assert next(looks, None) is None


async def test_one_signal_id_is_delivered_once(log: MemoryLog) -> None:
    """Sent twice, in the mailbox once."""
    async with Node.in_memory(log) as node:
        sent = await node.signal("p", "go")
        assert await node.signal("p", "go", signal_id=sent) == sent
        assert len(refold(log, "p").mailbox) == 1


async def test_calls_at_once_keep_their_order_and_all_count(log: MemoryLog) -> None:
    """gather() of many appends: contiguous seqs, in the order they were called."""
    async with Node.in_memory(log) as node, node.open("p") as process:
        done = await asyncio.gather(*(process.record("n", index) for index in range(200)))
        assert [one.seq for one in done] == list(range(1, 201))
        payloads, partition = [], partition_of(b"p", log.partitions)
        for batch in log.read(partition, 0, log.watermarks(partition).high, {b"p"}):
            bodies = [log.codec.decode(record.value).body for record in batch.records]
            payloads += [body.payload for body in bodies if isinstance(body, Custom)]
        assert payloads == [str(index) for index in range(200)]


async def test_a_checkpoint_that_nobody_saves_is_a_typed_timeout(log: MemoryLog) -> None:
    """No projector runs: the request is in the log, and the caller is told that nothing came of it."""
    async with Node.in_memory(log) as node, node.open("p") as process:
        with pytest.raises(CheckpointTimeout):
            await process.checkpoint(timeout_s=0.1)
        assert process.state.seq == 1


async def test_a_checkpoint_returns_once_it_is_saved(log: MemoryLog) -> None:
    """Saved means: in the checkpoint topic, as of the request or later."""
    kept = MemoryCheckpoints(log.partitions)
    recovery = Recovery.in_memory(log, checkpoints=kept)
    async with Node(log, log, Settings(redis_url=None), recovery=recovery) as node, node.open("p") as process:
        asked = asyncio.create_task(process.checkpoint(timeout_s=5))
        await asyncio.sleep(0.1)
        assert not asked.done()
        partition = partition_of(b"p", log.partitions)
        saved = Checkpoint.of("p", partition, refold(log, "p"), log.topic_id, -1)
        floor = Floor(offset=0, leader_epoch=-1, topic_id=log.topic_id, since=0)
        kept.write(partition, [(b"p", saved.to_bytes()), (FLOOR_KEY, floor.to_bytes())])
        assert await asked == saved.offset


async def test_an_entry_that_does_not_fit_the_calls_is_refused_and_nothing_is_written(log: MemoryLog) -> None:
    """Not as a transition: whoever writes such entries by hand learns which rule it was."""
    async with Node.in_memory(log) as node, node.open("p") as process:
        with pytest.raises(IllegalCall, match="not under way"):
            await durable_side(process).append(StepEnded(key="a:1", attempt=1, outcome="succeeded"))
        with pytest.raises(IllegalCall, match="attempt 2"):
            durable_side(process).send(StepStarted(key="a:1", position=1, name="a", digest="d", attempt=2))
        assert process.state.seq == 0
        await process.update("still", "open")
        assert refold(log, "p").seq == 1
