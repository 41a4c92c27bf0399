"""The outermost layer: refuse foreign hosts and other sites, and send the headers that confine the pages."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS = {
    "content-security-policy": CONTENT_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with `no-referrer`, browsers send the console's own forms with `Origin: null`
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_logger = logging.getLogger("seekpoint.console")
_OWN_SITES = ("same-origin", "none")


class Guard:
    """Passes requests on to ``app`` if their host is one of ``hosts`` (None: any) and no other site sent them.

    On a loopback address the check of the host keeps out pages of other sites whose name was pointed at 127.0.0.1.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str] | None) -> None:
        self._app = app
        self._hosts = None if hosts is None else {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, refuse or pass on one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message["headers"])
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
                message["headers"] = headers.raw
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None and scope["method"] not in ("GET", "HEAD"):
            _logger.warning("refused a change from %s: %s", (scope.get("client") or "?")[0], refusal[1])
        answer = self._app if refusal is None else PlainTextResponse(refusal[1] + "\n", refusal[0])
        await answer(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if self._hosts is not None and host_name(host) not in self._hosts:
            return 421, "this console does not answer for that host: --allowed-host adds one"
        if _is_from_other_site(headers, host, scope["method"]):
            return 403, "this request came from a page of another site"
        return None


def _is_from_other_site(headers: Headers, host: str, method: str) -> bool:
    """Return whether another site's page sent the request. A link there that leads here is fine: it only reads."""
    is_link = method == "GET" and headers.get("sec-fetch-mode") == "navigate"
    if headers.get("sec-fetch-site", "none") not in _OWN_SITES and not is_link:
        return True
    origin = headers.get("origin")
    return origin is not None and method not in ("GET", "HEAD") and origin.partition("://")[2].lower() != host.lower()


def host_name(host: str) -> str:
    """Return the name in a ``Host`` header, without its port, in lower case.

    >>> host_name("LocalHost:8700"), host_name("[::1]:8700"), host_name("[::1]")
    ('localhost', '[::1]', '[::1]')
    """
    name, colon, port = host.lower().rpartition(":")
    return name if colon and port.isdigit() else host.lower()
