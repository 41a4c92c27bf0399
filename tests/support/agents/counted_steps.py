"""Bodies of steps that count their runs, and processes that are opened again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cut_offs import cut_here
from seekpoint.producers import Node, Process, register_failure

__all__ = ["CUT", "Counted", "Declined", "failing", "fails", "twice"]


CUT = object()
"""A result of ``Counted`` that never comes: its caller is cut off."""


class Counted:
    """A callable that counts how often it ran; what it does is up to the test."""

    def __init__(self, *results: Any) -> None:
        self.results = list(results)
        self.runs: list[tuple[Any, ...]] = []

    async def __call__(self, *arguments: Any, **options: Any) -> Any:
        self.runs.append((*arguments, *options.values()))
        result = self.results[min(len(self.runs), len(self.results)) - 1] if self.results else None
        if result is CUT:
            await cut_here()
        if isinstance(result, BaseException):
            raise result
        return result


@register_failure
class Declined(Exception):
    """A user's error."""


async def failing(process: Process, body: Any, **how: Any) -> str:
    """What a step ``pay`` failed with, as text."""
    try:
        await process.step("pay", body, **how)
    except Exception as exc:
        return f"{type(exc).__name__}: {exc}"
    return "fine"


async def twice(node: Node, work: Callable[[Process], Any]) -> list[Any]:
    """Run ``work`` on the process, leave it, and run it again."""
    results = []
    for _ in range(2):
        async with node.open("p") as process:
            results.append(await work(process))
    return results


async def fails(node: Node, run: Any, process_id: str = "p", kind: type[Exception] = Declined, **how: Any) -> None:
    """Run it, and expect that it fails."""
    with pytest.raises(kind):
        await node.run(run, process_id, **how)
