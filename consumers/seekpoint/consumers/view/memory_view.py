"""The view in memory: complete, and with a Redis' faults by name. The tutorial, the test double, the specification."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from secrets import token_urlsafe

from seekpoint.consumers.view.view_store import (
    Change,
    Loaded,
    Page,
    Pointer,
    Seen,
    ViewMeta,
    summary_of,
)
from seekpoint.schemas.errors import ViewUnavailable
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.state.call_table import CallsDraft
from seekpoint.schemas.state.process_state import State, new_state

__all__ = ["MemoryView"]

_DAMAGE = "its row does not have its hash"


class _Kept(FrozenStruct, frozen=True):
    """One process. ``promised`` is what its last change said its content's size is; another one is damage."""

    state: State
    promised: tuple[int, int, int]
    pointer: Pointer | None = None
    is_damaged: bool = False


@dataclass(slots=True)
class _ViewPartition:
    meta: ViewMeta
    kept: dict[bytes, _Kept] = field(default_factory=dict)

    def copy(self) -> _ViewPartition:
        return _ViewPartition(self.meta, dict(self.kept))


class MemoryView:
    """A ``ViewStore`` in memory. Thread safe.

    Changes are applied as Redis applies them, field by field: a ``Change`` that leaves out what it changed leaves the
    view as wrong here as there. ``history_writes_max`` is how many calls that wrote something it can lose again.

    >>> view = MemoryView()
    >>> token = view.install(0, "topic-id")
    >>> view.ready(0, token, applied=-1, leader_epoch=-1)
    True
    >>> view.write(0, token, 0, 0, -1, [Change(key=b"case-17", state=new_state(), whole=True)])
    True
    >>> view.see(0, b"case-17").state == new_state()
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
        """FLUSHALL: everything is gone."""
        with self._lock:
            self._remember()
            self._partitions = {}

    def lose_last_writes(self, count: int) -> None:
        """A failover to a replica that lagged: the last ``count`` calls that wrote something never happened."""
        with self._lock:
            for _ in range(min(count, len(self._history))):
                self._partitions = self._history.pop()

    def down(self) -> None:
        """Every call raises ``ViewUnavailable`` until ``up``."""
        self._down = True

    def up(self) -> None:
        """It answers again, with what it had."""
        self._down = False

    def lose_next_answer(self) -> None:
        """The next call that writes is carried out, but its caller gets ``ViewUnavailable``: a time-out."""
        self._answers_to_lose += 1

    def damage(self, partition: int, key: bytes) -> None:
        """Something in the process's row is changed, and the row does not have its hash any more."""
        with self._lock:
            kept = self._partitions[partition].kept
            kept[key] = replace(kept[key], is_damaged=True)

    def forge(self, partition: int, key: bytes, state: State | None) -> None:
        """The process's row is replaced by one of ``state`` that has its hash; None: every trace of it is removed."""
        with self._lock:
            kept = self._partitions[partition].kept
            before = kept.pop(key, None)
            if state is not None:
                kept[key] = _Kept(state, _sizes(state), None if before is None else before.pointer)

    # --- ViewStore ----------------------------------------------------------------------------------------------------
    @property
    def is_loaded(self) -> bool:
        """Whether the client library is loaded: there is none."""
        return True

    def load_client(self) -> None:
        """Do nothing: there is no client library."""

    def meta(self, partition: int) -> ViewMeta | None:
        """The partition's view, None if there is none."""
        with self._asked():
            found = self._partitions.get(partition)
            return None if found is None else found.meta

    def load(self, partition: int, token: str, keys: Collection[bytes]) -> Loaded | None:
        """The applied offset and the states of ``keys`` that are there; None: another token."""
        with self._asked():
            found = self._of(partition, token)
            if found is None:
                return None
            kept = {key: found.kept[key] for key in keys if key in found.kept}
            states = {key: one.state for key, one in kept.items() if _intact(one)}
            return Loaded(found.meta.applied, states, {key: _DAMAGE for key in kept if key not in states})

    def write(
        self, partition: int, token: str, position: int, applied: int, leader_epoch: int, changes: Sequence[Change]
    ) -> bool:
        """Write ``changes`` and set ``applied``, if the token is this one and the view's applied + 1 ``position``."""
        with self._writing():
            found = self._of(partition, token)
            if found is None or found.meta.applied is None or found.meta.applied + 1 != position:
                return False
            self._remember()
            for change in changes:
                found.kept[change.key] = _changed(found.kept.get(change.key), change)
            found.meta = found.meta._replace(applied=applied, leader_epoch=leader_epoch)
            return True

    def install(self, partition: int, topic_id: str) -> str:
        """Begin a rebuild: an empty view with a fresh token and no applied offset. Its token."""
        with self._writing():
            self._remember()
            token = token_urlsafe(6)
            self._partitions[partition] = _ViewPartition(ViewMeta(token, None, topic_id, -1))
            return token

    def put(self, partition: int, token: str, states: Mapping[bytes, tuple[State, Pointer]]) -> bool:
        """Load states into a view that is being rebuilt. False if it is another, or is not being rebuilt any more."""
        with self._writing():
            found = self._of(partition, token)
            if found is None or found.meta.applied is not None:
                return False
            self._remember()
            for key, (state, pointer) in states.items():
                found.kept[key] = _Kept(state, _sizes(state), pointer)
            return True

    def ready(self, partition: int, token: str, applied: int, leader_epoch: int, processes: int | None = None) -> bool:
        """End a rebuild: the view is valid as of ``applied``. Asked twice it says True twice, if that still holds."""
        with self._writing():
            found = self._of(partition, token)
            if found is None or found.meta.applied not in (None, applied) or processes not in (None, len(found.kept)):
                return False
            self._remember()
            found.meta = found.meta._replace(applied=applied, leader_epoch=leader_epoch)
            return True

    def point(self, partition: int, token: str, pointers: Mapping[bytes, Pointer]) -> bool:
        """Say where checkpoints are. False if the token is another."""
        with self._writing():
            found = self._of(partition, token)
            if found is None:
                return False
            self._remember()
            for key, pointer in pointers.items():
                if key in found.kept:
                    found.kept[key] = replace(found.kept[key], pointer=pointer)
            return True

    def offsets_from(
        self, partition: int, token: str, floor: int, applied: int | None = None
    ) -> dict[bytes, int] | None:
        """Processes whose state's offset is at or above ``floor``, with that offset; None if the view is another."""
        with self._asked():
            found = self._of(partition, token)
            if found is None or applied not in (None, found.meta.applied):
                return None
            return {key: one.state.offset for key, one in found.kept.items() if one.state.offset >= floor}

    def finished(self, partition: int, token: str, start: int, stop: int, count: int) -> tuple[list[bytes], int] | None:
        """Return finished processes that have content, of the ``count`` first in [start, stop); where to go on."""
        with self._asked():
            found = self._of(partition, token)
            if found is None:
                return None
            offsets = sorted((one.state.offset, key) for key, one in found.kept.items())
            page = [(offset, key) for offset, key in offsets if start <= offset < stop][:count]
            states = {key: found.kept[key].state for _, key in page}
            following = page[-1][0] + 1 if len(page) == count else stop
            return [key for key, one in states.items() if one.finished and not one.content_dropped], following

    def see(self, partition: int, key: bytes) -> Seen:
        """One process, its partition's meta and its pointer."""
        with self._asked():
            found = self._partitions.get(partition)
            if found is None:
                return Seen(None, None, None)
            one = found.kept.get(key)
            if one is None:
                return Seen(found.meta, None, None)
            if not _intact(one):
                return Seen(found.meta, None, one.pointer, _DAMAGE)
            return Seen(found.meta, one.state, one.pointer)

    # --- ViewBrowser --------------------------------------------------------------------------------------------------
    def partitions(self) -> int:
        """How many partitions the journal has."""
        with self._asked():
            return self._partitions_count

    def offset_of(self, partition: int, key: bytes) -> tuple[ViewMeta | None, int | None]:
        """The partition's meta and the offset of the process's state, if it is there."""
        seen = self.see(partition, key)
        return seen.meta, None if seen.state is None else seen.state.offset

    def page(self, partition: int, after: bytes, prefix: bytes, count: int) -> Page:
        """The ``count`` first processes whose keys begin with ``prefix`` and come after ``after``, by key."""
        with self._asked():
            found = self._partitions.get(partition)
            if found is None:
                return Page(None, ())
            keys = sorted(key for key in found.kept if key.startswith(prefix) and key > after)[:count]
            if any(found.kept[key].is_damaged for key in keys):
                return Page(None, ())
            return Page(found.meta, tuple(summary_of(partition, key, found.kept[key].state) for key in keys))

    def close(self) -> None:
        """Nothing to give up."""

    def _of(self, partition: int, token: str) -> _ViewPartition | None:
        found = self._partitions.get(partition)
        return found if found is not None and found.meta.token == token else None

    def _remember(self) -> None:
        self._history.append({number: one.copy() for number, one in self._partitions.items()})

    @contextmanager
    def _asked(self) -> Iterator[None]:
        if self._down:
            raise ViewUnavailable("the view in memory is down")
        with self._lock:
            yield

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._asked():
            yield
            if self._answers_to_lose:
                self._answers_to_lose -= 1
                raise ViewUnavailable("the answer of the view in memory was lost")


def _changed(before: _Kept | None, change: Change) -> _Kept:
    state, pointer = change.state, None if before is None else before.pointer
    if change.whole:
        return _Kept(state, _sizes(state), pointer)
    old = before.state if before is not None else new_state()
    draft = state.thaw()
    draft.values_json = {key: text for key, text in old.values_json.items() if key not in change.context_keys}
    draft.values_json |= {key: state.values_json[key] for key in change.context_keys if key in state.values_json}
    calls = {key: call for key, call in old.calls.items() if key not in change.call_keys}
    draft.calls = CallsDraft({**calls, **{key: state.calls[key] for key in change.call_keys if key in state.calls}})
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
    return _Kept(draft.freeze(), _sizes(state), pointer, is_damaged)


def _is_written_on(old: State, change: Change) -> bool:
    """Whether the change's base has the fields that are replaced as ``old`` has them: else the row's sum is wrong."""
    base = change.base or new_state()
    return (
        all(old.values_json.get(key) == base.values_json.get(key) for key in change.context_keys)
        and all(old.calls.get(key) == base.calls.get(key) for key in change.call_keys)
        and (not change.folds or dict(old.folds) == dict(base.folds))
        and (not change.frames or (old.start_frame, old.turn_frame) == (base.start_frame, base.turn_frame))
    )


def _sizes(state: State) -> tuple[int, int, int]:
    return len(state.values_json), len(state.conversation), len(state.calls)


def _intact(kept: _Kept) -> bool:
    return not kept.is_damaged and _sizes(kept.state) == kept.promised
