"""What a client asks of a run: its agent and input, and the type of its result."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from seekpoint.producers.durable.steps.agent import Agent
from seekpoint.producers.durable.steps.agent_values import GivenInput, rebuilt_result
from seekpoint.producers.runs.run_outcomes import refuse_other_run
from seekpoint.schemas.state.calls import AgentRun, input_digest
from seekpoint.schemas.values.json_values import dump, load

if TYPE_CHECKING:
    from seekpoint.schemas.bodies import Json
    from seekpoint.schemas.config.limits import Limits
    from seekpoint.schemas.state.process_state import State


class RequestedRun:
    """The agent and the input of a submission; ``code`` is the agent itself, if the program has it."""

    def __init__(self, agent: str, code: Agent | None, process_id: str, value: Any, limits: Limits) -> None:
        self._agent = agent
        self._code = code
        self._given = None if code is None else GivenInput(code, process_id, value)
        self._limits = limits
        self.text = dump(value, limits, True) if self._given is None else self._given.text(limits)
        self._digest = input_digest(self.text)

    def refuse_other(self, process_id: str, state: State) -> None:
        """Raise ``AgentMismatch`` if the process is another run."""
        refuse_other_run(process_id, state, self._agent, self._digest, self._is_same)

    def _is_same(self, began: AgentRun) -> bool:
        return self._given is not None and self._given.is_of(began, self._limits)

    def rebuilt_result(self, text: Json) -> Any:
        """Return the result as the agent returned it; plain values if only its name is known."""
        return load(text) if self._code is None else rebuilt_result(self._code, text)


def result_rebuilder(kind: Any, process_id: str) -> Callable[[Json], Any]:
    """Return the function that makes a result of a text. Raises ``InvalidOption``."""
    if isinstance(kind, Agent):
        return partial(rebuilt_result, kind, process_id=process_id)
    if kind is None:
        return load
    from seekpoint.schemas.values.value_types import asked_type

    asked = asked_type(kind)
    return load if asked is None else lambda text: asked.rebuilt(text, "the result", process_id=process_id)
