"""Arguments and results of tools as JSON, as the journal has them.

Pydantic AI gives the result of a tool call as ``{"kind": "tool_return", "result": ...}``, or with the kind of what the
tool has raised for the model. The journal has a plain result as ``{"value": ...}``, so that a person who settles an
effect can give one.
"""

from __future__ import annotations

from typing import Any

from pydantic_core import to_jsonable_python

from seekpoint.adapters.run_calls import RESULT_LOST

_KINDS = frozenset({
    "approval_required", "call_deferred", "model_retry", "validation_error", "tool_failed", "run_cancelled",
    "tool_return", "tool_content_result",
})  # fmt: skip


def arguments_json(arguments: Any) -> Any:
    """Return the arguments of a call as JSON; what has no JSON as the name of its class."""
    return to_jsonable_python(arguments, bytes_mode="base64", fallback=lambda value: type(value).__qualname__)


def output_json(payload: Any) -> Any:
    """Return the record of a call's result.

    >>> output_json({"kind": "tool_return", "result": 12})
    {'value': 12}
    >>> output_json({"kind": "model_retry", "message": "no such order"})
    {'kind': 'model_retry', 'message': 'no such order'}
    """
    is_plain = payload.get("kind") == "tool_return" and payload.keys() == {"kind", "result"}
    return {"value": payload["result"]} if is_plain else payload


def result_of(recorded: Any) -> dict[str, Any]:
    """Return the result that ``output_json`` has made the record of, or that a person gave.

    >>> result_of({"value": 12}) == result_of(12) == {"kind": "tool_return", "result": 12}
    True
    """
    if isinstance(recorded, dict):
        if recorded.get("kind") in _KINDS:
            return recorded
        if recorded.keys() == {"value"}:
            recorded = recorded["value"]
    return {"kind": "tool_return", "result": recorded}


def failed_json(message: str) -> dict[str, Any]:
    """Return the result of a call that failed: the model is told."""
    return {"kind": "tool_failed", "message": message}


def lost_json() -> dict[str, Any]:
    """Return what the model is told of a call whose result cannot be recorded."""
    return {"kind": "tool_return", "result": RESULT_LOST}
