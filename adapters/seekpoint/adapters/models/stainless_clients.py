"""Copy the clients of OpenAI and Anthropic, which one generator makes, with another HTTP client and without retries."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from seekpoint import Process, Retry, SeekpointError, SyncProcess
from seekpoint.adapters.models.model_options import ModelOptions
from seekpoint.adapters.models.model_requests import Api
from seekpoint.adapters.models.transports import http_client


def wrapped(process: Process | SyncProcess, client: Any, api: Api, options: ModelOptions) -> Any:
    """Return a copy of ``client`` that sends through a transport of decisions."""
    base = import_module(f"{api.name}._base_client")
    http = http_client(process, api, client._client, _with_retry(client, base.DEFAULT_MAX_RETRIES, options))
    made = _unmasked(client.copy(http_client=http, max_retries=0), isinstance(process, Process))
    # A client finds out its platform in a thread, in its first call: the first calls of two tasks would begin in the
    # order in which their threads end, which a later run may not repeat.
    made._platform = base.get_platform()
    return made


def _unmasked(client: Any, is_async: bool) -> Any:
    """Let ``client`` and its copies raise Seekpoint's errors as they are, and not as errors of the connection."""
    request, copy = client.request, client.copy

    async def ask(*arguments: Any, **options: Any) -> Any:
        try:
            return await request(*arguments, **options)
        except Exception as exc:
            if (cause := _cause(exc)) is None:
                raise
            raise cause from cause.__cause__

    def ask_now(*arguments: Any, **options: Any) -> Any:
        try:
            return request(*arguments, **options)
        except Exception as exc:
            if (cause := _cause(exc)) is None:
                raise
            raise cause from cause.__cause__

    client.request = ask if is_async else ask_now
    client.copy = client.with_options = lambda **changed: _unmasked(copy(**changed | {"max_retries": 0}), is_async)
    return client


def _cause(error: BaseException) -> SeekpointError | None:
    """Return the error of Seekpoint's that is a cause of ``error``."""
    cause = error.__cause__
    while cause is not None and not isinstance(cause, SeekpointError):
        cause = cause.__cause__
    return cause


def _with_retry(client: Any, default: int, options: ModelOptions) -> ModelOptions:
    """Return the options, with the attempts that the client was made with if nothing else says how often to try."""
    retries = client.max_retries
    if options.get("retry") is not None or retries == default:
        return options
    return {**options, "retry": Retry(attempts=retries + 1, backoff_s=0.5, jitter=0.25, only_transient=True)}
