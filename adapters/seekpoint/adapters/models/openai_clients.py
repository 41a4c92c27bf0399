"""Wrap the clients of the package ``openai``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from seekpoint import Process, SyncProcess
from seekpoint.adapters.models.model_options import ModelOptions
from seekpoint.adapters.models.model_requests import api_of_paths
from seekpoint.adapters.models.stainless_clients import wrapped

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

C = TypeVar("C", bound="AsyncOpenAI | OpenAI")


def wrap_openai(process: Process | SyncProcess, client: C, **options: Unpack[ModelOptions]) -> C:
    """Return a copy of ``client`` whose model calls are decisions of ``process``: chat completions, responses, ....

    A decision has the name of the path: ``openai.chat.completions``. The client's own retries are off; its
    ``max_retries`` counts the attempts of a decision, unless ``retry=`` names them. ``options`` are those of
    ``process.decide``. Raises ``Refused`` for ``OpenAI`` in code that is async, and for ``AsyncOpenAI`` in plain code.
    A request that is no model call raises ``Refused`` when it is made.
    """
    api = api_of_paths("openai", str(client.base_url), "x-request-id")
    made: Any = wrapped(process, client, api, options)
    return made  # type: ignore[no-any-return]  # a copy of the client
