"""Owners of an effect: one that dies in its call, the next one, and what either has of the call."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from cut_offs import cut_off
from open_processes import durable_side
from outside_ledger import Died, Ledger
from seekpoint.producers import Node, Process
from seekpoint.producers.durable.effects.connectors import Connectors

__all__ = ["call_of", "die_in_call", "reopened"]


def call_of(process: Process, key: str = "pay:1") -> Any:
    return process.state.calls[key]


@asynccontextmanager
async def reopened(node: Node, connectors: Connectors | None = None) -> AsyncIterator[Process]:
    """The process as its next owner has it."""
    process = await node.open("p", take_over=True)
    durable_side(process).effects.connectors = connectors or durable_side(process).effects.connectors
    try:
        yield process
    finally:
        durable_side(process).abandon()


async def die_in_call(node: Node, ledger: Ledger, **how: Any) -> None:
    """An owner calls, and dies before it can write down what came of it."""
    process = await node.open("p", take_over=True)
    ledger.fails.append(Died())
    await cut_off(process.effect("pay", ledger.pay, 5, **how))
    durable_side(process).abandon()
