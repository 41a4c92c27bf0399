"""Put a console together: the application that a server of ASGI runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from seekpoint.console.web.acting.jobs import Jobs
from seekpoint.console.web.acting.plans import PlanKeeper
from seekpoint.console.web.auth.authentication import Authentication
from seekpoint.console.web.auth.guard import Guard
from seekpoint.console.web.auth.oidc_settings import read_oidc_settings
from seekpoint.console.web.auth.oidc_sign_in import OidcSignIn
from seekpoint.console.web.auth.tokens import TokenFile
from seekpoint.console.web.auth.user_identity import Role, UserIdentity
from seekpoint.console.web.console_options import is_loopback
from seekpoint.console.web.data.board_poller import BoardPoller
from seekpoint.console.web.data.histories import Histories
from seekpoint.console.web.data.history_streams import HistoryStreams
from seekpoint.console.web.data.letter_index import LetterIndex
from seekpoint.console.web.data.moments import Moments
from seekpoint.console.web.data.pipeline_poller import PipelinePoller
from seekpoint.console.web.data.poller import Poller
from seekpoint.console.web.data.streams import Streams
from seekpoint.console.web.dispatch import json_response, no_such_page, operation_route, page_route
from seekpoint.console.web.failures import ErrorAnswer
from seekpoint.console.web.openapi import openapi_document
from seekpoint.console.web.parts import ConsoleParts
from seekpoint.console.web.rendering import Templates
from seekpoint.console.web.routes import OPERATIONS, PAGES
from seekpoint.console.web.routes.sign_in_routes import sign_in_routes
from seekpoint.console.web.static_bundle import StaticBundle

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from seekpoint.console.services.arguments.target import CommandTarget
    from seekpoint.console.web.console_options import ConsoleOptions
    from seekpoint.console.web.route_declarations import Operation

_THREADS, _BACKGROUND_THREADS = 16, 4
"""So many pages may read the journal at once, beside what keeps the list, the pipeline and open pages up to date."""


def make_parts(target: CommandTarget, options: ConsoleOptions, local_user: str) -> ConsoleParts:
    """Return the parts of a console. Call it in the event loop that will serve. Raises ``InvalidSetting``.

    ``local_user`` is the actor of changes where no token is needed.
    """
    options.check()
    tokens = None if options.tokens is None else TokenFile(options.tokens)
    oidc = None
    if options.oidc is not None:
        oidc = read_oidc_settings(options.oidc, options.address if is_loopback(options.host) else None)
    everybody = None
    if not options.has_sign_in:
        everybody = UserIdentity(name=local_user, role=Role.ADMIN if options.allow_changes else Role.VIEWER)
    elif tokens is not None:
        tokens.tokens()  # a missing or damaged file is an error now, not at the first request
    threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="seekpoint-console")
    background = ThreadPoolExecutor(_BACKGROUND_THREADS, thread_name_prefix="seekpoint-console-background")
    board, pipeline = BoardPoller(target, background), PipelinePoller(target, background)
    bundle = StaticBundle()
    is_secure = options.is_https or (oidc is not None and (oidc.address or "").startswith("https:"))
    cookie_name = f"seekpoint_{options.port}"
    authentication = Authentication(
        cookie_name=cookie_name, tokens=tokens, everybody=everybody,
        provider_proof=None if oidc is None else oidc.proof, is_secure=is_secure,
    )  # fmt: skip
    histories = Histories(target)
    return ConsoleParts(
        target=target,
        authentication=authentication,
        oidc=None
        if oidc is None
        else OidcSignIn(oidc, cookie_name, lambda: authentication.signer, is_secure=is_secure),
        templates=Templates(bundle, target.settings.journal, PAGES),
        bundle=bundle,
        version=version("seekpoint"),
        board=board,
        streams=Streams(board),
        pipeline=pipeline,
        pipeline_streams=Streams(pipeline),
        letters=LetterIndex(target),
        histories=histories,
        moments=Moments(target, histories),
        history_streams=HistoryStreams(histories, background, target.scrub),
        plans=PlanKeeper(),
        jobs=Jobs(target.scrub),
        options=options,
        threads=threads,
        background=background,
    )


def make_app(parts: ConsoleParts, options: ConsoleOptions, operations: Sequence[Operation] = OPERATIONS) -> ASGIApp:
    """Return the application."""
    document = openapi_document(operations, parts.version)

    async def show_document(request: Request) -> Response:
        return json_response(document)

    @asynccontextmanager
    async def run(app: Starlette) -> AsyncIterator[None]:
        pollers: tuple[Poller, ...] = (parts.board, parts.pipeline)
        for poller in pollers:
            poller.start()
        try:
            yield
        finally:
            parts.close_streams()
            for poller in pollers:
                await poller.stop()
            await parts.history_streams.stop()
            await asyncio.to_thread(parts.jobs.close)
            parts.end_threads()

    routes = [
        *(page_route(parts, page) for page in PAGES),
        *(operation_route(parts, operation) for operation in operations),
        *sign_in_routes(parts),
        Route("/api/openapi.json", show_document),
        Route("/static/{version}/{name}", parts.bundle.serve),
    ]

    async def not_found(request: Request, error: Exception) -> Response:
        if request.url.path.startswith("/api/"):
            return json_response(ErrorAnswer(error=no_such_page()), 404)
        visitor = parts.authentication.visitor(request)
        return parts.templates.error_page(request, visitor, 404, no_such_page())

    app = Starlette(routes=routes, lifespan=run, exception_handlers={404: not_found})
    return Guard(app, options.hosts)
