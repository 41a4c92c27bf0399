"""Google's client: its JSON names models in URLs, counts thoughts apart, and has both kinds of calls in one client."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import httpx2
import pytest
from google import genai
from google.genai import errors, types

from scripted_api import Answer, ScriptedApi, answered, recorded, streamed
from seekpoint import MemoryLog, Node, Prices, Process, Retry, SyncNode, agent
from seekpoint.adapters.models import wrap_genai
from seekpoint.adapters.models.transports import module_of
from seekpoint.errors import BudgetExceeded, Refused, ReplayDivergence

PRICES = Prices({"gemini-*": {"input": "2", "cached": "0.5", "output": "8"}})
MODEL = "gemini-2.5-flash"


def client_of(api: ScriptedApi, **how: Any) -> genai.Client:
    options = types.HttpOptions(
        httpx_async_client=httpx2.AsyncClient(transport=api), httpx_client=httpx2.Client(transport=api), **how
    )
    return genai.Client(api_key="secret-key", http_options=options)


async def ask(process: Process, api: ScriptedApi, contents: Any = "Where is order-4711?") -> Any:
    return await wrap_genai(process, client_of(api)).aio.models.generate_content(model=MODEL, contents=contents)


async def ran(log: MemoryLog, api: ScriptedApi, code: Callable[[Process, ScriptedApi], Any]) -> list[Any]:
    """Return what the code made of the answers in a first run, and in one that the journal answers."""
    found = []
    for _ in range(2):
        async with Node.in_memory(log) as node:
            node.prices = PRICES
            async with node.open("p") as process:
                found.append(await code(process, api))
    return found


async def made(log: MemoryLog, kind: str = "decision_made") -> list[Any]:
    async with Node.in_memory(log) as node:
        return [one.entry.body async for one in node.entries("p", kinds=[kind])]


async def failure(calls: Any) -> Any:
    with pytest.raises(Exception) as caught:  # noqa: PT011  # the tests look at it
        await calls
    return caught.value


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog(partitions=1)


async def test_a_request_is_answered_once(log: MemoryLog) -> None:
    """The journal has the model of the URL, the usage with thoughts, the cost and the tool calls, and no key."""
    api = ScriptedApi(answered(recorded("google_content.json")))
    first, again = await ran(log, api, ask)
    assert first.model_dump(exclude={"sdk_http_response"}) == again.model_dump(exclude={"sdk_http_response"})
    assert first.function_calls[0].args == {"order": "order-4711"}
    assert api.calls == 1
    ((start,), (decision,)) = await made(log, "decision_started"), await made(log)
    assert start.key == "google.generate_content:1"
    assert f'"model":"{MODEL}"' in start.request
    assert decision.usage == '{"cached_tokens":32,"input_tokens":50,"output_tokens":17,"reasoning_tokens":5}'
    assert (Decimal(decision.cost_usd), decision.model) == (Decimal("0.000252"), MODEL)
    assert decision.tool_calls == '[{"args":{"order":"order-4711"},"name":"find_order"}]'
    assert "secret-key" not in f"{start}{decision}"


async def test_a_stream_is_one_decision(log: MemoryLog) -> None:
    """Chunk by chunk, with the totals of its last one."""
    answer = streamed(recorded("google_content.sse"))
    answer.waits_before = 2
    api = ScriptedApi(answer)

    async def code(process: Process, api: ScriptedApi) -> Any:
        chunks = []
        models = wrap_genai(process, client_of(api)).aio.models
        async for chunk in await models.generate_content_stream(model=MODEL, contents="Where?"):
            chunks.append(chunk.model_dump(exclude={"sdk_http_response"}))
            answer.goes_on.set()
        return chunks

    first, again = await ran(log, api, code)
    assert first == again
    assert len(first) == 4
    assert api.calls == 1
    (decision,) = await made(log)
    assert decision.usage == '{"cached_tokens":32,"input_tokens":50,"output_tokens":17,"reasoning_tokens":5}'
    assert decision.tool_calls == '[{"args":{"order":"order-4711"},"name":"find_order"}]'


@pytest.mark.parametrize(
    ("answer", "kind", "calls"),
    [
        (
            answered({"error": {"code": 400, "message": "bad", "status": "INVALID_ARGUMENT"}}, 400),
            errors.ClientError,
            1,
        ),
        (
            answered({"error": {"code": 429, "message": "slow", "status": "RESOURCE_EXHAUSTED"}}, 429),
            errors.ClientError,
            2,
        ),
        (answered({"error": {"code": 503, "message": "later", "status": "UNAVAILABLE"}}, 503), errors.ServerError, 2),
        (httpx2.ConnectError("no route"), httpx2.ConnectError, 2),
    ],
)
async def test_errors_are_the_clients_own_in_each_run(
    log: MemoryLog, answer: Answer | Exception, kind: type[Exception], calls: int
) -> None:
    """Only what may end otherwise is asked again."""
    api = ScriptedApi(answer)
    retry = Retry(attempts=2, backoff_s=0, only_transient=True)

    async def code(process: Process, api: ScriptedApi) -> Any:
        models = wrap_genai(process, client_of(api), retry=retry).aio.models
        return await failure(models.generate_content(model=MODEL, contents="Where?"))

    first, again = await ran(log, api, code)
    assert type(first) is type(again) is kind
    assert str(first) == str(again)
    assert api.calls == calls


async def test_the_delay_that_google_asks_for_is_kept_to(log: MemoryLog) -> None:
    """It stands in the body of the error; the client's ``retry_options`` count the attempts."""
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.3s"}]
    busy = answered({"error": {"code": 429, "message": "slow", "details": details}}, 429)
    api = ScriptedApi(busy, busy, busy, answered(recorded("google_content.json")))

    async def code(process: Process, api: ScriptedApi) -> Any:
        waits = types.HttpRetryOptions(attempts=4, initial_delay=0.01, jitter=0)
        models = wrap_genai(process, client_of(api, retry_options=waits)).aio.models
        return (await models.generate_content(model=MODEL, contents="Where?")).model_version

    assert await ran(log, api, code) == [MODEL, MODEL]
    assert api.calls == 4
    waits = [(one.retry_at_us - one.ended_at_us) / 1_000_000 for one in (await made(log))[:3]]
    assert min(waits) >= 0.299


async def test_a_changed_request_and_a_budget_stop_a_run(log: MemoryLog) -> None:
    """With errors of Seekpoint's."""
    api = ScriptedApi(answered(recorded("google_content.json")))
    async with Node.in_memory(log) as node, node.open("p") as process:
        await process.set_budget({"model_calls": 1})
        await ask(process, api)
        assert isinstance(await failure(ask(process, api)), BudgetExceeded)
    async with Node.in_memory(log) as node, node.open("p") as process:
        await process.set_budget({"model_calls": 1})
        error = await failure(ask(process, api, "Where is order-4712?"))
    assert isinstance(error, ReplayDivergence)
    assert error.difference == '$.contents[0].parts[0].text: "Where is order-4711?" is now "Where is order-4712?"'
    assert api.calls == 1


async def test_a_rerun_asks_another_model(log: MemoryLog) -> None:
    """Its name goes into the URL; the body is as it was."""
    api = ScriptedApi(answered(recorded("google_content.json")))

    @agent("asks")
    async def asks(process: Process, input: Any) -> str:
        return str((await ask(process, api)).model_version)

    async with Node.in_memory(log) as node:
        await node.run(asks, "p")
        await node.rerun(asks, "p", model="gemini-other")
    paths = [one.url.path for one in api.requests]
    assert [path.rpartition("/")[2] for path in paths] == [f"{MODEL}:generateContent", "gemini-other:generateContent"]
    assert api.asked[0] == api.asked[1]


async def test_one_half_of_the_client_is_for_each_kind_of_code(log: MemoryLog) -> None:
    """And no call goes past the journal."""
    api = ScriptedApi(answered(recorded("google_content.json")))
    async with Node.in_memory(log) as node, node.open("p") as process:
        client = wrap_genai(process, client_of(api))
        with pytest.raises(Refused, match=r"client\.aio"):
            client.models.generate_content(model=MODEL, contents="Where?")
        assert isinstance(await failure(client.aio.models.list()), Refused)
    assert api.calls == 0


def test_plain_code_asks_and_streams(log: MemoryLog) -> None:
    """The same with the calls that block."""
    api = ScriptedApi(answered(recorded("google_content.json")), streamed(recorded("google_content.sse")))
    found = []
    for _ in range(2):
        with SyncNode.in_memory(log) as node, node.open("p") as process:
            models = wrap_genai(process, client_of(api)).models
            said = models.generate_content(model=MODEL, contents="Where?")
            chunks = models.generate_content_stream(model=MODEL, contents="Where?")
            found.append([said.function_calls, *(chunk.candidates for chunk in chunks)])
    assert found[0] == found[1]
    assert len(found[0]) == 5
    assert api.calls == 2


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_client_that_nobody_else_holds_stays_open(log: MemoryLog, is_async: bool) -> None:
    """Google's client closes its connections when it is collected: the wrapped one holds it."""
    http = module_of(genai.Client(api_key="k")._api_client._httpx_client)
    transport = http.MockTransport(lambda request: http.Response(200, json=recorded("google_content.json")))
    options = types.HttpOptions(client_args={"transport": transport}, async_client_args={"transport": transport})

    async def code(process: Process) -> Any:
        models = wrap_genai(process, genai.Client(api_key="k", http_options=options)).aio.models
        gc.collect()
        await asyncio.sleep(0)  # the task that closes the connections
        await asyncio.sleep(0)
        return (await models.generate_content(model=MODEL, contents="Where?")).function_calls

    def plain_code() -> Any:
        with SyncNode.in_memory(log) as node, node.open("p") as process:
            models = wrap_genai(process, genai.Client(api_key="k", http_options=options)).models
            gc.collect()
            return models.generate_content(model=MODEL, contents="Where?").function_calls

    if is_async:
        async with Node.in_memory(log) as node, node.open("p") as process:
            assert await code(process)
    else:
        assert await asyncio.to_thread(plain_code)
