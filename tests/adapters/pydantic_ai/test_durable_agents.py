"""Agents of Pydantic AI inside of a process: crashes, approvals, effects, nested runs, what is recorded and refused."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from pydantic_ai import Agent, ApprovalRequired, BinaryContent, FunctionToolset, ModelRetry, RunContext, ToolFailed
from pydantic_ai.conversation import Conversation
from pydantic_ai.exceptions import UserError

from scripted_pydantic_agents import called, said, scripted
from seekpoint import Effect, MemoryLog, Node, Prices, Process, agent
from seekpoint.adapters.pydantic_ai import SeekpointConversationStore, SeekpointDurability, durable, idempotency_key
from seekpoint.errors import EffectUnknown, InvalidOption, Refused, StepFailed
from seekpoint.testing import assert_replays, crash_at, history_of

made: Counter[str] = Counter()
"""How often each model call and each tool call was made, in all lives of a test's process."""


@pytest.fixture(autouse=True)
def _nothing_made() -> None:
    made.clear()


def model(name: str, script: Any) -> Any:
    """A model by what it says after so many tool outputs."""
    return scripted(name, script, lambda number: made.update([f"{name}-{number}"]))


async def look(order: str) -> str:
    """Look an order up."""
    made[f"look-{order}"] += 1
    return f"{order} is paid"


def refund(order: str) -> str:
    """Pay an order back."""
    made[idempotency_key()] += 1
    return f"{order} is refunded"


def single(script: Any, tools: Any = (), name: str = "main", **how: Any) -> Agent[None, str]:
    """A durable agent with a script."""
    return Agent(model(name, script), name=name, tools=tools, capabilities=[SeekpointDurability(**how)])


def running(*agents: Agent[Any, Any], **options: Any) -> Any:
    """An agent of Seekpoint that runs the first agent; it names all of them."""

    @agent("runs")
    async def runs(process: Process, wish: str) -> Any:
        with durable(process, *agents):
            return (await agents[0].run(wish, **options)).output

    return runs


def shop() -> tuple[Agent[None, str], Agent[None, str]]:
    """An agent that asks another one, with tools at the same time."""
    expert = single({0: [called("look", "e1", order="o3")], 1: said("all fine")}, [look], "expert")

    async def ask(question: str) -> str:
        made["ask"] += 1
        return (await expert.run(question)).output

    script = {
        0: [called("look", "c1", order="o1"), called("look", "c2", order="o2"), called("ask", "c3", question="fine?")],
        3: [called("refund", "c4", order="o1")],
        4: said("Your money is on its way"),
    }
    return single(script, [look, ask, refund], effects={"refund": Effect.IDEMPOTENT}), expert


@agent("shop")
async def shopping(process: Process, wish: str) -> list[Any]:
    """Run the shop twice, with a conversation of the same journal."""
    front, expert = shop()
    store = SeekpointConversationStore(process.node)  # type: ignore[arg-type]  # it is a whole node
    with durable(process, front, expert):
        conversation = await store.load("customer-7") or Conversation(conversation_id="customer-7")
        result = await front.run(wish, conversation=conversation)
        entries = await store.save(result)
    return [result.output, [one.id for one in entries]]


# --- crashes
@pytest.mark.parametrize("apart", [4, pytest.param(1, marks=pytest.mark.long)])
async def test_a_run_is_the_same_wherever_it_crashes(apart: int) -> None:
    """At each entry of the process: the result, the conversation, and no recorded call is made again."""
    log = MemoryLog()
    async with Node.in_memory(log) as node:
        output = await node.run(shopping, "case-1", "money back")
        whole = await SeekpointConversationStore(node).load_entries("customer-7")
    assert output[0] == "Your money is on its way"
    assert whole is not None
    assert [one.id for one in whole] == output[1]
    entries = history_of(log, "case-1")
    await assert_replays(shopping, entries)
    once = dict(made)
    assert set(once.values()) == {1}
    assert len(once) == 10
    for seq in range(1, entries[-1].seq or 0, apart):
        when = ("unsent", "unacknowledged")[seq // apart % 2]
        made.clear()
        crash = crash_at(seq=seq, when=when)
        assert await crash.run(shopping, "case-1", "money back") == output
        assert made.keys() == once.keys()
        assert sum(made.values()) <= len(once) + 4, (seq, when, made)  # at most what was in flight in three tasks
        async with Node.in_memory(crash.log) as node:
            stored = await SeekpointConversationStore(node).load_entries("customer-7")
            assert stored is not None
            assert [one.id for one in stored] == output[1], (seq, when)


async def test_another_request_of_the_code_is_a_divergence() -> None:
    """Other instructions are another request: the run ends, and says what has changed."""
    log = MemoryLog()

    def build(instructions: str) -> Any:
        one = Agent(
            model("main", {0: said("hi")}), name="main", instructions=instructions, capabilities=[SeekpointDurability()]
        )
        return running(one)

    async with Node.in_memory(log) as node:
        await node.run(build("Be kind"), "case-1", "hello")
    with pytest.raises(AssertionError, match=r"Be kind.*Be short"):
        await assert_replays(build("Be short"), history_of(log, "case-1"))


async def test_an_effect_that_nobody_knows_of_ends_the_run() -> None:
    """It is raised as itself, though the code catches it. Once a person has found out, the model hears of it."""
    one = single(
        {0: [called("refund", "c1", order="o1")], 1: said("done")}, [refund], effects={"refund": Effect.AT_MOST_ONCE}
    )

    @agent("careful")
    async def careful(process: Process, wish: str) -> str:
        output = "none"
        with durable(process, one):
            try:
                output = (await one.run(wish)).output
            except EffectUnknown:
                made["caught"] += 1
        return output

    async with Node.in_memory() as node:
        await node.run(careful, "whole", "hello")
        keys = [one.key for one in await bodies(node, "effect_settled", "whole")]
    made.clear()
    crash = crash_at(call=keys[0], ended=True, when="unsent")
    with pytest.raises(EffectUnknown) as unknown:
        await crash.run(careful, "case-1", "hello")
    assert made == {"main-0": 1, "caught": 1, f"case-1/{keys[0]}": 1}
    async with Node.in_memory(crash.log) as node:
        await node.verdict("case-1", str(unknown.value.key), "failed", reason="the bank knows nothing of it")
        assert await node.run(careful, "case-1") == "done"
        asked = await bodies(node, "decision_started")
    assert "the bank knows nothing of it" in asked[-1].request
    assert made[f"case-1/{keys[0]}"] == 1


async def test_a_person_may_say_what_an_effect_has_returned() -> None:
    """As a plain value: the model hears it as the output of the tool."""
    one = single(
        {0: [called("refund", "c1", order="o1")], 1: said("done")}, [refund], effects={"refund": Effect.AT_MOST_ONCE}
    )
    runs = running(one)
    crash = crash_at(call="~2/refund:1", ended=True, when="unsent")
    with pytest.raises(EffectUnknown) as unknown:
        await crash.run(runs, "case-1", "hello")
    async with Node.in_memory(crash.log) as node:
        await node.verdict("case-1", str(unknown.value.key), "succeeded", output="o1 was refunded yesterday")
        assert await node.run(runs, "case-1") == "done"
        asked = await bodies(node, "decision_started")
    assert "o1 was refunded yesterday" in asked[-1].request


# --- approvals
def paying(**how: Any) -> Agent[None, str]:
    """Two payments at once that need approvals: one by its declaration, one by what its function says."""
    calls = [called("pay", "c1", order="o1"), called("ship", "c2", order="o2")]
    one = single({0: calls, 2: said("done")}, **how)

    @one.tool_plain(requires_approval=True)
    async def pay(order: str) -> str:
        made[f"pay-{order}"] += 1
        return f"{order} is paid"

    @one.tool
    async def ship(ctx: RunContext[None], order: str) -> str:
        if not ctx.tool_call_approved:
            raise ApprovalRequired(metadata={"why": "heavy"})
        made[f"ship-{order}"] += 1
        return f"{order} is sent"

    return one


async def test_approvals_are_gates() -> None:
    """All of them are open at once, through a crash; a denied call is not made, and the model hears why."""
    log, runs = MemoryLog(), running(paying(effects={"pay": Effect.AT_MOST_ONCE}))
    async with Node.in_memory(log) as node:
        first = asyncio.create_task(node.run(runs, "case-1", "pay"))
        async with asyncio.timeout(30):
            while len((await node.recover("case-1", missing_ok=True)).state.waits_for) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
    assert made == {"main-0": 1}
    async with Node.in_memory(log) as node:
        await node.deny("case-1", "pay", reason="too much")
        await node.approve("case-1", "ship")
        assert await node.run(runs, "case-1") == "done"
        opened = await bodies(node, "gate_opened")
        asked = await bodies(node, "decision_started")
    assert made == {"main-0": 1, "ship-o2": 1, "main-2": 1}
    assert sorted(one.prompt for one in opened) == [
        '{"agent":"main","arguments":{"order":"o1"},"id":"c1","tool":"pay"}',
        '{"agent":"main","arguments":{"order":"o2"},"id":"c2","metadata":{"why":"heavy"},"tool":"ship"}',
    ]
    assert "too much" in asked[-1].request
    await assert_replays(runs, history_of(log, "case-1"))


async def test_an_approval_that_times_out_is_a_no() -> None:
    """The calls are denied."""
    async with Node.in_memory() as node:
        assert await node.run(running(paying(approval_timeout=0.01)), "case-1", "pay") == "done"
        asked = await bodies(node, "decision_started")
    assert made == {"main-0": 1, "main-2": 1}
    assert "in time" in asked[-1].request


# --- tools
async def test_what_a_tool_says_to_the_model_is_recorded() -> None:
    """A retry, a failure, and values of types: a replay tells the model the same."""

    async def picky(order: str) -> str:
        made[order] += 1
        if order == "o1":
            raise ModelRetry("no such order")
        if order == "o2":
            raise ToolFailed("the order is closed")
        return "fine"

    def rows(given: int) -> dict[str, Any]:
        made["rows"] += 1
        return {"kind": "row", "rows": [1, 2.5, None], "image": BinaryContent(b"\x00\xff", media_type="image/png")}

    script = {
        0: [called("picky", "c1", order="o1"), called("picky", "c2", order="o2"), called("rows", "c3", given="7")],
        3: said("done"),
    }
    runs = running(single(script, [picky, rows]))
    async with Node.in_memory() as node:
        await node.run(runs, "whole", "hello")
        asked = await bodies(node, "decision_started", "whole")
    made.clear()
    crash = crash_at(call=asked[-1].key, ended=True, when="acknowledged")
    assert await crash.run(runs, "case-1", "hello") == "done"
    assert made == {"main-0": 1, "o1": 1, "o2": 1, "rows": 1, "main-3": 1}
    await assert_replays(runs, crash.history())
    for text in ("no such order", "the order is closed", "2.5"):
        assert text in asked[-1].request


async def test_an_error_of_a_tool_is_the_same_in_each_run() -> None:
    """Builtin errors come back as themselves, those that are not registered as ``StepFailed``."""

    class OutOfStock(Exception):
        """Not registered."""

    async def fails(kind: str) -> str:
        made[kind] += 1
        raise ValueError("no") if kind == "value" else OutOfStock("none")

    for kind, error in (("value", ValueError), ("stock", StepFailed)):
        one = single({0: [called("fails", "c1", kind=kind)]}, [fails])

        @agent("catches")
        async def catches(process: Process, wish: str, one: Any = one) -> str:
            with durable(process, one):
                try:
                    await one.run(wish)
                except Exception as exc:
                    return type(exc).__name__
            return "none"

        log = MemoryLog()
        async with Node.in_memory(log) as node:
            assert await node.run(catches, "case-1", "hello") == error.__name__
        await assert_replays(catches, history_of(log, "case-1"))
    assert (made["value"], made["stock"]) == (1, 1)


async def test_a_tool_that_is_no_step_lets_its_agents_record_their_calls() -> None:
    """Its function runs again in each life, the calls in it do not."""
    expert = single({0: said("all fine")}, name="expert")
    tools = FunctionToolset[None](id="tools")

    @tools.tool_plain(metadata={"seekpoint": False})
    async def ask(question: str) -> str:
        made["ask"] += 1
        return (await expert.run(question)).output

    one = Agent(
        model("main", {0: [called("ask", "c1", question="fine?")], 1: said("done")}), name="main", toolsets=[tools],
        capabilities=[SeekpointDurability()],
    )  # fmt: skip
    log = MemoryLog()
    async with Node.in_memory(log) as node:
        assert await node.run(running(one, expert), "case-1", "hello") == "done"
        assert not await bodies(node, "step_ended")
    await assert_replays(running(one, expert), history_of(log, "case-1"))
    assert made == {"main-0": 1, "ask": 2, "expert-0": 1, "main-1": 1}


@pytest.mark.parametrize("output", ["x" * 2_000_000, object()], ids=["too large", "no JSON"])
@pytest.mark.parametrize("semantics", [None, Effect.AT_MOST_ONCE])
async def test_a_result_that_cannot_be_recorded_is_told_to_the_model(output: Any, semantics: Effect | None) -> None:
    """The tool has run, and is not called again: the run goes on, in each life the same way."""

    async def odd() -> Any:
        made["odd"] += 1
        return output

    effects = {} if semantics is None else {"odd": semantics}
    runs, log = running(single({0: [called("odd", "c1")], 1: said("done")}, [odd], effects=effects)), MemoryLog()
    async with Node.in_memory(log) as node:
        assert await node.run(runs, "case-1", "hello") == "done"
        asked = await bodies(node, "decision_started")
    assert "The tool has run" in asked[-1].request
    await assert_replays(runs, history_of(log, "case-1"))
    assert made["odd"] == 1


# --- models
async def test_usage_cost_and_tool_calls_are_recorded() -> None:
    """Tokens of a cache are not counted as input: they have a price of their own."""
    runs = running(single({0: [called("look", "c1", order="o1")], 1: said("hi")}, [look]))
    async with Node.in_memory() as node:
        node.prices = Prices({"main": {"input": "1", "output": "10", "cached": "0.1"}})
        assert await node.run(runs, "case-1", "hello") == "hi"
        ended = await bodies(node, "decision_made")
    assert [one.model for one in ended] == ["main", "main"]
    assert ended[0].usage == '{"cached_tokens":10,"input_tokens":40,"output_tokens":20}'
    assert ended[0].cost_usd == "0.000241"
    assert '"tool_name":"look"' in ended[0].tool_calls
    assert ended[1].tool_calls is None


async def test_a_rerun_may_ask_another_model() -> None:
    """One of ``models``, by its id; a model that nobody knows is named."""
    models = {"large": model("large", {0: said("HI")})}
    runs = running(single({0: said("hi")}, models=models))
    async with Node.in_memory() as node:
        assert await node.run(runs, "case-1", "hello") == "hi"
        done = await node.rerun(runs, "case-1", "case-2", model="large")
        assert (done.status, done.result) == ("finished", "HI")
        lost = await node.rerun(runs, "case-1", "case-3", model="nobody")
    assert lost.status == "failed"
    assert "nobody" in str(lost.error)
    assert made == {"main-0": 1, "large-0": 1}


async def test_credentials_are_not_recorded() -> None:
    """The model gets them; the journal does not, and a run goes on with another key."""
    log = MemoryLog()

    def build(key: str) -> Any:
        settings: Any = {"temperature": 0.5, "extra_headers": {"Authorization": key}, "extra_body": {"api_key": key}}
        return running(single({0: said("hi")}), model_settings=settings)

    async with Node.in_memory(log) as node:
        await node.run(build("sk-first"), "case-1", "hello")
    entries = history_of(log, "case-1")
    assert "sk-first" not in str(entries)
    assert "temperature" in str(entries)
    await assert_replays(build("sk-second"), entries)


# --- bad input
async def test_what_cannot_be_recorded_is_refused() -> None:
    """Before any call is made."""
    bare: Agent[None, str] = Agent(model("bare", {0: said("hi")}), name="bare")
    with pytest.raises(Refused, match=r"no durability capability.*SeekpointDurability"):
        await _run(running(bare))
    with pytest.raises(InvalidOption, match=r"no tool of that name.*option=refnd.*refund"):
        await _run(running(single({}, [refund], effects={"refnd": Effect.AT_MOST_ONCE})))
    with pytest.raises(ValueError, match="sometimes"):
        single({}, [refund], effects={"refund": "sometimes"})
    with pytest.raises(Refused, match="no tool call"):
        idempotency_key()
    assert not made


@pytest.mark.parametrize(("metadata", "effects"), [({"effect": "x"}, {}), (False, {"look": Effect.AT_MOST_ONCE})])
async def test_metadata_that_means_nothing_is_refused(metadata: Any, effects: Any) -> None:
    """What it would have to be is said."""
    tools = FunctionToolset[None](id="tools")
    tools.add_function(look, metadata={"seekpoint": metadata})
    one = Agent(
        model("main", {0: [called("look", "c1", order="o1")]}), name="main", toolsets=[tools],
        capabilities=[SeekpointDurability(effects=effects)],
    )  # fmt: skip
    with pytest.raises(UserError, match="metadata"):
        await _run(running(one))


async def test_a_blocking_run_inside_of_a_run_is_refused() -> None:
    """It would have an event loop of its own."""
    poet = single({0: said("roses")}, name="poet")

    def poem() -> str:
        return poet.run_sync("write").output

    with pytest.raises(UserError, match="cannot be used inside"):
        await _run(running(single({0: [called("poem", "c1")]}, [poem])))


async def test_outside_of_a_process_an_agent_runs_as_without_the_capability() -> None:
    """Nothing is recorded, and nothing is refused."""
    one = single({0: [called("look", "c1", order="o")], 1: said("hi")}, [look])
    assert (await one.run("hello")).output == "hi"
    assert made == {"main-0": 1, "look-o": 1, "main-1": 1}


async def bodies(node: Node, kind: str, process_id: str = "case-1") -> list[Any]:
    """The entries of a kind that the process has."""
    return [one.entry.body async for one in node.entries(process_id, kinds=[kind])]


async def _run(runs: Any) -> None:
    async with Node.in_memory() as node:
        await node.run(runs, "case-1", "hello")
