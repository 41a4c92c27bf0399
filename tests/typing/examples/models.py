"""Models: results, payloads and answers have the type that the annotation or ``type=`` names."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypedDict, assert_type

import msgspec
import pydantic

from seekpoint import Client, GateAnswer, Node, Process, ReceivedSignal, SyncClient, SyncProcess, agent


@dataclass
class Order:
    """An order as a dataclass."""

    number: int


class Receipt(msgspec.Struct):
    """A receipt as a struct."""

    amount: Decimal


class Answer(pydantic.BaseModel):
    """An answer as a pydantic model."""

    text: str


class Row(TypedDict):
    """A row as a dict."""

    number: int


async def look_up(order: Order) -> Receipt:
    """Look an order up."""
    return Receipt(Decimal(order.number))


async def ask_model(request: Row) -> Answer:
    """Answer."""
    return Answer(text=str(request["number"]))


@agent("refund")
async def refund(process: Process, order: Order) -> Receipt:
    """Refund an order."""
    assert_type(await process.step("look", look_up, order), Receipt)
    assert_type(await process.effect("look", look_up, order, business_key="a"), Receipt)
    assert_type(await process.decide("ask", ask_model, Row(number=5)), Answer)
    await process.step("look", look_up, {"number": 5})  # wrong: no order
    await process.decide("ask", ask_model, Row(number="5"))  # wrong: a member
    return await process.step("look", look_up, order)


@agent("rows")
async def rows(process: Process, given: list[Row]) -> dict[str, Order]:
    """Return orders."""
    return {"first": Order(given[0]["number"])}


async def waits(process: Process) -> None:
    """A signal and an answer have the payload that the code asks for."""
    assert_type(await process.receive("order", type=Order), ReceivedSignal[Order])
    assert_type((await process.receive("order", type=Order)).payload, Order)
    assert_type((await process.receive("orders", type=list[Order], timeout_s=5)).payload, list[Order])
    assert_type((await process.receive("order")).payload, Any)
    assert_type(await process.gate("go"), GateAnswer[Any])
    assert_type(await process.gate("go", type=Answer, timeout=5), GateAnswer[Answer])
    assert_type((await process.gate("go", type=Answer)).payload, Answer | None)
    print((await process.receive("order", type=Order)).payload.amount)  # wrong: a member
    await process.receive("order", tpye=Order)  # wrong: a misspelt option
    await process.gate("go", tpye=Order)  # wrong: a misspelt option


def blocking_waits(process: SyncProcess, client: SyncClient) -> None:
    """The calls without ``await`` have the same types."""
    assert_type(process.receive("order", type=Order).payload, Order)
    assert_type(process.receive("order").payload, Any)
    assert_type(process.gate("go", type=Answer).payload, Answer | None)
    assert_type(client.result("r-1", 5, type=Receipt), Receipt)
    assert_type(client.result("r-1", type=refund), Receipt)
    process.receive("order", tpye=Order)  # wrong: a misspelt option


async def results(node: Node, client: Client) -> None:
    """A run, a handle and a client return models."""
    assert_type(await node.run(refund, "r-1", Order(5)), Receipt)
    assert_type(await node.run(rows, "r-2", [Row(number=5)]), dict[str, Order])
    assert_type(await (await client.submit(refund, "r-1", Order(5))).result(), Receipt)
    assert_type(await client.result("r-1"), Any)
    assert_type(await client.result("r-1", type=Receipt), Receipt)
    assert_type(await client.result("r-1", 5, type=refund), Receipt)
    assert_type(await client.result("r-2", type=dict[str, Order]), dict[str, Order])
    await node.signal("r-1", "order", Order(5))
    await node.run(refund, "r-1", Receipt(Decimal(5)))  # wrong: another model
    await client.result("r-1", tpye=Receipt)  # wrong: a misspelt option


def look(*, name: str, call: int) -> str:
    """Return both: they are options of a function, though a step has parameters of these names."""
    return f"{name} {call}"


async def names(process: Process) -> None:
    """The first parameters of a call are positional only."""
    assert_type(await process.step("look", look, name="a", call=1), str)
    assert_type(await process.tool("look", look, name="a", call=1), str)
    assert_type(await process.effect("look", look, name="a", call=1), str)
    await process.step("look", look, name="a", cal=1)  # wrong: a misspelt option
    process.wrap_model(ask_model, polcy="2")  # wrong: a misspelt option
    await process.decide("ask", ask_model, Row(number=5), polcy="2")  # wrong: a misspelt option
