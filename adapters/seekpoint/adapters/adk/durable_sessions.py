"""Sessions inside of a durable run: what was read is recorded, and what was written is not written again."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions import BaseSessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse

from seekpoint import Ref, register_failure
from seekpoint.adapters.adk.run_records import session_from, session_json
from seekpoint.adapters.run_calls import RunCalls

_LARGE_BYTES = 65_536

for _error in (AlreadyExistsError, SessionNotFoundError, StaleSessionError):
    register_failure(_error)  # so that they come back as themselves


class DurableSessions(BaseSessionService):
    """A session service whose calls are steps.

    An event is appended to a ``SeekpointSessionService`` once, also if the machine dies in between: it has the same id
    in each run. Another service may refuse it then as stale.
    """

    def __init__(self, calls: RunCalls, inner: BaseSessionService) -> None:
        self._calls = calls
        self._inner = inner

    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        """Create a session; one that is there already is taken if it is as a new one: it has no events."""

        async def made() -> Session:
            names: dict[str, Any] = {"app_name": app_name, "user_id": user_id, "session_id": session_id}
            try:
                return await self._inner.create_session(**names, state=state)
            except AlreadyExistsError:
                found = await self._inner.get_session(**names) if session_id else None
                if found is None or found.events or {**found.state, **(state or {})} != found.state:
                    raise
                return found  # this run has made it, and crashed before that was recorded

        session = await self._session("session create", made, app_name, user_id, session_id)
        assert session is not None
        return session

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """Return the session as of when this was first called."""
        return await self._session(
            "session",
            lambda: self._inner.get_session(
                app_name=app_name, user_id=user_id, session_id=session_id, config=config
            ),
            app_name, user_id, session_id,
        )  # fmt: skip

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """Return the sessions as of when this was first called."""

        async def found(app_name: str, user_id: str | None) -> list[dict[str, Any]]:
            listed = await self._inner.list_sessions(app_name=app_name, user_id=user_id)
            return [session_json(session) for session in listed.sessions]

        recorded = await self._calls.step("session list", found, app_name, user_id)
        return ListSessionsResponse(sessions=[session_from(one) for one in recorded])

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session."""

        async def delete(app_name: str, user_id: str, session_id: str) -> None:
            await self._inner.delete_session(app_name=app_name, user_id=user_id, session_id=session_id)

        await self._calls.step("session delete", delete, app_name, user_id, session_id)

    async def append_event(self, session: Session, event: Event) -> Event:
        """Append an event; a run that begins again does to ``session`` what was done."""
        if event.partial:
            return event
        is_done = False

        async def append(author: str) -> dict[str, Any]:
            nonlocal is_done
            await self._inner.append_event(session, event)
            is_done = True
            return {
                "at": event.timestamp, "updated": session.last_update_time, "marker": session._storage_update_marker,
            }  # fmt: skip

        recorded = await self._calls.step("session event", append, event.author)
        if not is_done:
            event.timestamp = recorded["at"]
            await super().append_event(session, event)
        session.last_update_time = recorded["updated"]
        session._storage_update_marker = recorded["marker"]
        return event

    async def _session(
        self, name: str, call: Callable[[], Awaitable[Session | None]], *names: str | None
    ) -> Session | None:
        process = self._calls.process

        async def made(*names: str | None) -> Any:
            session = await call()
            found = None if session is None else session_json(session)
            text = json.dumps(found, ensure_ascii=False).encode()
            return await process.attach(text, media_type="application/json") if len(text) > _LARGE_BYTES else found

        recorded = await self._calls.step(name, made, *names)
        if isinstance(recorded, Ref):
            recorded = json.loads(await process.read_attachment(recorded))
        return None if recorded is None else session_from(recorded)
