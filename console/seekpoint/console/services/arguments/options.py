"""Options and arguments that several commands share, each defined once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from seekpoint.console.services.arguments.completion import complete_process_ids
from seekpoint.console.services.arguments.target import HOME_VARIABLE

AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]

ProcessId: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="PROCESS_ID", help="The process.", show_default=False, autocompletion=complete_process_ids),
]
OptionalProcessId: TypeAlias = Annotated[
    str | None,
    typer.Argument(
        metavar="[PROCESS_ID]", help="Only this process.", show_default=False, autocompletion=complete_process_ids
    ),
]
ProcessIds: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[PROCESS_ID]...", help="The processes.", show_default=False, autocompletion=complete_process_ids
    ),
]
ActorName: TypeAlias = Annotated[
    str | None, typer.Option("--actor", metavar="NAME", help="Who decides this; your user name if not given.")
]
Reason: TypeAlias = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why.")]
GateName: TypeAlias = Annotated[
    str, typer.Argument(metavar="GATE", help="The gate: its name, or its key.", show_default=False)
]
InAdvance: TypeAlias = Annotated[
    bool, typer.Option("--in-advance", help="Allow a gate or a process that does not exist yet.")
]
AgentName: TypeAlias = Annotated[
    str, typer.Option("--agent", metavar="MODULE:FUNCTION", help="The agent, as an import path.")
]
Since: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="TIME", help="Only processes with an entry since then: 2h (ago), or 2026-11-22T17:00+00:00."
    ),
]
Wide: TypeAlias = Annotated[
    bool, typer.Option("--wide", "-w", help="Show internals too (epochs, offsets, hashes, ...), and cut nothing.")
]
PriceFile: TypeAlias = Annotated[
    Path | None,
    typer.Option("--prices", metavar="FILE", help="Prices of models, TOML or JSON; without it costs are unknown."),
]
Directory: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--directory", metavar="DIR", help=f"The cluster's directory. Default: ${HOME_VARIABLE}, else ./.seekpoint."
    ),
]
HealthPortNumber: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--health-port", metavar="PORT", min=0, max=65535, help="Serve /healthz and /metrics; 0: any free port."
    ),
]
HealthHost: TypeAlias = Annotated[
    str, typer.Option("--health-host", metavar="HOST", help="The address of that port; 0.0.0.0 for all interfaces.")
]
