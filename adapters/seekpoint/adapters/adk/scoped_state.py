"""The state of apps and users, which sessions share: a process each.

An entry belongs to one process. So an event that changes the state of its app is two entries: the session's has the
event, and the changes as its outbox; then the app's has the changes, and a mark with the session's revision. The next
call on the session sees by the outbox that a crash came in between, and by the mark how far it got. So each change is
made once, and only if its event is in the session.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from seekpoint import Node
from seekpoint import State as ProcessState
from seekpoint.adapters.adk.session_records import OUTBOX, STATE, StoredSession, state_id_of, values_in
from seekpoint.adapters.attached_items import attached, drop_unused, item_of
from seekpoint.adapters.shared_process_calls import SharedProcessCalls, shared_calls
from seekpoint.errors import AppendConflict, UnknownAttachment

_MARK = "applied/"


class ScopedStates:
    """The states of the apps and users of one journal."""

    def __init__(self, node: Node, prefix: str, actor: str | None) -> None:
        self._node = node
        self._prefix = prefix
        self._actor = actor

    async def values(self, app: str, user: str | None = None) -> dict[str, Any]:
        """Return the state of an app, or of a user, without the prefix of its scope."""
        calls = self._calls(app, user)
        return await values_of(calls, await calls.read())

    async def merged(self, own: Mapping[str, Any], app: str, user: str) -> dict[str, Any]:
        """Return the state that a session shows: its own, with that of its app and its user."""
        of_app, of_user = await self.values(app), await self.values(app, user)
        shared = {f"app:{key}": value for key, value in of_app.items()}
        return {**own, **shared, **{f"user:{key}": value for key, value in of_user.items()}}

    async def deliver(self, calls: SharedProcessCalls, process_id: str, state: ProcessState) -> ProcessState:
        """Make the changes in the outbox of a session, and empty it. Return the session's newest state.

        Any call may do it, and several at once.
        """
        while (stored := StoredSession.of(state)) is not None and OUTBOX in state.values_json:
            try:
                outbox = await item_of(calls, state.value(OUTBOX))
                for scope, delta in outbox.items():
                    await self._apply(self._scope(stored, scope), delta, process_id, stored.revision)
                await calls.change({}, [OUTBOX], expected_seq=state.seq)
            except (AppendConflict, UnknownAttachment) as exc:
                state = await newer_state(calls, state, exc)
                continue
            for scope in outbox:
                await self._forget(self._scope(stored, scope), process_id, stored.revision)
            if state.attachments:
                await drop_unused(calls, process_id)
            state = await calls.known()
        return state

    def _scope(self, stored: StoredSession, scope: str) -> tuple[str, str | None]:
        return stored.app, stored.user if scope == "user" else None

    def _calls(self, app: str, user: str | None) -> SharedProcessCalls:
        return shared_calls(self._node, state_id_of(self._prefix, app, user), self._actor)

    async def _apply(self, scope: tuple[str, str | None], delta: Mapping[str, Any], sender: str, revision: int) -> None:
        """Make the changes of a session's revision, unless they are made."""
        calls, mark = self._calls(*scope), _MARK + sender
        state = await calls.known()
        while True:
            if mark in state.values_json and state.value(mark) >= revision:
                return
            values = await with_attached(calls, {STATE + key: value for key, value in delta.items()})
            if (known := await calls.known()).seq != state.seq:  # the attachments have taken seqs
                state = known
                continue
            try:
                await calls.change({**values, mark: revision}, [], expected_seq=state.seq)
            except AppendConflict as conflict:
                state = await newer_state(calls, state, conflict)
                continue
            if state.attachments:
                await drop_unused(calls, state_id_of(self._prefix, *scope))
            return

    async def _forget(self, scope: tuple[str, str | None], sender: str, revision: int) -> None:
        """Remove the mark of a session's revision, whose outbox is empty."""
        calls, mark = self._calls(*scope), _MARK + sender
        state = await calls.known()
        while mark in state.values_json and state.value(mark) == revision:
            try:
                await calls.change({}, [mark], expected_seq=state.seq)
            except AppendConflict as conflict:
                state = await newer_state(calls, state, conflict)
            else:
                return


async def values_of(calls: SharedProcessCalls, state: ProcessState) -> dict[str, Any]:
    """Return the values of a state, those that are attached too."""
    while True:
        try:
            return {key: await item_of(calls, value) for key, value in values_in(state).items()}
        except UnknownAttachment as exc:  # another call has replaced a large value meanwhile
            state = await newer_state(calls, state, exc)


async def with_attached(calls: SharedProcessCalls, values: Mapping[str, Any]) -> dict[str, Any]:
    """Attach the large values; return all, with references for these."""
    return dict(zip(values, await attached(calls, list(values.values())), strict=True))


async def newer_state(calls: SharedProcessCalls, state: ProcessState, error: Exception) -> ProcessState:
    """Return the state that a call lost against. Raises ``error`` if there is none that is newer."""
    if isinstance(error, AppendConflict):
        found: ProcessState | None = error.state
        assert found is not None  # of an append, never of another call
        return found
    if (newest := await calls.read()).seq == state.seq:
        raise error
    return newest
