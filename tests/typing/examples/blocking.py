"""The calls without ``await`` have the same types."""

from __future__ import annotations

from typing import assert_type

from seekpoint import Process, Retry, SyncClient, SyncNode, SyncProcess, agent


@agent("double")
async def double(process: Process, number: int) -> str:
    """Double a number."""
    return str(number * 2)


async def look_up(order: str, limit: int = 3) -> list[str]:
    """Return the items of an order."""
    return [order][:limit]


def send_money(amount: str, idempotency_key: str) -> int:
    """Send money; the key comes from the effect."""
    return len(amount + idempotency_key)


def ask_model(request: dict[str, str]) -> dict[str, str]:
    """Answer."""
    return {"model": request["model"]}


def calls(process: SyncProcess) -> None:
    """The arguments are checked as those of a process are."""
    assert_type(process.step("look", look_up, "4711", limit=2), list[str])
    assert_type(process.step("look", look_up, "4711", retry=Retry(attempts=2)), list[str])
    assert_type(process.tool("send", send_money, "12.50"), int)
    assert_type(process.effect("send", send_money, "12.50", business_key="4711"), int)
    assert_type(process.decide("plan", ask_model, {"model": "small"}), dict[str, str])
    process.step("look", look_up, 4711)  # wrong: an argument
    process.step("look", look_up, "4711", retyr=Retry())  # wrong: a misspelt option
    process.effect("send", send_money, 12.5, business_key="4711")  # wrong: an argument
    process.decide("plan", ask_model, "small")  # wrong: a request


def runs(node: SyncNode, client: SyncClient) -> None:
    """Runs and submissions have the types of the agent."""
    assert_type(node.run(double, "d-1", 4), str)
    assert_type(client.submit(double, "d-1", 4).result(timeout=5), str)
    node.run(double, "d-1", "4")  # wrong: an input
    client.submit(double, "d-1", "4")  # wrong: an input
