"""Requests to models, their responses, results of tools and sessions as JSON, as the journal has them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.sessions import Session
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from seekpoint.adapters.adk.session_records import event_json, plain
from seekpoint.adapters.credentials import without_credentials

_PART, _RESPONSE = "$adk.part", "$adk.function_response"
_MODELS: Mapping[str, type[BaseModel]] = {_PART: types.Part, _RESPONSE: types.FunctionResponse}


def request_json(model: str, request: LlmRequest) -> dict[str, Any]:
    """Return all that a model is asked; what says who asks is left out, as a later run may have another key.

    The contents have the name under which Seekpoint records only those that are new since the request before.
    """
    asked: dict[str, Any] = {
        "model": model,
        "messages": [_dumped(content) for content in request.contents],
        "config": _config_json(request.config),
        "previous_interaction_id": request.previous_interaction_id,
        "service_tier": plain(request.service_tier),
    }
    return {name: value for name, value in asked.items() if value not in (None, {}, [])}


def _config_json(config: types.GenerateContentConfig) -> dict[str, Any]:
    """Return the settings of a request; tools of the provider without the keys with which it calls others."""
    found: dict[str, Any] = to_jsonable_python(
        config.model_dump(exclude_none=True, exclude={"http_options"}), fallback=_named, bytes_mode="base64"
    )
    if "tools" in found:
        found["tools"] = [_tool_json(tool) if isinstance(tool, dict) else tool for tool in found["tools"]]
    return found


def _tool_json(tool: Mapping[str, Any]) -> dict[str, Any]:
    declared = "function_declarations"  # a parameter may have any name
    return {name: one if name == declared else without_credentials(one) for name, one in tool.items()}


def _named(value: object) -> Any:
    """Return what a request says of a value that is no JSON: a schema for a model's class, else its name."""
    if isinstance(value, type) and issubclass(value, BaseModel):
        return value.model_json_schema()
    kind = value if isinstance(value, type) or callable(value) else type(value)
    return f"{getattr(kind, '__module__', '')}.{getattr(kind, '__qualname__', kind.__class__.__qualname__)}"


def responses_json(model: str, responses: Sequence[LlmResponse]) -> dict[str, Any]:
    """Return what a model said, under the names of Google's API, with the usage of the last response that has one."""
    usage = next((one.usage_metadata for one in reversed(responses) if one.usage_metadata is not None), None)
    made: dict[str, Any] = {"model": model, "candidates": [_dumped(one) for one in responses]}
    return made if usage is None else {**made, "usage_metadata": _dumped(usage)}


def responses_from(recorded: Mapping[str, Any]) -> list[LlmResponse]:
    """Return the responses of ``responses_json``."""
    return [LlmResponse.model_validate(one) for one in recorded["candidates"]]


def _dumped(model: BaseModel) -> dict[str, Any]:
    made: dict[str, Any] = model.model_dump(mode="json", exclude_none=True)
    return made


def result_json(value: Any) -> Any:
    """Return what a tool returned; parts with media can be read again, other objects become their JSON or text."""
    for mark, kind in _MODELS.items():
        if isinstance(value, kind):
            return {mark: _dumped(value)}
    if isinstance(value, Mapping):
        return {str(name): result_json(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [result_json(one) for one in value]
    return plain(value)


def result_from(recorded: Any) -> Any:
    """Return the value of ``result_json``."""
    if isinstance(recorded, list):
        return [result_from(one) for one in recorded]
    if not isinstance(recorded, Mapping):
        return recorded
    mark = next(iter(recorded), "")
    if len(recorded) == 1 and mark in _MODELS:
        return _MODELS[mark].model_validate(recorded[mark])
    return {name: result_from(one) for name, one in recorded.items()}


def actions_json(context: ToolContext) -> dict[str, Any]:
    """Return what a tool has done to its context: changes of the state, transfers, artifacts, requests."""
    # Reading the actions notes what was changed within a list or an object of the state.
    made = context.actions.model_dump(mode="json", exclude_defaults=True, exclude={"state_delta"})
    return {**made, "state_delta": {key: plain(value) for key, value in context.actions.state_delta.items()}}


def apply_actions(recorded: Mapping[str, Any], context: ToolContext) -> None:
    """Do the same to the context of a tool that is not called again."""
    for key, value in recorded.get("state_delta", {}).items():
        context.state[key] = value
    actions = EventActions.model_validate({name: one for name, one in recorded.items() if name != "state_delta"})
    for name in recorded.keys() - {"state_delta"}:
        setattr(context.actions, name, getattr(actions, name))


def session_json(session: Session) -> dict[str, Any]:
    """Return a session, with the marker of its revision."""
    return {
        "id": session.id, "app_name": session.app_name, "user_id": session.user_id, "state": plain(session.state),
        "events": [event_json(event) for event in session.events], "last_update_time": session.last_update_time,
        "marker": session._storage_update_marker,
    }  # fmt: skip


def session_from(recorded: Mapping[str, Any]) -> Session:
    """Return the session of ``session_json``."""
    given = {name: value for name, value in recorded.items() if name not in ("marker", "events")}
    session = Session(**given, events=[Event.model_validate(one) for one in recorded["events"]])
    session._storage_update_marker = recorded["marker"]
    return session
