"""Decisions: asked once, handed back on replay, told apart by the whole request, written without the square of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, TypedDict

import pytest

from counting_model import ANSWER, REQUEST, Model, bodies
from cuts import cuts, on_node
from seekpoint.producers import Node, Process, Retry, Usage, agent, check_replay
from seekpoint.producers.durable.decisions.decision_runs import tool_calls_in
from seekpoint.producers.durable.decisions.prices import Prices
from seekpoint.producers.durable.decisions.prompts import Prompts, requests_in
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import LimitExceeded, ReplayDivergence, UnserializableValue
from seekpoint.schemas.log.memory_log import MemoryLog


class Worded(TypedDict):
    """A response with a text."""

    text: str


async def test_a_decision_is_asked_once() -> None:
    """The second run is handed the response; the model is not called."""
    log, model = MemoryLog(), Model()
    for _ in range(2):
        async with Node.in_memory(log) as node, node.open("p") as process:
            assert await process.decide("plan", model, REQUEST) == ANSWER
    assert len(model.asked) == 1


async def test_two_answers_to_the_same_question_stay_two() -> None:
    """The nth equal request has the nth answer (ActiveGraph kept only the last one)."""
    log, model = MemoryLog(), Model({"n": 1}, {"n": 2})
    for _ in range(2):
        async with Node.in_memory(log) as node, node.open("p") as process:
            answers = [await process.decide("plan", model, REQUEST) for _ in range(2)]
            assert answers == [{"n": 1}, {"n": 2}]
    assert len(model.asked) == 2


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"top_p": 0.9}, "$.top_p: 0.5 is now 0.9"),
        ({"seed": 2}, "$.seed: 1 is now 2"),
        ({"seed": 1.0}, "$.seed: 1 is now 1.0"),
        ({"tools": []}, "$.tools: [] is new"),
        ({"model": "m-2"}, '$.model: "m-1" is now "m-2"'),
        (
            {"messages": [{"role": "user", "content": "Where?"}]},
            '$.messages[0].content: "Where is my order?" is now "Where?"',
        ),
    ],
)
async def test_a_changed_prompt_diverges_and_says_where(change: dict[str, Any], difference: str) -> None:
    """Every sampling option counts, and its type (a hash that ignores top_p, seed or tools: AGNT5)."""
    log, model = MemoryLog(), Model()
    async with Node.in_memory(log) as node, node.open("p") as process:
        await process.decide("plan", model, REQUEST)
    async with Node.in_memory(log) as node, node.open("p") as process:
        with pytest.raises(ReplayDivergence) as caught:
            await process.decide("plan", model, {**REQUEST, **change})
    assert caught.value.facts["kind"] == "prompt"
    assert caught.value.facts["key"] == "plan:1"
    assert caught.value.facts["difference"] == difference
    assert len(model.asked) == 1


async def test_what_is_not_known_is_not_zero() -> None:
    """No usage: null. A model without a price: null cost."""
    async with Node.in_memory() as node:
        node.prices = Prices({"m-1*": {"input": "2", "output": "10"}})
        async with node.open("p") as process:
            await process.decide("known", Model(), REQUEST)
            await process.decide("silent", Model({"text": "yes"}), REQUEST)
            await process.decide("other", Model({**ANSWER, "model": "x"}), REQUEST)
        known, silent, other = await bodies(node, "p", b.DecisionMade)
    assert (known.cost_usd, known.model) == ("0.00007", "m-1-2026")
    assert known.usage == '{"input_tokens":10,"output_tokens":5}'
    assert known.tool_calls == '[{"id":"c1"}]'
    assert (silent.usage, silent.cost_usd, silent.model) == (None, None, "m-1")
    assert (other.usage is not None, other.cost_usd) == (True, None)


@pytest.mark.parametrize(
    ("answer", "more"),
    [
        ({"text": "yes"}, {"usage": lambda answer: answer["usage"]}),
        ({"text": "yes"}, {"usage": lambda answer: {"input_tokens": 1}}),
        ({"text": "yes"}, {"usage": lambda answer: Usage(input_tokens=-1)}),
        ({"text": "yes", "choices": 3, "content": 4, "output": 5}, {}),
        ({"choices": [{"message": {"tool_calls": True}}]}, {}),
        ({"usage": 7, "model": 8}, {}),
        ({"usage": {"input_tokens": "many", "output_tokens": 1.5}}, {}),
    ],
)
async def test_an_answer_that_was_paid_for_is_kept_whatever_it_looks_like(answer: Any, more: Any) -> None:
    """A usage that cannot be read, or parts that only look like a known API: null; the model is not asked again."""
    model = Model(answer)
    async with Node.in_memory() as node:
        node.prices = Prices({"m-1*": {"input": "2", "output": "10"}})
        async with node.open("p") as process:
            retry = Retry(attempts=3, backoff_s=0)
            assert await process.decide("plan", model, REQUEST | {"model": 5}, retry=retry, **more) == answer
        (made,) = await bodies(node, "p", b.DecisionMade)
    assert len(model.asked) == 1
    assert (made.outcome, made.cost_usd, made.tool_calls) == ("succeeded", None, None)
    assert made.usage in (None, "{}")


async def test_an_answer_that_fits_no_entry_is_paid_for_and_not_asked_again() -> None:
    """The error names the call and says that it was made. Usage and cost are recorded, and charged to the budget."""
    log, model = MemoryLog(), Model({**ANSWER, "text": "x" * 1_100_000})
    for _ in range(2):
        async with Node.in_memory(log) as node:
            node.prices = Prices({"m-1*": {"input": "2", "output": "10"}})
            async with node.open("p") as process:
                await process.set_budget({"usd": "1"})
                with pytest.raises(LimitExceeded, match="plan:1 was executed, but its result is too large") as failed:
                    await process.decide("plan", model, REQUEST, retry=Retry(attempts=3, backoff_s=0))
                assert failed.value.facts["key"] == "plan:1"
                assert process.state.budget is not None
                assert process.state.budget.spent["usd"] == Decimal("0.00007")
            (made,) = await bodies(node, "p", b.DecisionMade)
    assert len(model.asked) == 1
    assert (made.outcome, made.response, made.cost_usd) == ("failed", "null", "0.00007")
    assert made.usage == '{"input_tokens":10,"output_tokens":5}'


@pytest.mark.parametrize("odd", [float("nan"), "\ud800", 10**5000, object()], ids=["nan", "half", "large", "object"])
async def test_an_answer_that_is_no_json_is_paid_for(odd: Any) -> None:
    """Its usage is recorded with the failure, and not with that of a later attempt that has no answer."""
    model = Model({**ANSWER, "model": odd})
    async with Node.in_memory() as node:
        node.prices = Prices({"m-1": {"input": "2", "output": "10"}})
        async with node.open("p") as process:
            with pytest.raises((UnserializableValue, LimitExceeded)):
                await process.decide("plan", model, REQUEST)
        (made,) = await bodies(node, "p", b.DecisionMade)
    assert (made.outcome, made.model, made.cost_usd) == ("failed", "m-1", "0.00007")


async def test_the_usage_of_an_attempt_is_not_that_of_the_next_one() -> None:
    """The first answer is not of the type that the annotation names, the second attempt has no answer."""
    answers: list[Any] = [{**ANSWER, "text": 1}, ConnectionError("away")]

    async def ask(request: Any) -> Worded:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    async with Node.in_memory() as node:
        async with node.open("p") as process:
            with pytest.raises(ConnectionError):
                await process.decide("plan", ask, REQUEST, retry=Retry(attempts=2, backoff_s=0))
        first, second = await bodies(node, "p", b.DecisionMade)
    assert (first.outcome, first.usage is not None) == ("retry", True)
    assert (second.outcome, second.usage) == ("failed", None)


async def test_more_cached_than_read_is_not_less_than_nothing() -> None:
    """What an API tells of its caches may not fit what it tells of the whole."""
    odd = {"usage": {"prompt_tokens": 3, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 5}}}
    async with Node.in_memory() as node:
        async with node.open("p") as process:
            assert await process.decide("plan", Model(odd), REQUEST) == odd
        (made,) = await bodies(node, "p", b.DecisionMade)
    assert made.usage == '{"cached_tokens":5,"input_tokens":0,"output_tokens":1}'


async def test_a_stream_is_recorded_whole() -> None:
    """Its chunks are the response, live and on replay; who watches sees each as it comes."""

    async def stream(request: Any) -> AsyncIterator[Any]:
        for text in ("On ", "its way"):
            yield {"delta": text}

    log = MemoryLog()
    seen: list[Any] = []
    for _ in range(2):
        async with Node.in_memory(log) as node, node.open("p") as process:
            whole = await process.decide("plan", stream, REQUEST, on_chunk=seen.append)
            assert whole == [{"delta": "On "}, {"delta": "its way"}]
    assert seen == [{"delta": "On "}, {"delta": "its way"}]


async def test_what_a_stream_asks_is_asked_inside_its_decision() -> None:
    """Its chunks come of the body: what that asks of the process on its way is not asked in a run that follows."""

    @agent("streams")
    async def streams(process: Process, input: Any) -> list[Any]:
        async def stream(request: Any) -> AsyncIterator[Any]:
            yield await process.step("search", str, 1)

        said = await process.decide("plan", stream, REQUEST)
        return [said, await process.step("act", str, 2)]

    log = MemoryLog(partitions=1)
    async with Node.in_memory(log) as node:
        assert await node.run(streams, "p") == [["1"], "2"]
        found = await check_replay(streams, [one async for one in node.entries("p")])
    assert found.ok, found
    for cut in cuts(log):
        assert await on_node(cut, lambda node: node.run(streams, "p", take_over=True)) == [["1"], "2"]


@pytest.mark.parametrize("plain", [True, False])
async def test_a_stream_that_stops_coming_is_late(plain: bool) -> None:
    """The time of an attempt is that of the whole stream. A plain one is pulled in a thread: nobody else is held up."""
    go_on = threading.Event()

    def pulled(request: Any) -> Iterator[int]:
        yield 1
        go_on.wait(5)

    async def awaited(request: Any) -> AsyncIterator[int]:
        yield 1
        await asyncio.Event().wait()

    async with Node.in_memory(MemoryLog()) as node, node.open("p") as process:
        with pytest.raises(TimeoutError, match="plan:1 took longer"):
            await asyncio.wait_for(process.decide("plan", pulled if plain else awaited, REQUEST, timeout=0.01), 3)
        go_on.set()


async def test_a_client_s_object_is_a_plain_value_in_both_runs() -> None:
    """What the first run gets is what a replay gets."""
    log = MemoryLog()
    answer = SimpleNamespace(model_dump=lambda mode: {"text": mode})
    for _ in range(2):
        async with Node.in_memory(log) as node, node.open("p") as process:
            assert await process.decide("plan", Model(answer), REQUEST) == {"text": "json"}


async def test_a_conversation_is_written_once() -> None:
    """Each request leaves out the messages of the one before: storage does not grow with the square."""
    model, messages = Model(), [{"role": "user", "content": "x" * 1_000}]
    async with Node.in_memory() as node, node.open("p") as process:
        for number in range(10):
            await process.decide("turn", model, {"model": "m", "messages": list(messages)})
            messages.append({"role": "user", "content": f"{number}" * 1_000})
        written = await bodies(node, "p", b.DecisionStarted)
    assert [one.shared_messages for one in written] == [*range(10)]
    assert sum(len(one.request) for one in written) < 12_000


async def test_a_failed_model_call_is_tried_again_and_remembered() -> None:
    """As a step's: every attempt is recorded, the last failure is raised again by a replay."""
    from seekpoint.producers import Retry

    log, model = MemoryLog(), Model(ValueError("overloaded"), ANSWER)
    async with Node.in_memory(log) as node, node.open("p") as process:
        assert await process.decide("plan", model, REQUEST, retry=Retry(attempts=2, backoff_s=0)) == ANSWER
        made = await bodies(node, "p", b.DecisionMade)
    assert [one.outcome for one in made] == ["retry", "succeeded"]


async def test_a_wrapped_model_and_a_wrapped_tool_are_calls() -> None:
    """For frameworks that own the loop: options, or one request."""
    log = MemoryLog()
    asked: list[Any] = []
    used: list[Any] = []

    def create(**options: Any) -> Any:
        asked.append(options)
        return {"content": [{"type": "tool_use", "name": "look"}]}

    def look(order: str) -> str:
        used.append(order)
        return "shipped"

    for _ in range(2):
        async with Node.in_memory(log) as node, node.open("p") as process:
            ask, tool = process.wrap_model(create), process.wrap_tool(look)
            answer = await ask(model="m", messages=[])
            assert tool_calls_in(answer) == [{"type": "tool_use", "name": "look"}]
            calls = [{"name": "look", "args": {}}]
            google = {"candidates": [{"content": {"parts": [{"text": "a"}, {"functionCall": calls[0]}]}}, {}]}
            assert tool_calls_in(google) == calls
            assert tool_calls_in([{"delta": "a"}, {"summary": {"tool_calls": calls}}]) == calls
            assert tool_calls_in([]) is tool_calls_in([{"delta": "a"}]) is tool_calls_in(["a"]) is None
            assert await tool("4711") == "shipped"
            assert {"model:1", "look:1"} <= process.state.calls.keys()
    assert (asked, used) == ([{"model": "m", "messages": []}], ["4711"])


async def test_the_policy_in_force_is_the_agents_version_unless_said() -> None:
    """What a response was asked under is in the journal, from the first one on: the version of the code that asks."""

    @agent("worker", 7)
    async def run(process: Process, input: Any) -> None:
        await process.decide("plan", Model(), REQUEST)
        await process.decide("plan", Model(), REQUEST, policy="rules of May")
        if not again:
            raise ValueError("at first")
        await process.decide("plan", Model(), REQUEST)

    again: list[int] = []
    async with Node.in_memory() as node:
        with pytest.raises(ValueError, match="at first"):
            await node.run(run, "p")
        again.append(1)
        await node.run(agent("worker", 8)(run.run), "p")
        started = await bodies(node, "p", b.DecisionStarted)
    assert [one.policy for one in started] == ["7", "rules of May", "8"]


async def test_code_asks_which_version_its_process_began_with() -> None:
    """At its very first moment too, before anything is in the log: whatever it answers then, it answers ever after."""
    seen: list[tuple[bool, bool]] = []

    @agent("worker", 7)
    async def run(process: Process, input: Any) -> None:
        seen.append((process.policy_is("7"), process.policy_is("8")))
        await process.step("look", str, 1)
        seen.append((process.policy_is("7"), process.policy_is("8")))
        if len(seen) == 2:
            raise ValueError("at first")

    async with Node.in_memory() as node:
        with pytest.raises(ValueError, match="at first"):
            await node.run(run, "p")
        await node.run(agent("worker", 8)(run.run), "p")
        entries = [one async for one in node.entries("p")]
    assert (await check_replay(agent("worker", 8)(run.run), entries)).ok
    assert seen == [(True, False)] * 6
    async with Node.in_memory() as node, node.open("p") as process:
        assert process.policy_is("1"), "where no agent runs, whoever writes is the only version"


def test_a_request_without_messages_is_written_whole() -> None:
    """So is one that shares none."""
    prompts = Prompts()
    assert prompts.shortened("a", "text").text == '"text"'
    assert prompts.shortened("b", {"messages": [1, 2]}).shared_with is None
    assert prompts.shortened("c", {"messages": [1, 2, 3]}).shared_messages == 2
    assert prompts.shortened("d", {"messages": [9]}).shared_with is None
    assert prompts.shortened("e", {"input": [9, 8]}).shared_with is None  # another member
    assert prompts.shortened("f", {"input": [9, 8, 7], "messages": "none"}).text == '{"input":[7],"messages":"none"}'


@pytest.mark.parametrize("member", ["messages", "input", "contents"])
async def test_a_conversation_of_each_api_is_stored_once(member: str) -> None:
    """Each request has what is new; whoever reads them gets all of it."""
    turns = [{"text": f"turn {at}"} for at in range(5)]
    async with Node.in_memory() as node:
        async with node.open("p") as process:
            for at in range(1, 6):
                await process.decide("plan", Model(), {"model": "m", member: turns[:at]})
        started = await bodies(node, "p", b.DecisionStarted)
        found = await requests_in(one.entry async for one in node.entries("p"))
    assert [start.request.count("turn") for start in started] == [1] * 5
    assert [request[member] for request in found.values()] == [turns[:at] for at in range(1, 6)]
