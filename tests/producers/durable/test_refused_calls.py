"""What a call cannot mean is refused before anything runs: remembered as a failure, it would fail for ever."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from seekpoint.producers import Node, Retry, agent, effect, step
from seekpoint.schemas.errors import InvalidName, InvalidSetting, Refused


async def look_up(order: str) -> str:
    return order


@pytest.mark.parametrize(
    "wrong",
    [
        lambda process: process.step("look", None),
        lambda process: process.step("look", look_up("4711")),
        lambda process: process.tool("look", 5),
        lambda process: process.sample("look", look_up("4711")),
        lambda process: process.decide("plan", {"messages": []}, {"messages": []}),
        lambda process: process.decide("plan", look_up, "what?", usage={"input_tokens": 1}),
        lambda process: process.effect("pay", look_up("4711"), semantics="at_most_once"),
        lambda process: process.effect("pay", look_up, "4711", reconcile=look_up("4711")),
        lambda process: process.effect("pay", look_up, "4711", compensate=5),
    ],
)
async def test_what_is_no_function_is_refused_and_not_remembered(wrong: Any, node: Node) -> None:
    """Also the coroutine of who called it himself. The code is mended, and the process goes on."""
    async with node.open("p") as process:
        with pytest.raises(Refused):
            await wrong(process)
        assert not process.state.calls
    async with node.open("p") as process:
        assert await process.step("look", look_up, "4711") == "4711"


@pytest.mark.parametrize("made", [lambda process, call: process.wrap_tool(call), lambda _, call: step()(call),
                                  lambda _, call: effect()(call)])  # fmt: skip
async def test_a_function_without_a_name_needs_one(made: Any, node: Node) -> None:
    """A partial one, or an object that can be called: told where it is wrapped, not when it is first used."""
    async with node.open("p") as process:
        with pytest.raises(InvalidName, match="name="):
            made(process, partial(look_up, "4711"))
        assert await process.wrap_tool(partial(look_up, "4711"), "look up")() == "4711"


@pytest.mark.parametrize(
    "wrong",
    [{"attempts": None}, {"backoff_s": "1"}, {"jitter": None}, {"factor": []},
     {"non_retryable": ValueError}, {"non_retryable": [ValueError]}, {"non_retryable": (ValueError(),)}],
)  # fmt: skip
def test_a_retry_of_no_numbers_or_no_classes_is_refused_where_it_is_made(wrong: Any) -> None:
    """Not when the first attempt has failed, which would leave the call in doubt."""
    with pytest.raises(InvalidSetting):
        Retry(**wrong)


@pytest.mark.parametrize("wrong", [{"replay": "strictly"}, {"replay": None}, {"detail": "some"}, {"detail": []}])
async def test_how_a_process_is_run_is_one_of_a_few_words(wrong: Any, node: Node) -> None:
    """Whether it is opened or an agent runs as it."""
    with pytest.raises(InvalidSetting, match="known="):
        node.open("p", **wrong)
    with pytest.raises(InvalidSetting, match="known="):
        await node.run(agent("worker")(look_up), "p", **wrong)  # type: ignore[arg-type]  # it never runs


async def test_it_is_only_asked_of_a_call_that_is_made(node: Node) -> None:
    """A replay answers from the record, whatever the function has become."""
    async with node.open("p") as process:
        assert await process.step("look", look_up, "4711") == "4711"
    async with node.open("p") as process:
        gone: Any = None
        assert await process.step("look", gone, "4711") == "4711"
