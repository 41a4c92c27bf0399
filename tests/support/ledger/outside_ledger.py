"""The outside world of the effects' tests: a ledger that counts what was done, by idempotency key."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from cut_offs import cut_here
from seekpoint.producers.durable.effects.connectors import Reconciled
from seekpoint.producers.durable.effects.effect_resolution import Answer

__all__ = ["Died", "Ledger"]


class Died(Exception):
    """Says in ``Ledger.fails`` that the owner dies here: what is not in the log by now never gets there."""


class Ledger:
    """Counts calls. ``fails`` says what the next calls do instead of returning, oldest first (None: return)."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.done: dict[str, Any] = {}
        self.asked: Counter[str] = Counter()
        self.taken_back: list[str] = []
        self.fails: list[BaseException | None] = []
        self.answers: list[Answer | Reconciled | Exception] = []
        self.gate: asyncio.Event | None = None
        self.entered = asyncio.Event()

    async def pay(self, amount: int, *, idempotency_key: str) -> str:
        """Do it; or do it and fail."""
        self.calls[idempotency_key] += 1
        self.entered.set()
        if self.gate is not None:
            await self.gate.wait()
        self.done.setdefault(idempotency_key, amount)
        failure = self.fails.pop(0) if self.fails else None
        await _fail(failure)
        return f"paid {amount}"

    async def find(self, amount: int, *, idempotency_key: str) -> Answer | Reconciled:
        """What the ledger says, or what a test has it say."""
        self.asked[idempotency_key] += 1
        if self.answers:
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer
        if idempotency_key in self.done:
            return Reconciled(Answer.SUCCEEDED, f"paid {self.done[idempotency_key]}")
        return Answer.ABSENT

    async def pay_back(self, amount: int, *, output: str, idempotency_key: str) -> None:
        """Undo it."""
        self.calls[idempotency_key] += 1
        failure = self.fails.pop(0) if self.fails else None
        await _fail(failure)
        self.taken_back.append(f"{amount} of {output!r}")


async def _fail(failure: BaseException | None) -> None:
    if isinstance(failure, Died):
        await cut_here()
    if failure is not None:
        raise failure
