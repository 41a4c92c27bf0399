"""OpenAI's and Anthropic's clients: a request is a decision, answered by the API once and by the journal later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from pydantic import BaseModel

from scripted_api import Answer, ScriptedApi, answered, busy, recorded, streamed
from seekpoint import MemoryLog, Node, Prices, Process, Retry, SyncNode, agent
from seekpoint.adapters.models import wrap_anthropic, wrap_openai
from seekpoint.errors import BudgetExceeded, Refused, ReplayDivergence

MESSAGES: Any = [{"role": "user", "content": "Where is order-4711?"}]
PRICES = Prices({"*": {"input": "2", "cached": "0.5", "cache_write": "2.5", "output": "8"}})


def openai_of(api: ScriptedApi, **how: Any) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(api_key="sk-secret", http_client=httpx2.AsyncClient(transport=api), **how)


def anthropic_of(api: ScriptedApi, **how: Any) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(api_key="sk-secret", http_client=httpx2.AsyncClient(transport=api), **how)


async def chat(process: Process, api: ScriptedApi, **more: Any) -> Any:
    client = wrap_openai(process, openai_of(api))
    return await client.chat.completions.create(model="gpt-4.1", messages=MESSAGES, **more)


async def respond(process: Process, api: ScriptedApi, **more: Any) -> Any:
    client = wrap_openai(process, openai_of(api))
    return await client.responses.create(model="gpt-4.1", input=MESSAGES, **more)


async def message(process: Process, api: ScriptedApi, **more: Any) -> Any:
    client = wrap_anthropic(process, anthropic_of(api))
    return await client.messages.create(model="claude-x", max_tokens=99, messages=MESSAGES, **more)


CALLS: dict[str, tuple[Callable[..., Any], str]] = {
    "openai.chat.completions": (chat, "openai_chat"),
    "openai.responses": (respond, "openai_responses"),
    "anthropic.messages": (message, "anthropic_message"),
}
USAGES = {
    "openai.chat.completions": '{"cached_tokens":32,"input_tokens":50,"output_tokens":17,"reasoning_tokens":5}',
    "openai.responses": '{"cached_tokens":10,"input_tokens":27,"output_tokens":11,"reasoning_tokens":3}',
    "anthropic.messages": '{"cache_write_tokens":7,"cached_tokens":32,"input_tokens":50,"output_tokens":17}',
}
COSTS = {
    "openai.chat.completions": Decimal("0.000252"),
    "openai.responses": Decimal("0.000147"),
    "anthropic.messages": Decimal("0.0002695"),
}


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog(partitions=1)


async def made(node: Any) -> list[Any]:
    return [one.entry.body async for one in node.entries("p", kinds=["decision_made"])]


async def ran(log: MemoryLog, api: ScriptedApi, code: Callable[[Process, ScriptedApi], Any]) -> list[Any]:
    """Return what the code made of the answers in a first run, and in one that the journal answers."""
    found = []
    for _ in range(2):
        async with Node.in_memory(log) as node:
            node.prices = PRICES
            async with node.open("p") as process:
                found.append(await code(process, api))
    return found


async def failure(calls: Any) -> Any:
    with pytest.raises(Exception) as caught:  # noqa: PT011  # the tests look at it
        await calls
    return caught.value


@pytest.mark.parametrize("name", CALLS)
async def test_a_request_is_answered_once(log: MemoryLog, name: str) -> None:
    """The journal has request, answer, usage, cost and tool calls, and gives the client the same answer again."""
    call, file = CALLS[name]
    api = ScriptedApi(answered(recorded(f"{file}.json"), x_request_id="req-1", request_id="req-1"))
    first, again = await ran(log, api, call)
    assert api.calls == 1
    assert type(first) is type(again)
    assert first.model_dump() == again.model_dump()
    assert first._request_id == again._request_id == "req-1"
    async with Node.in_memory(log) as node:
        (decision,) = await made(node)
        starts: list[Any] = [one.entry.body async for one in node.entries("p", kinds=["decision_started"])]
        text = "".join([str(one.entry.body) async for one in node.entries("p")])
    assert [(start.key, start.name) for start in starts] == [(f"{name}:1", name)]
    assert '"content":"Where is order-4711?"' in starts[0].request
    assert decision.usage == USAGES[name]
    assert Decimal(decision.cost_usd or 0) == COSTS[name]
    assert "find_order" in (decision.tool_calls or "")
    assert decision.model == recorded(f"{file}.json")["model"]
    assert "sk-secret" not in text


@pytest.mark.parametrize("name", CALLS)
async def test_a_stream_is_one_decision(log: MemoryLog, name: str) -> None:
    """Its chunks come as the API sends them, and from the journal in later runs; all that is counted is the same."""
    call, file = CALLS[name]
    answer = streamed(recorded(f"{file}.sse"), request_id="req-2")
    answer.waits_before = len(answer.pieces) - 2
    api = ScriptedApi(answer)
    sizes: list[int] = []

    async def code(process: Process, api: ScriptedApi) -> list[Any]:
        chunks = []
        async for chunk in await call(process, api, stream=True):
            sizes.append(len(await made(process.node)))
            chunks.append(chunk.model_dump())
            if len(chunks) == 3:
                answer.goes_on.set()
        return chunks

    first, again = await asyncio.wait_for(ran(log, api, code), 20)
    assert first == again
    assert api.calls == 1
    assert sizes[:3] == [0, 0, 0]
    assert sizes[len(first) - 1] == 1
    async with Node.in_memory(log) as node:
        (decision,) = await made(node)
    assert (decision.usage, Decimal(decision.cost_usd or 0)) == (USAGES[name], COSTS[name])
    assert '{\\"order\\"' in (decision.tool_calls or "") or '{"order"' in (decision.tool_calls or "")


async def test_the_helpers_of_the_clients_work_over_both(log: MemoryLog) -> None:
    """Whatever a client makes of an answer is made again of the recorded one: parsers, accumulators, raw responses."""

    class Order(BaseModel):
        order: str

    said = recorded("openai_chat.json")
    said["choices"][0]["message"] = {"role": "assistant", "content": '{"order": "order-4711"}', "refusal": None}
    api = ScriptedApi(
        answered(said), streamed(recorded("openai_responses.sse")), answered(recorded("openai_chat.json")),
        streamed(recorded("anthropic_message.sse")),
    )  # fmt: skip

    async def code(process: Process, api: ScriptedApi) -> Any:
        client, other = wrap_openai(process, openai_of(api)), wrap_anthropic(process, anthropic_of(api))
        parsed = await client.chat.completions.parse(model="m", messages=MESSAGES, response_format=Order)
        async with client.responses.stream(model="m", input=MESSAGES) as responses:
            texts = [one.delta async for one in responses if one.type == "response.output_text.delta"]
            final = await responses.get_final_response()
        raw = await client.chat.completions.with_raw_response.create(model="m", messages=MESSAGES)
        async with other.messages.stream(model="m", max_tokens=9, messages=MESSAGES) as messages:
            words = [one async for one in messages.text_stream]
            last: Any = await messages.get_final_message()
        order = parsed.choices[0].message.parsed
        return order, texts, final.output_text, raw.status_code, raw.parse().model, words, last.content[1].input

    first, again = await ran(log, api, code)
    assert first == again
    assert first[0] == Order(order="order-4711")
    assert first[1:3] == (["On", " its", " way", "."], "On its way.")
    assert first[3:5] == (200, "gpt-4.1-2025-04-14")
    assert first[5:] == (["I", " look", " it", " up."], {"order": "order-4711"})
    assert api.calls == 4


@pytest.mark.parametrize("name", CALLS)
async def test_a_busy_api_is_asked_again(log: MemoryLog, name: str) -> None:
    """Each attempt is in the journal, and the client does not retry by itself; ``Retry-After`` is kept to."""
    call, file = CALLS[name]
    api = ScriptedApi(busy(retry_after="0.5"), busy(503), answered(recorded(f"{file}.json")))
    first, again = await ran(log, api, call)
    assert first.model_dump() == again.model_dump()
    assert api.calls == 3
    async with Node.in_memory(log) as node:
        attempts = await made(node)
    assert [one.outcome for one in attempts] == ["retry", "retry", "succeeded"]
    assert (attempts[0].retry_at_us or 0) - attempts[0].ended_at_us >= 499_000


@pytest.mark.parametrize(
    ("answer", "kind", "calls"),
    [
        (answered({"error": {"message": "no such model", "code": "model_not_found"}}, 404), "NotFoundError", 1),
        (answered({"error": {"message": "bad", "type": "invalid_request_error"}}, 400), "BadRequestError", 1),
        (answered({"error": {"message": "pay", "code": "insufficient_quota"}}, 429), "RateLimitError", 1),
        (busy(500, x_should_retry="false"), "InternalServerError", 1),
        (busy(500), "InternalServerError", 2),
        (busy(409), "ConflictError", 2),
        (Answer(502, {"content-type": "text/html"}, (b"<html>",)), "InternalServerError", 2),
        (httpx2.ConnectError("no route"), "APIConnectionError", 2),
        (httpx2.ReadTimeout("late"), "APITimeoutError", 2),
        (httpx2.UnsupportedProtocol("ftp"), "APIConnectionError", 1),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_errors_are_the_clients_own_in_each_run(
    log: MemoryLog, answer: Answer | Exception, kind: str, calls: int, stream: bool
) -> None:
    """Of the same class, with status and body; only what may end otherwise is asked again."""
    api = ScriptedApi(answer)
    retry = Retry(attempts=2, backoff_s=0, only_transient=True)

    async def code(process: Process, api: ScriptedApi) -> Any:
        client = wrap_openai(process, openai_of(api), retry=retry)
        ask: Any = client.chat.completions.create
        return await failure(ask(model="m", messages=MESSAGES, stream=stream))

    first, again = await ran(log, api, code)
    assert api.calls == calls
    assert type(first) is type(again) is getattr(openai, kind)
    assert (str(first), getattr(first, "body", None)) == (str(again), getattr(again, "body", None))
    if isinstance(answer, Answer):
        assert first.status_code == again.status_code == answer.status


async def test_the_retries_of_the_client_become_attempts(log: MemoryLog) -> None:
    """``max_retries=0`` is one attempt."""
    api = ScriptedApi(busy(500))

    async def code(process: Process, api: ScriptedApi) -> Any:
        client = wrap_anthropic(process, anthropic_of(api, max_retries=0)).with_options(timeout=5, max_retries=3)
        assert client.max_retries == 0
        return await failure(client.messages.create(model="m", max_tokens=9, messages=MESSAGES))

    first, again = await ran(log, api, code)
    assert type(first) is type(again) is anthropic.InternalServerError
    assert api.calls == 1


@pytest.mark.parametrize("name", CALLS)
async def test_a_stream_that_breaks_off_breaks_off_at_the_same_place(log: MemoryLog, name: str) -> None:
    """The code has seen a part of it: it is not asked again, its usage is unknown, each run gets chunks and error."""
    call, file = CALLS[name]
    api = ScriptedApi(streamed(recorded(f"{file}.sse"), httpx2.ReadError("gone"), upto=6))

    async def code(process: Process, api: ScriptedApi) -> Any:
        stream, chunks = await call(process, api, stream=True), []
        try:
            async for chunk in stream:
                chunks.append(chunk.model_dump())  # noqa: PERF401  # the chunks before the error are what is tested
        except Exception as exc:
            return chunks, exc
        return chunks, None

    (chunks, error), (chunks_again, error_again) = await ran(log, api, code)
    assert chunks == chunks_again
    assert len(chunks) >= 5
    assert type(error) is type(error_again) is not type(None)
    assert str(error) == str(error_again)
    assert api.calls == 1
    async with Node.in_memory(log) as node:
        (decision,) = await made(node)
    assert (decision.outcome, decision.usage, decision.cost_usd) == ("succeeded", None, None)


async def test_an_overloaded_api_says_so_in_its_stream(log: MemoryLog) -> None:
    """As the first event it is a busy answer; later it is the end of the stream."""
    error = 'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}\n\n'
    text = recorded("anthropic_message.sse")
    begun = "\n\n".join(text.split("\n\n")[:5]) + "\n\n"
    api = ScriptedApi(streamed(error), streamed(begun + error))

    async def code(process: Process, api: ScriptedApi) -> Any:
        stream = await message(process, api, stream=True)
        return await failure(_drained(stream))

    first, again = await ran(log, api, code)
    assert type(first) is type(again)
    assert isinstance(first, anthropic.APIStatusError)
    assert str(first) == str(again)
    assert api.calls == 2


async def _drained(stream: Any) -> None:
    async for _ in stream:
        pass


async def test_a_closed_stream_is_stopped_and_recorded(log: MemoryLog) -> None:
    """As far as it came; the API is told, and the usage is unknown."""
    answer = streamed(recorded("openai_chat.sse"))
    api = ScriptedApi(answer)

    async def code(process: Process, api: ScriptedApi) -> Any:
        async with await chat(process, api, stream=True) as stream:
            async for chunk in stream:
                return chunk.model_dump()
        raise AssertionError("a stream without chunks")

    first, again = await ran(log, api, code)
    assert first == again
    assert (api.calls, answer.is_closed) == (1, True)


async def test_a_changed_request_names_the_first_difference(log: MemoryLog) -> None:
    """Whatever the client sends counts, as the API gets it."""
    api = ScriptedApi(answered(recorded("openai_chat.json")))
    async with Node.in_memory(log) as node, node.open("p") as process:
        await chat(process, api)
    async with Node.in_memory(log) as node, node.open("p") as process:
        error = await failure(chat(process, api, temperature=0.5))
    assert isinstance(error, ReplayDivergence)
    assert error.difference == "$.temperature: 0.5 is new"
    assert api.calls == 1


async def test_headers_and_parameters_that_change_the_api_count(log: MemoryLog) -> None:
    """The betas of Anthropic are part of the request, keys are not."""
    api = ScriptedApi(answered(recorded("anthropic_message.json")))

    async def ask(process: Process, *betas: str) -> Any:
        client = wrap_anthropic(process, anthropic_of(api))
        return await client.beta.messages.create(model="m", max_tokens=9, messages=MESSAGES, betas=[*betas])

    async with Node.in_memory(log) as node, node.open("p") as process:
        await ask(process, "one-2026")
    async with Node.in_memory(log) as node, node.open("p") as process:
        error = await failure(ask(process, "two-2026"))
    assert isinstance(error, ReplayDivergence)
    assert '"one-2026" is now "two-2026"' in str(error.difference)


async def test_a_rerun_asks_another_model(log: MemoryLog) -> None:
    """The request that is sent names it; everything else of the request is as it was."""
    api = ScriptedApi(answered(recorded("openai_chat.json")))

    @agent("asks")
    async def asks(process: Process, input: Any) -> str:
        answer = await chat(process, api)
        return str(answer.model)

    async with Node.in_memory(log) as node:
        await node.run(asks, "p")
        await node.rerun(asks, "p", model="other")
    first, second = api.asked
    assert (first["model"], second["model"]) == ("gpt-4.1", "other")
    assert {**first, "model": "other"} == second


async def test_budgets_count_what_the_api_counts(log: MemoryLog) -> None:
    """A call that the budget does not allow is not sent; the error is Seekpoint's own."""
    api = ScriptedApi(answered(recorded("openai_chat.json")))
    async with Node.in_memory(log) as node, node.open("p") as process:
        await process.set_budget({"tokens": 99})
        await chat(process, api)
        for name in CALLS:
            assert isinstance(await failure(CALLS[name][0](process, api)), BudgetExceeded)
        other = wrap_anthropic(process, anthropic_of(api)).with_options(timeout=5)
        assert isinstance(await failure(other.models.list()), Refused)
    assert api.calls == 1


async def test_no_proxy_of_the_environment_leads_past_the_journal(
    log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client that was given has the proxies; the wrapped one sends to its transport only."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    api = ScriptedApi(answered(recorded("openai_chat.json")))
    first, again = await ran(log, api, chat)
    assert first.model_dump() == again.model_dump()
    assert api.calls == 1


async def test_calls_of_two_tasks_keep_their_places(log: MemoryLog) -> None:
    """The first call of a client has no wait of its own before it takes its place."""
    chats, messages = (
        ScriptedApi(answered(recorded("openai_chat.json"))),
        ScriptedApi(answered(recorded("anthropic_message.json"))),
    )

    async def code(process: Process, _: ScriptedApi) -> Any:
        found = await asyncio.gather(chat(process, chats), message(process, messages), chat(process, chats, top_p=0.5))
        return [one.model_dump() for one in found]

    first, again = await asyncio.wait_for(ran(log, chats, code), 20)
    assert first == again
    assert (chats.calls, messages.calls) == (2, 1)


async def test_what_is_no_model_call_is_refused(log: MemoryLog) -> None:
    """Nothing that a run asks for goes past the journal; embeddings name a model, so they are decisions."""
    vector = {"object": "embedding", "index": 0, "embedding": [0.5, -1.0]}
    vectors = {"object": "list", "model": "e", "data": [vector], "usage": {"prompt_tokens": 5, "total_tokens": 5}}
    api = ScriptedApi(answered(vectors), Answer(200, {"content-type": "audio/mpeg"}, (b"\xff\xfb\x90",)))
    async with Node.in_memory(log) as node, node.open("p") as process:
        client = wrap_openai(process, openai_of(api))
        for call in (
            client.models.list(),
            client.vector_stores.create(name="orders"),
            client.responses.retrieve("resp_1"),
            client.files.create(file=b"a", purpose="batch"),
        ):
            assert isinstance(error := await failure(call), Refused)
            assert "process.step" in error.hint
        assert api.calls == 0
    for _ in range(2):
        async with Node.in_memory(log) as node, node.open("p") as process:
            client = wrap_openai(process, openai_of(api))
            assert (await client.embeddings.create(model="e", input="a")).model == "e"
            spoken = await client.audio.speech.create(model="s", voice="alloy", input="a")
            assert spoken.content == b"\xff\xfb\x90"
    assert api.calls == 2


async def test_the_kind_of_code_decides_which_client(log: MemoryLog) -> None:
    """A client that blocks would stop the event loop, one that is async cannot be awaited in plain code."""
    async with Node.in_memory(log) as node, node.open("p") as process:
        with pytest.raises(Refused, match="async"):
            wrap_openai(process, openai.OpenAI(api_key="k"))
        with pytest.raises(Refused, match="async"):
            wrap_anthropic(process, anthropic.Anthropic(api_key="k"))


def test_plain_code_asks_and_streams(log: MemoryLog) -> None:
    """The same with the clients that block: chunks, errors, tool calls."""
    chats = ScriptedApi(
        busy(retry_after="0.1"), answered(recorded("openai_chat.json")), streamed(recorded("openai_chat.sse")),
        streamed(recorded("openai_chat.sse"), httpx2.ReadError("gone"), upto=4),
        answered({"error": {"message": "no"}}, 400),
    )  # fmt: skip
    messages = ScriptedApi(streamed(recorded("anthropic_message.sse")), httpx2.ConnectError("no route"))
    found = []
    for _ in range(2):
        with SyncNode.in_memory(log) as node, node.open("p") as process:
            client = wrap_openai(process, openai.OpenAI(api_key="k", http_client=httpx2.Client(transport=chats)))
            other = wrap_anthropic(
                process, anthropic.Anthropic(api_key="k", max_retries=0, http_client=httpx2.Client(transport=messages))
            )
            ask: Any = client.chat.completions.create
            texts: list[Any] = [ask(model="m", messages=MESSAGES).model_dump()]
            texts += [one.model_dump() for one in ask(model="m", messages=MESSAGES, stream=True)]
            with pytest.raises(openai.APIConnectionError):
                texts += [one.model_dump() for one in ask(model="m", messages=MESSAGES, stream=True)]
            with pytest.raises(openai.BadRequestError):
                ask(model="m", messages=MESSAGES, stream=True)
            with other.messages.stream(model="m", max_tokens=9, messages=MESSAGES) as stream:
                texts += [*stream.text_stream]
            with pytest.raises(anthropic.APIConnectionError):
                other.messages.create(model="m", max_tokens=9, messages=MESSAGES)
            found.append(texts)
    assert found[0] == found[1]
    assert (chats.calls, messages.calls) == (5, 2)
