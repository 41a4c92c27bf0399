"""Recorded answers: what is written of a stream, and what a client gets of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripted_api import recorded
from seekpoint.adapters.models.answers import ChunkReader, ChunkWriter, answer_bytes, answer_of
from seekpoint.adapters.models.litellm_calls import _recorded
from seekpoint.adapters.models.model_requests import GOOGLE, api_of_paths
from seekpoint.adapters.models.server_sent_events import EventReader, is_last, written
from seekpoint.adapters.models.stream_coding import EventDecoder, EventEncoder
from seekpoint.schemas.values.json_values import dump

OPENAI = api_of_paths("openai", "https://api.openai.com/v1", "x-request-id")
STREAMS = ("openai_chat.sse", "openai_responses.sse", "anthropic_message.sse", "google_content.sse")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(0, 1) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=6,
)


def events_of(text: bytes) -> list[Any]:
    reader = EventReader()
    return [*reader.read(text), *reader.end()]


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_a_client_gets_each_event_of_a_stream(name: str, size: int) -> None:
    """Whatever the pieces in which its bytes come."""
    text = recorded(name).encode()
    reader, writer = ChunkReader(OPENAI, {"x-request-id": "r"}), ChunkWriter()
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    chunks = [chunk for piece in pieces for chunk in reader.read(piece)] + [*reader.end()]
    chunks = json.loads(json.dumps(chunks, sort_keys=True))
    assert chunks[0] == {"head": {"request_id": "r"}}
    assert chunks[-1]["summary"]["usage"]
    assert len(chunks[-1]["summary"]["tool_calls"]) == 1
    assert events_of(b"".join(map(writer.written, chunks)) + writer.end()) == events_of(text)


@pytest.mark.parametrize("name", STREAMS[:3])
def test_the_last_event_of_a_stream_waits_until_the_stream_is_recorded(name: str) -> None:
    """Code that acts on it would act on an answer that a crash makes another one."""
    reader, writer = ChunkReader(OPENAI, {}), ChunkWriter()
    chunks = [*reader.read(recorded(name).encode()), *reader.end()]
    before = events_of(b"".join(map(writer.written, chunks)))
    assert not any(map(is_last, before))
    assert is_last(events_of(writer.end())[0])


@pytest.mark.parametrize("odd", ["NaN", "-Infinity", '"\\ud83d"'])
def test_an_answer_that_a_journal_does_not_carry_is_kept_as_its_bytes(odd: str) -> None:
    """The client gets what the API said, and its usage is counted."""
    body = f'{{"model": "m", "usage": {{"total_tokens": 7}}, "logprob": {odd}}}'.encode()
    answer = answer_of(OPENAI, 200, {"content-type": "application/json", "x-request-id": "r"}, body)
    assert (answer["model"], answer["usage"], answer["_request_id"]) == ("m", {"total_tokens": 7}, "r")
    dump(answer)
    assert answer_bytes(answer) == ("application/json", body)


@pytest.mark.parametrize("body", [b"oops", b"", b'{"model": "m"'])
def test_a_body_that_is_no_json_reaches_the_client_as_it_is(body: bytes) -> None:
    """The client says what is wrong with it."""
    answer = answer_of(OPENAI, 200, {"content-type": "application/json"}, body)
    assert answer_bytes(answer) == ("application/json", body)


@pytest.mark.parametrize("odd", ["NaN", '"\\ud83d"'])
def test_an_event_that_a_journal_does_not_carry_is_kept_as_its_text(odd: str) -> None:
    """The client gets each event, and the tool's input that came in pieces is recorded as text."""
    start = '{"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "name": "t"}}'
    piece = json.dumps({"type": "content_block_delta", "index": 0, "delta": {
        "type": "input_json_delta", "partial_json": f'{{"a": {odd}}}'}})  # fmt: skip
    texts = ['{"a": 1}', f'{{"a": {odd}}}', f"event: content_block_start\ndata: {start}",
             f"event: content_block_delta\ndata: {piece}"]  # fmt: skip
    stream = "".join(f"{text if text.startswith('event') else f'data: {text}'}\n\n" for text in texts).encode()
    reader, writer = ChunkReader(OPENAI, {}), ChunkWriter()
    chunks = [*reader.read(stream), *reader.end()]
    dump(chunks)
    assert chunks[-1]["summary"]["tool_calls"][0]["input"] == f'{{"a": {odd}}}'
    assert f'data: {{"a": {odd}}}\n\n'.encode() in b"".join(map(writer.written, chunks)) + writer.end()


def test_a_request_is_recorded_without_credentials() -> None:
    """Neither those in the parameters of its URL, nor those among LiteLLM's options."""
    url = "https://api.openai.com/v1/embeddings?api-version=7&subscription-key=secret&key=secret"
    body = json.dumps({"model": "m", "input": "x"}).encode()
    asked = OPENAI.model_request("POST", url, {"content-type": "application/json"}, body)
    assert asked.recorded == {"model": "m", "input": "x", "_query": {"api-version": "7"}}
    options = {
        "model": "m", "max_tokens": 9, "prompt_cache_key": "kept", "azure_ad_token": "secret", "hf_token": "secret",
        "aws_secret_access_key": "secret", "aws_access_key_id": "secret", "vertex_credentials": "secret",
        "fallbacks": ["other", {"model": "n", "api_key": "secret"}], "extra_body": {"seed": 3, "api_key": "secret"},
        "model_list": [{"model_name": "m", "litellm_params": {"api_key": "secret", "rpm": 6}}],
    }  # fmt: skip
    assert _recorded(options) == {
        "model": "m", "max_tokens": 9, "prompt_cache_key": "kept", "fallbacks": ["other", {"model": "n"}],
        "extra_body": {"seed": 3}, "model_list": [{"model_name": "m", "litellm_params": {"rpm": 6}}],
    }  # fmt: skip


def test_tools_of_the_provider_are_recorded_without_credentials() -> None:
    """They are sent, to another model too; a parameter of a function may have any name."""
    function = {"type": "function", "name": "login", "parameters": {"properties": {"password": {"type": "string"}}}}
    mcp = {"type": "mcp", "server_url": "https://mcp.example"}
    tools = [function, {**mcp, "authorization": "s3cret", "headers": {"Cookie": "s3cret"}}]
    servers = [{"name": "shop", "authorization_token": "s3cret"}]
    body = {"model": "m", "input": "x", "tools": tools, "mcp_servers": servers}
    url, headers = "https://api.openai.com/v1/responses", {"content-type": "application/json"}
    asked = OPENAI.model_request("POST", url, headers, json.dumps(body).encode())
    assert asked.recorded == {**body, "tools": [function, mcp], "mcp_servers": [{"name": "shop"}]}
    assert json.loads(asked.sent(asked.recorded)[1]) == body
    assert json.loads(asked.sent({**asked.recorded, "model": "n"})[1]) == {**body, "model": "n"}
    assert json.loads(asked.sent({**asked.recorded, "tools": []})[1]) == {**body, "tools": []}
    url = "https://generativelanguage.googleapis.com/v1beta/models/m:generateContent"
    maps = {"googleMaps": {"authConfig": {"apiKeyConfig": {"apiKeyString": "s3cret"}}}}
    asked = GOOGLE.model_request("POST", url, headers, json.dumps({"contents": [], "tools": [maps]}).encode())
    assert asked.recorded["tools"] == [{"googleMaps": {"authConfig": {"apiKeyConfig": {}}}}]
    assert json.loads(asked.sent({**asked.recorded, "model": "n"})[1]) == {"contents": [], "tools": [maps]}


def test_a_long_stream_fits_into_a_record() -> None:
    """The events of 20,000 words take about twelve bytes each, and not three hundred."""
    first, word = recorded("openai_chat.sse").split("\n\n")[1:3]
    reader = ChunkReader(OPENAI, {})
    chunks = [*reader.read(f"{first}\n\n".encode() + f"{word}\n\n{first}\n\n".encode() * 10_000), *reader.end()]
    assert len(chunks) > 20_000
    assert len(json.dumps(chunks, separators=(",", ":"))) < 20_000 * 12


@given(st.lists(JSON, max_size=8))
def test_any_events_are_read_as_they_were_written(events: list[Any]) -> None:
    """Of any shapes, by value and type; also when the reader changes what it got."""
    encoder, decoder = EventEncoder(), EventDecoder()
    coded = json.loads(json.dumps([encoder.encoded(event) for event in events]))
    found = []
    for one in coded:
        event = decoder.decoded(one)
        found.append(json.dumps(event, sort_keys=True))
        if isinstance(event, dict):
            event.clear()
    assert found == [json.dumps(event, sort_keys=True) for event in events]


@pytest.mark.parametrize("text", ['{"a": 1}', '{"type": "b"}', '{"_data": 1}', "[1]", "[DONE]", '"a"', "a\nb"])
@pytest.mark.parametrize("name", [None, "b", "c"])
def test_an_event_keeps_its_name_and_its_data(text: str, name: str | None) -> None:
    """Whether the data is JSON, and whether the name is its type."""
    lines = [] if name is None else [f"event: {name}"]
    raw = "\n".join((*lines, *(f"data: {line}" for line in text.split("\n")), "", "")).encode()
    (event,) = events_of(raw)
    assert events_of(written(event)) == [event]
    named = b"event: " + (name or "").encode() + b"\n"
    assert written(event).startswith(named) is (name is not None)


def test_the_model_in_a_url_of_google_is_the_requests() -> None:
    """Of the developer API, of Vertex, and of tuned models; what names no method is no model call."""
    urls = {
        "https://g/v1beta/models/gemini-x:generateContent": ("google.generate_content", "gemini-x", False),
        "https://g/v1/projects/p/locations/l/publishers/google/models/m:streamGenerateContent?alt=sse": (
            "google.generate_content", "m", True,
        ),
        "https://g/v1beta/tunedModels/t-1:batchEmbedContents": ("google.batch_embed_contents", "t-1", False),
    }  # fmt: skip
    for url, expected in urls.items():
        found = GOOGLE.model_request("POST", url, {}, b'{"contents": []}')
        assert (found.name, found.recorded["model"], found.is_stream) == expected
        sent, body = found.sent({**found.recorded, "model": "other"})
        assert sent == url.replace(f"/{expected[1]}:", "/other:")
        assert json.loads(body) == {"contents": []}


ERROR = {"type": "overloaded_error", "message": "Overloaded"}


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize(
    "failure",
    [
        f"event: error\ndata: {json.dumps({'type': 'error', 'error': ERROR})}",
        f"event: error\ndata: {json.dumps(ERROR)}",
        f"data: {json.dumps({'error': {'code': 503, 'message': 'busy'}})}",
        f"data: {json.dumps({'type': 'error', 'code': 'server_error', 'message': 'busy'})}",
    ],
)
def test_the_usage_of_a_stream_with_an_error_is_unknown(name: str, failure: str) -> None:
    """What was counted before it is not what the API will count; the client gets the error as it came."""
    mark = "\r\n\r\n" if "\r\n\r\n" in recorded(name) else "\n\n"
    *events, _ = (event for event in recorded(name).split(mark) if event)
    reader, writer = ChunkReader(OPENAI, {}), ChunkWriter()
    text = "".join(f"{event}\n\n" for event in (*events, failure)).encode()
    chunks = [*reader.read(text), *reader.end()]
    assert "usage" not in chunks[-1]["summary"]
    assert events_of(b"".join(map(writer.written, chunks)) + writer.end()) == events_of(text)


def test_the_usage_of_a_message_that_stops_early_is_unknown() -> None:
    """Anthropic counts on until ``message_stop``; a proxy may close the stream before it."""
    events = [event for event in recorded("anthropic_message.sse").split("\n\n") if event]
    for kept, is_known in ((events, True), (events[:-1], False), (events[:-2], False)):
        reader = ChunkReader(OPENAI, {})
        chunks = [*reader.read("".join(f"{event}\n\n" for event in kept).encode()), *reader.end()]
        assert ("usage" in chunks[-1]["summary"]) is is_known
