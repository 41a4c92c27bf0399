"""An index of the processes whose ids begin with a prefix: the newest first, with their states, as of now."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from seekpoint.consumers.log_reading.lost_ends import refuse_lost, stands_on_lost
from seekpoint.consumers.log_reading.scan import entries_of
from seekpoint.consumers.recovery.base_finder import view_problem
from seekpoint.consumers.recovery.recovery_report import is_known
from seekpoint.consumers.recovery.view_summaries import NoViewError, missing_view, summaries, view_page
from seekpoint.schemas.errors import JournalGap, LogTruncated
from seekpoint.schemas.folding.fold import advance
from seekpoint.schemas.log.log_ports import Landmark, Record
from seekpoint.schemas.state.process_state import State

if TYPE_CHECKING:
    from seekpoint.consumers.recovery.recovery import Recovery

_PAGE, _BATCH_MAX = 1_000, 500
_KEPT_MAX, _KEPT_BYTES_MAX = 10_000, 67_108_864
"""How many states are kept, and how many bytes their content may have together."""
_NARROW_MAX = 10
"""How many reads of a narrower prefix read its ids alone, before all ids of the index are read."""


class _ReadTo(NamedTuple):
    """The place up to which a partition is read: the next offset, and the last record before it."""

    offset: int
    landmark: Landmark | None


class _News(NamedTuple):
    """The processes that a read of a partition met, and the place up to which it read."""

    place: _ReadTo
    times: dict[bytes, int]
    """The times of the newest records of processes, in milliseconds."""
    records: dict[bytes, list[Record]]
    """The records behind what was read before."""


class ProcessIndex:
    """The processes of one prefix, for one event loop: see ``Node.index``.

    The first call reads the ids of the processes: from the view, or without one from the log. A later call reads what
    was written since.
    """

    def __init__(self, recovery: Recovery, prefix: str) -> None:
        self._recovery = recovery
        self._log = recovery.blocking.log
        self._prefix = prefix.encode()
        self._places: dict[int, _ReadTo] = {}
        self._newest: dict[bytes, int] = {}
        """The times of the newest records in milliseconds; the process that was written last is at the end."""
        self._states: dict[bytes, State] = {}
        """The one that was used last is at the end."""
        self._lock = asyncio.Lock()
        is_sorted = recovery.settings.sqlite_path is not None or recovery.settings.has_view
        self._narrow_left = _NARROW_MAX if is_sorted else 0

    async def newest(self, prefix: str = "", *, at_once: int = 10) -> AsyncIterator[tuple[str, State]]:
        """Yield the processes whose ids begin with ``prefix``, and their states, those that were written last first.

        Has every entry that was acknowledged before the call. By the times of records, which are those of their
        writers' clocks. ``at_once``: how many states are recovered first; later it is more. Raises what a recovery
        raises.
        """
        begin = prefix.encode()
        if not self._places and self._narrow_left and begin.startswith(self._prefix) and begin != self._prefix:
            self._narrow_left -= 1
            async for process_id, state in ProcessIndex(self._recovery, prefix).newest(prefix, at_once=at_once):
                yield process_id, state
            return
        await self._read_new()
        left = [key for key in reversed(self._newest) if key.startswith(begin)]
        while left:
            some, left, at_once = left[:at_once], left[at_once:], min(2 * at_once, _BATCH_MAX)
            for key, state in await self._states_of(some):
                if is_known(state):
                    yield key.decode(), state

    async def _states_of(self, keys: Sequence[bytes]) -> list[tuple[bytes, State]]:
        async with self._lock:  # what is recovered has all that is read until it is kept
            missing = [key.decode() for key in keys if key not in self._states]
            recovered = await self._recovery.recover_many(missing, must_be_current=True) if missing else {}
            missing_states = {process_id.encode(): one.state for process_id, one in recovered.items()}
            found = [(key, missing_states[key] if key in missing_states else self._states.pop(key)) for key in keys]
            self._states.update(found)
            width = sum(state.content_bytes for state in self._states.values()) if missing else 0
            while missing and (len(self._states) > _KEPT_MAX or width > _KEPT_BYTES_MAX):
                width -= self._states.pop(next(iter(self._states))).content_bytes
        return found

    async def _read_new(self) -> None:
        async with self._lock:
            try:
                found = await self._found()
            except (JournalGap, LogTruncated) as exc:  # begin anew, as another program does
                self._places, self._newest, self._states = {}, {}, {}
                if isinstance(exc, LogTruncated):
                    raise
                found = await self._found()
            for partition, news in enumerate(found):
                self._places[partition] = news.place
                for key in news.records.keys() & self._states.keys():
                    draft = self._states[key].thaw()
                    for record, entry in entries_of(news.records[key], self._log):
                        advance(draft, record.offset, entry, self._log.limits)
                    self._states[key] = draft.snapshot()
            for time, key in sorted((time, key) for news in found for key, time in news.times.items()):
                self._newest.pop(key, None)
                self._newest[key] = time

    async def _found(self) -> list[_News]:
        recovery, places = self._recovery, self._places
        partitions = range(self._log.partitions)
        return await asyncio.gather(*(recovery.in_thread(partial(self._news, at, places.get(at))) for at in partitions))

    # --- in a thread
    def _news(self, partition: int, place: _ReadTo | None) -> _News:
        end = self._recovery.blocking.readable_end(partition)
        if place is not None and place.offset == end:
            return _News(place, {}, {})
        times, (start, landmark) = self._all(partition) if place is None else ({}, place)
        marks, records, first, last = self._log.watermarks(partition), dict[bytes, list[Record]](), None, landmark
        for batch in self._log.read(partition, start, marks.high):
            first, last = first or batch.first, batch.last or last
            for record in batch.records:
                if record.key is not None and record.key.startswith(self._prefix):
                    records.setdefault(record.key, []).append(record)
        if stands_on_lost(self._log, partition, () if landmark is None else (landmark,), first, marks):
            raise JournalGap("the log lost its end, and the loss was accepted", partition=partition)
        times |= {key: some[-1].timestamp_ms for key, some in records.items()}
        return _News(_ReadTo(marks.high, last), times, records)

    def _all(self, partition: int) -> tuple[dict[bytes, int], _ReadTo]:
        """Return the processes that the view has, or that a trimmed log has, and where to read on in the log."""
        recoverer = self._recovery.blocking
        times, first, after = dict[bytes, int](), None, b""
        try:
            while True:
                meta, page = view_page(recoverer, partition, after, self._prefix, _PAGE)
                first = first or meta
                if first is None or meta is None or meta.token != first.token:
                    raise NoViewError(missing_view(partition))
                times |= {one.process_id.encode(): one.updated_us // 1_000 for one in page}
                if len(page) < _PAGE:
                    break
                after = page[-1].process_id.encode()
            marks = self._log.watermarks(partition)
            if first.applied is None or (problem := view_problem(first, self._log.topic_id, marks)) is not None:
                raise NoViewError(str(problem))
            landmark = Landmark(first.applied, first.leader_epoch)
            if refuse_lost(self._log, partition, (landmark,)):
                raise NoViewError("it stands on entries that the log lost")
            return times, _ReadTo(first.applied + 1, landmark)
        except NoViewError:
            marks = self._log.watermarks(partition)
            if not marks.low:
                return self._in_log(partition, marks.high)
            found = summaries(recoverer, partition, lambda why: None)  # only checkpoints tell which there are
            every = {one.process_id.encode(): one.updated_us // 1_000 for one in found}
            return {key: time for key, time in every.items() if key.startswith(self._prefix)}, _ReadTo(marks.high, None)

    def _in_log(self, partition: int, high: int) -> tuple[dict[bytes, int], _ReadTo]:
        from seekpoint.consumers.sqlite.sqlite_log import SqliteLog

        if isinstance(self._log, SqliteLog):  # a file has an index of keys
            return self._log.newest_times(partition, self._prefix, high), _ReadTo(high, None)
        return {}, _ReadTo(0, None)
