"""Requests to models and their responses as JSON, as the journal has them.

A request leaves out what differs when the code runs again, and no model is told: times, and ids of runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai.durable_exec import ModelCompactMessagesParams, ModelRequestParams
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_core import to_jsonable_python

from seekpoint import Usage
from seekpoint.adapters.credentials import without_credentials

_PARAMETERS: TypeAdapter[ModelRequestParameters] = TypeAdapter(ModelRequestParameters)
_PLAIN = frozenset({"text", "thinking", "tool-call"})
"""The kinds of parts of which None is the default of each member that may be None."""
_OF_ONE_RUN = frozenset({"timestamp", "run_id", "conversation_id"})

_OF_ONE_OBJECT = frozenset({"toolset_id", "capability_id"})
"""The fields of a tool's origin, which no model is told: an id that begins with ``<`` is drawn for each run."""


def request_json(params: ModelRequestParams, model: str, records: MessageRecords) -> dict[str, Any]:
    """Return all that a model is asked; what is left at its default is left out.

    The messages have the name under which Seekpoint records only those that are new since the request before.
    """
    return _asked(model, records.of(params.messages), params.model_settings, params.model_request_parameters)


def compaction_json(params: ModelCompactMessagesParams, model: str, records: MessageRecords) -> dict[str, Any]:
    """Return all that a model is asked for when it shortens a history."""
    request = params.request_context
    asked = _asked(model, records.of(request.messages), request.model_settings, request.model_request_parameters)
    return asked if params.instructions is None else {**asked, "instructions": params.instructions}


def _asked(
    model: str, messages: list[Any], settings: ModelSettings | None, parameters: ModelRequestParameters
) -> dict[str, Any]:
    asked = {"model": model, "messages": messages, "settings": _settings(settings)}
    return {name: value for name, value in {**asked, **_parameters(parameters)}.items() if value not in (None, [], {})}


class MessageRecords:
    """The messages of one process as JSON. Each request has those of the request before, so they are kept."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[ModelMessage, tuple[Any, ...], dict[str, Any]]] = {}
        """By the id of a message: itself, what it had, and its JSON."""

    def of(self, messages: Sequence[ModelMessage]) -> list[dict[str, Any]]:
        """Return messages without what differs when the code runs again."""
        new = [message for message in messages if not self._has(message)]
        found = ModelMessagesTypeAdapter.dump_python(new, mode="json", exclude_none=True)
        for message, row in zip(new, found, strict=True):
            record = {**_stable(row), "parts": [_stable(part) for part in row["parts"]]}
            self._known[id(message)] = message, _content(message), record
        return [self._known[id(message)][2] for message in messages]

    def _has(self, message: ModelMessage) -> bool:
        known = self._known.get(id(message))
        if known is None or known[0] is not message:
            return False
        before, now = known[1], _content(message)
        return len(before) == len(now) and all(one is other for one, other in zip(before, now, strict=True))


def _content(message: ModelMessage) -> tuple[Any, ...]:
    """Return what Pydantic AI may replace in a message: its parts, and what it was asked with."""
    return message.metadata, message.state, getattr(message, "instructions", None), *message.parts


def _stable(found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name not in _OF_ONE_RUN}


def _settings(settings: ModelSettings | None) -> Any:
    """Return the settings without what says who asks: a later run may have another key."""
    given = {name: value for name, value in (settings or {}).items() if name != "extra_headers" and value is not None}
    return without_credentials(to_jsonable_python(given, fallback=lambda value: type(value).__qualname__))


def _parameters(parameters: ModelRequestParameters) -> dict[str, Any]:
    """Return the tools, the output and all else that a request has, sets in one order."""
    found: dict[str, Any] = _PARAMETERS.dump_python(parameters, mode="json", exclude_defaults=True)
    for one in fields(parameters):
        if isinstance(getattr(parameters, one.name), set | frozenset) and one.name in found:
            found[one.name] = sorted(name for name in found[one.name] if not name.startswith("<"))
    for kind in ("function_tools", "output_tools"):
        found[kind] = [
            {name: value for name, value in tool.items() if name not in _OF_ONE_OBJECT} for tool in found.get(kind, ())
        ]
    if parameters.native_tools:  # of these the defaults tell which is which
        whole = _PARAMETERS.dump_python(parameters, mode="json", include={"native_tools"}, exclude_none=True)
        found["native_tools"] = without_credentials(whole["native_tools"])
    return found


def response_json(payload: Mapping[str, Any], model: str) -> dict[str, Any]:
    """Return a response without what is None, with its model under the name by which Seekpoint finds it."""
    parts = [_without_none(part) if part["part_kind"] in _PLAIN else part for part in payload["parts"]]
    return {"model": payload.get("model_name") or model, **_without_none(payload), "parts": parts}


def _without_none(found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if value is not None}


def usage_of(response: Any) -> Usage | None:
    """Return the usage of a response; None if it has none. Pydantic AI counts tokens of a cache as input too."""
    usage = response.get("usage") or {}
    counts = {name: value for name, value in usage.items() if isinstance(value, int) and name.endswith("_tokens")}
    if not any(counts.values()):
        return None
    cached, written = counts.get("cache_read_tokens", 0), counts.get("cache_write_tokens", 0)
    return Usage(
        input_tokens=max(0, counts.get("input_tokens", 0) - cached - written),
        output_tokens=counts.get("output_tokens", 0),
        cached_tokens=cached or None,
        cache_write_tokens=written or None,
        reasoning_tokens=(usage.get("details") or {}).get("reasoning_tokens"),
    )
