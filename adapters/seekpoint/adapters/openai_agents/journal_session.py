"""A session of the SDK whose items are in a journal.

One session is one process. Each item is a context value of it, under a key that sorts in the order of the items:
``item/`` with the seq of the entry that added the item, and the item's place in that entry. A call expects the seq that
it has seen, so the seq of its entry is known before the entry is written, and two nodes never use one key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from hashlib import blake2b
from heapq import nlargest
from typing import TYPE_CHECKING, Any, TypeVar

from agents.items import TResponseInputItem
from agents.memory import SessionABC, SessionSettings
from agents.memory.session_settings import coerce_session_settings, resolve_session_limit

from seekpoint import Node, State, SyncNode
from seekpoint.adapters.attached_items import are_attached, attached, drop_unused, item_of
from seekpoint.adapters.process_names import id_of_text
from seekpoint.adapters.shared_process_calls import SharedProcessCalls, shared_calls
from seekpoint.errors import AppendConflict, HandleClosed, LimitExceeded, UnknownAttachment

if TYPE_CHECKING:
    from agents.memory.session import _CompactionSnapshot

T = TypeVar("T")

_ITEM = "item/"
_ADDED = "added/"
"""Before the seq and the id of a call that adds its items once."""
_ADDED_MAX = 100
_FULL = (
    "none of them was added: keep images and files outside, and put their file_id or URL into the item; add fewer "
    "items at once; wrap the session in OpenAIResponsesCompactionSession; or begin another session"
)


class SeekpointSession(SessionABC):
    """A session of the OpenAI Agents SDK in a journal. Any node may use it, without sticky routing.

    ``node`` is a started ``Node``, or a ``SyncNode`` for programs that call ``Runner.run_sync``. Sessions are cheap:
    make one for each request. Any text is an id. The items belong to the process ``prefix + session_id``, which has
    nothing else; where no process has such an id, its ``process_id`` ends with a hash.
    ``actor`` is named in every entry.

    A call that has returned is written, and each later call of any node sees it. Each call that writes is one entry:
    after a crash all of it is there, or nothing. Every call raises ``JournalUnavailable`` where the log cannot be read;
    what ``Node.append`` raises, it raises too. A cancelled call that writes is over when
    ``CancelledError`` is raised.
    """

    session_settings: SessionSettings | None = None

    def __init__(
        self,
        session_id: str,
        node: Node | SyncNode,
        *,
        prefix: str = "session/",
        session_settings: SessionSettings | dict[str, Any] | None = None,
        actor: str | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = (
            SessionSettings() if session_settings is None else coerce_session_settings(session_settings)
        )
        self.process_id = id_of_text(session_id, prefix)
        self._calls: SharedProcessCalls = shared_calls(node, self.process_id, actor)
        self._loop: asyncio.AbstractEventLoop | None = None
        """The loop of the node. A ``SyncNode`` has one of its own, and is called from any."""
        self._needs_loop = isinstance(node, Node)
        if self._needs_loop:
            with suppress(RuntimeError):
                self._loop = asyncio.get_running_loop()

    # --- the SDK's protocol
    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return all items, or the newest ``limit`` of them, oldest first. Only the items returned are decoded.

        Without ``limit``, that of ``session_settings`` counts. A negative one means all, as in the SDK's sessions.
        """
        most = resolve_session_limit(limit, self.session_settings)
        items, _ = await self._at_node(lambda: self._items(most), to_the_end=False)
        return items

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items after all others, in one entry.

        Where they do not fit into an entry (1 MiB) or into the state (8 MiB), those of more than 64 KiB are attached
        before. Raises ``UnserializableValue`` for an item that is not JSON, and ``LimitExceeded`` where they do not fit
        though.
        """
        if items:
            await self._at_node(lambda: self._add(list(items)))

    async def add_items_once(self, items: list[TResponseInputItem], call_id: str) -> None:
        """Add items, unless a call with this ``call_id`` has added them before, also if they were removed since.

        Repeat a call so that ended with an error, or was cancelled: it is cancelled at once. A session knows the ids of
        its newest 100 calls.
        """
        if items:
            once = blake2b(call_id.encode(), digest_size=16).hexdigest()
            await self._at_node(lambda: self._add(list(items), once), to_the_end=False)

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the newest item and return it; None if there is none. No other call gets the same item."""
        return await self._at_node(self._pop)

    async def clear_session(self) -> None:
        """Remove all items, in one entry. The ids of ``add_items_once`` stay."""
        await self._at_node(self._clear)

    def close(self) -> None:
        """Do nothing: the node stays open. The SDK's own sessions have this call."""

    # --- the SDK's own calls of its sessions
    async def _get_compaction_snapshot(
        self, limit: int, *, prune_prefix: Callable[[TResponseInputItem], bool] | None = None
    ) -> _CompactionSnapshot | None:
        """Return the newest items, with a call that replaces the last of them: OpenAIResponsesCompactionSession asks.

        Without it, the SDK clears a session and adds the compacted items in a second call.
        """
        if type(self) is not SeekpointSession:  # another class may add to what the calls of a session do
            return None
        from agents.memory.session import _CompactionSnapshot

        items, state = await self._at_node(lambda: self._items(limit), to_the_end=False)
        keys = _newest_keys(state, limit)
        is_whole = len(keys) == len(_newest_keys(state, limit + 1))

        async def replace_suffix(start: int, output: list[TResponseInputItem]) -> bool:
            return await self._at_node(lambda: self._replace(keys[start:], output, prune_prefix))

        return _CompactionSnapshot(items, is_whole, replace_suffix)

    # --- what runs in the node's loop
    async def _items(self, limit: int | None) -> tuple[list[TResponseInputItem], State]:
        """Return the newest items, and the state that they are of."""
        state = await self._calls.read()
        while True:
            try:
                items = [await item_of(self._calls, state.value(key)) for key in _newest_keys(state, limit)]
            except UnknownAttachment:  # another call has removed a large item meanwhile
                if (newer := await self._calls.read()).seq == state.seq:
                    raise
                state = newer
            else:
                return items, state

    async def _add(self, items: Sequence[TResponseInputItem], once: str | None = None) -> None:
        state, is_attached = await self._calls.known(), False
        given: Sequence[Any] = items
        while True:
            known = [] if once is None else sorted(key for key in state.values_json if key.startswith(_ADDED))
            if once is not None and any(key.endswith(once) for key in known):  # if the state is old, it knows less
                return
            values: dict[str, Any] = {_key(state.seq + 1, index): item for index, item in enumerate(given)}
            try:
                if not are_attached(state, values):  # another call has dropped one: nothing referred to it
                    given, state = await self._attached(items), await self._calls.known()
                    continue
                if once is None:
                    await self._calls.update_many(values, expected_seq=state.seq)
                else:
                    values[f"{_ADDED}{state.seq + 1:012}.{once}"] = len(items)
                    await self._calls.change(values, known[: 1 - _ADDED_MAX], expected_seq=state.seq)
            except AppendConflict as conflict:
                state = _newer(conflict)
            except LimitExceeded as exc:
                if is_attached:
                    await drop_unused(self._calls, self.process_id)
                    raise self._full(len(items), exc) from exc
                is_attached = True
                given, state = await self._attached(items), await self._calls.known()
            else:
                return

    async def _attached(self, items: Sequence[TResponseInputItem]) -> list[Any]:
        try:
            return await attached(self._calls, items)
        except LimitExceeded as exc:
            await drop_unused(self._calls, self.process_id)
            raise self._full(len(items), exc) from exc

    def _full(self, count: int, error: LimitExceeded) -> LimitExceeded:
        return LimitExceeded(
            f"the session takes no {count} more items", process_id=self.process_id, bytes=error.bytes,
            limit=error.limit, path=error.path, hint=_FULL,
        )  # fmt: skip

    async def _pop(self) -> TResponseInputItem | None:
        state = await self._calls.known()
        while True:
            if not _newest_keys(state, 1):  # what this node knows may be old
                state = await self._calls.read()
            if not (keys := _newest_keys(state, 1)):
                return None
            try:
                item: TResponseInputItem = await item_of(self._calls, state.value(keys[0]))
                await self._calls.delete(keys[0], expected_seq=state.seq)
            except AppendConflict as conflict:
                state = _newer(conflict)
            except UnknownAttachment:  # another call has removed the item
                if (newer := await self._calls.read()).seq == state.seq:
                    raise
                state = newer
            else:
                await self._drop_unused(state)
                return item

    async def _replace(
        self,
        expected: Sequence[str],
        output: Sequence[TResponseInputItem],
        is_expired: Callable[[TResponseInputItem], bool] | None,
    ) -> bool:
        """Replace the items of the keys ``expected``, in one entry, if they are the newest; return whether they were.

        The oldest items go too, up to the first that is not expired.
        """
        state = await self._calls.known()
        while expected:
            if _newest_keys(state, len(expected)) != [*expected]:
                newest = await self._calls.read()
                if newest.seq == state.seq:
                    return False
                state = newest
                continue
            expired = await self._first_expired(state, len(expected), is_expired)
            values = {_key(state.seq + 1, index): item for index, item in enumerate(output)}
            try:
                await self._calls.change(values, [*expired, *expected], expected_seq=state.seq)
            except AppendConflict as conflict:
                state = _newer(conflict)
            else:
                await self._drop_unused(state)
                return True
        return False

    async def _first_expired(
        self, state: State, kept: int, is_expired: Callable[[TResponseInputItem], bool] | None
    ) -> list[str]:
        """Return the keys of the oldest items up to the first that is not expired, without the newest ``kept``."""
        found: list[str] = []
        for key in _newest_keys(state, None)[:-kept] if is_expired is not None else ():
            if is_expired is None or not is_expired(await item_of(self._calls, state.value(key))):
                break
            found.append(key)
        return found

    async def _clear(self) -> None:
        before = state = await self._calls.read()
        while _newest_keys(state, 1):
            ids = {key: text for key, text in state.values_json.items() if not key.startswith(_ITEM)}
            try:
                await self._calls.clear(ids, expected_seq=state.seq)
            except AppendConflict as conflict:
                state = _newer(conflict)
            else:
                break
        await self._drop_unused(before)

    async def _drop_unused(self, before: State) -> None:
        if before.attachments:
            await drop_unused(self._calls, self.process_id)

    async def _at_node(self, call: Callable[[], Coroutine[Any, Any, T]], *, to_the_end: bool = True) -> T:
        """Run ``call`` in the node's loop; ``to_the_end``, so that a caller that is cancelled knows the outcome."""
        here = asyncio.get_running_loop()
        if self._needs_loop and self._loop is None:
            self._loop = here
        if self._loop is None or self._loop is here:
            return await (_to_the_end(asyncio.ensure_future(call())) if to_the_end else call())
        if self._loop.is_closed():
            raise HandleClosed(
                "the event loop of the session's node has ended", process_id=self.process_id,
                hint="keep the loop running in which the node was started, or use a SyncNode",
            )  # fmt: skip
        over = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call(), self._loop))
        return await (_to_the_end(over) if to_the_end else over)


async def _to_the_end(work: asyncio.Future[T]) -> T:
    cancelled = False
    while not work.done():
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        if not work.cancelled():
            work.exception()  # it is known, and nobody asks for it any more
        raise asyncio.CancelledError
    return work.result()


def _newer(conflict: AppendConflict) -> State:
    state: State | None = conflict.state
    assert state is not None  # of an append, never of another call
    return state


def _key(seq: int, index: int) -> str:
    return f"{_ITEM}{seq:012}.{index:06}"


def _newest_keys(state: State, limit: int | None) -> list[str]:
    """Return the keys of the newest ``limit`` items, oldest first; None or less than 0 means all."""
    keys = (key for key in state.values_json if key.startswith(_ITEM))
    return sorted(keys) if limit is None or limit < 0 else nlargest(limit, keys)[::-1]
