"""Models in runs: live, after a crash and in a replay check, the code sees equal objects. In memory."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from model_agent import ORDER, RESULT, SEEN, WANTED, Receipt, refund, same
from payload_models import Item
from seekpoint.producers import (
    Node,
    Process,
    agent,
)
from seekpoint.producers.testing import assert_replays, crash_at, history_of
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import (
    ReplayDivergence,
    UnserializableValue,
)


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    SEEN.clear()


class TestRuns:
    async def test_a_live_run_sees_what_every_later_run_sees(self, node: Node, log: MemoryLog) -> None:
        """Models of each kind, from each kind of call; the finished process answers the model too."""
        assert await node.run(refund, "p", ORDER) == RESULT
        assert same(SEEN)
        assert await node.run(refund, "p", ORDER) == RESULT
        assert await node.run(refund, "p") == RESULT
        assert (await node.recover("p")).state.result == {"number": 4711, "amount": Decimal("12.50")}

    @pytest.mark.parametrize("call", ["look:1", "items:1", "plan:1", "stream:1", "file:1", "send:1"])
    @pytest.mark.parametrize("when", ["unsent", "acknowledged"])
    async def test_a_run_resumed_after_a_crash_sees_equal_models(self, call: str, when: str) -> None:
        """Wherever it crashed, the second run gets objects of the same classes."""
        crash = crash_at(call=call, when=when, ended=True)
        assert await crash.run(refund, "p", ORDER) == RESULT
        assert same(SEEN[-len(WANTED) :])

    async def test_a_replay_check_sees_equal_models_too(self, node: Node, log: MemoryLog) -> None:
        """And compares the result that the code returns with the recorded one."""
        await node.run(refund, "p", ORDER)
        SEEN.clear()
        report = await assert_replays(refund, history_of(log, "p"))
        assert (report.ended_by, same(SEEN)) == ("result", True)

    async def test_a_replay_check_takes_an_equal_result_of_a_changed_model(self, node: Node, log: MemoryLog) -> None:
        """A member that has its default is no difference."""

        @dataclass
        class Later:
            number: int
            amount: Decimal
            note: str = ""

        @agent("small")
        async def small(process: Process, number: int) -> Receipt:
            return Receipt(number, Decimal(1))

        @agent("small")
        async def changed(process: Process, number: int) -> Later:
            return Later(number, Decimal(1))

        @agent("small")
        async def other(process: Process, number: int) -> Later:
            return Later(number, Decimal(1), "new")

        await node.run(small, "p", 5)
        history = history_of(log, "p")
        await assert_replays(changed, history)
        with pytest.raises(AssertionError, match="note"):
            await assert_replays(other, history)

    async def test_a_dict_and_a_model_with_the_same_text_are_one_argument(self) -> None:
        """Code that passes a model where it passed a dict goes on with its history."""

        async def price(item: Any) -> int:
            return 5

        @agent("prices")
        async def with_dict(process: Process, given: Any) -> int:
            return await process.step("price", price, {"name": "a", "price": Decimal("1.10"), "colour": None})

        @agent("prices")
        async def with_model(process: Process, given: Any) -> int:
            return await process.step("price", price, Item("a"))

        @agent("prices")
        async def with_other(process: Process, given: Any) -> int:
            return await process.step("price", price, Item("b"))

        crash = crash_at(call="price:1", ended=True, when="acknowledged")
        assert await crash.run(with_dict, "p", None, resumed_by=with_model) == 5
        await assert_replays(with_model, crash.history())
        crash = crash_at(call="price:1", ended=True, when="acknowledged")
        with pytest.raises(ReplayDivergence):
            await crash.run(with_dict, "p", None, resumed_by=with_other)

    async def test_without_an_annotation_values_stay_what_they_are(self, node: Node) -> None:
        """And a model that nobody could rebuild is refused, with what to do."""

        @agent("plain")
        async def plain(process: Process, given):  # type: ignore[no-untyped-def]
            SEEN.append(given)
            return await process.step("same", lambda: given)

        given = {"number": "5", "tuple": (1,)}
        assert await node.run(plain, "p", given) == given
        assert [given] == SEEN
        with pytest.raises(UnserializableValue, match="annotate"):
            await node.run(plain, "q", Item("a"))

        @agent("careless")
        async def careless(process: Process, given: Any) -> Any:
            return await process.step("item", lambda: Item("a"))

        with pytest.raises(UnserializableValue, match=r"the result of item:1.*annotate"):
            await node.run(careless, "r", None)
