"""What Pydantic AI's own suites ask of its engines (Temporal, DBOS, Prefect), asked of ours in our own words."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import (
    Agent,
    AgentStreamEvent,
    CancellationToken,
    DeferredToolRequests,
    ExternalToolset,
    FunctionToolset,
    ModelMessage,
    ModelResponse,
    ModelRetry,
    RequestUsage,
    RunContext,
    TextPart,
    ToolDefinition,
    UsageLimits,
)
from pydantic_ai.capabilities import (
    AbstractCapability,
    DynamicCapability,
    Instrumentation,
    ModelFallback,
    ProcessEventStream,
    ResolveModelId,
)
from pydantic_ai.exceptions import ModelHTTPError, UnexpectedModelBehavior, UsageLimitExceeded, UserError
from pydantic_ai.messages import FunctionToolCallEvent, FunctionToolResultEvent, PartDeltaEvent, PartStartEvent
from pydantic_ai.models import Model, ModelRequestParameters, ModelResolutionContext
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.toolsets import DynamicToolset

from scripted_pydantic_agents import called, said, scripted
from seekpoint import MemoryLog, Node, Process, VirtualClock, agent
from seekpoint.adapters.pydantic_ai import SeekpointDurability, durable
from seekpoint.testing import assert_replays, history_of

made: Counter[str] = Counter()
"""How often each thing was done, in all lives of a test's process."""


@pytest.fixture(autouse=True)
def _nothing_made() -> None:
    made.clear()


def model(name: str, script: Any) -> FunctionModel:
    """A model by what it says after so many tool outputs."""
    return scripted(name, script, lambda number: made.update([f"{name}-{number}"]))


async def look(order: str) -> str:
    """Look an order up."""
    made[f"look-{order}"] += 1
    return f"{order} is paid"


LOOKS = {0: [called("look", "c1", order="o1")], 1: said("all is well")}


def built(
    script: Any = LOOKS, tools: Any = (look,), *, capabilities: Any = (), durability: Any = None, **more: Any
) -> Any:
    """A durable agent."""
    given = durability or SeekpointDurability()
    return Agent(model("main", script), name="main", tools=tools, capabilities=[*capabilities, given], **more)


@dataclass
class Deps:
    """What no journal can have."""

    call: Any


async def run_twice(code: Any, *, expected: Any = ...) -> list[Any]:
    """Run the code as a process, then replay it: nothing is done again, and the result is the same.

    Returns the bodies of the entries.
    """

    @agent("code")
    async def process_code(process: Process, given: Any) -> Any:
        return await code(process)

    log = MemoryLog()
    async with Node.in_memory(log) as node:
        result = await node.run(process_code, "case-1", None)
    once = dict(made)
    await assert_replays(process_code, history_of(log, "case-1"))
    assert dict(made) == once
    assert expected is ... or result == expected
    return [entry.body for entry in history_of(log, "case-1")]


def steps(bodies: list[Any]) -> list[str]:
    """The names of the steps, in order."""
    return [body.name for body in bodies if body.KIND == "step_ended" and body.name] or [
        body.key.rpartition("/")[2].rpartition(":")[0] for body in bodies if body.KIND == "step_ended"
    ]


def decisions(bodies: list[Any]) -> int:
    """How many model calls are recorded."""
    return sum(body.KIND == "decision_made" for body in bodies)


# --- ways to run an agent
async def test_a_streamed_run_is_recorded_and_streams_again() -> None:
    """The text of a replay comes from the record."""
    one = built({0: said("one two three")})

    async def code(process: Process) -> list[str]:
        with durable(process, one):
            async with one.run_stream("hello") as result:
                return [text async for text in result.stream_text(debounce_by=None)]

    bodies = await run_twice(code)
    assert made == {"main-0": 1}
    assert decisions(bodies) == 1


async def test_events_of_a_run_are_the_same_again() -> None:
    """``run_stream_events`` yields each part, each tool call and the result."""
    one = built()

    async def code(process: Process) -> list[str]:
        with durable(process, one):
            async with one.run_stream_events("hello") as events:
                return [type(event).__name__ async for event in events]

    bodies = await run_twice(code)
    assert made == {"main-0": 1, "look-o1": 1, "main-1": 1}
    assert decisions(bodies) == 2


async def test_a_run_that_is_iterated_is_recorded() -> None:
    """Node by node."""
    one = built()

    async def code(process: Process) -> list[str]:
        with durable(process, one):
            async with one.iter("hello") as run:
                nodes = [type(node).__name__ async for node in run]
            assert run.result is not None
            return [*nodes, run.result.output]

    bodies = await run_twice(code)
    assert decisions(bodies) == 2
    assert made["look-o1"] == 1


async def test_runs_at_the_same_time_are_kept_apart() -> None:
    """Each has its own id, the same one in a replay."""
    one = built({0: said("hi")})

    async def code(process: Process) -> list[Any]:
        with durable(process, one):
            results = await asyncio.gather(*(one.run(f"hello {number}") for number in range(3)))
        return [[result.run_id, result.conversation.conversation_id] for result in results]

    bodies = await run_twice(code)
    assert decisions(bodies) == 3


async def test_run_ids_begin_with_the_process() -> None:
    """One that the code gives is kept."""
    one = built({0: said("hi")})

    async def code(process: Process) -> list[str]:
        with durable(process, one):
            return [(await one.run("hello")).run_id, (await one.run("hello", run_id="mine")).run_id]

    await run_twice(code, expected=["case-1/run:1", "mine"])


async def test_two_agents_run_in_one_process() -> None:
    """One after the other, with the history of the first."""
    one, other = built({0: said("hi")}), Agent(
        model("other", {0: said("ho")}), name="other", capabilities=[SeekpointDurability()]
    )  # fmt: skip

    async def code(process: Process) -> Any:
        with durable(process, one, other):
            first = await one.run("hello")
            second = await other.run("and you?", message_history=first.all_messages())
        return f"{first.output} {second.output} {len(second.all_messages())}"

    await run_twice(code, expected="hi ho 4")


# --- events
@pytest.mark.parametrize("how", ["capability", "handler"])
async def test_events_are_handled(how: str) -> None:
    """A handler of the durability sees the chunks of a model inside its decision, and each tool event in a step."""
    seen: Counter[str] = Counter()

    async def handle(ctx: RunContext[Any], events: AsyncIterable[AgentStreamEvent]) -> None:
        async for event in events:
            seen[type(event).__name__] += 1

    handled = ProcessEventStream(handle)
    one = built(
        durability=SeekpointDurability(event_stream_handler=handle if how == "handler" else None),
        capabilities=[handled] if how == "capability" else [],
    )

    async def code(process: Process) -> Any:
        with durable(process, one):
            return (await one.run("hello")).output

    bodies = await run_twice(code)
    assert seen[PartStartEvent.__name__]
    assert seen[FunctionToolCallEvent.__name__] == seen[FunctionToolResultEvent.__name__]
    if how == "handler":
        assert seen[PartDeltaEvent.__name__] > 1
        assert seen[FunctionToolCallEvent.__name__] == 1
        assert steps(bodies).count("event") >= 2


async def test_a_stream_that_fails_midway_is_not_begun_again() -> None:
    """Its chunks were handled: no further attempt and no other model, in the replay neither."""
    chunks: list[str] = []

    async def handle(ctx: RunContext[Any], events: AsyncIterable[AgentStreamEvent]) -> None:
        chunks.extend([type(event).__name__ async for event in events])

    async def breaks(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        made["stream"] += 1
        yield "half "
        raise ModelHTTPError(503, "main", body={"error": "busy"})

    one = Agent(
        FunctionModel(stream_function=breaks), name="main",
        capabilities=[SeekpointDurability(event_stream_handler=handle)],
    )  # fmt: skip

    async def code(process: Process) -> list[Any]:
        with durable(process, one):
            try:
                await one.run("hello")
            except ModelHTTPError as exc:
                return [exc.status_code, exc.body]
        return []

    await run_twice(code, expected=[503, {"error": "busy"}])
    assert made == {"stream": 1}


# --- models
async def test_a_model_call_is_tried_again_while_a_server_is_busy() -> None:
    """What it finally raises is the same class in a replay, and carries the same facts."""

    async def busy(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        made["asked"] += 1
        if made["asked"] < 3:
            raise ModelHTTPError(429, "main")
        raise ModelHTTPError(400, "main", body={"code": "bad"})

    one = Agent(FunctionModel(busy), name="main", capabilities=[SeekpointDurability()])

    async def code(process: Process) -> list[Any]:
        with durable(process, one):
            try:
                await one.run("hello")
            except ModelHTTPError as exc:
                return [type(exc).__name__, exc.status_code, exc.model_name, exc.body]
        return []

    clocked = await run_twice(code, expected=["ModelHTTPError", 400, "main", {"code": "bad"}])
    assert made["asked"] == 3
    assert decisions(clocked) >= 1


async def test_another_model_answers_where_one_fails() -> None:
    """Each request is a decision of its own."""

    async def closed(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        made["closed"] += 1
        raise ModelHTTPError(403, "closed")

    backup = model("backup", {0: said("from the other")})
    one = Agent(
        FunctionModel(closed, model_name="closed"), name="main",
        capabilities=[ModelFallback("backup"), SeekpointDurability(models={"backup": backup})],
    )  # fmt: skip

    async def code(process: Process) -> Any:
        with durable(process, one):
            return (await one.run("hello")).output

    bodies = await run_twice(code)
    assert made == {"closed": 1, "backup-0": 1}
    assert decisions(bodies) == 2


async def test_models_are_chosen_by_run() -> None:
    """By the id or the object of a registered one, by a resolver with the run's deps, by an override."""

    async def resolve(ctx: ModelResolutionContext[str], model_id: str) -> Model | None:
        return scripted("own", {0: said(f"of {ctx.deps}")}) if model_id == "mine" else None

    large = model("large", {0: said("large")})
    one: Agent[str, str] = Agent(
        model("main", {0: said("main")}), name="main", deps_type=str,
        capabilities=[ResolveModelId(resolve), SeekpointDurability(models={"large": large})],
    )  # fmt: skip

    async def code(process: Process) -> list[str]:
        with durable(process, one):
            found = [(await one.run("hello", deps="ann", model=name)).output for name in ("large", large, "mine")]
            with one.override(model="large"):
                found.append((await one.run("hello", deps="ann")).output)
            found.append((await one.run("hello", deps="ann")).output)
        return found

    await run_twice(code, expected=["large", "large", "of ann", "large", "main"])


async def test_a_model_that_is_not_registered_is_refused() -> None:
    """An object cannot be found again after a crash."""
    one = built({0: said("hi")})

    async def code(process: Process) -> Any:
        with durable(process, one):
            return (await one.run("hello", model=TestModel())).output

    with pytest.raises(UserError, match="was not registered with `SeekpointDurability`"):
        await run_twice(code)
    assert not made


async def test_a_wrapped_model_is_the_default_one() -> None:
    """With instrumentation around it too."""
    wrapped = WrapperModel(model("main", {0: said("hi")}))
    one = Agent(wrapped, name="main", capabilities=[Instrumentation(), SeekpointDurability()])

    async def code(process: Process) -> Any:
        with durable(process, one):
            return (await one.run("hello")).output

    await run_twice(code, expected="hi")
    assert made == {"main-0": 1}


class Suspends(Model):
    """A model whose answer comes in segments: a background job that is polled."""

    def __init__(self, *usages: int) -> None:
        super().__init__()
        self._usages = usages

    @property
    def model_name(self) -> str:
        """Its name."""
        return "suspends"

    @property
    def system(self) -> str:
        """Its provider."""
        return "test"

    def continuation_delay(self, response: ModelResponse) -> float:
        """Wait between polls."""
        return 2.0

    async def request(
        self, messages: list[ModelMessage], model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:  # fmt: skip
        """Return the next segment: as many were seen as the last message tells."""
        last = messages[-1]
        number = int(last.provider_response_id or 0) if isinstance(last, ModelResponse) else 0
        made[f"segment-{number}"] += 1
        is_last = number + 1 == len(self._usages)
        return ModelResponse(
            parts=[TextPart(f"part {number} ")], state="complete" if is_last else "suspended",
            provider_response_id=str(number + 1), model_name="suspends",
            usage=RequestUsage(input_tokens=self._usages[number], output_tokens=1),
        )  # fmt: skip

    async def cancel_suspended_response(self, response: ModelResponse) -> None:
        """Note it."""
        made[f"cancelled-{response.provider_response_id}"] += 1


async def test_a_response_in_segments_is_a_decision_each_with_durable_waits() -> None:
    """The wait between them is a timer of the process."""
    one = Agent(Suspends(5, 3), name="main", capabilities=[SeekpointDurability()])

    @agent("waits")
    async def waits(process: Process, given: Any) -> list[Any]:
        with durable(process, one):
            result = await one.run("hello")
        return [result.output, result.usage.requests, result.usage.input_tokens]

    log = MemoryLog()
    async with Node.in_memory(log, clock=VirtualClock()) as node:  # it jumps over the wait
        result = await node.run(waits, "case-1", None)
    assert [entry.body.KIND for entry in history_of(log, "case-1")].count("timer_set") == 1
    assert result == ["part 0 part 1 ", 1, 8]
    assert made == {"segment-0": 1, "segment-1": 1}
    await assert_replays(waits, history_of(log, "case-1"))
    assert made == {"segment-0": 1, "segment-1": 1}


async def test_a_job_beyond_the_limit_of_usage_is_cancelled_once() -> None:
    """As a step, and the run ends with the framework's error."""
    one = Agent(Suspends(100, 100), name="main", capabilities=[SeekpointDurability()])

    async def code(process: Process) -> Any:
        with durable(process, one):
            try:
                await one.run("hello", usage_limits=UsageLimits(total_tokens_limit=20))
            except UsageLimitExceeded as exc:
                return type(exc).__name__
        return "none"

    bodies = await run_twice(code, expected="UsageLimitExceeded")
    assert made == {"segment-0": 1, "cancelled-1": 1}
    assert steps(bodies) == ["cancel response"]


# --- tools
async def test_tools_get_deps_and_what_the_model_got_wrong() -> None:
    """Arguments that do not fit are told to the model without a call of the tool; a retry is counted."""

    one: Agent[Deps, str] = Agent(
        model("main", {
            0: [called("fetch", "c1", number="seven")],
            1: [called("fetch", "c2", number=7)],
            2: [called("fetch", "c3", number=8)],
            3: said("done"),
        }),
        name="main", deps_type=Deps, capabilities=[SeekpointDurability()], retries=3,
    )  # fmt: skip

    @one.tool
    async def fetch(ctx: RunContext[Deps], number: int) -> int:
        made[f"fetch-{number}"] += 1
        if ctx.retry < 2:
            raise ModelRetry("later")
        return int(ctx.deps.call(number))

    async def code(process: Process) -> Any:
        with durable(process, one):
            return (await one.run("hello", deps=Deps(lambda number: number + 1))).output

    await run_twice(code, expected="done")
    assert made == {"main-0": 1, "main-1": 1, "main-2": 1, "main-3": 1, "fetch-7": 1, "fetch-8": 1}


async def test_a_validator_of_arguments_is_a_step() -> None:
    """What it has found out is the same in a replay."""

    async def known(ctx: RunContext[None], order: str) -> None:
        made[f"validated-{order}"] += 1
        if order != "o1":
            raise ModelRetry("no such order")

    tools = FunctionToolset[None](id="tools")
    tools.add_function(look, args_validator=known)
    script = {0: [called("look", "c1", order="o7")], 1: [called("look", "c2", order="o1")], 2: said("done")}
    one = built(script, (), toolsets=[tools])

    async def code(process: Process) -> Any:
        with durable(process, one):
            return (await one.run("hello")).output

    bodies = await run_twice(code, expected="done")
    assert steps(bodies).count("look arguments") == 2
    assert made["look-o1"] == made["validated-o7"] == made["validated-o1"] == 1


async def test_a_typed_output_is_rebuilt() -> None:
    """Also one that the model got wrong first."""

    class Verdict(BaseModel):
        """An output."""

        is_fine: bool
        score: int

    one: Agent[None, Verdict] = Agent(
        model("main", {
            0: [called("final_result", "c1", is_fine=True, score="many")],
            1: [called("final_result", "c2", is_fine=True, score=3)],
        }),
        name="main", output_type=Verdict, capabilities=[SeekpointDurability()],
    )  # fmt: skip

    async def code(process: Process) -> int:
        with durable(process, one):
            return (await one.run("hello")).output.score

    await run_twice(code, expected=3)
    assert made == {"main-0": 1, "main-1": 1}


async def test_an_output_that_a_validator_refuses_is_asked_for_again() -> None:
    """In a replay with the recorded answers."""

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        made[f"main-{len(messages) // 2}"] += 1
        return ModelResponse(parts=[TextPart("no" if len(messages) == 1 else "yes")])

    one = Agent(FunctionModel(answer), name="main", capabilities=[SeekpointDurability()])

    @one.output_validator
    def positive(output: str) -> str:
        if output == "no":
            raise ModelRetry("say yes")
        return output

    async def code(process: Process) -> Any:
        with durable(process, one):
            return (await one.run("hello")).output

    await run_twice(code, expected="yes")
    assert made == {"main-0": 1, "main-1": 1}


async def test_a_toolset_that_is_made_for_each_step_is_recorded() -> None:
    """Its discovery and its calls are steps; the function that makes it runs in them only."""

    async def choose(ctx: RunContext[None]) -> FunctionToolset[None]:
        made["chosen"] += 1
        tools = FunctionToolset[None](id="inner")
        tools.add_function(look)
        return tools

    one = built(tools=(), toolsets=[DynamicToolset[None](choose, id="chosen")])

    async def code(process: Process) -> Any:
        with durable(process, one):
            return (await one.run("hello")).output

    bodies = await run_twice(code, expected="all is well")
    assert steps(bodies).count("chosen tools") == 2
    assert "look" in steps(bodies)


async def test_a_capability_may_choose_tools_at_run_time() -> None:
    """With an id of its own."""

    async def choose(ctx: RunContext[None]) -> AbstractCapability[None] | None:
        from pydantic_ai.capabilities import Toolset

        tools = FunctionToolset[None](id="inner")
        tools.add_function(look)
        return Toolset(tools)

    one = built(tools=(), capabilities=[DynamicCapability(choose, id="chosen")])

    async def code(process: Process) -> Any:
        with durable(process, one):
            return (await one.run("hello")).output

    await run_twice(code, expected="all is well")
    assert made["look-o1"] == 1


async def test_a_toolset_is_entered_once_for_a_run() -> None:
    """In each life."""

    class Entered(FunctionToolset[None]):
        """Counts."""

        @asynccontextmanager
        async def _counted(self) -> AsyncIterator[None]:
            made["entered"] += 1
            yield

        async def __aenter__(self) -> Any:
            entered.append("in")
            return await super().__aenter__()

        async def __aexit__(self, *args: Any) -> bool | None:
            entered.append("out")
            return await super().__aexit__(*args)

    entered: list[str] = []
    tools = Entered(id="tools")
    tools.add_function(look)
    one = built(tools=(), toolsets=[tools])

    async def code(process: Process) -> Any:
        with durable(process, one):
            return (await one.run("hello")).output

    await run_twice(code)
    assert entered == ["in", "out"] * 2


async def test_calls_of_external_tools_are_the_output() -> None:
    """The code decides what to do with them; a later run goes on with their results."""
    external = ExternalToolset[None](
        [ToolDefinition(name="ship", parameters_json_schema={"type": "object"})], id="outside"
    )
    one = built({0: [called("ship", "c1")], 1: said("sent")}, (), output_type=[str, DeferredToolRequests])

    async def code(process: Process) -> Any:
        with durable(process, one):
            first = await one.run("hello", toolsets=[external])
            assert isinstance(first.output, DeferredToolRequests)
            number = await process.step("ship", lambda: 12)
            results = first.output.build_results(calls={"c1": number})
            second = await one.run(
                message_history=first.all_messages(), deferred_tool_results=results, toolsets=[external]
            )
        return str(second.output)

    await run_twice(code, expected="sent")
    assert made == {"main-0": 1, "main-1": 1}


# --- what is refused
async def test_tools_that_come_with_a_run_are_refused() -> None:
    """Their calls would not be recorded."""
    one = built()
    more = FunctionToolset[None](id="more")
    more.add_function(look, name="other")

    async def code(process: Process) -> Any:
        with durable(process, one):
            return (await one.run("hello", toolsets=[more])).output

    with pytest.raises(UserError, match="Seekpoint"):
        await run_twice(code)
    assert not made


async def test_a_step_cannot_change_the_run_around_it() -> None:
    """``enqueue`` and ``cancel`` would not happen again in a replay."""
    for name in ("enqueue", "cancel"):

        async def changes(ctx: RunContext[None], name: str = name) -> str:
            ctx.enqueue("more") if name == "enqueue" else ctx.cancel()
            return "changed"

        one = built({0: [called("changes", "c1")], 1: said("done")}, [changes])

        async def code(process: Process, one: Any = one) -> Any:
            with durable(process, one):
                return (await one.run("hello")).output

        with pytest.raises(Exception, match="not supported inside a durable step"):
            await run_twice(code)


async def test_a_cancellation_token_is_refused_inside_only() -> None:
    """A process is cancelled by ``seekpoint cancel``."""
    one = built({0: said("hi")})

    async def code(process: Process) -> Any:
        with durable(process, one):
            return (await one.run("hello", cancellation_token=CancellationToken())).output

    with pytest.raises(UserError, match="Seekpoint"):
        await run_twice(code)
    assert (await one.run("hello", cancellation_token=CancellationToken())).output == "hi"


def test_what_has_no_stable_name_is_refused() -> None:
    """An agent, a toolset, two toolsets with one id; and two engines for one agent."""
    tools = FunctionToolset[None]()
    cases: list[tuple[str, Any]] = [
        ("unique `name`", lambda: Agent(TestModel(), capabilities=[SeekpointDurability()])),
        ("`model`", lambda: Agent(name="main", capabilities=[SeekpointDurability()])),
        ("unique `id`", lambda: built(toolsets=[tools])),
        ("same `id`", lambda: built(toolsets=[FunctionToolset[None](id="a"), FunctionToolset[None](id="a")])),
        ("durable execution engine", lambda: built(capabilities=[SeekpointDurability()])),
    ]
    for words, build in cases:
        with pytest.raises(UserError, match=words):
            build()
    named = Agent(TestModel(), capabilities=[SeekpointDurability(name="main")])
    bound = SeekpointDurability.from_agent(named)
    assert bound is not None
    assert bound.name == "main"


async def test_an_answer_that_no_agent_understands_ends_the_run_each_time() -> None:
    """The framework's error, from the recorded answers."""
    one = built({0: [called("nobody", "c1")], 1: [called("nobody", "c2")]}, ())

    async def code(process: Process) -> Any:
        with durable(process, one):
            try:
                return str((await one.run("hello")).output)
            except UnexpectedModelBehavior as exc:
                return type(exc).__name__

    await run_twice(code)
    assert made["main-0"] == 1
