"""An executor that is closed while it is used."""

from __future__ import annotations

import asyncio
import threading

import pytest

from seekpoint.consumers.recovery.threads import Threads
from seekpoint.schemas.errors import HandleClosed


async def test_what_waits_for_a_thread_at_the_close_is_answered_not_cancelled() -> None:
    """Accepted work is finished, and its caller is not cancelled. Later calls raise a typed error."""
    threads, held, loop = Threads(1), threading.Event(), asyncio.get_running_loop()
    calls = [loop.run_in_executor(threads, held.wait, 10) for _ in range(3)]
    threads.close()
    with pytest.raises(HandleClosed):
        loop.run_in_executor(threads, held.wait)
    held.set()
    assert await asyncio.gather(*calls, return_exceptions=True) == [True] * 3
