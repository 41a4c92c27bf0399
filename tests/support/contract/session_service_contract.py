"""What every session service of the Agent Development Kit owes its callers.

The same behaviour as in the toolkit's own parametrised tests of session services (tests/unittests/sessions), which are
in no package. Those of its database service count too: stale sessions are refused.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions import BaseSessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.genai import types

__all__ = ["APP", "SessionServiceContract", "changing", "got", "made"]

APP = "shop"


def changing(delta: dict[str, Any] | None = None, **more: Any) -> Event:
    """Return an event that changes a state."""
    return Event(author="user", invocation_id="i", actions=EventActions(state_delta=delta or {}), **more)


async def made(service: BaseSessionService, user: str = "ada", name: str | None = None, **state: Any) -> Session:
    """Create a session; ``app__k`` is the key ``app:k``."""
    given = {key.replace("__", ":"): value for key, value in state.items()}
    return await service.create_session(app_name=APP, user_id=user, session_id=name, state=given)


async def got(service: BaseSessionService, session: Session, **config: Any) -> Session:
    """Return the session as it is stored."""
    found = await service.get_session(
        app_name=APP,
        user_id=session.user_id,
        session_id=session.id,
        config=GetSessionConfig(**config) if config else None,
    )
    assert found is not None
    return found


class SessionServiceContract:
    """Inherit it, with a fixture ``service``."""

    # --- create, get, list, delete
    async def test_an_unknown_session_is_none(self, service: BaseSessionService) -> None:
        """And to delete it does nothing."""
        assert await service.get_session(app_name=APP, user_id="ada", session_id="1") is None
        await service.delete_session(app_name=APP, user_id="ada", session_id="1")
        assert (await service.list_sessions(app_name=APP)).sessions == []

    async def test_a_created_session_is_got_until_it_is_deleted(self, service: BaseSessionService) -> None:
        """Afterwards its id may be used again."""
        session = await made(service, k="v")
        assert (session.app_name, session.user_id, session.state) == (APP, "ada", {"k": "v"})
        assert session.id
        assert session.last_update_time <= time.time()
        assert await got(service, session) == session
        await service.append_event(session, changing({"more": 1}))
        await service.delete_session(app_name=APP, user_id="ada", session_id=session.id)
        assert await service.get_session(app_name=APP, user_id="ada", session_id=session.id) is None
        again = await made(service, name=session.id)
        assert (again.state, (await got(service, again)).events) == ({}, [])

    async def test_an_id_is_taken_once_for_each_user(self, service: BaseSessionService) -> None:
        """White space around it does not count, and of it alone an id is made."""
        session = await made(service, name=" 1 ", keep="this")
        assert session.id == "1"
        for name in ("1", " 1"):
            with pytest.raises(AlreadyExistsError):
                await made(service, name=name, keep="that")
        assert (await got(service, session)).state == {"keep": "this"}
        assert (await service.get_session(app_name=APP, user_id="ada", session_id=" 1 ")) == session
        await service.append_event(session, changing())
        other = await made(service, user="bob", name="1")
        assert (await got(service, other)).events == []
        assert (await made(service, name="  ")).id.strip()

    async def test_sessions_are_listed_oldest_first_with_their_states(self, service: BaseSessionService) -> None:
        """By the time of their newest event; without their events; of one user or of all."""
        sessions = [await made(service, name=name, own=name, app__a=1, user__u=2) for name in ("a", "b/c", "d")]
        other = await made(service, user="ada/a", name="x")
        await service.append_event(sessions[0], changing(timestamp=time.time() + 9))
        await made(service, user="ad", name="y")
        listed = (await service.list_sessions(app_name=APP, user_id="ada")).sessions
        assert [(one.id, one.events) for one in listed] == [("b/c", []), ("d", []), ("a", [])]
        assert listed[0].state == {"own": "b/c", "app:a": 1, "user:u": 2}
        everybody = (await service.list_sessions(app_name=APP)).sessions
        assert [one.id for one in everybody] == ["b/c", "d", "x", "y", "a"]
        assert next(one for one in everybody if one.id == "x").state == {"app:a": 1} == other.state
        assert (await service.list_sessions(app_name="sho")).sessions == []

    # --- state
    async def test_states_are_shared_by_their_scope(self, service: BaseSessionService) -> None:
        """That of an app by all, that of a user by their sessions, that of a session by nobody."""
        first = await made(service, app__a=1, user__u=1, own=1)
        await service.append_event(first, changing({"app:b": 2, "user:v": 2, "more": 2, "temp:t": 3}))
        assert first.state == {"app:a": 1, "app:b": 2, "user:u": 1, "user:v": 2, "own": 1, "more": 2, "temp:t": 3}
        stored = await got(service, first)
        assert stored.state == {key: value for key, value in first.state.items() if key != "temp:t"}
        assert (await made(service)).state == {"app:a": 1, "app:b": 2, "user:u": 1, "user:v": 2}
        assert (await made(service, user="bob")).state == {"app:a": 1, "app:b": 2}
        assert await service.get_user_state(app_name=APP, user_id="ada") == {"u": 1, "v": 2}
        assert await service.get_user_state(app_name="other", user_id="ada") == {}

    @pytest.mark.parametrize("scope", ["", "app:", "user:"])
    async def test_a_change_replaces_a_value(self, service: BaseSessionService, scope: str) -> None:
        """It is not merged; None is a value; other values stay as they are."""
        session = await made(service, name="1", kept=False)
        await service.append_event(session, changing({f"{scope}k": {"name": "ada", "role": "admin"}}))
        await service.append_event(session, changing({f"{scope}k": {"name": "bob"}, f"{scope}n": 1}))
        await service.append_event(session, changing({f"{scope}n": None}))
        for one in (session, await got(service, session)):
            assert one.state == {"kept": False, f"{scope}k": {"name": "bob"}, f"{scope}n": None}

    async def test_temporary_values_are_seen_and_not_stored(self, service: BaseSessionService) -> None:
        """The next agent of the invocation reads them."""
        session = await made(service, temp__t=0)
        assert session.state == {} == (await got(service, session)).state
        event = changing({"temp:t": 1, "own": 2})
        await service.append_event(session, event)
        assert session.state == {"temp:t": 1, "own": 2}
        assert event.actions.state_delta == {"own": 2}
        assert (await got(service, session)).state == {"own": 2}

    async def test_a_value_that_is_no_json_becomes_text(self, service: BaseSessionService) -> None:
        """The event is stored all the same."""
        session = await made(service)
        await service.append_event(session, changing({"call": print, "ok": 2}))
        stored = await got(service, session)
        assert stored.state["ok"] == 2
        assert isinstance(stored.state["call"], str)
        assert len(stored.events) == 1

    # --- events
    async def test_an_event_is_read_as_it_was_appended(self, service: BaseSessionService) -> None:
        """All of its fields, bytes too."""
        session = await made(service)
        image = types.Part.from_bytes(data=b"\x00image\xff", mime_type="image/png")
        confirmation = ToolConfirmation(hint="sure?", payload={"id": "album"})
        event = Event(
            invocation_id="i", author="user", turn_complete=True, partial=False, error_code="e", error_message="m",
            content=types.Content(role="user", parts=[types.Part(text="text é\0"), image]), interrupted=True,
            actions=EventActions(
                artifact_delta={"file": 0}, transfer_to_agent="a", escalate=True,
                requested_tool_confirmations={"call": confirmation},
            ),
            long_running_tool_ids={"tool"}, custom_metadata={"k": "v"}, timestamp=1700000000.123,
            grounding_metadata=types.GroundingMetadata(
                web_search_queries=["q"], search_entry_point=types.SearchEntryPoint(sdk_blob=b"blob")
            ),
            usage_metadata=types.GenerateContentResponseUsageMetadata(prompt_token_count=1, total_token_count=2),
            citation_metadata=types.CitationMetadata(),
            input_transcription=types.Transcription(text="in", finished=True),
        )  # fmt: skip
        assert await service.append_event(session, event) is event
        stored = await got(service, session)
        assert stored == session
        assert stored.events == [event]

    async def test_a_session_changes_with_its_events(self, service: BaseSessionService) -> None:
        """Its time is that of the newest."""
        session = await made(service)
        at = session.last_update_time + 10
        await service.append_event(session, changing(timestamp=at))
        assert session.last_update_time == at == (await got(service, session)).last_update_time

    async def test_partial_events_are_not_stored(self, service: BaseSessionService) -> None:
        """Nor are they in the session."""
        session = await made(service)
        await service.append_event(session, Event(author="a", partial=True))
        assert session.events == [] == (await got(service, session)).events

    async def test_the_events_that_are_asked_for_are_returned(self, service: BaseSessionService) -> None:
        """The newest ones, those from a time on, and both; in a repeated hour of the local time too."""
        session, base = await made(service), 1730613600.0
        for number in range(1, 6):
            await service.append_event(session, changing(timestamp=base + number))

        async def times(**config: Any) -> list[float]:
            return [event.timestamp - base for event in (await got(service, session, **config)).events]

        assert await times() == [1, 2, 3, 4, 5]
        assert await times(num_recent_events=0) == []
        assert await times(num_recent_events=3) == [3, 4, 5]
        assert await times(num_recent_events=9) == [1, 2, 3, 4, 5]
        assert await times(after_timestamp=base + 4) == [4, 5]
        assert await times(after_timestamp=base + 50) == []
        assert await times(after_timestamp=base + 2, num_recent_events=3) == [3, 4, 5]
        assert await times(after_timestamp=base + 4, num_recent_events=3) == [4, 5]

    # --- stale sessions
    async def test_an_event_for_no_session_is_refused(self, service: BaseSessionService) -> None:
        """One that was never created, and one that was deleted."""
        with pytest.raises(SessionNotFoundError):
            await service.append_event(Session(app_name=APP, user_id="ada", id="never"), changing())
        session = await made(service)
        await service.delete_session(app_name=APP, user_id="ada", session_id=session.id)
        with pytest.raises(SessionNotFoundError):
            await service.append_event(session, changing())
        assert session.events == []

    async def test_a_stale_session_is_refused(self, service: BaseSessionService) -> None:
        """Nothing of its event is stored; read again, it takes events."""
        first = await made(service)
        second = await got(service, first)
        await service.append_event(first, changing({"a": 1}))
        with pytest.raises(StaleSessionError, match="modified in storage"):
            await service.append_event(second, changing({"b": 2, "app:b": 2, "user:b": 2}))
        assert second.events == []
        second = await got(service, second)
        assert (second.state, len(second.events)) == ({"a": 1}, 1)
        await service.append_event(second, changing({"b": 2}))
        with pytest.raises(StaleSessionError):
            await service.append_event(first, changing())
        assert (await got(service, first)).state == {"a": 1, "b": 2}

    async def test_of_events_at_once_one_is_stored(self, service: BaseSessionService) -> None:
        """The other one is refused, each time."""
        session = await made(service)
        for number in range(4):
            copies = [(await got(service, session)) for _ in range(2)]
            results = await asyncio.gather(
                *(service.append_event(copy, changing({f"{number}-{side}": 1})) for side, copy in enumerate(copies)),
                return_exceptions=True,
            )
            assert [type(one) for one in results if not isinstance(one, Event)] == [StaleSessionError]
        assert len((await got(service, session)).events) == 4

    async def test_of_sessions_at_once_one_is_created(self, service: BaseSessionService) -> None:
        """The other one exists already."""
        results = await asyncio.gather(*(made(service, name="1", side=n) for n in range(2)), return_exceptions=True)
        assert [type(one) for one in results if not isinstance(one, Session)] == [AlreadyExistsError]
        winner = next(one for one in results if isinstance(one, Session))
        assert (await got(service, winner)).state == winner.state

    async def test_a_session_of_before_a_deletion_is_stale(self, service: BaseSessionService) -> None:
        """Though the new one has as many events."""
        old = await made(service, name="1")
        await service.delete_session(app_name=APP, user_id="ada", session_id="1")
        await made(service, name="1")
        with pytest.raises(StaleSessionError):
            await service.append_event(old, changing())

    async def test_a_session_without_a_marker_is_compared_by_its_newest_event(
        self, service: BaseSessionService
    ) -> None:
        """Such as one that a program made by hand; its time may be a little off."""
        session = await made(service)
        await service.append_event(session, changing(timestamp=session.last_update_time + 10))
        copy = session.model_copy(deep=True)
        for one in (session, copy):
            one._storage_update_marker = None
            one.last_update_time -= 0.0001
        await service.append_event(session, changing(timestamp=session.last_update_time + 10))
        with pytest.raises(StaleSessionError):
            await service.append_event(copy, changing())
        assert len((await got(service, session)).events) == 2

    async def test_an_event_that_is_delivered_again_is_stored_once(self, service: BaseSessionService) -> None:
        """As the same object, as a copy, and with the session as it was; another event with its id is stored."""
        session = await made(service)
        before, event = session.model_copy(deep=True), changing({"n": 1}, id="same")
        await service.append_event(session, event)
        await service.append_event(session, event)
        await service.append_event(session, event.model_copy(deep=True))
        assert len(session.events) == 1
        await service.append_event(before, event.model_copy(deep=True))
        assert before == session
        await service.append_event(before, changing({"n": 2}, id="same"))
        stored = await got(service, session)
        assert [one.actions.state_delta for one in stored.events] == [{"n": 1}, {"n": 2}]
        assert stored == before
