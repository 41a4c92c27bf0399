"""Wrap the clients of the package ``anthropic``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from seekpoint import Process, SyncProcess
from seekpoint.adapters.models.model_options import ModelOptions
from seekpoint.adapters.models.model_requests import api_of_paths
from seekpoint.adapters.models.stainless_clients import wrapped

if TYPE_CHECKING:
    from anthropic import Anthropic, AsyncAnthropic

C = TypeVar("C", bound="AsyncAnthropic | Anthropic")


def wrap_anthropic(process: Process | SyncProcess, client: C, **options: Unpack[ModelOptions]) -> C:
    """Return a copy of ``client`` whose model calls are decisions of ``process``: messages, their streams and parsers.

    A decision has the name of the path: ``anthropic.messages``. The client's own retries are off; its ``max_retries``
    counts the attempts of a decision, unless ``retry=`` names them. ``options`` are those of ``process.decide``. Raises
    ``Refused`` for ``Anthropic`` in code that is async, and for ``AsyncAnthropic`` in plain code. A request that is no
    model call raises ``Refused`` when it is made.
    """
    api = api_of_paths("anthropic", str(client.base_url), "request-id")
    made: Any = wrapped(process, client, api, options)
    return made  # type: ignore[no-any-return]  # a copy of the client
