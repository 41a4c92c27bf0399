"""The timeline of a process: its rows in the order of time, the epochs behind them, and the idle gaps. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from seekpoint.schemas.folding.fold import Verdict
from seekpoint.schemas.frozen_struct import FrozenStruct

if TYPE_CHECKING:
    from seekpoint.console.web.data.process_index import EntryMark
    from seekpoint.producers.durable.replay.call_records import CallRecord

__all__ = ["WAITS", "Band", "Bar", "Gap", "Timeline", "bars_of", "branch_of", "timeline_of"]

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


class Gap(FrozenStruct, frozen=True, kw_only=True):
    """A time in which nothing was written and no attempt ran."""

    start_us: int
    end_us: int


class Place(NamedTuple):
    """A row: where it begins, and the number of its call, or the mark of a fenced write."""

    start_us: int
    call: int
    fenced: EntryMark | None


class Timeline(NamedTuple):
    """What is computed once for a process, until an entry is appended."""

    places: list[Place]
    bands: list[Band]
    gaps: list[Gap]
    start_us: int
    end_us: int
    """Of the last entry, or of the last attempt if that is later."""


def timeline_of(calls: Sequence[CallRecord], marks: Sequence[EntryMark]) -> Timeline:
    """Return the timeline: a row for each call and for each write of a fenced owner, by the time they begin."""
    places = [Place(call.attempts[0].started_at_us, number, None) for number, call in enumerate(calls)]
    places += [Place(mark.ts_us, -1, mark) for mark in marks if mark.verdict is Verdict.STALE]
    places.sort(key=lambda place: place.start_us)
    busy = _merged(_activity(calls, marks))
    start, end = (busy[0][0], busy[-1][1]) if busy else (0, 0)
    return Timeline(places, _bands(marks), _gaps(busy), start, end)


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


def _bands(marks: Iterable[EntryMark]) -> list[Band]:
    claims = [mark for mark in marks if mark.verdict is Verdict.CLAIM_WON]
    ends = [*(claim.ts_us for claim in claims[1:]), None][: len(claims)]  # a process nobody claimed has mail only
    return [
        Band(epoch=one.epoch, node_id=one.node_id or "", start_us=one.ts_us, end_us=end)
        for one, end in zip(claims, ends, strict=True)
    ]  # fmt: skip


def _activity(calls: Iterable[CallRecord], marks: Iterable[EntryMark]) -> Iterator[tuple[int, int]]:
    for mark in marks:
        yield mark.ts_us, mark.ts_us
    for call in calls:
        for one in call.attempts:
            is_known = call.kind not in WAITS and one.ended_at_us is not None
            end = one.ended_at_us if is_known and one.ended_at_us is not None else one.started_at_us
            yield one.started_at_us, max(one.started_at_us, end)


def _merged(activity: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the busy times in order. Those with less than the least gap between them are one."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(activity):
        if found and start - found[-1][1] < _GAP_US_MIN:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found


def _gaps(busy: Sequence[tuple[int, int]]) -> list[Gap]:
    least = max(_GAP_US_MIN, sum(end - start for start, end in busy) // _GAP_SHARE)
    return [
        Gap(start_us=before[1], end_us=after[0]) for before, after in pairwise(busy) if after[0] - before[1] >= least
    ]
