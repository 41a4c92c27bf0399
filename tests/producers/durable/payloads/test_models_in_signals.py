"""Payloads of signals, of mail and of gates by the type that the code asks for. In memory."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from cuts import bodies
from model_agent import ORDER, SEEN
from payload_models import DataOrder, Item
from seekpoint.producers import (
    GateAnswer,
    Node,
    Process,
    ReceivedSignal,
    agent,
)
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import (
    InvalidOption,
    RecordedValueInvalid,
)


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    SEEN.clear()


class TestSignals:
    async def test_a_received_signal_has_its_payload_as_a_model(self, node: Node) -> None:
        """Now, and in each later run."""

        @agent("receives")
        async def run(process: Process, given: Any) -> Item:
            found = await process.receive("order", type=DataOrder)
            SEEN.append(found)
            if len(SEEN) == 1:
                raise ValueError("broken")
            return found.payload.items[0]

        sent = await node.signal("p", "order", ORDER, actor="ada")
        with pytest.raises(ValueError, match="broken"):
            await node.run(run, "p", None)
        assert await node.run(run, "p", None) == ORDER.items[0]
        assert [ReceivedSignal(ORDER, "order", "ada", sent)] * 2 == SEEN

    async def test_a_payload_that_does_not_fit_is_taken_and_raises(self, node: Node) -> None:
        """The code may go on to the next one; a later run gets the same."""

        @agent("receives")
        async def run(process: Process, given: Any) -> int:
            try:
                await process.receive("order", type=Item)
            except RecordedValueInvalid as exc:
                SEEN.append((exc.path, exc.name))
            found = await process.receive("order", type=Item)
            if len(SEEN) == 1:
                raise ValueError("broken")
            return len(found.payload.name)

        await node.signal("p", "order", {"name": 5})
        await node.signal("p", "order", {"name": "shoe"})
        with pytest.raises(ValueError, match="broken"):
            await node.run(run, "p", None)
        assert await node.run(run, "p", None) == 4
        assert SEEN == [("$.name", "order")] * 2

    async def test_a_program_receives_models_too(self, node: Node) -> None:
        """In code that is no agent's."""
        await node.signal("p", "order", Item("a"))
        async with node.open("p") as process:
            assert (await process.receive("order", type=Item, timeout_s=5)).payload == Item("a")

    @pytest.mark.parametrize(
        ("payload", "wanted"),
        [
            (Item("a"), ("signalled", Item("a"))),
            (True, ("approved", None)),
            ({"approved": False, "reason": "no"}, ("denied", None)),
        ],
    )
    async def test_a_gate_has_its_payload_as_a_model(self, node: Node, payload: Any, wanted: Any) -> None:
        """A plain yes or no has none."""

        @agent("waits")
        async def run(process: Process, given: Any) -> str:
            answer: GateAnswer[Item] = await process.gate("go", type=Item, prompt=Item("which?"))
            SEEN.append((answer.outcome, answer.payload))
            if len(SEEN) == 1:
                raise ValueError("broken")
            return answer.outcome

        await node.signal("p", "go", payload)
        with pytest.raises(ValueError, match="broken"):
            await node.run(run, "p", None)
        await node.run(run, "p", None)
        assert [wanted, wanted] == SEEN

    async def test_a_gate_keeps_a_verdict_that_its_type_has_room_for(self, node: Node) -> None:
        """And refuses another payload that does not fit."""

        @dataclass
        class Verdict:
            approved: bool
            amount: Decimal = Decimal(0)

        @agent("waits")
        async def run(process: Process, given: Any) -> list[Any]:
            first = await process.gate("go", type=Verdict)
            second = await process.gate("more", type=bool)
            assert (first.approved, second.approved) == (True, True)
            SEEN.append((first.payload, second.payload))
            await process.gate("last", type=Verdict)
            return []

        await node.signal("p", "go", Verdict(True, Decimal(5)))
        await node.approve("p", "more", in_advance=True)
        await node.signal("p", "more", True)
        await node.signal("p", "last", {"approved": True, "amount": "many"})
        with pytest.raises(RecordedValueInvalid, match="the payload of last does not fit Verdict"):
            await node.run(run, "p", None)
        assert [(Verdict(True, Decimal(5)), None)] == SEEN

    async def test_a_gate_that_timed_out_has_no_payload(self, node: Node) -> None:
        """Whatever its type."""

        @agent("waits")
        async def run(process: Process, given: Any) -> bool:
            answer = await process.gate("go", type=Item, timeout=1)
            return answer.timed_out and answer.payload is None

        assert await node.run(run, "p", None) is True

    async def test_a_type_that_nobody_can_check_is_refused_before_the_wait(self, node: Node, log: MemoryLog) -> None:
        """The error says what is wrong."""
        async with node.open("p") as process:
            before = bodies(log)
            for call in (process.receive, process.gate):
                with pytest.raises(InvalidOption, match="type= cannot be checked"):
                    call("go", type=Item | DataOrder)
            assert bodies(log) == before
