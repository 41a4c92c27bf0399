"""Turn answers of an API into what the journal has of them, and back into answers for the client. Pure.

The answer of a call is the JSON of the API, with ``_request_id``. The chunks of a stream are those of ``EventEncoder``,
between two objects: ``{"head": {"request_id": ...}}`` and ``{"summary": {"model", "usage", "tool_calls"}}``. A stream
that broke off has ``{"broken": {"kind", "message"}}`` before its summary.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from seekpoint.adapters.models.answer_errors import AnswerError, answer_error, send_error
from seekpoint.adapters.models.model_requests import Api
from seekpoint.adapters.models.server_sent_events import EventReader, is_last, written
from seekpoint.adapters.models.stream_coding import EventDecoder, EventEncoder
from seekpoint.adapters.models.stream_summaries import StreamSummary
from seekpoint.adapters.models.strict_json import JournalableError, parsed

_REQUEST_ID, _BODY, _CONTENT_TYPE = "_request_id", "_body", "_content_type"
_COUNTED = frozenset({"model", "modelVersion", "usage", "usageMetadata"})
_ERROR_STATUSES = {"overloaded_error": 529, "rate_limit_error": 429, "api_error": 500, "timeout_error": 504}
"""The statuses that Anthropic has for the errors with which a stream may begin."""


def answer_of(api: Api, status: int, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """Return what is recorded of an answer. Raises ``AnswerError`` for that of an error."""
    if status >= 400:
        raise error_of(api, status, headers, body)
    recorded = _recorded(headers.get("content-type", ""), body)
    request_id = headers.get(api.request_id_header)
    return recorded if request_id is None else {**recorded, _REQUEST_ID: request_id}


def _recorded(content_type: str, body: bytes) -> dict[str, Any]:
    beside: dict[str, Any] = {}
    found: Any = body
    if "json" in content_type or not content_type:
        try:
            found = parsed(body)
        except JournalableError as exc:  # its bytes, with what the journal counts
            beside = {name: one for name, one in _object(exc.value).items() if name in _COUNTED}
        except ValueError:  # the client tells what is wrong
            pass
    return dict(found) if isinstance(found, dict) else {_BODY: found, _CONTENT_TYPE: content_type, **beside}


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def answer_bytes(answer: Mapping[str, Any]) -> tuple[str, bytes]:
    """Return the content type and the body of a recorded answer."""
    if _CONTENT_TYPE in answer:
        body = answer[_BODY]
        return answer[_CONTENT_TYPE] or "application/json", body if isinstance(body, bytes) else _dumped(body)
    return "application/json", _dumped({name: one for name, one in answer.items() if name != _REQUEST_ID})


def request_id_in(answer: Mapping[str, Any]) -> str | None:
    """Return the id that the API gave the request."""
    found = answer.get(_REQUEST_ID)
    return found if isinstance(found, str) else None


def error_of(api: Api, status: int, headers: Mapping[str, str], body: bytes) -> AnswerError:
    """Return the error for an answer with an error's status."""
    return answer_error(status, headers, _json(body), api.also_busy)


def error_bytes(error: AnswerError) -> tuple[str, bytes]:
    """Return the content type and the body of a recorded error."""
    if isinstance(error.body, str):
        return "text/plain; charset=utf-8", error.body.encode()
    return "application/json", _dumped(error.body)


class ChunkReader:
    """Makes the recorded chunks of one stream from the pieces of its bytes."""

    def __init__(self, api: Api, headers: Mapping[str, str]) -> None:
        self._api = api
        self._headers = headers
        self._events = EventReader()
        self._encoder = EventEncoder()
        self._summary = StreamSummary()
        self._is_begun = self._is_over = False

    def read(self, data: bytes) -> Iterator[Any]:
        """Yield the chunks of the events that end in ``data``. Raises ``AnswerError`` if the first one is an error."""
        for event in self._events.read(data):
            yield from self._chunks(event)

    def end(self) -> Iterator[Any]:
        """Yield the last chunks of a stream that ended."""
        for event in self._events.end():
            yield from self._chunks(event)
        yield {"summary": self._summary.result(is_whole=True)}

    def broken(self, error: Exception) -> Iterator[Any]:
        """Yield the last chunks of a stream that broke off with a transport error.

        Raises ``SendError`` if nothing of it has come: then it may be asked for again.
        """
        if not self._is_begun:
            raise send_error(error) from error
        if not self._is_over:
            recorded = send_error(error)
            yield {"broken": {"kind": recorded.kind, "message": str(recorded)}}
        yield {"summary": self._summary.result(is_whole=self._is_over)}

    def _chunks(self, event: Any) -> Iterator[Any]:
        if not self._is_begun:
            self._check(event)
            self._is_begun = True
            request_id = self._headers.get(self._api.request_id_header)
            yield {"head": {} if request_id is None else {"request_id": request_id}}
        self._is_over = self._is_over or is_last(event)
        self._summary.add(event)
        yield self._encoder.encoded(event)

    def _check(self, event: Any) -> None:
        if isinstance(event, dict) and event.get("type") == "error" and isinstance(event.get("error"), dict):
            status = _ERROR_STATUSES.get(str(event["error"].get("type")))
            if status is not None:
                raise answer_error(status, self._headers, event, self._api.also_busy)


class ChunkWriter:
    """Makes the bytes of one stream from its recorded chunks. It keeps the last event until the stream is recorded."""

    def __init__(self) -> None:
        self._decoder = EventDecoder()
        self._held = b""
        self.broken: Mapping[str, str] | None = None
        """The transport error with which the stream broke off."""

    def written(self, chunk: Any) -> bytes:
        """Return the bytes that are due with a chunk."""
        if isinstance(chunk, dict) and "event" not in chunk and "at" not in chunk:
            self.broken = chunk.get("broken", self.broken)
            return b""
        event = self._decoder.decoded(chunk)
        due, self._held = self._held, written(event)
        if is_last(event):
            return due
        due, self._held = due + self._held, b""
        return due

    def end(self) -> bytes:
        """Return the bytes that are due once the stream is recorded."""
        return self._held


def _json(body: bytes) -> Any:
    """Return the JSON of an error's body; its text if it is none."""
    try:
        return parsed(body)
    except ValueError:
        return body.decode(errors="replace")


def _dumped(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, sort_keys=True).encode()
