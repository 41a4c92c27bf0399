"""The templates. Everything that a template inserts is escaped; texts of agents are also made visible and isolated."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
from starlette.responses import HTMLResponse, Response

from seekpoint.console.render.call_errors import error_text
from seekpoint.console.render.output import clean, ranges
from seekpoint.console.web.formats import (
    amount,
    call_class,
    job_class,
    moment,
    short_error,
    short_time,
    span_text,
    status_class,
)

if TYPE_CHECKING:
    from starlette.requests import Request

    from seekpoint.console.web.auth.authentication import Visitor
    from seekpoint.console.web.failures import ApiError
    from seekpoint.console.web.route_declarations import Visit, WebPage
    from seekpoint.console.web.static_bundle import StaticBundle


class Templates:
    """Renders the files of ``templates/``."""

    def __init__(self, bundle: StaticBundle, journal: str, pages: Sequence[WebPage]) -> None:
        self._environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
            autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        )  # fmt: skip
        self._environment.filters |= {
            "clean": clean, "moment": moment, "short_time": short_time, "span": span_text, "amount": amount,
            "status_class": status_class, "call_class": call_class, "job_class": job_class, "short_error": short_error,
            "error_text": error_text, "ranges": ranges,
        }  # fmt: skip
        self._environment.globals |= {
            "static": bundle.address, "journal": journal,
            "navigation": [(page.nav, page.path) for page in pages if page.nav is not None],
        }  # fmt: skip

    def text(self, name: str, **values: Any) -> str:
        """Return a template's text. ``name`` may be a fragment of a page."""
        return self._environment.get_template(name).render(**values)

    def page(self, visit: Visit, name: str, **values: Any) -> Response:
        """Return a whole page for a visit."""
        return HTMLResponse(
            self.text(
                name, identity=visit.identity, path=visit.request.url.path, csrf_token=visit.csrf_token,
                has_sign_in=visit.parts.authentication.has_sign_in, **values,
            )
        )  # fmt: skip

    def error_page(self, request: Request, visitor: Visitor, status: int, error: ApiError) -> Response:
        """Return a page that says what went wrong."""
        text = self.text(
            "error.html", identity=visitor.identity, path=request.url.path, csrf_token="", has_sign_in=False,
            status=status, error=error,
        )  # fmt: skip
        return HTMLResponse(text, status)
