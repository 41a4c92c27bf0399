"""Sessions of the Agent Development Kit in a journal: entries, crashes between them, large values, event loops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from google.adk.errors import StaleSessionError
from google.adk.events.event import Event
from google.adk.sessions import Session
from google.genai import types

from seekpoint import Limits, MemoryLog, Node, State, SyncNode
from seekpoint.adapters.adk import SeekpointSessionService
from seekpoint.adapters.adk.scoped_state import ScopedStates, with_attached
from seekpoint.adapters.attached_items import drop_unused
from seekpoint.adapters.shared_process_calls import SharedProcessCalls
from seekpoint.errors import InvalidOption, LimitExceeded
from session_service_contract import APP, changing, got, made

SESSION = "adk/session/shop/ada/1"


@pytest.fixture
async def nodes() -> AsyncIterator[list[Node]]:
    """Two nodes of one journal."""
    log = MemoryLog()
    async with Node.in_memory(log, node_id="n0") as first, Node.in_memory(log, node_id="n1") as second:
        yield [first, second]


async def state_of(node: Node, process_id: str) -> State:
    """The state of a process."""
    return (await node.recover(process_id, missing_ok=True)).state


async def app_value(service: SeekpointSessionService) -> object:
    """The value ``app:k``, as a user without a session sees it."""
    return (await made(service, user="someone")).state.get("app:k")


# --- entries
async def test_an_event_is_one_entry(nodes: list[Node]) -> None:
    """With all that it changes of its own session; reads write nothing."""
    service = SeekpointSessionService(nodes[0])
    assert await service.get_session(app_name=APP, user_id="ada", session_id="1") is None
    assert (await state_of(nodes[0], SESSION)).seq == 0
    session = await made(service, name="1", k=1)
    assert (await state_of(nodes[0], SESSION)).seq == 1
    await service.append_event(session, changing({"a": 1, "b": 2}))
    await got(service, session)
    assert (await state_of(nodes[0], SESSION)).seq == 2


async def test_shared_changes_leave_nothing_behind(nodes: list[Node]) -> None:
    """Neither an outbox nor a mark."""
    service = SeekpointSessionService(nodes[0])
    session = await made(service, name="1", app__k=1)
    await service.append_event(session, changing({"app:k": 2, "user:k": 3}))
    assert "outbox" not in (await state_of(nodes[0], SESSION)).context
    assert (await state_of(nodes[0], "adk/app/shop")).context == {"state/k": 2}
    assert (await state_of(nodes[0], "adk/user/shop/ada")).context == {"state/k": 3}


@pytest.mark.parametrize("name", ["a/b", "~", "\u00e9 x", "n" * 400, "100%"])
async def test_names_are_as_the_program_gave_them(nodes: list[Node], name: str) -> None:
    """Also those that do not fit into the id of a process."""
    service = SeekpointSessionService(nodes[0], prefix="mine", actor="server-3")
    session = await service.create_session(app_name=name, user_id=name, session_id=name, state={"user:k": 1})
    await service.append_event(session, changing({"app:k": 2}))
    await service.create_session(app_name=name + "x", user_id=name, session_id=name)
    for user in (name, None):
        listed = (await service.list_sessions(app_name=name, user_id=user)).sessions
        assert [(one.app_name, one.user_id, one.id) for one in listed] == [(name, name, name)]
        assert listed[0].state == {"user:k": 1, "app:k": 2}
    assert await service.get_session(app_name=name, user_id=name, session_id=name) == session


async def test_a_prefix_has_to_be_something() -> None:
    """The error names the option."""
    async with Node.in_memory() as node:
        with pytest.raises(InvalidOption, match="prefix"):
            SeekpointSessionService(node, prefix="")


# --- crashes between the entries
class Crash(Exception):
    """What a program that is killed never gets to tell."""


def _crash_before_the_app(patch: pytest.MonkeyPatch) -> None:
    async def crash(*given: object) -> None:
        raise Crash

    patch.setattr(ScopedStates, "_apply", crash)


def _crash_after_the_app(patch: pytest.MonkeyPatch) -> None:
    apply = ScopedStates._apply

    async def crash(*given: Any) -> None:
        await apply(*given)
        raise Crash

    patch.setattr(ScopedStates, "_apply", crash)


def _crash_before_the_mark_is_removed(patch: pytest.MonkeyPatch) -> None:
    async def crash(*given: object) -> None:
        raise Crash

    patch.setattr(ScopedStates, "_forget", crash)


CRASHES = [(_crash_before_the_app, None, 1), (_crash_after_the_app, 1, 2), (_crash_before_the_mark_is_removed, 1, 2)]


@pytest.mark.parametrize(("crash", "seen", "at_last"), CRASHES)
@pytest.mark.parametrize("way", ["get", "list", "append", "delete"])
async def test_a_shared_change_is_made_once_after_a_crash(
    nodes: list[Node],
    monkeypatch: pytest.MonkeyPatch,
    crash: Callable[[pytest.MonkeyPatch], None],
    seen: object,
    at_last: object,
    way: str,
) -> None:
    """By the next call on the session; a newer value of another session is kept if the change was made before it."""
    service, other = (SeekpointSessionService(node) for node in nodes)
    session = await made(service, name="1")
    event = changing({"app:k": 1, "own": 1})
    with monkeypatch.context() as patch:
        crash(patch)
        with pytest.raises(Crash):
            await service.append_event(session, event)
    assert await app_value(other) == seen
    await other.append_event(await made(other, user="bob"), changing({"app:k": 2}))
    if way == "append":
        await other.append_event(session, event)  # the same call again
        assert session.state["own"] == 1
    elif way == "get":
        assert (await got(other, session)).state == {"own": 1, "app:k": at_last}
    elif way == "list":
        await other.list_sessions(app_name=APP)
    else:
        await other.delete_session(app_name=APP, user_id="ada", session_id="1")
    assert await app_value(service) == at_last
    assert "outbox" not in (await state_of(nodes[0], SESSION)).context


# --- large values
def with_image(size: int, **delta: Any) -> Event:
    """An event with an image."""
    event = changing(delta)
    event.content = types.Content(role="user", parts=[types.Part.from_bytes(data=bytes(size), mime_type="image/png")])
    return event


async def test_large_events_and_values_are_attached(nodes: list[Node]) -> None:
    """They are read on every node; a value that is replaced is dropped; a deletion drops all."""
    service, other = (SeekpointSessionService(node) for node in nodes)
    session = await made(service, name="1", app__large="a" * 70_000)
    await service.append_event(session, with_image(2_000_000, own="x" * 1_200_000))
    await service.append_event(session, changing({"app:large": "b" * 70_000, "user:large": "c" * 70_000}))
    assert await got(other, session) == session
    assert len((await state_of(nodes[0], SESSION)).attachments) == 3  # two events and a value
    assert len((await state_of(nodes[0], "adk/app/shop")).attachments) == 1
    session = await got(other, session)
    await other.append_event(session, changing({"own": 1}))
    assert len((await state_of(nodes[0], SESSION)).attachments) == 2
    await other.append_event(session, changing({"user:large": 1}))
    assert (await state_of(nodes[0], "adk/user/shop/ada")).attachments == {}
    assert (await got(service, session)).state == {"own": 1, "app:large": "b" * 70_000, "user:large": 1}
    assert await got(service, session, num_recent_events=1) == (await got(other, session, num_recent_events=1))
    await service.delete_session(app_name=APP, user_id="ada", session_id="1")
    assert (await state_of(nodes[0], SESSION)).attachments == {}


async def test_large_events_at_once_are_all_there(nodes: list[Node], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if another call drops what it attached before it is referred to."""
    dropped = False

    async def attach_and_lose(calls: SharedProcessCalls, values: Any) -> dict[str, Any]:
        nonlocal dropped
        found = await attach(calls, values)
        if not dropped:
            dropped = True
            await drop_unused(calls, SESSION)
        return found

    attach = with_attached
    service = SeekpointSessionService(nodes[0])
    session = await made(service, name="1")
    with monkeypatch.context() as patch:
        patch.setattr("seekpoint.adapters.adk.session_service.with_attached", attach_and_lose)
        await service.append_event(session, with_image(100_000))
    assert dropped
    assert await got(SeekpointSessionService(nodes[1]), session) == session


async def test_a_session_that_is_full_says_so() -> None:
    """Nothing of the event is stored."""
    log = MemoryLog(limits=Limits(attached_bytes=150_000, record_bytes=60_000, state_bytes=100_000))
    async with Node.in_memory(log) as node:
        service = SeekpointSessionService(node)
        session = await made(service, name="1")
        await service.append_event(session, changing({"k": "x" * 25_000}))
        with pytest.raises(LimitExceeded, match="takes no more events"):
            for _ in range(20):
                await service.append_event(session, changing({"k": "x" * 25_000}))
        count = len(session.events)
        assert len((await got(service, session)).events) == count > 1
        with pytest.raises(LimitExceeded, match="takes no such state"):
            await made(service, **{f"k{number}": "x" * 50_000 for number in range(4)})


# --- turns, and event loops
async def test_two_nodes_that_take_turns_see_each_other(nodes: list[Node]) -> None:
    """No node takes what it knows for the newest."""
    first, second = (SeekpointSessionService(node) for node in nodes)
    session = await made(first)
    for number in range(6):
        await (first, second)[number % 2].append_event(session, changing({"n": number}))
        assert await got((second, first)[number % 2], session) == session


async def test_a_stale_session_writes_nothing(nodes: list[Node]) -> None:
    """Neither its event nor what it changes of its app."""
    service = SeekpointSessionService(nodes[0])
    session = await made(service, name="1")
    stale = await got(service, session)
    await service.append_event(session, changing())
    before = (await state_of(nodes[0], SESSION)).seq
    with pytest.raises(StaleSessionError):
        await service.append_event(stale, changing({"app:k": 1}))
    assert (await state_of(nodes[0], SESSION)).seq == before
    assert (await state_of(nodes[0], "adk/app/shop")).seq == 0


async def _converse(service: SeekpointSessionService) -> Session:
    session = await made(service, name="1", app__k=1)
    await service.append_event(session, changing({"own": 1}))
    return await got(service, session)


def test_a_node_with_a_loop_of_its_own_serves_any_loop() -> None:
    """``Runner.run`` has one for each call."""
    with SyncNode.in_memory() as node:
        service = SeekpointSessionService(node)
        session = asyncio.run(_converse(service))
        again = asyncio.run(service.get_session(app_name=APP, user_id="ada", session_id="1"))
        assert again == session
        assert session.state == {"own": 1, "app:k": 1}


async def test_another_thread_uses_the_loop_of_the_node(nodes: list[Node]) -> None:
    """As ``Runner.run`` does in a program that is asynchronous."""
    service = SeekpointSessionService(nodes[0])
    session = await asyncio.to_thread(lambda: asyncio.run(_converse(service)))
    assert await got(service, session) == session
