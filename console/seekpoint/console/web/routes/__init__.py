"""All pages and all calls of the API.

To add a view, write a module with ``PAGES`` and ``OPERATIONS``, and add it to ``_MODULES``.
"""

from __future__ import annotations

from seekpoint.console.web.route_declarations import Operation, WebPage
from seekpoint.console.web.routes import (
    about_routes,
    call_routes,
    change_routes,
    dead_letter_routes,
    difference_routes,
    entry_routes,
    job_routes,
    lineage_routes,
    pipeline_routes,
    process_list_routes,
    process_routes,
    story_routes,
    time_machine_routes,
    timeline_routes,
    waiting_routes,
)

__all__ = ["OPERATIONS", "PAGES"]

_MODULES = (
    process_list_routes,
    process_routes,
    timeline_routes,
    story_routes,
    call_routes,
    entry_routes,
    time_machine_routes,
    difference_routes,
    lineage_routes,
    waiting_routes,
    pipeline_routes,
    dead_letter_routes,
    change_routes,
    job_routes,
    about_routes,
)

PAGES: tuple[WebPage, ...] = tuple(page for module in _MODULES for page in module.PAGES)
"""In the order of the navigation and of the tabs."""

OPERATIONS: tuple[Operation, ...] = tuple(one for module in _MODULES for one in module.OPERATIONS)
