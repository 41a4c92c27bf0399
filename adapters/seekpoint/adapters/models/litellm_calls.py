"""Make decisions of the calls of the package ``litellm``, which has functions in place of a client.

The request of a decision is what the function is given, without keys, hosts and clients; the answer is its JSON.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from typing import Any, Unpack

from seekpoint import Process, Retry, SyncProcess
from seekpoint.adapters.credentials import is_credential, without_credentials
from seekpoint.adapters.models.answer_errors import AnswerError, answer_error
from seekpoint.adapters.models.model_options import ModelOptions
from seekpoint.adapters.models.stream_coding import EventDecoder, EventEncoder
from seekpoint.adapters.models.stream_summaries import StreamSummary

_NAME = "litellm.completion"
_NOT_RECORDED = frozenset({
    "api_base", "base_url", "client", "default_headers", "extra_headers", "headers", "logger_fn", "max_retries",
    "num_retries", "shared_session", "timeout",
})  # fmt: skip
"""Options that say where to ask, but not what."""
_WITH_CREDENTIALS = frozenset({"context_window_fallbacks", "extra_body", "fallbacks", "model_list"})
"""Options that may have credentials within them."""
_NO_RETRIES: Mapping[str, Any] = {"num_retries": 0, "max_retries": 0}
_ALSO_BUSY = frozenset({409})


def wrap_litellm(process: Process | SyncProcess, **options: Unpack[ModelOptions]) -> Callable[..., Any]:
    """Return ``litellm.acompletion``, for plain code ``litellm.completion``: each call is a decision of ``process``.

    The returned function takes the options of LiteLLM's and returns what LiteLLM returns, a stream as an iterator of
    its chunks. LiteLLM's own retries are off: ``num_retries`` and ``max_retries`` of a call count the attempts of its
    decision, unless ``retry=`` names them. ``options`` are those of ``process.decide``. Errors are LiteLLM's own in
    each run.
    """
    if isinstance(process, Process):
        return partial(_acompletion, process, options)
    return partial(_completion, process, options)


# --- code that is async
async def _acompletion(process: Process, how: ModelOptions, /, model: str, messages: Any = (), **options: Any) -> Any:
    options |= {"model": model, "messages": list(messages)}
    asked, how = _recorded(options), _with_retry(options, how)
    try:
        if not options.get("stream"):
            return _rebuilt(await process.decide(_NAME, partial(_ask, options), asked, **how))
        chunks = process.decide_stream(_NAME, partial(_stream, options), asked, **how)
        first = await anext(chunks, None)
    except AnswerError as error:
        raise _own_error(error.body) from None
    return _chunks(first, chunks)


async def _ask(options: Mapping[str, Any], asked: Mapping[str, Any]) -> Any:
    try:
        answer = await _litellm().acompletion(**{**options, **_NO_RETRIES, "model": asked["model"]})
    except Exception as exc:
        raise _error(exc) from exc
    return answer.model_dump(mode="json")


async def _stream(options: Mapping[str, Any], asked: Mapping[str, Any]) -> AsyncIterator[Any]:
    writer = _ChunkWriter()
    try:
        async for chunk in await _litellm().acompletion(**{**options, **_NO_RETRIES, "model": asked["model"]}):
            yield writer.written(chunk)
    except Exception as exc:
        broken = writer.broken(exc)
    else:
        broken = None
    if broken is not None:
        yield broken
    yield writer.summary(is_whole=broken is None)


async def _chunks(first: Any, rest: Any) -> AsyncIterator[Any]:
    reader = _ChunkReader()
    try:
        for chunk in reader.read(first):
            yield chunk
        async for written in rest:
            for chunk in reader.read(written):
                yield chunk
    finally:
        await rest.aclose()
    reader.end()


# --- plain code
def _completion(process: SyncProcess, how: ModelOptions, /, model: str, messages: Any = (), **options: Any) -> Any:
    options |= {"model": model, "messages": list(messages)}
    asked, how = _recorded(options), _with_retry(options, how)
    try:
        if not options.get("stream"):
            return _rebuilt(process.decide(_NAME, partial(_ask_now, options), asked, **how))
        chunks = process.decide_stream(_NAME, partial(_stream_now, options), asked, **how)
        first = next(chunks, None)
    except AnswerError as error:
        raise _own_error(error.body) from None
    return _chunks_now(first, chunks)


def _ask_now(options: Mapping[str, Any], asked: Mapping[str, Any]) -> Any:
    try:
        answer = _litellm().completion(**{**options, **_NO_RETRIES, "model": asked["model"]})
    except Exception as exc:
        raise _error(exc) from exc
    return answer.model_dump(mode="json")


def _stream_now(options: Mapping[str, Any], asked: Mapping[str, Any]) -> Iterator[Any]:
    writer = _ChunkWriter()
    try:
        for chunk in _litellm().completion(**{**options, **_NO_RETRIES, "model": asked["model"]}):
            yield writer.written(chunk)
    except Exception as exc:
        broken = writer.broken(exc)
    else:
        broken = None
    if broken is not None:
        yield broken
    yield writer.summary(is_whole=broken is None)


def _chunks_now(first: Any, rest: Any) -> Iterator[Any]:
    reader = _ChunkReader()
    try:
        yield from reader.read(first)
        for written in rest:
            yield from reader.read(written)
    finally:
        rest.close()
    reader.end()


# --- pure
class _ChunkWriter:
    """Makes the recorded chunks of one stream."""

    def __init__(self) -> None:
        self._encoder = EventEncoder()
        self._summary = StreamSummary()
        self._is_begun = False

    def written(self, chunk: Any) -> Any:
        event = chunk.model_dump(mode="json")
        self._is_begun = True
        self._summary.add(event)
        return self._encoder.encoded(event)

    def broken(self, error: Exception) -> Any:
        """Return the chunk for an error; raise it if nothing has come, so that it may be asked for again."""
        recorded = _error(error)
        if not self._is_begun or not isinstance(recorded, AnswerError):
            raise recorded from error
        return {"broken": recorded.body}

    def summary(self, *, is_whole: bool) -> Any:
        return {"summary": self._summary.result(is_whole=is_whole)}


class _ChunkReader:
    """Makes LiteLLM's chunks of recorded ones."""

    def __init__(self) -> None:
        self._decoder = EventDecoder()
        self._broken: Any = None

    def read(self, written: Any) -> Iterator[Any]:
        if isinstance(written, dict) and "event" not in written and "at" not in written:
            self._broken = written.get("broken", self._broken)
        elif written is not None:
            yield _litellm().ModelResponseStream(**self._decoder.decoded(written))

    def end(self) -> None:
        """Raise the error with which the stream broke off."""
        if self._broken is not None:
            raise _own_error(self._broken)


def _recorded(options: Mapping[str, Any]) -> dict[str, Any]:
    asked = {
        name: without_credentials(value) if name in _WITH_CREDENTIALS else value for name, value in options.items()
        if name not in _NOT_RECORDED and not is_credential(name) and value is not None
    }  # fmt: skip
    schema = asked.get("response_format")
    return {**asked, "response_format": schema.model_json_schema()} if isinstance(schema, type) else asked  # type: ignore[attr-defined]  # a pydantic model


def _with_retry(options: Mapping[str, Any], how: ModelOptions) -> ModelOptions:
    """Return the options of the decision, with the attempts that the call names if ``retry=`` names none."""
    given = next((options[name] for name in _NO_RETRIES if options.get(name) is not None), None)
    if given is None or how.get("retry") is not None:
        return how
    return {**how, "retry": Retry(attempts=int(given) + 1, backoff_s=0.5, jitter=0.25, only_transient=True)}


def _rebuilt(answer: Any) -> Any:
    return _litellm().ModelResponse(**answer)


def _error(error: Exception) -> Exception:
    """Return what is recorded of an error of LiteLLM's; any other one as it is."""
    kind = type(error)
    status = getattr(error, "status_code", None)
    if not kind.__module__.startswith("litellm") or not isinstance(status, int):
        return error
    headers = getattr(error, "litellm_response_headers", None)
    if headers is None:
        headers = getattr(getattr(error, "response", None), "headers", None) or {}
    message = str(getattr(error, "message", error)).removeprefix(f"litellm.{kind.__name__}: ")
    told = {"message": message, "code": str(getattr(error, "code", None))}
    recorded = answer_error(status, dict(headers), {"error": told}, _ALSO_BUSY)
    recorded.body = {
        "kind": kind.__name__, "status": status, "message": message[:4000], "model": str(getattr(error, "model", "")),
        "llm_provider": str(getattr(error, "llm_provider", "")),
    }  # fmt: skip
    return recorded


def _own_error(recorded: Mapping[str, Any]) -> Exception:
    """Return the error of LiteLLM's that was recorded."""
    litellm = _litellm()
    told = {name: recorded[name] for name in ("message", "model", "llm_provider")}
    kind = getattr(litellm.exceptions, recorded["kind"], None)
    try:
        made = litellm.APIError(recorded["status"], **told) if kind is None else kind(**told)
    except TypeError:  # a class with other parameters
        made = litellm.APIError(recorded["status"], **told)
    return made  # type: ignore[no-any-return]


def _litellm() -> Any:
    return import_module("litellm")
