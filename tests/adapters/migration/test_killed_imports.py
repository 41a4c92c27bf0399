"""An import that is killed with -9 and repeated loses nothing and writes nothing twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from import_kills import import_with_kills
from langgraph_sources import BEGIN, case_graph, facts_of, sqlite_store, thread
from seekpoint import Node
from seekpoint.adapters.langgraph import SeekpointSaver
from seekpoint.adapters.langgraph.thread_names import parts_of


async def killed(folder: Path, *, threads: int, rounds: int, kills: int, seed: int) -> int:
    """Import threads with kills, check the journal against the store, and return how many kills there were."""
    store, journal = sqlite_store(folder), folder / "journal.db"
    with store.saver() as saver:
        graph = case_graph(saver)
        for number in range(threads):
            for _ in range(rounds):
                graph.invoke(BEGIN, thread(f"t{number}"))
        theirs = {tuple(one["place"]): one for one in map(facts_of, saver.list(None))}
    run = import_with_kills(["--from", store.kind, store.place], journal, kills=kills, seed=seed)
    assert {one["status"] for one in run.report["imported"]} <= {"imported", "there"}
    assert len(run.report["imported"]) == threads
    async with Node.local(journal) as node:
        found = [facts_of(one) async for one in SeekpointSaver(node).alist(None)]
        assert {tuple(one["place"]): one for one in found} == theirs
        assert len(found) == len(theirs)
        for number in range(threads):
            bodies = [record.body async for record in node.records(f"langgraph/t{number}")]
            times = Counter(
                (key, value) for body in bodies for key, value in getattr(body, "values", {}).items()
                if parts_of(key)[0] == "checkpoint"
            )  # fmt: skip
            assert set(times.values()) == {1}
    return run.kills


async def test_a_killed_import_is_repeated(tmp_path: Path) -> None:
    """Two kills: every checkpoint is there as in the store, and was written once."""
    assert await killed(tmp_path, threads=5, rounds=4, kills=2, seed=1) == 2


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_an_import_is_killed_fifty_times(tmp_path: Path) -> None:
    """Fifty kills of one import."""
    assert await killed(tmp_path, threads=20, rounds=40, kills=50, seed=2) == 50
