"""``DurableWorkflows`` executes workflows of the SDK: after an interruption they go on where they were."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, TypeVar

import pytest
from agnt5 import Agent, FunctionContext, WorkflowContext, current_activation, function, tool, workflow
from agnt5.activation import (
    ActivationClient,
    ActivationKind,
    ActivationRecoveryPolicy,
    ChildJoinPolicy,
    child_activation_request_from_context,
)
from agnt5.agent import AgentRegistry
from agnt5.exceptions import ActivationError, ActivationErrorCode, WaitingForUserInputException
from agnt5.function import FunctionRegistry
from agnt5.tool import ToolRegistry
from agnt5.types import BackoffPolicy, RetryPolicy
from agnt5.workflow import WorkflowRegistry

from scripted_chat_server import scripted_chat, tool_call
from seekpoint import Client, MemoryLog, Node, Process, VirtualClock, Worker, agent
from seekpoint.adapters.agnt5 import DurableWorkflows
from seekpoint.errors import AgentMismatch, InvalidOption, Refused, UnserializableValue

Code = ActivationErrorCode
T = TypeVar("T")
PROCESS = "agnt5/default/order-17"


@pytest.fixture(autouse=True)
def registries() -> Iterator[None]:
    """The SDK's registries are those of the program: each test has empty ones."""
    yield
    for registry in (WorkflowRegistry, FunctionRegistry, ToolRegistry, AgentRegistry):
        registry.clear()


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    """A node with a log in memory, whose clock skips waiting."""
    async with Node.in_memory(clock=VirtualClock()) as running:
        yield running


async def once(node: Node, run: Any, input: dict[str, Any] | None = None, **options: Any) -> Any:
    """Run a workflow as a program does that was just started."""
    async with DurableWorkflows(node, **options) as workflows:
        return await workflows.run(run, "order-17", input)


def giving(value: T, ran: Counter[str] | None = None) -> Callable[[], Awaitable[T]]:
    """Return a step's body, which counts its calls as those of ``last``."""

    async def give() -> T:
        if ran is not None:
            ran["last"] += 1
        return value

    return give


async def statuses(node: Node) -> dict[str, str]:
    """The status of each activation, by its stable key."""
    state = (await node.recover(PROCESS, missing_ok=True)).state
    found = {key: state.value(key) for key in state.values_json if key.startswith("actv1_")}
    return {one["stable_key"]: one["status"] for one in found.values()}


async def test_steps_are_executed_once_and_the_run_goes_on_after_a_failure(node: Node) -> None:
    """What is completed is not executed again: functions and callables. The second time it does not fail."""
    ran: Counter[str] = Counter()

    @function
    async def price(ctx: FunctionContext, article: str) -> float:
        ran["price"] += 1
        assert current_activation() is not None
        return 12.5

    @workflow
    async def order(ctx: WorkflowContext, article: str) -> str:
        cost: float = await ctx.step(price, article)

        async def pack() -> dict[str, int]:
            ran["pack"] += 1
            return {"boxes": 2}

        packed: dict[str, int] = await ctx.step("pack", pack)
        if ran["order"] == 0:
            ran["order"] += 1
            raise ConnectionError("the network is gone")
        return f"{article}: {cost}, {packed['boxes']} boxes"

    with pytest.raises(ConnectionError):
        await once(node, order, {"article": "shoes"})
    state = (await node.recover(PROCESS)).state
    assert state.lifecycle == "failed"
    assert state.failure is not None
    assert "the network is gone" in state.failure.message
    assert await once(node, order) == "shoes: 12.5, 2 boxes"
    assert await once(node, "order", {"article": "shoes"}) == "shoes: 12.5, 2 boxes"
    assert ran == {"price": 1, "pack": 1, "order": 1}
    assert await statuses(node) == {"step:price:0": "COMPLETED", "step:pack:1": "COMPLETED"}


async def test_a_function_is_tried_again_as_its_policy_says(node: Node) -> None:
    """Each attempt is an attempt of the activation."""
    attempts: list[int] = []

    @function(
        retries=RetryPolicy(max_attempts=3, initial_interval_ms=1, max_interval_ms=1),
        backoff=BackoffPolicy(multiplier=1.0),
    )
    async def flaky(ctx: FunctionContext) -> str:
        attempts.append(ctx.attempt)
        if len(attempts) < 3:
            raise ConnectionError("once more")
        return "done"

    @workflow
    async def order(ctx: WorkflowContext) -> str:
        result: str = await ctx.step(flaky)
        return result

    assert await once(node, order) == "done"
    assert attempts == [0, 1, 2]


async def test_a_failure_that_the_code_has_caught_is_caught_again(node: Node) -> None:
    """So the code goes the same way after a sleep, and in a later program."""
    ran: Counter[str] = Counter()

    @workflow
    async def order(ctx: WorkflowContext) -> str:
        async def pay() -> None:
            ran["pay"] += 1
            raise ValueError("no money")

        try:
            await ctx.step("pay", pay)
        except ValueError as exc:
            said = str(exc)
        await ctx.sleep(60, name="think")
        ran["order"] += 1
        if ran["order"] == 1:
            raise ConnectionError
        return said

    with pytest.raises(ConnectionError):
        await once(node, order)
    assert await once(node, order) == "no money"
    assert ran == {"pay": 1, "order": 2}


async def test_a_sleep_outlives_the_program() -> None:
    """It ends when it was to end when it began; a sleep that is over is not slept again."""
    clock, log = VirtualClock(skips=False), MemoryLog()

    @workflow
    async def order(ctx: WorkflowContext) -> str:
        await ctx.sleep(3_600, name="first")
        await ctx.sleep(5, name="second")
        return "awake"

    async with Node.in_memory(log, clock=clock) as one:
        began = clock.now_us()
        sleeping = asyncio.create_task(once(one, order))
        await _until_asleep(one)
        sleeping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sleeping
    async with Node.in_memory(log, clock=clock) as other:
        waking = asyncio.create_task(once(other, order))
        clock.advance(3_000)
        async with asyncio.timeout(30):
            while not waking.done():
                clock.advance(1)
                await asyncio.sleep(0.001)
        assert waking.result() == "awake"
    assert 3_605 <= (clock.now_us() - began) / 1_000_000 < 3_700


async def _until_asleep(node: Node) -> None:
    async with asyncio.timeout(30):
        while "SUSPENDED" not in (await statuses(node)).values():  # noqa: ASYNC110  # the state is in the log
            await asyncio.sleep(0.005)


async def test_branches_go_on_while_one_of_them_sleeps(node: Node) -> None:
    """No step is executed twice because another branch sleeps; two sleeps at once are not one after the other."""
    ran: Counter[str] = Counter()

    @workflow
    async def order(ctx: WorkflowContext) -> list[Any]:
        async def slow() -> str:
            ran["slow"] += 1
            await asyncio.sleep(0.05)
            return "slow"

        async def nap(name: str) -> str:
            await ctx.sleep(1_000, name=name)
            return name

        results = await ctx.parallel(ctx.step("slow", slow, key="slow"), nap("a"), nap("b"))
        return list(results)

    began = node.clock.now_us()
    assert await once(node, order) == ["slow", "a", "b"]
    assert ran == {"slow": 1}
    assert (node.clock.now_us() - began) / 1_000_000 < 1_900


async def test_an_agent_of_the_sdk_is_durable(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its models and its tools are activations: no model is asked again after a failure."""
    asked: list[int] = []
    looked: list[str] = []

    @tool
    async def look(ctx, what: str) -> str:  # type: ignore[no-untyped-def]  # the SDK reads no postponed annotation
        """Look something up."""
        looked.append(what)
        return f"seen {what}"

    @workflow
    async def shop(ctx: WorkflowContext, wish: str) -> str:
        buyer = Agent(name="buyer", model="ollama/small", instructions="Buy.", tools=[look], max_iterations=9)
        result = await buyer.run(wish, context=ctx)
        if len(asked) == 3 and not looked.count("end"):
            looked.append("end")
            raise ConnectionError("the network is gone")
        return str(result.output)

    def script(number: int) -> str | list[dict[str, Any]]:
        return "bought" if number == 2 else [tool_call("look", {"what": f"{number}"}, f"call-{number}")]

    with scripted_chat(script, asked.append) as url:
        monkeypatch.setenv("OLLAMA_BASE_URL", url)
        with pytest.raises(ConnectionError):
            await once(node, shop, {"wish": "shoes"})
        AgentRegistry.clear()
        assert await once(node, shop) == "bought"
    assert asked == [0, 1, 2]
    assert looked == ["0", "1", "end"]
    state = (await node.recover(PROCESS)).state
    models = [one for one in state.context.values() if isinstance(one, dict) and one.get("kind") == "MODEL"]
    assert [one["usage"]["tokens_in"] for one in models] == [50, 50, 50]


async def test_a_tool_that_failed_fails_again_in_the_same_words(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """The model was told of it: it would be asked otherwise if the tool succeeded later, or said something else."""

    class Empty(Exception):
        pass

    asked: list[int] = []
    ran: Counter[str] = Counter()

    @tool(recovery_policy="idempotent_retry")
    async def look(ctx, what: str) -> str:  # type: ignore[no-untyped-def]
        """Look something up."""
        ran["look"] += 1
        if ran["look"] == 1:
            raise Empty("nothing there")
        return "something"

    @workflow
    async def shop(ctx: WorkflowContext) -> str:
        AgentRegistry.clear()
        buyer = Agent(name="buyer", model="ollama/small", instructions="Buy.", tools=[look], max_iterations=9)
        result = await buyer.run("shoes", context=ctx)
        ran["shop"] += 1
        if ran["shop"] == 1:
            raise ConnectionError
        return str(result.output)

    def script(number: int) -> str | list[dict[str, Any]]:
        return "bought" if number == 1 else [tool_call("look", {"what": "shoes"}, "call-1")]

    with scripted_chat(script, asked.append) as url:
        monkeypatch.setenv("OLLAMA_BASE_URL", url)
        with pytest.raises(ConnectionError):
            await once(node, shop)
        assert await once(node, shop) == "bought"
    assert (asked, ran["look"]) == ([0, 1], 1)


async def test_a_run_stops_where_nobody_knows_what_a_tool_has_done(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """The SDK's agents would tell the model that the tool failed, and go on."""
    asked: list[int] = []
    paid: list[str] = []

    @tool
    async def pay(ctx, what: str) -> str:  # type: ignore[no-untyped-def]
        """Pay."""
        paid.append(what)
        if len(paid) == 1:
            running.cancel()
            await asyncio.sleep(30)
        return "paid"

    @workflow
    async def shop(ctx: WorkflowContext) -> str:
        AgentRegistry.clear()
        buyer = Agent(name="buyer", model="ollama/small", instructions="Buy.", tools=[pay], max_iterations=9)
        return str((await buyer.run("shoes", context=ctx)).output)

    def script(number: int) -> str | list[dict[str, Any]]:
        return "bought" if number == 1 else [tool_call("pay", {"what": "shoes"}, "call-1")]

    with scripted_chat(script, asked.append) as url:
        monkeypatch.setenv("OLLAMA_BASE_URL", url)
        running = asyncio.create_task(once(node, shop))
        with pytest.raises(asyncio.CancelledError):
            await running
        for _ in range(2):
            with pytest.raises(ActivationError) as unknown:
                await once(node, shop)
            assert unknown.value.code is Code.UNKNOWN_OUTCOME
            assert asked == [0]
        async with DurableWorkflows(node) as workflows:
            activation_id = unknown.value.activation_id
            await workflows.activations.settle("default", "order-17", activation_id, "completed", output=b'"paid"')
            assert await workflows.run(shop, "order-17") == "bought"
    assert (asked, paid) == ([0, 1], ["shoes"])


async def test_a_run_waits_for_a_person(node: Node) -> None:
    """It is given up until somebody answers; then it goes on, with each answer in its place."""

    @workflow
    async def order(ctx: WorkflowContext) -> str:
        size = await ctx.wait_for_user("Which size?")
        colour = await ctx.wait_for_user("Which colour?")
        return f"{size} {colour}"

    with pytest.raises(WaitingForUserInputException) as first:
        await once(node, order)
    assert first.value.question == "Which size?"
    assert (await node.recover(PROCESS)).state.lifecycle == "awaiting"
    async with DurableWorkflows(node) as workflows:
        await workflows.answer("order-17", "43")
        with pytest.raises(WaitingForUserInputException) as second:
            await workflows.run(order, "order-17")
        assert second.value.question == "Which colour?"
        await workflows.answer("order-17", "red")
        with pytest.raises(Refused):
            await workflows.answer("order-17", "blue")
        assert await workflows.run(order, "order-17") == "43 red"


async def test_a_run_belongs_to_its_workflow_its_input_and_its_version(node: Node) -> None:
    """Others are refused, also once it is finished; a version that is another one by its first activation."""
    failures = [ConnectionError(), ConnectionError()]

    @workflow
    async def order(ctx: WorkflowContext, article: str) -> str:
        await ctx.step("look", giving(article))
        if failures:
            raise failures.pop()
        return article

    @workflow
    async def refund(ctx: WorkflowContext, article: str) -> str:
        return article

    with pytest.raises(ConnectionError):
        await once(node, order, {"article": "shoes"})
    with pytest.raises(AgentMismatch):
        await once(node, refund)
    with pytest.raises(AgentMismatch):
        await once(node, order, {"article": "hats"})
    with pytest.raises(ActivationError) as changed:
        await once(node, order, version="2")
    assert changed.value.code is Code.NON_DETERMINISTIC_REPLAY
    failures.clear()
    assert await once(node, order) == "shoes"
    with pytest.raises(AgentMismatch):
        await once(node, order, {"article": "hats"})


async def test_what_is_no_workflow_is_refused_with_what_to_do(node: Node) -> None:
    """A name that nobody registered, and a function without the decorator."""

    async def plain(ctx: WorkflowContext) -> None: ...

    for wrong in ("nobody", plain):
        with pytest.raises(InvalidOption, match="workflow"):
            await once(node, wrong)


async def test_a_result_that_is_no_value_fails_the_run(node: Node) -> None:
    """The error says what; the steps are kept."""

    @workflow
    async def order(ctx: WorkflowContext) -> object:
        await ctx.step("look", giving(1))
        return object()

    with pytest.raises(UnserializableValue):
        await once(node, order)
    assert await statuses(node) == {"step:look:0": "COMPLETED"}


async def test_a_run_is_executed_by_one_node_at_a_time() -> None:
    """The second is CONTENDED; a node that takes it over makes the first one's next call STALE_AUTHORITY."""
    log, ran = MemoryLog(), Counter[str]()
    begun, may_end = asyncio.Event(), asyncio.Event()

    @workflow
    async def order(ctx: WorkflowContext) -> str:
        async def slow() -> str:
            ran["slow"] += 1
            if ran["slow"] == 2:  # the other one
                may_end.set()
            begun.set()
            await may_end.wait()
            return "slow"

        await ctx.step("slow", slow)
        result: str = await ctx.step("last", giving("done", ran))
        return result

    async with Node.in_memory(log) as one, Node.in_memory(log) as other:
        first = asyncio.create_task(once(one, order))
        await begun.wait()
        with pytest.raises(ActivationError) as contended:
            await once(other, order)
        assert contended.value.code is Code.CONTENDED
        assert await once(other, order, take_over=True) == "done"
        with pytest.raises(ActivationError) as stale:
            await first
        assert stale.value.code is Code.STALE_AUTHORITY
    assert ran == {"slow": 2, "last": 1}


@pytest.mark.parametrize("policy", list(ChildJoinPolicy))
async def test_a_run_does_not_end_while_a_child_that_it_needs_is_open(node: Node, policy: ChildJoinPolicy) -> None:
    """A detached child does not hold it up."""

    @workflow
    async def order(ctx: WorkflowContext) -> str:
        request = child_activation_request_from_context(
            ctx, child_name="helper", stable_key="child:helper:0", input_value=None, join_policy=policy
        )
        await ActivationClient(workflows.activations).begin(request)
        return "done"

    async with DurableWorkflows(node) as workflows:
        if policy is ChildJoinPolicy.DETACHED:
            assert await workflows.run(order, "order-17") == "done"
        else:
            with pytest.raises(ActivationError) as refused:
                await workflows.run(order, "order-17")
            assert refused.value.code is Code.REQUIRED_CHILD_UNRESOLVED


async def test_a_cancelled_run_stops_at_its_next_step(node: Node) -> None:
    """``node.cancel`` and ``seekpoint cancel`` name its process."""

    @workflow
    async def order(ctx: WorkflowContext) -> None:
        for number in range(10_000):
            await ctx.step("turn", giving(None), key=str(number))
            if number == 3:
                await node.cancel(PROCESS, "changed her mind")

    with pytest.raises(ActivationError, match="changed her mind") as cancelled:
        await once(node, order)
    assert cancelled.value.code is Code.CANCELLED


async def test_a_worker_executes_workflows(node: Node) -> None:
    """An agent that runs a workflow is submitted, taken over and listed as all others."""

    @workflow
    async def order(ctx: WorkflowContext, article: str) -> str:
        result: str = await ctx.step("look", giving(f"seen {article}"))
        return result

    @agent("order")
    async def run_order(process: Process, article: str) -> str:
        async with DurableWorkflows(process.node, take_over=True) as workflows:  # type: ignore[arg-type]
            return str(await workflows.run(order, process.process_id, {"article": article}))

    log = MemoryLog()
    async with Worker.in_memory([run_order], log) as _, Client.in_memory(log) as client:
        submitted = await client.submit(run_order, "order-18", "hats")
        assert await submitted.result(60) == "seen hats"


async def test_models_are_asked_again_where_the_program_says_so(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """The SDK's agents leave a model call that was interrupted to a person."""
    asked: list[int] = []

    @workflow
    async def shop(ctx: WorkflowContext) -> str:
        AgentRegistry.clear()
        buyer = Agent(name="buyer", model="ollama/small", instructions="Buy.")
        return str((await buyer.run("shoes", context=ctx)).output)

    def interrupt(number: int) -> None:
        asked.append(number)
        if len(asked) == 1:
            loop.call_soon_threadsafe(running.cancel)
            stopped.wait(30)

    loop, stopped = asyncio.get_running_loop(), threading.Event()
    with scripted_chat(lambda number: "bought", interrupt) as url:
        monkeypatch.setenv("OLLAMA_BASE_URL", url)
        running = asyncio.create_task(once(node, shop))
        with pytest.raises(asyncio.CancelledError):
            await running
        stopped.set()
        with pytest.raises(ActivationError) as unknown:
            await once(node, shop)
        assert unknown.value.code is Code.UNKNOWN_OUTCOME
        async with DurableWorkflows(
            node, policies={ActivationKind.MODEL: ActivationRecoveryPolicy.IDEMPOTENT_RETRY}
        ) as workflows:  # fmt: skip
            state = (await node.recover(PROCESS)).state
            lost = next(key for key, one in state.context.items() if key.startswith("actv1") and one["kind"] == "MODEL")
            await workflows.activations.settle("default", "order-17", lost, "retry")
            assert await workflows.run(shop, "order-17") == "bought"
    assert asked == [0, 0]
