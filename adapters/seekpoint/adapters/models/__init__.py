"""Record the model calls of the clients that people use: each request of a wrapped client is a decision of a process.

A client is wrapped for one process: ``client = wrap_openai(process, AsyncOpenAI())``. The wrapped client has the type
and all calls of the one given. What it sends goes through a transport of its HTTP client, which makes a decision of it.
So the journal has the JSON of the API, and whatever the client makes of an answer is made again in each later run.
"""

from typing import TYPE_CHECKING

from seekpoint.adapters.models.answer_errors import AnswerError, BusyError, LostError, SendError

if TYPE_CHECKING:
    from seekpoint.adapters.models.anthropic_clients import wrap_anthropic
    from seekpoint.adapters.models.genai_clients import wrap_genai
    from seekpoint.adapters.models.litellm_calls import wrap_litellm
    from seekpoint.adapters.models.model_options import ModelOptions
    from seekpoint.adapters.models.openai_clients import wrap_openai

__all__ = [
    "AnswerError", "BusyError", "LostError", "ModelOptions", "SendError", "wrap_anthropic", "wrap_genai",
    "wrap_litellm", "wrap_openai",
]  # fmt: skip

_HOMES = {
    "ModelOptions": "model_options",
    "wrap_anthropic": "anthropic_clients",
    "wrap_genai": "genai_clients",
    "wrap_litellm": "litellm_calls",
    "wrap_openai": "openai_clients",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return found
