"""Agents that are tools of another one, or that it hands over to: their calls are recorded too."""

from __future__ import annotations

import asyncio

import pytest
from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.tools.agent_tool import AgentTool

from adk_runs import CALLS, asking_a_helper, look, model, run_of
from scripted_llms import call, said
from seekpoint import Effect, Node
from seekpoint.errors import Refused
from seekpoint.testing import crash_at

pytestmark = pytest.mark.filterwarnings("ignore:.*plugins:DeprecationWarning")


def _specialist(name: str, results: int = 1) -> LlmAgent:
    return LlmAgent(
        name=name, description=name,
        model=model(lambda number: said(f"{name} is done") if number >= results else [call("look", what=name)]),
        tools=[look],
    )  # fmt: skip


def _trees() -> dict[str, BaseAgent]:
    helper = LlmAgent(
        name="helper", model=model(lambda number: said("helped") if number else [call("look", what="h")]), tools=[look]
    )
    asks = {0: [call("helper", "h1", request="help me")]}
    moves = {0: [call("transfer_to_agent", "t1", agent_name="other")]}
    return {
        "tool": LlmAgent(
            name="root", model=model(lambda number: asks.get(number, said("done"))), tools=[AgentTool(helper)]
        ),
        "transfer": LlmAgent(
            name="root", model=model(lambda number: moves.get(number, said("?"))), sub_agents=[_specialist("other", 2)]
        ),
        "sequence": SequentialAgent(name="root", sub_agents=[_specialist("one"), _specialist("two", 2)]),
        "parallel": ParallelAgent(name="root", sub_agents=[_specialist("left"), _specialist("right")]),
        "loop": LoopAgent(name="root", sub_agents=[_specialist("again", 2)], max_iterations=2),
    }  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*Workflow:DeprecationWarning", "ignore:.*plugins:DeprecationWarning")
@pytest.mark.parametrize("kind", ["tool", "transfer", "sequence", "parallel", "loop"])
async def test_agents_of_agents_are_recorded(kind: str) -> None:
    """Each machine dies after the next call that was recorded, until the run ends."""
    run = run_of(_trees()[kind])
    async with Node.in_memory() as node:
        plain = await node.run(run, "p", "go")
        keys = list((await node.recover("p")).state.calls)
    once = dict(CALLS)
    assert sum(once.values()) >= 4
    assert not any(key.rpartition("/")[2].startswith("helper:") for key in keys)
    ends = [key for key in keys if key.rpartition("/")[2].split(":")[0] in ("model", "look")]
    for end in ends[:: max(1, len(ends) // 3)]:
        CALLS.clear()
        found = await crash_at(call=end, ended=True, when="acknowledged").run(run, f"p-{end.replace('/', '-')}", "go")
        assert sorted(found) == sorted(plain)
        in_flight = 1 if kind == "parallel" else 0  # that of the other branch
        assert set(CALLS) == set(once)
        assert CALLS.total() - sum(once.values()) <= in_flight


@pytest.mark.parametrize("isolated", [True, False])
async def test_the_calls_of_an_agent_that_is_a_tool_are_recorded(isolated: bool) -> None:
    """Also of one that the plugins of the run do not see: no paid call is made again."""
    run = asking_a_helper(isolated=isolated)
    async with Node.in_memory() as node:
        assert await node.run(run, "p", "go") == "root done"
        keys = list((await node.recover("p")).state.calls)
    assert ("plugin helper" in CALLS) is not isolated
    last = [key for key in keys if "model" in key][-1]
    CALLS.clear()
    assert await crash_at(call=last, ended=True, when="acknowledged").run(run, "p", "go") == "root done"
    made = {name: count for name, count in CALLS.items() if not name.startswith("plugin")}
    assert made == {"root 0": 1, "helper 0": 1, "look": 1, "helper 1": 1, "root 1": 1}


@pytest.mark.parametrize("when", ["acknowledged", "unsent"])
async def test_a_crash_in_a_model_call_of_an_agent_that_is_a_tool_ends_the_run_at_once(when: str) -> None:
    """The toolkit loses the cancellation of such a run, and waits for a reader of its events who has gone."""
    crash = crash_at(call="~2/model:1", when=when)
    running = asyncio.ensure_future(crash.run(asking_a_helper(), "p", "go"))
    done, _ = await asyncio.wait([running], timeout=30)
    assert done
    assert running.result() == "root done"
    assert CALLS["root 0"] == 1


async def test_an_agent_that_is_a_tool_is_no_effect() -> None:
    """It would be none: the run is refused before anything is called."""
    async with Node.in_memory() as node:
        with pytest.raises(Refused, match=r"a tool that runs agents is no effect.*name=helper"):
            await node.run(asking_a_helper(effects={"helper": Effect.AT_MOST_ONCE}), "p", "go")
    assert "root 0" not in CALLS
