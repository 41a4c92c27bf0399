"""The pulse: a node says that it lives and what it owns, and watches the others do so (rule O6).

A hint for politeness, never a guard: who owns a process is decided by the log alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Executor

from seekpoint.consumers.heartbeats import Heartbeat, Heartbeats, Liveness
from seekpoint.producers.handle import Handle
from seekpoint.schemas.errors import SeekpointError
from seekpoint.schemas.log import LogReader
from seekpoint.schemas.settings import Settings

__all__ = ["Pulse"]

logger = logging.getLogger("seekpoint.producers")

_SPACING_S = 0.05


class Pulse:
    """Beats for one node, every ``heartbeat_interval_s`` and soon after a claim."""

    def __init__(
        self,
        reader: LogReader,
        executor: Executor,
        handles: Callable[[], Iterable[Handle]],
        node_id: str,
        boot_id: str,
        settings: Settings,
    ) -> None:
        self._executor = executor
        self._handles = handles
        self._node_id = node_id
        self._boot_id = boot_id
        self._interval_s = settings.heartbeat_interval_s
        self._store = Heartbeats(reader, settings)
        self.liveness = Liveness(self._store, settings.owner_timeout_s)
        self._claiming: set[bytes] = set()
        self._wake = asyncio.Event()
        self._beat = 0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to beat."""
        self._task = asyncio.create_task(self._go_on(), name="seekpoint-pulse")

    async def close(self) -> None:
        """Stop. Others see the pulse stand still."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def claiming(self, claim_id: bytes) -> None:
        """A claim is about to be sent: others should see its id no later than the claim itself."""
        self._claiming.add(claim_id)
        self._wake.set()

    def claimed(self, claim_id: bytes) -> None:
        """The claim is decided: if it won, an open handle shows it from here on."""
        self._claiming.discard(claim_id)

    def _claims(self) -> list[bytes]:
        mine = [claim for handle in self._handles() for claim in (handle.claim_id, *handle.healing_claims)]
        return [*mine, *self._claiming]

    async def _go_on(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._wake.clear()
            self._beat += 1
            heartbeat = Heartbeat(self._node_id, self._boot_id, tuple(self._claims()), self._beat)
            try:
                await loop.run_in_executor(self._executor, self._beat_once, heartbeat)
            except SeekpointError as exc:
                logger.warning("no heartbeat: %s", exc)
            await asyncio.sleep(_SPACING_S)
            try:
                async with asyncio.timeout(self._interval_s):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _beat_once(self, heartbeat: Heartbeat) -> None:
        self._store.publish(heartbeat)
        self.liveness.observe()
