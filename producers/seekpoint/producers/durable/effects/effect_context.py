"""What the effects of one process share: connectors, business keys, the mailbox, and a way to speak once fenced."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from seekpoint.producers.durable.effects.business_keys import BusinessKeys
from seekpoint.producers.durable.effects.connectors import Connectors, connectors
from seekpoint.producers.durable.effects.external_outcome import OWNER
from seekpoint.producers.durable.effects.key_holders import has_let_go
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import Retryable, SeekpointError
from seekpoint.schemas.folding.fold import SHARED_PREFIX
from seekpoint.schemas.state.state import MailItem
from seekpoint.schemas.values.json_values import dump

if TYPE_CHECKING:
    from seekpoint.producers.node import Node
    from seekpoint.producers.process import Process
    from seekpoint.producers.writer.confirmer import Confirmer
    from seekpoint.producers.writer.handle import Handle

__all__ = ["EffectContext", "JournalValues"]

logger = logging.getLogger("seekpoint.producers")

_LOOK_S = 5.0
"""That no word comes may mean that nothing can be read: that is asked for now and then."""


class EffectContext:
    """One process's way to the outside world."""

    def __init__(self, process: Process, handle: Handle, confirmer: Confirmer) -> None:
        self._process = process
        self._handle = handle
        self._confirmer = confirmer
        self.connectors: Connectors = connectors
        """Where connectors are looked up."""
        self.owed: dict[str, Callable[..., Any] | str] = {}
        """The compensations that this run's code named, by the key of the effect."""
        self.business_keys = BusinessKeys(JournalValues(process.node), partial(has_let_go, process.node))

    @property
    def mail(self) -> list[MailItem]:
        """The external entries that wait, oldest first."""
        return self._handle.mail

    async def look(self) -> bool:
        """Fold what is in the log by now. Whether it could be read: a Kafka that is silent is no news."""
        try:
            await self._confirmer.to_end(self._handle)
            return True
        except Retryable as exc:
            logger.warning("%s: the log was not read: %s", self._process.process_id, exc)
            return False

    async def until(self, found: Callable[[], bool]) -> None:
        """Return once ``found`` says so; it is asked whenever the mailbox has changed. Raises what ends the process."""
        async with self._confirmer.watching(self._handle):
            while True:
                self._handle.check_open()
                self._handle.mail_changed.clear()
                if found():
                    return
                try:
                    async with asyncio.timeout(_LOOK_S):
                        await self._handle.mail_changed.wait()
                except TimeoutError:
                    await self.look()

    async def testify(self, body: b.EffectSettled, idempotency_key: str) -> None:
        """Tell the new owner what became of a call that this one made before it was fenced. Best effort."""
        process = self._process
        if body.outcome not in ("succeeded", "failed"):
            return
        told = b.EffectVerdict(
            key=body.key, outcome=body.outcome, output=body.output, error=body.error,
            reason="the former owner's own call", idempotency_key=idempotency_key,
        )  # fmt: skip
        try:
            await process.node.tell(process.process_id, told, actor=OWNER + process.node.node_id)
        except SeekpointError as exc:
            logger.warning("%s: nobody was told what became of %s: %s", process.process_id, body.key, exc)


class JournalValues:
    """The shared values of a node's journal."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def read(self, name: str) -> tuple[int, Any]:
        """Version (0: never set) and value."""
        state = (await self._node.recover(SHARED_PREFIX + name, missing_ok=True)).state
        return state.shared_version, state.shared

    async def write(self, name: str, value: Any, expected_version: int) -> None:
        """Set it if its version is the expected one."""
        await self._node.tell(SHARED_PREFIX + name, b.SharedSet(expected_version=expected_version, value=dump(value)))
