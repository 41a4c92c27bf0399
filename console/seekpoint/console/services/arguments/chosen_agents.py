"""The agents that a command names with ``--agent`` and ``-m``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from seekpoint.producers import Agent


def chosen_agents(name: str | None, modules: Sequence[str]) -> dict[str, Agent]:
    """Return the agents of ``--agent MODULE:FUNCTION``, or of ``-m``, by name. Raises ``BadParameter``."""
    from seekpoint.console.services.arguments.import_path import load_agent
    from seekpoint.console.services.daemons.worker_service import agents_in

    if name is not None and ":" in name and not modules:
        found = load_agent(name)
        return {found.name: found}
    if not modules:
        raise typer.BadParameter("name the code: --agent MODULE:FUNCTION, or -m MODULE", param_hint="--agent")
    agents = {one.name: one for one in agents_in(modules)}
    if name is None:
        return agents
    if name not in agents:
        from seekpoint.schemas.values.near_names import did_you_mean

        known = did_you_mean(name, agents, f"it has {', '.join(sorted(agents))}")
        raise typer.BadParameter(f"{', '.join(modules)} has no agent {name!r}: {known}", param_hint="--agent")
    return {name: agents[name]}
