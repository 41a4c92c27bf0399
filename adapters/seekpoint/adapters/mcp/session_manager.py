"""Sessions of streamable HTTP that survive their node: any node goes on with the session of a client."""

from __future__ import annotations

import hashlib
import json
import logging
from typing import TYPE_CHECKING, Any, TypedDict

import anyio
import pydantic_core
from anyio.abc import TaskStatus
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, authorization_context
from mcp.server.connection import Connection
from mcp.server.mcpserver import MCPServer
from mcp.server.runner import serve_connection
from mcp.server.streamable_http import (
    MCP_SESSION_ID_HEADER,
    SESSION_ID_PATTERN,
    StreamableHTTPServerTransport,
)
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp_types import DEFAULT_NEGOTIATED_VERSION
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from seekpoint.adapters.mcp.event_store import SeekpointEventStore, has_ended
from seekpoint.errors import LimitExceeded, Refused, SeekpointError, UnserializableValue

if TYPE_CHECKING:
    from typing import Unpack

    from mcp.server import Server
    from mcp.server.auth.middleware.bearer_auth import AuthorizationContext
    from starlette.types import Message, Receive, Scope, Send

    from seekpoint import Node

__all__ = ["SeekpointSessionManager", "streamable_http_app"]

_SESSION_ID_CHARACTERS_MAX = 100
_LOOPBACK = ("127.0.0.1", "localhost", "::1")

_logger = logging.getLogger("seekpoint.adapters.mcp")


class ManagerOptions(TypedDict, total=False):
    """The options of ``StreamableHTTPSessionManager`` that make sense for sessions in a journal."""

    json_response: bool
    security_settings: TransportSecuritySettings | None
    retry_interval: int | None
    session_idle_timeout: float | None
    max_request_body_size: int
    max_sessions: int | None


class SeekpointSessionManager(StreamableHTTPSessionManager):
    """A session manager whose sessions are in a journal: ``SeekpointSessionManager(server, node)``.

    A request that names a session of another node is served here: this node takes the session from the journal. A
    session ends for all nodes when its client ends it (``DELETE``). What a node keeps in memory of an idle session goes
    after ``session_idle_timeout``; the session itself stays. Only the credential that began a session may use it.
    """

    def __init__(
        self,
        app: Server[Any] | MCPServer[Any],
        node: Node,
        *,
        prefix: str = "mcp",
        **options: Unpack[ManagerOptions],
    ) -> None:
        super().__init__(app._lowlevel_server if isinstance(app, MCPServer) else app, **options)
        self._node = node
        self._prefix = prefix
        self._stores: dict[str, SeekpointEventStore] = {}
        self._taking = anyio.Lock()

    # The SDK's manager has no public hook for a session that another node has begun: it makes each transport itself. So
    # this overrides private methods. tests/adapters/mcp/test_sdk_internals.py fails where the SDK changes one of them.
    # --- beginning a session
    def _admit_session(self, requestor: AuthorizationContext | None) -> StreamableHTTPServerTransport | None:
        transport = super()._admit_session(requestor)
        if transport is not None:
            assert transport.mcp_session_id is not None
            transport._event_store = self._store_of(transport.mcp_session_id)
        return transport

    async def _serve_opening_request(
        self, http_transport: StreamableHTTPServerTransport, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Store what the client has said of itself, before it can learn the session's id."""
        session_id = http_transport.mcp_session_id
        assert session_id is not None
        body, receive = await _body_of(receive)
        params = _initialize_params(body)
        if params is not None and await self._is_safe(scope):
            client = {name: params.get(name) for name in ("clientInfo", "capabilities")}
            about = {**client, "credential": _digest(self._session_owners.get(session_id))}
            try:
                await self._store_of(session_id).update("session", about, expected_seq=0)
            except BaseException as exc:  # a client that has gone leaves no session behind
                await self._discard_session(session_id, http_transport)
                if not isinstance(exc, SeekpointError):
                    raise
                await _unavailable(exc)(scope, receive, send)
                return
        await super()._serve_opening_request(http_transport, scope, receive, send)

    # --- going on with a session
    async def _handle_stateful_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        session_id = request.headers.get(MCP_SESSION_ID_HEADER)
        if session_id is not None and _is_possible(session_id) and await self._is_safe(scope):
            try:
                await self._prepare(session_id, request)
            except SeekpointError as exc:
                await _unavailable(exc)(scope, receive, send)
                return
        await super()._handle_stateful_request(scope, receive, send)

    async def _prepare(self, session_id: str, request: Request) -> None:
        """Take the session from the journal if it is not here, or drop it if another node has ended it."""
        transport = self._server_instances.get(session_id)
        state = await self._store_of(session_id).state()
        about = state.context.get("session")
        if not isinstance(about, dict) or has_ended(state):
            if transport is not None:
                await self._discard_session(session_id, transport)
            self._stores.pop(session_id, None)
            return
        user = request.scope.get("user")
        credential = authorization_context(user) if isinstance(user, AuthenticatedUser) else None
        if about["credential"] != _digest(credential):
            if transport is None:
                self._stores.pop(session_id, None)
            return
        if request.method == "DELETE":
            await self._store_of(session_id).update("ended", True)
        if transport is None:
            await self._take(session_id, about, credential, request)

    async def _take(
        self, session_id: str, about: dict[str, Any], credential: AuthorizationContext | None, request: Request
    ) -> None:
        """Serve a session of another node here."""
        async with self._taking:
            if session_id in self._server_instances or self._task_group is None:
                return
            if self.max_sessions is not None and len(self._server_instances) >= self.max_sessions:
                raise Refused("too many sessions are open here", hint="send the request again, to another node")
            transport = StreamableHTTPServerTransport(
                mcp_session_id=session_id, is_json_response_enabled=self.json_response,
                event_store=self._store_of(session_id), security_settings=self.security_settings,
                retry_interval=self.retry_interval, idle_timeout=self.session_idle_timeout,
            )  # fmt: skip
            self._server_instances[session_id] = transport
            if credential is not None:
                self._session_owners[session_id] = credential
            version = request.headers.get(MCP_PROTOCOL_VERSION_HEADER, DEFAULT_NEGOTIATED_VERSION)
            await self._task_group.start(self._serve_taken, session_id, transport, about, version)

    async def _serve_taken(
        self, session_id: str, transport: StreamableHTTPServerTransport, about: dict[str, Any], version: str,
        *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:  # fmt: skip
        """Serve a session whose handshake another node has made."""
        async with transport.connect() as (received, sent):
            dispatcher: JSONRPCDispatcher[TransportContext] = JSONRPCDispatcher(
                received, sent, inline_methods=frozenset({"initialize"})
            )
            connection = Connection.from_envelope(
                version, about.get("clientInfo"), about.get("capabilities"), outbound=dispatcher
            )
            connection.session_id = session_id
            task_status.started()
            try:
                with transport.idle_scope or anyio.CancelScope():
                    await serve_connection(
                        self.app, dispatcher, connection=connection, lifespan_state=self._lifespan_state
                    )
            except Exception:
                _logger.exception("the session %s has crashed", session_id)
            finally:
                await self._discard_session(session_id, transport)

    # --- parts
    async def _discard_session(self, session_id: str, transport: StreamableHTTPServerTransport) -> None:
        self._stores.pop(session_id, None)
        await super()._discard_session(session_id, transport)

    def _store_of(self, session_id: str) -> SeekpointEventStore:
        if session_id not in self._stores:
            self._stores[session_id] = SeekpointEventStore(self._node, session_id, prefix=self._prefix)
        return self._stores[session_id]

    async def _is_safe(self, scope: Scope) -> bool:
        """Return whether the transport will take the request: else the journal is not asked for it."""
        request = Request(scope)
        checks = TransportSecurityMiddleware(self.security_settings)
        return await checks.validate_request(request, is_post=request.method == "POST") is None


def streamable_http_app(
    app: Server[Any] | MCPServer[Any],
    node: Node,
    *,
    path: str = "/mcp",
    host: str = "127.0.0.1",
    prefix: str = "mcp",
    **options: Unpack[ManagerOptions],
) -> Starlette:
    """Return an application that serves ``app`` at ``path``, with its sessions in the journal of ``node``.

    Run it in the event loop of the node. ``host`` is where it will listen: on an address of this machine it refuses
    requests that name another host, unless ``security_settings`` says otherwise.
    """
    if options.get("security_settings") is None and host in _LOOPBACK:
        options["security_settings"] = TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=["127.0.0.1:*", "localhost:*", "[::1]:*"],
            allowed_origins=["http://127.0.0.1:*", "http://localhost:*", "http://[::1]:*"],
        )
    manager = SeekpointSessionManager(app, node, prefix=prefix, **options)
    route = Route(path, endpoint=StreamableHTTPASGIApp(manager))
    return Starlette(routes=[route], lifespan=lambda _: manager.run())


async def _body_of(receive: Receive) -> tuple[bytes, Receive]:
    """Return the body of a request, and a ``receive`` that has it again."""
    body, messages = b"", list[Any]()
    while True:
        message = await receive()
        messages.append(message)
        body += message.get("body", b"")
        if message["type"] != "http.request" or not message.get("more_body", False):
            break
    messages.reverse()

    async def again() -> Message:
        return messages.pop() if messages else await receive()

    return body, again


def _initialize_params(body: bytes) -> dict[str, Any] | None:
    """Return the parameters of a request ``initialize``; None for any other body."""
    try:
        found = pydantic_core.from_json(body)
    except ValueError:
        return None
    if not isinstance(found, dict) or found.get("method") != "initialize" or not isinstance(found.get("params"), dict):
        return None
    params: dict[str, Any] = found["params"]
    return params


def _digest(credential: AuthorizationContext | None) -> str | None:
    """Return what the journal keeps of the credential that began a session."""
    if credential is None:
        return None
    return hashlib.sha256(json.dumps(credential, sort_keys=True).encode()).hexdigest()


def _is_possible(session_id: str) -> bool:
    return len(session_id) <= _SESSION_ID_CHARACTERS_MAX and SESSION_ID_PATTERN.fullmatch(session_id) is not None


def _unavailable(error: SeekpointError) -> JSONResponse:
    """Return the answer for a request whose session cannot be read or written now."""
    _logger.warning("a request was refused: %s", error)
    code, status, message = -32603, 503, "the session's journal cannot be used now: send the request again"
    if isinstance(error, LimitExceeded | UnserializableValue):
        code, status, message = -32600, 400, f"what the client says of itself cannot be stored: {error.message}"
    elif isinstance(error, Refused):
        message = f"{error.message}; {error.hint}"
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}, status)
