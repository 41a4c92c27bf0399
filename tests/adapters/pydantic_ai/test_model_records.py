"""What the journal has of requests and of errors of models."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic_ai import ModelMessage, ModelRequest, ModelResponse, RequestUsage, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.durable_exec._utils import mark_streamed_before_failing, streamed_before_failing
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.native_tools import MCPServerTool

from seekpoint.adapters.pydantic_ai.model_errors import as_recorded, prepared
from seekpoint.adapters.pydantic_ai.model_records import MessageRecords, request_json, response_json, usage_of


def test_messages_are_kept_until_they_change() -> None:
    """A part that was replaced, added or taken away, and other instructions, are seen."""
    records, request = MessageRecords(), ModelRequest(parts=[UserPromptPart("one")])
    messages: list[ModelMessage] = [request, ModelResponse(parts=[TextPart("two")])]
    first = records.of(messages)
    assert [part["content"] for row in first for part in row["parts"]] == ["one", "two"]
    assert records.of(messages)[0] is first[0]
    request.parts = [UserPromptPart("three")]
    assert records.of(messages)[0]["parts"][0]["content"] == "three"
    request.parts = [*request.parts, UserPromptPart("four")]
    assert len(records.of(messages)[0]["parts"]) == 2
    request.instructions = "Be kind"
    assert records.of(messages)[0]["instructions"] == "Be kind"
    assert records.of([replace(request)])[0] is not records.of(messages)[0]


def test_a_response_has_no_member_that_is_none() -> None:
    """And its model, under the name by which Seekpoint finds it."""
    found = response_json(
        {"model_name": None, "kind": "response", "parts": [{"part_kind": "text", "content": "x", "id": None}]}, "main"
    )
    assert found == {"model": "main", "kind": "response", "parts": [{"part_kind": "text", "content": "x"}]}


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({}, None),
        ({"input_tokens": 0, "output_tokens": 0}, None),
        ({"input_tokens": 9, "output_tokens": 2, "cache_write_tokens": 4, "cache_read_tokens": 3}, (2, 2, 3, 4, None)),
        ({"input_tokens": 9, "output_tokens": 2, "details": {"reasoning_tokens": 1}}, (9, 2, None, None, 1)),
    ],
)
def test_usage_is_read(usage: dict[str, Any], expected: Any) -> None:
    """An unknown usage is None, never 0."""
    found = usage_of({"usage": usage})
    known = None if found is None else (
        found.input_tokens, found.output_tokens, found.cached_tokens, found.cache_write_tokens, found.reasoning_tokens
    )  # fmt: skip
    assert known == expected


@pytest.mark.parametrize("size", [10, 50_000])
def test_the_error_of_a_stream_tells_what_came(size: int) -> None:
    """As far as a record of an error has room for it: its usage in any case."""
    came = ModelResponse(
        parts=[TextPart("x" * size), ToolCallPart("look", {"n": 1}, tool_call_id="c")],
        usage=RequestUsage(input_tokens=7),
    )
    error = ModelHTTPError(503, "main")
    mark_streamed_before_failing(error, came)
    recorded = vars(prepared(error))
    again = ModelHTTPError(503, "main")
    vars(again).update({name: value for name, value in recorded.items() if not isinstance(value, ModelResponse)})
    found = streamed_before_failing(as_recorded(again))
    assert found is not None
    assert found.usage == came.usage
    assert found.parts == (came.parts if size == 10 else [])
    assert streamed_before_failing(as_recorded(prepared(ModelHTTPError(503, "main")))) is None


def test_native_tools_are_recorded_without_credentials() -> None:
    """Headers of any name are left out, and so are those in the body; the model gets them."""
    tool = MCPServerTool(id="shop", url="https://mcp.example", authorization_token="s3cret", headers={"X": "s3cret"})
    settings: Any = {"extra_headers": {"X": "s3cret"}, "extra_body": {"headers": {"X": "s3cret"}, "user": "ada"}}
    parameters = ModelRequestParameters(native_tools=[tool])
    params: Any = SimpleNamespace(messages=[], model_settings=settings, model_request_parameters=parameters)
    asked = str(request_json(params, "m", MessageRecords()))
    assert "s3cret" not in asked
    assert all(name in asked for name in ("mcp_server", "https://mcp.example", "ada"))
    assert tool.headers == {"X": "s3cret"}
