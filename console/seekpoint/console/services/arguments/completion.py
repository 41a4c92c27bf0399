"""Complete process ids in a shell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seekpoint.console.services.arguments.target import CommandTarget
    from seekpoint.consumers.view.view_store import ViewBrowser

_SHOWN_MAX = 100


def complete_process_ids(ctx: Any, incomplete: str) -> list[str]:
    """Return the ids in the view that begin with ``incomplete``; none if there is no view. Print nothing.

    Of several ids, those that are already on the command line are left out.
    """
    import io
    from contextlib import redirect_stderr

    from seekpoint.console.services.arguments.target import CommandTarget

    given = {name: ctx.params.get(name) for name in ("journal", "bootstrap_servers", "config", "journal_url")}
    named = {*(ctx.params.get("process_ids") or ())}
    with redirect_stderr(io.StringIO()):
        target = CommandTarget(**given)
        try:
            return [one for one in ids_in_view(target, incomplete, _SHOWN_MAX + len(named)) if one not in named]
        except Exception:  # the shell would show a traceback amid the command that is typed
            return []
        finally:
            target.close()


def complete_moments(ctx: Any, incomplete: str) -> list[str]:
    """Return what ``complete_process_ids`` returns for PROCESS_ID[@SEQ]; nothing once there is a seq."""
    return [] if "@" in incomplete else complete_process_ids(ctx, incomplete)


def ids_in_view(target: CommandTarget, prefix: str, limit: int) -> list[str]:
    """Return the first ids in the view that begin with ``prefix``. Raises ``SeekpointError``."""
    import asyncio

    from seekpoint.consumers.view_browser import View

    async def collect(view: ViewBrowser) -> list[str]:
        async with View(view) as browser:
            return [one.process_id for one in (await browser.list(prefix=prefix, limit=limit)).processes]

    return [] if target.view is None else asyncio.run(collect(target.view))
