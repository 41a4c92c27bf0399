"""What the index of processes promises on every log, as one suite: a test of a log brings three ``nodes``."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from seekpoint.producers import Node
from seekpoint.producers.node import runtime_of
from seekpoint.schemas import bodies as b
from seekpoint.schemas.log.partition import partition_of

if TYPE_CHECKING:
    from seekpoint.consumers.recovery.recoverer import Recoverer

__all__ = ["ProcessIndexContract", "begin_views", "check_index"]


async def _ids(node: Node, **how: Any) -> list[str]:
    found = [one.process_id async for one in node.processes(**how)]
    return [one for one in found if not one.startswith("~")]  # those of `begin_views`


async def check_index(writer: Node, readers: list[Node]) -> None:
    """Write processes of all kinds; each reader finds them at once, by id, in pages."""
    shared = [f"thread/{number}" for number in range(5)]
    for name in reversed(shared):
        await (await writer.open(name, shared=True)).record("turn", 1)
    async with writer.open("case/owned") as process:
        await process.update("n", 1)
    async with writer.open("case/finished") as process:
        await process.finish("done")
    await writer.shared("settings").set({"a": 1})
    for node in readers:
        assert await _ids(node) == ["case/finished", "case/owned", *shared]
        assert await _ids(node, prefix="thread/") == shared
        assert await _ids(node, prefix="thread/", after="thread/2") == ["thread/3", "thread/4"]
        assert await _ids(node, after="case/owned", limit=2) == shared[:2]
        assert await _ids(node, prefix="nothing") == []
    for number in range(3):
        await (await writer.open(f"thread/2-{number}", shared=True)).record("turn", 1)
        for node in readers:
            assert f"thread/2-{number}" in await _ids(node, prefix="thread/2", after="thread/2")
            newest = [one async for one in node.processes(prefix=f"thread/2-{number}")]
            assert [(one.seq, one.status) for one in newest] == [(1, "created")]
            many = await node.recover_many(["case/owned", f"thread/2-{number}", "nobody"])
            assert [(name, one.known, one.state.seq) for name, one in many.items()] == [
                ("case/owned", True, 2), (f"thread/2-{number}", True, 1), ("nobody", False, 0),
            ]  # fmt: skip
    await writer.delete("thread/2-1")
    for node in readers:
        assert await _ids(node, prefix="thread/2-") == ["thread/2-0", "thread/2-2"]


async def begin_views(node: Node) -> None:
    """Return once a projector keeps a view of every partition."""
    recoverer, reader = runtime_of(node).recovery.blocking, runtime_of(node).reader
    async with asyncio.timeout(30):
        for partition in range(reader.partitions):
            await runtime_of(node).append_external(_id_in(partition, reader.partitions), b.Signal("go", "null"))
            while not await asyncio.to_thread(_is_kept, recoverer, partition):  # noqa: ASYNC110  # another part keeps it
                await asyncio.sleep(0.02)


def _is_kept(recoverer: Recoverer, partition: int) -> bool:
    view = recoverer.base_finder.view
    meta = None if view is None else view.meta(partition)
    return meta is not None and meta.applied is not None


def _id_in(partition: int, partitions: int) -> str:
    return next(name for n in range(1_000) if partition_of((name := f"~{n}").encode(), partitions) == partition)


class ProcessIndexContract:
    """The promises."""

    async def test_every_reader_finds_what_was_acknowledged(self, nodes: list[Node]) -> None:
        """Without a view: from the log."""
        await check_index(nodes[0], nodes)
