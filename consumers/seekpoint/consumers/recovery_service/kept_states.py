"""Whether what a recovery found is kept by now, in a checkpoint or in the view: projectors keep it, this only looks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from seekpoint.consumers.recovery.recovery import Recovery
from seekpoint.consumers.recovery.recovery_report import Recovered
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import CheckpointTimeout, SeekpointError

if TYPE_CHECKING:
    from seekpoint.consumers.view.view_browser import View

__all__ = ["KeptStates"]

_LOOK_MIN_S, _LOOK_MAX_S, _LOOK_GROWTH = 0.25, 2.0, 1.3


class KeptStates:
    """Waits for what the projectors keep of a process. One event loop's."""

    def __init__(
        self,
        recovery: Recovery,
        settings: Settings,
        *,
        view: View | None = None,
        checkpoint_timeout_s: float = 60.0,
        view_timeout_s: float = 10.0,
    ) -> None:
        self._recovery = recovery
        self._settings = settings
        self._view = view
        self._checkpoint_timeout_s = checkpoint_timeout_s
        self._view_timeout_s = view_timeout_s

    async def checkpointed(self, process_id: str, offset: int) -> None:
        """Return once a checkpoint as of ``offset`` or later is saved. Raises ``CheckpointTimeout``."""
        pause_s = _LOOK_MIN_S
        try:
            async with asyncio.timeout(self._checkpoint_timeout_s):
                while True:
                    saved = await self._recovery.last_checkpoint(process_id)
                    if saved is not None and saved.problem is None and saved.offset >= offset:
                        return
                    await asyncio.sleep(pause_s)
                    pause_s = min(_LOOK_MAX_S, pause_s * _LOOK_GROWTH)
        except TimeoutError as exc:
            raise CheckpointTimeout(
                "no projector saved it in time",
                process_id=process_id,
                offset=offset,
                timeout_s=self._checkpoint_timeout_s,
            ) from exc

    async def in_view(self, process_id: str, found: Recovered) -> str | None:
        """``view:ID`` once the view has what was found, or something newer; None if it does not get it in time."""
        if self._settings.redis_url is None and self._view is None:
            return None
        if self._view is None:
            from seekpoint.consumers.view.view_browser import View

            self._view = View.connect(self._settings)
        try:
            async with asyncio.timeout(self._view_timeout_s):
                while not await self._has(self._view, process_id, found):  # noqa: ASYNC110  # Redis gives no event
                    await asyncio.sleep(_LOOK_MIN_S)
        except TimeoutError:
            return None
        return f"view:{process_id}"

    async def _has(self, view: View, process_id: str, found: Recovered) -> bool:
        try:
            viewed = await view.get(process_id)
        except SeekpointError:  # no view, or none that may be used: the answer goes without a place
            return False
        topic_id = self._recovery.blocking.log.topic_id
        return viewed is not None and viewed.topic_id == topic_id and viewed.state.offset >= found.state.offset

    async def close(self) -> None:
        """Give up the connection to Redis, if there is one."""
        if self._view is not None:
            await self._view.close()
