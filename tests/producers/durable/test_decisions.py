"""Decisions: asked once, handed back on replay, told apart by the whole request, written without the square of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from seekpoint.producers import Node, Process, Retry, Usage, VirtualClock, agent, check_replay
from seekpoint.producers.durable.budgets import raise_budget
from seekpoint.producers.durable.decisions import tool_calls_in
from seekpoint.producers.durable.prices import Prices
from seekpoint.producers.durable.prompts import Prompts, first_difference
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import BudgetExceeded, ReplayDivergence
from seekpoint.schemas.memory_log import MemoryLog

REQUEST = {"model": "m-1", "messages": [{"role": "user", "content": "Where is my order?"}], "top_p": 0.5, "seed": 1}
ANSWER = {
    "model": "m-1-2026",
    "choices": [{"message": {"content": "On its way.", "tool_calls": [{"id": "c1"}]}}],
    "usage": {"prompt_tokens": 10, "completion_tokens": 5},
}


class Model:
    """A model that counts its calls."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers) or [ANSWER]
        self.asked: list[Any] = []

    async def __call__(self, request: Any) -> Any:
        """The next answer; the last one for ever."""
        self.asked.append(request)
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer


async def bodies(node: Node, process_id: str, kind: type[b.Body]) -> list[Any]:
    """The entries of a kind, in log order."""
    return [one.entry.body async for one in node.entries(process_id, kinds=[kind.KIND])]


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
            assert await tool("4711") == "shipped"
            assert {"model:1", "look:1"} <= process.state.calls.keys()
    assert (asked, used) == ([{"model": "m", "messages": []}], ["4711"])


def test_the_first_difference_is_named() -> None:
    """Nothing where they are equal; a type counts."""
    assert first_difference({"a": [1, {"b": 2}]}, {"a": [1, {"b": 2}]}) is None
    assert first_difference([1, 2], [1]) == "$[1]: 2 is gone"
    assert first_difference({"a": 1}, {}) == "$.a: 1 is gone"
    assert first_difference(True, 1) == "$: true is now 1"


def test_a_request_without_messages_is_written_whole() -> None:
    """So is one that shares none."""
    prompts = Prompts()
    assert prompts.shortened("a", "text").text == '"text"'
    assert prompts.shortened("b", {"messages": [1, 2]}).shared_with is None
    assert prompts.shortened("c", {"messages": [1, 2, 3]}).shared_messages == 2
    assert prompts.shortened("d", {"messages": [9]}).shared_with is None


# --- budgets ----------------------------------------------------------------------------------------------------------
async def test_a_budget_stops_a_call_before_it_begins() -> None:
    """Nothing is asked, nothing is recorded as the call's failure: once raised, the run goes on with this very call."""
    log, model = MemoryLog(), Model()
    async with Node.in_memory(log) as node, node.open("p") as process:
        await process.set_budget({"model_calls": 1})
        await process.decide("plan", model, REQUEST)
        with pytest.raises(BudgetExceeded) as caught:
            await process.decide("next", model, REQUEST)
        assert caught.value.facts["dimension"] == "model_calls"
        assert "next:1" not in process.state.calls
    assert len(model.asked) == 1


async def test_a_budget_is_what_recovery_finds() -> None:
    """Spent before a crash is spent after it (ActiveGraph's budget was new after a load); nothing is charged twice."""
    log, model = MemoryLog(), Model()
    async with Node.in_memory(log) as node:
        node.prices = Prices({"m-1*": {"input": "100000", "output": "0"}})
        async with node.open("p") as process:
            await process.set_budget({"usd": "1.50"})
            await process.decide("plan", model, REQUEST)
    async with Node.in_memory(log) as node:
        node.prices = Prices({"m-1*": {"input": "100000", "output": "0"}})
        async with node.open("p") as process:
            await process.set_budget({"usd": "1.50"})
            await process.decide("plan", model, REQUEST)
            assert process.state.budget is not None
            assert process.state.budget.spent["usd"] == Decimal("1")
            with pytest.raises(BudgetExceeded):
                await process.decide("dear", model, REQUEST, estimate={"usd": "0.51"})
            await process.decide("cheap", model, {**REQUEST, "seed": 7}, estimate={"usd": "0.50"})
            assert process.state.budget.spent["usd"] == Decimal("2")  # what was used counts, whatever was estimated
            assert not process.state.budget.reserved


async def test_two_calls_at_once_do_not_share_what_is_left() -> None:
    """The first one's start reserves; the second sees it before Kafka has answered."""
    model, refused = Model(), asyncio.Event()

    async def slow(request: Any) -> Any:
        await refused.wait()
        return await model(request)

    async with Node.in_memory() as node, node.open("p") as process:
        await process.set_budget({"tokens": 100})
        first = asyncio.create_task(process.decide("a", slow, REQUEST, estimate={"tokens": 80}))
        await asyncio.sleep(0)
        with pytest.raises(BudgetExceeded):
            await process.decide("b", slow, REQUEST, estimate={"tokens": 80})
        refused.set()
        await first
    assert len(model.asked) == 1


async def test_a_tool_counts_each_attempt() -> None:
    """Three attempts, three calls: the fourth is not made."""
    from seekpoint.producers import Retry

    def fails() -> None:
        raise ValueError("down")

    async with Node.in_memory() as node, node.open("p") as process:
        await process.set_budget({"tool_calls": 3})
        with pytest.raises(ValueError, match="down"):
            await process.tool("look", fails, retry=Retry(attempts=3, backoff_s=0))
        with pytest.raises(BudgetExceeded):
            await process.tool("again", fails)
        assert process.state.budget is not None
        assert process.state.budget.spent["tool_calls"] == 3


async def test_tools_that_begin_at_once_do_not_share_what_is_left() -> None:
    """``gather`` begins them in one moment: each one's start reserves before the next is admitted."""
    ran: list[int] = []
    async with Node.in_memory() as node, node.open("p") as process:
        await process.set_budget({"tool_calls": 2})
        ends = await asyncio.gather(*(process.tool("look", ran.append, i) for i in range(5)), return_exceptions=True)
    assert [type(end) for end in ends].count(BudgetExceeded) == 3
    assert sorted(ran) == [0, 1]


async def test_what_is_no_tool_call_begins_where_no_tool_call_is_left() -> None:
    """A limit of one call allows one call, and what follows it; of a model's call it is not known what it costs."""
    model = Model()
    async with Node.in_memory() as node:
        node.prices = Prices({"m-1*": {"input": "100000", "output": "0"}})
        async with node.open("p") as process:
            await process.set_budget({"tool_calls": 1, "usd": "1"})
            await process.tool("look", str, 1)
            assert await process.step("keep", str, 2) == "2"
            await process.decide("plan", model, REQUEST)
            with pytest.raises(BudgetExceeded) as caught:
                await process.decide("more", model, REQUEST)
    assert caught.value.facts["dimension"] == "usd"
    assert len(model.asked) == 1


async def test_a_warning_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """As an entry too, so that a recovered run does not repeat it."""
    async with Node.in_memory() as node, node.open("p") as process:
        await process.set_budget({"tool_calls": 10}, warn_at="0.5")
        for _ in range(8):
            await process.tool("look", lambda: 1)
        noted = await bodies(node, "p", b.BudgetNoted)
    assert [(one.kind, one.amount, one.limit) for one in noted] == [("warned", "5", "10")]
    assert len([line for line in caplog.messages if "tool_calls" in line]) == 1


@pytest.mark.parametrize("is_approved", [True, False])
async def test_a_budget_that_escalates_asks_a_person_once(is_approved: bool) -> None:
    """A yes raises the limit, a no gives the call up and says so; code that runs again behind it does not ask again."""
    log, ran, dies = MemoryLog(), [], [True]

    async def pay() -> str:
        ran.append("pay")
        if dies.pop() if dies else False:
            raise asyncio.CancelledError  # the machine dies in the middle of the call
        return "paid"

    @agent("payer")
    async def payer(process: Process, given: Any) -> Any:
        await process.set_budget({"tool_calls": 1}, on_exceed="escalate")
        await process.tool("look", str, 1)
        return await process.tool("pay", pay)

    async with Node.in_memory(log) as node:
        await (node.approve if is_approved else node.deny)("p", "budget:tool_calls", actor="ann")
        with pytest.raises((asyncio.CancelledError, BudgetExceeded)) as caught:
            await node.run(payer, "p")
        assert isinstance(caught.value, BudgetExceeded) is not is_approved
    async with Node.in_memory(log) as node:
        if not is_approved:
            dies.clear()
            async with node.open("p") as process:
                await raise_budget(process, "tool_calls", 2, actor="bob")
        assert await node.run(payer, "p") == "paid"
        noted = [one.kind for one in await bodies(node, "p", b.BudgetNoted) if one.kind != "warned"]
        history = [one async for one in node.entries("p")]
    assert noted == ["exceeded", *([] if is_approved else ["refunded"]), "raised"]
    assert ran == ["pay"] * (2 if is_approved else 1)
    assert (await check_replay(payer, history)).divergence is None


async def test_a_budget_of_a_day_is_new_with_the_day() -> None:
    """The UTC day of the process's clock."""
    clock = VirtualClock()
    async with Node.in_memory(clock=clock) as node, node.open("p") as process:
        await process.set_budget(a_day={"tool_calls": 1})
        await process.tool("look", str, 1)
        with pytest.raises(BudgetExceeded) as caught:
            await process.tool("look", str, 2, key="again")
        assert caught.value.facts["scope"] == "day"
        await clock.sleep(86_400)
        assert await process.tool("look", str, 3) == "3"


async def test_a_paused_budget_suspends_the_process() -> None:
    """Not failed: it waits for somebody who raises it."""
    async with Node.in_memory() as node, node.open("p") as process:
        await process.transition("starting")
        await process.transition("running")
        await process.set_budget({"tool_calls": 0}, on_exceed="pause")
        with pytest.raises(BudgetExceeded):
            await process.tool("look", lambda: 1)
        await process.update("seen", 1)
        assert process.state.lifecycle == "suspended"


async def test_a_limit_raised_too_little_is_no_yes() -> None:
    """The call is not begun, and nobody is asked a second time for it; a person raises it enough."""
    async with Node.in_memory() as node, node.open("p") as process:
        await process.set_budget({"usd": "1"}, on_exceed="escalate")
        await node.approve("p", "budget:usd", actor="ann")
        await node.signal("p", "budget:usd", {"approved": True, "limit": "1.5"}, actor="bob")
        await process.decide("small", Model(), REQUEST, estimate={"usd": "1.2"})  # raised to what it needs
        with pytest.raises(BudgetExceeded):
            await process.decide("big", Model(), {**REQUEST, "seed": 2}, estimate={"usd": "9"})
        assert process.state.budget is not None
        assert process.state.budget.limits["usd"] == Decimal("1.5")


async def test_time_spent_in_calls_is_bounded() -> None:
    """``wall_s``: what the first call took leaves nothing for the next."""
    clock = VirtualClock()

    async def slow() -> None:
        await clock.sleep(20)

    async with Node.in_memory(clock=clock) as node, node.open("p") as process:
        await process.set_budget({"wall_s": 10})
        await process.step("slow", slow)
        with pytest.raises(BudgetExceeded) as caught:
            await process.step("next", slow)
        assert caught.value.facts["dimension"] == "wall_s"


async def test_irreversible_effects_are_counted() -> None:
    """An at-most-once effect without a compensation; one that certainly did not happen gives its place back."""

    async def send(amount: int) -> str:
        return "sent"

    async with Node.in_memory() as node, node.open("p") as process:
        await process.set_budget({"irreversible_effects": 1})
        assert await process.effect("send", send, 1, semantics="at_most_once") == "sent"
        with pytest.raises(BudgetExceeded):
            await process.effect("send", send, 2, semantics="at_most_once")
        assert await process.effect("again", send, 3) == "sent"


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
