"""``seekpoint replay-check``: check an agent's code against a recorded history."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seekpoint.console.exit_codes import EXIT_FAULT
from seekpoint.console.render.output import clean, emit, emit_json, say
from seekpoint.console.services.target import CommandTarget

if TYPE_CHECKING:
    from seekpoint.consumers.recovery.process_history import Logged
    from seekpoint.producers import ReplayCheck
from seekpoint.console.services.import_path import load_agent
from seekpoint.console.services.options import AgentName, AsJson

__all__ = ["replay_check"]


def replay_check(
    target: CommandTarget,
    agent: AgentName,
    process_id: Annotated[str | None, typer.Argument(metavar="[ID]", help="The process.", show_default=False)] = None,
    history: Annotated[
        Path | None,
        typer.Option("--history", metavar="FILE", help="Read this exported process instead of the journal."),
    ] = None,
    detail: Annotated[
        str, typer.Option("--detail", help="The detail the process ran with: full, checkpoint or none.")
    ] = "full",
    json: AsJson = False,
) -> int:
    """Check code against a recorded history without executing it.

    Exits with 1 at the first divergence.
    """
    import asyncio

    from seekpoint.producers import Detail, check_replay

    if (process_id is None) is (history is None):
        raise typer.BadParameter("name a process, or an exported one with --history", param_hint="ID")
    if detail not in list(Detail):
        raise typer.BadParameter(f"{detail} is not one of {', '.join(Detail)}", param_hint="--detail")
    found = asyncio.run(check_replay(load_agent(agent), _entries(target, process_id, history), detail=detail))
    if json:
        emit_json(found.to_dict())
    else:
        _show(found)
    return 0 if found.ok else EXIT_FAULT


def _entries(target: CommandTarget, process_id: str | None, file: Path | None) -> Iterable[Logged]:
    if file is not None:
        from seekpoint.consumers.staging.capture.process_file import ProcessFile

        return ProcessFile(file).entries
    from seekpoint.consumers.recovery.process_history import history

    assert process_id is not None
    return [one for batch in history(target.recoverer, process_id) for one in batch]


def _show(found: ReplayCheck) -> None:
    emit(clean(f"{found.process_id}: {found}"))
    if found.divergence is not None:
        for name in ("kind", "key", "seq", "expected", "actual", "difference"):
            value = getattr(found.divergence, name)
            if value not in (None, ""):
                emit(clean(f"{name:<12}{value}"))
    if found.version != found.recorded_version:
        say(clean(f"recorded by {found.agent} {found.recorded_version}, checked with {found.version}"))
