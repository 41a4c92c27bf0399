"""Journal the inputs and results of agents, and rebuild them by the annotations of the agent's function.

An input is checked before anything is written, and rebuilt in every run. Without an annotation it is what was given.
"""

from __future__ import annotations

import inspect
import logging
from typing import Any

from seekpoint.producers.durable.steps.agent import Agent
from seekpoint.producers.durable.steps.annotations import parameters_of
from seekpoint.schemas.bodies import Json
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.errors import InputMisfit, InvalidValue, UnserializableValue
from seekpoint.schemas.state.calls import AgentRun, input_digest
from seekpoint.schemas.values.json_values import dump, load

logger = logging.getLogger("seekpoint.producers")


class GivenInput:
    """The input that a program gives to a run."""

    def __init__(
        self, agent: Agent[Any, Any], process_id: str, value: Any, *, is_journaled: bool = False,
        granted: Json | None = None,
    ) -> None:  # fmt: skip
        self.granted = granted
        """What the parent of a child lets it use."""
        self._agent = agent
        self._process_id = process_id
        self._value = value
        self._is_journaled = is_journaled
        self._text: Json | None = None

    def text(self, limits: Limits) -> Json:
        """Return the text to journal. Raises as ``journaled_input`` does, unless the value is that of a journal."""
        if self._text is None:
            self._text = (
                dump(self._value, limits)
                if self._is_journaled
                else journaled_input(self._agent, self._value, limits, self._process_id)
            )
        return self._text

    def is_of(self, began: AgentRun, limits: Limits) -> bool:
        """Whether the process began with this input. Of a finished one only the digest of its input is known."""
        text = self.text(limits)
        if input_digest(text) == began.input_digest:
            return True
        if not began.kept_digest:
            return is_same_input(self._agent, text, began.input_json)
        kind = self._agent.types.input
        return kind is not None and input_digest(kind.normal(text)) == began.kept_digest


_told: set[str] = set()
"""The agents whose input is known not to be checked."""


def journaled_input(agent: Agent[Any, Any], given: Any, limits: Limits, process_id: str | None = None) -> Json:
    """Return the text of a new input. Raises ``InvalidValue``, ``UnserializableValue``, ``LimitExceeded``."""
    kind = agent.types.input
    if kind is None:
        return _unchecked(agent, given, limits)
    if given is None and _has_default(agent):
        return "null"
    return kind.checked(given, limits, f"the input of {agent.name}", agent=agent.name, process_id=process_id)[0]


def _unchecked(agent: Agent[Any, Any], given: Any, limits: Limits) -> Json:
    why = agent.types.unevaluated
    if why is None:
        return dump(given, limits)
    _tell(agent.name, why)
    try:
        return dump(given, limits)
    except UnserializableValue as exc:
        exc.hint = f"the annotation of the input cannot be evaluated: {why}; define the class in the agent's module"
        raise


def _tell(agent: str, why: str) -> None:
    if agent not in _told:
        _told.add(agent)
        logger.warning("%s: its input is not checked, since its annotation cannot be evaluated: %s", agent, why)


def rebuilt_input(agent: Agent[Any, Any], text: Json, process_id: str, *, is_first: bool = False) -> Any:
    """Return the recorded input as the function takes it. Raises ``RecordedValueInvalid``.

    Where ``is_first`` says that no run has taken it yet, raises ``InputMisfit`` instead. No input (null) is the default
    of the parameter, if it has one and takes no None.
    """
    kind = agent.types.input
    if kind is None:
        if agent.types.unevaluated is not None:
            _tell(agent.name, agent.types.unevaluated)
        return load(text)
    try:
        return kind.rebuilt(text, f"the input of {agent.name}", agent=agent.name, process_id=process_id)
    except InvalidValue as exc:
        if text == "null" and _has_default(agent):
            return agent.default_input
        if is_first:
            raise InputMisfit(exc.message, **exc.facts) from None
        raise


def is_same_input(agent: Agent[Any, Any], one: Json, other: Json) -> bool:
    """Whether two texts are one input to the agent: equal, or rebuilt as equal values."""
    kind = agent.types.input
    return one == other or (kind is not None and kind.normal(one) == kind.normal(other))


def is_same_result(agent: Agent[Any, Any], one: Json, other: Json) -> bool:
    """Whether two texts are one result of the agent: equal, or rebuilt as equal values."""
    kind = agent.types.output
    return one == other or (kind is not None and kind.normal(one) == kind.normal(other))


def journaled_result(agent: Agent[Any, Any], value: Any, limits: Limits, process_id: str | None = None) -> Json:
    """Return the text of what the function returned. Raises ``InvalidValue``, ``UnserializableValue``."""
    kind = agent.types.output
    if kind is None:
        return dump(value, limits)
    what = f"the result of {agent.name}"
    return kind.checked(value, limits, what, is_result=True, agent=agent.name, process_id=process_id)[0]


def rebuilt_result(agent: Agent[Any, Any], text: Json, process_id: str | None = None) -> Any:
    """Return a recorded result as the function returned it. Raises ``RecordedValueInvalid``."""
    kind = agent.types.output
    if kind is None:
        return load(text)
    return kind.rebuilt(text, f"the result of {agent.name}", agent=agent.name, process_id=process_id)


def _parameter(agent: Agent[Any, Any]) -> inspect.Parameter:
    return parameters_of(agent.run)[1]


def _has_default(agent: Agent[Any, Any]) -> bool:
    return _parameter(agent).default is not inspect.Parameter.empty
