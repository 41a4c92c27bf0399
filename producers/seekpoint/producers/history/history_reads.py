"""Read the histories of many processes: those that are asked for at the same time share one read of their partition.

``entries_after`` reads what was applied to one process after a moment of its past.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from seekpoint.consumers.log_reading.scan import entries_of
from seekpoint.consumers.recovery.process_history import Logged, histories, whole_history
from seekpoint.schemas.bodies.entry import process_key
from seekpoint.schemas.errors import JournalGap
from seekpoint.schemas.folding.fold import Verdict, advance
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.values.process_ids import named_process_key

if TYPE_CHECKING:
    from seekpoint.consumers.recovery.recoverer import Recoverer
    from seekpoint.producers.node_runtime import NodeRuntime
    from seekpoint.schemas.bodies.entry import Entry
    from seekpoint.schemas.log.log_ports import LogReader
    from seekpoint.schemas.state.process_state import State

_COUNTS = frozenset({Verdict.APPLIED, Verdict.DELIVERED})
T = TypeVar("T")


class HistoryReads:
    """Reads whole histories for one event loop.

    A call that comes while its partition is being read waits for the end of that read, and shares the next one with all
    that wait: a partition is read once for many processes.
    """

    def __init__(self, runtime: NodeRuntime) -> None:
        self._runtime = runtime
        self._waiting: dict[int, list[_Call]] = {}
        self._reading: dict[int, asyncio.Task[None]] = {}

    async def read(self, process_id: str, then: Callable[[list[Logged]], T], *, start: int = 0) -> T:
        """Return ``then`` of all entries of the process, computed in the thread that reads them.

        Below the offset ``start`` the process has no entry. Raises what ``Recovery.entries`` and ``then`` raise.
        """
        partition = partition_of(named_process_key(process_id), self._runtime.reader.partitions)
        call = _Call(process_id, start, then, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(partition, []).append(call)
        if partition not in self._reading:
            self._reading[partition] = asyncio.create_task(self._answer(partition), name="seekpoint-histories")
        answer: T = await call.answer
        return answer

    async def _answer(self, partition: int) -> None:
        recoverer = self._runtime.recovery.blocking
        try:
            while calls := self._waiting.pop(partition, []):
                answers = await self._answers(recoverer, partition, calls)
                for call, (value, error) in zip(calls, answers, strict=True):
                    if call.answer.done():
                        continue  # its caller was cancelled
                    if error is None:
                        call.answer.set_result(value)
                    else:
                        call.answer.set_exception(error)
        finally:
            del self._reading[partition]

    async def _answers(self, recoverer: Recoverer, partition: int, calls: list[_Call]) -> Sequence[_Answer]:
        try:
            answers: Sequence[_Answer] = await self._runtime.in_thread(lambda: _read(recoverer, partition, calls))
        except Exception as exc:
            return [(None, exc)] * len(calls)
        return answers


class _Call(NamedTuple):
    process_id: str
    start: int
    then: Callable[[list[Logged]], Any]
    answer: asyncio.Future[Any]


_Answer = tuple[Any, Exception | None]
"""The value of a call, or its error."""


def _read(recoverer: Recoverer, partition: int, calls: list[_Call]) -> list[_Answer]:
    """Return the answers of ``calls``. Blocks."""
    shared = {} if len(calls) == 1 else _shared(recoverer, partition, calls)
    return [_answer(recoverer, call, shared.get(process_key(call.process_id))) for call in calls]


def _shared(recoverer: Recoverer, partition: int, calls: list[_Call]) -> dict[bytes, list[Logged]]:
    """Return the histories that one read of the partition finds. None of those that were trimmed meanwhile."""
    start = min(call.start for call in calls)
    keys = {process_key(call.process_id) for call in calls}
    try:
        return histories(recoverer, partition, keys, start or None)
    except JournalGap:
        return {}


def _answer(recoverer: Recoverer, call: _Call, found: list[Logged] | None) -> _Answer:
    """Return the answer of one call. A process that the shared read did not find is read alone, which says why."""
    try:
        return call.then(found or whole_history(recoverer, call.process_id, start=call.start)), None
    except Exception as exc:
        return None, exc


def entries_after(reader: LogReader, process_id: str, past: State) -> list[Entry]:
    """Return the entries that were applied after ``past``, in log order: not those of fenced owners. Blocks."""
    key = process_key(process_id)
    partition = partition_of(key, reader.partitions)
    batches = reader.read(partition, past.offset + 1, reader.watermarks(partition).high, {key})
    draft = past.thaw()
    return [
        entry
        for batch in batches
        for record, entry in entries_of(batch.records, reader)
        if advance(draft, record.offset, entry, reader.limits) in _COUNTS
    ]
