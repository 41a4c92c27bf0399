"""Name and describe spans by OpenTelemetry's semantic conventions, without content. Pure.

Messaging: version 1.45.0. Generative AI: the conventions' own repository, which continues version 1.41.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_OPERATIONS = {"decision": "chat", "effect": "execute_tool", "tool": "execute_tool"}
"""The operation of a call's kind; the other kinds are none of generative AI."""


def span_name(kind: str, name: str, model: str | None = None) -> str:
    """Return the name of a call's span.

    >>> span_name("decision", "ask", "gpt-5"), span_name("effect", "refund"), span_name("step", "look up")
    ('chat gpt-5', 'execute_tool refund', 'step look up')
    """
    operation = _OPERATIONS.get(kind, kind)
    return operation if operation == "chat" and model is None else f"{operation} {model or name}"


def run_attributes(process_id: str, agent: str, version: str, journal: str, *, is_resumed: bool) -> dict[str, Any]:
    """Return the attributes of a run of an agent."""
    return {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": agent,
        "gen_ai.agent.version": version,
        "gen_ai.conversation.id": process_id,
        "seekpoint.journal": journal,
        "seekpoint.resumed": is_resumed,
    }


def call_attributes(kind: str, name: str, key: str, process_id: str, model: str | None = None) -> dict[str, Any]:
    """Return the attributes of a call when it begins."""
    found: dict[str, Any] = {"seekpoint.key": key, "seekpoint.kind": kind, "seekpoint.name": name}
    if (operation := _OPERATIONS.get(kind)) is not None:
        found |= {"gen_ai.operation.name": operation, "gen_ai.conversation.id": process_id}
    if operation == "execute_tool":
        found |= {"gen_ai.tool.name": name, "gen_ai.tool.type": "function"}
    if operation == "chat" and model is not None:
        found |= {"gen_ai.request.model": model, **_provider(model)}
    return found


def usage_attributes(model: str | None, usage: Mapping[str, int], cost_usd: str | None) -> dict[str, Any]:
    """Return the attributes of a model's response. Cached tokens are input tokens there, as the conventions ask.

    >>> usage_attributes("gpt-5", {"input_tokens": 3, "cached_tokens": 4, "output_tokens": 2}, None)
    ... # doctest: +NORMALIZE_WHITESPACE
    {'gen_ai.response.model': 'gpt-5', 'gen_ai.provider.name': 'openai', 'gen_ai.usage.input_tokens': 7,
     'gen_ai.usage.output_tokens': 2, 'gen_ai.usage.cache_read.input_tokens': 4}
    """
    read, written = usage.get("cached_tokens"), usage.get("cache_write_tokens")
    given = usage.get("input_tokens")
    found = {
        "gen_ai.response.model": model,
        **({} if model is None else _provider(model)),
        "gen_ai.usage.input_tokens": None if given is None else given + (read or 0) + (written or 0),
        "gen_ai.usage.output_tokens": usage.get("output_tokens"),
        "gen_ai.usage.cache_read.input_tokens": read,
        "gen_ai.usage.cache_creation.input_tokens": written,
        "gen_ai.usage.reasoning.output_tokens": usage.get("reasoning_tokens"),
        "seekpoint.cost_usd": cost_usd,
    }
    return {name: value for name, value in found.items() if value is not None}


def message_attributes(operation: str, topic: str, process_id: str | None, message_id: str | None) -> dict[str, Any]:
    """Return the attributes of sending, receiving or processing a message of a topic."""
    found = {
        "messaging.system.name": "kafka",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": topic,
        "messaging.message.id": message_id,
        "kafka.message.key": process_id,
    }
    return {name: value for name, value in found.items() if value is not None}


_PROVIDERS = {
    "claude": "anthropic", "gpt-": "openai", "o1": "openai", "o3": "openai", "o4": "openai", "gemini": "gcp.gen_ai",
    "mistral": "mistral_ai", "command": "cohere", "deepseek": "deepseek", "grok": "x_ai",
}  # fmt: skip


def _provider(model: str) -> dict[str, str]:
    """Guess the provider by the beginning of the model's name; nothing for a name that tells none."""
    found = next((provider for begin, provider in _PROVIDERS.items() if model.startswith(begin)), None)
    return {} if found is None else {"gen_ai.provider.name": found}
