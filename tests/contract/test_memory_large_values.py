"""Large values on a log in memory, with a view and checkpoints that the test puts there."""

from __future__ import annotations

from large_values_contract import BYTES
from seekpoint.consumers import Recoverer, Tier
from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY, Checkpoint, Floor
from seekpoint.consumers.checkpoints.memory_checkpoints import MemoryCheckpoints
from seekpoint.consumers.recovery.attachments import read_attachment
from seekpoint.consumers.view.memory_view import MemoryView
from seekpoint.consumers.view.view_store import Pointer
from seekpoint.producers import Node
from seekpoint.schemas import MemoryLog


async def test_20_mib_are_read_in_every_tier() -> None:
    """View, checkpoint and whole log give the same references, and the bytes are read by them."""
    log, view, checkpoints = MemoryLog(partitions=1), MemoryView(1), MemoryCheckpoints(1)
    async with Node.in_memory(log) as node, node.open("case-17") as process:
        for name, data in BYTES.items():
            await process.update(name, await process.attach(data))
    state, end = Recoverer(log).recover("case-17").state, log.watermarks(0).high
    token = view.install(0, log.topic_id)
    view.put(0, token, {b"case-17": (state, Pointer(999, 0))})
    view.ready(0, token, end - 1, log.leader_epoch_at(0, end - 1))
    epoch = log.leader_epoch_at(0, state.offset)
    checkpoints.write(0, [(b"case-17", Checkpoint.of("case-17", 0, state, log.topic_id, epoch).to_bytes())])
    checkpoints.write(
        0, [(FLOOR_KEY, Floor(offset=end, leader_epoch=epoch, topic_id=log.topic_id, since=0).to_bytes())]
    )
    recoverer = Recoverer(log, view=view, checkpoints=checkpoints)
    for tier in Tier:
        found = recoverer.recover("case-17", tier=tier)
        assert found.report.tier == tier
        for name, data in BYTES.items():
            assert read_attachment(log, found.state, found.state.context[name]) == data
