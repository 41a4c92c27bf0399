"""Payloads of signals, of mail and of gates by the type that the code asks for. In memory."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from cuts import bodies, of_kind, until
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
from seekpoint.schemas.bodies import AnswerRefused, GateResolved, Received
from seekpoint.schemas.errors import InvalidOption, Refused


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

    async def test_a_payload_that_does_not_fit_is_refused(self, node: Node, log: MemoryLog) -> None:
        """The code gets the next one that fits; a later run gets the same."""

        @agent("receives")
        async def run(process: Process, given: Any) -> int:
            found = await process.receive("order", type=Item)
            SEEN.append(found.payload)
            if len(SEEN) == 1:
                raise ValueError("broken")
            return len(found.payload.name)

        bad = await node.signal("p", "order", {"name": 5})
        await node.signal("p", "order", {"name": "shoe"})
        with pytest.raises(ValueError, match="broken"):
            await node.run(run, "p", None)
        assert await node.run(run, "p", None) == 4
        assert [Item("shoe")] * 2 == SEEN
        (refused,) = of_kind(log, AnswerRefused)
        assert (refused.key, refused.external_id) == ("receive:1", bad)
        assert "$.name" in refused.reason

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

    async def test_a_gate_keeps_a_verdict_that_its_type_has_room_for(self, node: Node, log: MemoryLog) -> None:
        """And leaves the gate open at another payload that does not fit."""

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
            last = await process.gate("last", type=Verdict)
            assert last.payload is not None
            return [last.payload.amount]

        await node.signal("p", "go", Verdict(True, Decimal(5)))
        await node.approve("p", "more", in_advance=True)
        await node.signal("p", "more", True)
        await node.signal("p", "last", {"approved": True, "amount": "many"})
        running = asyncio.create_task(node.run(run, "p", None))
        await until(lambda: of_kind(log, AnswerRefused))
        last = (await node.recover("p")).state.calls["last:1"]
        assert (last.status, "Verdict" in last.facts["refused"]) == ("started", True)
        await node.approve("p", "last", payload={"amount": "7"})
        assert await running == [Decimal(7)]
        assert [(Verdict(True, Decimal(5)), None)] == SEEN

    @pytest.mark.parametrize("kind", ["gate", "receive"])
    async def test_a_run_with_a_recorded_answer_that_does_not_fit_goes_on_after_a_new_one(
        self, node: Node, log: MemoryLog, kind: str
    ) -> None:
        """Older versions took such an answer. It stays in the history, and the call is open again."""

        @agent("waits")
        async def older(process: Process, given: Any) -> Any:
            answer = await (process.gate("go", timeout=60) if kind == "gate" else process.receive("go"))
            raise ValueError(answer)

        @agent("waits")
        async def newer(process: Process, given: Any) -> Any:
            if kind == "gate":
                return (await process.gate("go", timeout=60, type=Item)).payload.name  # type: ignore[union-attr]
            return (await process.receive("go", type=Item)).payload.name

        await node.signal("p", "go", {"name": 5})
        with pytest.raises(ValueError, match="5"):
            await node.run(older, "p", None)
        running = asyncio.create_task(node.run(newer, "p", None))
        await until(lambda: of_kind(log, AnswerRefused))
        if kind == "gate":
            for payload in (["shoe"], {"approved": False}):
                with pytest.raises(Refused):
                    await node.approve("p", "go", payload=payload)
        await node.signal("p", "go", {"name": "shoe"})
        assert await running == "shoe"
        assert await node.run(newer, "p", None) == "shoe"
        assert len(of_kind(log, GateResolved if kind == "gate" else Received)) == 2

    async def test_an_answer_that_is_refused_leaves_the_gate_open_for_the_next_run(
        self, node: Node, log: MemoryLog
    ) -> None:
        """It is refused once; the gate has the reason for people."""

        @agent("waits")
        async def run(process: Process, given: Any) -> str:
            return (await process.gate("go", type=Item)).payload.name  # type: ignore[union-attr]

        await node.signal("p", "go", {"name": 5})
        for _ in range(2):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(node.run(run, "p", None), 0.3)
        state = (await node.recover("p")).state
        assert (len(of_kind(log, AnswerRefused)), state.calls["go:1"].status, [*state.mailbox]) == (1, "started", [])
        await node.signal("p", "go", Item("hat"))
        assert await node.run(run, "p", None) == "hat"

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
