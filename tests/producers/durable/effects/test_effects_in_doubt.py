"""Effects whose owner died in between: what the code says by now does not make them any less in doubt. In memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cut_offs import cut_here, cut_off
from open_processes import durable_side
from outside_ledger import Died, Ledger
from seekpoint.producers import Node
from seekpoint.producers.durable.effects.connectors import Connector, Connectors
from seekpoint.producers.durable.effects.effect_resolution import Effect
from seekpoint.schemas.errors import EffectUnknown

ONCE = Effect.AT_MOST_ONCE


async def die_in(node: Node, call: Any, known: Connectors | None = None, **how: Any) -> None:
    """An owner that dies in its call."""
    process = await node.open("p", take_over=True)
    durable_side(process).effects.connectors = known or Connectors()
    await cut_off(process.effect("pay", call, 5, **how))
    durable_side(process).abandon()


async def test_what_began_at_most_once_stays_so_whatever_the_code_says_by_now(node: Node, ledger: Ledger) -> None:
    """The intent was the more careful one: it counts."""
    ledger.fails = [Died()]
    await die_in(node, ledger.pay, semantics=ONCE)
    async with node.open("p", take_over=True) as process:
        with pytest.raises(EffectUnknown):
            await process.effect("pay", ledger.pay, 5, semantics=Effect.IDEMPOTENT)
    assert ledger.calls == {"p/pay:1": 1}


async def test_a_system_that_enforces_the_key_helps_only_who_hands_it_on(node: Node, ledger: Ledger) -> None:
    """A function of one's own in place of the connector's, which does not take the key, is never called again."""
    known, calls = Connectors(), []
    known.register(Connector("bank", ledger.pay, enforces_key=True))

    async def pay(amount: int) -> None:
        calls.append(amount)
        await cut_here()

    await die_in(node, pay, known, semantics=ONCE, connector="bank")
    async with node.open("p", take_over=True) as process:
        durable_side(process).effects.connectors = known
        with pytest.raises(EffectUnknown):
            await process.effect("pay", pay, 5, semantics=ONCE, connector="bank")
    assert calls == [5]


async def test_the_same_with_the_systems_own_function_is_called_again(node: Node, ledger: Ledger) -> None:
    """With the same key, which it takes once."""
    known = Connectors()
    known.register(Connector("bank", ledger.pay, enforces_key=True))
    ledger.fails = [Died()]
    await die_in(node, None, known, semantics=ONCE, connector="bank")
    async with node.open("p", take_over=True) as process:
        durable_side(process).effects.connectors = known
        assert await process.effect("pay", None, 5, semantics=ONCE, connector="bank") == "paid 5"
    assert ledger.calls == {"p/pay:1": 2}


async def test_who_waits_for_a_dispatcher_waits_no_longer_than_asked(node: Node, ledger: Ledger) -> None:
    """Nobody calls: ``EffectUnknown``, which says what to start. The intent stays, for a dispatcher and a next run."""
    known = Connectors()
    known.register(Connector("bank", ledger.pay, outbox=True))
    async with node.open("p") as process:
        durable_side(process).effects.connectors = known
        with pytest.raises(EffectUnknown, match="seekpoint serve dispatcher"):
            await asyncio.wait_for(process.effect("pay", None, 5, connector="bank", timeout=5), 60)
        assert process.state.calls["pay:1"].status == "pending"
    assert not ledger.calls
