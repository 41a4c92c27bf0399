"""Sign in with a token or at an identity provider, and sign out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from seekpoint.console.web.auth.authentication import Visitor
from seekpoint.console.web.auth.oidc_sign_in import BEGIN_PATH, CALLBACK_PATH
from seekpoint.console.web.dispatch import CSRF_FIELD, read_body
from seekpoint.console.web.failures import BadRequest, failure_of

if TYPE_CHECKING:
    from starlette.requests import Request

    from seekpoint.console.web.auth.oidc_sign_in import OidcSignIn
    from seekpoint.console.web.parts import ConsoleParts


def sign_in_routes(parts: ConsoleParts) -> Sequence[Route]:
    """Return the routes that anybody may use."""

    async def show(request: Request) -> Response:
        target = request.query_params.get("next")
        if parts.oidc is not None and parts.authentication.tokens is None and target is not None:
            return await begin(request)  # who was on the way to a page need not press a button
        return _form(parts, request, target or "/", "")

    async def begin(request: Request) -> Response:
        return await _at_provider(parts, request, _begin)

    async def finish(request: Request) -> Response:
        return await _at_provider(parts, request, _finish)

    async def sign_in(request: Request) -> Response:
        form = parse_qs((await read_body(request)).decode("utf-8", "replace"))
        target, token = (form.get(name, [""])[0] for name in ("next", "token"))
        visitor = parts.authentication.visitor(request)
        presented = form.get(CSRF_FIELD, [""])[0]
        if visitor.session is None or not parts.authentication.signer.is_csrf_token(visitor.session, presented):
            return _form(parts, request, target, "This form was too old. Try again.", 403)
        session = parts.authentication.sign_in(token.strip())
        if session is None:
            return _form(parts, request, target, "Nobody has this token.", 401)
        response = RedirectResponse(safe_target(target), 303)
        parts.authentication.keep(response, session)
        return response

    async def sign_out(request: Request) -> Response:
        form = parse_qs((await read_body(request)).decode("utf-8", "replace"))
        visitor = parts.authentication.visitor(request)
        response = RedirectResponse("/sign-in", 303)
        presented = form.get(CSRF_FIELD, [""])[0]
        if visitor.session is not None and parts.authentication.signer.is_csrf_token(visitor.session, presented):
            parts.authentication.forget(response)
        return response

    return (
        Route("/sign-in", show, methods=["GET"]),
        Route("/sign-in", sign_in, methods=["POST"]),
        Route("/sign-out", sign_out, methods=["POST"]),
        Route(BEGIN_PATH, begin, methods=["GET"]),
        Route(CALLBACK_PATH, finish, methods=["GET"]),
    )


async def _at_provider(
    parts: ConsoleParts, request: Request, step: Callable[[ConsoleParts, OidcSignIn, Request], Awaitable[Response]]
) -> Response:
    try:
        if parts.oidc is None:
            raise BadRequest(404, "NotFound", "this console has no identity provider", "start it with --oidc FILE")
        return await step(parts, parts.oidc, request)
    except Exception as error:
        status, answer = failure_of(error, parts.target.scrub)
        return parts.templates.error_page(request, Visitor(None, None), status, answer)


async def _begin(parts: ConsoleParts, oidc: OidcSignIn, request: Request) -> Response:
    return await oidc.begin(safe_target(request.query_params.get("next", "/")))


async def _finish(parts: ConsoleParts, oidc: OidcSignIn, request: Request) -> Response:
    identity, target = await oidc.finish(request)
    response = RedirectResponse(safe_target(target), 303)
    oidc.forget(request, response)
    parts.authentication.keep(response, parts.authentication.sign_in_as(identity))
    return response


def safe_target(target: str) -> str:
    """Return where to go after signing in: a path of this console, whatever the address asked for.

    >>> safe_target("/processes?agent=a"), safe_target("//evil.example"), safe_target("/\\\\evil.example")
    ('/processes?agent=a', '/', '/')
    """
    is_path = target.startswith("/") and not target.startswith("//") and "\\" not in target and target.isprintable()
    return target if is_path else "/"


def _form(parts: ConsoleParts, request: Request, target: str, problem: str, status: int = 200) -> Response:
    visitor = parts.authentication.visitor(request)
    session = visitor.session
    csrf_token = "" if session is None else parts.authentication.signer.csrf_token(session)
    text = parts.templates.text(
        "sign_in.html", identity=None, path="/sign-in", csrf_token=csrf_token, has_sign_in=False,
        target=safe_target(target), problem=problem, has_tokens=parts.authentication.tokens is not None,
        provider=None if parts.oidc is None else parts.oidc.name,
    )  # fmt: skip
    response = HTMLResponse(text, status)
    if session is not None:
        parts.authentication.keep(response, session)
    return response
