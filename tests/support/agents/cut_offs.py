"""Cut a call or a run off at a point inside it, as a cancelled caller does: for the journal it is as a crash there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextvars import ContextVar
from typing import Any, NoReturn

import pytest

__all__ = ["cut_here", "cut_off"]

_caller: ContextVar[asyncio.Task[Any] | None] = ContextVar("caller", default=None)


async def cut_off(work: Awaitable[Any]) -> None:
    """Await ``work``, which comes to ``cut_here``."""

    async def call() -> None:
        _caller.set(asyncio.current_task())
        await work

    with pytest.raises(asyncio.CancelledError):
        await asyncio.ensure_future(call())


async def cut_here() -> NoReturn:
    """Cancel the caller of ``cut_off``, and wait for the end."""
    caller = _caller.get()
    assert caller is not None
    caller.cancel()
    await asyncio.Event().wait()
    raise AssertionError
