"""Errors of model calls: recorded, and raised again as what they were, in the first run as in each later one.

Pydantic AI marks the error of a stream that had begun with what came until then: such a request is not made again, and
no other model is asked. The mark is an object that no journal has. It is recorded as JSON, and each run, the first one
too, gets the mark that is made of the record.
"""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter
from pydantic_ai import exceptions
from pydantic_ai.conversation_store import ConversationConflict
from pydantic_ai.durable_exec._utils import mark_streamed_before_failing, streamed_before_failing
from pydantic_ai.messages import ModelResponse
from pydantic_core import to_json

from seekpoint import register_failure

_RESPONSE: TypeAdapter[ModelResponse] = TypeAdapter(ModelResponse)
_STREAMED = "_seekpoint_streamed"
_BYTES_MAX = 12_000
"""An attribute of an error is recorded if it is small."""


def register_failures() -> None:
    """Let recorded errors of Pydantic AI be raised as what they were: its code and its users' catch them by class."""
    for one in [*vars(exceptions).values(), ConversationConflict]:
        is_error = isinstance(one, type) and issubclass(one, Exception)
        if is_error and one.__module__.startswith("pydantic_ai.") and not issubclass(one, BaseExceptionGroup | Warning):
            register_failure(one)


def prepared(error: Exception) -> Exception:
    """Return the error of a model call with a mark that can be recorded, and that permits no further attempt."""
    response = streamed_before_failing(error)
    if response is not None:
        setattr(error, _STREAMED, _shortened(response))
        error.retryable = False  # type: ignore[attr-defined]
    return error


def _shortened(response: ModelResponse) -> Any:
    found = _RESPONSE.dump_python(response, mode="json")
    return found if len(to_json(found)) <= _BYTES_MAX else {**found, "parts": []}


def as_recorded(error: Exception) -> Exception:
    """Return an error that was recorded with the mark of Pydantic AI that its record tells."""
    found = getattr(error, _STREAMED, None)
    if found is not None:
        mark_streamed_before_failing(error, _RESPONSE.validate_python(found))
    return error
