"""Sign in with a token or at an identity provider, and sign out."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from seekpoint.console.web.auth.authentication import Visitor
from seekpoint.console.web.auth.oidc_sign_in import BEGIN_PATH, CALLBACK_PATH
from seekpoint.console.web.dispatch import CSRF_FIELD, read_body, sender
from seekpoint.console.web.failures import BadRequest, failure_of

if TYPE_CHECKING:
    from starlette.requests import Request

    from seekpoint.console.web.auth.oidc_sign_in import OidcSignIn
    from seekpoint.console.web.auth.sessions import BrowserSession
    from seekpoint.console.web.parts import ConsoleParts

_FORM_BYTES_MAX = 16_384
_logger = logging.getLogger("seekpoint.console")


def sign_in_routes(parts: ConsoleParts) -> Sequence[Route]:
    """Return the routes that anybody may use."""

    async def show(request: Request) -> Response:
        target = request.query_params.get("next")
        if parts.oidc is not None and parts.authentication.tokens is None and target is not None:
            return await begin(request)  # who was on the way to a page need not press a button
        return _form(parts, request, target or "/", "")

    async def begin(request: Request) -> Response:
        return await _provider(parts).begin(safe_target(request.query_params.get("next", "/")))

    async def finish(request: Request) -> Response:
        oidc = _provider(parts)
        identity, target = await oidc.finish(request)
        response = RedirectResponse(safe_target(target), 303)
        oidc.forget(request, response)
        parts.authentication.keep(response, parts.authentication.sign_in_as(identity))
        return response

    async def sign_in(request: Request) -> Response:
        form = await _fields(request)
        target = form.get("next", "")
        if _own_session(parts, request, form) is None:
            return _form(parts, request, target, "This form was too old. Try again.", 403)
        session = parts.authentication.sign_in(form.get("token", "").strip())
        if session is None:
            _logger.warning("refused a sign-in from %s: nobody has this token", sender(request))
            return _form(parts, request, target, "Nobody has this token.", 401)
        response = RedirectResponse(safe_target(target), 303)
        parts.authentication.keep(response, session)
        return response

    async def sign_out(request: Request) -> Response:
        session = _own_session(parts, request, await _fields(request))
        response = RedirectResponse("/sign-in", 303)
        if session is not None:
            if session.name is not None:
                await parts.in_thread(parts.authentication.end, session)
            parts.authentication.forget(response)
        return response

    return (
        Route("/sign-in", _answered(parts, show), methods=["GET"]),
        Route("/sign-in", _answered(parts, sign_in), methods=["POST"]),
        Route("/sign-out", _answered(parts, sign_out), methods=["POST"]),
        Route(BEGIN_PATH, _answered(parts, begin), methods=["GET"]),
        Route(CALLBACK_PATH, _answered(parts, finish), methods=["GET"]),
    )


def _answered(parts: ConsoleParts, step: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Any]:
    """Return a step that answers an error with a page."""

    async def answer(request: Request) -> Response:
        try:
            return await step(request)
        except Exception as error:
            status, answer = failure_of(error, parts.target.scrub)
            return parts.templates.error_page(request, Visitor(None, None), status, answer)

    return answer


def _provider(parts: ConsoleParts) -> OidcSignIn:
    if parts.oidc is None:
        raise BadRequest(404, "NotFound", "this console has no identity provider", "start it with --oidc FILE")
    return parts.oidc


async def _fields(request: Request) -> dict[str, str]:
    """Return the fields of a form. It is small, because anybody may send it."""
    body = await read_body(request, _FORM_BYTES_MAX)
    return {name: values[0] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}


def _own_session(parts: ConsoleParts, request: Request, form: dict[str, str]) -> BrowserSession | None:
    """Return the session of the browser if the form has its CSRF token."""
    session, signer = parts.authentication.visitor(request).session, parts.authentication.signer
    is_own = session is not None and signer.is_csrf_token(session, form.get(CSRF_FIELD, ""))
    return session if is_own else None


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
