"""What a call cannot mean is refused before anything runs: remembered as a failure, it would fail for ever."""

from __future__ import annotations

from typing import Any

import pytest

from seekpoint.producers import Node
from seekpoint.schemas.errors import Refused


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


async def test_it_is_only_asked_of_a_call_that_is_made(node: Node) -> None:
    """A replay answers from the record, whatever the function has become."""
    async with node.open("p") as process:
        assert await process.step("look", look_up, "4711") == "4711"
    async with node.open("p") as process:
        gone: Any = None
        assert await process.step("look", gone, "4711") == "4711"
