"""All pages and all calls of the API.

To add a view, write a module with ``PAGES`` and ``OPERATIONS``, and add it to ``_MODULES``.
"""

from __future__ import annotations

from seekpoint.console.web.declarations import Operation, Page
from seekpoint.console.web.routes import (
    about,
    calls,
    changes,
    dead_letters,
    differences,
    entries,
    jobs,
    lineage,
    pipeline,
    process,
    processes,
    story,
    time_machine,
    timeline,
    waiting,
)

__all__ = ["OPERATIONS", "PAGES"]

_MODULES = (
    processes, process, timeline, story, calls, entries, time_machine, differences, lineage, waiting, pipeline,
    dead_letters, changes, jobs, about,
)  # fmt: skip

PAGES: tuple[Page, ...] = tuple(page for module in _MODULES for page in module.PAGES)
"""In the order of the navigation and of the tabs."""

OPERATIONS: tuple[Operation, ...] = tuple(one for module in _MODULES for one in module.OPERATIONS)
