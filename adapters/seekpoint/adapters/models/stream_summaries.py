"""Collect the model, the usage and the tool calls of a stream from its events, for all APIs alike. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from seekpoint.adapters.models.strict_json import parsed

_BEGIN, _END = "message_start", "message_stop"
"""Anthropic's first and last event: the counts between them grow."""
_OVER = frozenset({"response.completed", "response.failed", "response.incomplete"})


class StreamSummary:
    """The parts of an answer that the events of one stream have told so far."""

    def __init__(self) -> None:
        self._model: str | None = None
        self._is_open = self._has_error = False
        self._usage: dict[str, Any] = {}
        self._calls: dict[Any, dict[str, Any]] = {}
        """Tool calls by their place in the answer."""
        self._inputs: dict[Any, str] = {}
        """The JSON of Anthropic's inputs, which comes in pieces."""

    def add(self, event: Any) -> None:
        """Take an event; one of an unknown shape tells nothing."""
        if not isinstance(event, Mapping):
            return
        kind = event.get("type")
        self._is_open = kind == _BEGIN or (self._is_open and kind != _END)
        self._has_error = self._has_error or _is_error(event)
        message = event.get("message") if kind == _BEGIN else None
        response = event.get("response") if kind in _OVER else None
        for holder in (event, message, response):
            if isinstance(holder, Mapping):
                self._add_facts(holder)
        if isinstance(response, Mapping):
            for at, item in enumerate(_list(response, "output")):
                if _get(item, "type") == "function_call":
                    self._calls[at] = dict(item)
        self._add_anthropic(event)
        for choice in _list(event, "choices"):
            for call in _list(_get(choice, "delta"), "tool_calls"):
                self._add_openai(_get(choice, "index"), call)
        for candidate in _list(event, "candidates"):
            for part in _list(_get(candidate, "content"), "parts"):
                if isinstance(call := _get(part, "functionCall"), Mapping):
                    self._calls[len(self._calls)] = dict(call)

    def result(self, *, is_whole: bool) -> dict[str, Any]:
        """Return the summary; of a stream that broke off or has an error in it, the usage is unknown."""
        is_whole = is_whole and not self._is_open and not self._has_error
        calls = [{**call, **self._input(at)} for at, call in self._calls.items()]
        found = {"model": self._model, "usage": self._usage if is_whole and self._usage else None, "tool_calls": calls}
        return {name: value for name, value in found.items() if value}

    def _add_facts(self, holder: Mapping[str, Any]) -> None:
        model = holder.get("model") or holder.get("modelVersion")
        if isinstance(model, str):
            self._model = model
        usage = holder.get("usage") or holder.get("usageMetadata")
        if isinstance(usage, Mapping):
            self._usage |= {name: count for name, count in usage.items() if count is not None}

    def _add_openai(self, choice: Any, delta: Any) -> None:
        function = _get(delta, "function")
        made = self._calls.setdefault((choice, _get(delta, "index")), {})
        for name in ("id", "type"):
            if isinstance(value := _get(delta, name), str):
                made[name] = value
        if isinstance(function, Mapping):
            known = made.setdefault("function", {"name": "", "arguments": ""})
            for name in ("name", "arguments"):
                known[name] += function.get(name) or ""

    def _add_anthropic(self, event: Mapping[str, Any]) -> None:
        at, block, delta = event.get("index"), event.get("content_block"), event.get("delta")
        if _get(block, "type") == "tool_use":
            self._calls[at] = dict(block) if isinstance(block, Mapping) else {}
        if _get(delta, "type") == "input_json_delta" and at in self._calls:
            self._inputs[at] = self._inputs.get(at, "") + str(_get(delta, "partial_json") or "")

    def _input(self, at: Any) -> dict[str, Any]:
        text = self._inputs.get(at)
        if not text:
            return {}
        try:
            return {"input": parsed(text)}
        except ValueError:  # it broke off, or a journal does not carry it
            return {"input": text}


def _is_error(event: Mapping[str, Any]) -> bool:
    """Whether the event is the error with which an API ends a stream that it cannot go on with."""
    data = event.get("_data", event)
    return "error" in (event.get("_event"), _get(data, "type")) or isinstance(_get(data, "error"), Mapping)


def _get(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, Mapping) else None


def _list(holder: Any, name: str) -> list[Any]:
    found = _get(holder, name)
    return found if isinstance(found, list) else []
