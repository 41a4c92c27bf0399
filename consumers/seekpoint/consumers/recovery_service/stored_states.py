"""Wait until projectors have stored a recovered state in a checkpoint or in the view."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from seekpoint.consumers.recovery.recovery import Recovery
from seekpoint.consumers.recovery.recovery_report import Recovered
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import CheckpointTimeout, SeekpointError

if TYPE_CHECKING:
    from seekpoint.consumers.view_browser import View

_POLL_MIN_S, _POLL_MAX_S, _POLL_GROWTH = 0.25, 2.0, 1.3


class StoredStates:
    """Waits until projectors have stored a state. For one event loop."""

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

    async def wait_for_checkpoint(self, process_id: str, offset: int) -> None:
        """Wait until there is a checkpoint as of ``offset`` or later. Raises ``CheckpointTimeout``."""
        pause_s = _POLL_MIN_S
        try:
            async with asyncio.timeout(self._checkpoint_timeout_s):
                while True:
                    newest = await self._recovery.last_checkpoint(process_id)
                    if newest is not None and newest.problem is None and newest.offset >= offset:
                        return
                    await asyncio.sleep(pause_s)
                    pause_s = min(_POLL_MAX_S, pause_s * _POLL_GROWTH)
        except TimeoutError as exc:
            raise CheckpointTimeout(
                "no projector wrote a checkpoint in time",
                process_id=process_id,
                offset=offset,
                timeout_s=self._checkpoint_timeout_s,
            ) from exc

    async def wait_for_view(self, process_id: str, found: Recovered) -> str | None:
        """Wait until the view has the state or a newer one, and return ``view:ID``; None if that takes too long."""
        if self._settings.redis_url is None and self._view is None:
            return None
        if self._view is None:
            from seekpoint.consumers.view_browser import View

            self._view = View.connect(self._settings)
        try:
            async with asyncio.timeout(self._view_timeout_s):
                while not await self._has(self._view, process_id, found):  # noqa: ASYNC110  # Redis gives no event
                    await asyncio.sleep(_POLL_MIN_S)
        except TimeoutError:
            return None
        return f"view:{process_id}"

    async def _has(self, view: View, process_id: str, found: Recovered) -> bool:
        try:
            viewed = await view.get(process_id)
        except SeekpointError:  # no view, or none that can be used: the answer names no place
            return False
        topic_id = self._recovery.blocking.log.topic_id
        return viewed is not None and viewed.topic_id == topic_id and viewed.state.offset >= found.state.offset

    async def close(self) -> None:
        """Close the connection to Redis, if there is one."""
        if self._view is not None:
            await self._view.close()
