"""The view in memory: a complete ``ViewStore`` for tests and tutorials, which can simulate the faults of a Redis."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from secrets import token_urlsafe

from seekpoint.consumers.view.process_summary import is_open_process, summary_in, summary_row
from seekpoint.consumers.view.view_store import (
    Change,
    Loaded,
    Page,
    Pointer,
    ViewLookup,
    ViewMeta,
)
from seekpoint.schemas.errors import ViewUnavailable
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.state.call_table import CallsDraft
from seekpoint.schemas.state.process_state import State, new_state

_DAMAGE = "its row does not have its hash"


class _Row(FrozenStruct, frozen=True):
    """One process. ``expected_sizes`` are the sizes of the content after its last change; other sizes are damage."""

    state: State
    expected_sizes: tuple[int, int, int, int]
    pointer: Pointer | None = None
    is_damaged: bool = False


@dataclass(slots=True)
class _ViewPartition:
    meta: ViewMeta
    rows: dict[bytes, _Row] = field(default_factory=dict)
    summaries: dict[bytes, bytes] = field(default_factory=dict)
    open: set[bytes] = field(default_factory=set)
    """The index of open processes. Like the summaries it is written beside the rows, not computed from them."""

    def copy(self) -> _ViewPartition:
        return _ViewPartition(self.meta, dict(self.rows), dict(self.summaries), set(self.open))

    def index(self, key: bytes, state: State) -> None:
        self.summaries[key] = summary_row(key, state)
        if is_open_process(key, state):
            self.open.add(key)
        else:
            self.open.discard(key)

    def remove(self, key: bytes) -> None:
        self.rows.pop(key, None)
        self.summaries.pop(key, None)
        self.open.discard(key)


class MemoryView:
    """A ``ViewStore`` in memory. Thread safe.

    It applies changes field by field, as Redis does, so that a ``Change`` that omits a field damages the view here,
    too. ``history_writes_max`` is the number of writing calls that ``lose_last_writes`` can undo.

    >>> view = MemoryView()
    >>> token = view.install(0, "topic-id")
    >>> view.ready(0, token, applied=-1, leader_epoch=-1)
    True
    >>> view.write(0, token, 0, 0, -1, [Change(key=b"case-17", state=new_state(), whole=True)])
    True
    >>> view.look_up(0, b"case-17").state == new_state()
    True
    """

    def __init__(self, partitions: int = 8, *, history_writes_max: int = 64) -> None:
        self._partitions_count = partitions
        self._partitions: dict[int, _ViewPartition] = {}
        self._history: deque[dict[int, _ViewPartition]] = deque(maxlen=history_writes_max)
        self._lock = threading.RLock()
        self._down = False
        self._answers_to_lose = 0

    # --- faults -------------------------------------------------------------------------------------------------------
    def flush(self) -> None:
        """Remove everything, as FLUSHALL does."""
        with self._lock:
            self._record_history()
            self._partitions = {}

    def lose_last_writes(self, count: int) -> None:
        """Undo the last ``count`` writing calls, as a failover to a replica that lagged does."""
        with self._lock:
            for _ in range(min(count, len(self._history))):
                self._partitions = self._history.pop()

    def down(self) -> None:
        """Make every call raise ``ViewUnavailable`` until ``up``."""
        self._down = True

    def up(self) -> None:
        """Answer calls again, with the former content."""
        self._down = False

    def lose_next_answer(self) -> None:
        """Execute the next writing call, but raise ``ViewUnavailable``, as a time-out does."""
        self._answers_to_lose += 1

    def damage(self, partition: int, key: bytes) -> None:
        """Change the process's row, so that the row does not have its hash any more."""
        with self._lock:
            rows = self._partitions[partition].rows
            rows[key] = replace(rows[key], is_damaged=True)

    def forge(self, partition: int, key: bytes, state: State | None) -> None:
        """Replace the process's row by one of ``state`` with a valid hash; None: remove every trace of the process."""
        with self._lock:
            found = self._partitions[partition]
            before = found.rows.get(key)
            found.remove(key)
            if state is not None:
                found.rows[key] = _Row(state, _sizes(state), None if before is None else before.pointer)
                found.index(key, state)

    # --- ViewStore ----------------------------------------------------------------------------------------------------
    @property
    def is_loaded(self) -> bool:
        """True, because there is no client library to load."""
        return True

    def load_client(self) -> None:
        """Do nothing: there is no client library."""

    def meta(self, partition: int) -> ViewMeta | None:
        """Return the meta data of the partition's view; None if there is no view."""
        with self._answering():
            found = self._partitions.get(partition)
            return None if found is None else found.meta

    def load(self, partition: int, token: str, keys: Collection[bytes]) -> Loaded | None:
        """Return the applied offset and the present states of ``keys``; None: another token."""
        with self._answering():
            found = self._partition(partition, token)
            if found is None:
                return None
            rows = {key: found.rows[key] for key in keys if key in found.rows}
            states = {key: row.state for key, row in rows.items() if _is_intact(row)}
            return Loaded(found.meta.applied, states, {key: _DAMAGE for key in rows if key not in states})

    def write(
        self, partition: int, token: str, position: int, applied: int, leader_epoch: int, changes: Sequence[Change]
    ) -> bool:
        """Write ``changes`` and set ``applied``, if the token is this one and the view's applied + 1 ``position``."""
        with self._writing():
            found = self._partition(partition, token)
            if found is None or found.meta.applied is None or found.meta.applied + 1 != position:
                return False
            self._record_history()
            for change in changes:
                found.rows[change.key] = _changed(found.rows.get(change.key), change)
                found.index(change.key, change.state)
            found.meta = found.meta._replace(applied=applied, leader_epoch=leader_epoch)
            return True

    def install(self, partition: int, topic_id: str) -> str:
        """Begin a rebuild: make an empty view without an applied offset. Return its new token."""
        with self._writing():
            self._record_history()
            token = token_urlsafe(6)
            self._partitions[partition] = _ViewPartition(ViewMeta(token, None, topic_id, -1))
            return token

    def put(self, partition: int, token: str, states: Mapping[bytes, tuple[State, Pointer]]) -> bool:
        """Write states into a view during its rebuild. Return False if the token is another, or the view is ready."""
        with self._writing():
            found = self._partition(partition, token)
            if found is None or found.meta.applied is not None:
                return False
            self._record_history()
            for key, (state, pointer) in states.items():
                found.rows[key] = _Row(state, _sizes(state), pointer)
                found.index(key, state)
            return True

    def ready(self, partition: int, token: str, applied: int, leader_epoch: int, processes: int | None = None) -> bool:
        """End a rebuild: make the view valid as of ``applied``. Return True for a second call that still holds."""
        with self._writing():
            found = self._partition(partition, token)
            if found is None or found.meta.applied not in (None, applied) or processes not in (None, len(found.rows)):
                return False
            self._record_history()
            found.meta = found.meta._replace(applied=applied, leader_epoch=leader_epoch)
            return True

    def point(self, partition: int, token: str, pointers: Mapping[bytes, Pointer]) -> bool:
        """Write pointers to checkpoints. Return False if the token is another."""
        with self._writing():
            found = self._partition(partition, token)
            if found is None:
                return False
            self._record_history()
            for key, pointer in pointers.items():
                if key in found.rows:
                    found.rows[key] = replace(found.rows[key], pointer=pointer)
            return True

    def offsets_from(
        self, partition: int, token: str, floor: int, applied: int | None = None
    ) -> dict[bytes, int] | None:
        """Return the processes whose state's offset is at or above ``floor``, with that offset; None: another view."""
        with self._answering():
            found = self._partition(partition, token)
            if found is None or applied not in (None, found.meta.applied):
                return None
            return {key: one.state.offset for key, one in found.rows.items() if one.state.offset >= floor}

    def finished(self, partition: int, token: str, start: int, stop: int, count: int) -> tuple[list[bytes], int] | None:
        """Return finished processes with content, of the first ``count`` in [start, stop), and the next offset."""
        with self._answering():
            found = self._partition(partition, token)
            if found is None:
                return None
            offsets = sorted((one.state.offset, key) for key, one in found.rows.items())
            page = [(offset, key) for offset, key in offsets if start <= offset < stop][:count]
            states = {key: found.rows[key].state for _, key in page}
            following = page[-1][0] + 1 if len(page) == count else stop
            return [key for key, one in states.items() if one.finished and not one.content_dropped], following

    def look_up(self, partition: int, key: bytes) -> ViewLookup:
        """Return one process, its partition's meta data and its pointer."""
        with self._answering():
            found = self._partitions.get(partition)
            if found is None:
                return ViewLookup(None, None, None)
            one = found.rows.get(key)
            if one is None:
                return ViewLookup(found.meta, None, None)
            if not _is_intact(one):
                return ViewLookup(found.meta, None, one.pointer, _DAMAGE)
            return ViewLookup(found.meta, one.state, one.pointer)

    # --- ViewBrowser --------------------------------------------------------------------------------------------------
    def partitions(self) -> int:
        """Return the journal's number of partitions."""
        with self._answering():
            return self._partitions_count

    def offset_of(self, partition: int, key: bytes) -> tuple[ViewMeta | None, int | None]:
        """Return the partition's meta data and the offset of the process's state, if it has one."""
        found = self.look_up(partition, key)
        return found.meta, None if found.state is None else found.state.offset

    def page(self, partition: int, after: bytes, prefix: bytes, count: int, *, open_only: bool = False) -> Page:
        """Return the first ``count`` processes whose keys begin with ``prefix`` and come after ``after``, by key."""
        with self._answering():
            found = self._partitions.get(partition)
            if found is None:
                return Page(None, ())
            keys = found.open if open_only else found.rows.keys()
            return _page(
                partition, found, sorted(key for key in keys if key.startswith(prefix) and key > after)[:count]
            )

    def newest_page(self, partition: int, below: int | None, count: int) -> Page:
        """Return the ``count`` processes with the newest entries below the offset ``below``, the newest first."""
        with self._answering():
            found = self._partitions.get(partition)
            if found is None:
                return Page(None, ())
            newest = sorted(((row.state.offset, key) for key, row in found.rows.items()), reverse=True)
            return _page(partition, found, [key for at, key in newest if below is None or at < below][:count])

    def close(self) -> None:
        """Do nothing: there is no connection."""

    def _partition(self, partition: int, token: str) -> _ViewPartition | None:
        found = self._partitions.get(partition)
        return found if found is not None and found.meta.token == token else None

    def _record_history(self) -> None:
        self._history.append({number: one.copy() for number, one in self._partitions.items()})

    @contextmanager
    def _answering(self) -> Iterator[None]:
        if self._down:
            raise ViewUnavailable("the view in memory is down")
        with self._lock:
            yield

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._answering():
            yield
            if self._answers_to_lose:
                self._answers_to_lose -= 1
                raise ViewUnavailable("the answer of the view in memory was lost")


def _page(partition: int, found: _ViewPartition, keys: Sequence[bytes]) -> Page:
    if any(found.rows[key].is_damaged for key in keys):
        return Page(None, ())
    return Page(found.meta, tuple(summary_in(partition, key, found.summaries[key]) for key in keys))


def _changed(before: _Row | None, change: Change) -> _Row:
    state, pointer = change.state, None if before is None else before.pointer
    if change.whole:
        return _Row(state, _sizes(state), pointer)
    old = before.state if before is not None else new_state()
    draft = state.thaw()
    draft.values_json = {key: text for key, text in old.values_json.items() if key not in change.context_keys}
    draft.values_json |= {key: state.values_json[key] for key in change.context_keys if key in state.values_json}
    calls = {key: call for key, call in old.calls.items() if key not in change.call_keys}
    draft.calls = CallsDraft({**calls, **{key: state.calls[key] for key in change.call_keys if key in state.calls}})
    for name in ("attachments", "attached_at"):
        before_it, now = getattr(old, name), getattr(state, name)
        kept = {digest: one for digest, one in before_it.items() if digest not in change.digests}
        setattr(draft, name, kept | {digest: now[digest] for digest in change.digests if digest in now})
    if not change.frames:
        draft.start_frame, draft.turn_frame = old.start_frame, old.turn_frame
    if not change.folds:
        draft.folds = old.folds
    draft.conversation = old.conversation
    for message in change.messages:
        draft.conversation = draft.conversation.append(message)
    if not change.mail:
        draft.mailbox, draft.remembered = dict(old.mailbox), dict(old.remembered)
    is_damaged = (before is not None and before.is_damaged) or not _is_written_on(old, change)
    return _Row(draft.freeze(), _sizes(state), pointer, is_damaged)


def _is_written_on(old: State, change: Change) -> bool:
    """Return whether the change's base has the replaced fields as ``old`` has them: else the row's sum is wrong."""
    base = change.base or new_state()
    return (
        all(old.values_json.get(key) == base.values_json.get(key) for key in change.context_keys)
        and all(old.calls.get(key) == base.calls.get(key) for key in change.call_keys)
        and all(old.attachments.get(digest) == base.attachments.get(digest) for digest in change.digests)
        and all(old.attached_at.get(digest) == base.attached_at.get(digest) for digest in change.digests)
        and (not change.folds or dict(old.folds) == dict(base.folds))
        and (not change.frames or (old.start_frame, old.turn_frame) == (base.start_frame, base.turn_frame))
    )


def _sizes(state: State) -> tuple[int, int, int, int]:
    return len(state.values_json), len(state.conversation), len(state.calls), len(state.attachments)


def _is_intact(row: _Row) -> bool:
    return not row.is_damaged and _sizes(row.state) == row.expected_sizes
