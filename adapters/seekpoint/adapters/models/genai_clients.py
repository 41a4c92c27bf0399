"""Wrap the client of the package ``google-genai``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Unpack

from seekpoint import Process, Retry, SyncProcess
from seekpoint.adapters.models.model_options import ModelOptions
from seekpoint.adapters.models.model_requests import GOOGLE
from seekpoint.adapters.models.transports import http_client, module_of
from seekpoint.errors import Refused

if TYPE_CHECKING:
    from google.genai import Client


def wrap_genai(process: Process | SyncProcess, client: Client, **options: Unpack[ModelOptions]) -> Client:
    """Return a client like ``client`` whose model calls are decisions of ``process``: ``generate_content`` and others.

    A decision has the name of the method: ``google.generate_content``, of a stream too. In async code use
    ``client.aio.models`` of it, in plain code ``client.models``; the other half raises ``Refused``, and so does a
    request that is no model call. The client's own retries are off; its ``retry_options`` become the attempts of a
    decision, unless ``retry=`` names them. ``options`` are those of ``process.decide``.
    """
    api: Any = client._api_client
    given = api._http_options
    own = _with_retry(given.retry_options, options)
    is_async = isinstance(process, Process)
    inner = api._async_httpx_client if is_async else api._httpx_client
    made = http_client(process, GOOGLE, inner, own)
    made.sender = client  # it closes ``inner`` when it is collected
    other = _refusing(module_of(inner), is_async)
    http = given.model_copy(
        update={
            "httpx_async_client": made if is_async else other, "httpx_client": other if is_async else made,
            "retry_options": None, "aiohttp_client": None, "client_args": None, "async_client_args": None,
        }
    )  # fmt: skip
    return type(client)(http_options=http, **_identity(api))


def _identity(api: Any) -> dict[str, Any]:
    """Return the options that say who asks."""
    if not api.vertexai:
        return {"vertexai": False, "api_key": api.api_key}
    if api.api_key:
        return {"vertexai": True, "api_key": api.api_key}
    return {
        "vertexai": True, "project": api.project, "location": api.location, "credentials": api._credentials
    }  # fmt: skip


def _refusing(module: Any, is_async: bool) -> Any:
    """Return the HTTP client of the half that may not be used."""

    def refuse(request: Any) -> NoReturn:
        raise Refused(
            "async code needs client.aio, and plain code needs the calls of the client itself",
            call=f"{request.method} {request.url.path}",
            hint="await client.aio.models.generate_content(...)" if is_async else "client.models.generate_content(...)",
        )

    client = module.Client if is_async else module.AsyncClient
    return client(transport=module.MockTransport(refuse), trust_env=False)


def _with_retry(given: Any, options: ModelOptions) -> ModelOptions:
    """Return the options, with the attempts that the client was made with if nothing else says how often to try."""
    if given is None or options.get("retry") is not None:
        return options
    waits = {"backoff_s": given.initial_delay, "backoff_max_s": given.max_delay, "factor": given.exp_base}
    told: dict[str, Any] = {name: float(value) for name, value in waits.items() if value is not None}
    attempts = 5 if given.attempts is None else max(1, given.attempts)
    return {**options, "retry": Retry(attempts=attempts, only_transient=True, **told)}
