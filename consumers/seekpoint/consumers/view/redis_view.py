"""The view in Redis, Valkey or a Redis Cluster. docs/view.md describes the layout of its keys."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import count, islice
from secrets import token_urlsafe
from typing import Any

import msgpack

from seekpoint.consumers.view import view_scripts as scripts
from seekpoint.consumers.view.process_summary import is_open_process, summary_in, summary_row
from seekpoint.consumers.view.redis_client import RedisScripts
from seekpoint.consumers.view.view_rows import (
    attachment_fields,
    call_fields,
    check_of,
    field_sum,
    fold_fields,
    frame_fields,
    head_check,
    head_of,
    mail_check,
    mail_of,
    message_row,
    message_sum,
    state_of,
    sum_text,
)
from seekpoint.consumers.view.view_store import Change, Loaded, Page, Pointer, ViewLookup, ViewMeta
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import JournalMismatch, NewerFormat, ViewUnavailable
from seekpoint.schemas.state.process_state import FOLD_VERSION, State, new_state

_logger = logging.getLogger("seekpoint.consumers")

_EMPTY = new_state()
_FORMAT = 1
_LOAD_KEYS_MAX = 500
_OFFSETS_MAX = 10_000
_LOAD_TRIES_MAX = 10
_LOAD_BYTES_MAX = 8_388_608
_PUT_STATES_MAX = 500
_PUT_BYTES_MAX = 4_194_304
_SWEEP_MAX = 1_000
"""The number of processes of former views that a writing call also unlinks: about 2 ms of the server's time."""


class RedisView:
    """A ``ViewStore`` in Redis. Thread safe; a call blocks for at most ``socket_timeout`` (by default 2 s).

    Each call is one script and so atomic, except a ``load`` above 8 MiB or a ``put`` above 4 MiB. A load in several
    parts still returns states as of one applied offset, or begins again. ``partitions`` is the journal's number of
    partitions; a reader without Kafka leaves it out. Raises ``ViewUnavailable``, ``ViewRefused`` (the server evicts)
    and ``NewerFormat``.
    """

    def __init__(self, settings: Settings, partitions: int | None = None) -> None:
        self._redis = RedisScripts(settings)
        self._journal = settings.journal
        self._partitions = partitions
        self._partitions_default = settings.partitions

    @property
    def is_loaded(self) -> bool:
        """Whether the client's library is loaded, so that a call costs only a round trip."""
        return self._redis.is_loaded

    def load_client(self) -> None:
        """Load the client's library ahead of the first call."""
        self._redis.load()

    # --- ViewStore ----------------------------------------------------------------------------------------------------
    def meta(self, partition: int) -> ViewMeta | None:
        """Return the meta data of the partition's view; None if there is no view."""
        answer = self._run(scripts.META, partition)
        return None if answer is None else _meta(answer)

    def load(self, partition: int, token: str, keys: Collection[bytes]) -> Loaded | None:
        """Return the applied offset and the present states of ``keys``; None: another token."""
        wanted = list(dict.fromkeys(keys))
        for _ in range(_LOAD_TRIES_MAX):
            parts = list(self._load_parts(partition, token, wanted))
            if any(part is None for part in parts):
                return None
            found = {key: row for part in parts if part for key, row in part[1].items()}
            offsets = {part[0] for part in parts if part}
            if len(offsets) == 1:
                return _loaded(partition, offsets.pop(), found)
        raise _concurrent_write_error(partition)

    def write(
        self, partition: int, token: str, position: int, applied: int, leader_epoch: int, changes: Sequence[Change]
    ) -> bool:
        """Write ``changes`` and set ``applied``, if the token is this one and the view's applied + 1 ``position``."""
        packed = _packed([_row(change) for change in changes])
        arguments = (token, str(position - 1), str(applied), str(leader_epoch), packed)
        return self._was_written(partition, self._run(scripts.WRITE, partition, *arguments))

    def install(self, partition: int, topic_id: str) -> str:
        """Begin a rebuild: make an empty view without an applied offset. Return its new token."""
        token = token_urlsafe(6)
        partitions = self._partitions or self._partitions_default
        self._run(scripts.INSTALL, partition, token, str(_FORMAT), topic_id, str(partitions), str(FOLD_VERSION))
        return token

    def put(self, partition: int, token: str, states: Mapping[bytes, tuple[State, Pointer]]) -> bool:
        """Write states into a view during its rebuild. Return False if the token is another, or the view is ready."""
        for rows, pointers in _put_parts(states):
            answer = self._run(scripts.PUT, partition, token, _packed(rows), _packed(pointers))
            if not self._was_written(partition, answer):
                return False
        return True

    def ready(self, partition: int, token: str, applied: int, leader_epoch: int, processes: int | None = None) -> bool:
        """End a rebuild: make the view valid as of ``applied``. Return True for a second call that still holds."""
        count = "" if processes is None else str(processes)
        answer = self._run(scripts.READY, partition, token, str(applied), str(leader_epoch), count)
        return self._was_written(partition, answer)

    def point(self, partition: int, token: str, pointers: Mapping[bytes, Pointer]) -> bool:
        """Write pointers to checkpoints. Return False if the token is another."""
        packed = _packed([part for key, pointer in pointers.items() for part in (key, _pointer_text(key, pointer))])
        return self._was_written(partition, self._run(scripts.POINT, partition, token, packed))

    def offsets_from(
        self, partition: int, token: str, floor: int, applied: int | None = None
    ) -> dict[bytes, int] | None:
        """Return the processes whose state's offset is at or above ``floor``, with that offset; None: another view."""
        at = "" if applied is None else str(applied)
        for _ in range(_LOAD_TRIES_MAX):
            pages = list(self._offset_pages(partition, token, str(floor), at))
            if pages[-1] is None:
                return None
            # A write in between moves processes to the end, so that a page may skip some.
            if len({page[0] for page in pages if page}) == 1:
                parts = [part for page in pages if page for part in page[1]]
                return dict(zip(parts[::2], map(int, parts[1::2]), strict=True))
        raise _concurrent_write_error(partition)

    def finished(self, partition: int, token: str, start: int, stop: int, count: int) -> tuple[list[bytes], int] | None:
        """Return finished processes with content, of the first ``count`` in [start, stop), and the next offset."""
        answer = self._run(scripts.FINISHED, partition, token, str(start), str(stop), str(count))
        if answer is None:
            return None
        keys, last = answer
        return keys, int(last) + 1 if last else stop

    def look_up(self, partition: int, key: bytes) -> ViewLookup:
        """Return one process, its partition's meta data and its pointer."""
        answer = self._run(scripts.LOOKUP, partition, key)
        if answer is None:
            return ViewLookup(None, None, None)
        meta = _meta(answer[0])
        if meta is None:
            return ViewLookup(None, None, None)
        _, row, pointer = answer
        state = damage = None
        try:
            state = None if row is None else _state(key, row)
        except JournalMismatch as exc:
            damage = str(exc.message)
            _logger.warning("the view of %r in partition %d is damaged and not used: %s", key, partition, exc)
        return ViewLookup(meta, state, _pointer_of(key, pointer), damage)

    # --- ViewBrowser --------------------------------------------------------------------------------------------------
    def partitions(self) -> int:
        """Return the journal's number of partitions as the view has it, and without a view that of the settings."""
        if self._partitions is None:
            answer = self._run(scripts.META, 0)
            if answer is None:
                return self._partitions_default
            self._partitions = int(answer[6])
        return self._partitions

    def offset_of(self, partition: int, key: bytes) -> tuple[ViewMeta | None, int | None]:
        """Return the partition's meta data and the offset of the process's state, if it has one."""
        answer = self._run(scripts.OFFSET, partition, key)
        meta = None if answer is None else _meta(answer[0])
        return (None, None) if meta is None else (meta, None if answer[1] is None else int(answer[1]))

    def page(self, partition: int, after: bytes, prefix: bytes, count: int, *, open_only: bool = False) -> Page:
        """Return the first ``count`` processes whose keys begin with ``prefix`` and come after ``after``, by key."""
        start = b"(" + after if after >= prefix and after else b"[" + prefix if prefix else b"-"
        stop = b"(" + prefix + b"\xff" if prefix else b"+"  # no UTF-8 text has the byte 255
        index = "open" if open_only else "names"
        return self._page(partition, self._run(scripts.PAGE, partition, start, stop, min(count, 4_000), index))

    def newest_page(self, partition: int, below: int | None, count: int) -> Page:
        """Return the ``count`` processes with the newest entries below the offset ``below``, the newest first."""
        stop = "+inf" if below is None else f"({below}"
        return self._page(partition, self._run(scripts.NEWEST, partition, stop, min(count, 4_000)))

    def _page(self, partition: int, answer: Any) -> Page:
        meta = None if answer is None else _meta(answer[0])
        if meta is None:
            return Page(None, ())
        _, keys, rows = answer
        try:
            return Page(meta, tuple(summary_in(partition, *one) for one in zip(keys, rows, strict=True)))
        except JournalMismatch as exc:
            _logger.warning("partition %d is not listed: %s", partition, exc)
            return Page(None, ())

    def close(self) -> None:
        """Close the connections. Idempotent; a later call connects again."""
        self._redis.close()

    # --- calls --------------------------------------------------------------------------------------------------------
    def _key(self, partition: int, name: str) -> str:
        return f"seekpoint:{{{self._journal}:{partition}}}:{name}"

    def _run(self, script: scripts.Script, partition: int, *arguments: str | bytes | int) -> Any:
        return self._redis.run(script, self._key(partition, "meta"), self._key(partition, ""), *arguments)

    def _was_written(self, partition: int, answer: int | None) -> bool:
        """Return whether a writing call wrote, and remove a part of former views if there are any."""
        if answer:
            self._run(scripts.SWEEP, partition, _SWEEP_MAX)
        return answer is not None

    def _load_parts(
        self, partition: int, token: str, keys: Sequence[bytes]
    ) -> Iterator[tuple[int | None, dict[bytes, Any]] | None]:
        at = 0
        while at < len(keys) or at == 0:
            asked = keys[at : at + _LOAD_KEYS_MAX]
            answer = self._run(scripts.LOAD, partition, token, _packed(asked), _LOAD_BYTES_MAX)
            if answer is None:
                yield None
                return
            applied, rows = answer
            found = {key: row for key, row in zip(asked, rows, strict=False) if row is not None}
            yield None if applied is None else int(applied), found
            at += max(len(rows), 1)

    def _offset_pages(
        self, partition: int, token: str, floor: str, applied: str
    ) -> Iterator[tuple[bytes | None, list[bytes]] | None]:
        """Yield a page, (applied, [key, offset, ...]), at a time; None at the end if the view is another."""
        for start in count(0, _OFFSETS_MAX):
            page = self._run(scripts.OFFSETS, partition, token, floor, applied, start, _OFFSETS_MAX)
            yield page
            if page is None or len(page[1]) < 2 * _OFFSETS_MAX:
                return


def _concurrent_write_error(partition: int) -> ViewUnavailable:
    return ViewUnavailable("the view was written by another projector each time it was read", partition=partition)


def _packed(rows: Sequence[Any]) -> bytes:
    packed: bytes = msgpack.packb(rows, use_bin_type=False)  # Redis' unpacker refuses the type of bytes
    return packed


def _row(change: Change) -> list[Any]:
    """Return a change as the script takes it.

    ``[key, head, offset, whole, set, removed, messages, mail, difference of the sum, check of head, check of mail,
    whether it is open, summary]``.
    """
    state = change.state
    if change.whole:
        return _whole_row(change.key, state)
    changed, removed, former = _fields(change)
    messages = [message_row(message) for message in change.messages]
    total = field_sum(changed) - field_sum(former)
    if messages:
        total += message_sum(messages, len(state.conversation) - len(messages))
    mail = mail_of(state) if change.mail else None
    return _packed_row(change.key, state, False, changed, removed, messages, mail, total)


def _fields(change: Change) -> tuple[list[str | bytes], list[str | bytes], list[str | bytes]]:
    """Return the fields that a change sets (field, value, ...), those that it removes, and the former ones of both."""
    state, base = change.state, change.base or _EMPTY
    changed: list[str | bytes] = []
    removed: list[str | bytes] = []
    former: list[str | bytes] = []
    for is_written, fields in ((change.frames, frame_fields), (change.folds, fold_fields)):
        if is_written:
            changed += fields(state)
            former += fields(base)
    removed += set(former[::2]).difference(changed[::2])
    if change.context_keys:
        values, values_before = state.values_json, base.values_json
        for key in change.context_keys:
            if key in values:
                changed += [key, values[key]]
            else:
                removed.append(key)
            if key in values_before:
                former += [key, values_before[key]]
    if change.call_keys:
        call_fields(state, change.call_keys, changed, removed)
        call_fields(base, change.call_keys, former, [])
    if change.digests:
        attachment_fields(state, change.digests, changed, removed)
        attachment_fields(base, change.digests, former, [])
    return changed, removed, former


def _whole_row(key: bytes, state: State) -> list[Any]:
    context: list[str | bytes] = [part for pair in state.values_json.items() for part in pair]
    context += frame_fields(state) + fold_fields(state)
    call_fields(state, state.calls, context, [])
    attachment_fields(state, state.attachments, context, [])
    messages = [message_row(message) for message in state.conversation.bodies()]
    total = field_sum(context) + message_sum(messages, 0)
    return _packed_row(key, state, True, context, [], messages, mail_of(state), total)


def _packed_row(
    key: bytes,
    state: State,
    whole: bool,
    changed: list[str | bytes],
    removed: list[str | bytes],
    messages: list[bytes],
    mail: bytes | None,
    total: int,
) -> list[Any]:
    head = head_of(state)
    mails = (False, False) if mail is None else (mail, mail_check(key, mail))
    row = [key, head, str(state.offset), whole, changed, removed, messages, mails[0]]
    row += [sum_text(total), head_check(key, head), mails[1]]
    return [*row, is_open_process(key, state), summary_row(key, state)]


def _put_parts(states: Mapping[bytes, tuple[State, Pointer]]) -> Iterator[tuple[list[Any], list[Any]]]:
    """Yield rows and pointers of a few hundred states at a time, at most about 4 MiB."""
    left = iter(states.items())
    while some := list(_up_to_bytes(islice(left, _PUT_STATES_MAX))):
        rows = [_whole_row(key, state) for key, (state, _) in some]
        yield rows, [part for key, (_, pointer) in some for part in (key, _pointer_text(key, pointer))]


def _up_to_bytes(
    states: Iterable[tuple[bytes, tuple[State, Pointer]]],
) -> Iterator[tuple[bytes, tuple[State, Pointer]]]:
    size = 0
    for one in states:
        yield one
        size += one[1][0].content_bytes + one[1][0].mailbox_bytes
        if size > _PUT_BYTES_MAX:
            return


def _loaded(partition: int, applied: int | None, rows: Mapping[bytes, Any]) -> Loaded:
    states: dict[bytes, State] = {}
    damaged: dict[bytes, str] = {}
    for key, row in rows.items():
        try:
            states[key] = _state(key, row)
        except JournalMismatch as exc:
            damaged[key] = str(exc.message)
            _logger.error("the view of %r in partition %d is damaged: %s", key, partition, exc)
    return Loaded(applied, states, damaged)


def _state(key: bytes, row: Sequence[Any]) -> State:
    head, mail, context, messages, check, offset = row
    if check != check_of(key, head, mail, context, messages):
        raise JournalMismatch("a process in the view does not have its hash: a part was changed or lost")
    state = state_of(head, mail, context, messages)
    if offset is None or int(offset) != state.offset:
        raise JournalMismatch("the view's index of offsets has another offset than the process", found=offset)
    return state


def _meta(fields: Sequence[bytes | None]) -> ViewMeta | None:
    """Return the meta data; None for a view of an older fold, which a projector rebuilds. Raises ``NewerFormat``."""
    version, token, applied, topic_id, leader_epoch, fold = ((part or b"").decode() for part in fields[:6])
    if int(version) > _FORMAT:
        raise NewerFormat("a view of a newer format", found=int(version), known=_FORMAT)
    if int(fold or 1) > FOLD_VERSION:
        raise NewerFormat("a view of a newer fold than this one", found=int(fold), known=FOLD_VERSION)
    if int(fold or 1) < FOLD_VERSION:
        _logger.info("a view of fold version %s is not used: a projector of this version rebuilds it", fold)
        return None
    return ViewMeta(token, int(applied) if applied else None, topic_id, int(leader_epoch))


def _pointer_text(key: bytes, pointer: Pointer) -> bytes:
    text = b"%d:%d" % pointer
    return text + b":" + head_check(key, text)


def _pointer_of(key: bytes, text: bytes | None) -> Pointer | None:
    """Return the pointer; None if it does not have its hash: its floor could hide entries."""
    pointer, _, check = (text or b"").rpartition(b":")
    if not pointer or check != head_check(key, pointer):
        return None
    position, floor = pointer.split(b":")
    return Pointer(int(position), int(floor))
