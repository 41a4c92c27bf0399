"""The histories that somebody looks at: those that were looked at last stay in memory, up to a bound in bytes."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from threading import Lock, RLock
from typing import TYPE_CHECKING, NamedTuple

import orjson

from seekpoint.console.web.data.call_store import CallStore
from seekpoint.console.web.data.entry_index import EntryIndex
from seekpoint.console.web.data.timeline import GrowingTimeline
from seekpoint.schemas.bodies import Promoted
from seekpoint.schemas.folding.fold import Verdict

if TYPE_CHECKING:
    from collections.abc import Collection

    from seekpoint.console.services.arguments.target import CommandTarget
    from seekpoint.console.web.data.entry_index import EntryMark
    from seekpoint.console.web.data.timeline import Timeline
    from seekpoint.consumers.recovery.process_history import Logged
    from seekpoint.consumers.view.process_summary import Summary
    from seekpoint.producers.durable.replay.call_records import CallRecord
    from seekpoint.schemas.bodies.entry import Entry

BYTES_MAX = 64 << 20
"""So many bytes all histories take, roughly. The one that is looked at stays, however large it is."""
_COUNTS = frozenset({Verdict.APPLIED, Verdict.CLAIM_WON, Verdict.DELIVERED})
_HOLE_MAX = 500
"""So many offsets of no interest are read on the way, rather than begin another read behind them."""
_MARK_BYTES = 250
_NEWEST_MAX = 600
_NEWEST_BYTES_MAX = 2 << 20
_SLICE_S = 0.03
_TOLD = frozenset(
    {
        "claim", "finished", "lifecycle_changed", "message_said", "invocation_started", "error_recorded", "rewound",
        "forked", "promoted", "agent_started", "cancel_requested", "suspend_requested", "resume_requested",
    }
)  # fmt: skip
"""The kinds of entries that a story tells, besides calls."""


class StoryMark(NamedTuple):
    """A part of a story: an entry, or a call that began with it."""

    offset: int
    call: int | None


class Histories:
    """Keeps the indexes and calls of the processes that were looked at last."""

    def __init__(self, target: CommandTarget, *, bytes_max: int = BYTES_MAX) -> None:
        self._target = target
        self._bytes_max = bytes_max
        self._kept: OrderedDict[str, ProcessHistory] = OrderedDict()
        self._lock = Lock()

    def of(self, process_id: str) -> ProcessHistory:
        """Return the history of a process, which reads the log when it is asked. Raises ``InvalidName``.

        Those that were not looked at for the longest time go if all take too many bytes.
        """
        with self._lock:
            found = self._kept.pop(process_id, None) or ProcessHistory(self._target, process_id)
            self._kept[process_id] = found
            while len(self._kept) > 1 and self.bytes > self._bytes_max:
                self._kept.popitem(last=False)
            return found

    @property
    def bytes(self) -> int:
        """Return how many bytes the histories take, estimated."""
        return sum(one.bytes for one in self._kept.values())


class ProcessHistory:
    """One process: the marks of its entries, its entries, its calls, its timeline. Every call blocks.

    It reads the log in slices, each entry once. Hold ``lock`` while you use what grows, such as calls.
    """

    def __init__(self, target: CommandTarget, process_id: str) -> None:
        self._target = target
        self.process_id = process_id
        self.lock = RLock()
        self._cuts = True
        self.index = EntryIndex(target, process_id, self)

    # --- what the index reads -----------------------------------------------------------------------------------------
    def forget(self) -> None:
        """Begin again."""
        self._calls = CallStore(self._entries_of, self.process_id, self._target.log.limits, cuts=self._cuts)
        self._timeline = GrowingTimeline()
        self.story: list[StoryMark] = []
        """The parts of the story so far, in log order. The list grows."""
        self._newest: deque[tuple[Logged, int]] = deque()
        self._newest_bytes = 0
        self._before: dict[str, object] | None = None
        self._summary: tuple[int, Summary] | None = None

    def before(self, one: Logged) -> None:
        """Note the content before a promotion, which tells whether it took calls of the fork."""
        from seekpoint.producers.history.content_parts import calls_in

        self._before = None
        if isinstance(one.entry.body, Promoted):
            self._before = calls_in(orjson.loads(self.index.draft.snapshot().content_json()))

    def take(self, one: Logged, mark: EntryMark, size: int) -> None:
        """Receive the next entry."""
        from seekpoint.producers.history.content_parts import calls_in

        self._timeline.take_mark(mark)
        self._keep_newest(one, size)
        body = one.entry.body
        if mark.verdict not in _COUNTS and not (mark.verdict is None and self.index.begins is None):
            return
        takes_calls = isinstance(body, Promoted) and self._before != calls_in(orjson.loads(body.content))
        known = len(self._calls.found)
        for number, call, is_new in self._calls.take(one.offset, one.entry, size, takes_calls=takes_calls):
            self._timeline.take_call(number, call, is_new=is_new)
        new = range(known, len(self._calls.found))
        if mark.kind in _TOLD:
            self.story.append(StoryMark(one.offset, None))
        self.story += [StoryMark(one.offset, number) for number in new]

    def _keep_newest(self, one: Logged, size: int) -> None:
        self._newest.append((one, size))
        self._newest_bytes += size
        while len(self._newest) > _NEWEST_MAX or (self._newest_bytes > _NEWEST_BYTES_MAX and len(self._newest) > 1):
            self._newest_bytes -= self._newest.popleft()[1]

    @property
    def bytes(self) -> int:
        """Return how many bytes it takes, estimated."""
        return len(self.index.marks) * _MARK_BYTES + self._calls.bytes + 3 * self._newest_bytes

    # --- reading ------------------------------------------------------------------------------------------------------
    def read_on(self, seconds: float) -> bool:
        """Read for about so long; return whether everything was read that the log has. Raises ``UnknownProcess``."""
        with self.lock:
            found = self.index.read_on(seconds)
            if self._cuts and any(isinstance(one.entry.body, Promoted) for one, _ in self._newest):
                self._cuts = False  # a promotion compares whole values of calls
                self.index.restart()
                return False
            return found

    def read(self, *, enough: Callable[[], bool] = lambda: False, seconds: float = float("inf")) -> bool:
        """Read until ``enough``, the end, or for so long, and let others read between. Return whether it is the end."""
        from time import monotonic

        deadline = monotonic() + seconds
        while not self.read_on(_SLICE_S):
            if enough() or monotonic() >= deadline:
                return False
        return True

    def calls(self) -> list[CallRecord]:
        """Return the calls that were read so far, as ``seekpoint steps`` has them; long values may be cut.

        Raises ``JournalGap`` if the beginning of the history was deleted.
        """
        if self.index.begins is False:
            from seekpoint.console.services.histories.process_scan import entries_of

            entries_of(self._target, self.process_id)  # raises what says which entries are missing
        return self._calls.found

    @property
    def calls_read(self) -> int:
        """Return how many calls were read so far."""
        return len(self._calls.found)

    @property
    def cost_usd(self) -> str | None:
        """Return the cost of all calls so far in USD; None if no cost is known."""
        return self._calls.cost_usd

    def whole_call(self, number: int) -> CallRecord:
        """Return a call with its whole input and output, which may read its entries again."""
        from seekpoint.producers.history.inherited_calls import calls_of

        with self.lock:
            try:
                return self._calls.whole(number, lambda offsets: [one.entry for one in self.entries(sorted(offsets))])
            except KeyError:
                return calls_of(self._entries_of, self.process_id, self._target.log.limits)[number]

    def timeline(self) -> Timeline:
        """Return the timeline so far, whose rows refer to calls. Raises as ``calls`` does."""
        self.calls()
        return self._timeline.timeline()

    def summary(self) -> Summary | None:
        """Return what a list says of the process; None as long as not everything was read."""
        from seekpoint.consumers.view.process_summary import summary_of
        from seekpoint.schemas.bodies.entry import process_key

        with self.lock:
            if not self.index.is_complete or not self.index.begins:
                return None
            version = len(self.index.marks)
            if self._summary is None or self._summary[0] != version:
                state = self.index.draft.snapshot()
                self._summary = version, summary_of(self.index.partition, process_key(self.process_id), state)
            return self._summary[1]

    def _entries_of(self, process_id: str) -> list[Entry]:
        from seekpoint.console.services.histories.process_scan import entries_of

        return entries_of(self._target, process_id)

    def entries(self, offsets: Collection[int]) -> Iterator[Logged]:
        """Yield the entries at ascending offsets, the newest from memory, without those deleted meanwhile."""
        with self.lock:
            newest = {one.offset: one for one, _ in self._newest}
        wanted = frozenset(offsets)
        if wanted and wanted <= newest.keys():
            yield from (newest[offset] for offset in offsets)
        else:
            yield from self._read_at(offsets, wanted)

    def _read_at(self, offsets: Collection[int], wanted: frozenset[int]) -> Iterator[Logged]:
        from seekpoint.consumers.log_reading.scan import entries_of as decoded
        from seekpoint.consumers.recovery.process_history import Logged
        from seekpoint.schemas.bodies.entry import process_key

        log, key = self._target.log, process_key(self.process_id)
        for start, stop in _stretches(offsets, log.watermarks(self.index.partition).low):
            for batch in log.read(self.index.partition, start, stop, {key}):
                chosen = [record for record in batch.records if record.offset in wanted]
                for record, entry in decoded(chosen, log):
                    yield Logged(record.offset, record.timestamp_ms, entry)


def _stretches(offsets: Collection[int], low: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of the log that hold the offsets.

    >>> [*_stretches([1, 5, 400, 5000], 3)]
    [(5, 401), (5000, 5001)]
    """
    start: int | None = None
    stop = 0
    for offset in offsets:
        if offset < low:
            continue
        if start is not None and offset - stop > _HOLE_MAX:
            yield start, stop
            start = None
        start = offset if start is None else start
        stop = offset + 1
    if start is not None:
        yield start, stop
