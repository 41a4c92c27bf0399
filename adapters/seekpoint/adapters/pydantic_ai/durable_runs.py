"""Run agents of Pydantic AI inside of a process: after a crash they go on, and no model call is made twice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic_ai.agent import AbstractAgent

from seekpoint import Process
from seekpoint.adapters.pydantic_ai.current_run import DurableRun, entered
from seekpoint.adapters.pydantic_ai.durability import SeekpointDurability
from seekpoint.errors import Refused


@contextmanager
def durable(process: Process, *agents: AbstractAgent[Any, Any]) -> Iterator[None]:
    """Make the runs of agents within durable: ``with durable(process, support): await support.run(question)``.

    Each agent needs the capability ``SeekpointDurability``. Of an agent without it nothing is recorded: name the agents
    that run here, and this raises ``Refused`` for one that lacks it. ``run``, ``run_stream``, ``run_stream_events`` and
    ``iter`` are durable, in the functions of tools too. A ``SeekpointConversationStore`` that is used here records what
    it has loaded, and saves once.

    Raises what the code within raises. An error of Seekpoint that ends the run, such as ``EffectUnknown``, is raised
    in any case, whatever the code has made of it.
    """
    for agent in agents:
        if SeekpointDurability.from_agent(agent) is None:
            raise Refused(
                "the agent has no durability capability: nothing of its runs would be recorded",
                process_id=process.process_id, agent=agent.name,
                hint="Agent(..., name='NAME', capabilities=[SeekpointDurability()])",
            )  # fmt: skip
    run = DurableRun(process)
    with entered(run):
        try:
            yield
        except Exception as exc:
            if run.calls.error is None or exc is run.calls.error:
                raise
            raise run.calls.error from exc
    if run.calls.error is not None:
        raise run.calls.error
