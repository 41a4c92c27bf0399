"""The import of a process into a journal: its entries, one by one, under its own id or another one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from seekpoint.producers.node import runtime_of
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.errors import Refused, UnknownProcess
from seekpoint.schemas.folding.fold import SHARED_PREFIX
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.values.process_ids import named_process_key
from seekpoint.schemas.wire.codec import encode_within

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seekpoint.consumers.recovery.process_history import Logged
    from seekpoint.producers.node import Node

_AT_ONCE = 500


class Imported(FrozenStruct, frozen=True):
    """The result of an import."""

    process_id: str
    entries: int
    """How many entries were appended."""
    known: int
    """How many entries were there before, from an interrupted import."""


async def import_process(node: Node, entries: Sequence[Logged], process_id: str | None = None) -> Imported:
    """Append a process's ``entries`` to the node's journal, as ``process_id`` if that is given.

    The id must be unused. The same import again continues one that was interrupted. The process keeps its owner until
    it is claimed: open it as you would open a dead node's. Idempotency keys stay those of the original. Raises
    ``Refused``, ``LimitExceeded`` before anything is sent, ``AppendTimeout``.
    """
    target = process_id or entries[0].entry.process_id
    key = named_process_key(target)
    if target.startswith(SHARED_PREFIX) is not entries[0].entry.process_id.startswith(SHARED_PREFIX):
        raise Refused("a shared value and a process are not each other's copy", process_id=target)
    runtime = runtime_of(node)
    limits = await runtime.in_thread(lambda: runtime.reader.limits)
    values = [encode_within(one.entry._replace(process_id=target), key, limits) for one in entries]
    known = await _known(node, target, [one.entry for one in entries])
    partition = partition_of(key, runtime.reader.partitions)
    for first in range(known, len(values), _AT_ONCE):
        await asyncio.gather(*runtime.append_records(partition, key, values[first : first + _AT_ONCE]))
    return Imported(target, len(values) - known, known)


async def _known(node: Node, process_id: str, entries: Sequence[Entry]) -> int:
    """Return how many of ``entries`` are in the journal. ``Refused`` if the id has other entries."""
    try:
        there = [one.entry.id async for one in node.entries(process_id)]
    except UnknownProcess:
        return 0
    if there != [entry.id for entry in entries[: len(there)]]:
        raise Refused(
            "the id is used in this journal", process_id=process_id, hint="import it under another id: --as NEW_ID"
        )
    return len(there)
