"""An API in memory for the HTTP clients of ``httpx2``: it answers by a script, and counts what it is asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2

__all__ = ["RECORDED", "Answer", "ScriptedApi", "answered", "busy", "recorded", "streamed"]

RECORDED = Path(__file__).resolve().parents[2] / "adapters" / "models" / "recorded"


def recorded(name: str) -> Any:
    """Return a recorded answer: the JSON of a ``.json``, the text of any other file."""
    text = (RECORDED / name).read_text()
    return json.loads(text) if name.endswith(".json") else text


class Answer:
    """One answer: an error to raise, or a status with headers and a body in pieces."""

    def __init__(
        self, status: int = 200, headers: dict[str, str] | None = None, pieces: tuple[bytes | Exception, ...] = ()
    ) -> None:
        self.status = status
        self.headers = headers or {}
        self.pieces = pieces
        self.waits_before: int | None = None
        """The piece before which an async stream waits for ``goes_on``."""
        self.goes_on = asyncio.Event()
        self.is_closed = False


def answered(body: Any, status: int = 200, **headers: str) -> Answer:
    """Return an answer with a JSON body."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, {"content-type": "application/json", **named}, (json.dumps(body).encode(),))


def busy(status: int = 429, **headers: str) -> Answer:
    """Return the answer of an API that has no time."""
    return answered({"error": {"type": "rate_limit_error", "message": "slow down"}}, status, **headers)


def streamed(text: str, *then: Exception, upto: int | None = None, request_id: str | None = None) -> Answer:
    """Return the answer of a stream, each event in a piece of its own; after the first ``upto`` events it fails."""
    mark = "\r\n\r\n" if "\r\n\r\n" in text else "\n\n"
    events = [f"{one}{mark}".encode() for one in text.split(mark) if one][:upto]
    headers = {"content-type": "text/event-stream; charset=utf-8"}
    if request_id is not None:
        headers["x-request-id"] = headers["request-id"] = request_id
    return Answer(200, headers, (*events, *then))


class _Body(httpx2.AsyncByteStream, httpx2.SyncByteStream):
    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._answer.pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for at, piece in enumerate(self._answer.pieces):
            if at == self._answer.waits_before:
                await self._answer.goes_on.wait()
            if isinstance(piece, Exception):
                raise piece
            yield piece

    def close(self) -> None:
        self._answer.is_closed = True

    async def aclose(self) -> None:
        self._answer.is_closed = True


class ScriptedApi(httpx2.AsyncBaseTransport, httpx2.BaseTransport):
    """A transport that gives each request the next answer of its script, and the last one for ever."""

    def __init__(self, *script: Answer | Exception) -> None:
        self.script = script
        self.requests: list[httpx2.Request] = []

    @property
    def calls(self) -> int:
        """How many requests there were."""
        return len(self.requests)

    @property
    def asked(self) -> list[Any]:
        """The JSON of the requests."""
        return [json.loads(one.content) for one in self.requests]

    def _next(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        answer = self.script[min(len(self.requests), len(self.script)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return httpx2.Response(answer.status, headers=answer.headers, stream=_Body(answer))

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Answer a request of a client that is not async."""
        request.read()
        return self._next(request)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Answer a request of a client that is async."""
        await request.aread()
        return self._next(request)
