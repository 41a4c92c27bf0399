"""Put spans around calls that are executed. A call that the record answers gets none."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from seekpoint.producers.durable.durable_process import DurableProcess
    from seekpoint.producers.durable.replay.history_matcher import CallPlace

T = TypeVar("T")

_ANSWERED = frozenset({"succeeded", "failed"})


def spanned(
    process: DurableProcess, kind: str, name: str, place: CallPlace, asked: Any,
    run: Callable[..., Coroutine[Any, Any, T]],
) -> Callable[..., Coroutine[Any, Any, T]]:  # fmt: skip
    """Return ``run`` with a span around it; ``run`` itself without a tracer, or if the record answers the call."""
    if process.tracer is None or (place.record is not None and place.record.status in _ANSWERED):
        return run
    return process.tracer.call(kind, name, place.key, process.process_id, asked, run)
