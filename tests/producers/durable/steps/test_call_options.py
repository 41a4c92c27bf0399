"""Options of a call and of its function are never confused, and a misspelt one is refused. In memory."""

from __future__ import annotations

from functools import wraps
from typing import Any

import pytest

from seekpoint.producers import Effect, Node, Retry, effect, step
from seekpoint.producers.durable.steps.call_options import check_options
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import InvalidOption, SeekpointError


async def fetch(url: str, *, timeout: float = 1.0, limit: int = 3) -> str:
    return f"{url}/{timeout}/{limit}"


async def look_up(order: str, *, limit: int = 3) -> str:
    return f"{order}/{limit}"


any_step: Any = step
any_effect: Any = effect
"""Without their types, which refuse what these tests do."""


@pytest.mark.parametrize(
    ("wrong", "option", "says"),
    [
        (lambda process: process.step("look", look_up, "1", retyr=Retry()), "retyr", "did you mean retry="),
        (lambda process: process.tool("look", look_up, "1", limt=4), "limt", "did you mean limit="),
        (lambda process: process.effect("look", look_up, "1", semantic="x"), "semantic", "did you mean semantics="),
        (lambda process: process.step("fetch", fetch, "a", timeout=5), "timeout", "with_options(timeout=...)"),
        (lambda process: process.effect("fetch", fetch, "a", timeout=5), "timeout", "with_options(timeout=...)"),
        (lambda process: any_step()(look_up)(process, "1", key="a"), "key", "known options: limit, order"),
        (lambda process: any_effect()(look_up)(process, "1", key="a"), "key", "known options: limit, order"),
        (lambda process: any_step()(look_up).with_options(kye="a"), "kye", "did you mean key="),
        (lambda process: any_effect()(look_up).with_options(retyr=Retry()), "retyr", "did you mean retry="),
        (lambda process: any_effect(semantic=Effect.AT_MOST_ONCE), "semantic", "did you mean semantics="),
    ],
)
async def test_a_misspelt_or_ambiguous_option_is_named_and_nothing_is_recorded(
    wrong: Any, option: str, says: str
) -> None:
    """Before the call takes its place: the error says which option, and what was meant or what to do."""
    log = MemoryLog()
    async with Node.in_memory(log) as node, node.open("p") as process:
        with pytest.raises(InvalidOption) as raised:
            await wrong(process)
        assert raised.value.option == option
        assert says in str(raised.value)
        assert not process.state.calls


async def test_a_function_takes_an_option_of_the_name_of_ours_as_a_step_of_its_own() -> None:
    """``@step`` and ``@effect`` hand all options to the function; ``with_options`` are those of the call."""
    slow = step("fetch", timeout=60)(fetch)
    sent = effect("send", retry=Retry(attempts=2))(fetch)
    async with Node.in_memory() as node, node.open("p") as process:
        assert await slow(process, "a", timeout=5) == "a/5/3"
        assert await slow.with_options(key="mine")(process, "b", timeout=6, limit=1) == "b/6/1"
        assert await sent.with_options(key="sent")(process, "c", timeout=7) == "c/7/3"
        assert list(process.state.calls) == ["fetch:1", "mine", "sent"]


async def test_with_options_leaves_the_step_as_it_was() -> None:
    """It returns another step: the options that it does not name are those of the first."""
    calls: list[str] = []

    @step(retry=Retry(attempts=2, backoff_s=0))
    async def flaky(name: str) -> str:
        calls.append(name)
        if len(calls) % 2:
            raise ValueError(name)
        return name

    async with Node.in_memory() as node, node.open("p") as process:
        assert await flaky.with_options(key="a")(process, "x") == "x"
        assert await flaky(process, "y") == "y"
        assert list(process.state.calls) == ["a", "flaky:1"]
    assert calls == ["x", "x", "y", "y"]


def test_a_function_that_takes_any_option_is_handed_it() -> None:
    """Its parameters do not say what it takes; nor do those of a wrapper, whatever it wraps."""

    def anything(**options: Any) -> None: ...

    @wraps(look_up)
    def wrapper(*arguments: Any, **options: Any) -> None: ...

    for call in (anything, wrapper, dict, print):
        check_options("step", call, {"colour": "red"} if call is not print else {"sep": " "}, {"key": "a"})
    with pytest.raises(InvalidOption, match="colour"):
        check_options("step", look_up, {"colour": "red"}, {"key": "a"})


async def test_options_of_both_kinds_are_told_apart_by_their_names(node: Node) -> None:
    """A type checker refuses such a call; without one it works, as no option has two takers."""
    async with node.open("p") as process:
        untyped: Any = process
        assert await untyped.step("look", look_up, "1", limit=4, retry=Retry(attempts=2)) == "1/4"


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
