"""LiteLLM's functions: each call is a decision. LiteLLM is not installed for the tests of the project: see the page."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import openai
import pytest

from scripted_api import ScriptedApi, answered, busy, recorded, streamed
from seekpoint import MemoryLog, Node, Process, Retry, SyncNode
from seekpoint.adapters.models import wrap_litellm
from seekpoint.errors import ReplayDivergence

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # or it asks the network for prices
litellm: Any = pytest.importorskip("litellm")
pytestmark = pytest.mark.filterwarnings("ignore")  # LiteLLM's own

MESSAGES = [{"role": "user", "content": "Where is order-4711?"}]


def options_of(api: ScriptedApi, **more: Any) -> dict[str, Any]:
    http = httpx2.AsyncClient(transport=api)
    client = openai.AsyncOpenAI(api_key="secret-key", http_client=http)
    return {"model": "openai/gpt-4.1", "messages": MESSAGES, "client": client, "api_key": "secret-key", **more}


async def ask(process: Process, api: ScriptedApi, **more: Any) -> Any:
    return await wrap_litellm(process, retry=Retry(attempts=2, backoff_s=0, only_transient=True))(
        **options_of(api, **more)
    )


async def ran(log: MemoryLog, api: ScriptedApi, code: Callable[[Process, ScriptedApi], Any]) -> list[Any]:
    found = []
    for _ in range(2):
        async with Node.in_memory(log) as node, node.open("p") as process:
            found.append(await code(process, api))
    return found


async def made(log: MemoryLog, kind: str) -> list[Any]:
    async with Node.in_memory(log) as node:
        return [one.entry.body async for one in node.entries("p", kinds=[kind])]


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog(partitions=1)


async def test_a_call_is_answered_once(log: MemoryLog) -> None:
    """With usage and tool calls, without keys; a busy API is asked again, by Seekpoint alone."""
    api = ScriptedApi(busy(429), answered(recorded("openai_chat.json")))
    first, again = await ran(log, api, ask)
    assert type(first) is type(again) is litellm.ModelResponse
    assert first.model_dump() == again.model_dump()
    assert api.calls == 2
    (start, _), (retry, decision) = await made(log, "decision_started"), await made(log, "decision_made")
    assert (start.key, retry.outcome) == ("litellm.completion:1", "retry")
    assert decision.usage == '{"cached_tokens":32,"input_tokens":50,"output_tokens":17,"reasoning_tokens":5}'
    assert "find_order" in decision.tool_calls
    assert "secret-key" not in f"{start}{decision}"
    async with Node.in_memory(log) as node, node.open("p") as process:
        with pytest.raises(ReplayDivergence, match=r"\$\.temperature: 0\.5 is new"):
            await ask(process, api, temperature=0.5)


async def test_a_stream_is_one_decision(log: MemoryLog) -> None:
    """Its chunks are LiteLLM's own; one that breaks off does so at the same place in each run."""
    text = recorded("openai_chat.sse")
    api = ScriptedApi(streamed(text), streamed(text, httpx2.ReadError("gone"), upto=6))

    async def code(process: Process, api: ScriptedApi) -> Any:
        whole = await ask(process, api, stream=True, stream_options={"include_usage": True})
        found = [chunk.model_dump() async for chunk in whole]
        broken, error = await ask(process, api, stream=True), None
        try:
            async for chunk in broken:
                found.append(chunk.model_dump())  # noqa: PERF401  # the chunks before the error are what is tested
        except Exception as exc:
            error = exc
        return found, type(error), str(error)

    first, again = await ran(log, api, code)
    assert first == again
    assert issubclass(first[1], openai.APIError)
    assert api.calls == 2
    whole, broken = await made(log, "decision_made")
    assert whole.usage == '{"cached_tokens":32,"input_tokens":50,"output_tokens":17,"reasoning_tokens":5}'
    assert '"find_order"' in whole.tool_calls
    assert (broken.outcome, broken.usage) == ("succeeded", None)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("answer", "kind", "calls"),
    [
        (answered({"error": {"message": "bad"}}, 400), "BadRequestError", 1),
        (answered({"error": {"message": "who?"}}, 401), "AuthenticationError", 1),
        (busy(429), "RateLimitError", 2),
        (httpx2.ReadTimeout("late"), "Timeout", 2),
    ],
)
async def test_errors_are_litellms_own_in_each_run(
    log: MemoryLog, answer: Any, kind: str, calls: int, stream: bool
) -> None:
    """Only what may end otherwise is asked again."""
    api = ScriptedApi(answer)

    async def code(process: Process, api: ScriptedApi) -> Any:
        with pytest.raises(getattr(litellm, kind)) as caught:
            await ask(process, api, stream=stream)
        return type(caught.value), str(caught.value)

    first, again = await ran(log, api, code)
    assert first == again
    assert api.calls == calls


@pytest.fixture
def no_threads_left() -> Iterator[None]:
    """End the threads in which LiteLLM logs."""
    yield
    from litellm.litellm_core_utils.thread_pool_executor import executor

    executor.shutdown()


@pytest.mark.usefixtures("no_threads_left")
def test_plain_code_asks_and_streams(log: MemoryLog) -> None:
    """The same with the function that blocks."""
    api = ScriptedApi(answered(recorded("openai_chat.json")), streamed(recorded("openai_chat.sse")))
    client = openai.OpenAI(api_key="k", http_client=httpx2.Client(transport=api))
    found = []
    for _ in range(2):
        with SyncNode.in_memory(log) as node, node.open("p") as process:
            completion = wrap_litellm(process)
            said = completion("openai/gpt-4.1", MESSAGES, client=client, api_key="k")
            chunks = completion("openai/gpt-4.1", MESSAGES, client=client, api_key="k", stream=True)
            found.append([said.model_dump(), *(chunk.model_dump() for chunk in chunks)])
    assert found[0] == found[1]
    assert api.calls == 2


@pytest.mark.parametrize(
    ("options", "calls"), [({"num_retries": 0}, 1), ({"max_retries": 1}, 2), ({"num_retries": 1, "max_retries": 0}, 2)]
)
async def test_retries_of_a_call_count_its_attempts(log: MemoryLog, options: dict[str, int], calls: int) -> None:
    """``num_retries`` before ``max_retries``; ``retry=`` of the wrapped function says otherwise."""
    api = ScriptedApi(busy(429))
    async with Node.in_memory(log) as node, node.open("p") as process:
        with pytest.raises(litellm.RateLimitError):
            await wrap_litellm(process)(**options_of(api, **options))
    assert api.calls == calls
    async with Node.in_memory(log) as node, node.open("q") as process:
        with pytest.raises(litellm.RateLimitError):
            await ask(process, api, **options)
    assert api.calls == calls + 2
