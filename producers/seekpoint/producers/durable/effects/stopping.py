"""Stop a cancelled process: cancel its children, compensate its effects."""

from __future__ import annotations

from contextlib import suppress

from seekpoint.producers.durable.durable_process import DurableProcess
from seekpoint.producers.durable.effects.compensation_runs import compensate
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import SeekpointError
from seekpoint.schemas.state.lifecycle import Lifecycle


async def stop(process: DurableProcess) -> None:
    """Stop a cancelled process: stopping, its compensations, stopped. Safe to call again after a crash.

    Raises ``ObligationStuck`` if a compensation is stuck: the process is failed, and its next run tries again.
    """
    if process.cancellation.is_complete:
        return
    _move(process, _TO_STOPPING)
    await process.children.cancel()
    process.reset_matcher()
    try:
        await compensate(process)
    except BaseException:
        if process.session.is_open:
            with suppress(SeekpointError):
                process.send(b.LifecycleChanged(Lifecycle.FAILED))
        raise
    _move(process, _TO_STOPPED)


def _move(process: DurableProcess, transitions: dict[Lifecycle, Lifecycle]) -> None:
    to = transitions.get(process.ahead_lifecycle)
    if to is not None:
        process.send(b.LifecycleChanged(to))


_L = Lifecycle
_TO_STOPPING = dict.fromkeys((_L.STARTING, _L.RUNNING, _L.SUSPENDED, _L.AWAITING, _L.FAILED), _L.STOPPING)
_TO_STOPPED = {_L.CREATED: _L.STOPPED, _L.STOPPING: _L.STOPPED}
