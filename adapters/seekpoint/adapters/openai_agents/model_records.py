"""Requests to models and their responses as JSON, as the journal has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from agents import ModelResponse, ModelSettings, Tool, Usage
from agents.agent_output import AgentOutputSchemaBase
from agents.handoffs import Handoff
from agents.items import TResponseInputItem, TResponseOutputItem
from pydantic import BaseModel, TypeAdapter

from seekpoint.adapters.credentials import without_credentials

__all__ = ["request_json", "response_from", "response_json"]

_EXTRA = ("extra_args", "extra_body", "extra_query")
_OUTPUT: TypeAdapter[TResponseOutputItem] = TypeAdapter(TResponseOutputItem)
_USAGE: TypeAdapter[Usage] = TypeAdapter(Usage)


def request_json(
    model: str | None,
    instructions: str | None,
    messages: str | Sequence[TResponseInputItem],
    settings: ModelSettings,
    tools: Sequence[Tool],
    output_schema: AgentOutputSchemaBase | None,
    handoffs: Sequence[Handoff[Any, Any]],
    **more: Any,
) -> dict[str, Any]:
    """Return all that a model is asked; what is left at its default is left out.

    The messages have the name under which Seekpoint records only those that are new since the request before.
    """
    asked: dict[str, Any] = {
        "model": model,
        "instructions": instructions,
        "messages": messages if isinstance(messages, str) else [plain(message) for message in messages],
        "settings": _settings(settings),
        "tools": [_tool(tool) for tool in tools],
        "handoffs": [_handoff(handoff) for handoff in handoffs],
        "output": None if output_schema is None else _schema(output_schema),
        **{name: plain(value) for name, value in more.items()},
    }
    return {name: value for name, value in asked.items() if value is not None and value != []}


def response_json(response: ModelResponse, model: str | None) -> dict[str, Any]:
    """Return a response with its usage, under the names of the API of OpenAI."""
    return {
        "model": model,
        "output": [plain(item) for item in response.output],
        "usage": _USAGE.dump_python(response.usage, mode="json"),
        "response_id": response.response_id,
        "request_id": response.request_id,
        "raw_usage": response.raw_usage,
    }


def response_from(recorded: Mapping[str, Any]) -> ModelResponse:
    """Return the response that ``response_json`` has made the record of."""
    return ModelResponse(
        output=[_OUTPUT.validate_python(item) for item in recorded["output"]],
        usage=_USAGE.validate_python(recorded["usage"]),
        response_id=recorded["response_id"],
        request_id=recorded["request_id"],
        raw_usage=recorded["raw_usage"],
    )


def plain(value: Any) -> Any:
    """Return a model of pydantic as the object of the members that were set; any other value as it is."""
    return value.model_dump(mode="json", exclude_unset=True) if isinstance(value, BaseModel) else value


def _settings(settings: ModelSettings) -> dict[str, Any]:
    """Return the settings without what says who asks: a later run may have another key."""
    found = {name: value for name, value in settings.to_json_dict().items() if value is not None}
    found.pop("extra_headers", None)
    extra = {name: without_credentials(found[name]) for name in _EXTRA if name in found}
    extra.get("extra_query", {}).pop("key", None)  # that of Google's API
    return {**found, **extra}


def _tool(tool: Tool) -> dict[str, Any]:
    schema = getattr(tool, "params_json_schema", None)
    found = {"name": tool.name, "description": getattr(tool, "description", None), "parameters": schema}
    return {name: value for name, value in found.items() if value is not None}


def _handoff(handoff: Handoff[Any, Any]) -> dict[str, Any]:
    return {
        "name": handoff.tool_name,
        "description": handoff.tool_description,
        "parameters": handoff.input_json_schema,
    }


def _schema(schema: AgentOutputSchemaBase) -> dict[str, Any] | None:
    if schema.is_plain_text():
        return None
    return cast("dict[str, Any]", {"name": schema.name(), "schema": schema.json_schema()})
