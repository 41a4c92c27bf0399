"""A Promptise journal in a journal of Seekpoint: every node reads what any has written, and recovers without a read."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from promptise.runtime.journal import (
    InMemoryJournal,
    JournalEntry,
    JournalProvider,
    RewindEngine,
    RewindMode,
)
from promptise.runtime.journal.redact import RedactingJournal

from promptise_journals import T0, entry, replayed, two_journals, update
from seekpoint import MemoryLog, Node, SyncNode
from seekpoint.adapters.promptise import SeekpointJournal
from seekpoint.adapters.promptise.entry_reading import shortest_replay
from seekpoint.errors import AppendTimeout, LimitExceeded, Refused, UnserializableValue

# --- random journals
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
KEYS = st.sampled_from(["a", "b", "c/d", "$e", ""])
STATES = st.sampled_from(["running", "stopped", "", None])
DATA = st.one_of(
    st.tuples(st.just("context_update"), st.fixed_dictionaries({"key": KEYS | st.none()}, optional={"value": VALUES})),
    st.tuples(st.just("state_transition"), st.fixed_dictionaries({}, optional={"to_state": STATES})),
    st.tuples(st.sampled_from(["tool_call", "", "rewind"]), st.dictionaries(st.text(max_size=5), VALUES, max_size=2)),
    st.tuples(st.just("checkpoint"), st.fixed_dictionaries({}, optional={"state": VALUES})),
)
CHECKPOINTS = st.fixed_dictionaries(
    {}, optional={"context_state": st.dictionaries(KEYS, VALUES, max_size=3) | st.none(), "mission": VALUES,
                  "lifecycle_state": st.sampled_from(["running", "suspended"])},
)  # fmt: skip
CALLS = st.lists(st.one_of(DATA, CHECKPOINTS), max_size=12)


async def _written(calls: list[Any], together: int) -> tuple[list[Any], list[Any]]:
    """Make ``calls`` on two nodes in turns, some of them at once, and on Promptise's own journal; recover."""
    own = InMemoryJournal()
    async with two_journals() as journals:
        for start in range(0, len(calls), together):
            journal = journals[start // together % 2]
            asked = []
            for number, call in enumerate(calls[start : start + together], start):
                for each in (own, journal):
                    if isinstance(call, dict):
                        asked.append(each.checkpoint("p", call))
                    else:
                        asked.append(each.append(entry(str(number), call[0], number, **call[1])))
            await asyncio.gather(*asked)
        found = [await each.recover("p") for each in journals] + [await replayed(each) for each in journals]
        state = await journals[0]._recovered("p", None)
        short = InMemoryJournal()
        short._entries = shortest_replay("p", state, T0)
        if state.checkpoint is not None:
            short._checkpoints["p"] = state.checkpoint
        found.append(await replayed(short))
        read = [await each.read("p") for each in journals]
    expected = await replayed(own)
    assert all(one == expected for one in found), (expected, found)
    return await own.read("p"), read


RUNNING = ("state_transition", {"to_state": "running"})


@settings(max_examples=25, deadline=None)
@example(calls=[RUNNING, ("state_transition", {"to_state": ""})], together=1)
@example(calls=[("context_update", {"key": "a", "value": 1}), ("context_update", {"key": "a"})], together=2)
@example(calls=[("context_update", {"key": "a", "value": 1}), {}, ("checkpoint", {}), RUNNING], together=5)
@example(calls=[("context_update", {"key": "a"}), ("checkpoint", {"state": 1}), RUNNING], together=1)
@given(calls=CALLS, together=st.sampled_from([1, 2, 5]))
def test_a_recovery_gives_what_promptise_replays(calls: list[Any], together: int) -> None:
    """By the state, by the whole history, and by the shortest one; on both nodes; whatever was written, and how."""
    own, (one, other) = asyncio.run(_written(calls, together))
    wanted = [(each.entry_type, each.data) for each in own]
    assert [(each.entry_type, each.data) for each in one] == wanted
    assert one == other


# --- reading
async def test_what_one_node_appends_another_reads() -> None:
    """Each entry as it was, in their order, also where the calls alternate; a read by type, time and number."""
    async with two_journals() as journals:
        entries = [entry(f"e{number}", "odd" if number % 2 else "even", number, n=number) for number in range(10)]
        for number, one in enumerate(entries):
            await journals[number % 2].append(one)
        for journal in journals:
            assert await journal.read("p") == entries
            assert await journal.read("p", limit=3) == entries[:3]
            assert await journal.read("p", entry_type="odd", limit=2) == [entries[1], entries[3]]
            assert await journal.read("p", since=T0 + timedelta(seconds=7)) == entries[7:]
            assert await journal.read("p", limit=0) == []
            assert await journal.read("other") == []


async def test_entries_keep_the_order_of_their_calls() -> None:
    """Calls that wait at once are written together, and in their order."""
    async with two_journals() as (here, there):
        entries = [update(f"e{number}", "n", number) for number in range(200)]
        await asyncio.gather(*(here.append(one) for one in entries))
        assert await there.read("p") == entries
        assert (await there.recover("p"))["context_state"] == {"n": 199}


async def test_nodes_that_write_at_once_lose_nothing() -> None:
    """Every entry of both is there once, and each node's in its order."""
    async with two_journals() as journals:

        async def write(side: int) -> None:
            for number in range(30):
                await journals[side].append(update(f"{side}-{number}", f"k{side}", number))

        await asyncio.gather(write(0), write(1))
        found = [one.entry_id for one in await journals[0].read("p")]
        assert [one for one in found if one[0] == "0"] == [f"0-{number}" for number in range(30)]
        assert [one for one in found if one[0] == "1"] == [f"1-{number}" for number in range(30)]
        assert len(found) == 60
        assert (await journals[1].recover("p"))["context_state"] == {"k0": 29, "k1": 29}


async def test_an_entry_is_written_once() -> None:
    """Whoever repeats it, as long as it is among the newest hundred; a checkpoint in between changes nothing."""
    async with two_journals() as (here, there):
        await here.append(update("first", "n", 1))
        await here.append(update("second", "n", 2))
        await here.checkpoint("p", {"context_state": {"n": 2}})
        for journal in (here, there):
            await journal.append(update("first", "n", 1))
        await asyncio.gather(*(there.append(entry("third", "tool_call")) for _ in range(3)))
        assert [one.entry_type for one in await here.read("p")] == [
            "context_update", "context_update", "checkpoint", "tool_call"
        ]  # fmt: skip
        assert (await here.recover("p"))["context_state"] == {"n": 2}
        await asyncio.gather(*(there.append(entry(f"e{number}", "tool_call")) for number in range(96)))
        await here.append(update("first", "n", 1))
        assert len(await here.read("p")) == 100
        await there.append(entry("e96", "tool_call"))
        await there.append(update("first", "n", 1))  # the oldest id is forgotten
        assert len(await here.read("p")) == 102


async def test_an_entry_without_a_known_outcome_may_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a time-out the log may have it."""
    async with two_journals() as (here, _):
        await here.append(update("first", "n", 1))
        process = here._log("p")._process
        assert process is not None
        change = process.change

        async def change_and_fail(**how: Any) -> None:
            await change(**how)
            raise AppendTimeout("no answer")

        with monkeypatch.context() as patched:
            patched.setattr(process, "change", change_and_fail)
            with pytest.raises(AppendTimeout):
                await here.append(update("second", "n", 2))
        await here.append(update("second", "n", 2))
        await here.append(update("third", "n", 3))
        assert [one.entry_id for one in await here.read("p")] == ["first", "second", "third"]


async def test_data_is_copied_when_a_call_begins() -> None:
    """What the caller changes afterwards is not written, and what a reader changes is not read again."""
    async with two_journals() as (here, there):
        one = update("e", "list", [1])
        appending = asyncio.ensure_future(here.append(one))
        await asyncio.sleep(0)
        one.data["value"].append(2)
        await appending
        await here.checkpoint("p", {"context_state": {"list": [1]}})
        (await here.recover("p"))["context_state"]["list"].append(3)
        assert (await there.read("p"))[0].data["value"] == [1]
        assert (await here.last_checkpoint("p")) == {"context_state": {"list": [1]}}


async def test_a_cancelled_caller_leaves_its_entry_to_be_written() -> None:
    """Promptise cancels runs in the middle of their entries: the journal goes on."""
    async with two_journals() as (here, _):
        calls = [asyncio.ensure_future(here.append(entry(f"e{number}", "tool_call"))) for number in range(3)]
        await asyncio.sleep(0)
        calls[1].cancel()
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(one) for one in results] == [type(None), asyncio.CancelledError, type(None)]
        assert [one.entry_id for one in await here.read("p")] == ["e0", "e1", "e2"]


# --- values
async def test_data_is_stored_as_promptise_stores_it_in_files() -> None:
    """What is no JSON is its text, as FileJournal has it; so is NaN. Keys are texts."""
    async with two_journals() as (here, there):
        await here.append(
            entry("e", "tool_call", a=T0, b=float("nan"), c=(1, {2}), d={3: None, True: 1}, e="\ud800", f=2**80)
        )
        [found] = await there.read("p")
        assert found.data == {
            "a": str(T0), "b": "NaN", "c": [1, "{2}"], "d": {"3": None, "true": 1}, "e": "?", "f": 2**80
        }  # fmt: skip


async def test_what_cannot_be_stored_is_refused() -> None:
    """With the reason; the entries beside it are written."""
    async with two_journals() as (here, _):
        circle: dict[str, Any] = {}
        circle["self"] = circle
        with pytest.raises(UnserializableValue, match="Circular"):
            await here.append(entry("e", "tool_call", **circle))
        with pytest.raises(UnserializableValue, match="a text, not int"):
            await here.append(entry("e", "context_update", key=3, value=1))
        with pytest.raises(Refused, match="not negative"):
            await here.read("p", limit=-1)
        deep: Any = 1
        for _ in range(80):
            deep = [deep]
        results = await asyncio.gather(
            here.append(entry("before", "tool_call")), here.append(entry("deep", "tool_call", x=deep)),
            here.append(entry("after", "tool_call")), return_exceptions=True,
        )  # fmt: skip
        assert [type(one) for one in results][::2] == [type(None)] * 2
        assert isinstance(results[1], LimitExceeded | UnserializableValue)
        assert [one.entry_id for one in await here.read("p")] == ["before", "after"]


@pytest.mark.parametrize("name", ["", "a b/c", "ü~\n", "x" * 500, "\ud800", "\u200b"])
async def test_every_name_has_a_process_of_its_own(name: str) -> None:
    """Whatever characters it has, and however long it is."""
    async with two_journals() as (here, there):
        await here.append(JournalEntry("e", name, T0, "tool_call", {}))
        await here.append(JournalEntry("f", name + "y", T0, "tool_call", {}))
        assert [(one.entry_id, one.process_id) for one in await there.read(name)] == [("e", name)]
        assert here.process_id_of(name) != here.process_id_of(name + "y")


# --- the parts of Promptise around it
async def test_a_rewind_goes_back_on_another_node() -> None:
    """The history stays, and a recovery starts from the rewound state."""
    async with two_journals() as (here, there):
        assert isinstance(here, JournalProvider)
        await here.checkpoint("p", {"context_state": {"n": 1}, "conversation": [{"role": "user", "content": "a"}]})
        await here.append(update("bad", "n", 2))
        done = await RewindEngine(there).apply(process_id="p", target_entry_id="bad", mode=RewindMode.BOTH)
        assert done.context_state == {"n": 1}
        await there.checkpoint("p", {"context_state": done.context_state, "conversation": done.conversation})
        assert (await here.recover("p"))["context_state"] == {"n": 1}
        assert [one.entry_type for one in await here.read("p")] == [
            "checkpoint", "context_update", "rewind", "checkpoint"
        ]  # fmt: skip


async def test_a_redacting_journal_keeps_secrets_out_of_the_log() -> None:
    """Neither the history nor the state has one; ``recover`` is reached through it."""

    def redact(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: redact(one) for key, one in value.items()}
        return value.replace("s3cret", "[REDACTED]") if isinstance(value, str) else value

    log = MemoryLog()
    async with Node.in_memory(log) as node:
        inner = SeekpointJournal(node)
        journal = RedactingJournal(inner, redact)
        await journal.append(update("e", "key", "s3cret"))
        await journal.checkpoint("p", {"context_state": {"key": "a s3cret"}})
        assert (await journal.read("p"))[0].data["value"] == "[REDACTED]"
        assert (await journal.recover("p"))["context_state"] == {"key": "a [REDACTED]"}
        raw = b"".join(
            record.value or b"" for partition in range(log.partitions)
            for batch in log.read(partition, 0, log.watermarks(partition).high) for record in batch.records
        )  # fmt: skip
        assert b"[REDACTED]" in raw
        assert b"s3cret" not in raw


async def test_a_deleted_process_begins_anew() -> None:
    """Nothing of it is read or recovered, and the next entry is its first."""
    async with two_journals() as (here, there):
        await here.checkpoint("p", {"context_state": {"n": 1}})
        await there._calls.node.delete(there.process_id_of("p"))
        assert await here.read("p") == []
        assert await here.last_checkpoint("p") is None
        await here.append(update("e", "k", 1))
        assert await there.recover("p") == await replayed(here)
        assert (await there.recover("p"))["context_state"] == {"k": 1}


def test_a_sync_node_serves_every_event_loop() -> None:
    """Programs that call ``asyncio.run`` several times have one."""
    with SyncNode.in_memory() as node:
        journal = SeekpointJournal(node)
        for number in range(3):
            asyncio.run(journal.append(update(f"e{number}", "n", number)))
        assert asyncio.run(journal.recover("p"))["context_state"] == {"n": 2}
        assert len(asyncio.run(journal.read("p"))) == 3
