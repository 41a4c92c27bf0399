"""Bring a cancelled process to its end: cancel its children, compensate its effects, stop."""

from __future__ import annotations

from contextlib import suppress

from seekpoint.producers.durable.durable_process import DurableProcess
from seekpoint.producers.durable.effects.obligations import compensate
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import SeekpointError
from seekpoint.schemas.state.lifecycle import Lifecycle

__all__ = ["stop"]


async def stop(process: DurableProcess) -> None:
    """Bring a cancelled process to its end: stopping, its compensations, stopped. May be done again after a crash.

    Raises ``ObligationStuck`` if something could not be taken back: the process is failed, and tries again when run.
    """
    if process.cancellation.is_complete:
        return
    _move(process, _TO_STOPPING)
    await process.children.cancel()
    process.begin_anew()
    try:
        await compensate(process)
    except BaseException:
        if process.session.is_open:
            with suppress(SeekpointError):
                process.send(b.LifecycleChanged(Lifecycle.FAILED))
        raise
    _move(process, _TO_STOPPED)


def _move(process: DurableProcess, ways: dict[Lifecycle, Lifecycle]) -> None:
    to = ways.get(process.ahead_lifecycle)
    if to is not None:
        process.send(b.LifecycleChanged(to))


_L = Lifecycle
_TO_STOPPING = dict.fromkeys((_L.STARTING, _L.RUNNING, _L.SUSPENDED, _L.AWAITING, _L.FAILED), _L.STOPPING)
_TO_STOPPED = {_L.CREATED: _L.STOPPED, _L.STOPPING: _L.STOPPED}
