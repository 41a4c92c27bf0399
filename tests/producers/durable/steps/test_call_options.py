"""Options of a call and of its function are never confused, and a misspelt one is refused. In memory."""

from __future__ import annotations

from typing import Any

import pytest

from seekpoint.producers import (
    Node,
    Retry,
    step,
)
from seekpoint.schemas.errors import (
    InvalidOption,
    SeekpointError,
)


async def test_options_of_a_function_are_never_taken_for_those_of_a_call(node: Node) -> None:
    """A function may have parameters called ``name``, ``call``, ``process`` and ``self``."""

    def odd(*, name: str, call: int) -> str:
        return f"{name} {call}"

    @step()
    def stranger(*, process: str, self: int) -> str:
        return f"{process} {self}"

    async with node.open("p") as process:
        assert await process.step("odd", odd, name="n", call=1) == "n 1"
        assert await process.tool("odd", odd, name="n", call=2) == "n 2"
        assert await process.effect("odd", odd, name="n", call=3) == "n 3"
        assert await stranger(process, process="q", self=4) == "q 4"


async def test_a_wrapped_tool_gets_all_its_options(node: Node) -> None:
    """Also those that have the name of an option of a step."""

    def fetch(url: str, *, key: str, timeout: int) -> str:
        return f"{url} {key} {timeout}"

    async with node.open("p") as process:
        tool = process.wrap_tool(fetch, retry=Retry(attempts=2))
        assert await tool("/a", key="k", timeout=5) == "/a k 5"
        with pytest.raises(InvalidOption, match="did you mean timeout="):
            await tool("/a", key="k", timout=5)


async def test_a_misspelt_option_of_a_decision_is_a_typed_error(node: Node) -> None:
    """Before anything is recorded, also where a framework calls the model later."""

    def ask(request: Any) -> str:
        return "yes"

    async with node.open("p") as process:
        for call in (
            lambda: process.decide("ask", ask, {}, polcy="2"),  # type: ignore[call-overload]
            lambda: process.wrap_model(ask, polcy="2"),  # type: ignore[call-arg]
        ):
            with pytest.raises(InvalidOption, match="did you mean policy=") as caught:
                call()
            assert isinstance(caught.value, SeekpointError)
        wrapped = process.wrap_model(ask, policy="2")
        assert await wrapped({"model": "small"}) == "yes"
