"""Requests are recorded without credentials."""

from __future__ import annotations

from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models.llm_request import LlmRequest
from google.genai import types

from adk_runs import counted_model
from scripted_llms import said
from seekpoint import MemoryLog, Node, Process, agent
from seekpoint.adapters.adk import DurableRunner
from seekpoint.adapters.adk.run_records import request_json
from seekpoint.testing import history_of


def test_tools_of_the_provider_are_recorded_without_credentials() -> None:
    """Names of a function's parameters are no credentials."""
    schema = {"type": "object", "properties": {"password": {"type": "string"}}}
    transport = types.StreamableHttpTransport(url="https://mcp.example", headers={"Cookie": "s3cret"})
    key = types.ApiKeyConfig(api_key_string="s3cret")
    tools: list[Any] = [
        types.Tool(google_maps=types.GoogleMaps(auth_config=types.AuthConfig(api_key="s3cret", api_key_config=key))),
        types.Tool(exa_ai_search=types.ToolExaAiSearch(api_key="s3cret")),
        types.Tool(mcp_servers=[types.McpServer(name="shop", streamable_http_transport=transport)]),
        types.Tool(function_declarations=[types.FunctionDeclaration(name="login", parameters_json_schema=schema)]),
    ]
    config = types.GenerateContentConfig(tools=tools, http_options=types.HttpOptions(headers={"X": "s3cret"}))
    asked = str(request_json("m", LlmRequest(model="m", config=config)))
    assert "s3cret" not in asked
    assert all(name in asked for name in ("google_maps", "exa_ai_search", "https://mcp.example", "password"))


async def test_a_run_is_recorded_without_credentials() -> None:
    """Whatever the journal holds of it."""
    log = MemoryLog(partitions=1)
    tools = [types.Tool(exa_ai_search=types.ToolExaAiSearch(api_key="s3cret"))]
    root = LlmAgent(
        name="root", model=counted_model("root", said("done")), generate_content_config=types.GenerateContentConfig(),
        before_model_callback=lambda callback_context, llm_request: llm_request.config.__setattr__("tools", tools),
    )  # fmt: skip

    @agent("run", version="1")
    async def run(process: Process, question: str) -> int:
        runner = DurableRunner(process, app_name="shop", agent=root, auto_create_session=True)
        return len([one async for one in runner.run_async(user_id="ada", session_id="1", new_message=question)])

    async with Node.in_memory(log) as node:
        assert await node.run(run, "p", "go") == 1
    entries = str(history_of(log, "p"))
    assert "exa_ai_search" in entries
    assert "s3cret" not in entries
