"""150 real agent runs through the real path: journaled on Kafka, recovered, and equal to a plain fold from nothing."""

from __future__ import annotations

import asyncio

import pytest

from agent_programs import read_records
from real_runs import NO_RUNS, RUNS, journal_run, load_runs
from seekpoint.consumers import Recovery
from seekpoint.producers import Node
from seekpoint.schemas import Codec, Settings, State, fold, new_state

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(not RUNS.exists(), reason=NO_RUNS),
]


async def test_real_runs_recover_as_a_plain_fold_and_read_back_word_for_word(journal: Settings) -> None:
    """Owner's memory, recovery and plain fold have one hash; every message comes back as it was."""
    runs = load_runs()
    gate = asyncio.Semaphore(25)
    async with Node.connect(journal) as node:
        hashes = await asyncio.gather(*(journal_run(node, run, gate) for run in runs))
    states = plain_fold(journal)
    async with Recovery.connect(journal) as recovery:
        recovered = await recovery.recover_many(run["run_id"] for run in runs)
        verified = await recovery.verify(runs[0]["run_id"])
    assert verified.agrees
    for run, content_hash in zip(runs, hashes, strict=True):
        found = recovered[run["run_id"]].state
        assert found.hash == states[run["run_id"]].hash
        assert found.content_hash == content_hash
        assert [(m.role, m.content, m.tool_calls) for m in found.conversation] == [
            (m["role"], m.get("content"), m.get("tool_calls") or None) for m in run["messages"]
        ]


def plain_fold(settings: Settings) -> dict[str, State]:
    """Every process of the journal, by the pure fold over what a plain consumer reads."""
    codec, states = Codec(), dict[str, State]()
    for partition in range(settings.partitions):
        for message in read_records(settings, partition):
            entry = codec.decode(message.value())
            before = states.get(entry.process_id) or new_state()
            states[entry.process_id] = fold(before, message.offset(), entry)
    return states
