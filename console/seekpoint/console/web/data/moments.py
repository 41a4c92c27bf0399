"""The states of a process at every seq: some are kept, the others are folded from the nearest one before them."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from seekpoint.schemas.bodies.entry import process_key
from seekpoint.schemas.errors import JournalGap, UnknownPoint, UnknownProcess
from seekpoint.schemas.folding.fold import Verdict, advance
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.state.process_state import State, new_state

if TYPE_CHECKING:
    from seekpoint.console.services.arguments.target import CommandTarget
    from seekpoint.console.web.data.histories import Histories
    from seekpoint.consumers.recovery.process_history import Logged

_PROCESSES_MAX = 4
_INTERVAL = 256
"""A state is kept after so many entries. The interval doubles whenever the kept states are larger than allowed."""
_KEPT_BYTES_MAX = 96 * 1_048_576
_ALL_BYTES_MAX = 128 * 1_048_576
"""Of all processes but the two that were looked at last."""
_NEAR_MAX = 24
_NEAR_BYTES_MAX = 16 * 1_048_576
"""What is folded on the way to an asked state stays for a while too, for the next step of somebody who walks."""
_SLOT_BYTES = 50
"""What an item of a table costs in each copy of the table. Its value is shared by all copies."""
_LISTED_MAX = 100
_LONG = 5_000
"""So many offsets are read while somebody waits. Of more the page says that it reads."""


class JudgedEntry(NamedTuple):
    """An entry, and what the fold made of it."""

    logged: Logged
    verdict: Verdict


class Moment(NamedTuple):
    """A process right after one seq, and how it came there from the seq before."""

    seq: int
    first_seq: int
    """The first seq whose state can be shown: above 1 if the beginning of the log was deleted."""
    last_seq: int
    earlier: State
    """After the seq before this one."""
    before: State
    """Right before the entry of this seq: what nobody's entries changed in between is in it."""
    after: State
    entries: list[JudgedEntry]
    """The entries since the seq before, the newest ones if they are many. The last one has this seq."""
    between: int
    """How many entries there are between the seq before and the entry of this seq."""
    behind: int
    """How many entries without a seq follow the last seq."""


class Moments:
    """Keeps the states of the processes that were looked at last."""

    def __init__(self, target: CommandTarget, histories: Histories) -> None:
        self._target = target
        self._histories = histories
        self._kept: OrderedDict[str, ProcessMoments] = OrderedDict()
        self._lock = Lock()
        self.verifying = Lock()
        """Held by the one verification at a time."""

    def of(self, process_id: str) -> ProcessMoments:
        """Return the moments of a process, which reads the log when it is asked."""
        with self._lock:
            found = self._kept.pop(process_id, None) or ProcessMoments(self._target, self._histories, process_id)
            self._kept[process_id] = found
            while len(self._kept) > _PROCESSES_MAX or (len(self._kept) > 2 and self._bytes() > _ALL_BYTES_MAX):
                self._kept.popitem(last=False)
            return found

    def _bytes(self) -> int:
        return sum(one.kept_bytes for one in self._kept.values())


class _KeptState(NamedTuple):
    """A kept state."""

    at: int
    """The place of the entry after which it is; -1: the state with which the log begins."""
    state: State
    read_bytes: int
    """The bytes of the entries since the kept state before it."""

    @property
    def bytes(self) -> int:
        """Return about what the state costs beside the one before: its tables, and what differs from that one."""
        content = self.state.content_bytes + self.state.mailbox_bytes
        return _table_bytes(self.state) + min(content, self.read_bytes)


def _table_bytes(state: State) -> int:
    values, _, calls, mail = state.counts  # messages are in one list, which all states share
    return _SLOT_BYTES * (values + calls + mail + len(state.remembered))


class ProcessMoments:
    """The states of one process. Thread safe; every call blocks.

    The first call reads the whole history once; the others read what was appended, and the entries between the asked
    state and a kept one before it. All calls raise ``UnknownProcess``, and ``JournalGap`` if the log was trimmed and no
    checkpoint can be used.
    """

    def __init__(self, target: CommandTarget, histories: Histories, process_id: str) -> None:
        self._target = target
        self._histories = histories
        self.process_id = process_id
        self.partition = partition_of(process_key(process_id), target.log.partitions)
        self._lock = Lock()
        self._is_reading = False
        self._forget(0)

    @property
    def is_reading(self) -> bool:
        """Whether another thread reads a long history now, so that a call would have to wait."""
        return self._is_reading

    def at(self, seq: int | None = None) -> Moment:
        """Return the process right after ``seq``, by default its last. Raises ``UnknownPoint`` for another one.

        Of a process whose owners wrote nothing, the moment is the present one, and its seq is 0.
        """
        with self._lock:
            self._extend()
            wanted = self.last_seq if seq is None else seq
            self._check(wanted)
            place, earlier_place = self._place(wanted), self._place(wanted - 1)
            if wanted == 0:
                place, earlier_place = len(self._offsets) - 1, -1
            earlier = self._state_at(earlier_place)
            before = self._state_at(max(earlier_place, place - 1))
            after = self._state_at(place)
            last_place = self._place(self.last_seq) if self.last_seq else place
            return Moment(
                wanted, self.first_seq, self.last_seq, earlier, before, after, self._judged(earlier_place, place),
                max(0, place - 1 - earlier_place), len(self._offsets) - 1 - last_place,
            )  # fmt: skip

    def state(self, seq: int | None = None) -> State:
        """Return the state right after ``seq``, by default as of now. Raises as ``at`` does."""
        with self._lock:
            self._extend()
            if seq is None:
                return self._draft.snapshot()
            self._check(seq)
            return self._state_at(self._place(seq))

    def entries_until(self, seq: int, entries_max: int) -> list[Logged] | None:
        """Return all entries up to the one of ``seq``, None if they are too many. Raises as ``at`` does.

        Also raises ``JournalGap`` if the first entries were deleted.
        """
        with self._lock:
            self._extend()
            self._check(seq)
            if not self.is_whole:
                raise JournalGap(
                    "the beginning of the history was deleted", process_id=self.process_id, partition=self.partition,
                    low=self._low,
                )  # fmt: skip
            count = self._place(seq) + 1
            return None if count > entries_max else [*self._read(0, count)]

    # --- the history ----------------------------------------------------------------------------------------------
    def _forget(self, low: int) -> None:
        self._low = low
        self._position = 0
        self._offsets, self._seqs = array("q"), array("q")
        self._interval = _INTERVAL
        self._near: OrderedDict[int, State] = OrderedDict()
        self._base = _Base(new_state(), 0)
        self._kept = [_KeptState(-1, self._base.state, 0)]
        self.kept_bytes = 0
        """About what the kept states cost."""
        self._read_bytes = 0
        self._draft = self._base.state.thaw()

    @property
    def is_whole(self) -> bool:
        """Whether the log has all entries of the process."""
        return self._base.at_offset == 0

    @property
    def first_seq(self) -> int:
        """The first seq that can be shown; 0: no owner wrote anything."""
        least = self._base.state.seq or 1
        at = bisect_left(self._seqs, least)
        return self._seqs[at] if at < len(self._seqs) and not self._base.state.seq else self._base.state.seq

    @property
    def last_seq(self) -> int:
        """The last seq that the fold applied; 0: no owner wrote anything."""
        return self._seqs[-1] if self._seqs else self._base.state.seq

    def _check(self, seq: int) -> None:
        if not self.first_seq <= seq <= self.last_seq:
            raise UnknownPoint(
                "there is no state after this seq", process_id=self.process_id, at_seq=seq, seq=self.last_seq,
                hint=f"ask for a seq from {self.first_seq} to {self.last_seq}",
            )  # fmt: skip

    def _place(self, seq: int) -> int:
        """Return the place of the first entry with whose end ``seq`` is reached; -1: the base has it."""
        return -1 if seq <= self._base.state.seq else bisect_left(self._seqs, seq)

    def _extend(self) -> None:
        """Fold what was appended since the last call."""
        log = self._target.log
        edges = log.watermarks(self.partition)
        if edges.low != self._low or edges.high < self._position:
            self._forget(edges.low)
            if edges.low > 0:
                self._begin_with(_base_of(self._target, self.process_id, self.partition))
        start = max(self._position, self._base.at_offset, edges.low)
        self._is_reading = edges.high - start > _LONG
        try:
            self._read_on(start, edges.high)
        finally:
            self._is_reading = False
        if not self._offsets and self.is_whole:
            log.check()
            raise UnknownProcess("no such process", journal=log.name, process_id=self.process_id)

    def _read_on(self, start: int, high: int) -> None:
        from seekpoint.consumers.log_reading.scan import entries_of

        log, key = self._target.log, process_key(self.process_id)
        if start < high:
            for batch in log.read(self.partition, start, high, {key}):
                for record, entry in entries_of(batch.records, log):
                    verdict = advance(self._draft, record.offset, entry, log.limits)
                    self._take(record.offset, len(record.value or b""), verdict)
                self._position = batch.next_offset
        self._position = max(self._position, high)

    def _begin_with(self, base: _Base) -> None:
        self._base = base
        self._kept = [_KeptState(-1, base.state, 0)]
        self._draft = base.state.thaw()

    def _take(self, offset: int, width: int, verdict: Verdict) -> None:
        if verdict is Verdict.SKIPPED:  # the base has it
            return
        self._offsets.append(offset)
        self._seqs.append(self._draft.seq)
        self._read_bytes += width
        if len(self._offsets) % self._interval == 0:
            kept = _KeptState(len(self._offsets) - 1, self._draft.snapshot(), self._read_bytes)
            self._kept.append(kept)
            self.kept_bytes += kept.bytes
            self._read_bytes = 0
            while self.kept_bytes > _KEPT_BYTES_MAX and len(self._kept) > 2:
                self._thin_out()

    def _thin_out(self) -> None:
        """Keep every second state only."""
        self._interval *= 2
        fewer, read_bytes = [self._kept[0]], 0
        for one in self._kept[1:]:
            read_bytes += one.read_bytes
            if (one.at + 1) % self._interval == 0:
                fewer.append(one._replace(read_bytes=read_bytes))
                read_bytes = 0
        self._read_bytes += read_bytes
        self._kept = fewer
        self.kept_bytes = sum(one.bytes for one in fewer)

    # --- states ---------------------------------------------------------------------------------------------------
    def _state_at(self, place: int) -> State:
        """Return the state after the entry at ``place``."""
        at, state = self._nearest(place)
        return state if at == place else self._fold(at, state, place)

    def _nearest(self, place: int) -> tuple[int, State]:
        kept = self._kept[bisect_right(self._kept, place, key=lambda one: one.at) - 1]
        at = max((one for one in self._near if one <= place), default=-2)
        if at <= kept.at:
            return kept.at, kept.state
        self._near.move_to_end(at)
        return at, self._near[at]

    def _note_near(self, place: int, state: State) -> None:
        self._near.pop(place, None)
        self._near[place] = state
        while len(self._near) > 3 and (
            len(self._near) > _NEAR_MAX or sum(map(_table_bytes, self._near.values())) > _NEAR_BYTES_MAX
        ):
            self._near.popitem(last=False)

    def _fold(
        self, at: int, state: State, place: int, listener: Callable[[JudgedEntry], object] | None = None
    ) -> State:
        """Fold the entries behind ``at`` up to ``place``. Of a long way, some states stay for steps back."""
        draft, limits = state.thaw(), self._target.log.limits
        for number, logged in enumerate(self._read(at + 1, place + 1), at + 1):
            verdict = advance(draft, logged.offset, logged.entry, limits)
            if listener is not None:
                listener(JudgedEntry(logged, verdict))
            elif number > place - 4 * _INTERVAL and (number + 1) % _INTERVAL == 0:
                self._note_near(number, draft.snapshot())
        return draft.freeze()

    def _read(self, start: int, stop: int) -> Iterator[Logged]:
        """Yield the entries of these places. Raises ``JournalGap`` if one was deleted meanwhile."""
        offsets = self._offsets[start:stop]
        found = 0
        for logged in self._histories.of(self.process_id).entries(offsets):
            found += 1
            yield logged
        if found != len(offsets):
            raise JournalGap(
                "entries were deleted from the log meanwhile", process_id=self.process_id, partition=self.partition
            )

    def _judged(self, earlier: int, place: int) -> list[JudgedEntry]:
        """Return the entries behind ``earlier`` up to ``place`` with their verdicts, the newest if they are many."""
        found: list[JudgedEntry] = []
        first = max(earlier, place - _LISTED_MAX)
        if place > first:
            self._fold(first, self._state_at(first), place, found.append)
        return found


class _Base(NamedTuple):
    """The state with which the readable part of a history begins."""

    state: State
    at_offset: int
    """The offset from which the entries are folded onto it; 0: the whole history is there."""


def _base_of(target: CommandTarget, process_id: str, partition: int) -> _Base:
    """Return the base of a process in a trimmed log. Raises ``JournalGap`` if there is none."""
    from seekpoint.consumers.recovery.base_search import Search, Unusable

    key = process_key(process_id)
    marks = target.log.watermarks(partition)
    try:
        found = target.recoverer.base_finder.from_index(Search(process_id, key, partition), marks)
    except Unusable as exc:
        raise JournalGap(
            "the beginning of the log was deleted, and no checkpoint covers it", process_id=process_id,
            partition=partition, low=marks.low, why=exc.reason,
        ) from exc  # fmt: skip
    first = found.state.first_offset
    if first is None or first >= marks.low:  # nothing of it was deleted
        return _Base(new_state(), 0)
    return _Base(found.state, max(found.seek_point, marks.low))
