"""Inputs of agents by the annotation of their function. In memory."""

from __future__ import annotations

from typing import Any

import pytest

from cuts import bodies
from model_agent import SEEN, SHOE, look_up, refund, untyped
from payload_models import Colour, DataOrder, Item, StructOrder
from seekpoint.producers import (
    Node,
    Process,
    agent,
)
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import (
    AgentMismatch,
    InvalidValue,
    UnserializableValue,
)


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    SEEN.clear()


class TestInputs:
    @pytest.mark.parametrize("given", [{"number": "x"}, {"nmber": 5}, 5, None])
    async def test_an_input_that_does_not_fit_writes_nothing(self, node: Node, log: MemoryLog, given: Any) -> None:
        """The id stays free: nothing has begun."""
        with pytest.raises(InvalidValue, match="the input of refund does not fit DataOrder") as caught:
            await node.run(refund, "p", given)
        assert (caught.value.agent, caught.value.process_id) == ("refund", "p")
        assert bodies(log) == []

    async def test_no_input_writes_nothing_where_the_agent_needs_one(self, node: Node, log: MemoryLog) -> None:
        """An agent without a default would get None, which does not fit either."""
        with pytest.raises(InvalidValue, match=r"Expected `object`, got `null`"):
            await node.run(refund, "p")
        assert bodies(log) == []

    async def test_plain_annotations_of_the_input_are_checked_too(self, node: Node, log: MemoryLog) -> None:
        """Inputs come from outside: from the command line, and from programs without the agent's code."""

        @agent("quote")
        async def quote(process: Process, items: list[str], /) -> float:
            return len(items)

        with pytest.raises(InvalidValue, match=r"Expected `str`, got `int`.*path=\$\[1\]"):
            await node.run(quote, "p", untyped(["a", 5]))
        assert bodies(log) == []
        assert await node.run(quote, "p", ["a", "b"]) == 2

    async def test_a_dict_that_fits_is_the_same_input_as_its_model(self, node: Node) -> None:
        """Whether it names the members that have defaults or not, also once only a digest is left."""

        @agent("item")
        async def item(process: Process, given: Item) -> Colour:
            SEEN.append(given)
            if len(SEEN) == 1:
                raise ValueError("broken")
            return Colour.RED

        with pytest.raises(ValueError, match="broken"):
            await node.run(item, "p", untyped({"name": "a"}))
        assert await node.run(item, "p", Item("a")) is Colour.RED
        assert [Item("a"), Item("a")] == SEEN
        with pytest.raises(AgentMismatch):
            await node.run(item, "p", Item("b"))
        assert await node.run(item, "q", Item("a")) is Colour.RED
        assert await node.run(item, "q", untyped({"name": "a"})) is Colour.RED
        with pytest.raises(AgentMismatch):
            await node.run(item, "q", untyped({"name": "b"}))

    async def test_no_input_is_the_default_of_the_parameter(self, node: Node) -> None:
        """An explicit None stays None where the annotation takes it."""

        @agent("greet")
        async def greet(process: Process, name: str = "world") -> str:
            return f"hello {name}"

        @agent("optional")
        async def optional(process: Process, item: Item | None = SHOE) -> bool:
            return item is None

        assert await node.run(greet, "p") == "hello world"
        assert await node.run(greet, "q", untyped(None)) == "hello world"
        assert await node.run(optional, "r") is False
        assert await node.run(optional, "s", None) is True

    async def test_an_annotation_that_cannot_be_evaluated_says_nothing(
        self, node: Node, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The log and the error of a model say why."""

        @agent("unknown")
        async def unknown(process: Process, given: Missing) -> Missing:  # type: ignore[name-defined]  # noqa: F821
            return given

        assert await node.run(unknown, "p", {"number": 1}) == {"number": 1}
        assert "unknown: its input is not checked" in caplog.text
        assert "name 'Missing' is not defined" in caplog.text
        with pytest.raises(UnserializableValue, match="annotation of the input cannot be evaluated: Missing"):
            await node.run(unknown, "q", Item("a"))

    async def test_a_plain_agent_gets_models_too(self, node: Node) -> None:
        """A function that is not async runs in a thread, with the same values."""

        @agent("sync")
        def sync(process: Any, order: StructOrder) -> StructOrder:
            assert process.step("look", look_up, DataOrder(order.order_number, [order.only_item])).order_number == 7
            return order

        given = StructOrder(7, Item("a"))
        assert await node.run(sync, "p", given) == given
