"""Results of calls by the annotations of their functions, and those that do not fit. In memory."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from cuts import of_kind
from model_agent import SEEN, Receipt, send_money
from payload_models import Colour, Item
from seekpoint.producers import (
    Connector,
    Connectors,
    Node,
    Process,
    Retry,
    agent,
    step,
)
from seekpoint.producers.durable.effects.effect_context import EffectContext
from seekpoint.producers.testing import crash_at
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import (
    InvalidValue,
    RecordedValueInvalid,
    UnserializableValue,
)


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    SEEN.clear()


class TestResults:
    async def test_a_step_whose_result_does_not_fit_fails_for_ever(self, node: Node, log: MemoryLog) -> None:
        """The failure is recorded as any other one: the call is not made again."""
        made: list[int] = []

        async def wrong() -> Item:
            made.append(1)
            return {"name": 5}  # type: ignore[return-value]

        @agent("wrong")
        async def run(process: Process, given: Any) -> Any:
            return await process.step("wrong", wrong)

        for _ in range(2):
            with pytest.raises(InvalidValue, match="the result of wrong:1 does not fit Item") as caught:
                await node.run(run, "p", None)
            assert (caught.value.path, caught.value.key, type(caught.value)) == ("$.name", "wrong:1", InvalidValue)
        assert made == [1]

    async def test_a_dict_that_fits_becomes_the_model_at_once(self, node: Node) -> None:
        """The live run gets what later runs get, not what the function returned."""

        async def answers() -> list[Item]:
            return [{"name": "shoe"}]  # type: ignore[list-item]

        async with node.open("p") as process:
            assert await process.step("answers", answers) == [Item("shoe")]

    async def test_a_result_that_does_not_fit_can_be_tried_again(self, node: Node) -> None:
        """A model that answers in the wrong shape is asked once more."""
        answers: list[Any] = [{"name": 5}, {"name": "shoe"}]

        async def ask(request: dict[str, str]) -> Item:
            return answers.pop(0)  # type: ignore[no-any-return]

        @agent("again")
        async def run(process: Process, given: Any) -> Item:
            return await process.decide("ask", ask, {"model": "small"}, retry=Retry(attempts=2))

        assert await node.run(run, "p", None) == Item("shoe")

    async def test_an_agent_whose_result_does_not_fit_fails(self, node: Node) -> None:
        """It can be resumed with code that returns the right one."""

        @agent("result")
        async def wrong(process: Process, given: Any) -> Item:
            return {"nam": "a"}  # type: ignore[return-value]

        @agent("result")
        async def right(process: Process, given: Any) -> Item:
            return Item("a")

        with pytest.raises(InvalidValue, match="the result of result does not fit Item"):
            await node.run(wrong, "p", None)
        assert (await node.recover("p")).state.lifecycle == "failed"
        assert await node.run(right, "p", None) == Item("a")

    async def test_a_record_that_does_not_fit_changed_code_is_kept(self, node: Node, log: MemoryLog) -> None:
        """Also inside another step, whose failure it is not: fixed code goes on with the record."""
        asked: list[int] = []

        @dataclass
        class Old:
            number: int

        @dataclass
        class Stricter:
            number: int
            note: str

        @dataclass
        class Fixed:
            number: int
            note: str = "none"

        def made(kind: Any, breaks: bool) -> Any:
            async def inner() -> Any:
                asked.append(1)
                return Old(5)

            inner.__annotations__["return"] = kind

            @agent("nested")
            async def run(process: Process, given: Any) -> Any:
                async def outer() -> int:
                    found = await process.step("inner", inner)
                    if breaks:
                        raise ConnectionError
                    return len(found.note)

                return await process.step("outer", outer, retry=Retry(attempts=1) if not breaks else None)

            return run

        crash = crash_at(call="outer:1/inner:1", ended=True, when="acknowledged")
        with pytest.raises(RecordedValueInvalid, match="note") as caught:
            await crash.run(made(Old, True), "p", None, resumed_by=made(Stricter, False))
        assert (caught.value.key, caught.value.path) == ("outer:1/inner:1", "$")
        async with Node.in_memory(crash.log) as other:
            state = (await other.recover("p")).state
            assert (state.lifecycle, state.calls["outer:1"].status) == ("failed", "started")
            assert await other.run(made(Fixed, False), "p", None) == 4
        assert asked == [1]

    async def test_an_effect_whose_output_does_not_fit_has_happened(self, node: Node, log: MemoryLog) -> None:
        """It is settled as succeeded, and not made again."""
        made: list[int] = []

        async def pay() -> Receipt:
            made.append(1)
            return {"number": "x"}  # type: ignore[return-value]

        @agent("pays")
        async def run(process: Process, given: Any) -> Any:
            return await process.effect("pay", pay)

        for _ in range(2):
            with pytest.raises(InvalidValue, match="the result of pay:1 does not fit Receipt"):
                await node.run(run, "p", None)
        assert made == [1]
        assert [one.outcome for one in of_kind(log, b.EffectSettled)] == ["succeeded"]

    async def test_a_compensation_gets_models(self, node: Node) -> None:
        """Its arguments and the output are rebuilt from the journal by its own annotations."""
        undone: list[Any] = []

        async def undo(item: Item, colours: list[Colour], *, output: Receipt) -> None:
            undone.append((item, colours, output))

        async def pay(item: Item, colours: list[Colour]) -> Receipt:
            return Receipt(1, item.price)

        @agent("undoes")
        async def run(process: Process, given: Any) -> Any:
            await process.effect("pay", pay, Item("a"), [Colour.RED], compensate=undo)
            raise ValueError("broken")

        with pytest.raises(ValueError, match="broken"):
            await node.run(run, "p", None)
        assert undone == [(Item("a"), [Colour.RED], Receipt(1, Decimal("1.10")))]

    async def test_a_connector_and_a_reconciler_return_models(
        self, node: Node, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The annotation of the connector's function says how its output is rebuilt."""
        known = Connectors()
        known.register(Connector("bank", dispatch=send_money))
        init = EffectContext.__init__

        def with_bank(context: EffectContext, *arguments: Any) -> None:
            init(context, *arguments)
            context.connectors = known

        monkeypatch.setattr(EffectContext, "__init__", with_bank)

        @agent("banks")
        async def run(process: Process, given: Any) -> Any:
            found = await process.effect("pay", None, Item("a"), connector="bank")
            SEEN.append(found)
            if len(SEEN) == 1:
                raise ValueError("broken")
            return found.number

        with pytest.raises(ValueError, match="broken"):
            await node.run(run, "p", None)
        await node.run(run, "p", None)
        assert [Receipt(len("p/pay:1"), Decimal("1.10"))] * 2 == SEEN

    async def test_a_rerun_on_another_model_replaces_it_in_a_request_that_is_a_model(self, node: Node) -> None:
        """As it does in a request that is a dict."""
        asked: list[Any] = []

        @dataclass(frozen=True)
        class Request:
            model: str
            item: Item

        async def ask(request: Request) -> str:
            asked.append(request)
            return request.model

        @agent("asks")
        async def run(process: Process, item: Item) -> Item:
            return Item(await process.decide("ask", ask, Request("small", item)))

        await node.run(run, "p", Item("a"))
        again = await node.rerun(run, "p", model="large")
        assert asked == [Request("small", Item("a")), Request("large", Item("a"))]
        assert (again.first_result, again.result) == (Item("small"), Item("large"))
        other = await node.rerun(run, "p", "p~b", input=Item("b"))
        assert asked[-1] == Request("small", Item("b"))
        assert other.result == Item("small")
        with pytest.raises(InvalidValue, match="the input of asks"):
            await node.rerun(run, "p", "p~c", input={"name": 5})

    async def test_a_fork_goes_on_with_another_model_as_answer(self, node: Node) -> None:
        """An answer may be a model; the code of the fork gets it rebuilt."""

        async def choose() -> Item:
            return Item("a")

        @agent("chooses")
        async def run(process: Process, given: Any) -> Item:
            found = await process.step("choose", choose)
            SEEN.append(found)
            return found

        await node.run(run, "p", None)
        async with node.fork("p", "q", answers={"choose:1": Item("b", colour=Colour.RED)}):
            pass
        assert await node.run(run, "q") == Item("b", colour=Colour.RED)
        assert [Item("a"), Item("b", colour=Colour.RED)] == SEEN


async def test_a_decorated_function_may_be_local(node: Node) -> None:
    """Its decorator sees the local classes that its annotation names. That of any other local function cannot."""

    @dataclass
    class Local:
        number: int

    @step()
    async def made() -> list[Local]:
        return [Local(5)]

    found: Any = Local(5)

    async def bare() -> Local:
        return found  # type: ignore[no-any-return]

    async with node.open("p") as process:
        assert await made(process) == [Local(5)]
        with pytest.raises(
            UnserializableValue, match=r"annotation of its function cannot be evaluated: Local \(NameError"
        ):
            await process.step("bare", bare)
