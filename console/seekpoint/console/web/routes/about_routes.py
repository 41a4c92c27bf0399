"""Who you are, and what this console serves."""

from __future__ import annotations

from seekpoint.console.web.route_declarations import NoQuery, Operation, Visit, WebPage
from seekpoint.schemas.frozen_struct import FrozenStruct

__all__ = ["OPERATIONS", "PAGES"]


class Me(FrozenStruct, frozen=True, kw_only=True):
    """The sender of the request, and the console that got it."""

    name: str
    role: str
    journal: str
    version: str


async def get_me(visit: Visit, query: NoQuery) -> Me:
    """Return who sent the request."""
    settings = visit.parts.target.settings
    return Me(
        name=visit.identity.name, role=visit.identity.role.title, journal=settings.journal, version=visit.parts.version
    )


PAGES: tuple[WebPage, ...] = ()
OPERATIONS = (Operation(path="/api/me", summary="Say who sends the request.", call=get_me, answer=Me),)
