"""Serve declared pages and calls: check role, CSRF token, query and body, then call, and turn errors into answers."""

from __future__ import annotations

import logging
import types
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast, get_args, get_origin, get_type_hints
from urllib.parse import quote

import msgspec
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from seekpoint.console.web.auth.user_identity import Role
from seekpoint.console.web.failures import ApiError, BadRequest, ErrorAnswer, failure_of
from seekpoint.console.web.route_declarations import Operation, Visit, WebPage
from seekpoint.schemas.frozen_struct import built

if TYPE_CHECKING:
    from starlette.requests import Request

    from seekpoint.console.web.auth.authentication import Visitor
    from seekpoint.console.web.parts import ConsoleParts

__all__ = ["CSRF_FIELD", "CSRF_HEADER", "json_response", "operation_route", "page_route", "read_body", "sender"]

CSRF_HEADER = "x-csrf-token"
CSRF_FIELD = "csrf_token"
_BODY_BYTES_MAX = 1_048_576
_logger = logging.getLogger("seekpoint.console")


def page_route(parts: ConsoleParts, page: WebPage) -> Route:
    """Return the route of a page."""

    async def serve(request: Request) -> Response:
        visitor = parts.authentication.visitor(request)
        try:
            if visitor.identity is None and request.headers.get("sec-fetch-mode", "navigate") == "navigate":
                where = quote(f"{request.url.path}?{request.url.query}".rstrip("?"), safe="")
                return RedirectResponse(f"/sign-in?next={where}", 303)
            visit = _visit(parts, request, visitor, page.role)
            response = await page.show(visit, _query(request, page.query, is_form=True))
            if isinstance(response, StreamingResponse):
                response.body_iterator = _while_allowed(parts, request, page.role, response.body_iterator)
        except Exception as error:
            status, answer = failure_of(error, parts.target.scrub)
            response = parts.templates.error_page(request, visitor, status, answer)
        if visitor.session is not None:
            parts.authentication.keep(response, visitor.session)
        return response

    return Route(page.path, serve, methods=["GET"])


async def _while_allowed(
    parts: ConsoleParts, request: Request, role: Role, chunks: AsyncIterable[Any]
) -> AsyncIterator[Any]:
    """Yield the chunks of a stream until its viewer's session, token or role ends."""
    async with aclosing(cast("AsyncGenerator[Any, None]", chunks)):
        async for chunk in chunks:
            identity = parts.authentication.visitor(request).identity
            if identity is None or identity.role < role:
                return
            yield chunk


def operation_route(parts: ConsoleParts, operation: Operation) -> Route:
    """Return the route of a call of the API."""

    async def serve(request: Request) -> Response:
        try:
            visitor = parts.authentication.visitor(request)
            visit = _visit(parts, request, visitor, operation.role)
            given: list[Any] = [_query(request, operation.query)]
            if operation.method != "GET":
                _check_csrf(parts, visitor, request)
            if operation.body is not None:
                given.append(_decoded(await read_body(request), operation.body))
            return json_response(await operation.call(visit, *given))
        except Exception as error:
            status, answer = failure_of(error, parts.target.scrub)
            return json_response(ErrorAnswer(error=answer), status)

    return Route(operation.path, serve, methods=[operation.method])


def sender(request: Request) -> str:
    """Return the address of the program that sent a request. Behind a proxy it is the proxy's."""
    return "?" if request.client is None else request.client.host


def json_response(value: Any, status: int = 200) -> Response:
    """Return a value as a JSON response."""
    return Response(msgspec.json.encode(value), status, media_type="application/json")


async def read_body(request: Request, bytes_max: int = _BODY_BYTES_MAX) -> bytes:
    """Return the body. Raises ``BadRequest`` for a larger one."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > bytes_max:
            raise BadRequest(413, "TooLarge", f"the body has more than {bytes_max:,} bytes")
    return bytes(body)


def _visit(parts: ConsoleParts, request: Request, visitor: Visitor, role: Role) -> Visit:
    identity = visitor.identity
    if identity is None:
        advice = "send a token: Authorization: Bearer TOKEN"
        raise _refusal(request, BadRequest(401, "SignInNeeded", "nobody is signed in", advice))
    if identity.role < role:
        advice = (
            f"ask for the role {role.title}"
            if parts.authentication.has_sign_in
            else "start the console with --allow-changes"
        )
        message = f"this needs the role {role.title}; {identity.name} is {identity.role.title}"
        raise _refusal(request, BadRequest(403, "RoleNeeded", message, advice))
    return Visit(parts, request, identity, visitor.session)


def _refusal(request: Request, refusal: BadRequest) -> BadRequest:
    """Return a refusal to raise. Log it for a change and for a wrong token; pages of old sessions ask all the time."""
    if request.method != "GET" or "authorization" in request.headers:
        path, code, message = request.url.path, refusal.answer.code, refusal.answer.message
        _logger.warning("refused %s %s from %s: %s: %s", request.method, path, sender(request), code, message)
    return refusal


def _check_csrf(parts: ConsoleParts, visitor: Visitor, request: Request) -> None:
    if visitor.session is None:
        return  # a bearer token: no browser sends it by itself
    if not parts.authentication.signer.is_csrf_token(visitor.session, request.headers.get(CSRF_HEADER, "")):
        message = "the request has no valid CSRF token"
        raise _refusal(request, BadRequest(403, "CsrfTokenNeeded", message, "reload the page"))


def _query(request: Request, kind: type[Any], *, is_form: bool = False) -> Any:
    """Return the parameters as ``kind``. Empty ones of a form count as left out."""
    lists = {name for name, hint in get_type_hints(kind).items() if _is_list(hint)}
    given: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        if is_form and value == "":
            continue
        if name in lists:
            given.setdefault(name, []).append(value)
        elif name in given:
            raise BadRequest(400, "BadQuery", f"the parameter {name[:60]!r} is there twice")
        else:
            given[name] = value
    try:
        return msgspec.convert(given, built(kind), strict=False)
    except (msgspec.ValidationError, ValueError) as exc:
        raise BadRequest(400, "BadQuery", f"the query is not valid: {exc}", "see /api/openapi.json") from exc


def _is_list(hint: Any) -> bool:
    if get_origin(hint) is types.UnionType:
        return any(map(_is_list, get_args(hint)))
    return get_origin(hint) in (tuple, list)


def _decoded(body: bytes, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(body, type=built(kind))
    except (msgspec.DecodeError, ValueError) as exc:
        raise BadRequest(400, "BadBody", f"the body is not valid: {exc}", "see /api/openapi.json") from exc


def no_such_page() -> ApiError:
    """Return the answer for an address that does not exist."""
    return ApiError(code="NoSuchPage", message="there is no such page", advice="go to the processes")
