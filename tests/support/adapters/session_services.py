"""Session services of the Agent Development Kit that forget: each call has another one, on a node that may be new."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from itertools import cycle
from typing import Any

from google.adk.events.event import Event
from google.adk.sessions import BaseSessionService, Session
from google.adk.sessions.base_session_service import ListSessionsResponse

from seekpoint import Node
from seekpoint.adapters.adk import SeekpointSessionService

__all__ = ["MODES", "RelayingService", "in_turns", "service_in_mode"]

NodeMaker = Callable[[str], Node]
MODES = ("warm", "cold", "two_nodes")
"""One service; a new node and service for each call; two nodes that take turns, call by call."""


class RelayingService(BaseSessionService):
    """Has each call made by the service that ``service`` opens for it."""

    def __init__(self, service: Callable[[], AbstractAsyncContextManager[SeekpointSessionService]]) -> None:
        self._service = service

    async def create_session(self, **how: Any) -> Session:
        """Relay."""
        async with self._service() as service:
            return await service.create_session(**how)

    async def get_session(self, **how: Any) -> Session | None:
        """Relay."""
        async with self._service() as service:
            return await service.get_session(**how)

    async def list_sessions(self, **how: Any) -> ListSessionsResponse:
        """Relay."""
        async with self._service() as service:
            return await service.list_sessions(**how)

    async def delete_session(self, **how: Any) -> None:
        """Relay."""
        async with self._service() as service:
            await service.delete_session(**how)

    async def get_user_state(self, **how: Any) -> dict[str, Any]:
        """Relay."""
        async with self._service() as service:
            return await service.get_user_state(**how)

    async def append_event(self, session: Session, event: Event) -> Event:
        """Relay."""
        async with self._service() as service:
            return await service.append_event(session, event)


def in_turns(nodes: Sequence[Node], prefix: str = "adk") -> BaseSessionService:
    """Return a service each call of which is made by the next of these nodes."""
    turns = cycle([SeekpointSessionService(node, prefix=prefix) for node in nodes])

    @asynccontextmanager
    async def next_one() -> AsyncIterator[SeekpointSessionService]:
        yield next(turns)

    return RelayingService(next_one)


@asynccontextmanager
async def service_in_mode(mode: str, make_node: NodeMaker) -> AsyncIterator[BaseSessionService]:
    """Yield a service in one of ``MODES``, on nodes that ``make_node`` makes of their names."""
    async with AsyncExitStack() as stack:
        if mode == "warm":
            yield SeekpointSessionService(await stack.enter_async_context(make_node("node-a")))
        elif mode == "two_nodes":
            nodes = [await stack.enter_async_context(make_node(name)) for name in ("node-a", "node-b")]
            yield in_turns(nodes)
        else:

            @asynccontextmanager
            async def new_one() -> AsyncIterator[SeekpointSessionService]:
                async with make_node("node-a") as node:
                    yield SeekpointSessionService(node)

            yield RelayingService(new_one)
