"""A session service of the Agent Development Kit whose sessions are in a journal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.platform import time as platform_time
from google.adk.platform import uuid as platform_uuid
from google.adk.sessions import BaseSessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse

from seekpoint import Node, SyncNode
from seekpoint import State as ProcessState
from seekpoint.adapters.adk.scoped_state import ScopedStates, newer_state, values_of, with_attached
from seekpoint.adapters.adk.session_records import (
    OUTBOX,
    SESSION,
    STATE,
    StoredSession,
    event_from,
    event_json,
    event_key,
    events_in,
    scopes_of,
    session_id_of,
)
from seekpoint.adapters.attached_items import drop_unused, item_of
from seekpoint.adapters.cross_thread_calls import NodeCalls
from seekpoint.adapters.process_lists import states_of
from seekpoint.adapters.process_names import id_prefix_of, joined
from seekpoint.adapters.shared_process_calls import SharedProcessCalls, shared_calls
from seekpoint.errors import AppendConflict, InvalidOption, LimitExceeded, UnknownAttachment

_STALE = (
    "The session has been modified in storage since it was loaded. Please reload the session before appending more "
    "events."
)
_FULL = "nothing was written: begin another session, or keep images and files as artifacts"


class SeekpointSessionService(BaseSessionService):
    """Sessions in a journal. Any node may use them, without sticky routing.

    ``node`` is a started ``Node``, or a ``SyncNode`` for programs that call ``Runner.run``. A session is a process, and
    so is the state of each app and of each user. Their ids begin with ``prefix``. ``actor`` is named in every entry.

    A call that has returned is written, and each later call of any node sees it. An event is one entry, together with
    the session's own state that it changes. ``append_event`` with a session that another call has changed meanwhile
    raises the toolkit's ``StaleSessionError``, and writes nothing. Every call raises ``JournalUnavailable`` where the
    log cannot be read; what ``Node.append`` raises, those that write raise too.
    """

    def __init__(self, node: Node | SyncNode, *, prefix: str = "adk", actor: str | None = None) -> None:
        if not prefix:
            raise InvalidOption("the prefix of the process ids is empty", option="prefix", hint='prefix="adk"')
        self._prefix = prefix
        self._actor = actor
        self._calls = NodeCalls(node)
        self._scoped = ScopedStates(self._calls.node, prefix, actor)

    # --- the toolkit's protocol
    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        """Create a session. Raises ``AlreadyExistsError``, of which of two calls at once exactly one does."""
        name = (session_id or "").strip() or platform_uuid.new_uuid()
        return await self._calls.awaited(self._create(app_name, user_id, name, state or {}, platform_time.get_time()))

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """Return the session as of now, with the events that ``config`` asks for; None if there is none.

        Events come in the order in which they were appended. Only those that are returned are decoded.
        """
        return await self._calls.awaited(self._get(app_name, user_id, session_id.strip(), config))

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """Return the sessions of an app, or of a user of it, without events: the one that changed last comes last."""
        return await self._calls.awaited(self._list(app_name, user_id))

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session, if there is one. The state of its app and of its user stays."""
        await self._calls.awaited(self._delete(app_name, user_id, session_id.strip()))

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the state of a user, without the prefix ``user:``."""
        return await self._calls.awaited(self._scoped.values(app_name, user_id))

    async def append_event(self, session: Session, event: Event) -> Event:
        """Append an event, and make the changes of its ``state_delta``.

        After an error that leaves the outcome open, such as ``AppendTimeout``, make the same call again: an event that
        is the session's newest is not appended twice. Raises ``StaleSessionError`` and ``SessionNotFoundError``, and
        ``LimitExceeded`` for an event that does not fit into its session.
        """
        if event.partial:
            return event
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        stored = await self._calls.awaited(self._append(session, event))
        session.last_update_time = stored.updated
        session._storage_update_marker = stored.marker
        if event in session.events[-1:]:  # the call is made again
            return event
        return self._commit_event_to_session(session, event)

    # --- what runs in the node's loop
    async def _create(self, app: str, user: str, name: str, state: dict[str, Any], now: float) -> Session:
        process_id = session_id_of(self._prefix, app, user, name)
        calls, scopes = shared_calls(self._calls.node, process_id, self._actor), scopes_of(state)
        own = await calls.read()
        while True:
            if StoredSession.of(own) is not None:
                raise AlreadyExistsError(f"Session with id {name} already exists.")
            stored = StoredSession(app=app, user=user, id=name, updated=now, revision=own.seq + 1)
            after = await self._written(calls, process_id, own, stored, scopes, None)
            if isinstance(after, StoredSession):
                await self._scoped.deliver(calls, process_id, await calls.known())
                return after.session(await self._scoped.merged(scopes["session"], app, user))
            own = after

    async def _get(self, app: str, user: str, name: str, config: GetSessionConfig | None) -> Session | None:
        process_id = session_id_of(self._prefix, app, user, name)
        calls = shared_calls(self._calls.node, process_id, self._actor)
        state = await calls.read()
        while True:
            state = await self._scoped.deliver(calls, process_id, state)
            if (stored := StoredSession.of(state)) is None:
                return None
            try:
                events = [event_from(await item_of(calls, one)) for one in events_in(state, config)]
                own = await values_of(calls, state)
            except UnknownAttachment as exc:  # the session was deleted meanwhile
                state = await newer_state(calls, state, exc)
            else:
                return stored.session(await self._scoped.merged(own, app, user), events)

    async def _list(self, app: str, user: str | None) -> ListSessionsResponse:
        names = joined([app]) if user is None else joined([app, user])
        states = await states_of(self._calls.node, id_prefix_of(f"session/{names}/", self._prefix))
        found = [(stored, state) for state in states if (stored := StoredSession.of(state)) is not None]
        found = [one for one in found if one[0].app == app and user in (None, one[0].user)]
        found.sort(key=lambda one: (one[0].updated, one[0].user, one[0].id))
        sessions = []
        for stored, state in found:
            process_id = session_id_of(self._prefix, app, stored.user, stored.id)
            calls = shared_calls(self._calls.node, process_id, self._actor)
            state = await self._scoped.deliver(calls, process_id, state)
            sessions.append(stored.session(await values_of(calls, state)))
        of_app = {f"app:{key}": value for key, value in (await self._scoped.values(app)).items()} if found else {}
        of_users = {one.user: await self._scoped.values(app, one.user) for one, _ in found}
        for session in sessions:
            session.state |= of_app | {f"user:{key}": value for key, value in of_users[session.user_id].items()}
        return ListSessionsResponse(sessions=sessions)

    async def _delete(self, app: str, user: str, name: str) -> None:
        process_id = session_id_of(self._prefix, app, user, name)
        calls = shared_calls(self._calls.node, process_id, self._actor)
        state = await calls.read()
        while StoredSession.of(state) is not None:
            state = await self._scoped.deliver(calls, process_id, state)
            try:
                await self._calls.node.delete(process_id, expected_seq=state.seq)
            except AppendConflict as conflict:
                state = await newer_state(calls, state, conflict)
            else:
                return

    async def _append(self, session: Session, event: Event) -> StoredSession:
        """Append an event to the stored session; return what is stored then."""
        process_id = session_id_of(self._prefix, session.app_name, session.user_id, session.id)
        calls = shared_calls(self._calls.node, process_id, self._actor)
        scopes, given, state = scopes_of(event.actions.state_delta), event_json(event), await calls.read()
        while True:
            state = await self._scoped.deliver(calls, process_id, state)
            if (stored := StoredSession.of(state)) is None:
                raise SessionNotFoundError(f"Session {session.id} not found.")
            if stored.event_id == event.id and await self._is_newest(calls, state, stored, given):
                return stored
            if not stored.is_read_by(session):
                raise StaleSessionError(_STALE)
            stored = StoredSession(
                app=stored.app, user=stored.user, id=stored.id, updated=event.timestamp, revision=state.seq + 1,
                event_id=event.id,
            )  # fmt: skip
            after = await self._written(calls, process_id, state, stored, scopes, given)
            if isinstance(after, StoredSession):
                await self._scoped.deliver(calls, process_id, await calls.known())
                return after
            state = after

    async def _is_newest(
        self, calls: SharedProcessCalls, state: ProcessState, stored: StoredSession, given: Mapping[str, Any]
    ) -> bool:
        """Whether an event is the newest of the session already. Its time does not count: a call may be made again."""
        newest = await item_of(calls, state.value(event_key(stored.revision))["event"])
        return {**newest, "timestamp": 0} == {**given, "timestamp": 0}

    async def _written(
        self, calls: SharedProcessCalls, process_id: str, state: ProcessState, stored: StoredSession,
        scopes: Mapping[str, dict[str, Any]], event: Mapping[str, Any] | None,
    ) -> StoredSession | ProcessState:  # fmt: skip
        """Write one entry that makes the session what ``stored`` says; return it, or the state that is newer."""
        values: dict[str, Any] = {STATE + key: value for key, value in scopes["session"].items()}
        is_replaced = any(key in state.values_json for key in values)
        if outbox := {scope: scopes[scope] for scope in ("app", "user") if scopes[scope]}:
            values[OUTBOX] = outbox
        key = event_key(stored.revision)
        if event is not None:
            values[key] = event
        try:
            values = await with_attached(calls, values)
            if (known := await calls.known()).seq != state.seq:
                return known  # the attachments have taken seqs: without this, the write would be refused first
            if event is not None:
                values[key] = {"at": event["timestamp"], "event": values[key]}
            await calls.change({**values, SESSION: stored.to_dict()}, [], expected_seq=state.seq)
        except AppendConflict as conflict:
            return await newer_state(calls, state, conflict)
        except LimitExceeded as exc:
            await drop_unused(calls, process_id)
            raise LimitExceeded(
                f"the session takes no {'such state' if event is None else 'more events'}", process_id=process_id,
                bytes=exc.bytes, limit=exc.limit, path=exc.path, hint=_FULL,
            ) from exc  # fmt: skip
        if is_replaced and state.attachments:
            await drop_unused(calls, process_id)
        return stored
