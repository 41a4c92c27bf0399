"""Business keys: one effect of the whole journal holds each, until it is certain that nothing was done. In memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from effect_owners import die_in_call, reopened
from outside_ledger import Ledger
from seekpoint.producers import Node
from seekpoint.producers.durable.effects.connectors import NotDone
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import EffectDuplicate


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    async with Node.in_memory(MemoryLog(partitions=2)) as node:
        yield node


async def test_a_business_key_is_one_effects_across_the_journal(node: Node, ledger: Ledger) -> None:
    """The second is refused, typed, and names who has it; that is remembered too."""
    async with node.open("p") as process:
        await process.effect("pay", ledger.pay, 5, business_key="order-1")
    for _ in range(2):
        async with node.open("q") as other:
            with pytest.raises(EffectDuplicate) as caught:
                await other.effect("pay", ledger.pay, 5, business_key="order-1")
            assert (caught.value.holder, caught.value.holder_key) == ("p", "pay:1")
            assert await other.effect("pay", ledger.pay, 5, business_key="order-2") == "paid 5"
    assert sorted(ledger.calls) == ["p/pay:1", "q/pay:2"]


async def test_two_that_take_a_business_key_at_once_have_one_winner(node: Node, ledger: Ledger) -> None:
    """Log order decides."""

    async def pay(process_id: str) -> Any:
        async with node.open(process_id) as process:
            return await process.effect("pay", ledger.pay, 5, business_key="order-1")

    found = await asyncio.gather(*(pay(f"p{n}") for n in range(6)), return_exceptions=True)
    assert sum(one == "paid 5" for one in found) == 1
    assert sum(isinstance(one, EffectDuplicate) for one in found) == 5
    assert sum(ledger.calls.values()) == 1


async def test_a_business_key_comes_free_only_when_nothing_was_done(node: Node, ledger: Ledger) -> None:
    """NotDone gives it back; what merely raised keeps it."""
    ledger.fails = [NotDone("declined"), ConnectionError("reset")]
    async with node.open("p") as process, node.open("q") as other:
        with pytest.raises(NotDone):
            await process.effect("pay", ledger.pay, 5, business_key="order-1")
        with pytest.raises(ConnectionError):
            await other.effect("pay", ledger.pay, 5, business_key="order-1")
        with pytest.raises(EffectDuplicate):
            await process.effect("pay", ledger.pay, 5, business_key="order-1")


async def test_a_takeover_keeps_the_business_key(node: Node, ledger: Ledger) -> None:
    """It is the effect's, not the owner's."""
    await die_in_call(node, ledger, business_key="order-1")
    async with reopened(node) as process:
        assert await process.effect("pay", ledger.pay, 5, business_key="order-1") == "paid 5"
