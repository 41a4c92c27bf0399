"""Tools, and what is refused: what Pydantic AI's own suites ask of its engines (Temporal, DBOS, Prefect)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import (
    Agent,
    CancellationToken,
    DeferredToolRequests,
    ExternalToolset,
    FunctionToolset,
    ModelMessage,
    ModelResponse,
    ModelRetry,
    RunContext,
    TextPart,
    ToolDefinition,
)
from pydantic_ai.capabilities import (
    AbstractCapability,
    DynamicCapability,
)
from pydantic_ai.exceptions import UnexpectedModelBehavior, UserError
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.toolsets import DynamicToolset

from pydantic_runs import Deps, built, look, made, model, run_twice, steps
from scripted_pydantic_agents import called, said
from seekpoint import Process
from seekpoint.adapters.pydantic_ai import SeekpointDurability, durable


@pytest.fixture(autouse=True)
def _nothing_made() -> None:
    made.clear()


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
