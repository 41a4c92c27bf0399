"""Read the usage of a model call from responses of the common model APIs. An unknown count is None, never 0.

Shapes known (plain dicts and the clients' objects alike): OpenAI chat completions (``prompt_tokens``, cached tokens
inside them; of LiteLLM's, Anthropic's counts too), OpenAI responses (``input_tokens`` with ``input_tokens_details``),
Anthropic messages (``input_tokens`` beside ``cache_read_input_tokens`` and ``cache_creation_input_tokens``), Google's
``usageMetadata``, and the events of their streams. A stream whose last chunk is ``{"summary": {"model": ..., "usage":
..., "tool_calls": ...}}``, as that of an adapter, is read by this alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from seekpoint.schemas.frozen_struct import FrozenStruct

_GOOGLE: Final[Mapping[str, tuple[str, str]]] = {
    "usageMetadata": ("usageMetadata", "usage_metadata"),
    "modelVersion": ("modelVersion", "model_version"),
    "promptTokenCount": ("promptTokenCount", "prompt_token_count"),
    "candidatesTokenCount": ("candidatesTokenCount", "candidates_token_count"),
    "cachedContentTokenCount": ("cachedContentTokenCount", "cached_content_token_count"),
    "thoughtsTokenCount": ("thoughtsTokenCount", "thoughts_token_count"),
    "toolUsePromptTokenCount": ("toolUsePromptTokenCount", "tool_use_prompt_token_count"),
    "totalTokenCount": ("totalTokenCount", "total_token_count"),
}
"""The names of Google's JSON, with those that its Python client has for them."""

_ONE_HOUR = "ephemeral_1h_input_tokens"


class Usage(FrozenStruct, frozen=True):
    """Tokens of one call; each is None if the response does not have it.

    ``input_tokens`` are those at the full price: neither ``cached_tokens`` (read from a cache) nor
    ``cache_write_tokens``. ``reasoning_tokens`` are part of ``output_tokens``, and ``cache_write_1h_tokens``, which are
    kept for an hour, of ``cache_write_tokens``.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_write_1h_tokens: int | None = None

    def __post_init__(self) -> None:
        for name, count in asdict(self).items():
            if count is not None and (type(count) is not int or not 0 <= count < 1 << 63):
                raise ValueError(f"{name} is a count of tokens, not {count!r}")

    @property
    def total_tokens(self) -> int | None:
        """All tokens of input and output; None if either is not known."""
        if self.input_tokens is None or self.output_tokens is None:
            return None
        return self.input_tokens + self.output_tokens + (self.cached_tokens or 0) + (self.cache_write_tokens or 0)

    @property
    def cache_write_5m_tokens(self) -> int:
        """The tokens that are written to a cache and not kept for an hour."""
        return max(0, (self.cache_write_tokens or 0) - (self.cache_write_1h_tokens or 0))

    def to_dict(self) -> dict[str, int]:
        """Return the known counts, as the journal has them."""
        return {name: count for name, count in asdict(self).items() if count is not None}

    @classmethod
    def from_dict(cls, known: Mapping[str, Any]) -> Usage:
        """Return the usage of a ``to_dict``. Raises ``TypeError`` for unknown names, ``ValueError`` if invalid."""
        return cls(**known)


def usage_in(answer: Any) -> Usage | None:
    """Return the usage in ``answer``: a response, or the list of a stream's events; None if there is none."""
    answer = summary_in(answer)
    if _is_list(answer):
        return _streamed(answer)
    found = _usage_part(answer)
    return None if found is None else _usage(found)


def model_in(answer: Any) -> str | None:
    """Return the name of the model in ``answer``."""
    answer = summary_in(answer)
    for one in answer if _is_list(answer) else (answer,):
        for holder in (one, _part(one, "message"), _part(one, "response")):
            for name in ("model", *_GOOGLE["modelVersion"]):
                model = _part(holder, name)
                if isinstance(model, str) and model:
                    return model
    return None


def summary_in(answer: Any) -> Any:
    """Return the summary of a stream that has one; any other answer as it is."""
    last = answer[-1] if _is_list(answer) and answer else None
    found = last.get("summary") if isinstance(last, Mapping) else None
    return found if isinstance(found, Mapping) else answer


def _streamed(events: Sequence[Any]) -> Usage | None:
    """Take the newest count of each kind: streams have running totals (Anthropic) or one total (OpenAI)."""
    merged: dict[str, int] = {}
    if any(_part(event, "type") == "error" for event in events):  # it counted on after its last counts
        return None
    for event in events:
        for holder in (event, _part(event, "message"), _part(event, "response")):
            found = _usage_part(holder)
            if found is not None:
                merged |= _usage(found).to_dict()
    return Usage(**merged) if merged else None


def _usage_part(holder: Any) -> Any:
    found = _part(holder, "usage")
    return _google(holder, "usageMetadata") if found is None else found


def _usage(found: Any) -> Usage:
    if _google(found, "totalTokenCount") is not None or _google(found, "promptTokenCount") is not None:
        return _google_usage(found)
    if _part(found, "prompt_tokens") is not None or _part(found, "completion_tokens") is not None:
        names = ("prompt_tokens", "completion_tokens", "prompt_tokens_details", "completion_tokens_details")
        return _inclusive(found, *names)
    if _part(found, "input_tokens_details") is not None or _part(found, "output_tokens_details") is not None:
        return _inclusive(found, "input_tokens", "output_tokens", "input_tokens_details", "output_tokens_details")
    return Usage(
        input_tokens=_count(found, "input_tokens"),
        output_tokens=_count(found, "output_tokens"),
        cached_tokens=_count(found, "cache_read_input_tokens"),
        cache_write_tokens=_count(found, "cache_creation_input_tokens"),
        cache_write_1h_tokens=_count(_part(found, "cache_creation"), _ONE_HOUR),
    )


def _inclusive(found: Any, read: str, written: str, read_details: str, written_details: str) -> Usage:
    """Subtract the cached tokens and those written to a cache, which OpenAI and LiteLLM count as input."""
    whole, details = _count(found, read), _part(found, read_details)
    cached, kept = _count(details, "cached_tokens"), _count(details, "cache_write_tokens")
    if kept is None:
        kept = _count(details, "cache_creation_tokens")
    return Usage(
        input_tokens=None if whole is None else max(0, whole - (cached or 0) - (kept or 0)),
        output_tokens=_count(found, written),
        cached_tokens=cached,
        cache_write_tokens=kept or None,
        reasoning_tokens=_count(_part(found, written_details), "reasoning_tokens"),
        cache_write_1h_tokens=_count(_part(details, "cache_creation_token_details"), _ONE_HOUR),
    )


def _google_usage(found: Any) -> Usage:
    """Subtract the cached tokens, which Google counts as input; add those of thoughts, which it does not as output."""
    known = {name: _tokens(_google(found, name)) for name in _GOOGLE}
    whole, cached, thoughts = known["promptTokenCount"], known["cachedContentTokenCount"], known["thoughtsTokenCount"]
    written, of_tools = known["candidatesTokenCount"], known["toolUsePromptTokenCount"]
    if written is None and known["totalTokenCount"] is not None:
        written = 0  # it leaves out counts of 0
    return Usage(
        input_tokens=None if whole is None else max(0, whole + (of_tools or 0) - (cached or 0)),
        output_tokens=None if written is None else written + (thoughts or 0),
        cached_tokens=cached,
        reasoning_tokens=thoughts,
    )


def _google(holder: Any, name: str) -> Any:
    """Return a part by its name in Google's JSON, or by that of Google's Python client."""
    return next((found for one in _GOOGLE[name] if (found := _part(holder, one)) is not None), None)


def _count(holder: Any, name: str) -> int | None:
    return _tokens(_part(holder, name))


def _tokens(value: Any) -> int | None:
    """Return a number of tokens; some gateways write it as 10.0. None for what is none."""
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and value >= 0 else None


def _part(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)


def _is_list(answer: Any) -> bool:
    return isinstance(answer, Sequence) and not isinstance(answer, str | bytes)
