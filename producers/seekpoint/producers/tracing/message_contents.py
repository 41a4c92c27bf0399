"""Write requests and responses of models as the messages of OpenTelemetry's conventions. Only with content. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.values.json_values import dump

_NO_LIMITS = Limits(depth=1_000_000, items=1_000_000_000)
"""The journal's own limits have admitted what is written here: a span must not refuse it."""


def input_messages(request: Any) -> str:
    """Return the messages of a request as JSON text; any other request as one message of a user.

    >>> input_messages({"messages": [{"role": "user", "content": "hello"}]})
    '[{"parts":[{"content":"hello","type":"text"}],"role":"user"}]'
    """
    found = request.get("messages") if isinstance(request, Mapping) else None
    messages = found if isinstance(found, list | tuple) else [{"role": "user", "content": request}]
    return dump([_message(one, "user") for one in messages], _NO_LIMITS)


def output_messages(response: Any) -> str:
    """Return the messages of a response of a common model API; any other response as one message.

    >>> output_messages({"choices": [{"message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}]})
    '[{"finish_reason":"stop","parts":[{"content":"hi","type":"text"}],"role":"assistant"}]'
    """
    choices = response.get("choices") if isinstance(response, Mapping) else None
    if isinstance(choices, list) and all(isinstance(one, Mapping) for one in choices):
        return dump(
            [
                {**_message(one.get("message"), "assistant"), "finish_reason": one.get("finish_reason") or "stop"}
                for one in choices
            ],
            _NO_LIMITS,
        )
    reason = response.get("stop_reason") if isinstance(response, Mapping) else None
    return dump([{**_message(response, "assistant"), "finish_reason": reason or "stop"}], _NO_LIMITS)


def _message(one: Any, role: str) -> dict[str, Any]:
    known = isinstance(one, Mapping) and "content" in one
    content = one["content"] if known else one
    text = content if isinstance(content, str) else dump(content, _NO_LIMITS)
    return {
        "role": str(one.get("role") or role) if known else role,
        "parts": [{"type": "text", "content": text}],
    }
