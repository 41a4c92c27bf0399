"""The idempotency keys of calls: what payment services accept as an HTTP header, and what unfinished calls keep."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuts import until
from seekpoint.producers import Node, Process, Retry, agent
from seekpoint.producers.durable import idempotency_keys
from seekpoint.producers.durable.idempotency_keys import portable_key


@given(st.text(max_size=400))
def test_every_identity_gives_a_key_that_a_header_carries_and_that_no_other_identity_has(identity: str) -> None:
    """A key that is short and ASCII already never changes."""
    key = portable_key(identity)
    assert key.isascii()
    assert key.isprintable()
    assert 0 < len(key) <= 255
    assert key == key.strip()
    assert (key == identity) == (
        identity.isascii() and identity.isprintable() and 0 < len(identity) <= 255 and identity == identity.strip()
    )


class Interrupted:
    """The body of a step whose first attempt does not end; it notes the keys that it got."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    async def pay(self, *, idempotency_key: str) -> str:
        self.keys.append(idempotency_key)
        if len(self.keys) == 1:
            await asyncio.Event().wait()
        return "paid"


async def _cancel_the_first_attempt(node: Node, body: Interrupted) -> None:
    process = await node.open("fall-müller")
    task = asyncio.create_task(process.step("pay", body.pay))
    await until(lambda: body.keys)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await process.release()


async def test_a_step_that_an_older_version_began_keeps_its_key(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Older versions made keys of any text and length; the service may know the step by such a key already."""
    body = Interrupted()
    with monkeypatch.context() as older:
        older.setattr(idempotency_keys, "portable_key", str)
        await _cancel_the_first_attempt(node, body)
    async with node.open("fall-müller") as process:
        assert await process.step("pay", body.pay) == "paid"
    assert body.keys == ["fall-müller/pay:1"] * 2


async def test_every_attempt_of_a_step_gets_the_same_hashed_key(node: Node) -> None:
    """Also after a failure that was set aside."""
    keys: list[str] = []

    async def pay(*, idempotency_key: str) -> str:
        keys.append(idempotency_key)
        if len(keys) < 3:
            raise ValueError("no")
        return "paid"

    @agent("payer")
    async def payer(process: Process, _: Any) -> str:
        return await process.step("pay", pay, retry=Retry(attempts=2, backoff_s=0))

    with pytest.raises(ValueError, match="no"):
        await node.run(payer, "fall-müller")
    assert await node.run(payer, "fall-müller", retry_failed=True) == "paid"
    assert keys == [portable_key("fall-müller/pay:1")] * 3
