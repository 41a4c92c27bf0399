"""Model calls: what Pydantic AI's own suites ask of its engines (Temporal, DBOS, Prefect)."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai import (
    Agent,
    ModelMessage,
    ModelResponse,
    RequestUsage,
    TextPart,
    UsageLimits,
)
from pydantic_ai.capabilities import (
    Instrumentation,
    ModelFallback,
    ResolveModelId,
)
from pydantic_ai.exceptions import ModelHTTPError, UsageLimitExceeded, UserError
from pydantic_ai.models import Model, ModelRequestParameters, ModelResolutionContext
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from pydantic_runs import built, decisions, made, model, run_twice, steps
from scripted_pydantic_agents import said, scripted
from seekpoint import MemoryLog, Node, Process, VirtualClock, agent
from seekpoint.adapters.pydantic_ai import SeekpointDurability, durable
from seekpoint.testing import assert_replays, history_of


@pytest.fixture(autouse=True)
def _nothing_made() -> None:
    made.clear()


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
