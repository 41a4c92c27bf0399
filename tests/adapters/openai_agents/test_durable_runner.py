"""Runs of the OpenAI Agents SDK inside of a process: crashes, approvals, effects, nested runs, what is refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agents import (
    Agent,
    Model,
    ModelProvider,
    ModelSettings,
    RunConfig,
    RunContextWrapper,
    Runner,
    ShellTool,
    function_tool,
    input_guardrail,
)
from agents.exceptions import UserError
from agents.guardrail import GuardrailFunctionOutput
from agents.items import TResponseInputItem
from agents.run import AgentRunner, get_default_agent_runner, set_default_agent_runner
from agents.testing import assistant_message, function_call

from openai_runs import bodies, look, made, model, refund, run_once, running, single
from seekpoint import Effect, MemoryLog, Node, Prices, Process, agent
from seekpoint.adapters.openai_agents import DurableRunner, SeekpointSession, idempotency_key
from seekpoint.errors import EffectUnknown, InvalidOption, Refused
from seekpoint.testing import assert_replays, crash_at, history_of


def shop() -> Agent[None]:
    """Two agents that hand over to each other, an agent as a tool, and tools at the same time."""
    asked = model("expert", {0: function_call("look", {"order": "o3"}, call_id="e1"), 1: assistant_message("all fine")})
    expert: Agent[None] = Agent(name="expert", model=asked, tools=[look])
    says = model(
        "main",
        {
            0: [
                function_call("look", {"order": "o1"}, call_id="c1"),
                function_call("look", {"order": "o2"}, call_id="c2"),
                function_call("ask_expert", {"input": "Is it fine?"}, call_id="c3"),
            ],
            3: function_call("transfer_to_money", {}, call_id="c4"),
            4: function_call("refund", {"order": "o1"}, call_id="c5"),
            5: assistant_message("Your money is on its way"),
        },
    )
    money: Agent[None] = Agent(name="money", model=says, tools=[refund])
    front: Agent[None] = Agent(
        name="front", model=says, tools=[look, expert.as_tool("ask_expert", "Ask an expert")], handoffs=[money]
    )
    money.handoffs.append(front)
    return front


@agent("shop")
async def shopping(process: Process, wish: str) -> list[str]:
    """Run the shop, with a session of the same journal."""
    runner = DurableRunner(process, effects={"refund": Effect.IDEMPOTENT})
    result = await runner.run(shop(), wish, session="customer-7")
    return [str(result.final_output), result.last_agent.name]


# --- crashes
# The SDK makes this coroutine before the task that awaits it: a crash in between leaves it.
@pytest.mark.filterwarnings("ignore:coroutine 'run_single_turn' was never awaited:RuntimeWarning")
async def test_a_run_is_the_same_wherever_it_crashes() -> None:
    """At each entry of the process: the result, the items of the session, and no recorded call is made again."""
    log = MemoryLog()
    async with Node.in_memory(log) as node:
        assert await node.run(shopping, "case-1", "money back") == ["Your money is on its way", "money"]
        whole = await SeekpointSession("customer-7", node).get_items()
    entries = history_of(log, "case-1")
    await assert_replays(shopping, entries)
    once = dict(made)
    assert set(once.values()) == {1}
    assert len(once) == 10
    for seq in range(1, entries[-1].seq or 0):
        for when in ("unsent", "unacknowledged"):
            made.clear()
            crash = crash_at(seq=seq, when=when)
            assert await crash.run(shopping, "case-1", "money back") == ["Your money is on its way", "money"]
            assert made.keys() == once.keys()
            assert sum(made.values()) <= len(once) + 3, (seq, when, made)  # at most the three branches in flight
            async with Node.in_memory(crash.log) as node:
                assert await SeekpointSession("customer-7", node).get_items() == whole, (seq, when)


async def test_another_answer_of_the_code_is_a_divergence() -> None:
    """Other instructions are another request: the run ends, and says what has changed."""
    build = single({0: assistant_message("hi")}, [], instructions="Be kind")
    log = MemoryLog()
    async with Node.in_memory(log) as node:
        await node.run(running(build), "case-1", "hello")
    other = running(single({0: assistant_message("hi")}, [], instructions="Be short"))
    with pytest.raises(AssertionError, match=r"\$\.instructions.*Be kind.*Be short"):
        await assert_replays(other, history_of(log, "case-1"))


async def test_an_error_that_ends_the_run_is_raised_as_itself() -> None:
    """Though the SDK tells models of the errors of tools."""
    build = single({0: function_call("refund", {"order": "o1"}, call_id="c1"), 1: assistant_message("done")}, [refund])
    careful = running(build, effects={"refund": Effect.AT_MOST_ONCE})
    crash = crash_at(call="~1/~1/refund:1", ended=True, when="unsent")
    with pytest.raises(EffectUnknown) as unknown:
        await crash.run(careful, "case-1", "hello")
    assert sum(made[key] for key in made if "refund" in key) == 1
    async with Node.in_memory(crash.log) as node:
        await node.verdict("case-1", str(unknown.value.key), "failed", reason="the bank knows nothing of it")
        assert await node.run(careful, "case-1") == "done"
        decisions = await bodies(node, "decision_started")
    assert "the bank knows nothing of it" in decisions[-1].request
    assert sum(made[key] for key in made if "refund" in key) == 1


# --- approvals
@function_tool(needs_approval=True)
async def pay(order: str) -> str:
    """Pay."""
    made[f"pay-{order}"] += 1
    return f"{order} is paid"


def paying() -> Agent[Any]:
    """Two payments at once that need approvals."""
    calls = [function_call("pay", {"order": order}, call_id=f"c-{order}") for order in ("o1", "o2")]
    return single({0: calls, 2: assistant_message("done")}, [pay])()


async def test_approvals_are_gates() -> None:
    """All of them are open at once, through a crash; a denied call is not made, and the model hears why."""
    log, runs = MemoryLog(), running(paying, effects={"pay": Effect.AT_MOST_ONCE})
    async with Node.in_memory(log) as node:
        first = asyncio.create_task(node.run(runs, "case-1", "pay"))
        while True:
            state = (await node.recover("case-1", missing_ok=True)).state
            if sum("pay:" in key for key in state.unsettled_calls) == 2:
                break
            await asyncio.sleep(0.01)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
    assert made == {"main-0": 1}
    async with Node.in_memory(log) as node:
        await node.approve("case-1", "pay:1")
        await node.deny("case-1", "pay:2", reason="too much")
        assert await node.run(runs, "case-1") == "done"
        opened = await bodies(node, "gate_opened")
        asked = await bodies(node, "decision_started")
    assert made == {"main-0": 1, "pay-o1": 1, "main-2": 1}
    assert opened[0].prompt == '{"agent":"one","arguments":{"order":"o1"},"id":"c-o1","tool":"pay"}'
    assert "too much" in asked[-1].request
    await assert_replays(runs, history_of(log, "case-1"))


async def test_an_approval_that_times_out_is_a_no() -> None:
    """The call is rejected."""
    async with Node.in_memory() as node:
        assert await node.run(running(paying, approval_timeout=0.01), "case-1", "pay") == "done"
    assert not made.keys() & {"pay-o1", "pay-o2"}


# --- models
async def test_usage_and_cost_are_recorded() -> None:
    """Of models by name too, whose provider is the run's."""

    class Named(ModelProvider):
        def get_model(self, model_name: str | None) -> Model:
            return model(str(model_name), {0: assistant_message("hi")})

    @agent("named")
    async def named(process: Process, wish: str) -> str:
        config = RunConfig(model_provider=Named())
        result = await DurableRunner(process).run(Agent(name="a", model="small"), wish, run_config=config)
        return f"{result.final_output} {result.context_wrapper.usage.total_tokens}"

    async with Node.in_memory() as node:
        node.prices = Prices({"small": {"input": "1", "output": "10"}})
        assert await node.run(named, "case-1", "hello") == "hi 70"
        ended = await bodies(node, "decision_made")
    assert (ended[0].model, ended[0].cost_usd) == ("small", "0.00025")
    assert made == {"small-0": 1}


async def test_a_rerun_does_not_ask_one_model_in_the_name_of_another() -> None:
    """An agent whose model is an object has no other one: the rerun fails, and says what to change."""

    def build() -> Agent[Any]:
        small = model("main", {0: assistant_message("hi")})
        small.model = "small"  # type: ignore[attr-defined]  # as the SDK's models have it
        return Agent(name="one", model=small)

    code = running(build)
    async with Node.in_memory() as node:
        await node.run(code, "case-1", "hello")
        done = await node.rerun(code, "case-1", "case-2", model="large")
    assert done.status == "failed"
    assert "whose model is a name" in str(done.error)
    assert made == {"main-0": 1}


async def test_runs_inside_of_a_run_are_durable_too() -> None:
    """A guardrail that asks a model, a tool that streams a run: recorded once, and answered in a replay."""
    judge = Agent[Any](name="judge", model=model("judge", {0: assistant_message("fine")}))
    poet = Agent[Any](name="poet", model=model("poet", {0: assistant_message("roses")}))

    @input_guardrail(run_in_parallel=False)
    async def judged(
        context: RunContextWrapper[Any], one: Agent[Any], asked: str | list[TResponseInputItem]
    ) -> GuardrailFunctionOutput:
        verdict = (await Runner.run(judge, asked)).final_output
        return GuardrailFunctionOutput(output_info=verdict, tripwire_triggered=verdict != "fine")

    @function_tool
    async def poem() -> str:
        made["poem"] += 1
        streamed = Runner.run_streamed(poet, "write")
        async for _ in streamed.stream_events():
            pass
        return str(streamed.final_output)

    script = {0: function_call("poem", {}, call_id="c1"), 1: assistant_message("done")}
    runs = running(single(script, [poem], input_guardrails=[judged]))
    crash = crash_at(seq=9)
    assert await crash.run(runs, "case-1", "hello") == "done"
    assert (made["judge-0"], made["poet-0"]) == (1, 1)
    await assert_replays(runs, crash.history())
    assert (await Runner.run(poet, "outside")).final_output == "roses"
    assert made["poet-0"] == 2


# --- bad input
async def test_what_cannot_be_recorded_is_refused() -> None:
    """Before any call is made."""
    shell = ShellTool(executor=lambda request: "")
    with pytest.raises(Refused, match=r"name=shell.*function_tool"):
        await run_once(running(single({0: assistant_message("hi")}, [shell])))
    with pytest.raises(InvalidOption, match=r"no agent has a tool.*option=refnd.*refund"):
        await run_once(running(single({}, [refund]), effects={"refnd": Effect.AT_MOST_ONCE}))
    with pytest.raises(ValueError, match="sometimes"):
        await run_once(running(single({}, [refund]), effects={"refund": "sometimes"}))
    with pytest.raises(Refused, match="no tool call"):
        idempotency_key()
    assert not made


async def test_credentials_are_not_recorded() -> None:
    """The model gets them; the journal does not, and a run goes on with another key."""
    log = MemoryLog()

    def build(key: str) -> Any:
        settings = ModelSettings(
            temperature=0.5, extra_headers={"Authorization": key}, extra_query={"key": key, "version": "7"},
            extra_args={"api_key": key}, extra_body={"auth_token": key, "seed": 3},
        )  # fmt: skip
        return running(single({0: assistant_message("hi")}, [], model_settings=settings))

    async with Node.in_memory(log) as node:
        await node.run(build("sk-first"), "case-1", "hello")
    entries = history_of(log, "case-1")
    assert "sk-first" not in str(entries)
    assert all(part in str(entries) for part in ("temperature", "version", "seed"))
    await assert_replays(build("sk-second"), entries)


async def test_a_blocking_run_inside_of_a_run_is_refused() -> None:
    """It would have an event loop of its own."""
    poet = Agent[Any](name="poet", model=model("poet", {0: assistant_message("roses")}))

    @function_tool(failure_error_function=None)
    def poem() -> str:
        return str(Runner.run_sync(poet, "write").final_output)

    with pytest.raises(UserError, match="one event loop"):
        await run_once(running(single({0: function_call("poem", {}, call_id="c1")}, [poem])))


# --- the runner of the program
class Counting(AgentRunner):
    """A runner that a program has made its own."""

    def __init__(self) -> None:
        super().__init__()
        self.runs = 0

    async def run(self, starting_agent: Agent[Any], input: Any, **options: Any) -> Any:
        """Count a run."""
        self.runs += 1
        return await super().run(starting_agent, input, **options)


async def test_the_runner_of_the_program_is_its_own_again_after_the_last_run() -> None:
    """It makes the durable runs too, also two at once, one of which fails."""
    build = single({0: assistant_message("done")}, [])
    before, own = get_default_agent_runner(), Counting()
    try:
        set_default_agent_runner(own)
        async with Node.in_memory() as node:
            runs = [node.run(running(build), f"case-{number}", "hello") for number in range(2)]
            assert await asyncio.gather(*runs) == ["done", "done"]
            with pytest.raises(KeyError):
                await node.run(running(single({}, [])), "case-3", "hello")
        assert own.runs == 3
        assert get_default_agent_runner() is own
    finally:
        set_default_agent_runner(before)


async def test_a_runner_that_the_program_sets_meanwhile_stays() -> None:
    """A later run of the same time is durable with it."""
    before, own = get_default_agent_runner(), Counting()

    @agent("twice")
    async def twice(process: Process, wish: str) -> Any:
        async def outer(order: str) -> str:
            """Look an order up."""
            set_default_agent_runner(own)
            build = single({0: assistant_message("inner")}, [])
            return str((await DurableRunner(process).run(build(), wish)).final_output)

        build = single({0: function_call("outer", {"order": "o1"}, call_id="c1"), 1: assistant_message("done")}, [])
        one = build()
        one.tools = [function_tool(outer)]
        return (await DurableRunner(process).run(one, wish)).final_output

    try:
        async with Node.in_memory() as node:
            assert await node.run(twice, "case-1", "hello") == "done"
        assert own.runs == 1
        assert get_default_agent_runner() is own
    finally:
        set_default_agent_runner(before)
