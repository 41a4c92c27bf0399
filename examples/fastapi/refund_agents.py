"""The agents of the example. `seekpoint worker refund_agents` runs them."""

from __future__ import annotations

from typing import Any

from seekpoint import Process, agent

__all__ = ["refund"]

_APPROVED_UP_TO = 100
"""Refunds above this amount wait for a person."""


@agent("refund")
async def refund(process: Process, order: dict[str, Any]) -> dict[str, Any]:
    """Refund an order. A large amount waits at the gate `approve`."""
    amount = await process.step("look up", look_up, order["order"])
    if amount > _APPROVED_UP_TO:
        answer = await process.gate("approve", prompt={"order": order["order"], "amount": amount})
        if answer.outcome != "approved":
            return {"refunded": 0}
    await process.effect("pay", pay, order["order"], amount)
    return {"refunded": amount}


async def look_up(order: str) -> int:
    """Return the price of an order. A real one asks the shop's database."""
    return len(order) * 20


async def pay(order: str, amount: int) -> str:
    """Pay the money back. A real one calls the bank with the effect's idempotency key."""
    return f"paid {amount} for {order}"
