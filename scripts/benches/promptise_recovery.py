"""Recovery of a Promptise process with 100,000 entries, beside Promptise's own engine on its own journal in files.

The entries are updates of 20 context values, with a checkpoint after each thousand. A projector has applied all of
them. Each of our recoveries is of a new journal object on a warm node; the results of all are compared.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from typing import Any

from promptise.runtime.journal import FileJournal, JournalEntry, JournalProvider, ReplayEngine

from _table import Table, arguments, p50, p99, progress
from append import journal
from seekpoint.adapters.promptise import SeekpointJournal
from seekpoint.compose import LocalCluster
from seekpoint.consumers import Projector, Tier
from seekpoint.producers import Node

ENTRIES, CHECKPOINT_EVERY, TOGETHER = 100_000, 1_000, 50
OURS, THEIRS = 200, 3
NAME = "clerk"


async def main() -> int:
    """Measure, print, and say whether the limit was held."""
    options = arguments(__doc__).parse_args()
    table = Table("promptise_recovery")
    with tempfile.TemporaryDirectory(prefix="seekpoint-promptise-") as folder:
        async with LocalCluster(brokers=1) as cluster:
            settings = await journal(cluster, "promptise", fsync=False, partitions=1)
            theirs = FileJournal(folder)
            async with Node.connect(settings) as node, Projector.connect(settings) as projector:
                progress(f"{ENTRIES} entries")
                await fill(SeekpointJournal(node), TOGETHER)
                await fill(theirs, 1)
                await projector.catch_up()
            async with Node.connect(settings) as node:
                await measure(table, node, theirs)
    return table.finish(json=options.json)


async def fill(into: JournalProvider, together: int) -> None:
    """Write the entries, so many at once."""
    context: dict[str, Any] = {}
    for start in range(0, ENTRIES, together):
        calls: list[Awaitable[None]] = []
        for number in range(start, start + together):
            key, value = f"key-{number % 20}", {"number": number, "text": "x" * 40}
            context[key] = value
            if number % CHECKPOINT_EVERY == CHECKPOINT_EVERY - 100:
                state = {"context_state": dict(context), "lifecycle_state": "running", "invocation_count": number}
                calls.append(into.checkpoint(NAME, state))
            else:
                data = {"key": key, "value": value, "source": "agent"}
                calls.append(into.append(JournalEntry(process_id=NAME, entry_type="context_update", data=data)))
        await asyncio.gather(*calls)


async def measure(table: Table, node: Node, theirs: FileJournal) -> None:
    """Recover in every way."""
    wanted = await ReplayEngine(theirs).recover(NAME)
    ways: dict[str, tuple[int, Callable[[], Awaitable[dict[str, Any]]]]] = {
        "from the view": (OURS, lambda: SeekpointJournal(node).recover(NAME, tier=Tier.VIEW)),
        "from a checkpoint": (OURS, lambda: SeekpointJournal(node).recover(NAME, tier=Tier.CHECKPOINT)),
        "by a scan": (THEIRS, lambda: SeekpointJournal(node).recover(NAME, tier=Tier.SCAN)),
        "ReplayEngine on our journal": (THEIRS, lambda: ReplayEngine(SeekpointJournal(node)).recover(NAME)),
        "ReplayEngine on FileJournal": (THEIRS, lambda: ReplayEngine(theirs).recover(NAME)),
    }
    for what, (rounds, recover) in ways.items():
        taken = []
        for _ in range(rounds):
            began = time.perf_counter()
            found = await recover()
            taken.append((time.perf_counter() - began) * 1000)
            assert found == wanted, what
        table.row(what=what, entries=ENTRIES, p50_ms=p50(taken), p99_ms=p99(taken))
        if rounds == OURS:
            table.at_most(f"{what}, p50, ms", bar=10.0, value=p50(taken))


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
