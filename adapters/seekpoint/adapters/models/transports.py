"""Transports of HTTP clients that make a decision of each request, and send it with the client that was given.

OpenAI's client takes the clients of ``httpx2`` and of ``httpx``, which have the same names: ``module`` is the one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from functools import partial
from importlib import import_module
from typing import Any, NoReturn, TypeAlias

from seekpoint import Process, SyncProcess
from seekpoint.adapters.models.answer_errors import AnswerError, SendError, send_error
from seekpoint.adapters.models.answers import (
    ChunkReader,
    ChunkWriter,
    answer_bytes,
    answer_of,
    error_bytes,
    error_of,
    request_id_in,
)
from seekpoint.adapters.models.model_options import ModelOptions
from seekpoint.adapters.models.model_requests import Api, ModelRequest
from seekpoint.errors import Refused

_Http: TypeAlias = Any
"""An object of ``httpx2`` or of ``httpx``."""


def http_client(process: Process | SyncProcess, api: Api, inner: _Http, options: ModelOptions) -> _Http:
    """Return an HTTP client whose requests are decisions of ``process``, sent by the client ``inner``.

    Raises ``Refused`` if one of the two is asynchronous and the other one is not.
    """
    module = module_of(inner)
    is_async = isinstance(inner, module.AsyncClient)
    if is_async is not isinstance(process, Process):
        raise Refused(
            "code that is async needs the client that is async, and plain code needs the other one",
            found=type(process).__name__,
            type=type(inner).__name__,
            hint="async code needs AsyncOpenAI or AsyncAnthropic, an agent that is a plain function the other one",
        )
    kind = _AsyncTransport if is_async else _Transport
    made = type(kind.__name__, (kind, module.AsyncBaseTransport if is_async else module.BaseTransport), {})
    transport = made(process, api, inner, module, options)
    client = module.AsyncClient if is_async else module.Client
    # The client that sends has what the environment says: proxies, and passwords of a netrc file.
    return client(transport=transport, timeout=inner.timeout, trust_env=False, follow_redirects=False)


def module_of(client: _Http) -> _Http:
    """Return the module of an HTTP client: ``httpx2`` or ``httpx``. Raises ``Refused`` for that of another one."""
    for kind in type(client).__mro__:
        root = kind.__module__.partition(".")[0]
        if root in ("httpx", "httpx2"):
            return import_module(root)
    raise Refused(
        "this client does not send with httpx", type=type(client).__name__, hint="wrap process.decide around it"
    )


class _Shared:
    """The part that both transports share: all but the sending."""

    def __init__(self, process: Any, api: Api, inner: _Http, module: _Http, options: ModelOptions) -> None:
        self.process = process
        self.api = api
        self.inner = inner
        self.module = module
        self.options = options

    def model_request(self, request: _Http, body: bytes) -> ModelRequest:
        return self.api.model_request(request.method, str(request.url), request.headers, body)

    def to_send(self, request: _Http, asked: ModelRequest, found: Mapping[str, Any]) -> _Http:
        """Return the request that asks for ``found``."""
        url, body = asked.sent(found)
        headers = [(name, one) for name, one in request.headers.multi_items() if name.lower() not in _LENGTHS]
        return self.inner.build_request(
            request.method, url, headers=headers, content=body, extensions=dict(request.extensions)
        )

    def answered(self, request: _Http, answer: Mapping[str, Any]) -> _Http:
        content_type, body = answer_bytes(answer)
        headers = self._headers(content_type, request_id_in(answer))
        return self.module.Response(200, headers=headers, content=body, request=request)

    def refused(self, request: _Http, error: AnswerError) -> _Http:
        content_type, body = error_bytes(error)
        headers = {**self._headers(content_type, error.request_id), **error.headers}
        return self.module.Response(error.http_status, headers=headers, content=body, request=request)

    def streamed(self, request: _Http, first: Any, stream: _Http) -> _Http:
        head = first.get("head", {}) if isinstance(first, Mapping) else {}
        headers = self._headers("text/event-stream; charset=utf-8", head.get("request_id"))
        return self.module.Response(200, headers=headers, stream=stream, request=request)

    def fail(self, request: _Http, kind: str, message: str, cause: Exception | None = None) -> NoReturn:
        """Raise the transport error of that name."""
        made = getattr(self.module, kind, self.module.TransportError)
        raise made(message, request=request) from cause

    def _headers(self, content_type: str, request_id: str | None) -> dict[str, str]:
        found = {"content-type": content_type}
        return found if request_id is None else {**found, self.api.request_id_header: request_id}


_LENGTHS = frozenset({"content-length", "transfer-encoding"})


class _AsyncTransport(_Shared):
    """The transport of a client that is async."""

    async def handle_async_request(self, request: _Http) -> _Http:
        """Answer a request by a decision."""
        asked = self.model_request(request, await request.aread())
        try:
            if not asked.is_stream:
                call = partial(self._answer, request, asked)
                return self.answered(
                    request, await self.process.decide(asked.name, call, asked.recorded, **self.options)
                )
            chunks = self.process.decide_stream(
                asked.name, partial(self._chunks, request, asked), asked.recorded, **self.options
            )
            first = await anext(chunks, None)
            return self.streamed(request, first, self._stream(request, first, chunks))
        except AnswerError as error:
            return self.refused(request, error)
        except SendError as error:
            self.fail(request, error.kind, str(error), error)

    async def _answer(self, request: _Http, asked: ModelRequest, found: Mapping[str, Any]) -> dict[str, Any]:
        try:
            response = await self.inner.send(self.to_send(request, asked, found))
        except self.module.TransportError as exc:
            raise send_error(exc) from exc
        return answer_of(self.api, response.status_code, response.headers, response.content)

    async def _chunks(self, request: _Http, asked: ModelRequest, found: Mapping[str, Any]) -> AsyncIterator[Any]:
        broken: Exception | None = None
        try:
            response = await self.inner.send(self.to_send(request, asked, found), stream=True)
        except self.module.TransportError as exc:
            raise send_error(exc) from exc
        try:
            if response.status_code >= 400:
                raise error_of(self.api, response.status_code, response.headers, await response.aread())
            reader = ChunkReader(self.api, response.headers)
            try:
                async for data in response.aiter_bytes():
                    for chunk in reader.read(data):
                        yield chunk
            except self.module.TransportError as exc:
                broken = exc
            for chunk in reader.end() if broken is None else reader.broken(broken):
                yield chunk
        finally:
            await response.aclose()

    def _stream(self, request: _Http, first: Any, chunks: Any) -> _Http:
        return type("RecordedStream", (_AsyncStream, self.module.AsyncByteStream), {})(self, request, first, chunks)


class _AsyncStream:
    """The bytes of a recorded stream."""

    def __init__(self, transport: _Shared, request: _Http, first: Any, chunks: Any) -> None:
        self._transport = transport
        self._request = request
        self._first = first
        self._chunks = chunks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        writer = ChunkWriter()
        yield writer.written(self._first or {})
        async for chunk in self._chunks:
            if due := writer.written(chunk):
                yield due
        yield writer.end()
        if writer.broken is not None:
            self._transport.fail(self._request, writer.broken["kind"], writer.broken["message"])

    async def aclose(self) -> None:
        """Stop the call."""
        await self._chunks.aclose()


class _Transport(_Shared):
    """The transport of a client that is not async."""

    def handle_request(self, request: _Http) -> _Http:
        """Answer a request by a decision."""
        asked = self.model_request(request, request.read())
        try:
            if not asked.is_stream:
                call = partial(self._answer, request, asked)
                return self.answered(request, self.process.decide(asked.name, call, asked.recorded, **self.options))
            chunks = self.process.decide_stream(
                asked.name, partial(self._chunks, request, asked), asked.recorded, **self.options
            )
            first = next(chunks, None)
            return self.streamed(request, first, self._stream(request, first, chunks))
        except AnswerError as error:
            return self.refused(request, error)
        except SendError as error:
            self.fail(request, error.kind, str(error), error)

    def _answer(self, request: _Http, asked: ModelRequest, found: Mapping[str, Any]) -> dict[str, Any]:
        try:
            response = self.inner.send(self.to_send(request, asked, found))
        except self.module.TransportError as exc:
            raise send_error(exc) from exc
        return answer_of(self.api, response.status_code, response.headers, response.content)

    def _chunks(self, request: _Http, asked: ModelRequest, found: Mapping[str, Any]) -> Iterator[Any]:
        broken: Exception | None = None
        try:
            response = self.inner.send(self.to_send(request, asked, found), stream=True)
        except self.module.TransportError as exc:
            raise send_error(exc) from exc
        try:
            if response.status_code >= 400:
                raise error_of(self.api, response.status_code, response.headers, response.read())
            reader = ChunkReader(self.api, response.headers)
            try:
                for data in response.iter_bytes():
                    yield from reader.read(data)
            except self.module.TransportError as exc:
                broken = exc
            yield from reader.end() if broken is None else reader.broken(broken)
        finally:
            response.close()

    def _stream(self, request: _Http, first: Any, chunks: Any) -> _Http:
        return type("RecordedStream", (_Stream, self.module.SyncByteStream), {})(self, request, first, chunks)


class _Stream:
    """The bytes of a recorded stream."""

    def __init__(self, transport: _Shared, request: _Http, first: Any, chunks: Any) -> None:
        self._transport = transport
        self._request = request
        self._first = first
        self._chunks = chunks

    def __iter__(self) -> Iterator[bytes]:
        writer = ChunkWriter()
        yield writer.written(self._first or {})
        for chunk in self._chunks:
            if due := writer.written(chunk):
                yield due
        yield writer.end()
        if writer.broken is not None:
            self._transport.fail(self._request, writer.broken["kind"], writer.broken["message"])

    def close(self) -> None:
        """Stop the call."""
        self._chunks.close()
