"""Rule O5: a handle whose appends are in doubt claims its process again, and sends again what did not land.

The new claim names the old one and the first seq that was never acknowledged. If the fold accepts it, no foreign claim
came between: entries that landed are acknowledged, the others are sent again under the new epoch. Else the handle is
fenced. The agent notices a delay, or gets one typed error.
"""

from __future__ import annotations

import asyncio
import logging

from seekpoint.producers.writer.confirmer import Confirmer
from seekpoint.producers.writer.handle import Handle
from seekpoint.producers.writer.identity import Identity
from seekpoint.producers.writer.outbox import Outbox
from seekpoint.producers.writer.pending import HandleStatus
from seekpoint.schemas.config.error_texts import error_line, traceback_of
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import AppendTimeout, ConfirmTimeout, Retryable, SeekpointError
from seekpoint.schemas.wire.codec import encode

logger = logging.getLogger("seekpoint.producers")

_RETRY_S = 0.2


class Healer:
    """The healing of one node's handles."""

    def __init__(self, outbox: Outbox, confirmer: Confirmer, identity: Identity, settings: Settings) -> None:
        self._outbox = outbox
        self._confirmer = confirmer
        self._identity = identity
        self._settings = settings
        self._tasks: dict[Handle, asyncio.Task[None]] = {}

    def begin(self, handle: Handle, reason: SeekpointError) -> None:
        """Heal ``handle`` in the background, unless it is being healed already."""
        if handle not in self._tasks:
            task = asyncio.create_task(self._heal(handle, reason), name=f"seekpoint-heal-{handle.process_id}")
            self._tasks[handle] = task
            task.add_done_callback(lambda _: self._tasks.pop(handle, None))

    async def close(self) -> None:
        """Cancel the healing of all handles."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _heal(self, handle: Handle, reason: SeekpointError) -> None:
        try:
            while not await self._heal_in_time(handle):
                logger.warning("process %s waits until the log has room", handle.process_id)
        except TimeoutError:
            error = AppendTimeout(
                "the log did not acknowledge in time, nor while healing",
                process_id=handle.process_id, last_seq=handle.acknowledged_seq,
                unacknowledged=len(handle.pending), reason=reason.message,
            )  # fmt: skip
            handle.fail(error)
        except SeekpointError as exc:
            handle.fail(exc)
        except Exception as exc:
            logger.error("healing failed: %s", traceback_of(exc, self._settings))
            handle.fail(
                SeekpointError(f"healing failed: {error_line(exc, self._settings)}", process_id=handle.process_id)
            )

    async def _heal_in_time(self, handle: Handle) -> bool:
        """Claim until that succeeds. After ``heal_timeout_s`` raise ``TimeoutError``, or return False without room."""
        try:
            async with asyncio.timeout(self._settings.heal_timeout_s):
                while not await self._claim_again(handle):  # noqa: ASYNC110  # Kafka gives no event to wait for
                    await asyncio.sleep(_RETRY_S)
        except TimeoutError:
            if not self._outbox.lacks_room:
                raise
            return False
        return True

    async def _claim_again(self, handle: Handle) -> bool:
        claim = handle.healing_claim(self._identity)
        try:
            offset = await self._outbox.push_external(handle.partition, handle.key, encode(claim))
            await self._confirmer.wait_for(handle, offset + 1)
        except ConfirmTimeout:
            return False
        except Retryable as exc:
            logger.warning("process %s claims again: %s", handle.process_id, exc)
            return False
        if handle.status is not HandleStatus.HEALING:
            return True
        again = handle.heal()
        logger.info("process %s healed: epoch %s, %s entries sent again", handle.process_id, handle.epoch, len(again))
        for pending in again:
            self._outbox.push(pending)
        return True
