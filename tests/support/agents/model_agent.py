"""An agent that makes each kind of call with models, and notes what its code sees."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from payload_models import Colour, DataOrder, Item, PydanticItem, PydanticOrder, StructOrder, TypedOrder
from seekpoint.producers import Process, agent

__all__ = ["ORDER", "RESULT", "SEEN", "SHOE", "WANTED", "Receipt", "look_up", "refund", "same", "send_money", "untyped"]

ORDER = DataOrder(4711, [Item("shoe", Decimal("12.50"), Colour.RED)], anything=(1, None))
SHOE = Item("shoe")
SEEN: list[Any] = []


@dataclass(frozen=True)
class Receipt:
    """What a refund returns."""

    number: int
    amount: Decimal


async def look_up(order: DataOrder) -> StructOrder:
    """Return the order as another kind of model."""
    return StructOrder(order.number, order.items[0], frozenset({Colour.BLUE}))


async def list_items(order: DataOrder) -> list[Item]:
    """Return models in a list."""
    return [*order.items, Item("lace")]


async def ask_model(request: PydanticOrder) -> PydanticItem:
    """Answer with a model."""
    return PydanticItem(name=f"answer {request.number}")


async def stream_model(request: dict[str, int]) -> AsyncIterator[Item]:
    """Answer in chunks."""
    for number in range(request["number"]):
        yield Item(str(number))


async def send_money(item: Item, *, idempotency_key: str) -> Receipt:
    """Send money."""
    return Receipt(len(idempotency_key), item.price)


def read_file() -> TypedOrder:
    """Return a typed dict that has more than it names."""
    return {"number": 1, "item": Item("a"), "more": 2}  # type: ignore[typeddict-unknown-key]


@agent("refund")
async def refund(process: Process, order: DataOrder) -> Receipt:
    """Make each kind of call with models, and note what the code sees."""
    SEEN.append(order)
    SEEN.append(await process.step("look", look_up, order))
    SEEN.append(await process.step("items", list_items, order))
    SEEN.append(await process.decide("plan", ask_model, PydanticOrder(number=order.number)))
    SEEN.append(await process.decide("stream", stream_model, {"number": 2}))
    SEEN.append(await process.sample("file", read_file))
    sent = await process.effect("send", send_money, order.items[0])
    SEEN.append(sent)
    return Receipt(order.number, sent.amount)


WANTED = [
    ORDER, StructOrder(4711, ORDER.items[0], frozenset({Colour.BLUE})), [*ORDER.items, Item("lace")],
    PydanticItem(name="answer 4711"), [Item("0"), Item("1")], {"number": 1, "item": Item("a"), "more": 2},
    Receipt(len("p/send:1"), Decimal("12.50")),
]  # fmt: skip
RESULT = Receipt(4711, Decimal("12.50"))


def same(found: list[Any]) -> bool:
    """Whether the code has seen what is wanted, with the same classes."""
    return found == WANTED and [type(one) for one in found] == [type(one) for one in WANTED]


def untyped(value: Any) -> Any:
    """Return the value as one of which a type checker knows nothing, as JSON from outside."""
    return value
