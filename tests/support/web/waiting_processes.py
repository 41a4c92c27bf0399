"""Processes that wait for something that the console can give them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import httpx

from consoles import Served
from seekpoint.producers import Node

__all__ = ["Caller", "run_until"]


async def run_until(node: Node, agent: Any, process_id: str, given: Any, lifecycle: str) -> None:
    """Run an agent until its process has the lifecycle, and leave it then, as a worker that is shut down does."""
    task = asyncio.ensure_future(node.run(agent, process_id, given))
    try:
        async with asyncio.timeout(20):
            while not task.done():
                state = (await node.recover(process_id, missing_ok=True)).state
                if str(state.lifecycle) == lifecycle:
                    break
                await asyncio.sleep(0.01)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class Caller:
    """A program that uses the API of a console without tokens."""

    def __init__(self, console: Served) -> None:
        self.client = console.client()
        page = self.client.get("/processes").text
        self._csrf = page.partition('name="csrf-token" content="')[2].partition('"')[0]

    def __enter__(self) -> Caller:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def post(self, action: str, **body: Any) -> httpx.Response:
        """Return the answer of ``/api/ACTION``."""
        return self.client.post(f"/api/{action}", json=body, headers={"X-CSRF-Token": self._csrf})

    def plan(self, action: str, **body: Any) -> dict[str, Any]:
        """Return a dry run."""
        answer = self.post(action, **body)
        assert answer.status_code == 200, answer.text
        assert answer.json()["outcome"] is None
        planned: dict[str, Any] = answer.json()["planned"]
        return planned

    def act(self, action: str, **body: Any) -> dict[str, Any]:
        """Return the outcome of an action, after its dry run."""
        answer = self.post(action, **body, plan_id=self.plan(action, **body)["plan_id"])
        assert answer.status_code == 200, answer.text
        outcome: dict[str, Any] = answer.json()["outcome"]
        return outcome

    def refused(self, action: str, **body: Any) -> tuple[int, str]:
        """Return the status and the code of a refusal."""
        answer = self.post(action, **body)
        return answer.status_code, answer.json()["error"]["code"]
