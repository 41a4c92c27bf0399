"""Steps, decisions and effects infer their results and check their arguments."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, assert_type

from seekpoint import Effect, Process, Retry, effect, step

ONCE = Effect.AT_MOST_ONCE


async def look_up(order: str, limit: int = 3) -> list[str]:
    """Return the items of an order."""
    return [order][:limit]


def price_of(item: str, *, currency: str = "EUR") -> dict[str, int]:
    """Return a price."""
    return {currency: len(item)}


async def send_money(amount: str, idempotency_key: str) -> int:
    """Send money; the key comes from the effect."""
    return len(amount + idempotency_key)


def cancel_order(order: str, reason: str, *, idempotency_key: str) -> bool:
    """Cancel an order; the key comes from the effect."""
    return bool(order and reason and idempotency_key)


async def ask_model(request: dict[str, str]) -> dict[str, str]:
    """Answer."""
    return {"model": request["model"]}


async def stream_model(request: dict[str, str]) -> AsyncIterator[int]:
    """Answer in chunks."""
    yield len(request)


async def untyped(*arguments: Any) -> Any:
    """Return anything."""
    return arguments


async def steps(process: Process) -> None:
    """The arguments and options are the function's, or the options are the call's own."""
    assert_type(await process.step("look", look_up, "4711"), list[str])
    assert_type(await process.step("look", look_up, "4711", limit=2), list[str])
    assert_type(await process.step("look", look_up, "4711", 2, retry=Retry(attempts=2), key="a"), list[str])
    assert_type(await process.step("price", price_of, "shoe", currency="USD"), dict[str, int])
    assert_type(await process.step("price", price_of, "shoe", timeout=5), dict[str, int])
    assert_type(await process.step("length", len, [1, 2]), int)
    assert_type(await process.step("lambda", lambda: 3), int)
    assert_type(await process.step("send", send_money, "12.50"), int)
    assert_type(await process.tool("cancel", cancel_order, "4711", "lost", key="b"), bool)
    assert_type(await process.step("any", untyped, 1, 2), Any)
    await process.step("look", look_up, 4711)  # wrong: an argument
    await process.step("look", look_up, 4711, key="a")  # wrong: an argument
    await process.step("look", look_up)  # wrong: an argument is missing
    await process.step("look", look_up, "4711", retyr=Retry())  # wrong: a misspelt option
    await process.step("look", look_up, "4711", timeout="soon")  # wrong: an option's value
    await process.step("price", price_of, "shoe", curency="USD")  # wrong: a misspelt option
    await process.step("price", price_of, "shoe", currency="USD", key="a")  # wrong: options of both kinds
    await process.step("send", send_money, 12.5)  # wrong: an argument
    await process.step("send", send_money, "12.50", retyr=Retry())  # wrong: a misspelt option
    await process.tool("look", look_up, 4711)  # wrong: an argument


async def decisions(process: Process) -> None:
    """The request is what the function takes; a stream is a list of its chunks."""
    assert_type(await process.decide("plan", ask_model, {"model": "small"}), dict[str, str])
    assert_type(await process.decide("plan", stream_model, {"model": "small"}, key="a"), list[int])
    assert_type(await process.decide("plan", untyped, 5), Any)
    await process.decide("plan", ask_model, "small")  # wrong: a request
    await process.decide("plan", ask_model, {"model": "small"}, polcy="2")  # wrong: a misspelt option


async def effects(process: Process) -> None:
    """An effect hands its function the key."""
    assert_type(await process.effect("send", send_money, "12.50"), int)
    assert_type(await process.effect("send", send_money, "12.50", semantics=ONCE, business_key="4711"), int)
    assert_type(await process.effect("cancel", cancel_order, "4711", "lost", retry=Retry(attempts=2)), bool)
    assert_type(await process.effect("look", look_up, "4711", limit=3), list[str])
    assert_type(await process.effect("pay", connector="bank", business_key="4711"), Any)
    await process.effect("send", send_money, 12.5, semantics=ONCE)  # wrong: an argument
    await process.effect("send", send_money, "12.50", semantic=ONCE)  # wrong: a misspelt option
    await process.effect("look", look_up, "4711", 3, 4)  # wrong: an argument too many
    await process.effect("look", look_up, "4711", irreversible="yes")  # wrong: an option's value


@step(retry=Retry(attempts=2))
async def ship(order: str, *, express: bool = False) -> int:
    """Ship an order."""
    return len(order) + express


@effect(semantics=ONCE, business_key="order")
async def refund(amount: str, *, idempotency_key: str) -> float:
    """Refund money."""
    return float(amount + idempotency_key)


async def decorated(process: Process) -> None:
    """All options are the function's; those of the call are ``with_options``."""
    assert_type(await ship(process, "4711", express=True), int)
    assert_type(await ship.with_options(key="a", timeout=5)(process, "4711", express=True), int)
    assert_type(await refund(process, "12.50"), float)
    assert_type(await refund.with_options(business_key="order-4711")(process, "12.50"), float)
    await ship(process, 4711)  # wrong: an argument
    await ship(process, "4711", key="a")  # wrong: the step's option
    await refund(process, 12.5)  # wrong: an argument
    ship.with_options(kye="a")  # wrong: a misspelt option
    refund.with_options(retry=3)  # wrong: an option's value
    effect(semantic=ONCE)  # wrong: a misspelt option
