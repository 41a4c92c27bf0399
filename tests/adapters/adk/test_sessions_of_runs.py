"""The session of a durable run: made once, read once, and of no other program."""

from __future__ import annotations

from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events.event import Event
from google.adk.sessions import BaseSessionService, InMemorySessionService
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from adk_runs import asking_a_helper, buyer, crashed, model, run_of, stored
from scripted_llms import call, said
from seekpoint import Node, Process, agent
from seekpoint.adapters.adk import SeekpointSessionService
from seekpoint.adapters.adk.durable_sessions import DurableSessions
from seekpoint.adapters.run_calls import RunCalls
from seekpoint.testing import crash_at

pytestmark = pytest.mark.filterwarnings("ignore:.*plugins:DeprecationWarning")


async def test_a_session_that_was_made_before_a_crash_is_taken() -> None:
    """The machine dies after the session is in the journal, and before the run has recorded that."""
    doomed = crash_at(call="session create:1", ended=True, when="unsent")
    assert await doomed.run(asking_a_helper(), "p", "go") == "root done"
    async with Node.in_memory(doomed.log) as node:
        found = await SeekpointSessionService(node).get_session(app_name="shop", user_id="ada", session_id="1")
    assert found is not None
    assert [event.author for event in found.events] == ["user", "root", "root", "root"]


async def test_a_session_that_others_use_is_not_taken() -> None:
    """One that has events, or another state, was not made by this run."""
    service = InMemorySessionService()
    names: dict[str, Any] = {"app_name": "shop", "user_id": "ada", "session_id": "1"}

    @agent("creates", version="1")
    async def creates(process: Process, state: dict[str, Any]) -> dict[str, Any]:
        sessions = DurableSessions(RunCalls(process), service)
        return (await sessions.create_session(**names, state=state)).state

    session = await service.create_session(**names, state={"a": 1})
    async with Node.in_memory() as node:
        assert await node.run(creates, "same", {"a": 1}) == {"a": 1}
        with pytest.raises(AlreadyExistsError):
            await node.run(creates, "other", {"a": 2})
        await service.append_event(session, Event(author="user"))
        with pytest.raises(AlreadyExistsError):
            await node.run(creates, "used", {"a": 1})


async def test_a_session_that_another_run_has_changed_is_refused() -> None:
    """A stale session is the fence: the run ends with the toolkit's error."""

    async def interfere(tool_context: ToolContext) -> str:
        """Append to the session behind the run's back."""
        service = SeekpointSessionService(nodes[0])
        session = await service.get_session(app_name="shop", user_id="ada", session_id="1")
        assert session is not None
        await service.append_event(session, Event(author="somebody"))
        return "ok"

    root = LlmAgent(
        name="a", model=model(lambda number: said("x") if number else [call("interfere")]), tools=[interfere]
    )
    async with Node.in_memory() as node:
        nodes = [node]
        with pytest.raises(StaleSessionError):
            await node.run(run_of(root), "p", "x")
        assert await stored(node) == ["user", "a", "somebody"]


async def test_a_long_session_is_read_once() -> None:
    """Though it does not fit into an entry."""
    service = InMemorySessionService()
    session = await service.create_session(app_name="shop", user_id="ada", session_id="1")
    for _ in range(3):
        event = Event(author="user", content=types.UserContent("x" * 500_000))
        await service.append_event(session, event)
    root = LlmAgent(name="a", model=model(lambda number: said("done")), include_contents="none")
    run = run_of(root, session_service=service)
    assert await crashed(run, "model", nth=1) == ["done"]
    found = await service.get_session(app_name="shop", user_id="ada", session_id="1")
    assert found is not None
    assert len(found.events) == 7  # two runs


async def test_sessions_of_another_service_are_steps() -> None:
    """Their calls are recorded too."""
    service: BaseSessionService = InMemorySessionService()
    async with Node.in_memory() as node:
        assert await node.run(run_of(buyer(), session_service=service), "p", "x") == ["done"]
    found = await service.list_sessions(app_name="shop")
    assert [one.id for one in found.sessions] == ["1"]
