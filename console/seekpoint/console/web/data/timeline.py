"""The timeline of a process: its rows in the order of time, the epochs behind them, and the idle gaps. Pure."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from seekpoint.schemas.folding.fold import Verdict
from seekpoint.schemas.frozen_struct import FrozenStruct

if TYPE_CHECKING:
    from seekpoint.console.web.data.entry_index import EntryMark
    from seekpoint.producers.durable.replay.call_records import CallRecord

__all__ = ["WAITS", "Band", "Bar", "GrowingTimeline", "IdleGap", "Timeline", "bars_of", "branch_of", "timeline_of"]

WAITS = frozenset({"timer", "gate", "receive", "child"})
"""The kinds of calls that wait for something, and do nothing themselves."""
_GAP_US_MIN = 1_000_000
_GAP_SHARE = 50
"""An idle time of more than this part of the busy time is folded."""
_BARS_MAX = 60


class Bar(FrozenStruct, frozen=True, kw_only=True):
    """A part of a row."""

    what: str
    """``succeeded``, ``failed``, ``retry`` or another outcome of an attempt; ``interrupted``: the owner was lost;
    ``open``: under way; ``backoff``: the time between two attempts; ``wait``: a timer, gate, child or receipt;
    ``fenced``: a write of a former owner."""
    start_us: int
    end_us: int | None
    """None: it goes on."""


class Band(FrozenStruct, frozen=True, kw_only=True):
    """The time of one owner: from a claim that won to the next one."""

    epoch: int
    node_id: str
    start_us: int
    end_us: int | None


class IdleGap(FrozenStruct, frozen=True, kw_only=True):
    """A time in which nothing was written and no attempt ran."""

    start_us: int
    end_us: int


class TimelinePlace(NamedTuple):
    """A row: where it begins, and the number of its call, or the mark of a fenced write."""

    start_us: int
    call: int
    fenced: EntryMark | None


class Timeline(NamedTuple):
    """The timeline of a process, as its page shows it."""

    places: list[TimelinePlace]
    bands: list[Band]
    gaps: list[IdleGap]
    start_us: int
    end_us: int
    """Of the last entry, or of the last attempt if that is later."""


class GrowingTimeline:
    """The timeline of a process, which grows with each of its entries."""

    def __init__(self) -> None:
        self._places: list[TimelinePlace] = []
        self._bands: list[Band] = []
        self._busy: list[tuple[int, int]] = []
        self._kept: Timeline | None = None

    def take_mark(self, mark: EntryMark) -> None:
        """Receive the next entry: a claim begins a band, and a fenced write is a row."""
        self._kept = None
        if mark.verdict is Verdict.STALE:
            self._put(TimelinePlace(mark.ts_us, -1, mark))
        elif mark.verdict is Verdict.CLAIM_WON:
            if self._bands:
                self._bands[-1] = replace(self._bands[-1], end_us=mark.ts_us)
            self._bands.append(Band(epoch=mark.epoch, node_id=mark.node_id or "", start_us=mark.ts_us, end_us=None))
        _merge(self._busy, mark.ts_us, mark.ts_us)

    def take_call(self, number: int, call: CallRecord, *, is_new: bool) -> None:
        """Receive a call that began, or of which an attempt began or ended."""
        self._kept = None
        if is_new:
            self._put(TimelinePlace(call.attempts[0].started_at_us, number, None))
        for one in call.attempts if is_new else call.attempts[-1:]:
            is_known = call.kind not in WAITS and one.ended_at_us is not None
            end = one.ended_at_us if is_known and one.ended_at_us is not None else one.started_at_us
            _merge(self._busy, one.started_at_us, max(one.started_at_us, end))

    def timeline(self) -> Timeline:
        """Return the timeline so far. Its places go on growing."""
        if self._kept is None:
            busy = self._busy
            start, end = (busy[0][0], busy[-1][1]) if busy else (0, 0)
            self._kept = Timeline(self._places, [*self._bands], _gaps(busy), start, end)
        return self._kept

    def _put(self, place: TimelinePlace) -> None:
        if not self._places or place.start_us >= self._places[-1].start_us:
            self._places.append(place)
        else:
            insort(self._places, place, key=lambda one: one.start_us)


def timeline_of(calls: Sequence[CallRecord], marks: Iterable[EntryMark]) -> Timeline:
    """Return the timeline: a row for each call and for each write of a fenced owner, by the time they begin."""
    growing = GrowingTimeline()
    for number, call in enumerate(calls):
        growing.take_call(number, call, is_new=True)
    for mark in marks:
        growing.take_mark(mark)
    return growing.timeline()


def bars_of(call: CallRecord) -> list[Bar]:
    """Return the bars of a call: its attempts and the times between them, or that it waits."""
    attempts = call.attempts
    if call.kind in WAITS:
        return [Bar(what="wait", start_us=attempts[0].started_at_us, end_us=call.last.ended_at_us)]
    bars: list[Bar] = []
    for at, one in enumerate(attempts):
        following = attempts[at + 1].started_at_us if at + 1 < len(attempts) else None
        start, end = one.started_at_us, one.ended_at_us
        if one.outcome is None and following is None:
            bars.append(Bar(what="open", start_us=start, end_us=None))
            continue
        if one.outcome is None:
            bars.append(Bar(what="interrupted", start_us=start, end_us=following))
            continue
        end = max(start, start if end is None else end)  # clocks of two owners may differ
        bars.append(Bar(what=one.outcome, start_us=start, end_us=end))
        if following is not None and following > end:
            bars.append(Bar(what="backoff", start_us=end, end_us=following))
    return bars if len(bars) <= _BARS_MAX else [*bars[: _BARS_MAX // 2], *bars[-_BARS_MAX // 2 :]]


def branch_of(key: str) -> str:
    """Return the branch that made a call; empty for the code outside of branches.

    >>> branch_of("2/~1.2/~3/price:1"), branch_of("look:1"), branch_of("order/~1/x:1")
    ('~1.2/~3', '', '~1')
    """
    return "/".join(part for part in key.split("/")[:-1] if part.startswith("~"))


def _merge(busy: list[tuple[int, int]], start: int, end: int) -> None:
    """Add a busy time to those in order. Those with less than the least gap between them are one.

    >>> busy = [(0, 10), (5_000_000, 5_000_010)]
    >>> _merge(busy, 3_000_000, 3_000_001); _merge(busy, 4_100_000, 4_200_000); busy
    [(0, 10), (3000000, 3000001), (4100000, 5000010)]
    """
    first = bisect_left(busy, start - _GAP_US_MIN + 1, key=lambda one: one[1])
    last = first
    while last < len(busy) and busy[last][0] - end < _GAP_US_MIN:
        start, end = min(start, busy[last][0]), max(end, busy[last][1])
        last += 1
    busy[first:last] = [(start, end)]


def _gaps(busy: Sequence[tuple[int, int]]) -> list[IdleGap]:
    least = max(_GAP_US_MIN, sum(end - start for start, end in busy) // _GAP_SHARE)
    return [
        IdleGap(start_us=before[1], end_us=after[0])
        for before, after in pairwise(busy)
        if after[0] - before[1] >= least
    ]
