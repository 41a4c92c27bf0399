"""Park a run whose owners die again and again without progress: it may be what ends them (rule R4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seekpoint.schemas.errors import OwnersDied

if TYPE_CHECKING:
    from seekpoint.producers.durable.durable_process import DurableProcess
    from seekpoint.producers.durable.steps.agent import Agent
    from seekpoint.schemas.config.settings import Settings


def deaths_max(agent: Agent, settings: Settings) -> int:
    """Return after how many deaths of its owners without progress a run of ``agent`` is parked."""
    return settings.owner_deaths_max if agent.owner_deaths_max is None else agent.owner_deaths_max


def refuse_deaths(process: DurableProcess, agent: Agent) -> None:
    """Raise ``OwnersDied``, which names the last call, if as many owners died as ``agent`` allows."""
    written = process.written
    if written.owner_deaths >= deaths_max(agent, process.settings):
        raise OwnersDied(
            "its owners died again and again without progress, and the run is parked",
            process_id=process.process_id, key=written.first_in_doubt or written.last_call, deaths=written.owner_deaths,
        )  # fmt: skip
