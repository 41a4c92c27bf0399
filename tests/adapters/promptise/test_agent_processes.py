"""Promptise's own ``AgentProcess`` on a journal of Seekpoint: it goes on at another node with all that it had."""

from __future__ import annotations

from typing import Any

import pytest
from promptise.runtime import AgentProcess, MissionConfig, ProcessConfig, SecretScopeConfig
from promptise.runtime.journal import JournalEntry, ReplayEngine, RewindMode
from promptise.runtime.lifecycle import ProcessState

from promptise_process import NAME, JournaledAgent
from seekpoint import MemoryLog, Node
from seekpoint.adapters.promptise import SeekpointJournal, use_journal
from seekpoint.errors import Refused

EXTRA: dict[str, Any] = {"key": "extra", "value": {"k": [1]}}


async def test_a_process_goes_on_at_another_node() -> None:
    """With its context, its conversation and its count of runs; each node writes what the next one recovers."""
    log = MemoryLog()
    for number in range(3):
        async with Node.in_memory(log, node_id=f"n{number}") as node:
            agent, journal = JournaledAgent(), SeekpointJournal(node)
            use_journal(agent.process, journal)
            await agent.process.start()
            recovered = agent.process.recovered
            assert (recovered or {}).get("invocation_count", 0) == number
            assert agent.process.context.get("done", []) == [*range(number)]
            assert len(await agent.process._conversation_buffer.async_snapshot()) == 2 * number
            await agent.run(number)
            if number != 1:  # the second node is lost
                await agent.process.stop()
            found = await journal.recover(NAME)
            assert found == await ReplayEngine(journal).recover(NAME)
            assert found["lifecycle_state"] == ("running" if number == 1 else "stopped")
            assert found["context_state"] == {"done": [*range(number + 1)]}
            if number == 1:
                await agent.process.stop()


async def test_a_recovery_reads_no_history(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process gets what Promptise's engine finds in the whole history, and the number of entries in it."""
    log = MemoryLog()
    async with Node.in_memory(log) as node:
        journal, agent = SeekpointJournal(node), JournaledAgent()
        use_journal(agent.process, journal)
        await agent.process.start()
        await agent.run(0)
        await agent.process.stop()
        for kind, data in (("state_transition", {"to_state": "running"}), ("context_update", EXTRA), ("error", {})):
            await journal.append(JournalEntry(process_id=NAME, entry_type=kind, data=data))
        wanted = await ReplayEngine(journal).recover(NAME)
    async with Node.in_memory(log) as node:
        journal, agent = SeekpointJournal(node), JournaledAgent()
        use_journal(agent.process, journal)
        monkeypatch.setattr(SeekpointJournal, "read", None)
        await agent.process.start()
        assert agent.process.recovered is not None
        assert agent.process.recovered["entries_replayed"] == wanted["entries_replayed"] > 2
        assert agent.process.recovered["lifecycle_state"] == "running"
        assert agent.process.context.state_snapshot() == wanted["context_state"] == {"done": [0], "extra": {"k": [1]}}
        monkeypatch.undo()
        [recovered] = await journal.read(NAME, entry_type="recovered")
        assert recovered.data["context_keys"] == ["done", "extra"]
        await agent.process.stop()


async def test_a_running_process_is_rewound() -> None:
    """By Promptise's own call; another node recovers what it was rewound to."""
    log = MemoryLog()
    async with Node.in_memory(log) as node, Node.in_memory(log) as other:
        journal, agent = SeekpointJournal(node), JournaledAgent()
        use_journal(agent.process, journal)
        await agent.process.start()
        for number in range(2):
            await agent.run(number)
        updates = await journal.read(NAME, entry_type="context_update")
        await agent.process.rewind(updates[1].entry_id, RewindMode.BOTH)
        assert agent.process.state is ProcessState.RUNNING
        assert agent.process.context.get("done") == [0]
        assert (await SeekpointJournal(other).recover(NAME))["context_state"] == {"done": [0]}
        await agent.process.stop()


async def test_secrets_and_missions_use_the_same_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    """No secret gets into the log; the entries of both are under the name of the process."""
    monkeypatch.setenv("THE_KEY", "s3cret-value")
    log = MemoryLog()
    async with Node.in_memory(log) as node:
        journal = SeekpointJournal(node)
        agent = JournaledAgent(
            secrets=SecretScopeConfig.model_validate({"enabled": True, "secrets": {"key": "${THE_KEY}"}}),
            mission=MissionConfig.model_validate({"enabled": True, "objective": "work"}),
        )
        use_journal(agent.process, journal)
        await agent.process.start()
        agent.process.context.put("note", "it is s3cret-value")
        await agent.run(0)
        assert agent.process._mission is not None
        agent.process._mission.fail("enough")
        await agent.process.stop()
        kinds = {one.entry_type for one in await journal.read(NAME)}
        assert {"secret_access", "mission_failed", "context_update", "checkpoint"} <= kinds
        assert (await journal.recover(NAME))["context_state"]["note"] == "it is [REDACTED]"
        raw = b"".join(
            record.value or b"" for partition in range(log.partitions)
            for batch in log.read(partition, 0, log.watermarks(partition).high) for record in batch.records
        )  # fmt: skip
        assert b"s3cret" not in raw


async def test_missions_use_the_same_journal() -> None:
    """Also where nothing is redacted."""
    async with Node.in_memory() as node:
        journal = SeekpointJournal(node)
        agent = JournaledAgent(mission=MissionConfig.model_validate({"enabled": True, "objective": "work"}))
        use_journal(agent.process, journal)
        await agent.process.start()
        assert agent.process._mission is not None
        agent.process._mission.fail("enough")
        await agent.process.stop()
        assert len(await journal.read(NAME, entry_type="mission_failed")) == 1


async def test_processes_that_cannot_use_it_are_refused() -> None:
    """One without a journal, and one that was started; the reason says what to do."""
    async with Node.in_memory() as node:
        journal = SeekpointJournal(node)
        with pytest.raises(Refused, match="keeps no journal"):
            use_journal(AgentProcess(NAME, ProcessConfig.model_validate({"journal": {"level": "none"}})), journal)
        agent = JournaledAgent()
        await agent.process.start()
        with pytest.raises(Refused, match="was started"):
            use_journal(agent.process, journal)
        await agent.process.stop()


async def test_a_process_that_is_told_not_to_recover_begins_anew() -> None:
    """``recover_on_start=False`` counts as with every journal."""
    config: dict[str, Any] = {"journal": {"level": "full", "backend": "memory", "recover_on_start": False}}
    async with Node.in_memory() as node:
        for number in range(2):
            agent = JournaledAgent(**config)
            use_journal(agent.process, SeekpointJournal(node))
            await agent.process.start()
            assert agent.process.recovered is None
            assert agent.process.context.get("done") is None
            await agent.run(number)
            await agent.process.stop()
