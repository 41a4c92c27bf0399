"""How pages and calls of the API are declared. ``routes`` lists them, and ``dispatch`` serves them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from seekpoint.console.web.auth.user_identity import Role, UserIdentity
from seekpoint.schemas.frozen_struct import FrozenStruct

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from seekpoint.console.web.auth.sessions import BrowserSession
    from seekpoint.console.web.parts import ConsoleParts


class NoQuery(FrozenStruct, frozen=True, forbid_unknown_fields=True):
    """The query of a page or a call that takes none."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One request of somebody who may make it."""

    parts: ConsoleParts
    request: Request
    identity: UserIdentity
    session: BrowserSession | None

    @property
    def csrf_token(self) -> str:
        """Return the token that forms and scripts of the page send with each change."""
        return "" if self.session is None else self.parts.authentication.signer.csrf_token(self.session)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebPage:
    """A page. ``show`` gets the visit and the query, already checked, and returns the response.

    ``query`` is a frozen struct whose fields are the parameters. A page with ``nav`` is in the navigation, under that
    name; one with ``tab`` is a tab of a process, and its query has the process's ``id``. A page that changes something
    does not exist: changes are operations.
    """

    path: str
    show: Callable[[Visit, Any], Awaitable[Response]]
    query: type[FrozenStruct] = NoQuery
    role: Role = Role.VIEWER
    nav: str | None = None
    tab: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A call of the JSON API. ``call`` gets the visit, the query and, if there is one, the body. It returns ``answer``.

    Everything but ``GET`` needs a CSRF token or a bearer token. ``raises`` are the statuses beside 200 that it may
    answer with, besides those that all have.
    """

    path: str
    summary: str
    call: Callable[..., Awaitable[Any]]
    answer: Any
    method: str = "GET"
    query: type[FrozenStruct] = NoQuery
    body: type[FrozenStruct] | None = None
    role: Role = Role.VIEWER
    raises: tuple[int, ...] = ()
